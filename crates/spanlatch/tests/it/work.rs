//! What a request costs, counted: allocations, and memory that stays.

use allocation_counter::measure;
use spanlatch::Manager;

use crate::notation::spans;

#[test]
fn a_request_for_up_to_two_spans_allocates_once() {
    let manager = Manager::new();
    for text in ["W a", "R a", "R a@5; local R d", "W a@5; local R d"] {
        let spans = spans(text);
        drop(manager.acquire(&spans).unwrap());
        let counted = measure(|| drop(manager.acquire(&spans).unwrap()));
        assert_eq!(counted.count_total, 1, "{text}");
    }
}

#[test]
fn a_long_key_is_copied_once_and_shared_by_its_latches_and_the_tree() {
    let manager = Manager::new();
    let spans = spans(&format!("W {}", "k".repeat(100)));
    drop(manager.acquire(&spans).unwrap());
    let counted = measure(|| drop(manager.acquire(&spans).unwrap()));
    assert_eq!(counted.count_total, 2);
}

#[test]
fn released_latches_leave_no_memory_behind() {
    let manager = Manager::new();
    let spans = Vec::from_iter((0..5_000).map(|key| spans(&format!("W {key}; R x{key}"))));
    drop(manager.acquire(&spans[0]).unwrap());
    let counted = measure(|| {
        let guards = Vec::from_iter(spans.iter().map(|spans| manager.acquire(spans).unwrap()));
        drop(guards);
    });
    assert!(counted.bytes_max > 1_000_000, "{} bytes", counted.bytes_max);
    assert!(
        counted.bytes_current < 10_000,
        "{} bytes",
        counted.bytes_current
    );
}
