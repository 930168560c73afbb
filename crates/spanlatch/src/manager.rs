//! The latch manager and what it is made with.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlatch_metrics::LatchMetrics;
use spanset::SpanSet;

use crate::counts::Counts;
use crate::error::{OptimisticError, ShuttingDown, TryAcquireError, WaitError};
use crate::guard::Guard;
use crate::inspection::Inspection;
use crate::line::{Line, RECENT, STEPS};
use crate::monitor::Monitor;
use crate::optimistic::Optimistic;
use crate::pending::{Pending, WaitFor};
use crate::request_builder::RequestBuilder;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::wake::wake_all;

/// Puts requests in line for the spans that they declare.
///
/// A `Manager` is a handle: cloning it is cheap, and all clones share one line.
///
/// ```
/// use spanlatch::Manager;
/// use spanset::{Span, SpanSet};
///
/// let manager = Manager::new();
/// let mut spans = SpanSet::new();
/// spans.write(Span::point("apple"));
/// spans.read(Span::range("pear", "plum")?);
///
/// let first = manager.acquire(&spans)?;
/// let mut second = manager.sequence(&spans)?;
/// assert!(!second.is_ready());
/// drop(first);
/// let second = second.wait()?;
/// assert_eq!(manager.counts().latches(), 2);
/// drop(second);
/// assert_eq!(manager.counts().latches(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Manager {
    pub(crate) shared: Arc<Shared>,
    /// Shared by the handles and by nothing else: who has a [`Weak`](std::sync::Weak) of it knows whether
    /// there are any.
    handles: Arc<()>,
}

/// What all handles, pendings and guards of a manager share.
pub(crate) struct Shared {
    /// Held for the time that it takes to insert, remove or look for the spans of one request; no
    /// waker is called and nothing is logged under it.
    pub(crate) line: Mutex<Line>,
    pub(crate) metrics: LatchMetrics,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    /// Nanoseconds. Only a setting: nothing is ordered by it, so `Relaxed`.
    slow_threshold: AtomicU64,
    long_hold_threshold: AtomicU64,
    /// How many latches are looked through faster than a tree is searched.
    few: usize,
}

impl Manager {
    /// The least slow-request threshold. What waits for less is not slow but busy.
    pub const MIN_SLOW_THRESHOLD: Duration = Duration::from_millis(10);

    /// A manager with the default settings and no exported metrics.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// To choose settings.
    pub fn builder() -> Builder {
        Builder {
            metrics: LatchMetrics::default(),
            clock: Box::new(Instant::now),
            slow_threshold: Duration::from_secs(5),
            long_hold_threshold: Duration::from_secs(3),
            steps: STEPS,
        }
    }

    /// A request for `spans`, to which more can be said before it is made.
    #[inline]
    pub fn request(&self, spans: &SpanSet) -> RequestBuilder {
        RequestBuilder::new(self, spans)
    }

    /// Takes a place in line for all of `spans` at once, behind every request that was sequenced
    /// before and ahead of every later one. Never blocks, whoever holds what.
    ///
    /// The place is taken in this call, not when the returned future is first polled. Dropping the
    /// [`Pending`], or the [`Guard`] that it becomes, gives it up.
    ///
    /// O(k log n) under the mutex for k spans among n latches.
    ///
    /// # Errors
    ///
    /// [`ShuttingDown`] after [`shut_down`](Self::shut_down).
    pub fn sequence(&self, spans: &SpanSet) -> Result<Pending, ShuttingDown> {
        self.request(spans).sequence()
    }

    /// [`sequence`](Self::sequence) and [`wait`](Pending::wait): blocks the thread until the latches
    /// are held.
    ///
    /// # Errors
    ///
    /// [`WaitError::ShuttingDown`].
    pub fn acquire(&self, spans: &SpanSet) -> Result<Guard, WaitError> {
        self.request(spans).acquire()
    }

    /// As [`acquire`](Self::acquire), until `deadline`. If that has passed already, nothing is
    /// inserted.
    ///
    /// # Errors
    ///
    /// [`WaitError::DeadlinePassed`] or [`WaitError::ShuttingDown`]; no latch remains.
    pub fn acquire_until(&self, spans: &SpanSet, deadline: Instant) -> Result<Guard, WaitError> {
        self.request(spans).acquire_until(deadline)
    }

    /// Acquires `spans` if no conflicting latch is in line, held or waiting. Never blocks, and unless it
    /// succeeds, nobody has had to wait for it. (Only if the search takes more steps than one stay under
    /// the mutex allows does it take a place in line meanwhile.)
    ///
    /// # Errors
    ///
    /// [`TryAcquireError`]; no latch remains.
    pub fn try_acquire(&self, spans: &SpanSet) -> Result<Guard, TryAcquireError> {
        self.request(spans).try_acquire()
    }

    /// Waits for the conflicting latches that are in line now, without a latch of its own: later requests
    /// do not wait for this one, and it does not wait for them.
    ///
    /// # Errors
    ///
    /// [`ShuttingDown`] after [`shut_down`](Self::shut_down).
    pub fn wait_for(&self, spans: &SpanSet) -> Result<WaitFor, ShuttingDown> {
        self.request(spans).wait_for()
    }

    /// Takes a place in line for reads that will evaluate without waiting, and ask afterwards whether what
    /// they actually read was free. O(k log n) under the mutex, and an O(1) snapshot of the writes
    /// in line if one of them conflicts; before that, batches of writes of which nobody has looked for a
    /// single one may have to be put into the tree, mostly in several stays.
    ///
    /// # Errors
    ///
    /// [`OptimisticError`] if a write is declared, or after [`shut_down`](Self::shut_down).
    pub fn sequence_optimistic(&self, spans: &SpanSet) -> Result<Optimistic, OptimisticError> {
        self.request(spans).sequence_optimistic()
    }

    /// How many latches and requests are in line now. O(1).
    pub fn counts(&self) -> Counts {
        self.shared.line.lock().counts()
    }

    /// A picture of all latches at one moment, held and waiting, and of who waits for whom. Those who only
    /// [wait for](Self::wait_for) others have none and are not in it.
    ///
    /// The mutex is held for an O(1) snapshot, and before and after that for portions of bounded size;
    /// who waits for whom is worked out of the snapshot. That takes O(latches), and for each request that waits
    /// O(latches that overlap its own).
    pub fn inspect(&self) -> Inspection {
        crate::inspection::inspect(&self.shared)
    }

    /// Refuses new requests, and makes every wait end with [`WaitError::ShuttingDown`]. Guards go on
    /// holding until they are dropped. O(requests), once.
    pub fn shut_down(&self) {
        let wakers = self.shared.line.lock().shut_down();
        wake_all(wakers.into_iter());
    }

    /// Changes the time after which a wait is slow, from the next [`tick`](Self::tick) on. Less than
    /// [`MIN_SLOW_THRESHOLD`](Self::MIN_SLOW_THRESHOLD) is taken as that.
    pub fn set_slow_threshold(&self, threshold: Duration) {
        let nanos = threshold.max(Self::MIN_SLOW_THRESHOLD).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.shared.slow_threshold.store(nanos, Ordering::Relaxed);
    }

    /// Changes the time after which a hold is logged when it ends.
    pub fn set_long_hold_threshold(&self, threshold: Duration) {
        let nanos = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
        let long_hold_threshold = &self.shared.long_hold_threshold;
        long_hold_threshold.store(nanos, Ordering::Relaxed);
    }

    /// Tells the manager the time: waits that have become slow are counted and warned about.
    ///
    /// [`monitor`](Self::monitor) calls it in production, tests call it with the times they like. The
    /// work is proportional to the waits that became slow since the last tick.
    pub fn tick(&self, now: Instant) {
        crate::monitor::tick(&self.shared, now);
    }

    /// Panics, naming the invariant, unless all invariants of the line hold. O(n²); for tests.
    #[doc(hidden)]
    pub fn verify(&self) {
        self.shared.line.lock().verify();
    }

    /// How many steps all searches for conflicts have taken under the mutex. For tests.
    #[doc(hidden)]
    pub fn steps_taken(&self) -> u64 {
        self.shared.line.lock().steps_taken()
    }

    /// Starts a thread that [`tick`](Self::tick)s every `interval`, at least
    /// [`Monitor::MIN_INTERVAL`], until the returned [`Monitor`] is
    /// dropped, or the manager's handles are gone and nobody is in line any more.
    ///
    /// # Errors
    ///
    /// What the system says when it cannot start a thread.
    pub fn monitor(&self, interval: Duration) -> std::io::Result<Monitor> {
        Monitor::start(Arc::downgrade(&self.handles), &self.shared, interval)
    }
}

impl Default for Manager {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    /// Does under the mutex what may take several stays there; between two of them, others get their turn.
    pub(crate) fn in_stays<T>(&self, mut stay: impl FnMut(&mut Line) -> Option<T>) -> T {
        let mut line = self.line.lock();
        loop {
            if let Some(done) = stay(&mut line) {
                return done;
            }
            MutexGuard::bump(&mut line);
        }
    }

    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }

    pub(crate) fn slow_threshold(&self) -> Duration {
        Duration::from_nanos(self.slow_threshold.load(Ordering::Relaxed))
    }

    pub(crate) fn few(&self) -> usize {
        self.few
    }

    pub(crate) fn long_hold_threshold(&self) -> Duration {
        Duration::from_nanos(self.long_hold_threshold.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("counts", &self.line.lock().counts())
            .field("slow_threshold", &self.slow_threshold())
            .field("long_hold_threshold", &self.long_hold_threshold())
            .finish_non_exhaustive()
    }
}

/// The settings of a [`Manager`].
#[must_use]
pub struct Builder {
    metrics: LatchMetrics,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    slow_threshold: Duration,
    long_hold_threshold: Duration,
    steps: usize,
}

impl Builder {
    /// Where waits are counted. Default: nowhere that anybody looks.
    pub fn metrics(mut self, metrics: LatchMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// What tells when a wait begins and ends. It is read by requests that have to wait, and by no
    /// others. Default: [`Instant::now`].
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// After how long a wait is slow. Default: 5 s; at least [`Manager::MIN_SLOW_THRESHOLD`].
    pub fn slow_threshold(mut self, threshold: Duration) -> Self {
        self.slow_threshold = threshold;
        self
    }

    /// After how long a hold is logged when it ends, at most once a second. Default: 3 s.
    ///
    /// Holds are measured by the times of the ticks, as no clock is read where nothing waits: what is
    /// logged is at most the interval between two ticks too long.
    pub fn long_hold_threshold(mut self, threshold: Duration) -> Self {
        self.long_hold_threshold = threshold;
        self
    }

    /// How many entries a search takes in one stay under the mutex, and at most how many are kept beside each
    /// tree. For tests, which make it small.
    #[doc(hidden)]
    pub fn steps(mut self, steps: usize) -> Self {
        self.steps = steps.max(1);
        self
    }

    /// The manager.
    pub fn build(self) -> Manager {
        let manager = Manager {
            handles: Arc::default(),
            shared: Arc::new(Shared {
                line: Mutex::new(Line::new(self.steps, self.steps.min(RECENT))),
                metrics: self.metrics,
                clock: self.clock,
                slow_threshold: AtomicU64::new(0),
                long_hold_threshold: AtomicU64::new(0),
                few: self.steps.min(RECENT),
            }),
        };
        manager.set_slow_threshold(self.slow_threshold);
        manager.set_long_hold_threshold(self.long_hold_threshold);
        manager
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("slow_threshold", &self.slow_threshold)
            .field("long_hold_threshold", &self.long_hold_threshold)
            .finish_non_exhaustive()
    }
}
