//! The types that openraft is used with.

use std::fmt;

use openraft::{BasicNode, TokioRuntime};
use serde::{Deserialize, Serialize};

use crate::command::Command;
use crate::flight::Answering;
use crate::snapshot::SnapshotData;

/// The number of a node, unique among those of a group and never reused.
pub type NodeId = u64;

openraft::declare_raft_types!(
    /// What openraft replicates for us, and between whom.
    pub(crate) TypeConfig:
        D = Command,
        R = Applied,
        NodeId = NodeId,
        Node = BasicNode,
        Entry = openraft::Entry<TypeConfig>,
        SnapshotData = SnapshotData,
        AsyncRuntime = TokioRuntime,
        Responder = Answering,
);

/// What came of applying a log entry. The same on every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Applied {
    /// It took effect.
    Done,
    /// It was evaluated under another leadership than the one that appended it, and had no effect.
    Stale,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Stale => "stale",
        })
    }
}

/// Names a leadership: the time from an election to the end of what its winner does in its term.
pub(crate) type LeaderId = openraft::CommittedLeaderId<NodeId>;
pub(crate) type LogId = openraft::LogId<NodeId>;
pub(crate) type Vote = openraft::Vote<NodeId>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<NodeId, BasicNode>;
pub(crate) type StoredMembership = openraft::StoredMembership<NodeId, BasicNode>;
pub(crate) type RaftMetrics = openraft::RaftMetrics<NodeId, BasicNode>;
pub(crate) type Raft = openraft::Raft<TypeConfig>;
