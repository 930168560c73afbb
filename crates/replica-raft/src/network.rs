//! openraft's network, on top of a [`Transport`].

use std::fmt;
use std::future::Future;
use std::iter;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use openraft::error::{
    Fatal, NetworkError, PayloadTooLarge, RPCError, RaftError, ReplicationClosed, StreamingError,
    Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::{AnyError, BasicNode, OptionalSend, Snapshot};

use crate::storage::{Failure, Storage};
use crate::transport::{Answer, Ask, CallError, Message, Piece, Say, Transport};
use crate::types::{NodeId, TypeConfig, Vote};

/// Makes the ways to other nodes.
pub(crate) struct Network {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) storage: Arc<Storage>,
}

/// Between attempts to reach a node that cannot be reached.
const PAUSE: Duration = Duration::from_millis(100);

/// The way to another node.
pub(crate) struct Way {
    to: NodeId,
    transport: Arc<dyn Transport>,
    storage: Arc<Storage>,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Way;

    async fn new_client(&mut self, to: NodeId, _: &BasicNode) -> Way {
        Way {
            to,
            transport: self.transport.clone(),
            storage: self.storage.clone(),
        }
    }
}

type Failed = RPCError<NodeId, BasicNode, RaftError<NodeId>>;

impl Way {
    /// Another answer than to what was asked.
    fn mixed_up(&self, Answer(answer): &Answer) -> NetworkError {
        NetworkError::from(AnyError::error(format!(
            "node {} answers {answer:?} to something else",
            self.to
        )))
    }

    async fn send(
        &self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
    ) -> Result<SnapshotResponse<NodeId>, StreamingError<TypeConfig, Fatal<NodeId>>> {
        let unreadable = |failure: Failure| {
            NetworkError::from(AnyError::from_dyn(&*failure, Some("a snapshot".to_owned())))
        };
        let mut pieces = snapshot
            .snapshot
            .into_pieces()
            .map_err(|error| unreadable(error.into()))?;
        let mut number = 0;
        let mut content = None;
        loop {
            let read = move |_: &Storage| {
                let next = pieces.next()?;
                Ok((pieces, next))
            };
            let (rest, next) = self.storage.run(read).await.map_err(unreadable)?;
            pieces = rest;
            let is_last = next.is_none();
            let Some(content) = std::mem::replace(&mut content, next) else {
                continue;
            };
            let message = Message(Ask::Snapshot(Piece {
                vote,
                meta: snapshot.meta.clone(),
                number,
                content,
                is_last,
            }));
            let answer = self.transport.call(self.to, message).await;
            let response = match answer.map_err(|error| unreachable(&error))? {
                Answer(Say::Snapshot(response)) => response,
                other => return Err(self.mixed_up(&other).into()),
            };
            if is_last || response.vote > vote {
                return Ok(response);
            }
            number += 1;
        }
    }
}

fn unreachable(error: &CallError) -> Unreachable {
    Unreachable::new(error)
}

impl RaftNetwork<TypeConfig> for Way {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, Failed> {
        let entries = request.entries.len();
        match self
            .transport
            .call(self.to, Message(Ask::Append(request)))
            .await
        {
            Ok(Answer(Say::Append(response))) => Ok(response),
            Ok(other) => Err(self.mixed_up(&other).into()),
            Err(CallError::TooLarge { .. }) if entries > 1 => {
                let fewer = u64::try_from(entries / 2).unwrap_or(u64::MAX);
                Err(PayloadTooLarge::new_entries_hint(fewer).into())
            }
            Err(error) => Err(unreachable(&error).into()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        _: RPCOption,
    ) -> Result<VoteResponse<NodeId>, Failed> {
        match self
            .transport
            .call(self.to, Message(Ask::Vote(request)))
            .await
        {
            Ok(Answer(Say::Vote(response))) => Ok(response),
            Ok(other) => Err(self.mixed_up(&other).into()),
            Err(error) => Err(unreachable(&error).into()),
        }
    }

    /// Soon enough for a node that comes back to hear of its leader before it stands for election.
    fn backoff(&self) -> Backoff {
        Backoff::new(iter::repeat(PAUSE))
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<TypeConfig>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<NodeId>, StreamingError<TypeConfig, Fatal<NodeId>>> {
        let sent = pin!(self.send(vote, snapshot));
        match select(sent, pin!(cancel)).await {
            Either::Left((response, _)) => response,
            Either::Right((closed, _)) => Err(StreamingError::Closed(closed)),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}
