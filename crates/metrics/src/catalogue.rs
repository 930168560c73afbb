//! The metrics that a replica and its node export: each one's name, help, unit and kind, and nowhere else.

use crate::def::{Def, Kind, Unit};

/// Requests that have been parked for a latch longer than the threshold.
pub const REQUESTS_SLOW_LATCH: Def = Def {
    name: "requests.slow.latch",
    help: "Requests that have been waiting for a latch longer than the threshold",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// Requests whose proposal has been under way longer than the threshold.
pub const REQUESTS_SLOW_RAFT: Def = Def {
    name: "requests.slow.raft",
    help: "Requests whose proposal has been under way longer than the threshold",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// How long requests waited until they held their latches. Those that did not wait are left out, and
/// those that gave up or were refused while they waited.
pub const LATCH_WAIT: Def = Def {
    name: "latch.wait",
    help: "How long requests waited until they held their latches, those left out that did not wait or never held them",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
};

/// Requests by outcome.
pub const REQUESTS: Def = Def {
    name: "requests",
    help: "Requests that ended, by outcome",
    unit: Unit::Count,
    kind: Kind::Counter,
};

/// How long requests took, from being received to the response.
pub const REQUESTS_DURATION: Def = Def {
    name: "requests.duration",
    help: "How long requests took from being received to the response",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
};

/// Proposals made.
pub const PROPOSALS: Def = Def {
    name: "proposals",
    help: "Proposals made",
    unit: Unit::Count,
    kind: Kind::Counter,
};

/// Proposals whose fate is not known yet.
pub const PROPOSALS_PENDING: Def = Def {
    name: "proposals.pending",
    help: "Proposals made and neither applied nor failed yet",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// The last term of a replication group that a node has heard of.
pub const REPLICATION_TERM: Def = Def {
    name: "replication.term",
    help: "The last term that the node has heard of",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// Whether a node leads its replication group.
pub const REPLICATION_LEADS: Def = Def {
    name: "replication.leads",
    help: "1 while the node leads and serves, else 0",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// The index of the last entry of a node's log.
pub const REPLICATION_LOG_LAST: Def = Def {
    name: "replication.log.last",
    help: "Index of the last entry of the node's log",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// The index of the last entry of its log that a node has applied.
pub const REPLICATION_LOG_APPLIED: Def = Def {
    name: "replication.log.applied",
    help: "Index of the last entry of its log that the node has applied",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// How far another node is behind the leader, as the leader knows. Its owner is the other node.
pub const REPLICATION_LAG: Def = Def {
    name: "replication.lag",
    help: "Entries of the log that the owner is not known to have, while the node that says so leads; else 0",
    unit: Unit::Count,
    kind: Kind::Gauge,
};

/// All of them.
pub const ALL: [Def; 12] = [
    REQUESTS_SLOW_LATCH,
    REQUESTS_SLOW_RAFT,
    LATCH_WAIT,
    REQUESTS,
    REQUESTS_DURATION,
    PROPOSALS,
    PROPOSALS_PENDING,
    REPLICATION_TERM,
    REPLICATION_LEADS,
    REPLICATION_LOG_LAST,
    REPLICATION_LOG_APPLIED,
    REPLICATION_LAG,
];
