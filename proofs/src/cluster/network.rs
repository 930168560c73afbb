//! The network between nodes in one process, in which messages are late, overtake one another and get lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use spanlatch_replica_raft::{Answer, CallError, Message, Node, NodeId, Transport};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::Choices;

/// What carries messages between nodes, and between clients and nodes. Clones are the same network.
#[derive(Clone)]
pub(super) struct Network(Arc<Mutex<State>>);

struct State {
    choices: Choices<'static>,
    /// Those that run.
    nodes: BTreeMap<NodeId, Node>,
    /// From whom to whom nothing gets through.
    cut: BTreeSet<(NodeId, NodeId)>,
    weather: Weather,
}

/// How messages fare.
#[derive(Clone, Copy)]
pub(super) struct Weather {
    /// How long one takes at most, in milliseconds.
    pub(super) latest: usize,
    /// One in so many takes up to as long as an election does.
    pub(super) late: usize,
    /// One in so many is lost.
    pub(super) lost: usize,
}

impl Weather {
    /// Nothing is lost.
    pub(super) const CALM: Self = Self {
        latest: 3,
        late: usize::MAX,
        lost: usize::MAX,
    };

    pub(super) fn any(choices: &mut Choices<'_>) -> Self {
        Self {
            latest: choices.of(&[2, 2, 5, 20, 60]),
            late: choices.of(&[usize::MAX, 200, 20]),
            lost: choices.of(&[usize::MAX, usize::MAX, 100, 10, 3]),
        }
    }
}

/// A client, where a node is expected: nobody cuts it off.
pub(super) const CLIENT: NodeId = 0;

/// How long it takes until it is noticed that a message is lost.
const NOTICED: Duration = Duration::from_millis(300);

impl Network {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            choices: Choices::random(seed ^ 0x11e7),
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            weather: Weather::CALM,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic in between")
    }

    /// The end of the network at `node`.
    pub(super) fn end(&self, node: NodeId) -> End {
        End {
            of: node,
            network: self.clone(),
        }
    }

    pub(super) fn connect(&self, id: NodeId, node: Node) {
        self.state().nodes.insert(id, node);
    }

    pub(super) fn disconnect(&self, id: NodeId) -> Option<Node> {
        self.state().nodes.remove(&id)
    }

    /// The node, if it runs.
    pub(super) fn node(&self, id: NodeId) -> Option<Node> {
        self.state().nodes.get(&id).cloned()
    }

    /// All that run.
    pub(super) fn nodes(&self) -> Vec<Node> {
        self.state().nodes.values().cloned().collect()
    }

    pub(super) fn cut(&self, from: NodeId, to: NodeId) {
        self.state().cut.insert((from, to));
    }

    /// Lets everything through, in due course.
    pub(super) fn heal(&self) {
        self.state().cut.clear();
    }

    pub(super) fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Takes a message from one to the other. Returns whether it arrives.
    pub(super) async fn carry(&self, from: NodeId, to: NodeId) -> bool {
        let (delay, is_lost) = {
            let State {
                choices, weather, ..
            } = &mut *self.state();
            let latest = match choices.one_in(weather.late) {
                true => 400,
                false => weather.latest,
            };
            (choices.below(latest * 1_000), choices.one_in(weather.lost))
        };
        sleep(Duration::from_micros(delay as u64)).await;
        !is_lost && !self.state().cut.contains(&(from, to))
    }
}

/// The end of a network at one node.
pub(super) struct End {
    of: NodeId,
    network: Network,
}

impl Transport for End {
    /// What is on its way arrives even if nobody waits for the answer any more.
    fn call(&self, to: NodeId, message: Message) -> BoxFuture<'static, Result<Answer, CallError>> {
        let (network, of) = (self.network.clone(), self.of);
        // Nothing is shared by nodes that would not fit through a wire.
        let message = postcard::to_stdvec(&message).expect("a vector takes all bytes");
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let answer = exchange(&network, of, to, &message).await;
            // Whoever has given up need not be told.
            let _ = tell.send(answer);
        });
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(unreachable(to))) })
    }
}

async fn exchange(
    network: &Network,
    of: NodeId,
    to: NodeId,
    message: &[u8],
) -> Result<Answer, CallError> {
    if network.carry(of, to).await
        && let Some(receiver) = network.node(to)
    {
        let message = postcard::from_bytes(message).expect("it was written by this program");
        let answer = receiver.handle(message).await;
        let answer = answer.map_err(|reason| CallError::Refused { to, reason })?;
        let answer = postcard::to_stdvec(&answer).expect("a vector takes all bytes");
        if network.carry(to, of).await {
            return Ok(postcard::from_bytes(&answer).expect("it was written by this program"));
        }
    }
    sleep(NOTICED).await;
    Err(unreachable(to))
}

fn unreachable(to: NodeId) -> CallError {
    CallError::Unreachable {
        to,
        reason: "a message is lost".to_owned(),
    }
}
