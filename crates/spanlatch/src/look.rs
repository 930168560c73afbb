//! The search for earlier conflicting latches, in bounded steps, resumable.

use interval_btree::{Bytewise, Interval, IntervalMap};
use spanset::{Access, CompactKey, conflicts};

use crate::latch::{Latch, Owner, RequestId};

/// Latches by interval.
pub(crate) type LatchTree = IntervalMap<CompactKey, Owner, 32, Bytewise>;

/// How far a request's search for earlier conflicts has come.
///
/// Latches that conflict and were sequenced earlier only ever disappear, never appear. So what has
/// been passed once need not be looked at again, and a search that goes on where it stopped, whatever
/// has changed meanwhile, finds every earlier conflict that is still there.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// Index of the request's own latch whose conflicts are being looked for.
    pub(crate) latch: usize,
    /// Which tree is being searched: the writes first, then, for a write, the reads.
    pub(crate) phase: Phase,
    /// The entry after which to go on; it may be gone.
    after: Option<Place>,
    /// How often latches had been moved to the tree when the search in it began.
    moves: u64,
}

/// An entry of a tree.
type Place = (Interval<CompactKey>, Owner);

/// Which tree is being searched.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Writes,
    Reads,
}

/// What a bounded look found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// No earlier conflict is left: the latches are held.
    #[default]
    Nothing,
    /// An earlier conflict, still held.
    Conflict(Owner),
    /// The steps ran out; look again.
    OutOfSteps,
}

impl Found {
    /// The conflict that was found.
    pub(crate) fn conflict(self) -> Option<RequestId> {
        match self {
            Found::Conflict(on) => Some(on.seat.request()),
            Found::Nothing | Found::OutOfSteps => None,
        }
    }
}

impl Look {
    /// A search that begins with the latch at `index`.
    pub(crate) fn at(index: usize) -> Self {
        Look {
            latch: index,
            ..Look::default()
        }
    }

    /// Gets ready to go on in a tree to which latches have been moved so often: if that has happened since
    /// the search began, it begins again. Returns the place from where it goes on.
    pub(crate) fn resume(&mut self, moves: u64) -> Option<Place> {
        if self.moves != moves {
            self.after = None;
            self.moves = moves;
        }
        self.after.clone()
    }

    /// Goes back to a place where the search was.
    pub(crate) fn go_back(&mut self, place: Option<Place>) {
        self.after = place;
    }

    /// Searches a tree, that of the latches with `access`, for a latch of a request sequenced before
    /// `sequence` that conflicts with `latch`, taking at most `steps` entries. O(steps log n).
    pub(crate) fn search(
        &mut self,
        tree: &LatchTree,
        access: Access,
        latch: &Latch,
        sequence: u64,
        steps: &mut usize,
    ) -> Found {
        let mut entries = match &self.after {
            None => tree.overlapping(&latch.interval),
            Some((interval, owner)) => tree.overlapping_after(&latch.interval, (interval, owner)),
        };
        let mut passed = None;
        while let Some((interval, owner)) = entries.next() {
            let earlier = owner.seat.sequence < sequence;
            let conflict =
                earlier && conflicts((latch.access, latch.timestamp), (access, owner.timestamp));
            if conflict || *steps == 0 {
                self.after = Some((interval.clone(), *owner));
                return match conflict {
                    true => Found::Conflict(*owner),
                    false => Found::OutOfSteps,
                };
            }
            *steps -= 1;
            if owner.seat.sequence > sequence && passed.replace(interval) == Some(interval) {
                // On one interval the newest come first, and there may be many: go to the earlier ones.
                let last_later = (interval, &Owner::at(sequence));
                entries = tree.overlapping_after(&latch.interval, last_later);
            }
        }
        self.after = None;
        Found::Nothing
    }
}
