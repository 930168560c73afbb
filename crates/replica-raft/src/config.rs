//! What a node is told when it starts.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::SnapshotPolicy;
use spanlatch::Manager;
use spanlatch_metrics::ReplicaMetrics;
use spanlatch_replica::{Latches, RangeId, Records, Store, StoreBuilder};

use crate::transport::Transport;
use crate::types::NodeId;

/// What a node is made of. Clones describe the same node.
pub struct Config<L = Manager> {
    /// Its number.
    pub id: NodeId,
    /// All nodes of the group, this one too, with the addresses at which clients and other nodes find them. The same on every
    /// node, and for ever: one node, or three, or any odd number.
    pub peers: BTreeMap<NodeId, String>,
    /// Where it keeps versions, and its log. Nobody else's.
    pub engine: Arc<dyn Records>,
    /// How it reaches the others.
    pub transport: Arc<dyn Transport>,
    /// Begins a store whenever this node begins to lead: everything about it but the engine, the proposer and the leadership.
    pub store: Arc<dyn Fn() -> StoreBuilder + Send + Sync>,
    /// Makes the latches of each range of a store.
    pub latches: Arc<dyn Fn(RangeId) -> L + Send + Sync>,
    /// How often a leader tells the others that it leads.
    pub heartbeat: Duration,
    /// For how long followers of a leader that is not heard of any more elect nobody else, and then wait before they stand for
    /// election: twice this, and a time chosen at random from this to twice as long. So another leads after three to four times this.
    pub election_timeout: Duration,
    /// After how many log entries a part of the log is removed; who was away for longer gets a snapshot.
    pub snapshot_every: u64,
    /// How many log entries are kept all the same.
    pub keep_entries: u64,
    /// Where snapshots are kept until all of them has come, as temporary files.
    pub folder: PathBuf,
}

impl Config {
    /// With the latch manager, and all else as it is unless said otherwise.
    pub fn new(
        id: NodeId,
        peers: BTreeMap<NodeId, String>,
        engine: Arc<dyn Records>,
        transport: Arc<dyn Transport>,
        metrics: ReplicaMetrics,
    ) -> Self {
        let latch = metrics.clone();
        let latches = move |_| Manager::builder().metrics(latch.latch()).build();
        let store = move || Store::builder().metrics(metrics.clone());
        Self::with_latches(id, peers, engine, transport, store, latches)
    }
}

impl<L: Latches> Config<L> {
    /// How often a leader tells that it leads, unless said otherwise.
    pub const HEARTBEAT: Duration = Duration::from_millis(200);
    /// How long a node waits before it stands for election, unless said otherwise.
    pub const ELECTION_TIMEOUT: Duration = Duration::from_millis(1000);
    /// After how many entries a part of the log is removed, unless said otherwise.
    pub const SNAPSHOT_EVERY: u64 = 5_000;
    /// How many entries are kept all the same, unless said otherwise.
    pub const KEEP_ENTRIES: u64 = 1_000;

    /// With other latches.
    pub fn with_latches(
        id: NodeId,
        peers: BTreeMap<NodeId, String>,
        engine: Arc<dyn Records>,
        transport: Arc<dyn Transport>,
        store: impl Fn() -> StoreBuilder + Send + Sync + 'static,
        latches: impl Fn(RangeId) -> L + Send + Sync + 'static,
    ) -> Self {
        Self {
            id,
            peers,
            engine,
            transport,
            store: Arc::new(store),
            latches: Arc::new(latches),
            heartbeat: Self::HEARTBEAT,
            election_timeout: Self::ELECTION_TIMEOUT,
            snapshot_every: Self::SNAPSHOT_EVERY,
            keep_entries: Self::KEEP_ENTRIES,
            folder: env::temp_dir(),
        }
    }

    /// As openraft wants to be told.
    pub(crate) fn openraft(&self) -> openraft::Config {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        openraft::Config {
            cluster_name: "spanlatch".to_owned(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election_timeout),
            election_timeout_max: millis(self.election_timeout.saturating_mul(2)),
            // Whether the follower has installed it is known when it answers; the leadership's end ends the wait.
            install_snapshot_timeout: millis(Duration::from_secs(24 * 60 * 60)),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            max_in_snapshot_log_to_keep: self.keep_entries,
            ..openraft::Config::default()
        }
    }
}

impl<L> fmt::Debug for Config<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("id", &self.id)
            .field("peers", &self.peers)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}
