//! A histogram of durations, recorded without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in nanoseconds, inclusive: 1, 2.5 and 5 in each decade from a
/// microsecond (a hand-off between two threads) to 100 seconds (far beyond any threshold).
pub(crate) const BOUNDS: [u64; 25] = {
    let mut bounds = [0; 25];
    let (mut i, mut decade) = (0, 1_000);
    while i < bounds.len() {
        bounds[i] = match i % 3 {
            0 => decade,
            1 => decade / 2 * 5,
            _ => decade * 5,
        };
        if i % 3 == 2 {
            decade *= 10;
        }
        i += 1;
    }
    bounds
};

const _: () = assert!(BOUNDS[0] == 1_000 && BOUNDS[1] == 2_500 && BOUNDS[24] == 100_000_000_000);

/// A distribution of durations over fixed buckets, from 1 µs to 100 s.
///
/// Clones record together. Recording costs a search among 25 bounds and two relaxed atomic
/// additions, mostly to memory that no other thread writes: `prometheus-client`'s own histogram takes a mutex
/// for each observation, which all requests of a store would share.
#[derive(Clone, Debug, Default)]
pub struct Histogram(Arc<[Buckets; SHARDS]>);

/// Threads record in so many places, which are added up when somebody looks.
const SHARDS: usize = 8;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Where this thread records: threads take turns.
    static SHARD: usize = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
}

/// Two cache lines apart, since processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Buckets {
    /// How many observations fell into each bucket; the last one is beyond all bounds.
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// Nanoseconds of all observations. 64 bits hold 584 years.
    sum: AtomicU64,
}

impl Histogram {
    /// Records one duration.
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|&bound| bound < nanos);
        // A thread that ends has no place of its own any more.
        let buckets = &self.0[SHARD.try_with(|shard| *shard).unwrap_or(0)];
        buckets.counts[bucket].fetch_add(1, Ordering::Relaxed);
        buckets.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How many durations were recorded.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The sum of all durations recorded.
    pub fn sum(&self) -> Duration {
        let sums = self
            .0
            .iter()
            .map(|buckets| buckets.sum.load(Ordering::Relaxed));
        Duration::from_nanos(sums.fold(0, u64::wrapping_add))
    }

    /// How many durations fell into each bucket, not added up; the last one is beyond all bounds.
    pub(crate) fn counts(&self) -> [u64; BOUNDS.len() + 1] {
        let count = |i: usize| {
            (self.0.iter()).map(move |buckets| buckets.counts[i].load(Ordering::Relaxed))
        };
        std::array::from_fn(|i| count(i).sum())
    }
}
