//! Takes what nodes and clients ask of a node.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spanlatch_replica::{Batch, Cause, Error, Latches, Reply};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

use crate::Node;
use crate::transport::{Answer, Message};
use crate::types::NodeId;
use crate::wire::{
    Call, End, Hello, IN_FLIGHT, Incoming, MAX_FRAME, Party, QUEUE, Said, TooLarge, Welcome, frame,
    ways, writes,
};

/// How many connections there are at most of those who have not said who they are; more are accepted later.
const STRANGERS: usize = 64;
/// How many connections of nodes there are at most; more are refused.
const NODES: usize = 64;
/// How many connections of clients there are at most; more are refused.
const CLIENTS: usize = 1024;
/// How long to wait after a connection could not be accepted: there may be no room for it in the process.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens for nodes and clients.
///
/// What cannot be read ends the connection on which it came, and nothing else. The numbers of connections, and of calls on
/// each, are bounded: a client that sends more is read later. Nothing is encrypted, and nodes are believed who they say they are:
/// for networks that nobody else has access to.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

/// Why a node cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Somebody else does.
    #[error("somebody listens at {address} already")]
    InUse {
        /// Where it was to listen.
        address: String,
    },
    /// The address is none of this machine's, cannot be found, or may not be used.
    #[error("cannot listen at {address}: {error}")]
    Unusable {
        /// Where it was to listen.
        address: String,
        /// What the system says.
        #[source]
        error: io::Error,
    },
}

impl Server {
    /// Listens at `address` (`host:port`; port 0 is any that is free). Connections wait until they are [served](Self::serve).
    ///
    /// # Errors
    ///
    /// [`BindError`].
    pub async fn bind(address: &str) -> Result<Self, BindError> {
        let listener = TcpListener::bind(address).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let address = address.to_owned();
        match bound {
            Ok((address, listener)) => Ok(Self { listener, address }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(BindError::InUse { address })
            }
            Err(error) => Err(BindError::Unusable { address, error }),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has `node` answer other nodes, and serve clients, until `until` ends. Then, and if this future is dropped, all connections are
    /// closed. A client that goes away, also by that, cancels what it has sent and what was not proposed. So shut the node down
    /// first, for clients to be told what became of theirs.
    pub async fn serve<L: Latches>(self, node: Node<L>, until: impl Future<Output = ()>) {
        self.serve_by(node, until).await;
    }

    pub(crate) async fn serve_by(self, handler: impl Handler, until: impl Future<Output = ()>) {
        let mut until = pin!(until);
        let seats = Arc::new(Seats::new());
        let mut connections = JoinSet::new();
        loop {
            // Bounded by the seats.
            while connections.try_join_next().is_some() {}
            let accepted = async {
                let stranger = seats.strangers.clone().acquire_owned().await;
                loop {
                    match self.listener.accept().await {
                        Ok((stream, from)) => return (stranger, stream, from),
                        Err(error) => warn!(%error, "cannot accept a connection"),
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            };
            let (stranger, stream, from) = tokio::select! {
                () = &mut until => return,
                accepted = accepted => accepted,
            };
            let (handler, seats) = (handler.clone(), seats.clone());
            connections.spawn(async move {
                match talk(stream, stranger, handler, &seats).await {
                    Ok(()) | Err(End::Closed) => debug!(%from, "disconnected"),
                    Err(end) => warn!(%from, %end, "disconnected"),
                }
            });
        }
    }
}

/// Who answers and serves: a [`Node`].
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    fn id(&self) -> NodeId;

    /// Whether that is a node of its group.
    fn knows(&self, node: NodeId) -> bool;

    fn handle(&self, message: Message) -> impl Future<Output = Result<Answer, String>> + Send;

    /// Dropping the future cancels the batch, unless it has been proposed.
    fn send(&self, batch: Batch) -> impl Future<Output = Result<Reply, Error>> + Send;
}

impl<L: Latches> Handler for Node<L> {
    fn id(&self) -> NodeId {
        Node::id(self)
    }

    fn knows(&self, node: NodeId) -> bool {
        self.peers().contains_key(&node)
    }

    fn handle(&self, message: Message) -> impl Future<Output = Result<Answer, String>> + Send {
        Node::handle(self, message)
    }

    fn send(&self, batch: Batch) -> impl Future<Output = Result<Reply, Error>> + Send {
        Node::send(self, batch)
    }
}

/// How many more connections there may be.
struct Seats {
    strangers: Arc<Semaphore>,
    nodes: Arc<Semaphore>,
    clients: Arc<Semaphore>,
}

impl Seats {
    fn new() -> Self {
        let [strangers, nodes, clients] =
            [STRANGERS, NODES, CLIENTS].map(|seats| Arc::new(Semaphore::new(seats)));
        Self {
            strangers,
            nodes,
            clients,
        }
    }

    /// A seat for whoever says `hello`, or why it gets none.
    fn take(&self, hello: &Hello, handler: &impl Handler) -> Result<OwnedSemaphorePermit, String> {
        let id = handler.id();
        if hello.to != id {
            return Err(format!("this is node {id}, not node {}", hello.to));
        }
        let seats = match hello.from {
            Party::Node(node) if node == id => return Err(format!("this is node {id}, too")),
            Party::Node(node) if !handler.knows(node) => {
                return Err(format!("node {node} is not a peer of node {id}"));
            }
            Party::Node(_) => &self.nodes,
            Party::Client => &self.clients,
        };
        let seat = seats.clone().try_acquire_owned();
        seat.map_err(|_| format!("node {id} has no room for another connection"))
    }
}

/// Hears who has connected, and answers it until the connection ends.
async fn talk(
    stream: TcpStream,
    stranger: Result<OwnedSemaphorePermit, AcquireError>,
    handler: impl Handler,
    seats: &Seats,
) -> Result<(), End> {
    let (mut incoming, mut outgoing) = ways(stream)?;
    let hello: Hello = match incoming.greeting().await {
        Err(end @ End::Version(_)) => {
            outgoing.greet(&Welcome::Err(end.to_string())).await?;
            return Err(end);
        }
        greeting => greeting?,
    };
    let seat = seats.take(&hello, &handler);
    let welcome: Welcome = match &seat {
        Ok(_) => Ok(handler.id()),
        Err(refusal) => Err(refusal.clone()),
    };
    outgoing.greet(&welcome).await?;
    let _seat = seat.map_err(End::Misplaced)?;
    drop(stranger);
    let (said, queue) = mpsc::channel(QUEUE);
    tokio::select! {
        end = answer(incoming, hello.from, handler, said) => end,
        end = outgoing.write(queue) => end,
    }
}

/// Has each call answered by a task of its own. When this ends, they do.
async fn answer(
    mut incoming: Incoming,
    from: Party,
    handler: impl Handler,
    said: mpsc::Sender<Bytes>,
) -> Result<(), End> {
    let mut calls = JoinSet::new();
    let mut batches: HashMap<u64, AbortHandle> = HashMap::new();
    loop {
        tokio::select! {
            Some(done) = calls.join_next() => match done {
                Ok(number) => drop(batches.remove(&number)),
                Err(failed) if failed.is_panic() => {
                    return Err(End::Misplaced("a call has panicked".to_owned()));
                }
                // It was taken back.
                Err(_) => {}
            },
            call = incoming.next(), if calls.len() < IN_FLIGHT => {
                let (number, call) = call?;
                let (handler, said) = (handler.clone(), said.clone());
                match (from, call) {
                    (Party::Node(_), Call::Message(message)) => {
                        calls.spawn(async move {
                            let answer = handler.handle(message).await;
                            let said_to = |answer| frame(number, &Said::Answer(answer));
                            say(&said, said_to(answer), |large| said_to(Err(large.to_string()))).await;
                            number
                        });
                    }
                    (Party::Client, Call::Batch(batch)) => {
                        let call = calls.spawn(async move {
                            let writes = writes(&batch);
                            let reply = handler.send(batch).await;
                            let said_to = |reply| frame(number, &Said::Reply(reply));
                            say(&said, said_to(reply), |large| said_to(Err(unsaid(writes, large)))).await;
                            number
                        });
                        batches.insert(number, call);
                    }
                    (Party::Client, Call::Forget) => {
                        if let Some(call) = batches.remove(&number) {
                            call.abort();
                        }
                    }
                    (from, _) => {
                        return Err(End::Misplaced(format!("{from} asks what it must not")));
                    }
                }
            }
        }
    }
}

/// Says it, or something smaller if it is too large.
async fn say(
    said: &mpsc::Sender<Bytes>,
    frame: Result<Bytes, TooLarge>,
    smaller: impl FnOnce(TooLarge) -> Result<Bytes, TooLarge>,
) {
    if let Ok(frame) = frame.or_else(smaller) {
        // If the connection is gone, nobody hears it.
        let _ = said.send(frame).await;
    }
}

/// What is said when the reply is too large.
fn unsaid(writes: bool, TooLarge { size }: TooLarge) -> Error {
    if writes {
        Error::Ambiguous(Cause::NoAnswer)
    } else {
        let max = MAX_FRAME;
        Error::ReplyTooLarge { size, max }
    }
}

#[cfg(test)]
mod tests;
