//! Threads and tasks at once; afterwards every conflicting pair is checked against the sequence order.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use spanlatch::{Guard, Manager, WaitError};
use spanset::{Span, SpanSet};

use crate::notation::at;

const THREADS: usize = 4;
const TASKS: usize = 32;
const REQUESTS: usize = 400;

/// A request of the history. Times are ticks of one counter.
struct Event {
    spans: SpanSet,
    sequence_called: u64,
    sequence_returned: u64,
    /// When it held, from just after it was granted to just before it was released.
    held: Option<(u64, u64)>,
}

#[derive(Default)]
struct History {
    clock: AtomicU64,
    events: Mutex<BTreeMap<u64, Event>>,
}

impl History {
    /// Sequentially consistent, so that the ticks of two threads order what they did.
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn record(&self, sequence: u64, event: Event) {
        let displaced = self.events.lock().unwrap().insert(sequence, event);
        assert!(displaced.is_none(), "two requests have one sequence number");
    }

    /// Every two requests that conflict held one after the other, in the order in which they were
    /// sequenced; and that order agrees with the order of the calls.
    fn check(self) -> usize {
        let events = Vec::from_iter(self.events.into_inner().unwrap().into_values());
        let mut conflicts = 0;
        for (position, later) in events.iter().enumerate() {
            for earlier in &events[..position] {
                assert!(
                    earlier.sequence_called < later.sequence_returned,
                    "the sequence numbers contradict the calls"
                );
                if !earlier.spans.intersects(&later.spans) {
                    continue;
                }
                conflicts += 1;
                if let (Some((_, released)), Some((granted, _))) = (earlier.held, later.held) {
                    assert!(
                        released < granted,
                        "a later request held before an earlier one let go"
                    );
                }
            }
        }
        conflicts
    }
}

fn spans(rng: &mut Rng) -> SpanSet {
    let mut set = SpanSet::new();
    for _ in 0..rng.usize(1..4) {
        let start = rng.u8(0..20);
        let span = match rng.usize(0..3) {
            0 => Span::range(vec![start], vec![start + rng.u8(1..4)]).unwrap(),
            _ => Span::point(vec![start]),
        };
        let timestamp = at(rng.u64(1..4));
        match rng.usize(0..8) {
            0 => set.read(span),
            1..=2 => set.read_at(span, timestamp),
            3 => set.write(span),
            4..=5 => set.write_at(span, timestamp),
            6 => set.read_local(span),
            _ => set.write_local(span),
        }
    }
    set
}

/// One request on this thread: waits with or without a deadline, or gives up.
fn on_a_thread(manager: &Manager, history: &History, rng: &mut Rng) {
    let spans = spans(rng);
    let sequence_called = history.now();
    let pending = manager.sequence(&spans).unwrap();
    let sequence_returned = history.now();
    let sequence = pending.sequence_number().unwrap();
    let outcome = match rng.usize(0..10) {
        0 => Err(WaitError::DeadlinePassed),
        1..=2 => {
            let patience = Duration::from_micros(rng.u64(0..200));
            pending.wait_until(Instant::now() + patience)
        }
        _ => pending.wait(),
    };
    let held = outcome
        .ok()
        .map(|guard| hold(guard, history, thread::yield_now));
    history.record(
        sequence,
        Event {
            spans,
            sequence_called,
            sequence_returned,
            held,
        },
    );
}

fn hold(guard: Guard, history: &History, work: impl FnOnce()) -> (u64, u64) {
    let granted = history.now();
    work();
    let released = history.now();
    drop(guard);
    (granted, released)
}

/// One request in a task: awaits, or is dropped after a few polls.
async fn in_a_task(manager: &Manager, history: &History, rng: &mut Rng) {
    let spans = spans(rng);
    let sequence_called = history.now();
    let mut pending = manager.sequence(&spans).unwrap();
    let sequence_returned = history.now();
    let sequence = pending.sequence_number().unwrap();
    let mut polls_left = match rng.usize(0..4) {
        0 => rng.usize(0..3),
        _ => usize::MAX,
    };
    let guard = poll_fn(|context| {
        if polls_left == 0 {
            return Poll::Ready(None);
        }
        polls_left -= 1;
        Pin::new(&mut pending)
            .poll(context)
            .map(|guard| Some(guard.unwrap()))
    })
    .await;
    drop(pending);
    let held = match guard {
        None => None,
        Some(guard) => {
            let granted = history.now();
            tokio::task::yield_now().await;
            let released = history.now();
            drop(guard);
            Some((granted, released))
        }
    };
    history.record(
        sequence,
        Event {
            spans,
            sequence_called,
            sequence_returned,
            held,
        },
    );
}

#[test]
fn conflicting_requests_hold_one_after_the_other_in_sequence_order() {
    // So few steps that most searches, and most of what they do to reads, go on in a later stay.
    let manager = Manager::builder().steps(2).build();
    let history = History::default();
    let working = AtomicUsize::new(THREADS + 1);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (manager, history, working) = (&manager, &history, &working);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed as u64);
                for _ in 0..REQUESTS {
                    on_a_thread(manager, history, &mut rng);
                }
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            let tasks = (0..TASKS).map(|seed| {
                let (manager, history) = (&manager, &history);
                async move {
                    let mut rng = Rng::with_seed((THREADS + seed) as u64);
                    for _ in 0..REQUESTS / 10 {
                        in_a_task(manager, history, &mut rng).await;
                    }
                }
            });
            runtime.block_on(futures::future::join_all(tasks));
            working.fetch_sub(1, Ordering::Relaxed);
        });
        scope.spawn(|| {
            while working.load(Ordering::Relaxed) > 0 {
                manager.verify();
                manager.tick(Instant::now());
            }
        });
    });
    assert_eq!(manager.counts(), Default::default());
    manager.verify();
    let conflicts = history.check();
    assert!(
        conflicts > 10_000,
        "too few conflicts to prove anything: {conflicts}"
    );
}
