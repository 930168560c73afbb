//! The latches that a batch holds, and what to record before they are released.

use std::sync::Arc;

use smallvec::SmallVec;
use spanset::{Span, Timestamp};

use crate::Latches;
use crate::timestamp_cache::TimestampCache;

/// The latches of a batch on each range that it touches, in ascending order of the ranges.
///
/// Dropping it releases them and records nothing: for a batch that has read nothing.
#[must_use]
pub(crate) struct Held<L: Latches> {
    ranges: SmallVec<[HeldRange<L>; 1]>,
}

/// The latches on one range.
struct HeldRange<L: Latches> {
    /// Held, not used.
    _guard: L::Guard,
    cache: Arc<TimestampCache>,
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

    /// Adds the latches of the next higher range, whose reads are recorded in `cache`.
    pub(crate) fn push(&mut self, guard: L::Guard, cache: Arc<TimestampCache>) {
        self.ranges.push(HeldRange {
            _guard: guard,
            cache,
            reads: Vec::new(),
        });
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
                range.cache.record(range.reads.drain(..), at);
            }
        }
        drop(self);
    }
}
