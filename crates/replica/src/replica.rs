//! A replica: one range of a store's keys, with its latches and its timestamp cache.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::smallvec;
use spanlatch_metrics::ReplicaMetrics;
use spanset::{Key, Span, Timestamp};
use tracing::{Level, debug, enabled};

use crate::admission::Admission;
use crate::flights::Flights;
use crate::horizon::Horizon;
use crate::ranges::{Ranges, Routed};
use crate::timestamp_cache::TimestampCache;
use crate::{Batch, Clock, Engine, Error, Latches, Leadership, Proposer, Reply, pipeline};

/// The number of a range in its store: at first from 0 in ascending order of keys; a range that comes of a
/// split gets the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RangeId(pub u64);

impl fmt::Display for RangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// Serves the requests to one range of keys.
///
/// `L` latches them: [`spanlatch::Manager`], unless another is measured against it.
pub struct Replica<L = spanlatch::Manager> {
    id: RangeId,
    start: Key,
    pub(crate) latches: L,
    pub(crate) cache: TimestampCache,
    shared: Arc<Shared>,
    /// Changed only under the descriptor's write latch, so that a batch that holds latches finds it at rest.
    bounds: Mutex<Span>,
    /// How often the bounds changed.
    splits: AtomicU64,
}

/// What the replicas of a store have in common.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) proposer: Arc<dyn Proposer>,
    pub(crate) metrics: ReplicaMetrics,
    pub(crate) admission: Arc<Admission>,
    pub(crate) flights: Arc<Flights>,
    pub(crate) horizon: Horizon,
    /// If the store is one of several replicas.
    pub(crate) leadership: Option<Arc<dyn Leadership>>,
    /// The largest value that is accepted, in bytes.
    pub(crate) max_value_bytes: usize,
    /// When reads let go of their latches.
    pub(crate) release_reads: ReleaseReads,
}

impl Shared {
    /// Returns once what is remembered of the ceiling covers `at`.
    pub(crate) async fn cover(&self, at: Timestamp) -> Result<(), Error> {
        if self.horizon.covers(at) {
            return Ok(());
        }
        self.horizon.raise_above(at.wall, self).await
    }

    /// The lowest timestamp that can be read, of a snapshot that was taken before this is asked. Where this store is one of several
    /// replicas, another may have had versions collected here meanwhile.
    pub(crate) fn threshold(&self) -> Timestamp {
        let threshold = self.horizon.threshold();
        match self.leadership {
            Some(_) => threshold.max(self.engine.marks().threshold),
            None => threshold,
        }
    }
}

/// When batches that only read, without limits, let go of their latches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseReads {
    /// When they have been evaluated, and only what they read is recorded.
    Evaluated,
    /// When they have a snapshot, and all that they declare is recorded.
    Pinned,
}

impl<L: Latches> Replica<L> {
    pub(crate) fn new(
        id: RangeId,
        span: Span,
        latches: L,
        cache: TimestampCache,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            id,
            start: span.start().clone(),
            latches,
            cache,
            shared,
            bounds: Mutex::new(span),
            splits: AtomicU64::new(0),
        }
    }

    /// Serves a batch whose keys are all in this range.
    ///
    /// Dropping the future before it has proposed anything cancels the batch; dropping it later leaves
    /// the proposal to its fate.
    ///
    /// # Errors
    ///
    /// [`Error::KeyOutsideRange`], also if the range is split while the batch waits; and else as [`Error`]
    /// says.
    pub async fn send(self: &Arc<Self>, batch: impl Into<Batch>) -> Result<Reply, Error> {
        self.send_until(pending(), batch).await
    }

    /// As [`send`](Self::send), until `cancelled` ends: a deadline, a client that went away.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); and once `cancelled` has ended, [`Error::Cancelled`] if nothing has
    /// been proposed, [`Error::Ambiguous`] if something has.
    pub async fn send_until(
        self: &Arc<Self>,
        cancelled: impl Future<Output = ()> + Send,
        batch: impl Into<Batch>,
    ) -> Result<Reply, Error> {
        let route = |batch: &Batch| self.route(batch);
        pipeline::serve(&self.shared, route, batch.into(), cancelled).await
    }

    /// To this range, if it has all keys.
    fn route(self: &Arc<Self>, batch: &Batch) -> Result<Ranges<L>, Error> {
        // Before the bounds, so that a split in between is noticed later.
        let routed = self.routed();
        let bounds = self.span();
        for request in batch.requests() {
            let span = request.touched().to_span();
            if !bounds.contains(&span) {
                return Err(Error::KeyOutsideRange {
                    span: Box::new(span),
                    range: self.id,
                    bounds: Box::new(bounds),
                });
            }
        }
        Ok(smallvec![routed])
    }

    /// Its number in the store.
    pub fn id(&self) -> RangeId {
        self.id
    }

    /// What latches its requests.
    pub fn latches(&self) -> &L {
        &self.latches
    }

    /// Records that `spans` were read at `at`.
    pub(crate) fn record(&self, spans: Vec<Span>, at: Timestamp) {
        if enabled!(Level::DEBUG) {
            for span in &spans {
                debug!(range = %self.id, %span, %at, "recorded");
            }
        }
        self.cache.record(spans, at);
    }
}

impl<L> Replica<L> {
    /// The keys that it serves, at present: a split leaves it the lower part.
    pub fn span(&self) -> Span {
        self.bounds.lock().clone()
    }

    /// The first of its keys, which no split changes.
    pub(crate) fn start(&self) -> &Key {
        &self.start
    }

    pub(crate) fn splits(&self) -> u64 {
        // Acquire, with the release in `cut`, for whom no latch orders after it.
        self.splits.load(Ordering::Acquire)
    }

    pub(crate) fn routed(self: &Arc<Self>) -> Routed<L> {
        Routed {
            replica: self.clone(),
            splits: self.splits(),
        }
    }

    /// Leaves it `span`, under the write latch of its descriptor.
    pub(crate) fn cut(&self, span: Span) {
        *self.bounds.lock() = span;
        self.splits.fetch_add(1, Ordering::Release);
    }
}

impl<L> fmt::Debug for Replica<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("id", &self.id)
            .field("span", &self.span())
            .finish_non_exhaustive()
    }
}
