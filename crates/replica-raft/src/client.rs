//! A client of a group: finds the node that leads, and follows it when it changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spanlatch_replica::{Batch, Cause, Error, Reply, Serve};
use spanset::Timestamp;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::debug;

use crate::link::{Link, NotSent};
use crate::types::NodeId;
use crate::wire::{Call, MAX_FRAME, Party, Said, TooLarge, writes};

/// A client of a group of nodes, over TCP. Clones are handles to the same client, and share its connections: one to each node that it
/// has asked.
///
/// It sends each batch to the node that it takes for the leader, and goes on to others where that says that it does not lead, or is not
/// reached, until one has served the batch or the time is up. A batch that can write is never sent again once it was sent and nothing was
/// said to it: nobody knows then whether it is applied, and the error is [`Error::Ambiguous`]. Dropping the future of a batch takes it
/// back, if it was not proposed.
///
/// Its futures have to be polled on a tokio runtime, which must have its drivers of time and of sockets enabled.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    links: BTreeMap<NodeId, Link>,
    options: ClientOptions,
    /// Whom to ask first.
    leader: Mutex<NodeId>,
}

/// How patient a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct ClientOptions {
    patience: Duration,
    pause: Duration,
}

impl Default for ClientOptions {
    /// 10 seconds for a batch, and pauses of 50 milliseconds.
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            pause: Duration::from_millis(50),
        }
    }
}

impl ClientOptions {
    /// How long a batch may take in all. In the last tenth of that it is sent nowhere any more: what was sent has that long to be
    /// answered, lest it be ambiguous for no better reason.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long the client pauses when it has asked as many nodes in vain as there are.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}

/// Longer than anybody waits; a sum with any time is one, too.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Until when a batch has to be sent, and answered.
#[derive(Debug, Clone, Copy)]
struct Times {
    sent: Instant,
    answered: Instant,
}

/// What came of asking one node.
enum Tried {
    /// It was served, or failed in a way that it would anywhere.
    Done(Result<Reply, Error>),
    /// Not there. Nothing was written. Whom to ask next, if that is known.
    Elsewhere(Error, Option<NodeId>),
}

impl Client {
    /// A client of the group of these nodes, which listen at these addresses (`host:port`), with the default options. Nothing is
    /// connected yet.
    pub fn new(peers: &BTreeMap<NodeId, String>) -> Self {
        Self::with_options(peers, ClientOptions::default())
    }

    /// A client of the group of these nodes.
    pub fn with_options(peers: &BTreeMap<NodeId, String>, options: ClientOptions) -> Self {
        let link = |(&id, address): (&NodeId, &String)| {
            let link = Link::new(Party::Client, id, address.clone());
            (id, link)
        };
        Self {
            shared: Arc::new(Shared {
                links: peers.iter().map(link).collect(),
                options,
                leader: Mutex::new(peers.keys().next().copied().unwrap_or_default()),
            }),
        }
    }

    /// Asks one node after the other.
    async fn ask(&self, batch: Batch) -> Result<Reply, Error> {
        let Shared {
            links,
            options,
            leader,
        } = &*self.shared;
        let patience = options.patience.min(FOR_EVER);
        let deadline = Instant::now() + patience;
        let until = Times {
            sent: deadline - patience / 10,
            answered: deadline,
        };
        let writes = writes(&batch);
        let call = Call::Batch(batch);
        let mut asked = *leader.lock();
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(link) = links.get(&asked) else {
                let reason = "the group has no nodes".into();
                return Err(Error::Unreachable { reason });
            };
            let (error, next) = match self.try_at(link, &call, writes, until).await {
                Tried::Done(served) => {
                    // One that does not answer, or leads no more, is not asked first by the next.
                    *leader.lock() = match &served {
                        Err(Error::Ambiguous(Cause::NoAnswer | Cause::LeadershipOver)) => {
                            self.after(asked)
                        }
                        _ => asked,
                    };
                    return served;
                }
                Tried::Elsewhere(error, next) => (error, next),
            };
            debug!(node = asked, %error, "asks elsewhere");
            asked = next
                .filter(|&next| next != asked)
                .unwrap_or_else(|| self.after(asked));
            if tries % links.len() == 0 {
                sleep(options.pause).await;
            }
            if Instant::now() >= until.sent {
                return Err(error);
            }
        }
    }

    async fn try_at(&self, link: &Link, call: &Call, writes: bool, until: Times) -> Tried {
        let nobody = |reason: &str| {
            let error = Error::Unreachable {
                reason: reason.into(),
            };
            Tried::Elsewhere(error, None)
        };
        let unknown = || Tried::Done(Err(Error::Ambiguous(Cause::NoAnswer)));
        let sent = match timeout_at(until.sent, link.send(call)).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(NotSent::TooLarge(TooLarge { size }))) => {
                let max = MAX_FRAME;
                return Tried::Done(Err(Error::BatchTooLarge { size, max }));
            }
            Ok(Err(NotSent::Unreachable(reason))) => return nobody(&reason),
            Err(_) => return nobody(&format!("{}: no connection in time", link.address())),
        };
        // What only reads can be asked of another meanwhile.
        let left = until.answered.saturating_duration_since(Instant::now());
        let share = if writes { left } else { left / 2 };
        match timeout(share, sent).await {
            Ok(Ok(Said::Reply(Err(Error::NotLeader { leader })))) => {
                let next = leader.as_deref().and_then(|address| self.at(address));
                Tried::Elsewhere(Error::NotLeader { leader }, next)
            }
            Ok(Ok(Said::Reply(Err(error @ Error::ShuttingDown)))) => {
                nobody(&format!("{}: {error}", link.address()))
            }
            Ok(Ok(Said::Reply(served))) => Tried::Done(served),
            _ if writes => unknown(),
            Ok(Ok(Said::Answer(_))) => nobody("a batch was taken for a message"),
            Ok(Err(reason)) => nobody(&reason),
            Err(_) => nobody(&format!("{}: no answer in time", link.address())),
        }
    }

    /// Who listens at `address`.
    fn at(&self, address: &str) -> Option<NodeId> {
        let mut links = self.shared.links.iter();
        let found = links.find(|(_, link)| link.address() == address);
        found.map(|(&id, _)| id)
    }

    /// Whom to ask after `node`, if nobody says better.
    fn after(&self, node: NodeId) -> NodeId {
        let mut later = self.shared.links.range(node + 1..);
        let next = later.next().or_else(|| self.shared.links.first_key_value());
        next.map_or(node, |(&id, _)| id)
    }
}

impl Serve for Client {
    fn send(&self, batch: Batch) -> impl Future<Output = Result<Reply, Error>> + Send {
        self.ask(batch)
    }

    /// An empty batch's.
    async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.ask(Batch::new()).await?.timestamp)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = self.shared.links.iter();
        let peers = links.map(|(id, link)| (id, link.address()));
        f.debug_struct("Client")
            .field("peers", &peers.collect::<BTreeMap<_, _>>())
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
