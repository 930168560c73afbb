//! What nodes say to each other, and who carries it.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::types::{NodeId, SnapshotMeta, TypeConfig, Vote};

/// What a node asks of another.
#[derive(Debug, Serialize, Deserialize)]
pub struct Message(pub(crate) Ask);

/// What a node answers to a [`Message`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer(pub(crate) Say);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// To vote for it.
    Vote(VoteRequest<NodeId>),
    /// To append entries to its log; without entries: whether it still follows.
    Append(AppendEntriesRequest<TypeConfig>),
    /// To take a piece of a snapshot.
    Snapshot(Piece),
}

/// A piece of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// The vote of the leader that sends it.
    pub(crate) vote: Vote,
    /// Of which snapshot.
    pub(crate) meta: SnapshotMeta,
    /// Where among the pieces, from 0 on.
    pub(crate) number: u64,
    /// Its content.
    pub(crate) content: Bytes,
    /// Whether there are no more.
    pub(crate) is_last: bool,
}

/// What is answered to an [`Ask`] of the same name.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Say {
    /// Whether it votes for it.
    Vote(VoteResponse<NodeId>),
    /// Whether it has appended.
    Append(AppendEntriesResponse<NodeId>),
    /// What it thinks of the sender, once it has taken the piece, and with the last one the snapshot.
    Snapshot(SnapshotResponse<NodeId>),
}

/// Why a call has no answer. The other may have received the message, or may still.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// There is no way to the other at present.
    #[error("node {to} is unreachable: {reason}")]
    Unreachable {
        /// Who was called.
        to: NodeId,
        /// What went wrong.
        reason: String,
    },
    /// A message is larger than what is carried.
    #[error("a message of {size} bytes is larger than {max}")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The largest size.
        max: usize,
    },
    /// The other cannot answer.
    #[error("node {to} refuses: {reason}")]
    Refused {
        /// Who was called.
        to: NodeId,
        /// What it said.
        reason: String,
    },
}

/// Carries messages from this node to others. It may lose, delay and reorder them, but not change them.
pub trait Transport: Send + Sync + 'static {
    /// Sends `message` to `to`, and resolves with its answer. A call that is dropped may have been received.
    ///
    /// # Errors
    ///
    /// [`CallError`], if no answer has come; when it gives up is up to the caller.
    fn call(&self, to: NodeId, message: Message) -> BoxFuture<'static, Result<Answer, CallError>>;
}
