//! What the replicas of one owner report.

use crate::catalogue;
use crate::counter::Counter;
use crate::gauge::Gauge;
use crate::histogram::Histogram;
use crate::latch::LatchMetrics;
use crate::outcome::Outcomes;
use crate::registry::{RegisterError, Registry};

/// What the replicas of one owner (a store) report together.
///
/// Clones report together. Each replica takes [shares](Gauge::share) of the gauges, which it takes
/// along when it goes away. The default set is registered nowhere: a few small allocations, and
/// nobody reads it.
#[derive(Clone, Debug, Default)]
pub struct ReplicaMetrics {
    /// [`catalogue::REQUESTS`].
    pub requests: Outcomes,
    /// [`catalogue::REQUESTS_DURATION`].
    pub request_duration: Histogram,
    /// [`catalogue::REQUESTS_SLOW_LATCH`].
    pub slow_latch: Gauge,
    /// [`catalogue::REQUESTS_SLOW_RAFT`].
    pub slow_raft: Gauge,
    /// [`catalogue::LATCH_WAIT`].
    pub latch_wait: Histogram,
    /// [`catalogue::PROPOSALS`].
    pub proposals: Counter,
    /// [`catalogue::PROPOSALS_PENDING`].
    pub proposals_pending: Gauge,
}

impl ReplicaMetrics {
    /// What the latch manager of one replica reports: a share of the gauge and the common histogram.
    pub fn latch(&self) -> LatchMetrics {
        LatchMetrics {
            slow: self.slow_latch.share(),
            wait: self.latch_wait.clone(),
        }
    }

    /// Exports the whole set under the name of `owner`.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`]: if `owner` has registered one of these metrics
    /// before, or one of their names is in use with another definition. None is exported then.
    pub fn register(&self, registry: &mut Registry, owner: &str) -> Result<(), RegisterError> {
        use catalogue as c;
        registry.register_set(
            owner,
            [
                (c::REQUESTS, self.requests.clone().into()),
                (c::REQUESTS_DURATION, self.request_duration.clone().into()),
                (c::REQUESTS_SLOW_LATCH, self.slow_latch.clone().into()),
                (c::REQUESTS_SLOW_RAFT, self.slow_raft.clone().into()),
                (c::LATCH_WAIT, self.latch_wait.clone().into()),
                (c::PROPOSALS, self.proposals.clone().into()),
                (c::PROPOSALS_PENDING, self.proposals_pending.clone().into()),
            ],
        )
    }
}
