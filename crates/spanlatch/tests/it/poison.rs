//! Holders that are stuck, and what those behind them do.

use spanlatch::{Manager, OnPoison, Pending, WaitError};

use crate::notation::spans;
use crate::wake::{Task, polled};

fn failing(manager: &Manager, text: &str) -> Pending {
    let spans = spans(text);
    let request = manager.request(&spans).on_poison(OnPoison::Fail);
    request.sequence().unwrap()
}

fn error(pending: Pending) -> String {
    pending.wait().unwrap_err().to_string()
}

#[test]
fn a_request_that_would_rather_fail_fails_when_it_meets_a_poisoned_latch() {
    let manager = Manager::new();
    let stuck = manager.acquire(&spans("W x; R [a,c)@7")).unwrap();
    stuck.poison();
    stuck.poison();
    let text = r#"the holder of read ["a", "c") at 0.000000007,0, a conflicting latch, is stuck"#;
    assert_eq!(error(failing(&manager, "W b@5; W x")), text);
    assert_eq!(manager.counts().requests, 1);
    manager.verify();
    // What does not conflict is not concerned.
    drop(failing(&manager, "W b@8; R c").wait().unwrap());
    // The mark ends with the release.
    drop(stuck);
    drop(failing(&manager, "W b@5; W x").wait().unwrap());
}

#[test]
fn a_parked_request_that_would_rather_fail_is_woken_to_fail() {
    let manager = Manager::new();
    let stuck = manager.acquire(&spans("W a")).unwrap();
    let mut task = Task::new(failing(&manager, "W a"));
    assert!(task.poll().is_pending());
    stuck.poison();
    assert_eq!(task.wakes.count(), 1);
    assert!(matches!(
        task.pending.wait(),
        Err(WaitError::Poisoned(latch)) if latch.to_string() == r#"write ["a"]"#
    ));
    manager.verify();
    assert_eq!(manager.counts().latches(), 1);
}

#[test]
fn poison_is_handed_on_by_those_who_go_on_waiting() {
    let manager = Manager::new();
    let stuck = manager.acquire(&spans("W a")).unwrap();
    let mut patient = Task::new(manager.sequence(&spans("W [a,c)")).unwrap());
    let mut hurried = Task::new(failing(&manager, "W b"));
    assert!(patient.poll().is_pending() && hurried.poll().is_pending());
    stuck.poison();
    assert_eq!((patient.wakes.count(), hurried.wakes.count()), (1, 0));
    assert!(patient.poll().is_pending());
    assert_eq!((patient.wakes.count(), hurried.wakes.count()), (1, 1));
    assert!(hurried.pending.wait().is_err());
    // Once only: nobody is woken again.
    assert!(patient.poll().is_pending());
    let mut patient_too = Task::new(manager.sequence(&spans("W b")).unwrap());
    assert!(patient_too.poll().is_pending() && patient.poll().is_pending());
    assert_eq!((patient.wakes.count(), patient_too.wakes.count()), (1, 0));
    manager.verify();

    // It gets its latches all the same, and stays marked until it lets them go.
    drop(stuck);
    let patient = patient.pending.wait().unwrap();
    assert!(failing(&manager, "R b").wait().is_err());
    drop(patient);
    manager.verify();
    drop(patient_too.pending.wait().unwrap());
    drop(failing(&manager, "R b").wait().unwrap());
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn a_waiter_that_was_woken_by_poison_can_be_cancelled_and_another_released() {
    let manager = Manager::new();
    let stuck = manager.acquire(&spans("W a")).unwrap();
    let mut tasks = Vec::from_iter((0..3).map(|_| {
        let mut task = Task::new(manager.sequence(&spans("R a")).unwrap());
        assert!(task.poll().is_pending());
        task
    }));
    stuck.poison();
    manager.verify();
    drop(tasks.remove(1));
    manager.verify();
    assert!(tasks[1].poll().is_pending());
    manager.verify();
    drop(stuck);
    // The one that had not parked again finds the latch gone.
    for task in &mut tasks {
        assert!(polled(&mut task.pending).is_ready());
    }
}

#[test]
fn a_wait_that_fails_by_poison_is_not_slow_any_more() {
    let manager = Manager::new();
    let stuck = manager.acquire(&spans("W a")).unwrap();
    let mut task = Task::new(failing(&manager, "W a"));
    assert!(task.poll().is_pending());
    assert_eq!(manager.counts().waiting, 1);
    stuck.poison();
    drop(task.pending.wait().unwrap_err());
    assert_eq!(
        (manager.counts().waiting, manager.counts().requests),
        (0, 1)
    );
}
