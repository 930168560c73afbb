//! A node: a member of a group that replicates a store.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use openraft::entry::RaftEntry;
use openraft::{BasicNode, Entry, Membership, ServerState, Snapshot};
use parking_lot::{Mutex, RwLock};
use spanlatch::Manager;
use spanlatch_replica::{Batch, Error, Latches, Reply, Store};
use spanset::Timestamp;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use crate::config::Config;
use crate::leader::Leader;
use crate::log::Log;
use crate::machine::Machine;
use crate::network::Network;
use crate::snapshot::SnapshotData;
use crate::status::{Status, failure};
use crate::storage::{LAST, NODE, Storage, entry};
use crate::transport::{Answer, Ask, Message, Piece, Say};
use crate::types::{LeaderId, LogId, NodeId, Raft, RaftMetrics, Vote};

/// A member of a group that replicates a store. While it leads, it serves. Clones are handles to the same node.
///
/// It lives on the tokio runtime that it was started on, until it is [shut down](Self::shut_down).
pub struct Node<L = Manager> {
    shared: Arc<Shared<L>>,
}

struct Shared<L> {
    config: Config<L>,
    raft: Raft,
    storage: Arc<Storage>,
    /// While this node leads and serves. Nothing waits under it.
    leader: RwLock<Option<Arc<Leader<L>>>>,
    /// The snapshot that is being received.
    receiving: AsyncMutex<Option<Receiving>>,
    /// What watches who leads.
    watching: Mutex<Option<JoinHandle<()>>>,
}

/// A snapshot of which not all pieces have come.
struct Receiving {
    vote: Vote,
    id: String,
    /// The number of the next piece.
    next: u64,
    data: SnapshotData,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// It is not among those that it was told make up the group.
    #[error("node {id} is not among the peers {peers:?}")]
    UnknownNode {
        /// The node.
        id: NodeId,
        /// Those of the group.
        peers: Vec<NodeId>,
    },
    /// A group of an even number of nodes, which can do no more than one of a node less.
    #[error("a group has one node, or three, or another odd number, not {0}")]
    EvenGroup(usize),
    /// What the engine's ceiling says is that nothing outlives a store; here it does.
    #[error("an engine that forgets its marks: {0}")]
    Forgetful(String),
    /// The engine has the data of another node.
    #[error("the data is that of node {found}, not of node {id}")]
    OtherNode {
        /// The node that was to start.
        id: NodeId,
        /// The node whose data it is.
        found: NodeId,
    },
    /// The engine has the data of a node of another group.
    #[error("the data is of a group of the nodes {found:?}, not {peers:?}")]
    OtherGroup {
        /// The nodes that were given.
        peers: Vec<NodeId>,
        /// Those that the data is of.
        found: Vec<NodeId>,
    },
    /// The bounds in time cannot work.
    #[error(
        "an election timeout of {election_timeout:?} with a heartbeat of {heartbeat:?}: it must be longer"
    )]
    Timeouts {
        /// The heartbeat.
        heartbeat: Duration,
        /// The election timeout.
        election_timeout: Duration,
    },
    /// What the engine has kept cannot be read, or nothing can be written.
    #[error("storage: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl<L: Latches> Node<L> {
    /// Starts a node, as a new member of a new group or where it has stopped. It takes part at once, and serves when it leads.
    ///
    /// # Errors
    ///
    /// [`StartError`], before anything is changed, unless it is an error of the engine.
    pub async fn start(config: Config<L>) -> Result<Self, StartError> {
        let peers: Vec<NodeId> = config.peers.keys().copied().collect();
        let id = config.id;
        if !peers.contains(&id) {
            return Err(StartError::UnknownNode { id, peers });
        }
        if peers.len().is_multiple_of(2) {
            return Err(StartError::EvenGroup(peers.len()));
        }
        if config.heartbeat >= config.election_timeout {
            return Err(StartError::Timeouts {
                heartbeat: config.heartbeat,
                election_timeout: config.election_timeout,
            });
        }
        if config.engine.marks().ceiling == Timestamp::MAX {
            return Err(StartError::Forgetful(format!("{:?}", config.engine)));
        }
        let storage = Storage::open(config.engine.clone(), config.folder.clone())
            .map_err(StartError::Storage)?;
        let storage = Arc::new(storage);
        let peers = config.peers.clone();
        let claimed = storage.run(move |storage| Ok(claim(storage, id, &peers)));
        claimed.await.map_err(StartError::Storage)??;

        let network = Network {
            transport: config.transport.clone(),
            storage: storage.clone(),
        };
        let openraft = Arc::new(config.openraft());
        let (log, machine) = (Log(storage.clone()), Machine(storage.clone()));
        let raft = Raft::new(id, openraft, network, log, machine).await;
        let raft = raft.map_err(|error| StartError::Storage(error.into()))?;
        let node = Self {
            shared: Arc::new(Shared {
                config,
                raft,
                storage,
                leader: RwLock::new(None),
                receiving: AsyncMutex::new(None),
                watching: Mutex::new(None),
            }),
        };
        let watching = tokio::spawn(node.clone().watch());
        *node.shared.watching.lock() = Some(watching);
        Ok(node)
    }

    /// Serves a batch, if this node leads. As [`Store::send`].
    ///
    /// # Errors
    ///
    /// [`Error::NotLeader`]; else as [`Store::send`].
    pub async fn send(&self, batch: impl Into<Batch>) -> Result<Reply, Error> {
        self.send_until(std::future::pending(), batch).await
    }

    /// As [`send`](Self::send), until `cancelled` ends. As [`Store::send_until`].
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), and as [`Store::send_until`] says of being cancelled.
    pub async fn send_until(
        &self,
        cancelled: impl Future<Output = ()> + Send,
        batch: impl Into<Batch>,
    ) -> Result<Reply, Error> {
        let Some(leader) = self.leader() else {
            return Err(self.not_leader());
        };
        match leader.store.send_until(cancelled, batch).await {
            // The store is that of a leadership which is over.
            Err(Error::ShuttingDown | Error::NotLeader { .. }) => Err(self.not_leader()),
            served => served,
        }
    }

    /// Its number.
    pub fn id(&self) -> NodeId {
        self.shared.config.id
    }

    /// All nodes of its group, and where they listen.
    pub fn peers(&self) -> &BTreeMap<NodeId, String> {
        &self.shared.config.peers
    }

    /// The store, while this node leads and serves.
    pub fn store(&self) -> Option<Store<L>> {
        self.leader().map(|leader| leader.store.clone())
    }

    /// Removes versions that reads from `threshold` on do not see, on all nodes. As [`Store::collect_garbage`], but for how much
    /// that was.
    ///
    /// # Errors
    ///
    /// [`Error::NotLeader`]; [`Error::FutureTimestamp`], as there; [`Error::Ambiguous`], if it may still happen.
    pub async fn collect_garbage(&self, threshold: Timestamp) -> Result<(), Error> {
        let Some(leader) = self.leader() else {
            return Err(self.not_leader());
        };
        leader.store.raise_threshold(threshold)?;
        // In whole nanoseconds, as the store refuses reads.
        let collected = leader.proposer.collect(Timestamp::new(threshold.wall, 0));
        match collected.await {
            Err(Error::ShuttingDown | Error::NotLeader { .. }) => Err(self.not_leader()),
            result => result,
        }
    }

    /// Takes a message of another node's.
    ///
    /// # Errors
    ///
    /// Why it cannot be answered, for that node's log.
    pub async fn handle(&self, message: Message) -> Result<Answer, String> {
        let raft = &self.shared.raft;
        let said = match message.0 {
            Ask::Vote(request) => match raft.vote(request).await {
                Ok(response) => Ok(Say::Vote(response)),
                Err(error) => Err(error.to_string()),
            },
            Ask::Append(request) => match raft.append_entries(request).await {
                Ok(response) => Ok(Say::Append(response)),
                Err(error) => Err(error.to_string()),
            },
            Ask::Snapshot(piece) => self.receive(piece).await.map(Say::Snapshot),
        };
        said.map(Answer)
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let metrics = self.shared.raft.metrics().borrow().clone();
        let serves = self.leader().is_some();
        Status::new(&metrics, &self.shared.config.peers, serves)
    }

    /// Resolves when the node has stopped: with an error, if its storage or openraft has failed.
    ///
    /// # Errors
    ///
    /// What went wrong, in openraft's words.
    pub async fn stopped(&self) -> Result<(), String> {
        let mut metrics = self.shared.raft.metrics();
        let is_over = |metrics: &RaftMetrics| metrics.state == ServerState::Shutdown;
        match metrics.wait_for(is_over).await {
            Ok(metrics) => failure(&metrics).map_or(Ok(()), Err),
            Err(_) => Err("openraft has panicked".to_owned()),
        }
    }

    /// Stops serving, lets what was proposed end as it would have, if it does within `patience`, and then takes part no more.
    /// What has not ended by then is ambiguous.
    pub async fn shut_down(&self, patience: Duration) {
        let watching = self.shared.watching.lock().take();
        if let Some(watching) = watching {
            watching.abort();
            let _ = watching.await;
        }
        let leader = self.shared.leader.write().take();
        if let Some(leader) = &leader {
            leader.retire(patience).await;
        }
        if self.shared.raft.shutdown().await.is_err() {
            warn!("openraft has panicked");
        }
        // What it has begun to apply or to install goes on without it.
        let closed = self.shared.storage.run(|storage| {
            storage.close();
            Ok(())
        });
        if let Err(error) = closed.await {
            warn!(%error, "cannot wait for storage");
        }
        if let Some(leader) = leader {
            leader.end();
        }
    }

    fn leader(&self) -> Option<Arc<Leader<L>>> {
        self.shared.leader.read().clone()
    }

    fn not_leader(&self) -> Error {
        let known = self.shared.raft.metrics().borrow().current_leader;
        let other = known.filter(|&leader| leader != self.shared.config.id);
        let address = other.and_then(|leader| self.shared.config.peers.get(&leader));
        Error::NotLeader {
            leader: address.map(|address| address.as_str().into()),
        }
    }

    /// Begins to serve when this node begins to lead, and stops when it has stopped.
    async fn watch(self) {
        let mut metrics = self.shared.raft.metrics();
        // A leadership that ended before it began.
        let mut missed = None;
        loop {
            let leading = {
                let metrics = metrics.borrow_and_update();
                let is_elected = metrics.vote.committed && metrics.state == ServerState::Leader;
                is_elected.then_some(metrics.vote.leader_id)
            };
            let serving = self.leader().map(|leader| leader.id);
            if serving.is_some() && serving != leading {
                self.step_down();
            }
            match leading {
                Some(id) if serving != leading && missed != leading => {
                    let begun = self.begin(id);
                    tokio::select! {
                        is_begun = begun => if !is_begun {
                            missed = leading;
                        },
                        changed = no_longer(&mut metrics, id) => if changed.is_err() {
                            break;
                        },
                    }
                }
                _ => {
                    if metrics.changed().await.is_err() {
                        break;
                    }
                }
            }
        }
        self.step_down();
    }

    /// Returns whether it serves now.
    async fn begin(&self, id: LeaderId) -> bool {
        let Shared {
            raft,
            storage,
            config,
            ..
        } = &*self.shared;
        match Leader::begin(id, raft, storage, config).await {
            Ok(leader) => {
                *self.shared.leader.write() = Some(Arc::new(leader));
                info!(node = config.id, leadership = %id, "leads");
                true
            }
            Err(error) => {
                debug!(node = config.id, leadership = %id, %error, "does not lead");
                false
            }
        }
    }

    fn step_down(&self) {
        let leader = self.shared.leader.write().take();
        if let Some(leader) = leader {
            info!(node = self.shared.config.id, leadership = %leader.id, "leads no more");
            leader.end();
        }
    }

    /// Takes a piece of a snapshot, and installs that with the last one.
    async fn receive(
        &self,
        piece: Piece,
    ) -> Result<openraft::raft::SnapshotResponse<NodeId>, String> {
        let raft = &self.shared.raft;
        let known = raft.metrics().borrow().vote;
        if piece.vote < known {
            return Ok(openraft::raft::SnapshotResponse::new(known));
        }
        let mut receiving = self.shared.receiving.lock().await;
        if piece.number == 0 {
            *receiving = Some(Receiving {
                vote: piece.vote,
                id: piece.meta.snapshot_id.clone(),
                next: 0,
                data: SnapshotData::receive(&self.shared.storage.folder),
            });
        }
        let number = piece.number;
        let is_next = |of: &&mut Receiving| {
            of.vote == piece.vote && of.id == piece.meta.snapshot_id && of.next == number
        };
        let Some(of) = receiving.as_mut().filter(is_next) else {
            return Err(format!("piece {number} of a snapshot is not the next"));
        };
        of.data
            .add(&piece.content)
            .map_err(|error| error.to_string())?;
        of.next += 1;
        if !piece.is_last {
            return Ok(openraft::raft::SnapshotResponse::new(known));
        }
        let Some(complete) = receiving.take() else {
            return Err("the snapshot is gone".to_owned());
        };
        drop(receiving);
        info!(node = self.shared.config.id, meta = %piece.meta, "received a snapshot");
        let snapshot = Snapshot {
            meta: piece.meta,
            snapshot: Box::new(complete.data),
        };
        let installed = raft.install_full_snapshot(piece.vote, snapshot).await;
        installed.map_err(|error| error.to_string())
    }
}

/// Returns when `id` leads no more; fails when openraft has gone.
async fn no_longer(
    metrics: &mut tokio::sync::watch::Receiver<RaftMetrics>,
    id: LeaderId,
) -> Result<(), tokio::sync::watch::error::RecvError> {
    let is_over = |metrics: &RaftMetrics| {
        metrics.state != ServerState::Leader || metrics.vote.leader_id != id
    };
    metrics.wait_for(is_over).await.map(|_| ())
}

/// Sees to it that the engine has the data of this node in this group, or none. Then it founds the group: notes whose the data is,
/// and begins the log with who the members are. Each node of a group does so, and all say the same.
fn claim(
    storage: &Storage,
    id: NodeId,
    peers: &BTreeMap<NodeId, String>,
) -> Result<(), StartError> {
    let ids: Vec<NodeId> = peers.keys().copied().collect();
    match storage.read(&NODE).map_err(StartError::Storage)? {
        Some((found, _)) if found != id => return Err(StartError::OtherNode { id, found }),
        Some((_, found)) if found != ids => {
            return Err(StartError::OtherGroup { peers: ids, found });
        }
        Some(_) => return Ok(()),
        None => {}
    }
    let voters = vec![ids.iter().copied().collect()];
    let nodes: BTreeMap<NodeId, BasicNode> = peers
        .iter()
        .map(|(&id, address)| (id, BasicNode::new(address)))
        .collect();
    let first = LogId::default();
    let members = Entry::new_membership(first, Membership::new(voters, nodes));
    let founded = vec![NODE.of(&(id, ids)), entry(0).of(&members), LAST.of(&first)];
    let written = storage.write(founded);
    written.map_err(|error| StartError::Storage(error.into()))
}

impl<L> Clone for Node<L> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<L> fmt::Debug for Node<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}
