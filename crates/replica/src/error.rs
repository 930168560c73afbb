//! What can go wrong with a batch.

use std::sync::Arc;
use std::time::Duration;

use spanset::{Declaration, DeclaredError, Key, Span, Timestamp};

use crate::{EngineError, RangeId, Value};

/// Why a batch was not served. Unless it says [`Ambiguous`](Self::Ambiguous), nothing was written.
///
/// [`action`](Self::action) says what to do about it.
#[derive(Debug, Clone, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Error {
    /// A replica was asked for keys that are not all in its range, or no more: the range may have been
    /// split while the batch waited.
    #[error("{span} is not within range {range}, which holds {bounds}")]
    KeyOutsideRange {
        /// The keys asked for.
        span: Box<Span>,
        /// The range that was asked.
        range: RangeId,
        /// The keys that it holds now.
        bounds: Box<Span>,
    },
    /// A range was to be split where one begins.
    #[error("range {range} begins at {key:?} already")]
    AlreadySplit {
        /// Where.
        key: Key,
        /// The range that begins there.
        range: RangeId,
    },
    /// A range was named that the store does not have.
    #[error("there is no range {0}")]
    UnknownRange(RangeId),
    /// The timestamp asked for is too far ahead of physical time.
    #[error("timestamp {timestamp} is more than {max_ahead:?} ahead of the clock at {physical}")]
    FutureTimestamp {
        /// The timestamp asked for.
        timestamp: Timestamp,
        /// The physical time that it was compared with.
        physical: Timestamp,
        /// How far ahead it may be.
        max_ahead: Duration,
    },
    /// The timestamp asked for is so old that versions it would have to see may have been collected.
    #[error("timestamp {timestamp} is below {threshold}, from which on versions are kept")]
    BelowThreshold {
        /// The timestamp asked for.
        timestamp: Timestamp,
        /// The lowest timestamp that can be read.
        threshold: Timestamp,
    },
    /// A key has a version at the highest timestamp, so that none is left for another.
    #[error("no timestamp is left above the newest version of a key")]
    NoTimestampLeft,
    /// A limit of no rows at all.
    #[error("request {index} has the limit 0")]
    ZeroLimit {
        /// The position of the request in its batch.
        index: usize,
    },
    /// As many requests are in flight as the store admits.
    #[error("{limit} requests are in flight, and no more are admitted")]
    TooManyRequests {
        /// How many are admitted.
        limit: usize,
    },
    /// A value is larger than the store accepts.
    #[error("the value for {key:?} has {size} bytes, more than {max}")]
    ValueTooLarge {
        /// The key to be written.
        key: Key,
        /// The size of the value, in bytes.
        size: usize,
        /// The largest size accepted, in bytes.
        max: usize,
    },
    /// A key to be written is longer than engines keep.
    #[error("the key that request {index} writes has {size} bytes, more than {max}")]
    KeyTooLong {
        /// The position of the request in its batch.
        index: usize,
        /// The length of the key, in bytes.
        size: usize,
        /// The largest length accepted, in bytes.
        max: usize,
    },
    /// A conditional put found something else than it expected.
    #[error("request {index} expected something else than {actual:?} at {key:?}")]
    ConditionFailed {
        /// The position of the request in its batch.
        index: usize,
        /// The key it read.
        key: Key,
        /// What the key holds.
        actual: Option<Value>,
    },
    /// What was to be confirmed has changed since.
    #[error("request {index} finds {key:?} changed at {changed}, after {since}")]
    Changed {
        /// The position of the request in its batch.
        index: usize,
        /// A key that has changed.
        key: Key,
        /// Since when it should not have.
        since: Timestamp,
        /// When it did.
        changed: Timestamp,
    },
    /// An increment found a value that is not eight bytes long.
    #[error("request {index} found no integer but {actual:?} at {key:?}")]
    NotAnInteger {
        /// The position of the request in its batch.
        index: usize,
        /// The key it read.
        key: Key,
        /// What the key holds.
        actual: Value,
    },
    /// A sum does not fit 64 bits.
    #[error("request {index} would overflow {actual} + {by} at {key:?}")]
    IncrementOverflow {
        /// The position of the request in its batch.
        index: usize,
        /// The key it read.
        key: Key,
        /// What the key holds.
        actual: i64,
        /// What was to be added.
        by: i64,
    },
    /// The caller gave up before anything was proposed.
    #[error("cancelled before it was proposed")]
    Cancelled,
    /// Whom it waited for is stuck: it holds this latch, and has not ended within the
    /// [threshold](crate::StoreBuilder::stuck_proposal_threshold).
    #[error("stuck behind {0}")]
    Stuck(Box<Declaration>),
    /// The store is shutting down.
    #[error("the store is shutting down")]
    ShuttingDown,
    /// This replica is one of several, and another leads them, or none does at present. Nothing was written.
    #[error("this replica does not lead: {}", match leader {
        Some(leader) => leader,
        None => "no leader is known",
    })]
    NotLeader {
        /// Where the one that leads can be reached, as far as it is known.
        leader: Option<Arc<str>>,
    },
    /// No replica was reached that could have served it. Nothing was written.
    #[error("no replica that serves was reached: {reason}")]
    Unreachable {
        /// What stood in the way at last.
        reason: Arc<str>,
    },
    /// What a batch writes is more than can be proposed at once, or the batch itself more than can be sent.
    #[error("the batch has {size} bytes, more than {max}")]
    BatchTooLarge {
        /// The size of its keys and values as they are proposed or sent, in bytes.
        size: usize,
        /// The largest size accepted, in bytes.
        max: usize,
    },
    /// The batch only reads, and its reply is more than can be sent.
    #[error("the reply has {size} bytes, more than {max}")]
    ReplyTooLarge {
        /// The size of the reply as it is sent, in bytes.
        size: usize,
        /// The largest size that is sent, in bytes.
        max: usize,
    },
    /// The batch was proposed and may or may not be applied, now or later.
    #[error("it was proposed, and whether it is applied is not known: {0}")]
    Ambiguous(#[source] Cause),
    /// The storage engine failed before anything was proposed, or refused to apply it.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Why the fate of what was proposed is not known.
#[derive(Debug, Clone, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Cause {
    /// The caller gave up; the proposal goes on.
    #[error("the caller did not wait for it")]
    CallerGone,
    /// The engine failed, before or after it applied it. It will not be applied later.
    #[error(transparent)]
    Engine(EngineError),
    /// It took longer than the [threshold](crate::StoreBuilder::stuck_proposal_threshold). It may still be
    /// applied, and holds its latches until that is known.
    #[error("it is stuck")]
    Stuck,
    /// This replica has stopped to lead its group, or cannot reach it. Another may still apply it, and then does so before it
    /// serves anything.
    #[error("the leadership in which it was proposed is over")]
    LeadershipOver,
    /// The connection to the replica broke before its answer came.
    #[error("no answer came")]
    NoAnswer,
    /// The proposer lost it. It will not be applied later.
    #[error("the proposer gave it up")]
    Dropped,
}

/// What a client does about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Send it again, as it is, after a moment: nothing was written.
    Retry,
    /// Send it somewhere else: this replica, or this store, does not serve it. Nothing was written.
    GoElsewhere,
    /// Give it up: the same batch would fail again. Nothing was written.
    GiveUp,
    /// Read what came of it before anything else: it may have been applied, or may still be.
    FindOut,
}

impl Error {
    /// What a client does about it.
    pub fn action(&self) -> Action {
        match self {
            Self::Cancelled | Self::TooManyRequests { .. } | Self::Unreachable { .. } => {
                Action::Retry
            }
            Self::KeyOutsideRange { .. }
            | Self::UnknownRange(_)
            | Self::Stuck(_)
            | Self::ShuttingDown
            | Self::NotLeader { .. }
            | Self::Engine(_) => Action::GoElsewhere,
            Self::AlreadySplit { .. }
            | Self::FutureTimestamp { .. }
            | Self::BelowThreshold { .. }
            | Self::NoTimestampLeft
            | Self::ZeroLimit { .. }
            | Self::ValueTooLarge { .. }
            | Self::KeyTooLong { .. }
            | Self::BatchTooLarge { .. }
            | Self::ReplyTooLarge { .. }
            | Self::ConditionFailed { .. }
            | Self::Changed { .. }
            | Self::NotAnInteger { .. }
            | Self::IncrementOverflow { .. } => Action::GiveUp,
            Self::Ambiguous(_) => Action::FindOut,
        }
    }
}

impl From<DeclaredError<EngineError>> for Error {
    fn from(error: DeclaredError<EngineError>) -> Self {
        match error {
            DeclaredError::Engine(error) => Self::Engine(error),
            DeclaredError::Undeclared(bug) => Self::Engine(EngineError::new(bug)),
        }
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    fn at(wall: u64) -> Timestamp {
        Timestamp::new(wall, 7)
    }

    /// The variant after `last`, so that a new one cannot be left out.
    fn next(last: Option<&Error>) -> Option<Error> {
        let key = || Key::from("a");
        let point = || Box::new(Span::point("a"));
        let Some(last) = last else {
            return Some(Error::KeyOutsideRange {
                span: point(),
                range: RangeId(3),
                bounds: Box::new(Span::all()),
            });
        };
        Some(match last {
            Error::KeyOutsideRange { .. } => Error::AlreadySplit {
                key: key(),
                range: RangeId(u64::MAX),
            },
            Error::AlreadySplit { .. } => Error::UnknownRange(RangeId(0)),
            Error::UnknownRange(_) => Error::FutureTimestamp {
                timestamp: Timestamp::MAX,
                physical: at(5),
                max_ahead: Duration::new(1, 999_999_999),
            },
            Error::FutureTimestamp { .. } => Error::BelowThreshold {
                timestamp: Timestamp::MIN,
                threshold: at(9),
            },
            Error::BelowThreshold { .. } => Error::NoTimestampLeft,
            Error::NoTimestampLeft => Error::ZeroLimit { index: 300 },
            Error::ZeroLimit { .. } => Error::TooManyRequests { limit: usize::MAX },
            Error::TooManyRequests { .. } => Error::ValueTooLarge {
                key: key(),
                size: 5,
                max: 4,
            },
            Error::ValueTooLarge { .. } => Error::KeyTooLong {
                index: 1,
                size: 70_000,
                max: 65_536,
            },
            Error::KeyTooLong { .. } => Error::ConditionFailed {
                index: 1,
                key: key(),
                actual: Some(Value::new()),
            },
            Error::ConditionFailed { .. } => Error::Changed {
                index: 1,
                key: key(),
                since: at(5),
                changed: at(6),
            },
            Error::Changed { .. } => Error::NotAnInteger {
                index: 1,
                key: key(),
                actual: "x".into(),
            },
            Error::NotAnInteger { .. } => Error::IncrementOverflow {
                index: 1,
                key: key(),
                actual: i64::MAX,
                by: i64::MIN,
            },
            Error::IncrementOverflow { .. } => Error::Cancelled,
            Error::Cancelled => {
                let write = spanset::Access::Write;
                Error::Stuck(Box::new(Declaration::global_at(write, *point(), at(5))))
            }
            Error::Stuck(_) => Error::ShuttingDown,
            Error::ShuttingDown => Error::NotLeader { leader: None },
            Error::NotLeader { leader: None } => Error::NotLeader {
                leader: Some("127.0.0.1:7001".into()),
            },
            Error::NotLeader { .. } => Error::Unreachable {
                reason: "connection refused".into(),
            },
            Error::Unreachable { .. } => Error::BatchTooLarge { size: 2, max: 1 },
            Error::BatchTooLarge { .. } => Error::ReplyTooLarge { size: 4, max: 3 },
            Error::ReplyTooLarge { .. } => Error::Engine(EngineError::refused("no space is left")),
            Error::Engine(_) => Error::Ambiguous(Cause::CallerGone),
            Error::Ambiguous(cause) => Error::Ambiguous(match cause {
                Cause::CallerGone => Cause::Engine(EngineError::new("the disk is gone")),
                Cause::Engine(_) => Cause::Stuck,
                Cause::Stuck => Cause::LeadershipOver,
                Cause::LeadershipOver => Cause::NoAnswer,
                Cause::NoAnswer => Cause::Dropped,
                Cause::Dropped => return None,
            }),
        })
    }

    #[test]
    fn every_error_that_is_read_is_the_one_that_was_written() {
        let mut last = None;
        while let Some(error) = next(last.as_ref()) {
            let written = postcard::to_stdvec(&error).unwrap();
            let read: Error = postcard::from_bytes(&written).unwrap();
            assert_eq!(format!("{read:?}"), format!("{error:?}"));
            assert_eq!(read.to_string(), error.to_string());
            assert_eq!(read.action(), error.action());
            last = Some(error);
        }
        assert!(matches!(last, Some(Error::Ambiguous(Cause::Dropped))));
    }
}
