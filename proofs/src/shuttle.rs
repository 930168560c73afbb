//! The whole manager under shuttle: very many interleavings of small scenarios.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use ::shuttle::scheduler::{PctScheduler, RandomScheduler};
use ::shuttle::{Config, Runner, future, thread};
use spanlatch::{
    Counts, Guard, Manager, OnPoison, Optimistic, OptimisticError, Pending, ShuttingDown, State,
    TryAcquireError, WaitError, WaitFor,
};
use spanlatch_metrics::LatchMetrics;

use crate::choices::Choices;
use crate::declared::{Declared, spans};
use crate::history::{Event, History};

/// How many keys there are: few, so that requests conflict.
const KEYS: u8 = 3;

/// Some tasks and what each of them does.
#[derive(Clone, Debug)]
pub struct Scenario {
    tasks: Vec<Task>,
    /// How many entries a search takes in one stay under the mutex.
    steps: usize,
}

#[derive(Clone, Debug)]
enum Task {
    /// Makes requests.
    Request {
        requests: Vec<Request>,
        order: Order,
    },
    /// Tells the manager that much time has passed.
    Tick,
    /// Looks at the counts and checks the invariants.
    Look,
    ShutDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Each is sequenced when the one before has ended.
    OneByOne,
    /// All are sequenced, then waited for in the same order.
    AllAtOnce,
}

#[derive(Clone, Debug)]
struct Request {
    declared: Vec<Declared>,
    way: Way,
    on_poison: OnPoison,
    leave: Leave,
}

/// How a request is made and goes on.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The thread waits.
    Wait,
    /// The thread waits until a deadline that passes sooner or later.
    WaitUntil,
    /// Another thread waits.
    WaitElsewhere,
    /// The thread runs the future.
    Await,
    /// A task of an executor runs the future.
    Spawn,
    /// The same, and is then aborted.
    SpawnAndAbort,
    /// Asks whether it is ready before it waits.
    AskAndWait,
    /// Is polled once and then waits with another waker.
    PollAndWait,
    /// Is polled once and then given up.
    PollAndDrop,
    Drop,
    /// Has its latches at once or not at all.
    Try,
    /// Waits without latches of its own.
    WaitFor,
    /// Asks afterwards whether what it read was free, and waits if it wasn't.
    Optimistic,
}

const WAYS: [Way; 13] = [
    Way::Wait,
    Way::WaitUntil,
    Way::WaitElsewhere,
    Way::Await,
    Way::Spawn,
    Way::SpawnAndAbort,
    Way::AskAndWait,
    Way::PollAndWait,
    Way::PollAndDrop,
    Way::Drop,
    Way::Try,
    Way::WaitFor,
    Way::Optimistic,
];

/// How a guard is let go.
#[derive(Clone, Copy, Debug)]
enum Leave {
    AtOnce,
    AfterAWhile,
    /// After it has been said to be stuck.
    Stuck,
    /// When everybody else is done, after it has been said to be stuck. Only for scenarios in which all others fail.
    StuckToTheEnd,
    /// By another thread, while this one goes on.
    Elsewhere,
}

/// What a run of schedules covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// Schedules.
    pub schedules: u64,
    /// Scenarios.
    pub scenarios: u64,
}

impl Covered {
    /// Adds what another run covered.
    pub fn add(&mut self, other: Covered) {
        self.schedules += other.schedules;
        self.scenarios += other.scenarios;
    }
}

/// How many scenarios are written down; they are the first.
pub fn stories() -> usize {
    written().len()
}

/// Scenario number `seed`, under `schedules` schedules, half of them chosen at random and half with few preemptions
/// (probabilistic concurrency testing).
///
/// # Panics
///
/// If something happens that must not, after the schedule and the scenario have been printed.
pub fn run(seed: u64, schedules: usize) -> Covered {
    let scenario = Arc::new(Scenario::numbered(seed));
    let mut config = Config::new();
    config.stack_size = 0x8_0000;
    config.silence_warnings = true;
    let run = |scenario: &Arc<Scenario>| {
        let scenario = Arc::clone(scenario);
        move || scenario.play()
    };
    let half = schedules.div_ceil(2);
    let random = RandomScheduler::new_from_seed(seed, half);
    let depth = 2 + seed as usize % 3;
    let few_preemptions = PctScheduler::new_from_seed(seed, depth, half);
    let played = Runner::new(random, config.clone()).run(run(&scenario))
        + Runner::new(few_preemptions, config).run(run(&scenario));
    Covered {
        schedules: played as u64,
        scenarios: 1,
    }
}

impl Scenario {
    /// The first ones are stories; all others are chosen at random.
    pub fn numbered(seed: u64) -> Self {
        let stories = written();
        match usize::try_from(seed) {
            Ok(story) if story < stories.len() => stories[story].clone(),
            _ => Scenario::choose(&mut Choices::random(seed)),
        }
    }

    fn choose(choices: &mut Choices<'_>) -> Self {
        let requesters = 2 + choices.below(3);
        let mut tasks = Vec::from_iter((0..requesters).map(|_| {
            // With more tasks, fewer requests each, or few of the schedules would matter.
            let requests = 1 + choices.below(if requesters == 2 { 3 } else { 2 });
            Task::Request {
                requests: Vec::from_iter((0..requests).map(|_| Request::choose(choices))),
                order: choices.of(&[Order::OneByOne, Order::AllAtOnce]),
            }
        }));
        match choices.below(8) {
            0 => tasks.push(Task::ShutDown),
            1 => tasks.push(Task::Tick),
            2 => tasks.push(Task::Look),
            _ => {}
        }
        Scenario {
            tasks,
            steps: choices.of(&[1, 2, 128]),
        }
    }

    fn play(&self) {
        let reported = LatchMetrics::default();
        let slow = reported.slow.gauge().clone();
        let start = Instant::now();
        let manager = Manager::builder()
            .metrics(reported)
            .clock(move || start)
            .steps(self.steps)
            .build();
        let stage = Arc::new(Stage {
            manager,
            history: History::default(),
            start,
            is_shut_down: self.tasks.iter().any(|task| matches!(task, Task::ShutDown)),
            is_stuck: self.tasks.iter().any(Task::is_stuck),
            kept: std::sync::Mutex::default(),
        });
        let tasks = Vec::from_iter(self.tasks.iter().cloned().map(|task| {
            let stage = Arc::clone(&stage);
            thread::spawn(move || stage.perform(task))
        }));
        for task in tasks {
            task.join().expect("a panic ends the schedule");
        }
        drop(std::mem::take(&mut *stage.kept.lock().expect("no panic")));
        assert_eq!(stage.manager.counts(), Counts::default());
        stage.manager.verify();
        assert_eq!(slow.value(), 0, "slow requests that are gone");
        if let Err(error) = stage.history.check() {
            panic!("{error}");
        }
    }
}

impl Request {
    fn choose(choices: &mut Choices<'_>) -> Self {
        let latches = choices.of(&[1, 1, 1, 2, 3]);
        Request {
            declared: Vec::from_iter((0..latches).map(|_| Declared::choose(choices, KEYS))),
            way: choices.of(&WAYS),
            on_poison: choices.of(&[OnPoison::Wait, OnPoison::Wait, OnPoison::Fail]),
            leave: choices.of(&[
                Leave::AtOnce,
                Leave::AfterAWhile,
                Leave::Elsewhere,
                Leave::Stuck,
            ]),
        }
    }
}

/// What the tasks of a scenario share.
struct Stage {
    manager: Manager,
    history: History,
    start: Instant,
    /// Whether some task shuts the manager down.
    is_shut_down: bool,
    /// Whether some holder says that it is stuck.
    is_stuck: bool,
    /// Guards that are held to the end.
    kept: std::sync::Mutex<Vec<Guard>>,
}

/// A request in line.
struct InLine {
    entry: Entry,
    request: Request,
    sequenced: (u64, u64),
}

enum Entry {
    Pending(Pending),
    Held(Guard),
    WaitFor(WaitFor),
    Optimistic(Optimistic),
}

/// Outcome of a wait; none, if it was given up.
type Outcome = Option<Result<Guard, WaitError>>;

impl Stage {
    fn perform(&self, task: Task) {
        match task {
            Task::Request { requests, order } => self.request(requests, order),
            Task::Tick => self.manager.tick(self.start + Duration::from_secs(60)),
            Task::Look => {
                assert!(self.manager.counts().requests <= 9);
                self.manager.verify();
                self.look();
            }
            Task::ShutDown => self.manager.shut_down(),
        }
    }

    fn request(&self, requests: Vec<Request>, order: Order) {
        match order {
            Order::OneByOne => {
                for request in requests {
                    if let Some(in_line) = self.sequence(request) {
                        self.see_through(in_line);
                    }
                }
            }
            Order::AllAtOnce => {
                let in_line = Vec::from_iter(requests.into_iter().map(|r| self.sequence(r)));
                for in_line in in_line.into_iter().flatten() {
                    self.see_through(in_line);
                }
            }
        }
    }

    /// A picture taken at any time has a head for each chain, which holds.
    fn look(&self) {
        let seen = self.manager.inspect();
        for request in &seen.requests {
            if let State::Waiting { on, head, .. } = request.state {
                let mut heads = seen.requests.iter().filter(|seen| seen.request == head);
                let head = heads.next().expect("a head is in the picture");
                assert!(matches!(head.state, State::Holding { .. }), "{seen}");
                assert!(head.request <= on && on < request.request, "{seen}");
            }
        }
        drop(seen.graphviz().to_string());
    }

    fn sequence(&self, mut request: Request) -> Option<InLine> {
        if let Way::Optimistic = request.way {
            request
                .declared
                .iter_mut()
                .for_each(|declared| declared.write = false);
        }
        let called = self.history.now();
        let spans = spans(&request.declared, b"");
        let builder = self.manager.request(&spans).on_poison(request.on_poison);
        let entry = match request.way {
            Way::Try => match builder.try_acquire() {
                Err(TryAcquireError::WouldWait) => return None,
                held => held.map(Entry::Held).map_err(|_| ShuttingDown),
            },
            Way::WaitFor => builder.wait_for().map(Entry::WaitFor),
            Way::Optimistic => match builder.sequence_optimistic() {
                Err(OptimisticError::DeclaresWrite(write)) => panic!("{write} is a read"),
                entry => entry.map(Entry::Optimistic).map_err(|_| ShuttingDown),
            },
            _ => builder.sequence().map(Entry::Pending),
        };
        let Ok(entry) = entry else {
            assert!(self.is_shut_down);
            return None;
        };
        Some(InLine {
            entry,
            request,
            sequenced: (called, self.history.now()),
        })
    }

    /// Waits, holds and leaves.
    fn see_through(&self, in_line: InLine) {
        let InLine {
            entry,
            request,
            sequenced,
        } = in_line;
        let mut event = Event {
            sequence: None,
            wanted: request.declared.clone(),
            latches: request.declared.clone(),
            sequenced,
            granted: None,
            left: self.history.now(),
        };
        match entry {
            Entry::Held(guard) => {
                event.sequence = Some(guard.sequence_number());
                self.hold(Some(Ok(guard)), &request, &mut event);
            }
            Entry::Pending(pending) => {
                event.sequence = pending.sequence_number();
                self.hold(go(pending, request.way), &request, &mut event);
            }
            Entry::WaitFor(wait_for) => {
                event.latches.clear();
                match wait_for.wait() {
                    Ok(()) => event.granted = Some(self.history.now()),
                    Err(error) => self.check_error(&error, &request),
                }
            }
            Entry::Optimistic(optimistic) => {
                thread::yield_now();
                let read = &request.declared[..request.declared.len().min(1)];
                match optimistic.check_no_conflicts(&spans(read, b"")) {
                    Ok(validated) => {
                        event.wanted = read.to_vec();
                        event.granted = Some(sequenced.1);
                        event.left = self.history.now();
                        drop(validated);
                    }
                    Err(pending) => {
                        event.sequence = pending.sequence_number();
                        self.hold(go(pending, Way::Wait), &request, &mut event);
                    }
                }
            }
        }
        self.history.record(event);
    }

    /// Holds what was granted, and lets go of it.
    fn hold(&self, outcome: Outcome, request: &Request, event: &mut Event) {
        match outcome {
            Some(Ok(guard)) => {
                assert_eq!(Some(guard.sequence_number()), event.sequence);
                event.granted = Some(self.history.now());
                match request.leave {
                    Leave::AtOnce | Leave::Elsewhere => {}
                    Leave::AfterAWhile => thread::yield_now(),
                    Leave::Stuck | Leave::StuckToTheEnd => {
                        guard.poison();
                        thread::yield_now();
                    }
                }
                event.left = self.history.now();
                match request.leave {
                    Leave::StuckToTheEnd => self.kept.lock().expect("no panic").push(guard),
                    leave => let_go(guard, leave),
                }
            }
            Some(Err(error)) => self.check_error(&error, request),
            None => {}
        }
    }

    fn check_error(&self, error: &WaitError, request: &Request) {
        match error {
            WaitError::ShuttingDown => assert!(self.is_shut_down),
            WaitError::DeadlinePassed => assert!(matches!(request.way, Way::WaitUntil)),
            WaitError::Poisoned(_) => {
                assert!(self.is_stuck && request.on_poison == OnPoison::Fail);
            }
            error => panic!("{error}"),
        }
    }
}

impl Task {
    /// Whether a holder says that it is stuck.
    fn is_stuck(&self) -> bool {
        match self {
            Task::Request { requests, .. } => requests
                .iter()
                .any(|request| matches!(request.leave, Leave::Stuck | Leave::StuckToTheEnd)),
            _ => false,
        }
    }
}

fn go(mut pending: Pending, way: Way) -> Outcome {
    match way {
        Way::Wait => Some(pending.wait()),
        Way::WaitUntil => Some(pending.wait_until(Instant::now())),
        Way::WaitElsewhere => thread::spawn(|| Some(pending.wait()))
            .join()
            .expect("no panic"),
        Way::Await => Some(future::block_on(pending)),
        Way::Spawn => future::block_on(future::spawn(pending)).ok(),
        Way::SpawnAndAbort => {
            let task = future::spawn(pending);
            thread::yield_now();
            task.abort();
            future::block_on(task).ok()
        }
        Way::AskAndWait => {
            let ready = pending.is_ready();
            thread::yield_now();
            assert!(!ready || pending.is_ready(), "was ready, and is no longer");
            Some(pending.wait())
        }
        Way::PollAndWait => match poll_once(&mut pending) {
            None => Some(pending.wait()),
            done => done,
        },
        Way::PollAndDrop => {
            let polled = poll_once(&mut pending);
            if polled.is_none() {
                thread::yield_now();
            }
            polled
        }
        Way::Drop => None,
        Way::Try | Way::WaitFor | Way::Optimistic => unreachable!("made in another way"),
    }
}

/// With a waker that nobody listens to.
fn poll_once(pending: &mut Pending) -> Outcome {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(pending).poll(&mut context) {
        std::task::Poll::Ready(outcome) => Some(outcome),
        std::task::Poll::Pending => None,
    }
}

fn let_go(guard: Guard, leave: Leave) {
    match leave {
        Leave::AtOnce | Leave::AfterAWhile | Leave::Stuck | Leave::StuckToTheEnd => drop(guard),
        Leave::Elsewhere => {
            thread::spawn(move || drop(guard)).join().expect("no panic");
        }
    }
}

const WRITE: Declared = Declared {
    local: false,
    write: true,
    first: 1,
    last: 1,
    at: None,
};

fn one(declared: &[Declared], way: Way) -> Task {
    Task::Request {
        requests: vec![Request {
            declared: declared.to_vec(),
            way,
            on_poison: OnPoison::Wait,
            leave: Leave::AtOnce,
        }],
        order: Order::OneByOne,
    }
}

fn with(task: Task, on_poison: OnPoison, leave: Leave) -> Task {
    match task {
        Task::Request { requests, order } => Task::Request {
            requests: Vec::from_iter(requests.into_iter().map(|request| Request {
                on_poison,
                leave,
                ..request
            })),
            order,
        },
        other => other,
    }
}

/// Where a manager would go wrong first.
fn written() -> Vec<Scenario> {
    let read = Declared {
        write: false,
        ..WRITE
    };
    let range = Declared {
        first: 0,
        last: 2,
        ..WRITE
    };
    let scenario = |tasks: &[Task]| Scenario {
        tasks: tasks.to_vec(),
        steps: 128,
    };
    let two = |order| Task::Request {
        requests: vec![
            Request {
                declared: vec![WRITE, read],
                way: Way::Wait,
                on_poison: OnPoison::Wait,
                leave: Leave::Elsewhere,
            };
            2
        ],
        order,
    };
    vec![
        // A release against a park.
        scenario(&[one(&[WRITE], Way::Wait), one(&[WRITE], Way::Wait)]),
        scenario(&[one(&[read], Way::Await), one(&[range], Way::Spawn)]),
        // The middle one of three gives up, in each way there is.
        scenario(&[Way::Wait, Way::SpawnAndAbort, Way::Wait].map(|way| one(&[WRITE], way))),
        scenario(&[Way::Wait, Way::WaitUntil, Way::Wait].map(|way| one(&[range], way))),
        scenario(&[Way::Wait, Way::PollAndDrop, Way::Await].map(|way| one(&[WRITE], way))),
        // A shutdown against a park, and against a sequence.
        scenario(&[
            one(&[WRITE], Way::Wait),
            one(&[read], Way::Await),
            one(&[WRITE], Way::Wait),
            Task::ShutDown,
        ]),
        // Many readers behind one writer, and a writer behind all of them.
        scenario(&[
            one(&[WRITE], Way::Wait),
            one(&[read], Way::Wait),
            one(&[read], Way::Wait),
            one(&[range], Way::Wait),
        ]),
        // Convoys.
        scenario(&[two(Order::AllAtOnce), two(Order::AllAtOnce)]),
        scenario(&[two(Order::OneByOne), two(Order::OneByOne), Task::Tick]),
        // A slow wait ends while it is being counted.
        scenario(&[
            one(&[WRITE], Way::Wait),
            one(&[WRITE], Way::WaitUntil),
            Task::Tick,
            Task::Tick,
        ]),
        // Poison against a park, through one that goes on waiting.
        scenario(&[
            with(one(&[WRITE], Way::Wait), OnPoison::Wait, Leave::Stuck),
            with(one(&[WRITE], Way::Wait), OnPoison::Wait, Leave::AtOnce),
            with(one(&[read], Way::Wait), OnPoison::Fail, Leave::AtOnce),
        ]),
        // Nothing but poison ends these waits.
        scenario(&[
            with(
                one(&[WRITE], Way::Wait),
                OnPoison::Fail,
                Leave::StuckToTheEnd,
            ),
            with(one(&[read], Way::Wait), OnPoison::Fail, Leave::AtOnce),
            with(one(&[range], Way::Await), OnPoison::Fail, Leave::AtOnce),
        ]),
        // Those without latches of their own, or with latches that they don't wait with.
        scenario(&[
            one(&[WRITE], Way::Wait),
            one(&[WRITE], Way::WaitFor),
            one(&[range], Way::Try),
            one(&[read], Way::Optimistic),
        ]),
    ]
}
