//! The table of conflicts, and that sets of declarations agree with it.

use proptest::prelude::*;
use spanset::{Access, Declaration, Scope, Span, SpanSet, Timestamp, conflicts};

use crate::universe::{Naive, a_declaration, a_set, a_timestamp, all_accesses, all_spans, time};

use Access::{Read, Write};

const FIVE: Option<Timestamp> = Some(Timestamp::new(5, 0));
const SIX: Option<Timestamp> = Some(Timestamp::new(6, 0));

/// Whether the first waits for the second, in either role.
#[track_caller]
fn assert_waits(
    waiting: (Access, Option<Timestamp>),
    held: (Access, Option<Timestamp>),
    waits: bool,
) {
    assert_eq!(conflicts(waiting, held), waits, "{waiting:?} for {held:?}");
    assert_eq!(conflicts(held, waiting), waits, "{held:?} for {waiting:?}");
}

#[test]
fn reads_never_wait_for_reads() {
    for (a, b) in [(FIVE, SIX), (FIVE, FIVE), (FIVE, None), (None, None)] {
        assert_waits((Read, a), (Read, b), false);
    }
}

#[test]
fn writes_always_wait_for_writes() {
    for (a, b) in [(FIVE, SIX), (FIVE, FIVE), (FIVE, None), (None, None)] {
        assert_waits((Write, a), (Write, b), true);
    }
}

#[test]
fn a_read_waits_for_a_write_at_or_below_its_timestamp_and_no_other() {
    assert_waits((Read, SIX), (Write, FIVE), true);
    assert_waits((Read, FIVE), (Write, FIVE), true);
    assert_waits((Read, FIVE), (Write, SIX), false);
}

#[test]
fn a_write_waits_for_a_read_at_or_above_its_timestamp_and_no_other() {
    assert_waits((Write, FIVE), (Read, SIX), true);
    assert_waits((Write, FIVE), (Read, FIVE), true);
    assert_waits((Write, SIX), (Read, FIVE), false);
}

#[test]
fn no_timestamp_stands_for_every_timestamp() {
    for at in [FIVE, SIX, None] {
        assert_waits((Read, None), (Write, at), true);
        assert_waits((Read, at), (Write, None), true);
    }
}

#[test]
fn the_counter_decides_within_a_nanosecond() {
    let at = |logical| Some(Timestamp::new(5, logical));
    assert_waits((Read, at(1)), (Write, at(1)), true);
    assert_waits((Read, at(1)), (Write, at(2)), false);
    assert_waits((Read, Some(Timestamp::new(6, 0))), (Write, at(2)), true);
}

#[test]
fn global_and_local_never_conflict() {
    let global = Declaration::global(Write, Span::all());
    let local = Declaration::local(Write, Span::all());
    assert!(!global.conflicts_with(&local));
    assert!(!local.conflicts_with(&global));
}

#[test]
fn local_declarations_conflict_unless_both_read() {
    for (a, b, conflict) in [
        (Read, Read, false),
        (Read, Write, true),
        (Write, Read, true),
        (Write, Write, true),
    ] {
        let local = |access| Declaration::local(access, Span::point("a"));
        assert_eq!(local(a).conflicts_with(&local(b)), conflict);
    }
}

#[test]
fn declarations_without_a_common_key_never_conflict() {
    let low = Declaration::global(Write, Span::range("a", "b").expect("ascending"));
    let high = Declaration::global(Write, Span::point("b"));
    assert!(!low.conflicts_with(&high));
}

/// The table of the rules, row by row, for two accesses that share an atom.
fn naive_conflict(waiting: &Naive, held: &Naive) -> bool {
    if waiting.scope != held.scope || waiting.atoms & held.atoms == 0 {
        return false;
    }
    match (waiting.access, held.access) {
        (Read, Read) => false,
        (Write, Write) => true,
        (Read, Write) => match (waiting.at, held.at) {
            (Some(t), Some(u)) => u <= t,
            _ => true,
        },
        (Write, Read) => match (waiting.at, held.at) {
            (Some(t), Some(u)) => u >= t,
            _ => true,
        },
    }
}

fn is_allowed(set: &SpanSet, access: Access, span: &Span, at: Option<Timestamp>) -> bool {
    match at {
        Some(at) => set.check_allowed_at(access, span, at).is_ok(),
        None => set.check_allowed(access, Scope::Global, span).is_ok(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sets_intersect_iff_the_table_says_so((a, naive_a) in a_set(), (b, naive_b) in a_set()) {
        let expected = naive_a.iter().any(|a| naive_b.iter().any(|b| naive_conflict(a, b)));
        prop_assert_eq!(a.intersects(&b), expected);
        prop_assert_eq!(b.intersects(&a), expected);
    }

    #[test]
    fn forwarding_raises_writes_and_nothing_else((mut set, naive) in a_set(), to in a_timestamp()) {
        set.forward_writes(to);
        for (after, before) in set.iter().zip(naive) {
            let expected = match (before.access, before.at) {
                (Write, Some(at)) => Some(at.max(to)),
                (_, at) => at,
            };
            prop_assert_eq!(after.timestamp(), expected);
            prop_assert_eq!(after.access(), before.access);
            prop_assert_eq!(after.scope(), before.scope);
        }
    }
}

#[test]
fn a_forwarded_write_still_conflicts_with_what_reads_above_it() {
    let mut set = SpanSet::new();
    set.write_at(Span::point("a"), time(3));
    set.forward_writes(time(7));
    let read = |at| SpanSet::from_iter([Declaration::global_at(Read, Span::point("a"), time(at))]);
    assert!(!set.intersects(&read(6)));
    assert!(set.intersects(&read(7)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Why the rules of checking are what they are: the latches of a request stand for its
    /// accesses.
    #[test]
    fn whatever_conflicts_with_an_allowed_access_conflicts_with_the_set(
        (set, _) in a_set(),
        (other, _) in a_declaration(),
    ) {
        prop_assume!(!set.intersects(&SpanSet::from_iter([other.clone()])));
        let spans = all_spans();
        for (access, at) in all_accesses() {
            for (span, _) in &spans {
                if !is_allowed(&set, access, span, at) {
                    continue;
                }
                let touched = match at {
                    Some(at) => Declaration::global_at(access, span.clone(), at),
                    None => Declaration::global(access, span.clone()),
                };
                prop_assert!(!touched.conflicts_with(&other), "{}", touched);
            }
        }
    }
}
