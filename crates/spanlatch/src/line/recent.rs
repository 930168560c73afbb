//! A few latches that are looked through faster than a tree is searched.

use arrayvec::ArrayVec;
use interval_btree::Interval;
use spanset::CompactKey;

use crate::latch::Seat;

/// How many latches there is room for. With so few in line, as is usual, no tree is touched.
pub(crate) const RECENT: usize = 16;

/// Up to [`RECENT`] intervals of one scope and access, in no order.
///
/// Of an interval only the leading bytes of its ends are kept here; where these overlap, whoever asks looks
/// it up by its seat.
#[derive(Debug)]
pub(crate) struct Recent {
    /// For how many there is room: fewer than [`RECENT`] in tests.
    pub(crate) capacity: usize,
    reaches: ArrayVec<Reach, RECENT>,
    seats: ArrayVec<Seat, RECENT>,
}

/// The leading bytes of an interval's start and end.
#[derive(Clone, Copy, Debug)]
struct Reach {
    start: u128,
    end: u128,
}

impl Recent {
    /// An empty list with room for so many, at most [`RECENT`].
    pub(crate) fn new(capacity: usize) -> Self {
        Recent {
            capacity,
            reaches: ArrayVec::new(),
            seats: ArrayVec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seats.len()
    }

    /// How many more there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.seats.len()
    }

    pub(crate) fn contains(&self, seat: &Seat) -> bool {
        self.seats.contains(seat)
    }

    /// Whether some entry may overlap.
    #[inline]
    pub(crate) fn may_overlap(&self, interval: &Interval<CompactKey>) -> bool {
        if self.seats.is_empty() {
            return false;
        }
        let reach = Reach::of(interval);
        (self.reaches.iter()).fold(false, |any, other| any | reach.may_overlap(*other))
    }

    /// The entries that may overlap: all that do, and perhaps some that have 16 bytes of a key in common.
    pub(crate) fn candidates(
        &self,
        interval: &Interval<CompactKey>,
    ) -> impl Iterator<Item = &Seat> {
        let reach = Reach::of(interval);
        let entries = self.seats.iter().zip(&self.reaches);
        entries.filter_map(move |(seat, other)| reach.may_overlap(*other).then_some(seat))
    }

    /// Adds an entry, for which there must be room.
    #[inline]
    pub(crate) fn push(&mut self, interval: &Interval<CompactKey>, seat: Seat) {
        self.reaches.push(Reach::of(interval));
        self.seats.push(seat);
    }

    /// Removes an entry; says whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, seat: &Seat) -> bool {
        let Some(at) = self.seats.iter().position(|other| other == seat) else {
            return false;
        };
        self.reaches.swap_remove(at);
        self.seats.swap_remove(at);
        true
    }

    /// Takes all entries out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Seat> {
        self.reaches.clear();
        self.seats.drain(..)
    }
}

impl Reach {
    #[inline]
    fn of(interval: &Interval<CompactKey>) -> Self {
        let start = interval.start().leading();
        let end = match interval.end().key() {
            _ if interval.is_point() => start,
            Some(end) => end.leading(),
            None => u128::MAX,
        };
        Reach { start, end }
    }

    /// False only if the intervals do not overlap. Without branches.
    #[inline]
    fn may_overlap(self, other: Reach) -> bool {
        (self.start <= other.end) & (other.start <= self.end)
    }
}
