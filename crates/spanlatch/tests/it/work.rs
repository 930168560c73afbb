//! What a request costs, counted: allocations, and memory that stays.

use allocation_counter::measure;
use spanlatch::Manager;

use crate::notation::spans;

#[test]
fn a_request_for_up_to_eight_spans_allocates_nothing_once_its_thread_has_made_one() {
    let manager = Manager::new();
    let eight = Vec::from_iter((0..8).map(|key| format!("W {key}")));
    for text in [
        "W a",
        "R a",
        "R a@5; local R d",
        "W a@5; local R d",
        &eight.join("; "),
    ] {
        let spans = spans(text);
        drop(manager.acquire(&spans).unwrap());
        let counted = measure(|| drop(manager.acquire(&spans).unwrap()));
        assert_eq!(counted.count_total, 0, "{text}");
    }
}

#[test]
fn a_request_for_one_span_that_is_never_released_allocates_once() {
    let manager = Manager::new();
    let spans = spans("R a");
    let mut guards = Vec::from_iter((0..1000).map(|_| manager.acquire(&spans).unwrap()));
    guards.reserve(10);
    let counted = measure(|| guards.extend((0..10).map(|_| manager.acquire(&spans).unwrap())));
    assert_eq!(counted.count_total, 10);
}

#[test]
fn a_wait_allocates_nothing_once_its_thread_has_waited() {
    let manager = Manager::new();
    let (first, second) = (spans("W a"), spans("W [a,c)"));
    let cycle = || {
        let guard = manager.acquire(&first).unwrap();
        let mut pending = manager.sequence(&second).unwrap();
        assert!(crate::wake::polled(&mut pending).is_pending());
        drop(guard);
        assert!(crate::wake::polled(&mut pending).is_ready());
    };
    (0..3).for_each(|_| cycle());
    assert_eq!(measure(cycle).count_total, 0);
}

#[test]
fn a_long_key_is_copied_once_and_shared_by_its_latches_and_the_tree() {
    let manager = Manager::new();
    let spans = spans(&format!("W {}", "k".repeat(100)));
    drop(manager.acquire(&spans).unwrap());
    let counted = measure(|| drop(manager.acquire(&spans).unwrap()));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn released_latches_leave_no_memory_behind() {
    let manager = Manager::new();
    let spans = Vec::from_iter((0..5_000).map(|key| spans(&format!("W {key}; R x{key}"))));
    let all = || {
        drop(Vec::from_iter(
            spans.iter().map(|spans| manager.acquire(spans).unwrap()),
        ))
    };
    // The blocks that the thread keeps for its next requests.
    all();
    let counted = measure(all);
    assert!(counted.bytes_max > 1_000_000, "{} bytes", counted.bytes_max);
    assert!(
        counted.bytes_current < 10_000,
        "{} bytes",
        counted.bytes_current
    );
}
