//! What a node exports beside its store's metrics: how it stands in its group.

use std::collections::BTreeMap;

use spanlatch_metrics::{
    Gauge, GaugeShare, RegisterError, Registry, ReplicationMetrics, catalogue,
};
use spanlatch_replica_raft::{NodeId, Status};

/// Gauges that say what a [`Status`] says, as of the last [`observe`](Self::observe).
#[derive(Debug)]
pub(crate) struct Replication {
    own: ReplicationMetrics,
    lags: BTreeMap<NodeId, GaugeShare>,
}

impl Replication {
    /// Exports the gauges of the node whose status this is.
    pub(crate) fn register(
        registry: &mut Registry,
        status: &Status,
    ) -> Result<Self, RegisterError> {
        let own = ReplicationMetrics::default();
        own.register(registry, "")?;
        let mut lags = BTreeMap::new();
        for &other in status.peers.keys().filter(|&&id| id != status.id) {
            let lag = Gauge::default();
            lags.insert(other, lag.share());
            registry.register(catalogue::REPLICATION_LAG, &format!("node-{other}"), lag)?;
        }
        Ok(Self { own, lags })
    }

    pub(crate) fn observe(&self, status: &Status) {
        self.own.term.set(number(status.term));
        self.own.leads.set(i64::from(status.serves));
        self.own.last.set(number(status.last.unwrap_or(0)));
        self.own.applied.set(number(status.applied.unwrap_or(0)));
        for (id, lag) in &self.lags {
            let has = status.matching.get(id).copied();
            lag.set(has.map_or(0, |has| {
                // The first entry is number 0.
                let [last, has] =
                    [status.last, has].map(|index| index.map_or(0, |index| index + 1));
                number(last.saturating_sub(has))
            }));
        }
    }
}

fn number(value: u64) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use spanlatch_replica_raft::Role;

    use super::*;

    fn leader() -> Status {
        Status {
            id: 1,
            role: Role::Leader,
            serves: true,
            term: 4,
            leader: Some(1),
            last: Some(20),
            applied: Some(19),
            purged: None,
            followed: None,
            matching: BTreeMap::from([(1, Some(20)), (2, Some(17)), (3, None)]),
            peers: [1, 2, 3].map(|id| (id, format!("host:{id}"))).into(),
            failure: None,
        }
    }

    #[test]
    fn the_leader_says_how_far_the_others_are_behind() -> Result<(), RegisterError> {
        let mut registry = Registry::new();
        let replication = Replication::register(&mut registry, &leader())?;
        replication.observe(&leader());
        let text = registry.to_string();
        for line in [
            "replication_term 4",
            "replication_leads 1",
            "replication_log_last 20",
            "replication_log_applied 19",
            "replication_lag{owner=\"node-2\"} 3",
            "replication_lag{owner=\"node-3\"} 21",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("node-1"), "{text}");
        Ok(())
    }

    #[test]
    fn a_follower_says_nothing_of_others() -> Result<(), RegisterError> {
        let mut registry = Registry::new();
        let replication = Replication::register(&mut registry, &leader())?;
        replication.observe(&leader());
        replication.observe(&Status {
            role: Role::Follower,
            serves: false,
            matching: BTreeMap::new(),
            ..leader()
        });
        let text = registry.to_string();
        assert!(text.contains("replication_leads 0\n"), "{text}");
        assert!(
            text.contains("replication_lag{owner=\"node-3\"} 0\n"),
            "{text}"
        );
        Ok(())
    }
}
