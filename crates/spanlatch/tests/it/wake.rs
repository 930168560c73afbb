//! Who is woken, and how often.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use spanlatch::{Guard, Manager, Pending};

use crate::notation::spans;

/// A waker that counts.
#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request that is polled by hand.
pub(crate) struct Task {
    pub(crate) pending: Pending,
    pub(crate) wakes: Arc<Wakes>,
}

impl Task {
    pub(crate) fn new(pending: Pending) -> Self {
        Task {
            pending,
            wakes: Arc::default(),
        }
    }

    pub(crate) fn poll(&mut self) -> Poll<Guard> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let mut context = Context::from_waker(&waker);
        Pin::new(&mut self.pending)
            .poll(&mut context)
            .map(|guard| guard.expect("not shut down"))
    }
}

/// What a poll by nobody in particular gives.
pub(crate) fn polled(pending: &mut Pending) -> Poll<Guard> {
    let mut context = Context::from_waker(Waker::noop());
    let poll = Pin::new(pending).poll(&mut context);
    poll.map(|guard| guard.expect("not shut down"))
}

/// Panics when woken.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_asleep() {
    for shut_down in [false, true] {
        let manager = Manager::new();
        let first = manager.acquire(&spans("W a")).unwrap();
        let mut before = task(&manager, "R a");
        let mut panics = manager.sequence(&spans("R a")).unwrap();
        let mut after = task(&manager, "R a");
        assert!(before.poll().is_pending());
        let waker = Waker::from(Arc::new(Panics));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut panics).poll(&mut context).is_pending());
        assert!(after.poll().is_pending());
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match shut_down {
            true => manager.shut_down(),
            false => drop(first),
        }));
        assert!(outcome.is_err(), "the panic goes on");
        assert_eq!((before.wakes.count(), after.wakes.count()), (1, 1));
    }
}

fn task(manager: &Manager, text: &str) -> Task {
    Task::new(manager.sequence(&spans(text)).unwrap())
}

#[track_caller]
fn granted(poll: Poll<Guard>) -> Guard {
    match poll {
        Poll::Ready(guard) => guard,
        Poll::Pending => panic!("still pending"),
    }
}

#[test]
fn a_release_wakes_those_parked_on_it_and_nobody_else() {
    let manager = Manager::new();
    let a = manager.acquire(&spans("W a")).unwrap();
    let b = manager.acquire(&spans("W b")).unwrap();
    let mut on_a = task(&manager, "R a");
    let mut on_b = task(&manager, "R b");
    assert!(on_a.poll().is_pending() && on_b.poll().is_pending());
    drop(a);
    assert_eq!((on_a.wakes.count(), on_b.wakes.count()), (1, 0));
    drop(granted(on_a.poll()));
    drop(b);
    drop(granted(on_b.poll()));
    manager.verify();
}

#[test]
fn writers_queued_on_one_key_are_woken_once_each() {
    let manager = Manager::new();
    let mut guard = manager.acquire(&spans("W a")).unwrap();
    let mut tasks = Vec::from_iter((0..100).map(|_| task(&manager, "W a")));
    for task in &mut tasks {
        assert!(task.poll().is_pending());
    }
    for task in &mut tasks {
        assert_eq!(task.wakes.count(), 0);
        drop(guard);
        guard = granted(task.poll());
        assert_eq!(task.wakes.count(), 1);
        manager.verify();
    }
}

#[test]
fn a_cancellation_wakes_only_those_parked_on_it() {
    let manager = Manager::new();
    let first = manager.acquire(&spans("W a")).unwrap();
    let mut second = task(&manager, "W a");
    let mut third = task(&manager, "W a");
    let mut fourth = task(&manager, "W a");
    for task in [&mut second, &mut third, &mut fourth] {
        assert!(task.poll().is_pending());
    }
    drop(third.pending);
    assert_eq!((second.wakes.count(), fourth.wakes.count()), (0, 1));
    assert!(fourth.poll().is_pending());
    drop(first);
    assert_eq!((second.wakes.count(), fourth.wakes.count()), (1, 1));
    drop(granted(second.poll()));
    assert_eq!(fourth.wakes.count(), 2);
    drop(granted(fourth.poll()));
}

#[test]
fn the_last_waker_given_is_the_one_that_is_woken() {
    let manager = Manager::new();
    let first = manager.acquire(&spans("W a")).unwrap();
    let mut moved = task(&manager, "W a");
    assert!(moved.poll().is_pending());
    let before = std::mem::take(&mut moved.wakes);
    assert!(moved.poll().is_pending());
    drop(first);
    assert_eq!((before.count(), moved.wakes.count()), (0, 1));
    assert_eq!(Arc::strong_count(&before), 1, "a replaced waker is dropped");
    drop(granted(moved.poll()));
}

#[test]
fn cancelled_waits_leave_nothing_with_a_long_lived_holder() {
    let manager = Manager::new();
    let holder = manager.acquire(&spans("W a")).unwrap();
    let wakes = Arc::<Wakes>::default();
    for _ in 0..100 {
        let mut pending = [
            Task {
                pending: manager.sequence(&spans("R a")).unwrap(),
                wakes: wakes.clone(),
            },
            Task {
                pending: manager.sequence(&spans("R a")).unwrap(),
                wakes: wakes.clone(),
            },
        ];
        for task in &mut pending {
            assert!(task.poll().is_pending());
        }
        manager.verify();
    }
    assert_eq!(Arc::strong_count(&wakes), 1, "no waker is kept");
    drop(holder);
    assert_eq!(wakes.count(), 0);
}
