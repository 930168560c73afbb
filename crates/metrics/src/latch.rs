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
    /// [`catalogue::LATCH_WAIT`]: real waits that ended with the latches held, and no others.
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
    /// As [`Registry::register`]: if `owner` has registered one of these metrics
    /// before, or one of their names is in use with another definition. None is exported then.
    pub fn register(&self, registry: &mut Registry, owner: &str) -> Result<(), RegisterError> {
        registry.register_set(
            owner,
            [
                (
                    catalogue::REQUESTS_SLOW_LATCH,
                    self.slow.gauge().clone().into(),
                ),
                (catalogue::LATCH_WAIT, self.wait.clone().into()),
            ],
        )
    }
}
