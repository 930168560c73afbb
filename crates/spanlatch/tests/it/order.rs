//! Who waits for whom, and in which order.

use spanlatch::Manager;

use crate::notation::spans;

/// Whether a request waits for one that was sequenced before it.
fn waits(waiting: &str, held: &str) -> bool {
    let manager = Manager::new();
    let guard = manager.acquire(&spans(held)).unwrap();
    let mut pending = manager.sequence(&spans(waiting)).unwrap();
    manager.verify();
    let waits = !pending.is_ready();
    drop(guard);
    assert!(pending.is_ready(), "{waiting} waits for nothing");
    manager.verify();
    waits
}

#[test]
fn reads_never_wait_for_reads() {
    for waiting in ["R a", "R a@5", "R [a,c)"] {
        for held in ["R a", "R a@4", "R a@5", "R a@6", "R [a,..)@9"] {
            assert!(!waits(waiting, held), "{waiting} / {held}");
        }
    }
}

#[test]
fn a_read_waits_for_writes_at_or_below_its_timestamp() {
    assert!(waits("R a@5", "W a@4"));
    assert!(waits("R a@5", "W a@5"));
    assert!(!waits("R a@5", "W a@6"));
    assert!(waits("R a@5", "W a"));
    assert!(waits("R a", "W a@6"));
    assert!(waits("R a", "W a"));
}

#[test]
fn a_write_waits_for_every_write() {
    for waiting in ["W a", "W a@5"] {
        for held in ["W a", "W a@4", "W a@5", "W a@6"] {
            assert!(waits(waiting, held), "{waiting} / {held}");
        }
    }
}

#[test]
fn a_write_waits_for_reads_at_or_above_its_timestamp() {
    assert!(!waits("W a@5", "R a@4"));
    assert!(waits("W a@5", "R a@5"));
    assert!(waits("W a@5", "R a@6"));
    assert!(waits("W a@5", "R a"));
    assert!(waits("W a", "R a@4"));
    assert!(waits("W a", "R a"));
}

#[test]
fn scopes_never_conflict_with_each_other() {
    assert!(!waits("local W a", "W a"));
    assert!(!waits("W a", "local W a"));
    assert!(waits("local W a", "local W a"));
    assert!(waits("local W a", "local R a"));
    assert!(waits("local R a", "local W a"));
    assert!(!waits("local R a", "local R a"));
}

#[test]
fn only_overlapping_spans_conflict() {
    assert!(!waits("W [b,c)", "W [a,b)"));
    assert!(!waits("W b", "W [a,b)"));
    assert!(waits("W [b,c)", "W b"));
    assert!(waits("W a", "W a"));
    assert!(waits("W a", "W [a,b)"));
    assert!(waits("W [a,c)", "W [b,d)"));
    assert!(waits("W z", "W [a,..)"));
    assert!(!waits("W [a,..)", "W Z"));
}

#[test]
fn ranges_that_end_just_behind_a_key_cover_that_key_and_no_more() {
    assert!(waits("W b", "W [a,b\0)"));
    assert!(!waits("W b\0", "W [a,b\0)"));
    assert!(!waits("W [b\0,c)", "W [a,b\0)"));
}

#[test]
fn any_of_several_spans_can_conflict() {
    assert!(waits("W a; W b; W c", "R x; R c"));
    assert!(!waits("R a; R b; R c", "R x; R c"));
    assert!(waits("R a; local R b", "R a; local W b"));
}

#[test]
fn a_request_does_not_wait_for_itself() {
    let manager = Manager::new();
    let set = spans("W a; W a; R a; R [a,c)@5; W b@5; local W a; local R a");
    let guard = manager.acquire(&set).unwrap();
    manager.verify();
    assert_eq!(manager.counts().latches(), set.len());
    drop(guard);
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn latches_are_granted_in_sequence_order() {
    let manager = Manager::new();
    let mut line = Vec::new();
    for _ in 0..5 {
        line.push(manager.sequence(&spans("W a")).unwrap());
    }
    for granted in 0..line.len() {
        for (position, pending) in line.iter_mut().enumerate() {
            assert_eq!(
                pending.is_ready(),
                position == 0,
                "after {granted} releases"
            );
        }
        manager.verify();
        drop(line.remove(0).wait().unwrap());
    }
}

#[test]
fn a_later_read_does_not_overtake_a_waiting_write() {
    let manager = Manager::new();
    let first = manager.acquire(&spans("R a")).unwrap();
    let mut write = manager.sequence(&spans("W [a,c)")).unwrap();
    let mut read = manager.sequence(&spans("R b")).unwrap();
    assert!(!write.is_ready() && !read.is_ready());
    drop(first);
    assert!(write.is_ready() && !read.is_ready());
    drop(write.wait().unwrap());
    assert!(read.is_ready());
}

#[test]
fn a_request_waits_for_no_later_one() {
    let manager = Manager::new();
    let mut early = manager.sequence(&spans("W [a,d)")).unwrap();
    let later =
        ["W a", "R b", "W [a,z)", "W c"].map(|text| manager.sequence(&spans(text)).unwrap());
    assert!(early.is_ready());
    manager.verify();
    drop(later);
}

#[test]
fn reads_stay_out_of_the_tree_until_a_write_looks_for_them_and_are_found_then() {
    let manager = Manager::new();
    let reads = Vec::from_iter((0..1_000).map(|_| manager.acquire(&spans("R a")).unwrap()));
    let mut write = manager.sequence(&spans("W a")).unwrap();
    let late = manager.sequence(&spans("R a")).unwrap();
    manager.verify();
    for read in reads {
        assert!(!write.is_ready());
        drop(read);
    }
    assert!(write.is_ready());
    manager.verify();
    drop((write, late));
    assert_eq!(manager.counts(), Default::default());
}

#[test]
fn a_conflict_behind_thousands_of_harmless_latches_is_found() {
    let manager = Manager::new();
    let old = Vec::from_iter((0..3_000).map(|_| manager.acquire(&spans("R [a,z)@1")).unwrap()));
    let conflict = manager.acquire(&spans("R [b,z)@9")).unwrap();
    let mut write = manager.sequence(&spans("W c@5")).unwrap();
    assert!(!write.is_ready());
    drop(old);
    assert!(!write.is_ready());
    drop(conflict);
    assert!(write.is_ready());
}

#[test]
fn an_empty_request_holds_nothing_and_waits_for_nothing() {
    let manager = Manager::new();
    let all = manager.acquire(&spans("W [a,..); local W [a,..)")).unwrap();
    let empty = manager.acquire(&spanset::SpanSet::new()).unwrap();
    assert_eq!(manager.counts().latches(), 2);
    drop((all, empty));
}

/// Twenty writes: more than are looked through without a tree.
fn batch(letter: char) -> String {
    let writes = Vec::from_iter((10..30).map(|number| format!("W {letter}{number}")));
    writes.join("; ")
}

#[test]
fn many_writes_of_one_request_stay_out_of_the_tree_until_somebody_looks_there() {
    let manager = Manager::new();
    let first = manager.acquire(&spans(&batch('b'))).unwrap();
    let second = manager.acquire(&spans(&batch('d'))).unwrap();
    assert_eq!(manager.counts().global_writes, 40);
    // Beside them, and between them.
    drop(
        manager
            .try_acquire(&spans("W b; R [b3,d1); R [e,..)"))
            .unwrap(),
    );
    assert_eq!(manager.steps_taken(), 0);
    // Within one of the two: in the interval that covers it, but in nobody's way; then in the way.
    drop(manager.try_acquire(&spans("W b105; R b300")).unwrap());
    let settled = manager.steps_taken();
    assert!((80..100).contains(&settled), "{settled}");
    assert!(manager.try_acquire(&spans("R b10")).is_err());
    assert!(manager.try_acquire(&spans("W b29")).is_err());
    assert!(manager.steps_taken() < settled + 10, "settled once");
    manager.verify();
    assert_eq!(manager.counts().global_writes, 40);
    drop((first, second));
    assert_eq!(manager.counts(), Default::default());
    drop(manager.try_acquire(&spans("W [a,..)")).unwrap());
}

#[test]
fn many_writes_of_one_request_can_be_settled_in_part_when_they_are_released() {
    let manager = Manager::builder().steps(4).build();
    let batch = manager.acquire(&spans(&batch('b'))).unwrap();
    // One stay settles one of them.
    let mut behind = manager.sequence(&spans("W b20")).unwrap();
    manager.verify();
    drop(batch);
    manager.verify();
    assert!(behind.is_ready());
    assert_eq!(manager.counts().global_writes, 1);
}

#[test]
fn many_writes_of_one_request_are_seen_by_those_who_look_from_outside() {
    let manager = Manager::builder().steps(4).build();
    let _batch = manager.acquire(&spans(&batch('b'))).unwrap();
    let scan = || manager.sequence_optimistic(&spans("R [a,c)")).unwrap();
    assert!(scan().check_no_conflicts(&spans("R b20")).is_err());
    assert!(scan().check_no_conflicts(&spans("R b205; R b3")).is_ok());
    let _second = manager.acquire(&spans(&batch('d'))).unwrap();
    let picture = manager.inspect();
    assert_eq!(picture.requests[1].latches.len(), 20);
    manager.verify();
}

#[test]
fn a_conflict_that_moves_to_the_tree_behind_a_search_is_found() {
    // Two latches fit beside the tree.
    let manager = Manager::builder().steps(2).build();
    let moves = manager.acquire(&spans("W a")).unwrap();
    let stays = manager.acquire(&spans("W x")).unwrap();
    let in_tree = manager.acquire(&spans("W b")).unwrap();
    // Parks on the newest, which is in the tree.
    let mut task = crate::wake::Task::new(manager.sequence(&spans("W [a,c)")).unwrap());
    assert!(task.poll().is_pending());
    // Those that find no room make room: what is beside the tree moves there.
    drop(manager.acquire(&spans("W y")).unwrap());
    drop(manager.acquire(&spans("W z")).unwrap());
    drop(in_tree);
    assert!(task.poll().is_pending(), "the first is still held");
    drop((moves, stays));
    assert!(task.poll().is_ready());
}
