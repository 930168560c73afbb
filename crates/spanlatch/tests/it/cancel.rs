//! Giving up: nothing is left behind, and nobody is woken who need not be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spanlatch::{Manager, ShuttingDown, WaitError};

use crate::notation::spans;

#[test]
fn dropping_a_pending_request_removes_its_latches_in_all_scopes() {
    let manager = Manager::new();
    let first = manager.acquire(&spans("W a; local W a")).unwrap();
    let pending = manager
        .sequence(&spans("W a; R b; local R a; local W b"))
        .unwrap();
    assert_eq!(manager.counts().latches(), 6);
    drop(pending);
    assert_eq!(manager.counts().latches(), 2);
    manager.verify();
    drop(first);
}

#[test]
fn those_behind_a_cancelled_request_still_wait_for_what_they_conflict_with_and_nothing_else() {
    let manager = Manager::new();
    let first = manager.acquire(&spans("W a")).unwrap();
    let middle = manager.sequence(&spans("W [a,c)")).unwrap();
    let mut behind_both = manager.sequence(&spans("R a")).unwrap();
    let mut behind_middle = manager.sequence(&spans("R b")).unwrap();
    assert!(!behind_both.is_ready() && !behind_middle.is_ready());
    drop(middle);
    assert!(!behind_both.is_ready());
    assert!(behind_middle.is_ready());
    drop(first);
    assert!(behind_both.is_ready());
}

#[test]
fn a_deadline_that_has_passed_inserts_nothing() {
    let manager = Manager::new();
    let refused = manager.acquire_until(&spans("W a"), Instant::now());
    assert_eq!(refused.unwrap_err(), WaitError::DeadlinePassed);
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn a_wait_that_reaches_its_deadline_leaves_no_latch() {
    let manager = Manager::new();
    let first = manager.acquire(&spans("W a")).unwrap();
    let deadline = Instant::now() + Duration::from_millis(1);
    let waited = manager.acquire_until(&spans("R a; R b"), deadline);
    assert_eq!(waited.unwrap_err(), WaitError::DeadlinePassed);
    assert!(Instant::now() >= deadline);
    assert_eq!(manager.counts().latches(), 1);
    manager.verify();
    drop(first);
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn a_request_that_is_ready_gets_its_guard_even_after_its_deadline() {
    let manager = Manager::new();
    let pending = manager.sequence(&spans("W a")).unwrap();
    assert!(pending.wait_until(Instant::now()).is_ok());
}

#[test]
fn a_shutdown_ends_every_wait_and_refuses_new_requests() {
    let manager = Manager::new();
    let guard = manager.acquire(&spans("W a")).unwrap();
    let waiters = Vec::from_iter((0..4).map(|_| {
        let pending = manager.sequence(&spans("W a; R b")).unwrap();
        thread::spawn(move || pending.wait().unwrap_err())
    }));
    while manager.counts().waiting < 4 {
        thread::yield_now();
    }
    manager.shut_down();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), WaitError::ShuttingDown);
    }
    assert_eq!(manager.sequence(&spans("R z")).unwrap_err(), ShuttingDown);
    assert_eq!(manager.counts().requests, 1);
    manager.verify();
    drop(guard);
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn a_shutdown_ends_waits_that_have_not_parked_yet() {
    let manager = Manager::new();
    let guard = manager.acquire(&spans("W a")).unwrap();
    let pending = manager.sequence(&spans("W a")).unwrap();
    manager.shut_down();
    assert_eq!(pending.wait().unwrap_err(), WaitError::ShuttingDown);
    drop(guard);
}

#[test]
fn a_panic_while_holding_releases() {
    let manager = Manager::new();
    let panicked = thread::spawn({
        let manager = manager.clone();
        move || {
            let _guard = manager.acquire(&spans("W a")).unwrap();
            panic!("evaluation failed");
        }
    })
    .join();
    assert!(panicked.is_err());
    assert_eq!(manager.counts(), Default::default());
    drop(manager.acquire(&spans("W a")).unwrap());
}

#[test]
fn a_guard_outlives_its_manager_and_can_be_released_elsewhere() {
    let manager = Manager::new();
    let guard = manager.acquire(&spans("W a")).unwrap();
    let pending = manager.sequence(&spans("W a")).unwrap();
    drop(manager);
    let released = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            released.store(true, Ordering::Release);
            drop(guard);
        });
        let _second = pending.wait().unwrap();
        assert!(released.load(Ordering::Acquire));
    });
}

#[test]
fn a_request_that_has_found_itself_ready_gets_its_guard_after_a_shutdown() {
    for parks in [false, true] {
        let manager = Manager::new();
        let first = manager.acquire(&spans("W a")).unwrap();
        let mut ready = crate::wake::Task::new(manager.sequence(&spans("R a")).unwrap());
        let unaware = manager.sequence(&spans("R a")).unwrap();
        if parks {
            assert!(ready.poll().is_pending());
        }
        drop(first);
        assert!(ready.pending.is_ready());
        manager.shut_down();
        drop(ready.pending.wait().unwrap());
        assert_eq!(unaware.wait().unwrap_err(), WaitError::ShuttingDown);
        assert_eq!(manager.counts(), Default::default());
    }
}
