//! A store: all keys, split into ranges, and the entry point for clients.

use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use smallvec::SmallVec;
use spanlatch::OnPoison;
use spanlatch_metrics::ReplicaMetrics;
use spanset::{Key, Span, SpanSet, Timestamp};
use tracing::{Instrument, debug, debug_span, warn, warn_span};

use crate::admission::Admission;
use crate::batch::Touched;
use crate::flights::Flights;
use crate::horizon::Horizon;
use crate::ranges::{Ranges, descriptor, locate};
use crate::replica::{ReleaseReads, Shared};
use crate::timestamp_cache::TimestampCache;
use crate::{
    Applier, Batch, Clock, Collected, Engine, EngineError, Error, Latches, Leadership, MemEngine,
    Proposer, RangeId, Replica, Reply, Versions, applier, pipeline,
};

/// All keys, each in the range of one [`Replica`]. Clones are handles to the same store.
///
/// When the last handle goes, the [`Applier`] applies what was proposed and ends.
pub struct Store<L = spanlatch::Manager> {
    ranges: Arc<RangeMap<L>>,
    shared: Arc<Shared>,
}

/// The ranges of a store, and what makes the latches of more.
struct RangeMap<L> {
    /// In ascending order of keys, without gaps. Looked up by every batch, changed by splits; nothing waits
    /// under it.
    replicas: RwLock<Vec<Arc<Replica<L>>>>,
    latches: Box<dyn Fn(RangeId) -> L + Send + Sync>,
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
        let route = |batch: &Batch| Ok(self.route(batch));
        pipeline::serve(&self.shared, route, batch.into(), cancelled).await
    }

    /// Splits the range that has `key`, so that `key` is the first of a new range, whose number is returned.
    ///
    /// Waits for all batches that have keys of the range, and they for it; others go on. Both ranges then know
    /// what has been read of their keys. A batch that waited meanwhile is routed again, if it was sent to the
    /// store; one that was sent to the [`Replica`] fails with the new bounds, if they leave some of its keys
    /// out. The engine is not told: a store that is built later on it is split as its builder says.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadySplit`] if a range begins at `key`; [`Error::ShuttingDown`].
    pub async fn split(&self, key: impl Into<Key>) -> Result<RangeId, Error> {
        let key = key.into();
        let mut spans = SpanSet::new();
        spans.write_local(descriptor());
        loop {
            let replica = self.replica_of(&key);
            if *replica.start() == key {
                let range = replica.id();
                return Err(Error::AlreadySplit { key, range });
            }
            let stage = debug_span!("latch", range = %replica.id());
            let acquired = stage.in_scope(|| replica.latches.acquire(&spans, OnPoison::Wait));
            let guard = acquired.instrument(stage).await?;
            debug!(range = %replica.id(), request = L::request_of(&guard), "latched");
            let new = self.split_latched(&replica, &key)?;
            drop(guard);
            debug!(range = %replica.id(), "released");
            if let Some(new) = new {
                return Ok(new);
            }
        }
    }

    /// Splits a range at `key`, under the write latch of its descriptor. `None` if another split has moved `key`
    /// out of it.
    fn split_latched(&self, replica: &Replica<L>, key: &Key) -> Result<Option<RangeId>, Error> {
        let span = replica.span();
        let (Some(right), Ok(left)) = (
            span.intersection(&Span::starting_at(key.clone())),
            Span::range(replica.start().clone(), key.clone()),
        ) else {
            return Ok(None);
        };
        let mut replicas = self.ranges.replicas.write();
        // Whoever shuts down closes first, and then shuts down the latches of all ranges that it finds.
        if self.shared.admission.is_closed() {
            return Err(Error::ShuttingDown);
        }
        let id = RangeId(replicas.len() as u64);
        let new = Replica::new(
            id,
            right,
            (self.ranges.latches)(id),
            replica.cache.fork(),
            self.shared.clone(),
        );
        let position = replicas.partition_point(|other| other.start() < key);
        replicas.insert(position, Arc::new(new));
        replica.cut(left);
        debug!(range = %replica.id(), ?key, new = %id, "split");
        Ok(Some(id))
    }

    /// Removes versions that reads from `threshold` on do not see, and refuses reads below it from now on, with
    /// [`Error::BelowThreshold`]. Counts in whole nanoseconds: the logical part of `threshold` is left out.
    ///
    /// It latches nothing and blocks the thread: O(n), and a durable engine waits for its disk. Others go on.
    ///
    /// # Errors
    ///
    /// [`Error::FutureTimestamp`] if the threshold is ahead of the clock by more than its bound: nothing is
    /// collected. [`Error::Engine`]: the threshold is raised, and some versions may be left; or nothing was done, as
    /// the store has a [`Leadership`].
    pub fn collect_garbage(&self, threshold: Timestamp) -> Result<Collected, Error> {
        let shared = &*self.shared;
        if shared.leadership.is_some() {
            let alone = "a store that is one of several replicas collects with the others";
            return Err(EngineError::refused(alone).into());
        }
        // So that the next batch gets a timestamp above it.
        shared.clock.update(threshold)?;
        let collected = shared.horizon.collect(threshold.wall, &*shared.engine)?;
        debug!(%threshold, versions = collected.versions, "collected");
        Ok(collected)
    }

    /// Refuses reads below `threshold` from now on, as [`collect_garbage`](Self::collect_garbage) does, and removes nothing: for
    /// those who have all replicas of the store collect.
    ///
    /// # Errors
    ///
    /// [`Error::FutureTimestamp`], as there.
    pub fn raise_threshold(&self, threshold: Timestamp) -> Result<(), Error> {
        self.shared.clock.update(threshold)?;
        self.shared.horizon.raise_threshold(threshold.wall);
        Ok(())
    }

    /// The replicas at present, in ascending order of keys.
    pub fn replicas(&self) -> Vec<Arc<Replica<L>>> {
        self.ranges.replicas.read().clone()
    }

    /// The replica of one range.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownRange`] if there is no such range.
    pub fn replica(&self, id: RangeId) -> Result<Arc<Replica<L>>, Error> {
        let replicas = self.ranges.replicas.read();
        let found = replicas.iter().find(|replica| replica.id() == id);
        found.cloned().ok_or(Error::UnknownRange(id))
    }

    /// The replica that serves `key` at present.
    pub fn replica_of(&self, key: &Key) -> Arc<Replica<L>> {
        let replicas = self.ranges.replicas.read();
        let start_of = |at: usize| replicas[at].start();
        let positions = locate(replicas.len(), start_of, Touched::Key(key));
        replicas[positions.start].clone()
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

    /// Tells the store the time. Call it every second or so, from a thread or a timer: nothing else does.
    ///
    /// It makes visible what takes long. Batches that have waited for a latch beyond the threshold are
    /// counted in `requests.slow.latch` and warned about with whom they wait for; latches that are
    /// held for long are measured by it, to be logged when they are released. Proposals that are in flight
    /// beyond the [threshold](StoreBuilder::slow_proposal_threshold) are counted in `requests.slow.raft` and
    /// warned about; beyond the [other](StoreBuilder::stuck_proposal_threshold) they are poisoned.
    ///
    /// It also has the engine raise its ceiling before a batch would have to wait for that, once in several
    /// seconds; then it blocks the thread as long as that takes. O(ranges + proposals in flight + waits that
    /// have become slow since the last call).
    pub fn tick(&self, now: Instant) {
        let shared = &*self.shared;
        for replica in self.replicas() {
            let range = warn_span!("tick", range = %replica.id());
            range.in_scope(|| replica.latches.tick(now));
        }
        shared.flights.tick(now);
        if shared.leadership.is_none()
            && let Some(wall) = shared.horizon.lacks_ahead(shared.clock.latest())
            && let Err(error) = shared.horizon.raise(wall, &*shared.engine)
        {
            warn!(%error, "cannot raise the ceiling");
        }
    }

    /// Has the ceiling raised before a batch would have to wait for that, as [`tick`](Self::tick) does unless the
    /// store has a [`Leadership`]. Call it every second or so, too, if it has.
    ///
    /// # Errors
    ///
    /// What the leadership says.
    pub async fn raise_ceiling_ahead(&self) -> Result<(), Error> {
        let shared = &*self.shared;
        match shared.horizon.lacks_ahead(shared.clock.latest()) {
            Some(wall) => shared.horizon.raise_above(wall, shared).await,
            None => Ok(()),
        }
    }

    /// Whether no batch holds latches or waits for some.
    pub fn is_idle(&self) -> bool {
        let replicas = self.replicas();
        replicas.iter().all(|replica| replica.latches.is_idle())
    }

    /// Refuses new batches and those that wait for latches, with [`Error::ShuttingDown`]. What has been
    /// proposed is still applied; then the [`Applier`] ends.
    pub fn shut_down(&self) {
        self.shared.admission.close();
        for replica in self.replicas() {
            replica.latches.shut_down();
        }
        self.shared.proposer.shut_down();
    }

    /// To the ranges that the keys of `batch` are in.
    fn route(&self, batch: &Batch) -> Ranges<L> {
        let replicas = self.ranges.replicas.read();
        let mut positions: SmallVec<[usize; 1]> = SmallVec::new();
        for request in batch.requests() {
            let touched = request.touched();
            for position in locate(replicas.len(), |at| replicas[at].start(), touched) {
                // Neighbours in a batch are often neighbours in the key space.
                if positions.last() != Some(&position) {
                    positions.push(position);
                }
            }
        }
        positions.sort_unstable();
        positions.dedup();
        positions.iter().map(|&at| replicas[at].routed()).collect()
    }
}

impl<L> Clone for Store<L> {
    fn clone(&self) -> Self {
        Self {
            ranges: self.ranges.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<L> fmt::Debug for Store<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("replicas", &*self.ranges.replicas.read())
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
    max_in_flight: usize,
    slow_proposal_threshold: Duration,
    stuck_proposal_threshold: Duration,
    ceiling_step: Duration,
    release_reads: ReleaseReads,
    leadership: Option<Arc<dyn Leadership>>,
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
            max_in_flight: Self::MAX_IN_FLIGHT,
            slow_proposal_threshold: Self::SLOW_PROPOSAL_THRESHOLD,
            stuck_proposal_threshold: Duration::MAX,
            ceiling_step: Self::CEILING_STEP,
            release_reads: ReleaseReads::Evaluated,
            leadership: None,
        }
    }
}

impl StoreBuilder {
    /// How many reads the timestamp cache of each range remembers, unless said otherwise.
    pub const TIMESTAMP_CACHE_CAPACITY: usize = 8_192;
    /// The longest key that is written, in bytes. Whatever bytes it has, each engine can keep it: one that refused it
    /// would refuse the whole group that it is in.
    pub const MAX_KEY_BYTES: usize = 32_000;
    /// The largest value accepted, in bytes, unless said otherwise.
    pub const MAX_VALUE_BYTES: usize = 64 << 20;
    /// How many requests may be in flight, unless said otherwise.
    pub const MAX_IN_FLIGHT: usize = 65_536;
    /// From when on a proposal in flight counts as slow, unless said otherwise.
    pub const SLOW_PROPOSAL_THRESHOLD: Duration = Duration::from_secs(5);
    /// How far ahead the ceiling of timestamps is raised, unless said otherwise.
    pub const CEILING_STEP: Duration = Duration::from_secs(5);

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
    /// counts as read at it. The ceiling that a durable engine remembers counts without being given here.
    /// Default: the lowest timestamp, for an engine that nobody has served from.
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

    /// How many requests may be in flight at once: those that nobody waits for any more but whose proposals
    /// have not ended, too. More are refused with [`Error::TooManyRequests`], and latch nothing.
    pub fn max_in_flight(mut self, requests: usize) -> Self {
        self.max_in_flight = requests;
        self
    }

    /// From when on a proposal in flight is counted in `requests.slow.raft` and warned about.
    pub fn slow_proposal_threshold(mut self, threshold: Duration) -> Self {
        self.slow_proposal_threshold = threshold;
        self
    }

    /// From when on a proposal in flight is stuck. Its caller then fails with [`Error::Ambiguous`], and others
    /// with [`Error::Stuck`] as soon as they meet its latches, unless their [policy](Batch::on_poison) is to
    /// wait. It keeps its latches: it may still be applied. Default: never.
    pub fn stuck_proposal_threshold(mut self, threshold: Duration) -> Self {
        self.stuck_proposal_threshold = threshold;
        self
    }

    /// How far ahead of what is served the engine's [ceiling](crate::Marks::ceiling) is raised. The shorter, the
    /// more often; the longer, the further the clock may be ahead of time after a restart.
    pub fn ceiling_step(mut self, step: Duration) -> Self {
        self.ceiling_step = step;
        self
    }

    /// Lets batches that only read, without limits, release their latches as soon as they have a snapshot of the
    /// engine, and evaluate afterwards. Writers wait for them a shorter time. What is recorded in the timestamp
    /// cache is then all that they declared.
    pub fn release_reads_early(mut self) -> Self {
        self.release_reads = ReleaseReads::Pinned;
        self
    }

    /// The right to serve, if the store is one of several replicas; to be asked as long as the store exists. Default: there is
    /// nobody else.
    pub fn leadership(mut self, leadership: Arc<dyn Leadership>) -> Self {
        self.leadership = Some(leadership);
        self
    }

    /// The store, and the applier that must run for it.
    pub fn build(self) -> (Store, Applier) {
        let metrics = self.metrics.clone();
        self.build_latched(move |_| {
            spanlatch::Manager::builder()
                .metrics(metrics.latch())
                .build()
        })
    }

    /// As [`build`](Self::build), with other latches: `latches` makes those of each range.
    pub fn build_latched<L: Latches>(
        self,
        latches: impl Fn(RangeId) -> L + Send + Sync + 'static,
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
        latches: impl Fn(RangeId) -> L + Send + Sync + 'static,
    ) -> Store<L> {
        let marks = self.engine.marks();
        let low_water = match marks.ceiling {
            Timestamp::MAX => self.low_water,
            ceiling => ceiling.max(self.low_water),
        };
        // What an earlier store acknowledged must be in the past of the first read.
        // And what it may have collected, below that.
        self.clock.forward(low_water.max(marks.threshold));
        let flights = Flights::new(
            &self.metrics,
            self.slow_proposal_threshold,
            self.stuck_proposal_threshold,
        );
        let horizon = Horizon::new(&*self.engine, self.ceiling_step);
        let shared = Arc::new(Shared {
            clock: self.clock,
            engine: self.engine,
            proposer,
            metrics: self.metrics,
            admission: Arc::new(Admission::new(self.max_in_flight)),
            flights: Arc::new(flights),
            horizon,
            leadership: self.leadership,
            max_value_bytes: self.max_value_bytes,
            release_reads: self.release_reads,
        });
        let replicas = spans_between(self.splits)
            .zip(0..)
            .map(|(span, id)| {
                let id = RangeId(id);
                let cache = TimestampCache::new(self.timestamp_cache_capacity, low_water);
                Arc::new(Replica::new(id, span, latches(id), cache, shared.clone()))
            })
            .collect();
        let ranges = Arc::new(RangeMap {
            replicas: RwLock::new(replicas),
            latches: Box::new(latches),
        });
        Store { ranges, shared }
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
