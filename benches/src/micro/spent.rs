//! What a piece of work takes.

use std::iter::Sum;
use std::time::{Duration, Instant};

use alloc_counter::count_alloc;

/// What a piece of work takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Its time.
    pub time: Duration,
    /// The allocations of its threads, reallocations included. They are counted in a program that has
    /// `alloc_counter` as its allocator, as `spanlatch-bench` has; elsewhere there seem to be none.
    pub allocs: u64,
}

impl Spent {
    /// Does the work, on this thread.
    pub fn on(work: impl FnOnce()) -> Self {
        let start = Instant::now();
        let ((allocations, reallocations, _), ()) = count_alloc(work);
        Self {
            time: start.elapsed(),
            allocs: (allocations + reallocations) as u64,
        }
    }
}

impl Sum for Spent {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            time: sum.time + one.time,
            allocs: sum.allocs + one.allocs,
        })
    }
}
