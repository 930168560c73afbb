//! What a client gets back.

use spanset::{Key, Span, Timestamp};

use crate::Value;

/// The answer to one [`Request`](crate::Request).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Response {
    /// To a `Get`: what the key holds, if anything.
    Value(Option<Value>),
    /// To a `Put`, `ConditionalPut` or `Delete`: it is written.
    Written,
    /// To a `Confirm`: it has not changed.
    Unchanged,
    /// To an `Increment`: the sum.
    Incremented(i64),
    /// To a `DeleteRange`.
    Deleted {
        /// The keys that held something, ascending.
        keys: Vec<Key>,
        /// What is left of the span, if the limit was reached. It may hold nothing.
        resume: Option<Span>,
    },
    /// To a `Scan` or `ReverseScan`.
    Rows {
        /// Keys and what they hold, in the order of the scan.
        rows: Vec<(Key, Value)>,
        /// What is left of the span, if the limit was reached. It may hold nothing.
        resume: Option<Span>,
    },
}

/// The answer to a [`Batch`](crate::Batch).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reply {
    /// When the batch took place: each request read, and wrote, at this timestamp.
    pub timestamp: Timestamp,
    /// One response for each request, in the same order.
    pub responses: Vec<Response>,
}
