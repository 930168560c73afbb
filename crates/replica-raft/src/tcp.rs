//! Carries messages between nodes over TCP.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::link::{Link, NotSent};
use crate::transport::{Answer, CallError, Message, Transport};
use crate::types::NodeId;
use crate::wire::{Call, MAX_FRAME, Party, Said, TooLarge};

/// Carries messages over TCP: one connection to each node that is called, on which many calls are under way at once. A connection that
/// breaks fails the calls that are under way, and is made again by the next; after a failure to connect, calls fail for a tenth of a
/// second without another attempt.
///
/// Nothing is encrypted, and nodes are believed who they say they are: for networks that nobody else has access to.
pub struct Tcp {
    id: NodeId,
    links: BTreeMap<NodeId, Arc<Link>>,
}

impl Tcp {
    /// The way from node `id` to its peers, who listen at these addresses (`host:port`). Nothing is connected yet.
    pub fn new(id: NodeId, peers: &BTreeMap<NodeId, String>) -> Self {
        let others = peers.iter().filter(|(peer, _)| **peer != id);
        let link = |peer, address: &String| Link::new(Party::Node(id), peer, address.clone());
        Self {
            id,
            links: others
                .map(|(&peer, address)| (peer, Arc::new(link(peer, address))))
                .collect(),
        }
    }
}

impl Transport for Tcp {
    /// Has to be polled on a tokio runtime, which must have its drivers of time and of sockets enabled.
    fn call(&self, to: NodeId, message: Message) -> BoxFuture<'static, Result<Answer, CallError>> {
        let link = self.links.get(&to).cloned();
        Box::pin(async move {
            let unreachable = |reason| CallError::Unreachable { to, reason };
            let link = link.ok_or_else(|| unreachable("it is not a peer".to_owned()))?;
            let sent = link.send(&Call::Message(message)).await;
            let sent = sent.map_err(|error| match error {
                NotSent::Unreachable(reason) => unreachable(reason),
                NotSent::TooLarge(TooLarge { size }) => CallError::TooLarge {
                    size,
                    max: MAX_FRAME,
                },
            })?;
            match sent.await.map_err(unreachable)? {
                Said::Answer(answer) => answer.map_err(|reason| CallError::Refused { to, reason }),
                Said::Reply(_) => Err(CallError::Refused {
                    to,
                    reason: "it takes a message for a batch".to_owned(),
                }),
            }
        })
    }
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers = self.links.iter().map(|(id, link)| (id, link.address()));
        f.debug_struct("Tcp")
            .field("id", &self.id)
            .field("peers", &peers.collect::<BTreeMap<_, _>>())
            .finish()
    }
}
