//! What a client asks for: requests, and the batches they come in.

use bytes::Bytes;
use spanlatch::OnPoison;
use spanset::{Key, Span, Timestamp};

/// A value: any bytes up to the store's bound.
pub type Value = Bytes;

/// One operation of a [`Batch`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Request {
    /// Reads one key.
    Get {
        /// The key to read.
        key: Key,
    },
    /// Writes one key, whatever it holds.
    Put {
        /// The key to write.
        key: Key,
        /// Its new value.
        value: Value,
    },
    /// Writes one key if it holds what the client expects, else fails the batch with
    /// [`Error::ConditionFailed`](crate::Error::ConditionFailed).
    ConditionalPut {
        /// The key to read and write.
        key: Key,
        /// What it must hold; `None`: nothing.
        expected: Option<Value>,
        /// Its new value.
        value: Value,
    },
    /// Adds to the integer that a key holds: eight bytes, big endian, two's complement. A key that
    /// holds nothing counts as 0.
    Increment {
        /// The key to read and write.
        key: Key,
        /// What to add.
        by: i64,
    },
    /// Writes that a key holds nothing, whatever it holds.
    Delete {
        /// The key to write.
        key: Key,
    },
    /// Deletes every key of a span that holds something, in ascending order, up to a limit.
    DeleteRange {
        /// The keys to delete.
        span: Span,
        /// How many keys to delete at most.
        limit: usize,
    },
    /// Reads the keys of a span that hold something, in ascending order, up to a limit.
    Scan {
        /// The keys to read.
        span: Span,
        /// How many rows to return at most.
        limit: usize,
    },
    /// Reads the keys of a span that hold something, in descending order, up to a limit.
    ReverseScan {
        /// The keys to read.
        span: Span,
        /// How many rows to return at most.
        limit: usize,
    },
    /// Confirms that what an earlier batch read of a span is still so: fails the batch with
    /// [`Error::Changed`](crate::Error::Changed) if a key of it has a version above the timestamp of that batch,
    /// up to its own. What the batch itself writes does not count. The span is read, and protected as such.
    Confirm {
        /// The keys that were read.
        span: Span,
        /// The timestamp at which they were.
        since: Timestamp,
    },
}

impl Request {
    /// The `limit` of a request that has none.
    pub const UNLIMITED: usize = usize::MAX;

    /// Reads `key`.
    pub fn get(key: impl Into<Key>) -> Self {
        Self::Get { key: key.into() }
    }

    /// Writes `value` to `key`.
    pub fn put(key: impl Into<Key>, value: impl Into<Value>) -> Self {
        Self::Put {
            key: key.into(),
            value: value.into(),
        }
    }

    /// Writes `value` to `key` if it holds `expected`.
    pub fn conditional_put(
        key: impl Into<Key>,
        expected: Option<Value>,
        value: impl Into<Value>,
    ) -> Self {
        Self::ConditionalPut {
            key: key.into(),
            expected,
            value: value.into(),
        }
    }

    /// Adds `by` to the integer that `key` holds.
    pub fn increment(key: impl Into<Key>, by: i64) -> Self {
        Self::Increment {
            key: key.into(),
            by,
        }
    }

    /// Deletes `key`.
    pub fn delete(key: impl Into<Key>) -> Self {
        Self::Delete { key: key.into() }
    }

    /// Deletes the keys of `span`.
    pub fn delete_range(span: Span) -> Self {
        Self::DeleteRange {
            span,
            limit: Self::UNLIMITED,
        }
    }

    /// Reads the rows of `span`, ascending.
    pub fn scan(span: Span) -> Self {
        Self::Scan {
            span,
            limit: Self::UNLIMITED,
        }
    }

    /// Reads the rows of `span`, descending.
    pub fn reverse_scan(span: Span) -> Self {
        Self::ReverseScan {
            span,
            limit: Self::UNLIMITED,
        }
    }

    /// Confirms that the keys of `span` have not changed since `since`.
    pub fn confirm(span: Span, since: Timestamp) -> Self {
        Self::Confirm { span, since }
    }

    /// The same request with a limit, if it is of a kind that has one.
    #[must_use]
    pub fn limited(mut self, to: usize) -> Self {
        if let Self::DeleteRange { limit, .. }
        | Self::Scan { limit, .. }
        | Self::ReverseScan { limit, .. } = &mut self
        {
            *limit = to;
        }
        self
    }

    /// Whether it can change a key.
    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Self::Get { .. } | Self::Scan { .. } | Self::ReverseScan { .. } | Self::Confirm { .. }
        )
    }

    /// Whether it writes one key, and what it answers depends on what that key holds.
    pub(crate) fn reads_what_it_writes(&self) -> bool {
        matches!(self, Self::ConditionalPut { .. } | Self::Increment { .. })
    }

    /// What it touches.
    pub(crate) fn touched(&self) -> Touched<'_> {
        match self {
            Self::Get { key }
            | Self::Put { key, .. }
            | Self::ConditionalPut { key, .. }
            | Self::Increment { key, .. }
            | Self::Delete { key } => Touched::Key(key),
            Self::DeleteRange { span, .. }
            | Self::Scan { span, .. }
            | Self::ReverseScan { span, .. }
            | Self::Confirm { span, .. } => Touched::Span(span),
        }
    }
}

/// The keys of a request, borrowed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Touched<'a> {
    Key(&'a Key),
    Span(&'a Span),
}

impl Touched<'_> {
    pub(crate) fn to_span(self) -> Span {
        match self {
            Self::Key(key) => Span::point(key.clone()),
            Self::Span(span) => span.clone(),
        }
    }
}

/// Requests that are served together: at one timestamp, all or none.
///
/// A request sees what the earlier ones of its batch write; of two writes to a key the later stays.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Batch {
    timestamp: Option<Timestamp>,
    requests: Vec<Request>,
    #[cfg_attr(feature = "serde", serde(with = "Policy"))]
    on_poison: OnPoison,
}

/// As [`OnPoison`], to be written and read.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "OnPoison")]
enum Policy {
    Wait,
    Fail,
}

impl Batch {
    /// An empty batch, to be served at the time the store receives it.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same batch at a timestamp: it reads exactly there; if it writes, it is moved up as far
    /// as others' reads and versions demand.
    #[must_use]
    pub fn at(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// The same batch with one more request.
    #[must_use]
    pub fn with(mut self, request: Request) -> Self {
        self.requests.push(request);
        self
    }

    /// The same batch with another policy on latches whose holder is stuck: to wait for them all the same,
    /// or, as is the default, to fail with [`Error::Stuck`](crate::Error::Stuck) when it meets one.
    #[must_use]
    pub fn on_poison(mut self, policy: OnPoison) -> Self {
        self.on_poison = policy;
        self
    }

    /// Adds a request at the end.
    pub fn push(&mut self, request: Request) {
        self.requests.push(request);
    }

    /// The timestamp asked for, if any.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// The requests in order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// What it does about a latch whose holder is stuck.
    pub(crate) fn poison_policy(&self) -> OnPoison {
        self.on_poison
    }

    /// Whether it may read less than it declares: a limit may end a scan early, and a change a confirmation.
    pub(crate) fn may_read_less(&self) -> bool {
        self.requests.iter().any(|request| match request {
            Request::Scan { limit, .. } | Request::ReverseScan { limit, .. } => {
                *limit != Request::UNLIMITED
            }
            Request::Confirm { .. } => true,
            _ => false,
        })
    }

    /// The lowest timestamp as of which it has to see versions, besides its own.
    pub(crate) fn confirms_since(&self) -> Option<Timestamp> {
        let since = self.requests.iter().filter_map(|request| match request {
            Request::Confirm { since, .. } => Some(*since),
            _ => None,
        });
        since.min()
    }

    /// Whether it writes whatever the keys hold, and answers nothing: if it succeeds, it was proposed.
    pub(crate) fn only_writes_blindly(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.all(|request| matches!(request, Request::Put { .. } | Request::Delete { .. }))
    }

    pub(crate) fn kind(&self) -> Kind {
        let writes = self.requests.iter().filter(|r| r.is_write()).count();
        match writes {
            0 => Kind::Reads,
            n if n == self.requests.len() => Kind::Writes,
            _ => Kind::Mixed,
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            timestamp: None,
            requests: Vec::new(),
            on_poison: OnPoison::Fail,
        }
    }
}

impl From<Request> for Batch {
    fn from(request: Request) -> Self {
        vec![request].into()
    }
}

impl From<Vec<Request>> for Batch {
    fn from(requests: Vec<Request>) -> Self {
        Self {
            requests,
            ..Self::default()
        }
    }
}

impl FromIterator<Request> for Batch {
    fn from_iter<I: IntoIterator<Item = Request>>(requests: I) -> Self {
        requests.into_iter().collect::<Vec<_>>().into()
    }
}

/// What the requests of a batch do, which decides how its spans are declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It only reads.
    Reads,
    /// Each request writes.
    Writes,
    /// It does both.
    Mixed,
}
