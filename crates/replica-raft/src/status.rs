//! How a node is, for those who operate it.

use std::collections::BTreeMap;
use std::time::Duration;

use openraft::ServerState;
use openraft::error::Fatal;
use serde::Serialize;

use crate::types::{NodeId, RaftMetrics};

/// What a node does in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It leads.
    Leader,
    /// It stands for election.
    Candidate,
    /// It follows, or looks for whom to follow.
    Follower,
    /// It does nothing any more.
    Stopped,
}

/// How a node is, as it knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Its number.
    pub id: NodeId,
    /// What it does.
    pub role: Role,
    /// Whether it has begun to serve as the leader, and has not heard of another. It may be cut off, and then serves nothing:
    /// `followed` tells.
    pub serves: bool,
    /// The last term that it has heard of.
    pub term: u64,
    /// Who leads.
    pub leader: Option<NodeId>,
    /// The index of the last entry of its log.
    pub last: Option<u64>,
    /// The index of the last entry that it has applied.
    pub applied: Option<u64>,
    /// The index of the last entry that was removed.
    pub purged: Option<u64>,
    /// If it leads: how long ago most of the nodes were known to follow.
    pub followed: Option<Duration>,
    /// If it leads: up to where each node's log is known to be as its own.
    pub matching: BTreeMap<NodeId, Option<u64>>,
    /// Where each node listens.
    pub peers: BTreeMap<NodeId, String>,
    /// Why it has stopped, if it has by a failure.
    pub failure: Option<String>,
}

impl Status {
    pub(crate) fn new(
        metrics: &RaftMetrics,
        peers: &BTreeMap<NodeId, String>,
        serves: bool,
    ) -> Self {
        let matching = metrics.replication.iter().flatten();
        Self {
            id: metrics.id,
            role: match metrics.state {
                ServerState::Leader => Role::Leader,
                ServerState::Candidate => Role::Candidate,
                ServerState::Follower | ServerState::Learner => Role::Follower,
                ServerState::Shutdown => Role::Stopped,
            },
            serves,
            term: metrics.current_term,
            leader: metrics.current_leader,
            last: metrics.last_log_index,
            applied: metrics.last_applied.map(|applied| applied.index),
            purged: metrics.purged.map(|purged| purged.index),
            followed: metrics.millis_since_quorum_ack.map(Duration::from_millis),
            matching: matching
                .map(|(&id, log)| (id, log.map(|log| log.index)))
                .collect(),
            peers: peers.clone(),
            failure: failure(metrics),
        }
    }
}

/// Why openraft has stopped, if it was by a failure.
pub(crate) fn failure(metrics: &RaftMetrics) -> Option<String> {
    match &metrics.running_state {
        Ok(()) | Err(Fatal::Stopped) => None,
        Err(error) => Some(error.to_string()),
    }
}
