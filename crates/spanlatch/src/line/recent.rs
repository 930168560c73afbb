//! A few latches that are looked through faster than a tree is searched.

use arrayvec::ArrayVec;
use interval_btree::Interval;
use spanset::{Access, CompactKey, conflicts};

use crate::latch::{Latch, Owner};

/// How many latches there is room for. With so few in line, as is usual, no tree is touched.
pub(crate) const RECENT: usize = 16;

/// Up to [`RECENT`] latches of one scope and access, in no order.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    /// For how many there is room: fewer than [`RECENT`] in tests.
    pub(crate) capacity: usize,
    /// How far each entry reaches, in leading bytes: compared first, without branches.
    reaches: ArrayVec<(u128, u128), RECENT>,
    entries: ArrayVec<(Interval<CompactKey>, Owner), RECENT>,
}

impl Recent {
    /// An empty list with room for so many, at most [`RECENT`].
    pub(crate) fn new(capacity: usize) -> Self {
        Recent {
            capacity,
            reaches: ArrayVec::new(),
            entries: ArrayVec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many more there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Interval<CompactKey>, &Owner)> {
        self.entries
            .iter()
            .map(|(interval, owner)| (interval, owner))
    }

    /// Whether some entry may overlap; there are false alarms where keys have 16 bytes in common.
    #[inline]
    pub(crate) fn may_overlap(&self, interval: &Interval<CompactKey>) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let (start, end) = reach(interval);
        let overlaps =
            |&(other_start, other_end): &(u128, u128)| (other_start <= end) & (start <= other_end);
        (self.reaches.iter()).fold(false, |any, reach| any | overlaps(reach))
    }

    /// The newest entry that was sequenced before `sequence` and conflicts with `latch`; all have `access`.
    pub(crate) fn newest_conflict(
        &self,
        access: Access,
        latch: &Latch,
        sequence: u64,
    ) -> Option<&Owner> {
        let conflicting = self.iter().filter(|(interval, owner)| {
            owner.sequence < sequence
                && conflicts((latch.access, latch.timestamp), (access, owner.timestamp))
                && interval.overlaps(&latch.interval)
        });
        let owners = conflicting.map(|(_, owner)| owner);
        owners.max_by_key(|owner| owner.sequence)
    }

    /// Some entry that overlaps and was sequenced before `sequence`.
    pub(crate) fn overlapping(
        &self,
        interval: &Interval<CompactKey>,
        sequence: u64,
    ) -> Option<&Owner> {
        let mut entries = self.iter();
        let overlaps =
            entries.find(|(other, owner)| owner.sequence < sequence && other.overlaps(interval));
        overlaps.map(|(_, owner)| owner)
    }

    /// Adds an entry, for which there must be room.
    #[inline]
    pub(crate) fn push(&mut self, interval: Interval<CompactKey>, owner: Owner) {
        self.reaches.push(reach(&interval));
        self.entries.push((interval, owner));
    }

    /// Removes an entry; says whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, owner: &Owner) -> bool {
        let Some(at) = (self.entries.iter()).position(|(_, other)| other == owner) else {
            return false;
        };
        self.reaches.swap_remove(at);
        self.entries.swap_remove(at);
        true
    }

    /// Takes all entries out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Interval<CompactKey>, Owner)> {
        self.reaches.clear();
        self.entries.drain(..)
    }
}

/// The leading bytes of an interval's start and end.
#[inline]
fn reach(interval: &Interval<CompactKey>) -> (u128, u128) {
    let start = interval.start().leading();
    let end = match interval.end().key() {
        _ if interval.is_point() => start,
        Some(end) => end.leading(),
        None => u128::MAX,
    };
    (start, end)
}
