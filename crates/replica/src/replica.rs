//! A replica: one range of a store's keys, with its latches and its timestamp cache.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;

use smallvec::smallvec;
use spanlatch_metrics::{GaugeShare, ReplicaMetrics};
use spanset::Span;

use crate::pipeline::Watch;
use crate::timestamp_cache::TimestampCache;
use crate::{Batch, Clock, Engine, Error, Latches, Proposer, Reply, pipeline};

/// The number of a range in its store, from 0 in ascending order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub(crate) id: RangeId,
    pub(crate) span: Span,
    pub(crate) latches: L,
    pub(crate) cache: Arc<TimestampCache>,
    pub(crate) shared: Arc<Shared>,
}

/// What the replicas of a store have in common.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) proposer: Arc<dyn Proposer>,
    pub(crate) metrics: ReplicaMetrics,
    /// The store's share of the proposals in flight.
    pub(crate) pending: Arc<GaugeShare>,
    /// The largest value that is accepted, in bytes.
    pub(crate) max_value_bytes: usize,
}

impl<L: Latches> Replica<L> {
    /// Serves a batch whose keys are all in this range.
    ///
    /// Dropping the future before it has proposed anything cancels the batch; dropping it later leaves
    /// the proposal to its fate.
    ///
    /// # Errors
    ///
    /// [`Error::KeyOutsideRange`], and else as [`Error`] says.
    pub async fn send(&self, batch: Batch) -> Result<Reply, Error> {
        self.send_until(pending(), batch).await
    }

    /// As [`send`](Self::send), until `cancelled` ends: a deadline, a client that went away.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); and once `cancelled` has ended, [`Error::Cancelled`] if nothing has
    /// been proposed, [`Error::Ambiguous`] if something has.
    pub async fn send_until(
        &self,
        cancelled: impl Future<Output = ()> + Send,
        batch: Batch,
    ) -> Result<Reply, Error> {
        let watch = Watch::start(&self.shared.metrics);
        for request in batch.requests() {
            let span = request.touched().to_span();
            if !self.span.contains(&span) {
                return Err(Error::KeyOutsideRange {
                    span: Box::new(span),
                    range: self.id,
                    bounds: Box::new(self.span.clone()),
                });
            }
        }
        pipeline::send(watch, &self.shared, smallvec![self], batch, cancelled).await
    }

    /// Its number in the store.
    pub fn id(&self) -> RangeId {
        self.id
    }

    /// The keys that it serves.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// What latches its requests.
    pub fn latches(&self) -> &L {
        &self.latches
    }
}

impl<L> fmt::Debug for Replica<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("id", &self.id)
            .field("span", &self.span)
            .finish_non_exhaustive()
    }
}
