//! Requests on real threads and tasks, as fast as they come.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use spanlatch::{Counts, Guard, Inspection, Manager, Pending};
use spanlatch_metrics::{Gauge, LatchMetrics};

use crate::choices::Choices;
use crate::declared::{Declared, spans};
use crate::history::{Checked, Event, History};

/// Threads that make requests one by one.
const THREADS: u64 = 3;

/// Tasks that do, on two more threads.
const TASKS: u64 = 24;

/// Without any request made, granted or released for so long, something is wrong.
const STANDSTILL: Duration = Duration::from_secs(20);

/// How many keys there are.
const KEYS: u8 = 10;

/// A manager that is used in rounds, and looked at between them.
#[derive(Debug)]
pub struct Live {
    manager: Manager,
    slow: Gauge,
}

impl Live {
    /// A manager of its own. A search takes at most `steps` entries in one stay under the mutex, if that is said.
    pub fn new(steps: Option<usize>) -> Self {
        let metrics = LatchMetrics::default();
        let slow = metrics.slow.gauge().clone();
        let mut builder = Manager::builder()
            .metrics(metrics)
            .slow_threshold(Manager::MIN_SLOW_THRESHOLD);
        if let Some(steps) = steps {
            builder = builder.steps(steps);
        }
        Live {
            manager: builder.build(),
            slow,
        }
    }

    /// Makes about so many requests, half of them on threads and half in tasks, and checks their history. If
    /// nothing happens any more, tells `at_a_standstill` who waits for whom; no thread can do anything about it.
    ///
    /// # Errors
    ///
    /// What must not have happened.
    pub fn round(
        &self,
        seed: u64,
        requests: u64,
        at_a_standstill: fn(Inspection) -> Infallible,
    ) -> Result<Checked, String> {
        let history = Arc::new(History::default());
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers = Vec::from_iter((0..THREADS).map(|thread| {
                let (manager, history) = (&self.manager, &*history);
                scope.spawn(move || {
                    let mut choices = Choices::random(seed * 1_000 + thread);
                    for _ in 0..requests / (2 * THREADS) {
                        on_a_thread(manager, history, &mut choices);
                    }
                })
            }));
            scope.spawn(|| {
                let mut last = (0, Instant::now());
                while !over.load(Ordering::Relaxed) {
                    self.manager.verify();
                    self.manager.tick(Instant::now());
                    thread::yield_now();
                    if history.ticks() != last.0 {
                        last = (history.ticks(), Instant::now());
                    } else if last.1.elapsed() > STANDSTILL {
                        at_a_standstill(self.manager.inspect());
                    }
                }
            });
            in_tasks(&self.manager, &history, seed, requests / (2 * TASKS));
            for worker in workers {
                worker.join().expect("no panic");
            }
            over.store(true, Ordering::Relaxed);
        });
        self.manager.verify();
        if self.manager.counts() != Counts::default() || self.slow.value() != 0 {
            return Err(format!(
                "left behind: {:?}, {} of them slow",
                self.manager.counts(),
                self.slow.value()
            ));
        }
        history.check()
    }
}

/// A request that is in line.
struct InLine {
    pending: Pending,
    event: Event,
}

fn sequence(manager: &Manager, history: &History, choices: &mut Choices<'_>) -> InLine {
    let count = choices.of(&[1, 1, 1, 2, 3, 8]);
    let declared = Vec::from_iter((0..count).map(|_| Declared::choose(choices, KEYS)));
    let prefix = choices.of(&[&b""[..], b"longer than what is kept in place"]);
    let set = spans(&declared, prefix);
    // Keys with another prefix are other keys.
    let declared = match prefix.len() {
        0 => declared,
        _ => Vec::from_iter(declared.into_iter().map(elsewhere)),
    };
    let called = history.now();
    let pending = manager.sequence(&set).expect("not shut down");
    let returned = history.now();
    let event = Event {
        sequence: pending.sequence_number(),
        wanted: declared.clone(),
        latches: declared,
        sequenced: (called, returned),
        granted: None,
        left: returned,
    };
    InLine { pending, event }
}

/// The same among the keys with the other prefix, which lie above all keys without.
fn elsewhere(declared: Declared) -> Declared {
    let up = 100;
    Declared {
        first: declared.first + up,
        last: declared.last.saturating_add(up),
        ..declared
    }
}

/// One request on this thread: waits with or without a deadline, or gives up.
fn on_a_thread(manager: &Manager, history: &History, choices: &mut Choices<'_>) {
    let InLine { mut pending, event } = sequence(manager, history, choices);
    let guard = match choices.below(16) {
        0 => {
            drop(pending);
            None
        }
        1..4 => {
            let patience = Duration::from_micros(choices.below(200) as u64);
            pending.wait_until(Instant::now() + patience).ok()
        }
        4 => {
            while !pending.is_ready() {
                thread::yield_now();
            }
            pending.wait().ok()
        }
        _ => Some(pending.wait().expect("not shut down")),
    };
    let event = match guard {
        None => event,
        Some(guard) => {
            let granted = Some(history.now());
            thread::yield_now();
            let left = history.now();
            drop(guard);
            Event {
                granted,
                left,
                ..event
            }
        }
    };
    history.record(event);
}

fn in_tasks(manager: &Manager, history: &Arc<History>, seed: u64, requests: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("threads can be started");
    let tasks = Vec::from_iter((0..TASKS).map(|task| {
        let (manager, history) = (manager.clone(), Arc::clone(history));
        let seed = seed * 1_000 + THREADS + task;
        runtime.spawn(async move {
            let mut choices = Choices::random(seed);
            for _ in 0..requests {
                in_a_task(&manager, &history, &mut choices).await;
            }
        })
    }));
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("no panic");
        }
    });
}

/// One request in a task: awaits, with or without a time limit, or is dropped after a few polls.
async fn in_a_task(manager: &Manager, history: &History, choices: &mut Choices<'_>) {
    let InLine { mut pending, event } = sequence(manager, history, choices);
    let guard = match choices.below(8) {
        0 => {
            let polls = choices.below(3);
            for_a_few_polls(&mut pending, polls).await
        }
        1 => {
            let patience = Duration::from_micros(choices.below(2_000) as u64);
            let outcome = tokio::time::timeout(patience, &mut pending).await.ok();
            outcome.map(|guard| guard.expect("not shut down"))
        }
        _ => Some((&mut pending).await.expect("not shut down")),
    };
    drop(pending);
    let event = match guard {
        None => event,
        Some(guard) => {
            let granted = Some(history.now());
            tokio::task::yield_now().await;
            let left = history.now();
            drop(guard);
            Event {
                granted,
                left,
                ..event
            }
        }
    };
    history.record(event);
}

async fn for_a_few_polls(pending: &mut Pending, mut left: usize) -> Option<Guard> {
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = Pin::new(&mut *pending).poll(context);
        polled.map(|outcome| Some(outcome.expect("not shut down")))
    })
    .await
}
