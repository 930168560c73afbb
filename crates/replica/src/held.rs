//! The latches that a batch holds, and what to record before they are released.

use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;
use spanset::{Span, Timestamp};
use tracing::debug;

use crate::{Latches, Replica};

/// The latches of a batch on each range that it touches, in ascending order of the ranges.
///
/// Dropping it releases them and records nothing: for a batch that has read nothing.
#[must_use]
pub(crate) struct Held<L: Latches> {
    ranges: SmallVec<[HeldRange<L>; 1]>,
}

/// The latches on one range.
struct HeldRange<L: Latches> {
    guard: L::Guard,
    replica: Arc<Replica<L>>,
    /// What the batch read of the range.
    reads: Vec<Span>,
}

impl<L: Latches> Held<L> {
    /// No latches yet.
    pub(crate) fn new() -> Self {
        Self {
            ranges: SmallVec::new(),
        }
    }

    /// Adds the latches of the next higher range.
    pub(crate) fn push(&mut self, guard: L::Guard, replica: Arc<Replica<L>>) {
        self.ranges.push(HeldRange {
            guard,
            replica,
            reads: Vec::new(),
        });
    }

    /// Marks the latches as those of somebody who is stuck.
    pub(crate) fn poison(&self) {
        for range in &self.ranges {
            L::poison(&range.guard);
        }
    }

    /// Notes what the batch read of the range at position `range`.
    pub(crate) fn note_reads(&mut self, range: usize, spans: impl IntoIterator<Item = Span>) {
        let reads = &mut self.ranges[range].reads;
        if reads.is_empty() {
            *reads = Vec::from_iter(spans); // Takes over a vector as it is.
        } else {
            reads.extend(spans);
        }
    }

    /// Records the noted reads at `at`, in every range, and then releases the latches.
    pub(crate) fn record_and_release(mut self, at: Timestamp) {
        for range in &mut self.ranges {
            if !range.reads.is_empty() {
                range.replica.record(mem::take(&mut range.reads), at);
            }
        }
    }
}

/// Takes the mutexes of the latch managers, one after the other.
impl<L: Latches> Drop for Held<L> {
    fn drop(&mut self) {
        for HeldRange { guard, replica, .. } in mem::take(&mut self.ranges) {
            drop(guard);
            debug!(range = %replica.id(), "released");
        }
    }
}
