//! The other ways in: trying, waiting without a latch, evaluating first and asking afterwards.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Instant;

use spanlatch::{Manager, OptimisticError, ShuttingDown, State, TryAcquireError, WaitError};

use crate::notation::spans;

/// With two steps a stay, so that searches are continued.
fn hurried() -> Manager {
    Manager::builder().steps(2).build()
}

#[test]
fn trying_succeeds_where_nothing_conflicts_and_leaves_nothing_where_something_does() {
    for manager in [Manager::new(), hurried()] {
        let held = manager.acquire(&spans("R a; W [c,f)")).unwrap();
        let refused = manager.try_acquire(&spans("R x; W a"));
        assert_eq!(refused.unwrap_err(), TryAcquireError::WouldWait);
        assert_eq!(manager.counts().requests, 1);
        manager.verify();
        let tried = manager.try_acquire(&spans("R a; W f")).unwrap();
        assert_eq!(manager.counts().latches(), 4);
        // Latches that only wait are in the way too.
        let waiting = manager.sequence(&spans("W a")).unwrap();
        drop((held, tried));
        assert!(manager.try_acquire(&spans("R a")).is_err());
        drop(waiting);
        assert_eq!(manager.counts(), Default::default());
    }
}

#[test]
fn trying_is_decided_after_a_search_of_many_steps() {
    let manager = hurried();
    let reads = Vec::from_iter((0..20).map(|_| manager.acquire(&spans("R a@5")).unwrap()));
    drop(manager.try_acquire(&spans("W a@6")).unwrap());
    assert_eq!(
        manager.try_acquire(&spans("W a@4; W b")).unwrap_err(),
        TryAcquireError::WouldWait
    );
    assert_eq!(manager.counts().requests, 20);
    manager.verify();
    drop(reads);
    manager.shut_down();
    assert_eq!(
        manager.try_acquire(&spans("W a")).unwrap_err(),
        TryAcquireError::ShuttingDown
    );
}

#[test]
fn waiting_for_others_is_in_nobodys_way() {
    let manager = Manager::new();
    let write = manager.acquire(&spans("W a")).unwrap();
    let mut wait = manager.wait_for(&spans("R a; W b")).unwrap();
    assert!(!wait.is_ready());
    let mut polled = pin!(wait);
    let mut context = Context::from_waker(Waker::noop());
    assert!(polled.as_mut().poll(&mut context).is_pending());
    assert_eq!(manager.counts().latches(), 1);
    manager.verify();
    // Later conflicting requests neither wait for it nor hold it up.
    let mut behind = manager.sequence(&spans("W b")).unwrap();
    assert!(behind.is_ready());
    let later = manager.sequence(&spans("W a")).unwrap();
    drop(write);
    assert!(polled.poll(&mut context).is_ready());
    manager.verify();
    drop((behind, later));
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn waiting_for_others_can_be_given_up() {
    let manager = Manager::new();
    let write = manager.acquire(&spans("W a")).unwrap();
    let wait = manager.wait_for(&spans("W a")).unwrap();
    assert_eq!(
        wait.wait_until(Instant::now()),
        Err(WaitError::DeadlinePassed)
    );
    assert_eq!(manager.wait_for(&spans("R b")).unwrap().wait(), Ok(()));
    drop(manager.wait_for(&spans("W a")).unwrap());
    assert_eq!(manager.counts().requests, 1);
    manager.verify();
    drop(write);
    manager.shut_down();
    assert_eq!(manager.wait_for(&spans("R b")).unwrap_err(), ShuttingDown);
}

#[test]
fn an_optimistic_read_is_valid_if_what_it_read_was_free() {
    let manager = Manager::new();
    let write = manager.acquire(&spans("W m; local W m")).unwrap();
    let scan = manager.sequence_optimistic(&spans("R [a,z)")).unwrap();
    // Not in line yet when the scan was sequenced.
    let later = manager.sequence(&spans("W b")).unwrap();
    let valid = scan.check_no_conflicts(&spans("R [a,m); R [n,z)")).unwrap();
    // It keeps its place: a later write waits for all that was declared.
    let mut behind = manager.sequence(&spans("W c")).unwrap();
    assert!(!behind.is_ready());
    drop(valid);
    assert!(behind.is_ready());
    drop((write, later, behind));
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn what_was_held_and_has_been_released_since_still_invalidates_an_optimistic_read() {
    let manager = Manager::new();
    let write = manager.acquire(&spans("W m@5")).unwrap();
    let scan = manager.sequence_optimistic(&spans("R [a,z)@7")).unwrap();
    drop(write);
    let pending = scan.check_no_conflicts(&spans("R [a,n)@7")).unwrap_err();
    // Nothing is in the way of the second evaluation.
    drop(pending.wait().unwrap());
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn an_optimistic_read_that_conflicts_waits_at_the_place_that_it_had() {
    let manager = Manager::new();
    let write = manager.acquire(&spans("W m")).unwrap();
    let scan = manager.sequence_optimistic(&spans("R [a,z)")).unwrap();
    let mut later = manager.sequence(&spans("W n")).unwrap();
    let mut scan = scan.check_no_conflicts(&spans("R m")).unwrap_err();
    assert!(!scan.is_ready());
    drop(write);
    assert!(scan.is_ready() && !later.is_ready());
    drop(scan.wait().unwrap());
    assert!(later.is_ready());
}

#[test]
fn timestamps_and_scopes_decide_whether_an_optimistic_read_was_right() {
    let manager = Manager::new();
    let _write = manager.acquire(&spans("W m@9; local W m")).unwrap();
    let scan = || manager.sequence_optimistic(&spans("R [a,z); local R m; R m@5"));
    for (read, valid) in [
        ("R m@5", true),
        ("R m@9", false),
        ("R m", false),
        ("local R m", false),
        ("R [a,m); R [mm,z)", true),
    ] {
        let checked = scan().unwrap().check_no_conflicts(&spans(read));
        assert_eq!(checked.is_ok(), valid, "{read}");
    }
}

#[test]
fn only_reads_are_sequenced_optimistically() {
    let manager = Manager::new();
    let refused = manager.sequence_optimistic(&spans("R a; W b@5"));
    assert_eq!(
        refused.unwrap_err().to_string(),
        r#"write ["b"] at 0.000000005,0 cannot be acquired optimistically: only reads can be"#
    );
    assert_eq!(manager.counts(), Default::default());
    manager.shut_down();
    let refused = manager.sequence_optimistic(&spans("R a"));
    assert_eq!(refused.unwrap_err(), OptimisticError::ShuttingDown);
}

#[test]
fn an_optimistic_read_that_changes_its_mind_waits_like_any_other() {
    let manager = Manager::new();
    let write = manager.acquire(&spans("W a")).unwrap();
    let mut pending = manager
        .sequence_optimistic(&spans("R a"))
        .unwrap()
        .into_pending();
    assert!(!pending.is_ready());
    drop(write);
    drop(pending.wait().unwrap());
}

#[test]
fn a_validated_read_is_where_a_blocking_chain_begins() {
    let manager = Manager::new();
    let _write = manager.acquire(&spans("W m")).unwrap();
    let scan = manager.sequence_optimistic(&spans("R [a,z)")).unwrap();
    let valid = scan.check_no_conflicts(&spans("R [a,c)")).unwrap();
    let behind = manager.sequence(&spans("W c")).unwrap();
    let picture = manager.inspect();
    assert!(matches!(picture.requests[1].state, State::Holding { .. }));
    assert!(matches!(
        picture.requests[2].state,
        State::Waiting { head: 1, .. }
    ));
    drop((valid, behind));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "undeclared read of [\"b\"]")]
fn what_was_not_declared_cannot_be_checked_afterwards() {
    let manager = Manager::new();
    let _write = manager.acquire(&spans("W b")).unwrap();
    let scan = manager.sequence_optimistic(&spans("R a")).unwrap();
    drop(scan.check_no_conflicts(&spans("R b")));
}
