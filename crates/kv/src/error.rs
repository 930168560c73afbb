//! What can go wrong with a transaction, and which of it is tried again.

use std::error;
use std::fmt;

use spanlatch_replica as replica;

/// One run of a transaction: which transaction of its [`Db`](crate::Db), and which of its attempts, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The transaction.
    pub txn: u64,
    /// The attempt.
    pub attempt: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} of transaction {}", self.attempt, self.txn)
    }
}

/// Why an attempt is tried again. The more severe come later: of two, the more severe counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The store had too many requests in flight, or no replica of it was found that serves.
    Busy,
    /// What the attempt read was changed by others before it committed.
    Changed,
    /// The attempt is over before it could commit: the versions that it reads have been collected.
    Aborted,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Reason; 3] = [Reason::Busy, Reason::Changed, Reason::Aborted];

    /// The value of the label `reason` in the exposition.
    pub const fn label(self) -> &'static str {
        match self {
            Reason::Busy => "busy",
            Reason::Changed => "changed",
            Reason::Aborted => "aborted",
        }
    }
}

/// Why no further attempt was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    /// As many were made as the options allow.
    Attempts,
    /// The deadline would have passed before the next.
    Deadline,
}

/// Why a transaction, or an operation of one, failed. Unless it says [`Ambiguous`](Self::Ambiguous), nothing was
/// written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This attempt cannot commit, and another may. `exec` makes it; who sees this error passes it on, or leaves it:
    /// either way the attempt does not commit.
    #[error("{attempt} has to be made again: {cause}")]
    Retry {
        /// The attempt that it belongs to. Nobody else tries again because of it.
        attempt: AttemptId,
        /// The kind of cause.
        reason: Reason,
        /// What the store said.
        #[source]
        cause: replica::Error,
    },
    /// All attempts failed that were allowed.
    #[error("gave up after {attempts} attempts ({})", match why {
        GaveUp::Attempts => "no more are allowed",
        GaveUp::Deadline => "the deadline has come",
    })]
    GaveUp {
        /// How many attempts were made.
        attempts: u32,
        /// What bound was reached.
        why: GaveUp,
        /// Why the last one failed.
        #[source]
        last: Box<Error>,
    },
    /// The commit was sent, and whether it took place is not known. It is never tried again.
    #[error("whether the transaction is committed is not known")]
    Ambiguous(#[source] replica::Error),
    /// The store refuses it, and would again.
    #[error(transparent)]
    Store(replica::Error),
    /// An attempt was used after its end: it was committed, rolled back, or another has taken its place.
    #[error("{0} is over")]
    Over(AttemptId),
    /// The closure returned an error of an attempt that was made earlier, so that it says nothing about the last.
    #[error("an earlier attempt failed")]
    Earlier(#[source] Box<Error>),
}

impl Error {
    /// The attempt that should be made again because of it, if any.
    pub fn retries(&self) -> Option<AttemptId> {
        match self {
            Self::Retry { attempt, .. } => Some(*attempt),
            _ => None,
        }
    }

    /// What a failure of the store means for `attempt`.
    pub(crate) fn of(attempt: AttemptId, cause: replica::Error) -> Self {
        let reason = match &cause {
            replica::Error::Changed { .. } => Reason::Changed,
            replica::Error::BelowThreshold { .. } => Reason::Aborted,
            replica::Error::Ambiguous(_) => return Self::Ambiguous(cause),
            // Whoever passes batches on has looked for another that leads.
            replica::Error::NotLeader { .. } => Reason::Busy,
            other if other.action() == replica::Action::Retry => Reason::Busy,
            _ => return Self::Store(cause),
        };
        Self::Retry {
            attempt,
            reason,
            cause,
        }
    }
}

/// An error that a transaction's closure can return: one that [`Error`] converts to, and can be found in again.
pub trait TxnError: From<Error> {
    /// The [`Error`] that it is or wraps. Only asked for when a closure has failed.
    fn as_txn_error(&self) -> Option<&Error>;
}

impl TxnError for Error {
    fn as_txn_error(&self) -> Option<&Error> {
        Some(self)
    }
}

impl TxnError for Box<dyn error::Error + Send + Sync> {
    fn as_txn_error(&self) -> Option<&Error> {
        self.downcast_ref()
    }
}

impl TxnError for Box<dyn error::Error> {
    fn as_txn_error(&self) -> Option<&Error> {
        self.downcast_ref()
    }
}
