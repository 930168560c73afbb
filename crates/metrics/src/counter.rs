//! A counter: a number that only ever rises.

use prometheus_client::metrics::counter::Counter as Number;

/// A number that only ever rises.
///
/// Clones count together. All operations are O(1), without a lock.
#[derive(Clone, Debug, Default)]
pub struct Counter(Number);

impl Counter {
    /// Counts one.
    pub fn inc(&self) {
        self.0.inc();
    }

    /// Counts `n`.
    pub fn add(&self, n: u64) {
        self.0.inc_by(n);
    }

    /// The count so far.
    pub fn value(&self) -> u64 {
        self.0.get()
    }
}
