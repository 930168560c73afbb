//! What can go wrong with a batch.

use std::time::Duration;

use spanset::{DeclaredError, Key, Span, Timestamp};

use crate::{EngineError, RangeId, Value};

/// Why a batch was not served. Unless it says [`Ambiguous`](Self::Ambiguous), nothing was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A replica was asked for keys that are not all in its range.
    #[error("{span} is not within range {range}, which holds {bounds}")]
    KeyOutsideRange {
        /// The keys asked for.
        span: Box<Span>,
        /// The range that was asked.
        range: RangeId,
        /// The keys that it holds.
        bounds: Box<Span>,
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
    /// The store is shutting down.
    #[error("the store is shutting down")]
    ShuttingDown,
    /// The batch was proposed and may or may not be applied, now or later.
    #[error("it was proposed, and whether it is applied is not known")]
    Ambiguous,
    /// The storage engine failed before anything was proposed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<DeclaredError<EngineError>> for Error {
    fn from(error: DeclaredError<EngineError>) -> Self {
        match error {
            DeclaredError::Engine(error) => Self::Engine(error),
            DeclaredError::Undeclared(bug) => Self::Engine(EngineError::new(bug)),
        }
    }
}
