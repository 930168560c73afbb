//! A store: all keys, split into ranges, and the entry point for clients.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use spanlatch_metrics::ReplicaMetrics;
use spanset::{Key, Span, Timestamp};

use crate::pipeline::Watch;
use crate::ranges::{Ranges, locate};
use crate::replica::Shared;
use crate::timestamp_cache::TimestampCache;
use crate::{
    Applier, Batch, Clock, Engine, EngineError, Error, Latches, MemEngine, Proposer, RangeId,
    Replica, Reply, Versions, applier, pipeline,
};

/// All keys, each in the range of one [`Replica`]. Clones are handles to the same store.
///
/// When the last handle goes, the [`Applier`] applies what was proposed and ends.
pub struct Store<L = spanlatch::Manager> {
    /// In ascending order of keys, without gaps.
    replicas: Arc<[Replica<L>]>,
    shared: Arc<Shared>,
}

impl Store {
    /// To choose what a store is made of.
    pub fn builder() -> StoreBuilder {
        StoreBuilder::default()
    }

    /// A store of one range, in memory, and the applier that must run for it.
    pub fn new() -> (Self, Applier) {
        Self::builder().build()
    }
}

impl<L: Latches> Store<L> {
    /// Serves a batch. If its keys are in several ranges, it is atomic all the same: it holds its
    /// latches in all of them before it chooses its timestamp, and is applied as one.
    ///
    /// Dropping the future before it has proposed anything cancels the batch; dropping it later leaves
    /// the proposal to its fate.
    ///
    /// # Errors
    ///
    /// As [`Error`] says; a store has all keys, so [`Error::KeyOutsideRange`] is not among them.
    pub async fn send(&self, batch: impl Into<Batch>) -> Result<Reply, Error> {
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
        batch: impl Into<Batch>,
    ) -> Result<Reply, Error> {
        let batch = batch.into();
        let watch = Watch::start(&self.shared.metrics);
        let ranges = self.ranges_of(&batch);
        pipeline::send(watch, &self.shared, ranges, batch, cancelled).await
    }

    /// The replicas, in ascending order of keys.
    pub fn replicas(&self) -> &[Replica<L>] {
        &self.replicas
    }

    /// The replica of one range.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownRange`] if there is no such range.
    pub fn replica(&self, id: RangeId) -> Result<&Replica<L>, Error> {
        usize::try_from(id.0)
            .ok()
            .and_then(|position| self.replicas.get(position))
            .ok_or(Error::UnknownRange(id))
    }

    /// The clock that gives batches their timestamps.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// What it reports.
    pub fn metrics(&self) -> &ReplicaMetrics {
        &self.shared.metrics
    }

    /// All versions of the keys of `span`, as applied now: keys ascending, each one's newest version
    /// first. It latches nothing: for checks and tools.
    ///
    /// # Errors
    ///
    /// Whatever the engine says.
    pub fn versions(&self, span: Span) -> Result<Versions, EngineError> {
        Ok(Versions::new(self.shared.engine.snapshot()?, span))
    }

    /// Tells the latches of all ranges the time. Call it every second or so, from a thread or a timer:
    /// nothing else does.
    ///
    /// It makes visible what takes long: batches that have waited for a latch beyond the threshold are
    /// counted in `requests.slow.latch` and warned about with whom they wait for, and latches that are
    /// held for long are measured by it, to be logged when they are released. O(ranges + waits that
    /// have become slow since the last call).
    pub fn tick(&self, now: Instant) {
        for replica in &*self.replicas {
            replica.latches.tick(now);
        }
    }

    /// Whether no batch holds latches or waits for some.
    pub fn is_idle(&self) -> bool {
        self.replicas
            .iter()
            .all(|replica| replica.latches.is_idle())
    }

    /// Refuses new batches and those that wait for latches, with [`Error::ShuttingDown`]. What has been
    /// proposed is still applied; then the [`Applier`] ends.
    pub fn shut_down(&self) {
        for replica in &*self.replicas {
            replica.latches.shut_down();
        }
        self.shared.proposer.shut_down();
    }

    /// The replicas of the ranges that the keys of `batch` are in.
    fn ranges_of(&self, batch: &Batch) -> Ranges<'_, L> {
        let replicas = &*self.replicas;
        let mut positions: SmallVec<[usize; 1]> = SmallVec::new();
        for request in batch.requests() {
            let touched = request.touched();
            for position in locate(replicas.len(), |at| replicas[at].span.start(), touched) {
                // Neighbours in a batch are often neighbours in the key space.
                if positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        }
        positions.sort_unstable();
        positions.dedup();
        positions.iter().map(|&at| &replicas[at]).collect()
    }
}

impl<L> Clone for Store<L> {
    fn clone(&self) -> Self {
        Self {
            replicas: self.replicas.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<L> fmt::Debug for Store<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("replicas", &self.replicas)
            .field("engine", &self.shared.engine)
            .finish_non_exhaustive()
    }
}

/// What a [`Store`] is made of, step by step.
#[derive(Debug)]
#[must_use]
pub struct StoreBuilder {
    splits: Vec<Key>,
    engine: Arc<dyn Engine>,
    clock: Clock,
    metrics: ReplicaMetrics,
    low_water: Timestamp,
    timestamp_cache_capacity: usize,
    max_value_bytes: usize,
}

impl Default for StoreBuilder {
    fn default() -> Self {
        Self {
            splits: Vec::new(),
            engine: Arc::new(MemEngine::new()),
            clock: Clock::new(),
            metrics: ReplicaMetrics::default(),
            low_water: Timestamp::MIN,
            timestamp_cache_capacity: Self::TIMESTAMP_CACHE_CAPACITY,
            max_value_bytes: Self::MAX_VALUE_BYTES,
        }
    }
}

impl StoreBuilder {
    /// How many reads the timestamp cache of each range remembers, unless said otherwise.
    pub const TIMESTAMP_CACHE_CAPACITY: usize = 8_192;
    /// The largest value accepted, in bytes, unless said otherwise.
    pub const MAX_VALUE_BYTES: usize = 64 << 20;

    /// Splits the keys into ranges: each key given is the first of a range. In any order; repeated
    /// ones count once, and the lowest key, which is empty, begins the first range anyway.
    pub fn splits(mut self, keys: impl IntoIterator<Item = Key>) -> Self {
        self.splits = keys.into_iter().collect();
        self
    }

    /// Where versions are kept. Default: a [`MemEngine`].
    pub fn engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engine = engine;
        self
    }

    /// What gives batches their timestamps. Default: [`Clock::new`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Where the store reports. Default: nowhere that anybody looks.
    pub fn metrics(mut self, metrics: ReplicaMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// A timestamp that no read served by an earlier store on the same engine has exceeded: every key
    /// counts as read at it. Default: the lowest timestamp, for an engine that nobody has served from.
    pub fn low_water(mut self, low_water: Timestamp) -> Self {
        self.low_water = low_water;
        self
    }

    /// How many reads the timestamp cache of each range remembers, at least two. Fewer cost less
    /// memory, and push more writes.
    pub fn timestamp_cache_capacity(mut self, reads: usize) -> Self {
        self.timestamp_cache_capacity = reads;
        self
    }

    /// The largest value that is accepted.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// The store, and the applier that must run for it.
    pub fn build(self) -> (Store, Applier) {
        let metrics = self.metrics.clone();
        self.build_latched(|_| {
            spanlatch::Manager::builder()
                .metrics(metrics.latch())
                .build()
        })
    }

    /// As [`build`](Self::build), with other latches: `latches` makes those of each range.
    pub fn build_latched<L: Latches>(
        self,
        latches: impl FnMut(RangeId) -> L,
    ) -> (Store<L>, Applier) {
        let (proposer, applier) = applier::local(self.engine.clone());
        let store = self.build_proposing(Arc::new(proposer), latches);
        (store, applier)
    }

    /// As [`build_latched`](Self::build_latched), with another proposer, which sees to it that
    /// proposals are applied to the engine.
    pub fn build_proposing<L: Latches>(
        self,
        proposer: Arc<dyn Proposer>,
        mut latches: impl FnMut(RangeId) -> L,
    ) -> Store<L> {
        // What an earlier store acknowledged must be in the past of the first read.
        self.clock.forward(self.low_water);
        let pending = Arc::new(self.metrics.proposals_pending.share());
        let shared = Arc::new(Shared {
            clock: self.clock,
            engine: self.engine,
            proposer,
            metrics: self.metrics,
            pending,
            max_value_bytes: self.max_value_bytes,
        });
        let replicas = spans_between(self.splits)
            .zip(0..)
            .map(|(span, id)| Replica {
                id: RangeId(id),
                span,
                latches: latches(RangeId(id)),
                cache: Arc::new(TimestampCache::new(
                    self.timestamp_cache_capacity,
                    self.low_water,
                )),
                shared: shared.clone(),
            })
            .collect();
        Store { replicas, shared }
    }
}

/// The spans that all keys fall into when split at `splits`.
fn spans_between(mut splits: Vec<Key>) -> impl Iterator<Item = Span> {
    splits.push(Key::new());
    splits.sort_unstable();
    splits.dedup();
    let ends: Vec<Option<Key>> = splits
        .iter()
        .skip(1)
        .cloned()
        .map(Some)
        .chain([None])
        .collect();
    splits.into_iter().zip(ends).map(|(start, end)| match end {
        Some(end) => Span::range(start, end).expect("splits are sorted and differ"),
        None => Span::starting_at(start),
    })
}
