//! Scripts of requests on one thread, against a model that knows exactly who must wait for whom.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use spanlatch::{
    Counts, Guard, Manager, OnPoison, Optimistic, OptimisticError, Pending, RequestBuilder,
    ShuttingDown, State as Seen, TryAcquireError, Validated, WaitError, WaitFor,
};
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
    /// Whether it fails when it meets poison.
    fails: bool,
    /// Whether it is known to be poisoned.
    poisoned: bool,
    state: State,
}

impl InLine {
    /// What others have to wait for.
    fn latches(&self) -> &[Declared] {
        match &self.state {
            State::Waiting(Waiting {
                waiter: Waiter::WaitFor(_),
                ..
            }) => &[],
            _ => &self.declared,
        }
    }
}

enum State {
    Waiting(Waiting),
    Holding(Guard),
    /// With all latches that were in line when it was sequenced.
    Optimistic(Box<Optimistic>, Vec<Declared>),
    Validated(Validated),
}

struct Waiting {
    waiter: Waiter,
    wakes: Arc<Wakes>,
    parked: Option<Parked>,
}

impl Waiting {
    fn unparked(waiter: Waiter) -> State {
        State::Waiting(Waiting {
            waiter,
            wakes: Arc::default(),
            parked: None,
        })
    }
}

/// What waits.
enum Waiter {
    Pending(Pending),
    WaitFor(WaitFor),
}

impl Waiter {
    fn is_ready(&mut self) -> bool {
        match self {
            Waiter::Pending(pending) => pending.is_ready(),
            Waiter::WaitFor(wait_for) => wait_for.is_ready(),
        }
    }

    /// No guard is what a request without latches gets.
    /// No guard is what a request without latches gets.
    fn poll(&mut self, wakes: &Arc<Wakes>) -> Poll<Result<Option<Guard>, WaitError>> {
        let waker = Waker::from(Arc::clone(wakes));
        let mut context = Context::from_waker(&waker);
        match self {
            Waiter::Pending(pending) => {
                let polled = Pin::new(pending).poll(&mut context);
                polled.map(|outcome| outcome.map(Some))
            }
            Waiter::WaitFor(wait_for) => {
                let polled = Pin::new(wait_for).poll(&mut context);
                polled.map(|outcome| outcome.map(|()| None))
            }
        }
    }

    fn wait_until(self, deadline: Instant) -> Result<Option<Guard>, WaitError> {
        match self {
            Waiter::Pending(pending) => pending.wait_until(deadline).map(Some),
            Waiter::WaitFor(wait_for) => wait_for.wait_until(deadline).map(|()| None),
        }
    }
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
    /// Whether some holder has said that it is stuck.
    anybody_is_stuck: bool,
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
            anybody_is_stuck: false,
            covered: Covered::default(),
        }
    }

    fn act(&mut self, choices: &mut Choices<'_>) {
        match choices.below(64) {
            0..20 => self.sequence(choices),
            20..38 => self.poll(choices),
            38..52 => self.drop_one(choices),
            52..54 => self.give_up(choices),
            54..56 => self.tick(choices),
            56 => self.come_too_late(choices),
            57 => self.poison(choices),
            58..60 => self.try_to_acquire(choices),
            60..62 => self.ask_the_optimist(choices),
            62 => self.inspect(),
            _ if choices.one_in(8) => self.shut_down(),
            _ => self.tick(choices),
        }
    }

    fn declare(&self, choices: &mut Choices<'_>) -> Vec<Declared> {
        let most = choices.of(&[2, 2, 4, 12]);
        let count = choices.below(most + 1);
        Vec::from_iter((0..count).map(|_| Declared::choose(choices, self.keys)))
    }

    fn request(&self, declared: &[Declared], fails: bool) -> RequestBuilder {
        let request = self.manager.request(&spans(declared, self.prefix));
        match fails {
            true => request.on_poison(OnPoison::Fail),
            false => request,
        }
    }

    fn sequence(&mut self, choices: &mut Choices<'_>) {
        if self.line.len() == LONGEST {
            return self.drop_one(choices);
        }
        let mut declared = self.declare(choices);
        let fails = choices.one_in(4);
        let way = choices.below(16);
        if way == 3 {
            // Optimists only read.
            declared
                .iter_mut()
                .for_each(|declared| declared.write = false);
        }
        let request = self.request(&declared, fails);
        let state = match way {
            0..2 => request
                .wait_for()
                .map(|w| Waiting::unparked(Waiter::WaitFor(w))),
            2..4 => match request.sequence_optimistic() {
                Ok(optimistic) => Ok(State::Optimistic(Box::new(optimistic), self.all_latches())),
                Err(OptimisticError::DeclaresWrite(_)) => {
                    assert!(declared.iter().any(|declared| declared.write));
                    return;
                }
                Err(OptimisticError::ShuttingDown) => Err(ShuttingDown),
            },
            _ => request
                .sequence()
                .map(|p| Waiting::unparked(Waiter::Pending(p))),
        };
        if self.shut_down {
            assert_eq!(state.err(), Some(ShuttingDown));
            return;
        }
        self.covered.requests += 1;
        self.line.push(InLine {
            declared,
            fails,
            poisoned: false,
            state: state.unwrap_or_else(|error| panic!("{error}")),
        });
    }

    fn all_latches(&self) -> Vec<Declared> {
        let latches = self.line.iter().flat_map(InLine::latches);
        latches.copied().collect()
    }

    /// Whether the request at `position` must wait: iff an earlier one in line conflicts with it.
    fn must_wait(&self, position: usize) -> bool {
        self.ahead(position).next().is_some()
    }

    /// Those that the request at `position` must wait for.
    fn ahead(&self, position: usize) -> impl Iterator<Item = &InLine> {
        let declared = &self.line[position].declared;
        self.line[..position]
            .iter()
            .filter(move |earlier| conflict(declared, earlier.latches()))
    }

    /// Whether the request at `position` meets poison whichever of those it must wait for it meets.
    fn surely_meets_poison(&self, position: usize) -> bool {
        self.must_wait(position) && self.ahead(position).all(|earlier| earlier.poisoned)
    }

    fn may_meet_poison(&self, position: usize) -> bool {
        self.ahead(position).any(|earlier| earlier.poisoned)
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
        let surely_meets_poison = self.surely_meets_poison(position);
        let now = self.clock.load(Ordering::Relaxed);
        let waits_before = self.metrics.waits.count();
        let fails = self.line[position].fails;
        let State::Waiting(waiting) = &mut self.line[position].state else {
            unreachable!("chosen among the waiting");
        };
        // Now and then it is another task that polls.
        let before = (choices.one_in(8)).then(|| std::mem::take(&mut waiting.wakes));
        let wakes = waiting.wakes.count();
        let really_waited = waiting.parked.is_some();
        let polled = waiting.waiter.poll(&waiting.wakes);
        if let Some(before) = before {
            assert_eq!(Arc::strong_count(&before), 1, "a replaced waker is kept");
        }
        match polled {
            Poll::Ready(Ok(guard)) => {
                assert!(!must_wait, "granted too early");
                assert_eq!(Arc::strong_count(&waiting.wakes), 1, "a waker is kept");
                let waits = self.metrics.waits.count() - waits_before;
                assert_eq!(waits, u64::from(really_waited), "counts real waits");
                self.granted(position, guard);
            }
            Poll::Ready(Err(error)) => {
                self.check_error(position, error);
                self.remove(position);
            }
            Poll::Pending => {
                assert!(must_wait && !self.shut_down, "a false wait");
                assert!(!(fails && surely_meets_poison), "should have failed");
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

    fn granted(&mut self, position: usize, guard: Option<Guard>) {
        match guard {
            Some(guard) => self.line[position].state = State::Holding(guard),
            None => self.remove(position),
        }
    }

    fn check_error(&self, position: usize, error: WaitError) {
        match error {
            WaitError::ShuttingDown => assert!(self.shut_down),
            WaitError::Poisoned(_) => {
                assert!(self.line[position].fails && self.may_meet_poison(position));
            }
            error => panic!("{error}"),
        }
    }

    fn drop_one(&mut self, choices: &mut Choices<'_>) {
        if !self.line.is_empty() {
            self.remove(choices.below(self.line.len()));
        }
    }

    /// Takes a request out of line; those that are woken by that conflict with it.
    fn remove(&mut self, position: usize) {
        let latches = self.line[position].latches().to_vec();
        let InLine { state, .. } = self.line.remove(position);
        let before = self.all_wakes();
        match state {
            State::Waiting(Waiting { waiter, wakes, .. }) => {
                drop(waiter);
                assert_eq!(Arc::strong_count(&wakes), 1, "a waker is kept");
            }
            State::Holding(guard) => drop(guard),
            State::Optimistic(optimistic, _) => drop(optimistic),
            State::Validated(validated) => drop(validated),
        }
        self.check_wakes(&before, &latches);
    }

    fn all_wakes(&self) -> Vec<usize> {
        let wakes = |request: &InLine| match &request.state {
            State::Waiting(waiting) => waiting.wakes.count(),
            _ => 0,
        };
        self.line.iter().map(wakes).collect()
    }

    /// Whoever has been woken conflicts with `latches`.
    fn check_wakes(&self, before: &[usize], latches: &[Declared]) {
        for ((request, before), now) in self.line.iter().zip(before).zip(self.all_wakes()) {
            let may_be_woken = conflict(&request.declared, latches);
            assert!(may_be_woken || now == *before, "woken for nothing");
        }
    }

    /// Waits until a deadline that has passed: gets the guard, or leaves the line.
    fn give_up(&mut self, choices: &mut Choices<'_>) {
        let Some(position) = self.choose_waiting(choices) else {
            return;
        };
        let must_wait = self.must_wait(position);
        let past = self.start;
        let InLine {
            declared,
            fails,
            poisoned,
            state,
        } = self.line.remove(position);
        let State::Waiting(Waiting { waiter, .. }) = state else {
            unreachable!("chosen among the waiting");
        };
        let had_latches = matches!(waiter, Waiter::Pending(_));
        match waiter.wait_until(past) {
            Ok(guard) => {
                assert!(!must_wait, "granted too early");
                assert_eq!(guard.is_some(), had_latches);
                if let Some(guard) = guard {
                    let state = State::Holding(guard);
                    let request = InLine {
                        declared,
                        fails,
                        poisoned,
                        state,
                    };
                    self.line.insert(position, request);
                }
            }
            Err(WaitError::DeadlinePassed) => assert!(must_wait && !self.shut_down),
            Err(WaitError::ShuttingDown) => assert!(self.shut_down),
            Err(error) => {
                let poisoned = self.line[..position].iter().any(|earlier| earlier.poisoned);
                assert!(fails && poisoned, "{error}");
            }
        }
    }

    /// Says of a holder that it is stuck.
    fn poison(&mut self, choices: &mut Choices<'_>) {
        let holds = |&position: &usize| matches!(self.line[position].state, State::Holding(_));
        let holding = Vec::from_iter((0..self.line.len()).filter(holds));
        if holding.is_empty() {
            return;
        }
        let position = choices.of(&holding);
        let before = self.all_wakes();
        let request = &mut self.line[position];
        let State::Holding(guard) = &request.state else {
            unreachable!("chosen among the holding");
        };
        guard.poison();
        request.poisoned = true;
        self.anybody_is_stuck = true;
        self.check_wakes(&before, self.line[position].latches());
    }

    /// Succeeds iff nothing in line conflicts.
    fn try_to_acquire(&mut self, choices: &mut Choices<'_>) {
        if self.line.len() == LONGEST {
            return;
        }
        let declared = self.declare(choices);
        let would_wait = conflict(&declared, &self.all_latches());
        match self.manager.try_acquire(&spans(&declared, self.prefix)) {
            Ok(guard) => {
                assert!(!would_wait && !self.shut_down, "granted too early");
                self.covered.requests += 1;
                self.line.push(InLine {
                    declared,
                    fails: false,
                    poisoned: false,
                    state: State::Holding(guard),
                });
            }
            Err(TryAcquireError::WouldWait) => assert!(would_wait && !self.shut_down),
            Err(TryAcquireError::ShuttingDown) => assert!(self.shut_down),
        }
    }

    /// Asks an optimistic request whether some of what it declared was free.
    fn ask_the_optimist(&mut self, choices: &mut Choices<'_>) {
        let is_one = |request: &InLine| matches!(request.state, State::Optimistic(..));
        let Some(position) = self.line.iter().position(is_one) else {
            return;
        };
        let read = Vec::from_iter(
            (self.line[position].declared.iter())
                .filter(|_| choices.below(2) == 0)
                .copied(),
        );
        let InLine {
            declared,
            fails,
            poisoned,
            state,
        } = self.line.remove(position);
        let State::Optimistic(optimistic, ahead) = state else {
            unreachable!("chosen among the optimistic");
        };
        let state = match optimistic.check_no_conflicts(&spans(&read, self.prefix)) {
            Ok(validated) => {
                assert!(!conflict(&read, &ahead), "a conflict was overlooked");
                State::Validated(validated)
            }
            Err(pending) => {
                assert!(conflict(&read, &ahead), "a conflict was invented");
                Waiting::unparked(Waiter::Pending(pending))
            }
        };
        let request = InLine {
            declared,
            fails,
            poisoned,
            state,
        };
        self.line.insert(position, request);
    }

    /// Whether a request has nothing to wait for: by its place, or because it has asked afterwards.
    fn is_free(&self, position: usize) -> bool {
        let validated = matches!(self.line[position].state, State::Validated(_));
        validated || !self.must_wait(position)
    }

    /// Compares a picture of all latches.
    fn inspect(&self) {
        let seen = self.manager.inspect();
        let has_latches = |position: &usize| !self.line[*position].latches().is_empty();
        let positions = Vec::from_iter((0..self.line.len()).filter(has_latches));
        assert_eq!(seen.requests.len(), positions.len());
        let numbers = seen.requests.iter().map(|request| request.request);
        for (request, &position) in seen.requests.iter().zip(&positions) {
            let InLine {
                declared, poisoned, ..
            } = &self.line[position];
            assert_eq!(request.latches.len(), declared.len());
            assert!(request.poisoned || !poisoned, "poison was overlooked");
            match &request.state {
                Seen::Holding { .. } => assert!(self.is_free(position)),
                Seen::Waiting { on, head, .. } => {
                    let place = |number| {
                        let requests = &mut seen.requests.iter();
                        let place = requests.position(|request| request.request == number);
                        positions[place.expect("whom one waits for is in line")]
                    };
                    let on = self.line[place(*on)].latches();
                    assert!(place(*head) < position && conflict(declared, on));
                    assert!(!self.is_free(position), "waits for nobody");
                    assert!(self.is_free(place(*head)), "the head of a chain waits");
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(numbers.is_sorted_by(|a, b| a < b));
        assert!(!seen.to_string().is_empty() && !seen.graphviz().to_string().is_empty());
    }

    /// Learns who is poisoned beside those that said so: whoever waits for one that is, and does not fail.
    fn follow_poison(&mut self) {
        let seen = self.manager.inspect();
        let mut with_latches = self.line.iter_mut().filter(|r| !r.latches().is_empty());
        for seen in &seen.requests {
            let request = with_latches.next().expect("all that is seen is in line");
            let polled = match &request.state {
                State::Waiting(waiting) => waiting.parked.is_some(),
                State::Holding(_) => true,
                State::Optimistic(..) | State::Validated(_) => false,
            };
            let was = std::mem::replace(&mut request.poisoned, seen.poisoned);
            assert!(seen.poisoned || !was, "poison was forgotten");
            assert!(
                was || !seen.poisoned || (polled && !request.fails),
                "poison from nowhere"
            );
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
    fn check(&mut self) {
        self.manager.verify();
        if self.anybody_is_stuck {
            self.follow_poison();
        }
        let mut counts = Counts::default();
        let mut slow = 0;
        for (position, request) in self.line.iter().enumerate() {
            counts.requests += 1;
            for declared in request.latches() {
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
                    let meets_poison = request.fails && self.surely_meets_poison(position);
                    let goes_on = !must_wait || self.shut_down || meets_poison;
                    assert!(
                        !goes_on || wakes.count() > parked.wakes,
                        "a wake-up was lost"
                    );
                }
                State::Waiting(_) | State::Optimistic(..) | State::Validated(_) => {}
            }
        }
        assert_eq!(self.manager.counts(), counts);
        assert_eq!(self.metrics.slow.value(), slow, "slow requests");
    }

    fn check_readiness(&mut self) {
        for position in 0..self.line.len() {
            let goes_on = !self.must_wait(position) || self.shut_down;
            if let State::Waiting(waiting) = &mut self.line[position].state {
                let ready = waiting.waiter.is_ready();
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
