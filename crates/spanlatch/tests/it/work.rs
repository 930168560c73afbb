//! What a request costs, counted: allocations, and memory that stays.

use allocation_counter::measure;
use spanlatch::Manager;

use crate::notation::spans;
use crate::wake::Task;

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
fn a_write_among_many_that_are_held_allocates_nothing() {
    let manager = Manager::new();
    let held = Vec::from_iter((0..100).map(|key| manager.acquire(&spans(&format!("W {key}")))));
    let spans = spans("W a; R b");
    drop(manager.acquire(&spans).unwrap());
    let counted = measure(|| drop(manager.acquire(&spans).unwrap()));
    assert_eq!(counted.count_total, 0);
    drop(held);
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

/// The steps that all requests of `work` took to look for conflicts.
fn steps(manager: &Manager, work: impl FnOnce()) -> u64 {
    let before = manager.steps_taken();
    work();
    manager.steps_taken() - before
}

#[test]
fn the_work_under_the_mutex_does_not_grow_with_the_number_of_waiters() {
    let taken = [10, 1000, 10_000].map(|waiters| {
        let manager = Manager::new();
        let spans = spans("W a; W b; R c");
        let holder = manager.acquire(&spans).unwrap();
        let waiting = Vec::from_iter((0..waiters).map(|_| {
            let mut task = Task::new(manager.sequence(&spans).unwrap());
            assert!(task.poll().is_pending());
            task
        }));
        let sequence_and_cancel = steps(&manager, || drop(manager.sequence(&spans).unwrap()));
        let release = steps(&manager, || drop(holder));
        let whole = steps(&manager, || {
            for mut task in waiting {
                assert!(task.poll().is_ready());
            }
        });
        // For each of three latches: that of the one ahead, two of later ones before those are skipped, and
        // one's own.
        assert!(whole <= 12 * waiters, "{whole} steps of {waiters} waiters");
        (sequence_and_cancel, release)
    });
    assert_eq!(taken, [taken[0]; 3]);
    assert!(taken[0] <= (3, 0), "{taken:?}");
}

#[test]
fn the_first_write_after_many_reads_settles_them_in_portions() {
    let manager = Manager::new();
    let reads = Vec::from_iter((0..10_000).map(|key| manager.acquire(&spans(&format!("R {key}")))));
    let mut write = None;
    let first_stay = steps(&manager, || write = manager.sequence(&spans("W 9")).ok());
    assert_eq!(first_stay, 128);
    // All but the few beside the tree are put into it once, which takes four steps each, and one conflicts.
    let wait = steps(&manager, || {
        assert!(write.is_some_and(|mut write| !write.is_ready()))
    });
    assert!((39_200..40_000).contains(&wait), "{wait}");
    let later = steps(&manager, || drop(manager.acquire(&spans("W x")).unwrap()));
    assert_eq!(later, 0);
    drop(reads);
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
    let many_waiters = || {
        let holder = manager.acquire(&spans[0]).unwrap();
        let tasks = Vec::from_iter((0..5_000).map(|_| {
            let mut task = Task::new(manager.sequence(&spans[0]).unwrap());
            assert!(task.poll().is_pending());
            task
        }));
        drop(holder);
        drop(tasks);
    };
    // The blocks that the thread keeps for its next requests.
    all();
    many_waiters();
    let counted = measure(|| {
        all();
        many_waiters();
    });
    assert!(counted.bytes_max > 1_000_000, "{} bytes", counted.bytes_max);
    assert!(
        counted.bytes_current < 10_000,
        "{} bytes",
        counted.bytes_current
    );
}
