//! A client that asks the nodes of this process, and finds the one that leads.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::Either;
use spanlatch_replica::{Batch, Cause, Error, Reply, Request, Serve};
use spanlatch_replica_raft::{Node, NodeId};
use spanset::Timestamp;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::group::{IDS, name};
use super::network::{CLIENT, Network};
use crate::Choices;
use crate::linearizability::clients::Asked;

/// Asks the node that it thinks leads, and now and then another one. Clones are the same client.
#[derive(Clone)]
pub(super) struct Finder(Arc<Shared>);

struct Shared {
    network: Network,
    choices: Mutex<Choices<'static>>,
    leader: AtomicU64,
}

/// How often it looks for somebody who serves.
const TRIES: usize = 60;

impl Finder {
    pub(super) fn new(network: Network, seed: u64) -> Self {
        Self(Arc::new(Shared {
            network,
            choices: Mutex::new(Choices::random(seed ^ 0xf1d)),
            leader: AtomicU64::new(IDS[0]),
        }))
    }

    fn choose<T>(&self, choose: impl FnOnce(&mut Choices<'static>) -> T) -> T {
        choose(&mut self.0.choices.lock().expect("no panic in between"))
    }

    /// Until somebody serves it, or somebody may have.
    async fn find(
        &self,
        batch: Batch,
        cancelled: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Reply, Error> {
        let cancelled = cancel(cancelled);
        let mut last = Error::NotLeader { leader: None };
        for _ in 0..TRIES {
            // Whoever was cut off may not know that another leads.
            let to = match self.choose(|choices| choices.one_in(4)) {
                true => self.choose(|choices| choices.of(&IDS)),
                false => self.0.leader.load(Ordering::Relaxed),
            };
            match self.ask_node(to, batch.clone(), cancelled.clone()).await {
                Err(error @ (Error::NotLeader { .. } | Error::Unreachable { .. })) => {
                    let known = match &error {
                        Error::NotLeader { leader } => IDS
                            .into_iter()
                            .find(|id| leader.as_deref() == Some(&name(*id))),
                        _ => None,
                    };
                    let next = known.unwrap_or_else(|| self.choose(|choices| choices.of(&IDS)));
                    self.0.leader.store(next, Ordering::Relaxed);
                    last = error;
                }
                other => {
                    if let Err(Error::Ambiguous(_)) = &other {
                        let next = self.choose(|choices| choices.of(&IDS));
                        self.0.leader.store(next, Ordering::Relaxed);
                    }
                    return other;
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(last)
    }

    /// Sends it to a node, and waits for the answer, a while: who was cut off does not know what became of it.
    async fn ask_node(
        &self,
        to: NodeId,
        batch: Batch,
        cancelled: Cancelled,
    ) -> Result<Reply, Error> {
        let network = self.0.network.clone();
        let lost = match batch.requests().iter().any(Request::is_write) {
            true => Error::Ambiguous(Cause::NoAnswer),
            false => Error::Unreachable {
                reason: "no answer came".into(),
            },
        };
        let Some(node) = network.node(to) else {
            return Err(Error::Unreachable {
                reason: "it does not run".into(),
            });
        };
        // On its own: a node goes on with what it has got.
        let (mut tell, told) = oneshot::channel();
        tokio::spawn(async move {
            if network.carry(CLIENT, to).await {
                let served = serve(&node, batch, cancelled, &mut tell).await;
                if network.carry(to, CLIENT).await {
                    let _ = tell.send(served);
                }
            }
        });
        let patience = Duration::from_millis(50 + self.choose(|choices| choices.below(400)) as u64);
        match timeout(patience, told).await {
            Ok(Ok(served)) => served,
            Ok(Err(_)) | Err(_) => Err(lost),
        }
    }
}

/// Serves it until the client has given up, or has gone.
async fn serve(
    node: &Node,
    batch: Batch,
    cancelled: Cancelled,
    tell: &mut oneshot::Sender<Result<Reply, Error>>,
) -> Result<Reply, Error> {
    let over = futures::future::select(cancelled, Box::pin(tell.closed()));
    node.send_until(async { drop(over.await) }, batch).await
}

/// Ends when the client gives up; clones end together.
type Cancelled = futures::future::Shared<futures::future::BoxFuture<'static, ()>>;

fn cancel(cancelled: impl Future<Output = ()> + Send + 'static) -> Cancelled {
    use futures::FutureExt;
    cancelled.boxed().shared()
}

impl Serve for Finder {
    async fn send(&self, batch: Batch) -> Result<Reply, Error> {
        self.find(batch, pending()).await
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        Ok(self.send(Batch::new()).await?.timestamp)
    }
}

impl Asked for Finder {
    /// Counts in steps of a few milliseconds.
    async fn ask(&self, batch: Batch, patience: Option<usize>) -> Result<Reply, Error> {
        let cancelled = match patience {
            Some(steps) => Either::Left(sleep(Duration::from_millis(3 * steps as u64))),
            None => Either::Right(pending()),
        };
        self.find(batch, cancelled).await
    }
}
