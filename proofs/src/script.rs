//! Scripts of requests on one thread, against a model that knows exactly who must wait for whom.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use spanlatch::{Counts, Guard, Manager, Pending, ShuttingDown, WaitError};
use spanlatch_metrics::LatchMetrics;

use crate::choices::Choices;
use crate::declared::{Declared, conflict, spans};

/// How many requests are in line at most.
const LONGEST: usize = 24;

/// Milliseconds between two readings of the clock. The least slow threshold is no multiple of it, so that no wait is
/// exactly as long.
const BEAT: u64 = 7;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// Actions, with everything compared after each.
    pub actions: u64,
    /// Requests that were put in line.
    pub requests: u64,
    /// Those that waited.
    pub waited: u64,
}

impl Covered {
    /// Adds what another run covered.
    pub fn add(&mut self, other: Covered) {
        self.actions += other.actions;
        self.requests += other.requests;
        self.waited += other.waited;
    }
}

/// Plays a script of at most `actions`.
///
/// # Panics
///
/// If the manager does not do as the model does.
pub fn run(choices: &mut Choices<'_>, actions: u64) -> Covered {
    let mut script = Script::new(choices);
    while script.covered.actions < actions && !choices.are_over() {
        script.covered.actions += 1;
        script.act(choices);
        script.check();
        if script.asks {
            script.check_readiness();
        }
    }
    script.end()
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request that is in line, as the model sees it.
struct InLine {
    declared: Vec<Declared>,
    state: State,
}

enum State {
    Waiting(Waiting),
    Holding(Guard),
}

struct Waiting {
    pending: Pending,
    wakes: Arc<Wakes>,
    parked: Option<Parked>,
}

/// What the model knows of a request that was polled and had to wait.
#[derive(Clone, Copy)]
struct Parked {
    /// Its wake-ups before the last poll.
    wakes: usize,
    /// When it was first polled.
    since: u64,
    /// Whether a tick came after it had waited for too long.
    slow: bool,
}

struct Script {
    manager: Manager,
    metrics: Metrics,
    clock: Arc<AtomicU64>,
    start: Instant,
    /// In sequence order.
    line: Vec<InLine>,
    keys: u8,
    prefix: &'static [u8],
    /// Asking whether a request is ready must not change whether it is woken, so not every script asks.
    asks: bool,
    shut_down: bool,
    covered: Covered,
}

/// The manager owns what it reports to; these see it too.
struct Metrics {
    slow: spanlatch_metrics::Gauge,
    waits: spanlatch_metrics::Histogram,
}

impl Script {
    fn new(choices: &mut Choices<'_>) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let reported = LatchMetrics::default();
        let metrics = Metrics {
            slow: reported.slow.gauge().clone(),
            waits: reported.wait.clone(),
        };
        let mut builder = Manager::builder()
            .metrics(reported)
            .slow_threshold(Manager::MIN_SLOW_THRESHOLD)
            .clock({
                let clock = Arc::clone(&clock);
                move || start + Duration::from_millis(clock.load(Ordering::Relaxed))
            });
        if choices.below(4) > 0 {
            builder = builder.steps(1 + choices.below(3));
        }
        Script {
            manager: builder.build(),
            metrics,
            clock,
            start,
            line: Vec::new(),
            keys: choices.of(&[2, 4, 8, 40]),
            prefix: choices.of(&[
                &b""[..],
                b"",
                b"12345678",
                b"a key that is too long for its place",
            ]),
            asks: choices.below(2) == 0,
            shut_down: false,
            covered: Covered::default(),
        }
    }

    fn act(&mut self, choices: &mut Choices<'_>) {
        match choices.below(64) {
            0..24 => self.sequence(choices),
            24..43 => self.poll(choices),
            43..58 => self.drop_one(choices),
            58..60 => self.give_up(choices),
            60..62 => self.tick(choices),
            62 => self.come_too_late(choices),
            _ if choices.one_in(8) => self.shut_down(),
            _ => self.tick(choices),
        }
    }

    fn sequence(&mut self, choices: &mut Choices<'_>) {
        if self.line.len() == LONGEST {
            return self.drop_one(choices);
        }
        let most = choices.of(&[2, 2, 4, 12]);
        let declared = Vec::from_iter(
            (0..choices.below(most + 1)).map(|_| Declared::choose(choices, self.keys)),
        );
        let pending = self.manager.sequence(&spans(&declared, self.prefix));
        if self.shut_down {
            assert_eq!(pending.unwrap_err(), ShuttingDown);
            return;
        }
        self.covered.requests += 1;
        self.line.push(InLine {
            declared,
            state: State::Waiting(Waiting {
                pending: pending.expect("not shut down"),
                wakes: Arc::default(),
                parked: None,
            }),
        });
    }

    /// Whether the request at `position` must wait: iff an earlier one in line conflicts with it.
    fn must_wait(&self, position: usize) -> bool {
        self.line[..position]
            .iter()
            .any(|earlier| conflict(&self.line[position].declared, &earlier.declared))
    }

    /// One of the waiting requests, if there are any.
    fn choose_waiting(&self, choices: &mut Choices<'_>) -> Option<usize> {
        let waits = |&position: &usize| matches!(self.line[position].state, State::Waiting(_));
        let waiting = Vec::from_iter((0..self.line.len()).filter(waits));
        (!waiting.is_empty()).then(|| choices.of(&waiting))
    }

    fn poll(&mut self, choices: &mut Choices<'_>) {
        let Some(position) = self.choose_waiting(choices) else {
            return;
        };
        let must_wait = self.must_wait(position);
        let now = self.clock.load(Ordering::Relaxed);
        let waits_before = self.metrics.waits.count();
        let State::Waiting(waiting) = &mut self.line[position].state else {
            unreachable!("chosen among the waiting");
        };
        // Now and then it is another task that polls.
        let before = choices
            .one_in(8)
            .then(|| std::mem::take(&mut waiting.wakes));
        let wakes = waiting.wakes.count();
        let really_waited = waiting.parked.is_some();
        let polled = poll(&mut waiting.pending, &waiting.wakes);
        if let Some(before) = before {
            assert_eq!(Arc::strong_count(&before), 1, "a replaced waker is kept");
        }
        match polled {
            Poll::Ready(Ok(guard)) => {
                assert!(!must_wait, "granted too early");
                assert_eq!(Arc::strong_count(&waiting.wakes), 1, "a waker is kept");
                self.line[position].state = State::Holding(guard);
                let waits = self.metrics.waits.count() - waits_before;
                assert_eq!(waits, u64::from(really_waited), "counts real waits");
            }
            Poll::Ready(Err(error)) => {
                assert!(self.shut_down, "{error}");
                assert_eq!(error, WaitError::ShuttingDown);
                self.remove(position);
            }
            Poll::Pending => {
                assert!(must_wait && !self.shut_down, "a false wait");
                let (since, slow) = match waiting.parked {
                    Some(parked) => (parked.since, parked.slow),
                    None => {
                        self.covered.waited += 1;
                        (now, false)
                    }
                };
                waiting.parked = Some(Parked { wakes, since, slow });
            }
        }
    }

    fn drop_one(&mut self, choices: &mut Choices<'_>) {
        if !self.line.is_empty() {
            self.remove(choices.below(self.line.len()));
        }
    }

    /// Takes a request out of line; those that are woken by that conflict with it.
    fn remove(&mut self, position: usize) {
        let InLine { declared, state } = self.line.remove(position);
        let wakes = |request: &InLine| match &request.state {
            State::Waiting(waiting) => waiting.wakes.count(),
            State::Holding(_) => 0,
        };
        let before = Vec::from_iter(self.line.iter().map(wakes));
        match state {
            State::Waiting(Waiting { pending, wakes, .. }) => {
                drop(pending);
                assert_eq!(Arc::strong_count(&wakes), 1, "a waker is kept");
            }
            State::Holding(guard) => drop(guard),
        }
        for (request, before) in self.line.iter().zip(before) {
            let may_be_woken = conflict(&request.declared, &declared);
            assert!(
                may_be_woken || wakes(request) == before,
                "woken for nothing"
            );
        }
    }

    /// Waits until a deadline that has passed: gets the guard, or leaves the line.
    fn give_up(&mut self, choices: &mut Choices<'_>) {
        let Some(position) = self.choose_waiting(choices) else {
            return;
        };
        let must_wait = self.must_wait(position);
        let InLine { declared, state } = self.line.remove(position);
        let State::Waiting(Waiting { pending, .. }) = state else {
            unreachable!("chosen among the waiting");
        };
        match pending.wait_until(self.start) {
            Ok(guard) => {
                assert!(!must_wait, "granted too early");
                let state = State::Holding(guard);
                self.line.insert(position, InLine { declared, state });
            }
            Err(WaitError::DeadlinePassed) => assert!(must_wait && !self.shut_down),
            Err(error) => assert!(self.shut_down, "{error}"),
        }
    }

    fn tick(&mut self, choices: &mut Choices<'_>) {
        self.clock
            .fetch_add(BEAT * choices.below(3) as u64, Ordering::Relaxed);
        let now = self.clock.load(Ordering::Relaxed);
        self.manager.tick(self.start + Duration::from_millis(now));
        let threshold = Manager::MIN_SLOW_THRESHOLD.as_millis() as u64;
        for request in &mut self.line {
            if let State::Waiting(Waiting {
                parked: Some(parked),
                ..
            }) = &mut request.state
            {
                parked.slow |= now - parked.since > threshold;
            }
        }
    }

    /// Asks for latches when the deadline has passed.
    fn come_too_late(&mut self, choices: &mut Choices<'_>) {
        let declared = [Declared::choose(choices, self.keys)];
        let refused = self
            .manager
            .acquire_until(&spans(&declared, self.prefix), self.start);
        assert_eq!(refused.unwrap_err(), WaitError::DeadlinePassed);
    }

    fn shut_down(&mut self) {
        self.manager.shut_down();
        self.shut_down = true;
    }

    /// Compares everything that can be seen without asking a request.
    fn check(&self) {
        self.manager.verify();
        let mut counts = Counts::default();
        let mut slow = 0;
        for (position, request) in self.line.iter().enumerate() {
            counts.requests += 1;
            for declared in &request.declared {
                *match (declared.local, declared.write) {
                    (false, false) => &mut counts.global_reads,
                    (false, true) => &mut counts.global_writes,
                    (true, false) => &mut counts.local_reads,
                    (true, true) => &mut counts.local_writes,
                } += 1;
            }
            let must_wait = self.must_wait(position);
            match &request.state {
                State::Holding(_) => assert!(!must_wait, "two hold what conflicts"),
                State::Waiting(Waiting {
                    wakes,
                    parked: Some(parked),
                    ..
                }) => {
                    counts.waiting += 1;
                    slow += i64::from(parked.slow);
                    let goes_on = !must_wait || self.shut_down;
                    assert!(
                        !goes_on || wakes.count() > parked.wakes,
                        "a wake-up was lost"
                    );
                }
                State::Waiting(_) => {}
            }
        }
        assert_eq!(self.manager.counts(), counts);
        assert_eq!(self.metrics.slow.value(), slow, "slow requests");
    }

    fn check_readiness(&mut self) {
        for position in 0..self.line.len() {
            let goes_on = !self.must_wait(position) || self.shut_down;
            if let State::Waiting(waiting) = &mut self.line[position].state {
                let ready = waiting.pending.is_ready();
                assert_eq!(ready, goes_on, "waits for exactly its conflicts");
            }
        }
    }

    /// Lets all go, the earliest first.
    fn end(mut self) -> Covered {
        while !self.line.is_empty() {
            self.check_readiness();
            self.remove(0);
        }
        self.check();
        self.covered
    }
}

fn poll(pending: &mut Pending, wakes: &Arc<Wakes>) -> Poll<Result<Guard, WaitError>> {
    let waker = Waker::from(Arc::clone(wakes));
    Pin::new(pending).poll(&mut Context::from_waker(&waker))
}
