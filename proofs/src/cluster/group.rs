//! A group of nodes in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spanlatch_metrics::ReplicaMetrics;
use spanlatch_replica::{Clock, FjallEngine, MemEngine, Records, Store, TimeSource};
use spanlatch_replica_raft::{Config, Node, NodeId};
use spanset::Key;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::content::Content;
use super::network::{Network, Weather};
use super::noting::{Applied, Noting};
use crate::Choices;

/// The nodes of a group.
pub(super) const IDS: [NodeId; 3] = [1, 2, 3];

/// Where a node listens.
pub(super) fn name(id: NodeId) -> String {
    format!("node{id}")
}

/// What the engines of nodes keep their data in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    InMemory,
    OnDisk,
}

/// A group, and all that its nodes leave behind.
pub(super) struct Group {
    pub(super) network: Network,
    pub(super) applied: Arc<Applied>,
    members: BTreeMap<NodeId, Member>,
    shape: Shape,
    /// A store for each leadership that was seen, with the latches that it should not have any more.
    stores: Vec<Store>,
    /// Where engines are, if they are on a disk.
    _folder: Option<TempDir>,
}

/// What there is of a node whether it runs or not.
struct Member {
    engine: Noting,
    clock: Skewed,
    metrics: ReplicaMetrics,
}

/// What is chosen about all nodes alike.
#[derive(Clone, Copy)]
struct Shape {
    snapshot_every: u64,
    keep_entries: u64,
    ceiling_step: Duration,
    few_reads: bool,
    release_reads_early: bool,
}

/// A node's clock: the runtime's, and ahead of it by as much as it is told.
#[derive(Clone)]
struct Skewed {
    began: Instant,
    ahead: Arc<AtomicU64>,
}

impl TimeSource for Skewed {
    fn wall_nanos(&self) -> u64 {
        let since = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        1_000_000_000 + since + self.ahead.load(Ordering::Relaxed)
    }
}

impl Group {
    /// Starts a group that `choices` describe.
    pub(super) async fn start(seed: u64, kept: Kept, choices: &mut Choices<'_>) -> Self {
        let folder = (kept == Kept::OnDisk).then(|| {
            let builder = tempfile::Builder::new()
                .prefix("spanlatch-cluster-")
                .tempdir();
            builder.expect("a temporary folder")
        });
        let applied = Arc::new(Applied::default());
        let began = Instant::now();
        let member = |id: NodeId| {
            let engine: Arc<dyn Records> = match &folder {
                None => Arc::new(MemEngine::outliving_stores()),
                Some(folder) => {
                    let opened = FjallEngine::open(folder.path().join(name(id)));
                    Arc::new(opened.expect("a new folder"))
                }
            };
            let member = Member {
                engine: Noting::new(engine, applied.clone()),
                clock: Skewed {
                    began,
                    ahead: Arc::default(),
                },
                metrics: ReplicaMetrics::default(),
            };
            (id, member)
        };
        let members = IDS.into_iter().map(member).collect();
        let mut group = Self {
            network: Network::new(seed),
            applied,
            members,
            shape: Shape {
                snapshot_every: choices.of(&[10, 30, 1_000]),
                keep_entries: choices.of(&[0, 5, 50]),
                ceiling_step: Duration::from_millis(choices.of(&[20, 200, 5_000])),
                few_reads: choices.one_in(2),
                release_reads_early: choices.one_in(2),
            },
            stores: Vec::new(),
            _folder: folder,
        };
        for id in IDS {
            group.skew(id, choices);
            group.restart(id).await;
        }
        group
    }

    /// Sets a node's clock, back if need be.
    pub(super) fn skew(&self, id: NodeId, choices: &mut Choices<'_>) {
        let ahead = choices.below(400) as u64 * 1_000_000;
        self.members[&id]
            .clock
            .ahead
            .store(ahead, Ordering::Relaxed);
    }

    /// Starts a node on what it has.
    pub(super) async fn restart(&mut self, id: NodeId) {
        let Member {
            engine,
            clock,
            metrics,
        } = &self.members[&id];
        let mut config = Config::new(
            id,
            IDS.iter().map(|&id| (id, name(id))).collect(),
            Arc::new(engine.clone()),
            Arc::new(self.network.end(id)),
            metrics.clone(),
        );
        config.heartbeat = Duration::from_millis(50);
        config.election_timeout = Duration::from_millis(150);
        config.snapshot_every = self.shape.snapshot_every;
        config.keep_entries = self.shape.keep_entries;
        let (shape, clock, metrics) = (self.shape, clock.clone(), metrics.clone());
        config.store = Arc::new(move || {
            let clock = Clock::with_source(clock.clone(), Clock::DEFAULT_MAX_AHEAD);
            let builder = Store::builder()
                .metrics(metrics.clone())
                .clock(clock)
                .ceiling_step(shape.ceiling_step)
                .splits([Key::from("c"), Key::from("n")]);
            let builder = match shape.few_reads {
                true => builder.timestamp_cache_capacity(4),
                false => builder,
            };
            match shape.release_reads_early {
                true => builder.release_reads_early(),
                false => builder,
            }
        });
        let node = Node::start(config).await.expect("it starts");
        self.network.connect(id, node);
    }

    /// Ends a node, as far as others can see at once.
    pub(super) async fn stop(&mut self, id: NodeId) {
        if let Some(node) = self.network.disconnect(id) {
            node.shut_down(Duration::ZERO).await;
        }
    }

    /// Those that serve, or think so.
    pub(super) fn leaders(&self) -> Vec<NodeId> {
        let serves = |id: &NodeId| self.network.node(*id).is_some_and(|n| n.status().serves);
        IDS.into_iter().filter(serves).collect()
    }

    /// Looks who serves, and keeps the store, to look at later.
    pub(super) fn look(&mut self) {
        for node in self.network.nodes() {
            if let Some(store) = node.store()
                && !self.stores.iter().any(|known| is_same(known, &store))
            {
                self.stores.push(store);
            }
        }
    }

    /// How many leaderships were seen.
    pub(super) fn leaderships(&self) -> u64 {
        self.stores.len() as u64
    }

    /// Ends all trouble, and waits until all nodes have the same log and have applied all of it.
    ///
    /// # Panics
    ///
    /// If that never comes.
    pub(super) async fn heal(&mut self) {
        self.network.heal();
        self.network.set_weather(Weather::CALM);
        for id in IDS {
            if self.network.node(id).is_none() {
                self.restart(id).await;
            }
        }
        self.settle().await;
    }

    /// Waits until all nodes have the same log and have applied all of it.
    pub(super) async fn settle(&self) {
        let patience = Duration::from_secs(60);
        let settled = async {
            while !self.is_settled() {
                sleep(Duration::from_millis(7)).await;
            }
        };
        if tokio::time::timeout(patience, settled).await.is_err() {
            let status = Vec::from_iter(self.network.nodes().iter().map(Node::status));
            panic!("after {patience:?} without trouble it is not as it should be: {status:#?}");
        }
    }

    fn is_settled(&self) -> bool {
        let status = Vec::from_iter(self.network.nodes().iter().map(Node::status));
        let last = status[0].last;
        self.leaders().len() == 1
            && status
                .iter()
                .all(|node| node.last == last && node.applied == last)
    }

    /// All nodes have the same, and it is what was applied; nothing is in flight, and no latch is held.
    ///
    /// # Panics
    ///
    /// If that is not so.
    pub(super) async fn check(&mut self) {
        self.look();
        let [first, others @ ..] = IDS.map(|id| {
            let content = Content::read(&self.members[&id].engine);
            (id, content.expect("it reads"))
        });
        for (id, other) in &others {
            first
                .1
                .compare(other, &format!("nodes {} and {id}", first.0));
        }
        first.1.compare_with_applied(&self.applied.batches());
        for id in IDS {
            let node = self.network.disconnect(id).expect("it runs");
            node.shut_down(Duration::from_secs(10)).await;
        }
        for store in &self.stores {
            assert!(store.is_idle(), "latches were left behind: {store:?}");
        }
        for (id, Member { metrics, .. }) in &self.members {
            for (name, gauge) in [
                ("proposals.pending", &metrics.proposals_pending),
                ("requests.slow.latch", &metrics.slow_latch),
                ("requests.slow.raft", &metrics.slow_raft),
            ] {
                assert_eq!(gauge.value(), 0, "{name} of node {id}");
            }
        }
    }
}

fn is_same(one: &Store, other: &Store) -> bool {
    std::ptr::eq(one.clock(), other.clock())
}
