//! What one latch manager reports.

use crate::catalogue;
use crate::gauge::GaugeShare;
use crate::histogram::Histogram;
use crate::registry::{RegisterError, Registry};

/// What one latch manager reports.
///
/// The default one is registered nowhere: two small allocations, and nobody reads it.
#[derive(Debug, Default)]
pub struct LatchMetrics {
    /// Its share of [`catalogue::REQUESTS_SLOW_LATCH`].
    pub slow: GaugeShare,
    /// [`catalogue::LATCH_WAIT`]: real waits only.
    pub wait: Histogram,
}

impl LatchMetrics {
    /// Exports these metrics under the name of `owner`.
    ///
    /// For a latch manager used alone; that of a replica reports through
    /// [`ReplicaMetrics::latch`](crate::ReplicaMetrics::latch).
    ///
    /// # Errors
    ///
    /// As [`Registry::register`]: if `owner` has registered these metrics before.
    pub fn register(&self, registry: &mut Registry, owner: &str) -> Result<(), RegisterError> {
        registry.register(
            catalogue::REQUESTS_SLOW_LATCH,
            owner,
            self.slow.gauge().clone(),
        )?;
        registry.register(catalogue::LATCH_WAIT, owner, self.wait.clone())
    }
}
