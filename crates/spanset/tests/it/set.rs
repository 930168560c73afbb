//! Sets of declarations: what they allow, what they say when they don't, and de-duplication.

use proptest::prelude::*;
use spanset::{Access, Declaration, End, Key, Place, Scope, Span, SpanSet, Timestamp};

use crate::universe::{Atoms, Naive, a_set, all_accesses, all_spans, allowed, cuts, end_at, time};

use Access::{Read, Write};
use Scope::{Global, Local};

fn range(start: &'static str, end: &'static str) -> Span {
    Span::range(start, end).expect("ascending in every test")
}

fn set(declarations: impl IntoIterator<Item = Declaration>) -> SpanSet {
    declarations.into_iter().collect()
}

fn allows(set: &SpanSet, access: Access, span: Span, at: u64) -> bool {
    set.check_allowed_at(access, &span, time(at)).is_ok()
}

#[test]
fn an_empty_set_allows_nothing() {
    let none = SpanSet::new();
    assert!(none.is_empty());
    for scope in [Global, Local] {
        assert!(none.check_allowed(Read, scope, &Span::point("")).is_err());
    }
}

#[test]
fn a_write_without_timestamp_allows_everything_there() {
    let set = set([Declaration::global(Write, range("a", "c"))]);
    for access in [Read, Write] {
        assert!(set.check_allowed(access, Global, &range("a", "c")).is_ok());
        assert!(allows(&set, access, range("a", "c"), 5));
    }
    assert!(set.check_allowed(Read, Local, &range("a", "c")).is_err());
}

#[test]
fn a_read_without_timestamp_allows_every_read_and_no_write() {
    let set = set([Declaration::global(Read, range("a", "c"))]);
    assert!(set.check_allowed(Read, Global, &Span::point("b")).is_ok());
    assert!(allows(&set, Read, Span::point("b"), 5));
    assert!(set.check_allowed(Write, Global, &Span::point("b")).is_err());
    assert!(!allows(&set, Write, Span::point("b"), 5));
}

#[test]
fn a_read_with_timestamp_allows_reads_at_or_below_it_and_nothing_else() {
    let set = set([Declaration::global_at(Read, range("a", "c"), time(5))]);
    assert!(allows(&set, Read, Span::point("b"), 4));
    assert!(allows(&set, Read, Span::point("b"), 5));
    assert!(!allows(&set, Read, Span::point("b"), 6));
    assert!(!allows(&set, Write, Span::point("b"), 5));
    assert!(set.check_allowed(Read, Global, &Span::point("b")).is_err());
}

#[test]
fn a_write_with_timestamp_allows_every_timed_read_and_writes_at_or_above_it() {
    let set = set([Declaration::global_at(Write, range("a", "c"), time(5))]);
    for at in [4, 5, 6] {
        assert!(allows(&set, Read, Span::point("b"), at));
        assert_eq!(allows(&set, Write, Span::point("b"), at), at >= 5);
    }
    assert!(set.check_allowed(Read, Global, &Span::point("b")).is_err());
    assert!(set.check_allowed(Write, Global, &Span::point("b")).is_err());
}

#[test]
fn a_span_may_be_covered_piece_by_piece() {
    let overlapping = set([
        Declaration::global_at(Read, range("a", "c"), time(1)),
        Declaration::global_at(Read, range("b", "e"), time(1)),
    ]);
    assert!(allows(&overlapping, Read, range("a", "e"), 1));
    assert!(!allows(&overlapping, Read, range("a", "e"), 2));

    let adjacent = set([
        Declaration::global(Read, range("b", "c")),
        Declaration::global(Read, range("a", "b")),
    ]);
    assert!(
        adjacent
            .check_allowed(Read, Global, &range("a", "c"))
            .is_ok()
    );

    let mixed = set([
        Declaration::global_at(Write, Span::point("a"), time(5)),
        Declaration::global_at(Read, range("a\0", "c"), time(5)),
        Declaration::global(Read, Span::starting_at("c")),
    ]);
    assert!(allows(&mixed, Read, Span::starting_at("a"), 5));
    assert!(!allows(&mixed, Read, Span::starting_at("a"), 6));
    assert!(!allows(&mixed, Write, range("a", "b"), 5));
}

#[test]
fn pieces_with_a_gap_do_not_cover_it() {
    let set = set([
        Declaration::global(Read, range("a", "b")),
        Declaration::global(Read, range("b\0", "c")),
    ]);
    let denied = set
        .check_allowed(Read, Global, &range("a", "c"))
        .expect_err("b is missing");
    assert_eq!(denied.first_undeclared(), Some(&Key::from("b")));
}

#[test]
fn the_position_below_the_end_of_a_declared_range_is_covered() {
    let set = set([
        Declaration::global_at(Read, range("a", "c"), time(5)),
        Declaration::local(Read, Span::point("d")),
    ]);
    let (a, b, c, d) = (
        Key::from("a"),
        Key::from("b"),
        Key::from("c"),
        Key::from("d"),
    );
    let below = |end| set.check_allowed_below_at(Read, end, time(5)).is_ok();
    assert!(below(End::Before(&c)));
    assert!(below(End::Before(&b)));
    assert!(!below(End::Before(&a)));
    assert!(!below(End::At(&c)));
    assert!(!below(End::Unbounded));
    let local = |end| set.check_allowed_below(Read, Local, end).is_ok();
    assert!(local(End::At(&d)));
    assert!(!local(End::Before(&d)));
    assert!(
        set.check_allowed_below_at(Read, End::Before(&c), time(6))
            .is_err()
    );
    assert!(
        set.check_allowed_below(Read, Global, End::Before(&c))
            .is_err()
    );
}

#[test]
fn a_denial_names_the_access_the_span_and_the_nearest_declaration() {
    let set = set([
        Declaration::global_at(Read, range("a", "c"), Timestamp::new(5_000_000_007, 1)),
        Declaration::global(Write, Span::point("zebra1")),
        Declaration::global(Write, Span::point("zebra2")),
        Declaration::local(Write, Span::point("a")),
    ]);
    let texts = [
        // Declared, but not for this.
        (
            set.check_allowed(Write, Global, &range("a", "b")),
            r#"undeclared write of ["a", "b"); the nearest declaration is read ["a", "c") at 5.000000007,1"#,
        ),
        // Declared in part.
        (
            set.check_allowed_at(Read, &range("b", "d"), time(1)),
            r#"undeclared read of ["b", "d") at 0.000000001,0 from "c" on; the nearest declaration is read ["a", "c") at 5.000000007,1"#,
        ),
        // Next to a declaration above it with which it shares more than with the one below.
        (
            set.check_allowed(Read, Global, &Span::point("zebra0")),
            r#"undeclared read of ["zebra0"]; the nearest declaration is write ["zebra1"]"#,
        ),
        (
            set.check_allowed(Read, Global, &Span::point("d")),
            r#"undeclared read of ["d"]; the nearest declaration is read ["a", "c") at 5.000000007,1"#,
        ),
        (
            set.check_allowed_below(Read, Global, End::Unbounded),
            r#"undeclared read of the last position; the nearest declaration is write ["zebra2"]"#,
        ),
        (
            set.check_allowed_below(Read, Local, End::Before(&Key::from("a"))),
            r#"undeclared local read of the position below "a"; the nearest declaration is local write ["a"]"#,
        ),
        (
            SpanSet::new().check_allowed(Read, Local, &Span::all()),
            r#"undeclared local read of ["", ..); nothing local is declared"#,
        ),
    ];
    for (denied, text) in texts {
        assert_eq!(denied.expect_err(text).to_string(), text);
    }
}

#[test]
fn a_denial_gives_its_parts() {
    let near = Declaration::global(Read, Span::point("a"));
    let set = set([near.clone()]);
    let denied = set
        .check_allowed_at(Write, &Span::point("a"), time(3))
        .expect_err("only read");
    assert_eq!(denied.access(), Write);
    assert_eq!(denied.scope(), Global);
    assert_eq!(denied.timestamp(), Some(time(3)));
    assert_eq!(denied.place(), &Place::Span(Span::point("a")));
    assert_eq!(denied.first_undeclared(), None);
    assert_eq!(denied.nearest(), Some(&near));
}

#[test]
fn spans_with_different_timestamps_stay_apart() {
    let before = [
        Declaration::global_at(Read, range("a", "b"), time(5)),
        Declaration::global_at(Read, Span::point("b"), time(10)),
    ];
    let mut set = set(before.clone());
    set.sort_and_dedup();
    assert!(set.iter().eq(&before));
}

#[test]
fn overlapping_and_adjacent_spans_of_one_kind_are_joined() {
    let mut set = SpanSet::with_capacity(8);
    set.write(Span::point("c"));
    set.write(range("b", "c"));
    set.write(Span::point("x"));
    set.write(range("a", "b\0"));
    set.read(range("a", "b"));
    set.read(range("a", "b"));
    set.write_local(Span::point("a"));
    set.write_local(Span::point("a\0"));
    set.sort_and_dedup();
    let expected = [
        Declaration::global(Read, range("a", "b")),
        Declaration::global(Write, range("a", "c\0")),
        Declaration::global(Write, Span::point("x")),
        Declaration::local(Write, range("a", "a\0\0")),
    ];
    assert!(set.iter().eq(&expected), "{set:?}");
}

#[test]
fn declarations_are_kept_in_order_and_found_by_scope_and_access() {
    let mut set = SpanSet::new();
    set.reserve(6);
    set.write_local(Span::point("6"));
    set.read(Span::point("1"));
    set.read_at(Span::point("2"), time(1));
    set.write(Span::point("3"));
    set.write_at(Span::point("4"), time(1));
    set.read_local(Span::point("5"));
    let keys = |declarations: &mut dyn Iterator<Item = &Declaration>| {
        declarations
            .flat_map(|d| d.span().start().to_vec())
            .map(char::from)
            .collect::<String>()
    };
    assert_eq!(keys(&mut set.iter()), "612345");
    assert_eq!(keys(&mut set.iter_of(Global, Read)), "12");
    assert_eq!(keys(&mut set.iter_of(Global, Write)), "34");
    assert_eq!(keys(&mut set.iter_of(Local, Read)), "5");
    assert_eq!(keys(&mut set.iter_of(Local, Write)), "6");

    let mut merged = SpanSet::new();
    merged.read(Span::point("0"));
    merged.merge(&set);
    assert_eq!(keys(&mut merged.iter()), "0612345");
    assert_eq!((set.len(), merged.len()), (6, 7));
    merged.clear();
    assert!(merged.is_empty());
}

fn check(
    set: &SpanSet,
    access: Access,
    span: &Span,
    at: Option<Timestamp>,
) -> Result<(), spanset::UndeclaredAccess> {
    match at {
        Some(at) => set.check_allowed_at(access, span, at),
        None => set.check_allowed(access, Global, span),
    }
}

/// Which atoms each kind of declaration covers.
fn coverage(set: &[Naive]) -> Vec<(Access, Scope, Option<Timestamp>, Atoms)> {
    let mut kinds: Vec<(Access, Scope, Option<Timestamp>, Atoms)> = vec![];
    for held in set {
        let kind = (held.access, held.scope, held.at);
        match kinds.iter_mut().find(|k| (k.0, k.1, k.2) == kind) {
            Some(known) => known.3 |= held.atoms,
            None => kinds.push((held.access, held.scope, held.at, held.atoms)),
        }
    }
    kinds.sort();
    kinds
}

/// The same of a real set, found by asking every span for every cut.
fn naive_of(set: &SpanSet) -> Vec<Naive> {
    let cuts = cuts();
    let atoms = |span: &Span| {
        let within = cuts
            .iter()
            .enumerate()
            .filter(|(_, key)| span.contains_key(key));
        within.fold(0, |set, (i, _)| set | 1 << i)
    };
    set.iter()
        .map(|d| Naive {
            access: d.access(),
            scope: d.scope(),
            at: d.timestamp(),
            atoms: atoms(d.span()),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sorting_and_joining_never_changes_what_is_covered((mut set, naive) in a_set()) {
        set.sort_and_dedup();
        prop_assert_eq!(coverage(&naive_of(&set)), coverage(&naive));
        // Sorted, and nothing is left to join.
        for (a, b) in set.iter().zip(set.iter().skip(1)) {
            let kind = |d: &Declaration| (d.scope(), d.timestamp(), d.access());
            prop_assert!(kind(a) <= kind(b));
            if kind(a) == kind(b) {
                prop_assert!(a.span().end() < End::Before(b.span().start()));
            }
        }
        let sorted = set.clone();
        set.sort_and_dedup();
        prop_assert_eq!(set, sorted);
    }

    #[test]
    fn a_merged_set_is_both_in_turn((mut a, naive_a) in a_set(), (b, naive_b) in a_set()) {
        a.merge(&b);
        prop_assert_eq!(naive_of(&a), [naive_a, naive_b].concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_span_is_allowed_iff_each_of_its_keys_is((set, naive) in a_set()) {
        let (cuts, spans) = (cuts(), all_spans());
        for (access, at) in all_accesses() {
            let declared = allowed(&naive, access, Global, at);
            for (span, atoms) in &spans {
                let undeclared = atoms & !declared;
                match check(&set, access, span, at) {
                    Ok(()) => prop_assert_eq!(undeclared, 0, "{}", span),
                    Err(denied) => {
                        prop_assert_ne!(undeclared, 0, "{}", denied);
                        let first = &cuts[undeclared.trailing_zeros() as usize];
                        prop_assert_eq!(denied.first_undeclared().unwrap_or(span.start()), first);
                        let any = naive.iter().any(|n| n.scope == Global);
                        prop_assert_eq!(denied.nearest().is_some(), any);
                    }
                }
            }
        }
        for access in [Read, Write] {
            let declared = allowed(&naive, access, Local, None);
            for (span, atoms) in &spans {
                let checked = set.check_allowed(access, Local, span);
                prop_assert_eq!(checked.is_ok(), atoms & !declared == 0, "{}", span);
            }
        }
    }

    #[test]
    fn a_position_is_allowed_iff_the_keys_just_below_it_are((set, naive) in a_set(), as_key: bool) {
        let cuts = cuts();
        for (access, at) in all_accesses() {
            let declared = allowed(&naive, access, Global, at);
            for cut in 0..=cuts.len() {
                let end = end_at(&cuts, cut, as_key);
                let expected = cut > 0 && declared & 1 << (cut - 1) != 0;
                let checked = match at {
                    Some(at) => set.check_allowed_below_at(access, end, at),
                    None => set.check_allowed_below(access, Global, end),
                };
                prop_assert_eq!(checked.is_ok(), expected, "{:?}", end);
            }
        }
    }

    #[test]
    fn a_denied_key_is_held_by_its_nearest_declaration_if_by_any((set, naive) in a_set()) {
        for (access, at) in all_accesses() {
            for (atom, key) in cuts().into_iter().enumerate() {
                let Err(denied) = check(&set, access, &Span::point(key.clone()), at) else {
                    continue;
                };
                let near = denied.nearest().is_some_and(|d| d.span().contains_key(&key));
                let held = naive.iter().any(|n| n.scope == Global && n.atoms & 1 << atom != 0);
                prop_assert_eq!(near, held, "{}", denied);
            }
        }
    }
}
