//! Nodes for tests: what they say is up to the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openraft::raft::{VoteRequest, VoteResponse};
use spanlatch_replica::{Batch, Error, Reply};
use spanset::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::server::{Handler, Server};
use crate::transport::{Answer, Ask, Message, Say};
use crate::types::{NodeId, Vote};
use crate::wire::{Hello, Incoming, Outgoing, Welcome, ways};

/// A node of a group of three.
#[derive(Clone)]
pub(crate) struct Fake {
    id: NodeId,
    serve: Arc<dyn Fn(Batch) -> BoxFuture<'static, Result<Reply, Error>> + Send + Sync>,
    asked: Arc<AtomicUsize>,
}

impl Fake {
    /// Serves as told.
    pub(crate) fn new<F>(id: NodeId, serve: impl Fn(Batch) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Reply, Error>> + Send + 'static,
    {
        Self {
            id,
            serve: Arc::new(move |batch| serve(batch).boxed()),
            asked: Arc::default(),
        }
    }

    /// Serves nothing.
    pub(crate) fn following(id: NodeId, leader: Option<&str>) -> Self {
        let leader: Option<Arc<str>> = leader.map(Arc::from);
        Self::new(id, move |_| {
            let leader = leader.clone();
            async { Err(Error::NotLeader { leader }) }
        })
    }

    /// Serves everything, at a timestamp that tells who it is.
    pub(crate) fn leading(id: NodeId) -> Self {
        Self::new(id, move |_| async move { Ok(reply(id)) })
    }

    /// How many batches it was sent.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Listens at any address.
    pub(crate) async fn start(&self) -> Listening {
        self.start_at("127.0.0.1:0").await
    }

    pub(crate) async fn start_at(&self, address: &str) -> Listening {
        let server = Server::bind(address).await.unwrap();
        let address = server.address().to_string();
        let serving = server.serve_by(self.clone(), std::future::pending());
        Listening {
            address,
            task: tokio::spawn(serving),
        }
    }
}

impl Handler for Fake {
    fn id(&self) -> NodeId {
        self.id
    }

    fn knows(&self, node: NodeId) -> bool {
        (1..=3).contains(&node)
    }

    /// Votes for everybody.
    async fn handle(&self, Message(ask): Message) -> Result<Answer, String> {
        let Ask::Vote(request) = ask else {
            return Err("not asked for a vote".to_owned());
        };
        Ok(voted(request.vote.leader_id.term))
    }

    fn send(&self, batch: Batch) -> impl Future<Output = Result<Reply, Error>> + Send {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (self.serve)(batch)
    }
}

/// A node that listens, until this is dropped.
pub(crate) struct Listening {
    pub(crate) address: String,
    task: JoinHandle<()>,
}

impl Listening {
    /// Ends it, and returns when nobody listens at its address any more.
    pub(crate) async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The end of what would otherwise wait for ever if something is wrong.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    let ended = tokio::time::timeout(limit, future).await;
    ended.unwrap_or_else(|_| panic!("it has not ended within {limit:?}"))
}

pub(crate) fn reply(wall: u64) -> Reply {
    Reply {
        timestamp: Timestamp::new(wall, 0),
        responses: Vec::new(),
    }
}

/// To ask for a vote in a term.
pub(crate) fn vote(term: u64) -> Message {
    Message(Ask::Vote(VoteRequest::new(Vote::new(term, 1), None)))
}

/// The answer to [`vote`].
pub(crate) fn voted(term: u64) -> Answer {
    let vote = Vote::new(term, 1);
    Answer(Say::Vote(VoteResponse {
        vote,
        vote_granted: true,
        last_log_id: None,
    }))
}

/// The term that an answer is about.
pub(crate) fn term(Answer(say): Answer) -> u64 {
    match say {
        Say::Vote(response) => response.vote.leader_id.term,
        other => panic!("no vote: {other:?}"),
    }
}

/// A listener and its address.
pub(crate) async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Where nobody listens.
pub(crate) async fn nowhere() -> String {
    listen().await.1
}

/// Takes the next connection as node `id`.
pub(crate) async fn accept(listener: &TcpListener, id: NodeId) -> (Incoming, Outgoing) {
    let (mut incoming, mut outgoing) = ways(listener.accept().await.unwrap().0).unwrap();
    let _: Hello = incoming.greeting().await.unwrap();
    outgoing.greet(&Welcome::Ok(id)).await.unwrap();
    (incoming, outgoing)
}

/// Connects, and says `hello`.
pub(crate) async fn connect(address: &str, hello: &Hello) -> (Incoming, Outgoing, Welcome) {
    let (mut incoming, mut outgoing) = ways(TcpStream::connect(address).await.unwrap()).unwrap();
    outgoing.greet(hello).await.unwrap();
    let welcome = incoming.greeting().await.unwrap();
    (incoming, outgoing, welcome)
}

/// These addresses, of nodes from 1 on.
pub(crate) fn peers<'a>(
    addresses: impl IntoIterator<Item = &'a String>,
) -> BTreeMap<NodeId, String> {
    (1..).zip(addresses.into_iter().cloned()).collect()
}
