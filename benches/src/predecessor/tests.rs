//! The published rules of the predecessor, its list of prerequisites against the definition, and
//! histories of many threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use proptest::prelude::*;
use spanset::{Access, Declaration, Key, Scope, Span, Timestamp};

use super::*;

fn at(wall: u64) -> Timestamp {
    Timestamp::new(wall, 0)
}

fn point(key: &'static str) -> Span {
    Span::point(key)
}

fn range(start: &'static str, end: &'static str) -> Span {
    Span::range(start, end).expect("in order")
}

fn set(declarations: impl IntoIterator<Item = Declaration>) -> SpanSet {
    declarations.into_iter().collect()
}

fn write(span: Span) -> SpanSet {
    set([Declaration::global(Access::Write, span)])
}

fn read(span: Span) -> SpanSet {
    set([Declaration::global(Access::Read, span)])
}

fn granted(pending: &mut Pending) -> Option<Guard> {
    match Pin::new(pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(guard) => Some(guard.expect("not shut down")),
        Poll::Pending => None,
    }
}

fn now(queue: &Predecessor, spans: &SpanSet) -> Guard {
    granted(&mut queue.sequence(spans)).expect("nothing in the way")
}

fn verify(queue: &Predecessor) {
    queue.shared.queue.lock().verify();
}

/// How many spans of global commands stand in the trees of reads and of writes.
fn in_trees(queue: &Predecessor) -> (usize, usize) {
    queue.shared.queue.lock().in_trees(Scope::Global)
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A command that waits, and the count of its wake-ups.
fn parked(queue: &Predecessor, spans: &SpanSet) -> (Pending, Arc<Wakes>) {
    let wakes = Arc::new(Wakes::default());
    let mut pending = queue.sequence(spans);
    let waker = Waker::from(Arc::clone(&wakes));
    assert!(
        Pin::new(&mut pending)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    (pending, wakes)
}

// The published rules.

#[test]
fn a_later_command_waits_exactly_where_the_conflict_table_says_so() {
    let accesses = [Access::Read, Access::Write];
    let times = [None, Some(at(5)), Some(at(6))];
    let make = |access, time, span| match time {
        None => Declaration::global(access, span),
        Some(at) => Declaration::global_at(access, span, at),
    };
    let spans = [
        point("b"),
        range("a", "c"),
        range("b", "c"),
        range("a", "b"),
        point("c"),
        Span::all(),
    ];
    for (held, waiting) in spans
        .iter()
        .flat_map(|held| spans.iter().map(move |w| (held, w)))
    {
        for (held_access, held_at) in accesses.iter().flat_map(|a| times.map(|t| (*a, t))) {
            for (access, time) in accesses.iter().flat_map(|a| times.map(|t| (*a, t))) {
                let held = make(held_access, held_at, held.clone());
                let waiting = make(access, time, waiting.clone());
                let queue = Predecessor::new();
                let guard = now(&queue, &set([held.clone()]));
                let mut pending = queue.sequence(&set([waiting.clone()]));
                assert_eq!(
                    granted(&mut pending).is_none(),
                    held.conflicts_with(&waiting),
                    "{waiting} behind {held}"
                );
                drop(guard);
                drop(pending);
                assert!(queue.is_idle());
                verify(&queue);
            }
        }
    }
}

#[test]
fn scopes_are_independent_and_local_reads_share() {
    let queue = Predecessor::new();
    let local = |access| set([Declaration::local(access, range("a", "c"))]);
    let _global = now(&queue, &write(range("a", "c")));
    let reads = [
        now(&queue, &local(Access::Read)),
        now(&queue, &local(Access::Read)),
    ];
    let mut writer = queue.sequence(&local(Access::Write));
    assert!(granted(&mut writer).is_none());
    let mut reader = queue.sequence(&local(Access::Read));
    drop(reads);
    assert!(granted(&mut reader).is_none());
    assert!(granted(&mut writer).is_some());
    assert!(granted(&mut reader).is_some());
}

#[test]
fn writers_of_one_key_go_in_the_order_in_which_they_came() {
    let queue = Predecessor::new();
    let mut line: Vec<Pending> = (0..10)
        .map(|_| queue.sequence(&write(point("a"))))
        .collect();
    for first in 0..line.len() {
        let guard = granted(&mut line[first]).expect("its turn");
        assert!(
            line[first + 1..]
                .iter_mut()
                .all(|later| granted(later).is_none())
        );
        drop(guard);
    }
    assert!(queue.is_idle());
}

#[test]
fn a_command_without_spans_never_waits() {
    let queue = Predecessor::new();
    let _all = now(&queue, &write(Span::all()));
    assert!(granted(&mut queue.sequence(&SpanSet::new())).is_some());
}

#[test]
fn a_panic_while_holding_releases() {
    let queue = Predecessor::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = now(&queue, &write(point("a")));
        panic!("evaluation failed");
    }));
    assert!(result.is_err());
    assert!(queue.is_idle());
}

/// A waker that uses the queue: it fails if the queue's mutex is held while it is woken.
struct Looks(Predecessor);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        assert!(
            self.0.shared.queue.try_lock().is_some(),
            "the mutex is held while others are woken"
        );
    }
}

#[test]
fn shutting_down_wakes_nobody_under_the_mutex() {
    let queue = Predecessor::new();
    let _held = granted(&mut queue.sequence(&write(point("a"))));
    let mut waits = queue.sequence(&write(point("a")));
    let waker = Waker::from(Arc::new(Looks(queue.clone())));
    let polled = Pin::new(&mut waits).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    queue.shut_down();
    let polled = Pin::new(&mut waits).poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Ready(Err(Error::ShuttingDown))));
}

#[test]
fn shutting_down_ends_every_wait_and_refuses_what_comes_later() {
    let queue = Predecessor::new();
    let guard = now(&queue, &write(point("a")));
    let (mut pending, wakes) = parked(&queue, &write(point("a")));
    queue.shut_down();
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    for pending in [&mut pending, &mut queue.sequence(&read(point("z")))] {
        let polled = Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()));
        assert!(
            matches!(polled, Poll::Ready(Err(Error::ShuttingDown))),
            "{polled:?}"
        );
    }
    drop(guard);
    assert!(queue.is_idle());
}

// The list of prerequisites.

#[test]
fn what_a_covering_later_command_waits_for_is_left_out() {
    let queue = Predecessor::new();
    let _one = queue.sequence(&write(point("a")));
    let _two = queue.sequence(&write(point("a")));
    assert_eq!(
        queue.sequence(&write(point("a"))).prerequisites.sequences(),
        [2]
    );
}

#[test]
fn a_read_never_stands_in_for_an_earlier_read() {
    let queue = Predecessor::new();
    let _one = queue.sequence(&read(point("a")));
    let _two = queue.sequence(&read(range("a", "c")));
    assert_eq!(
        queue.sequence(&write(point("a"))).prerequisites.sequences(),
        [1, 2]
    );
}

#[test]
fn a_read_stands_in_for_the_write_that_it_waits_for() {
    let queue = Predecessor::new();
    let _one = queue.sequence(&write(point("a")));
    let _two = queue.sequence(&read(point("a")));
    assert_eq!(
        queue.sequence(&write(point("a"))).prerequisites.sequences(),
        [2]
    );
    let _below = queue.sequence(&set([Declaration::global_at(
        Access::Write,
        point("b"),
        at(5),
    )]));
    let _above = queue.sequence(&set([Declaration::global_at(
        Access::Read,
        point("b"),
        at(4),
    )]));
    let both = queue.sequence(&write(point("b")));
    assert_eq!(
        both.prerequisites.sequences(),
        [4, 5],
        "the read at 4 does not wait for the write at 5"
    );
}

#[test]
fn a_later_command_that_covers_a_part_of_the_overlap_stands_in_for_nothing() {
    let queue = Predecessor::new();
    let _one = queue.sequence(&write(range("a", "d")));
    let _two = queue.sequence(&write(range("b", "d")));
    assert_eq!(
        queue
            .sequence(&write(range("a", "d")))
            .prerequisites
            .sequences(),
        [1, 2]
    );
    // The rest of the overlap may be covered by another.
    let _four = queue.sequence(&write(range("a", "b")));
    assert_eq!(
        queue
            .sequence(&write(range("a", "d")))
            .prerequisites
            .sequences(),
        [2, 4]
    );
}

#[test]
fn a_command_met_by_several_spans_is_listed_once() {
    let queue = Predecessor::new();
    let both = set(["a", "b"].map(|key| Declaration::global(Access::Write, point(key))));
    let _one = queue.sequence(&both);
    assert_eq!(queue.sequence(&both).prerequisites.sequences(), [1]);
}

// Covering and buffering.

fn three() -> SpanSet {
    set(["a", "c", "e"].map(|key| Declaration::global(Access::Write, point(key))))
}

#[test]
fn many_spans_stand_in_the_tree_as_one_until_something_meets_them() {
    let queue = Predecessor::new();
    let guard = now(&queue, &three());
    assert_eq!(in_trees(&queue), (0, 1));
    drop(now(&queue, &write(point("f"))));
    assert_eq!(in_trees(&queue), (0, 1), "not met");
    drop(now(&queue, &write(point("b"))));
    assert_eq!(in_trees(&queue), (0, 3), "met, though nothing conflicts");
    verify(&queue);
    assert!(granted(&mut queue.sequence(&read(point("c")))).is_none());
    drop(guard);
    assert_eq!(in_trees(&queue), (0, 0));
}

#[test]
fn a_command_that_was_never_met_leaves_as_the_one_span_that_it_was() {
    let queue = Predecessor::new();
    drop(now(&queue, &three()));
    assert_eq!(in_trees(&queue), (0, 0));
    verify(&queue);
}

#[test]
fn the_span_that_covers_ends_in_a_point_or_nowhere_as_its_parts_do() {
    let queue = Predecessor::new();
    let to_a_point =
        set([range("a", "c"), point("d")].map(|s| Declaration::global(Access::Write, s)));
    let _guard = now(&queue, &to_a_point);
    assert!(granted(&mut queue.sequence(&read(point("d")))).is_none());
    let without_end =
        set([point("x"), Span::starting_at("y")].map(|s| Declaration::global(Access::Write, s)));
    let _guard = now(&queue, &without_end);
    assert!(granted(&mut queue.sequence(&read(point("zzz")))).is_none());
}

#[test]
fn reads_join_their_tree_when_a_write_looks_for_reads() {
    let queue = Predecessor::new();
    let mut guards: Vec<Guard> = (0..4).map(|_| now(&queue, &read(point("a")))).collect();
    assert_eq!(in_trees(&queue), (0, 0));
    drop(guards.swap_remove(0));
    verify(&queue);
    let mut writer = queue.sequence(&write(point("a")));
    assert_eq!(in_trees(&queue), (3, 1));
    let _later = now(&queue, &read(point("b")));
    assert_eq!(in_trees(&queue), (3, 1));
    guards.clear();
    assert_eq!(in_trees(&queue), (0, 1));
    assert!(granted(&mut writer).is_some());
    verify(&queue);
}

// Giving up.

#[test]
fn a_command_that_gives_up_hands_what_it_waits_for_on() {
    let queue = Predecessor::new();
    let first = now(&queue, &write(point("a")));
    let second = queue.sequence(&write(point("a")));
    let (mut third, wakes) = parked(&queue, &write(point("a")));
    assert_eq!(third.prerequisites.sequences(), [2]);
    drop(second);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert!(granted(&mut third).is_none());
    assert_eq!(third.prerequisites.sequences(), [1]);
    drop(first);
    assert!(granted(&mut third).is_some());
    assert!(queue.is_idle());
}

#[test]
fn giving_up_leaves_the_line_at_once_and_wakes_nobody_else() {
    let queue = Predecessor::new();
    let first = now(&queue, &read(point("a")));
    let writer = queue.sequence(&write(range("a", "z")));
    let (_on_first, on_first) = parked(&queue, &write(point("a")));
    let (_behind_other, behind_other) = {
        let _other = now(&queue, &write(point("zz")));
        parked(&queue, &write(point("zz")))
    };
    let before = behind_other.0.load(Ordering::SeqCst);
    drop(writer);
    assert_eq!(
        on_first.0.load(Ordering::SeqCst),
        1,
        "it had waited for the writer"
    );
    assert_eq!(behind_other.0.load(Ordering::SeqCst), before);
    assert!(
        granted(&mut queue.sequence(&write(point("m")))).is_some(),
        "the writer is gone"
    );
    drop(first);
}

#[test]
fn those_that_give_up_newest_first_still_hand_on_what_is_held() {
    let queue = Predecessor::new();
    let first = now(&queue, &write(point("a")));
    // Layers of two reads between writes: each layer doubles the ways back to the first.
    let mut line: Vec<Pending> = Vec::new();
    for _ in 0..40 {
        line.extend(
            [read(point("a")), read(point("a")), write(point("a"))]
                .iter()
                .map(|s| queue.sequence(s)),
        );
    }
    let mut last = queue.sequence(&write(point("a")));
    while let Some(newest) = line.pop() {
        drop(newest);
    }
    assert!(granted(&mut last).is_none());
    assert_eq!(last.prerequisites.sequences(), [1]);
    drop(first);
    assert!(granted(&mut last).is_some());
    assert!(queue.is_idle());
}

// Against the definition.

/// Any declaration over few keys: points, ranges and spans without end, so that most overlap.
fn declaration() -> impl Strategy<Value = Declaration> {
    let key = |n: u8| Key::copy_from_slice(&[b'a' + n]);
    let span = (0_u8..6, 1_u8..4, 0_u8..4).prop_map(move |(start, length, shape)| match shape {
        0 | 1 => Span::point(key(start)),
        2 => Span::range(key(start), key(start + length)).expect("in order"),
        _ if length == 1 => Span::starting_at(key(start)),
        _ => Span::range(key(start), key(start + 1)).expect("in order"),
    });
    let access = prop_oneof![Just(Access::Read), Just(Access::Write)];
    (span, access, 0_u8..6).prop_map(|(span, access, time)| match time {
        0 => Declaration::local(access, span),
        1 | 2 => Declaration::global(access, span),
        time => Declaration::global_at(access, span, at(u64::from(time))),
    })
}

fn spans() -> impl Strategy<Value = SpanSet> {
    proptest::collection::vec(declaration(), 1..4).prop_map(set)
}

/// A key of each piece into which keys of one letter cut the key space.
fn keys() -> Vec<Key> {
    (b'a'..b'm')
        .flat_map(|letter| [vec![letter], vec![letter, b'x']])
        .map(Key::from)
        .collect()
}

/// Whether `new` has to wait for `earlier` itself, given those in between, by the definition: at some
/// key where two of their spans conflict, nobody in between conflicts with both.
fn must_be_listed(new: &SpanSet, earlier: &SpanSet, between: &[&SpanSet]) -> bool {
    let pairs = new.iter().flat_map(|d| earlier.iter().map(move |e| (d, e)));
    pairs.filter(|(d, e)| d.conflicts_with(e)).any(|(d, e)| {
        keys()
            .iter()
            .filter(|k| d.span().contains_key(k) && e.span().contains_key(k))
            .any(|key| {
                let stands_in = |x: &Declaration| {
                    x.span().contains_key(key) && x.conflicts_with(d) && x.conflicts_with(e)
                };
                !between.iter().any(|x| x.iter().any(stands_in))
            })
    })
}

/// What happens to a line of commands.
#[derive(Clone, Debug)]
enum Step {
    Sequence(Box<SpanSet>),
    /// Ends the command at this share of the line: releases it, or leaves if it waits.
    End(prop::sample::Index),
}

/// Each command's spans, its place, and its guard once it is granted.
type Line = Vec<(SpanSet, Pending, Option<Guard>)>;

fn steps(ends: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => spans().prop_map(|spans| Step::Sequence(Box::new(spans))),
        ends => any::<prop::sample::Index>().prop_map(Step::End),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #[test]
    fn the_list_is_the_minimal_one_by_definition(line in proptest::collection::vec(spans(), 1..16)) {
        let queue = Predecessor::new();
        let mut pendings = Vec::new();
        for (number, new) in line.iter().enumerate() {
            let pending = queue.sequence(new);
            let expected: Vec<u64> = (0..number)
                .filter(|earlier| {
                    let between: Vec<&SpanSet> = line[earlier + 1..number].iter().collect();
                    must_be_listed(new, &line[*earlier], &between)
                })
                .map(|earlier| earlier as u64 + 1)
                .collect();
            prop_assert_eq!(pending.prerequisites.sequences(), expected, "{:?} behind {:?}", new, &line[..number]);
            pendings.push(pending);
            verify(&queue);
        }
    }

    #[test]
    fn without_giving_up_everyone_waits_exactly_for_the_earlier_that_conflict(steps in steps(4)) {
        let queue = Predecessor::new();
        let mut line: Line = Vec::new();
        for step in steps {
            match step {
                Step::Sequence(spans) => {
                    let pending = queue.sequence(&spans);
                    line.push((*spans, pending, None));
                }
                Step::End(which) => {
                    let holding: Vec<usize> = (0..line.len()).filter(|at| line[*at].2.is_some()).collect();
                    if !holding.is_empty() {
                        drop(line.remove(*which.get(&holding)));
                    }
                }
            }
            verify(&queue);
            for at in 0..line.len() {
                let (before, rest) = line.split_at_mut(at);
                let (spans, pending, guard) = &mut rest[0];
                let clear = !before.iter().any(|(earlier, _, _)| earlier.intersects(spans));
                if guard.is_none() {
                    *guard = granted(pending);
                    prop_assert_eq!(guard.is_some(), clear, "{:?}", spans);
                }
            }
        }
        line.clear();
        prop_assert!(queue.is_idle());
    }

    #[test]
    fn whoever_gives_up_nobody_overtakes_and_nobody_is_stuck(steps in steps(6)) {
        let queue = Predecessor::new();
        let mut line: Line = Vec::new();
        let poll_all = |line: &mut Line| {
            for at in 0..line.len() {
                let (before, rest) = line.split_at_mut(at);
                let (spans, pending, guard) = &mut rest[0];
                if guard.is_none() {
                    *guard = granted(pending);
                    let clear = !before.iter().any(|(earlier, _, _)| earlier.intersects(spans));
                    assert!(guard.is_none() || clear, "{spans:?} overtook");
                }
            }
        };
        for step in steps {
            match step {
                Step::Sequence(spans) => {
                    let pending = queue.sequence(&spans);
                    line.push((*spans, pending, None));
                }
                Step::End(which) if !line.is_empty() => {
                    drop(line.remove(which.index(line.len())));
                }
                Step::End(_) => {}
            }
            verify(&queue);
            poll_all(&mut line);
        }
        while !line.is_empty() {
            prop_assert!(line[0].2.is_some(), "the first in line holds");
            drop(line.remove(0));
            poll_all(&mut line);
        }
        prop_assert!(queue.is_idle());
    }
}

// Many threads.

/// A command's history, in ticks of one clock.
struct Event {
    spans: SpanSet,
    /// Its place in line.
    sequence: u64,
    granted: u64,
    released: u64,
}

#[test]
fn on_many_threads_conflicting_commands_hold_one_after_the_other_in_sequence_order() {
    const TASKS: u64 = 16;
    const COMMANDS: usize = 150;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .build()
        .expect("a runtime");
    let queue = Predecessor::new();
    let clock = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| {
            runtime.spawn(random_commands(
                queue.clone(),
                Arc::clone(&clock),
                seed,
                COMMANDS,
            ))
        })
        .collect();
    let mut events = Vec::new();
    for task in tasks {
        events.extend(runtime.block_on(task).expect("no task panics"));
    }
    assert!(
        events.len() > 1000,
        "{} commands were granted",
        events.len()
    );
    events.sort_by_key(|event| event.sequence);
    let mut conflicts = 0;
    for (number, later) in events.iter().enumerate() {
        for earlier in &events[..number] {
            if earlier.spans.intersects(&later.spans) {
                conflicts += 1;
                assert!(
                    earlier.released < later.granted,
                    "{:?} overtook {:?}",
                    later.spans,
                    earlier.spans
                );
            }
        }
    }
    assert!(conflicts > 10_000, "{conflicts}");
    assert!(queue.is_idle());
    verify(&queue);
}

async fn random_commands(
    queue: Predecessor,
    clock: Arc<AtomicU64>,
    seed: u64,
    count: usize,
) -> Vec<Event> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut events = Vec::new();
    for _ in 0..count {
        let spans: SpanSet = (0..rng.usize(1..5))
            .map(|_| random_declaration(&mut rng))
            .collect();
        let mut pending = queue.sequence(&spans);
        if rng.u8(..) < 40 {
            // Gives up, mostly while it waits.
            drop(granted(&mut pending));
            continue;
        }
        let line = pending.line.as_ref().expect("not polled yet");
        let sequence = line.place.sequence;
        let guard = pending.await.expect("not shut down");
        let granted = clock.fetch_add(1, Ordering::SeqCst);
        if rng.bool() {
            tokio::task::yield_now().await;
        }
        let released = clock.fetch_add(1, Ordering::SeqCst);
        drop(guard);
        events.push(Event {
            spans,
            sequence,
            granted,
            released,
        });
    }
    events
}

fn random_declaration(rng: &mut fastrand::Rng) -> Declaration {
    let start = rng.u8(0..20);
    let key = |n: u8| Key::copy_from_slice(&[b'a' + n]);
    let span = match rng.u8(0..3) {
        0 => Span::range(key(start), key(start + rng.u8(1..5))).expect("in order"),
        _ => Span::point(key(start)),
    };
    let access = if rng.bool() {
        Access::Read
    } else {
        Access::Write
    };
    match rng.u8(0..4) {
        0 => Declaration::local(access, span),
        1 => Declaration::global(access, span),
        _ => Declaration::global_at(access, span, at(rng.u64(0..5))),
    }
}
