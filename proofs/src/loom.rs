//! The smallest cases under loom: every interleaving of two threads, and every one of three with few preemptions.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use ::loom::model::Builder;
use ::loom::thread;
use spanlatch::{Counts, Guard, Manager, Pending, WaitError};

use crate::declared::{Declared, spans};
use crate::history::{Event, History};

/// A case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it is about.
    pub name: &'static str,
    /// How many threads take part. With three, there are too many interleavings to try all.
    threads: usize,
    play: fn(&Stage),
}

/// All cases.
pub const CASES: [Case; 9] = [
    case("a release against a park", 2, a_release_and_a_park),
    case("a release against a poll", 2, a_release_and_a_poll),
    case("a release against a question", 2, a_release_and_a_question),
    case("a shutdown against a park", 2, a_shutdown_and_a_park),
    case(
        "a shutdown against a sequence",
        2,
        a_shutdown_and_a_sequence,
    ),
    case("a release against a deadline", 3, a_release_and_a_deadline),
    case(
        "the middle one of three gives up",
        3,
        the_middle_of_three_gives_up,
    ),
    case("three writers", 3, three_writers),
    case("two readers and a writer", 3, two_readers_and_a_writer),
];

const fn case(name: &'static str, threads: usize, play: fn(&Stage)) -> Case {
    Case {
        name,
        threads,
        play,
    }
}

impl Case {
    /// How often at most threads shall lose their turn against their will; `None`: as often as possible.
    pub fn preemptions(self) -> Option<usize> {
        (self.threads > 2).then_some(5)
    }

    /// Tries every interleaving with at most so many preemptions; says how many there were.
    ///
    /// # Panics
    ///
    /// If something happens that must not, or nothing can happen any more.
    pub fn run(self, preemptions: Option<usize>) -> u64 {
        let mut builder = Builder::new();
        builder.preemption_bound = preemptions;
        builder.max_branches = 100_000;
        let tried = Arc::new(AtomicU64::new(0));
        builder.check({
            let tried = Arc::clone(&tried);
            move || {
                tried.fetch_add(1, Ordering::Relaxed);
                join([spawn(move || self.play())]);
            }
        });
        tried.load(Ordering::Relaxed)
    }

    fn play(self) {
        let stage = Stage::new();
        (self.play)(&stage);
        assert_eq!(stage.manager.counts(), Counts::default());
        stage.manager.verify();
        if let Err(error) = stage.history.check() {
            panic!("{error}");
        }
    }
}

/// A thread with more stack than loom gives to one.
fn spawn(perform: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    const WORDS: usize = 0x8000;
    let builder = thread::Builder::new().stack_size(WORDS);
    builder.spawn(perform).expect("threads can be started")
}

/// What the threads of a case share.
#[derive(Clone)]
struct Stage {
    manager: Manager,
    history: Arc<History>,
}

/// A request in line.
struct InLine {
    pending: Pending,
    declared: Declared,
    sequenced: (u64, u64),
}

const WRITE: Declared = Declared {
    local: false,
    write: true,
    first: 1,
    last: 1,
    at: None,
};

const READ: Declared = Declared {
    write: false,
    ..WRITE
};

impl Stage {
    fn new() -> Self {
        let start = Instant::now();
        Stage {
            manager: Manager::builder().clock(move || start).build(),
            history: Arc::default(),
        }
    }

    fn sequence(&self, declared: Declared) -> InLine {
        self.try_sequence(declared).expect("not shut down")
    }

    fn try_sequence(&self, declared: Declared) -> Option<InLine> {
        let called = self.history.now();
        let pending = self.manager.sequence(&spans(&[declared], b"")).ok()?;
        Some(InLine {
            pending,
            declared,
            sequenced: (called, self.history.now()),
        })
    }

    /// Waits, and lets go at once if it was granted.
    fn end(
        &self,
        in_line: InLine,
        wait: impl FnOnce(Pending) -> Option<Result<Guard, WaitError>>,
    ) -> Option<WaitError> {
        let sequence = in_line.pending.sequence_number().expect("not completed");
        let mut left = self.history.now();
        let mut granted = None;
        let mut error = None;
        match wait(in_line.pending) {
            Some(Ok(guard)) => {
                granted = Some(self.history.now());
                left = self.history.now();
                drop(guard);
            }
            Some(Err(failed)) => error = Some(failed),
            None => {}
        }
        self.history.record(Event {
            sequence: Some(sequence),
            wanted: vec![in_line.declared],
            latches: vec![in_line.declared],
            sequenced: in_line.sequenced,
            granted,
            left,
        });
        error
    }

    fn end_granted(&self, in_line: InLine) {
        assert_eq!(self.end(in_line, |pending| Some(pending.wait())), None);
    }

    fn spawn(&self, perform: impl FnOnce(&Stage) + Send + 'static) -> thread::JoinHandle<()> {
        let stage = self.clone();
        spawn(move || perform(&stage))
    }
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("a panic ends the case");
    }
}

fn a_release_and_a_park(stage: &Stage) {
    let first = stage.sequence(WRITE);
    let second = stage.sequence(WRITE);
    let other = stage.spawn(|stage| stage.end_granted(first));
    stage.end_granted(second);
    join([other]);
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Who is told to wait is woken.
fn a_release_and_a_poll(stage: &Stage) {
    let first = stage.sequence(WRITE);
    let second = stage.sequence(READ);
    let other = stage.spawn(|stage| stage.end_granted(first));
    stage.end(second, |mut pending| {
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let mut poll = || Pin::new(&mut pending).poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(outcome) = poll() {
            return Some(outcome);
        }
        join([other]);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "woken once");
        match poll() {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => panic!("waits for nobody"),
        }
    });
}

fn a_release_and_a_deadline(stage: &Stage) {
    let first = stage.sequence(WRITE);
    let second = stage.sequence(WRITE);
    let third = stage.sequence(READ);
    let others = [
        stage.spawn(|stage| stage.end_granted(first)),
        stage.spawn(|stage| stage.end_granted(third)),
    ];
    let deadline = Instant::now() + Duration::from_secs(60);
    let error = stage.end(second, |pending| Some(pending.wait_until(deadline)));
    assert!(matches!(error, None | Some(WaitError::DeadlinePassed)));
    join(others);
}

fn a_release_and_a_question(stage: &Stage) {
    let first = stage.sequence(WRITE);
    let second = stage.sequence(READ);
    let other = stage.spawn(|stage| stage.end_granted(first));
    stage.end(second, |mut pending| {
        let ready = pending.is_ready();
        assert!(!ready || pending.is_ready(), "was ready, and is no longer");
        Some(pending.wait())
    });
    join([other]);
}

fn a_shutdown_and_a_park(stage: &Stage) {
    let first = stage.sequence(WRITE);
    let second = stage.sequence(WRITE);
    let other = stage.spawn(|stage| stage.manager.shut_down());
    // The first holds until the other is done: nothing but the shutdown ends its wait.
    stage.end(first, |first| {
        let guard = first.wait();
        if let Ok(guard) = guard {
            let error = stage.end(second, |pending| Some(pending.wait()));
            assert_eq!(error, Some(WaitError::ShuttingDown));
            return Some(Ok(guard));
        }
        stage.end(second, |_| None);
        Some(guard)
    });
    join([other]);
}

fn a_shutdown_and_a_sequence(stage: &Stage) {
    let first = stage.sequence(WRITE);
    let other = stage.spawn(|stage| stage.manager.shut_down());
    stage.end(first, |first| {
        let guard = first.wait();
        if let Some(second) = stage.try_sequence(READ) {
            match &guard {
                Ok(_) => {
                    let error = stage.end(second, |pending| Some(pending.wait()));
                    assert_eq!(error, Some(WaitError::ShuttingDown));
                }
                Err(error) => panic!("{error}, and another was sequenced"),
            }
        }
        Some(guard)
    });
    join([other]);
}

fn the_middle_of_three_gives_up(stage: &Stage) {
    let [first, second, third] = [WRITE, WRITE, WRITE].map(|declared| stage.sequence(declared));
    let others = [
        stage.spawn(|stage| {
            stage.end(second, |mut pending| {
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(&mut pending).poll(&mut context) {
                    Poll::Ready(outcome) => Some(outcome),
                    Poll::Pending => None,
                }
            });
        }),
        stage.spawn(|stage| stage.end_granted(third)),
    ];
    stage.end_granted(first);
    join(others);
}

fn three_writers(stage: &Stage) {
    let others = [(); 2].map(|()| stage.spawn(|stage| stage.end_granted(stage.sequence(WRITE))));
    stage.end_granted(stage.sequence(WRITE));
    join(others);
}

fn two_readers_and_a_writer(stage: &Stage) {
    let others = [(); 2].map(|()| stage.spawn(|stage| stage.end_granted(stage.sequence(READ))));
    stage.end_granted(stage.sequence(WRITE));
    join(others);
}
