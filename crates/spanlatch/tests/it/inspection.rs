//! Pictures of who holds, who waits, and for whom.

use std::time::{Duration, Instant};

use spanlatch::{Manager, State};

use crate::notation::spans;
use crate::wake::Task;

#[test]
fn a_picture_shows_each_blocking_chain_under_its_head() {
    let start = Instant::now();
    let manager = Manager::builder()
        .clock(move || start + Duration::from_secs(10))
        .build();
    manager.tick(start + Duration::from_millis(6800));
    let backup = manager.request(&spans("W [a,c); local R d; R x; R y; W z"));
    let backup = backup.label("backup").acquire().unwrap();
    let mut first = Task::new(manager.sequence(&spans("R a")).unwrap());
    assert!(first.poll().is_pending());
    let second = manager.sequence(&spans("W a@5; W b@5")).unwrap();
    let free = manager.acquire(&spans("R q@7")).unwrap();
    backup.poison();
    let picture = manager.inspect();
    assert_eq!(
        picture.to_string(),
        r#"4 requests with 9 latches: 2 hold, 2 wait
0 "backup" (poisoned) holds for 3.2 s, write ["a", "c"), local read ["d"], read ["x"] and 2 more; 2 wait behind it
    1 waits for 0.0 s, for 0: read ["a"] conflicts with write ["a", "c")
    2 waits for 0: write ["a"] at 0.000000005,0 conflicts with write ["a", "c")
3 holds for 3.2 s, read ["q"] at 0.000000007,0
"#
    );
    assert_eq!(
        picture.graphviz().to_string(),
        r#"digraph latches {
    rankdir=RL; node [shape=box, fontname=monospace];
    0 [label="0 \"backup\" (poisoned) holds for 3.2 s, write [\"a\", \"c\"), local read [\"d\"], read [\"x\"] and 2 more", penwidth=2, color=red];
    1 -> 0 [label="read [\"a\"]"];
    1 [label="1 waits for 0.0 s, for 0: read [\"a\"] conflicts with write [\"a\", \"c\")"];
    2 -> 0 [label="write [\"a\"] at 0.000000005,0"];
    2 [label="2 waits for 0: write [\"a\"] at 0.000000005,0 conflicts with write [\"a\", \"c\")"];
}
"#
    );
    drop((backup, first, second, free));
    assert_eq!(
        manager.inspect().to_string(),
        "0 requests with 0 latches: 0 hold, 0 wait\n"
    );
}

#[test]
fn a_picture_names_the_nearest_conflict_and_the_head() {
    let manager = Manager::new();
    let holder = manager.acquire(&spans("W a")).unwrap();
    let queue = Vec::from_iter((0..5).map(|_| manager.sequence(&spans("W a")).unwrap()));
    let picture = manager.inspect();
    for (request, waits_for) in (1..=5).zip(0..) {
        let inspected = &picture.requests[request as usize];
        assert_eq!(inspected.request, request);
        match inspected.state {
            State::Waiting { on, head, .. } => assert_eq!((on, head), (waits_for, 0)),
            _ => panic!("{inspected}"),
        }
    }
    drop((holder, queue));
}

#[test]
fn a_picture_of_many_takes_the_mutex_in_portions_and_is_cut_when_shown() {
    let manager = Manager::builder().steps(2).build();
    let writes = Vec::from_iter((0..30).map(|key| manager.acquire(&spans(&format!("W {key}")))));
    let reads = Vec::from_iter((0..30).map(|_| manager.sequence(&spans("R 7; R x"))));
    let picture = manager.inspect();
    manager.verify();
    let text = picture.to_string();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("60 requests with 90 latches: 30 hold, 30 wait")
    );
    assert_eq!(
        lines.next(),
        Some(r#"7 holds write ["7"]; 30 wait behind it"#)
    );
    assert_eq!(lines.nth(20), Some("    and 10 more"));
    assert_eq!(lines.last(), Some("and 9 more"));
    drop((writes, reads));
}
