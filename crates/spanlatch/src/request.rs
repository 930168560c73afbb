//! A request in line: its latches, who is parked on it, and whom it is parked on.

use std::task::Waker;
use std::time::Instant;

use smallvec::SmallVec;
use spanset::SpanSet;

use crate::latch::{Latch, RequestId};

/// A request that has been sequenced and not released.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    /// In the order in which they were declared.
    pub(crate) latches: Latches,
    /// By scope: the reads among the latches before this index are in the read tree.
    pub(crate) settled: [usize; 2],
    /// Who is parked here, each once, in no particular order.
    pub(crate) parked_here: ParkedHere,
    /// The wait for the first earlier conflict to the last, if one has begun and not ended.
    pub(crate) wait: Option<Wait>,
    /// The last tick before this request was sequenced; if it had to wait, when that ended.
    pub(crate) held_since: Option<Instant>,
}

impl Request {
    /// A request that is not in line yet.
    pub(crate) fn new(spans: &SpanSet) -> Box<Self> {
        Box::new(Request {
            latches: spans.iter().map(Latch::from).collect(),
            ..Request::default()
        })
    }
}

/// A request's latches. Two are in place: a span and the descriptor of its range.
pub(crate) type Latches = SmallVec<[Latch; 2]>;

/// Those who are parked on one request. Mostly it is one.
pub(crate) type ParkedHere = SmallVec<[Parked; 1]>;

/// A request parked on another.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) slot: u32,
    pub(crate) waker: Waker,
}

/// A wait in progress. It begins when a request first parks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) since: Instant,
    /// The request parked on; it may be released by now.
    pub(crate) on: RequestId,
    /// Position in `parked_here` of the request parked on, as long as that is held.
    pub(crate) position: usize,
    /// Which of its own latches the request is waiting for.
    pub(crate) latch: usize,
    /// Whether the slow-request gauge counts it.
    pub(crate) slow: bool,
}
