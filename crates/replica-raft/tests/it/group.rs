//! A group of nodes in this process, and the network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use spanlatch_metrics::ReplicaMetrics;
use spanlatch_replica::{Engine, Error, MemEngine, Reply, Request, Response, Versions};
use spanlatch_replica_raft::{Answer, CallError, Config, Message, Node, NodeId, Transport};
use spanset::{Key, Span};
use tokio::time::sleep;

/// What carries messages between the nodes of a group.
#[derive(Clone, Default)]
pub(crate) struct Network(Arc<Mutex<Links>>);

#[derive(Default)]
struct Links {
    nodes: BTreeMap<NodeId, Node>,
    /// From whom to whom nothing gets through.
    cut: BTreeSet<(NodeId, NodeId)>,
}

/// The end of a network at one node.
struct End {
    of: NodeId,
    network: Network,
}

impl Network {
    /// Lets nothing through from `from` to `to`.
    pub(crate) fn cut(&self, from: NodeId, to: NodeId) {
        self.0.lock().cut.insert((from, to));
    }

    /// Cuts `node` off from all others, in both directions.
    pub(crate) fn isolate(&self, node: NodeId) {
        for other in IDS.into_iter().filter(|&other| other != node) {
            self.cut(node, other);
            self.cut(other, node);
        }
    }

    /// Lets everything through.
    pub(crate) fn heal(&self) {
        self.0.lock().cut.clear();
    }

    /// The receiver of a message, if it gets through.
    fn receiver(&self, from: NodeId, to: NodeId) -> Option<Node> {
        let links = self.0.lock();
        if links.cut.contains(&(from, to)) {
            return None;
        }
        links.nodes.get(&to).cloned()
    }
}

impl Transport for End {
    fn call(&self, to: NodeId, message: Message) -> BoxFuture<'static, Result<Answer, CallError>> {
        let (network, of) = (self.network.clone(), self.of);
        let lost = move |reason: &str| CallError::Unreachable {
            to,
            reason: reason.to_owned(),
        };
        Box::pin(async move {
            sleep(LATENCY).await;
            let Some(receiver) = network.receiver(of, to) else {
                return Err(lost("cut"));
            };
            let answer = receiver.handle(message).await;
            sleep(LATENCY).await;
            if network.receiver(to, of).is_none() {
                // It has been received, and nobody will know.
                return pending().await;
            }
            answer.map_err(|reason| CallError::Refused { to, reason })
        })
    }
}

const LATENCY: Duration = Duration::from_millis(1);

/// The nodes of a group.
pub(crate) const IDS: [NodeId; 3] = [1, 2, 3];

/// A group of three nodes.
pub(crate) struct Group {
    pub(crate) network: Network,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) engines: BTreeMap<NodeId, Arc<MemEngine>>,
    pub(crate) metrics: BTreeMap<NodeId, ReplicaMetrics>,
    adjust: fn(&mut Config),
}

impl Group {
    /// A new group.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A new group of nodes that are not made as usual.
    pub(crate) async fn start_with(adjust: fn(&mut Config)) -> Self {
        let mut group = Self {
            network: Network::default(),
            nodes: BTreeMap::new(),
            engines: BTreeMap::new(),
            metrics: BTreeMap::new(),
            adjust,
        };
        for id in IDS {
            let engine = Arc::new(MemEngine::outliving_stores());
            group.engines.insert(id, engine);
            group.restart(id).await;
        }
        group
    }

    /// Starts a node on what its engine has.
    pub(crate) async fn restart(&mut self, id: NodeId) {
        let metrics = ReplicaMetrics::default();
        let transport = End {
            of: id,
            network: self.network.clone(),
        };
        let peers = IDS.iter().map(|&id| (id, format!("node{id}"))).collect();
        let engine = self.engines[&id].clone();
        let mut config = Config::new(id, peers, engine, Arc::new(transport), metrics.clone());
        (self.adjust)(&mut config);
        let node = Node::start(config).await.expect("it starts");
        self.network.0.lock().nodes.insert(id, node.clone());
        self.nodes.insert(id, node);
        self.metrics.insert(id, metrics);
    }

    /// Ends a node, as far as the others can see at once.
    pub(crate) async fn stop(&mut self, id: NodeId) {
        self.network.0.lock().nodes.remove(&id);
        let node = self.nodes.remove(&id).expect("it runs");
        node.shut_down(Duration::ZERO).await;
    }

    /// The node that serves, once there is one among `those`.
    pub(crate) async fn leader_of(&self, those: &[NodeId]) -> NodeId {
        loop {
            let serves = |id: &&NodeId| self.nodes.get(id).is_some_and(|n| n.status().serves);
            if let Some(&id) = those.iter().find(serves) {
                return id;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn leader(&self) -> NodeId {
        self.leader_of(&IDS).await
    }

    /// Waits until all nodes that run have applied all that `of` has.
    pub(crate) async fn caught_up(&self, of: NodeId) {
        loop {
            let applied = self.nodes[&of].status().applied;
            if self
                .nodes
                .values()
                .all(|node| node.status().applied >= applied)
            {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// All versions of a node's engine, and its marks.
    pub(crate) fn content(&self, id: NodeId) -> String {
        let engine = &self.engines[&id];
        let snapshot = engine.snapshot().expect("it is in memory");
        let versions = Versions::new(snapshot, Span::all());
        let lines = versions.map(|version| format!("{:?}\n", version.expect("it is in memory")));
        lines.collect::<String>() + &format!("{:?}", engine.marks())
    }
}

pub(crate) async fn put(node: &Node, key: &str, value: &str) -> Result<Reply, Error> {
    let put = Request::put(Key::from(key.to_owned()), value.to_owned());
    node.send(put).await
}

pub(crate) async fn get(node: &Node, key: &str) -> Result<Option<String>, Error> {
    let reply = node.send(Request::get(Key::from(key.to_owned()))).await?;
    let Some(Response::Value(value)) = reply.responses.into_iter().next() else {
        panic!("a get is answered by a value");
    };
    Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}
