//! What a node of a replication group reports.

use crate::catalogue;
use crate::gauge::{Gauge, GaugeShare};
use crate::registry::{RegisterError, Registry};

/// What a node of a replication group reports.
///
/// The default set is registered nowhere. How far the other nodes are behind is not in it: that is
/// [`catalogue::REPLICATION_LAG`], of which each of them owns one.
#[derive(Debug, Default)]
pub struct ReplicationMetrics {
    /// [`catalogue::REPLICATION_TERM`].
    pub term: GaugeShare,
    /// [`catalogue::REPLICATION_LEADS`].
    pub leads: GaugeShare,
    /// [`catalogue::REPLICATION_LOG_LAST`].
    pub last: GaugeShare,
    /// [`catalogue::REPLICATION_LOG_APPLIED`].
    pub applied: GaugeShare,
}

impl ReplicationMetrics {
    /// Exports the whole set under the name of `owner`.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`]: if `owner` has registered one of these metrics
    /// before, or one of their names is in use with another definition. None is exported then.
    pub fn register(&self, registry: &mut Registry, owner: &str) -> Result<(), RegisterError> {
        use catalogue as c;
        let gauge = |share: &GaugeShare| Gauge::clone(share.gauge()).into();
        registry.register_set(
            owner,
            [
                (c::REPLICATION_TERM, gauge(&self.term)),
                (c::REPLICATION_LEADS, gauge(&self.leads)),
                (c::REPLICATION_LOG_LAST, gauge(&self.last)),
                (c::REPLICATION_LOG_APPLIED, gauge(&self.applied)),
            ],
        )
    }
}
