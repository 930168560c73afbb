//! A key space small enough to be listed, and naive sets of its keys.
//!
//! Its *cuts* are all keys of up to two bytes out of {0x00, 0x01, 0xff} and, for each, the next
//! key. Every span here starts and ends at cuts, so what lies between two neighbouring cuts, an
//! *atom*, is never divided: a set of keys is a set of atoms, one bit each.

use proptest::prelude::*;
use spanset::{Access, Declaration, End, Key, Scope, Span, SpanSet, Timestamp};

/// The set of the atoms that a span covers.
pub(crate) type Atoms = u32;

/// All cuts, in order. Atom `i` holds the keys from cut `i` up to the next cut, or without end.
pub(crate) fn cuts() -> Vec<Key> {
    let bytes = [0x00, 0x01, 0xff];
    let mut keys = vec![vec![]];
    keys.extend(bytes.map(|a| vec![a]));
    keys.extend(bytes.iter().flat_map(|&a| bytes.map(|b| vec![a, b])));
    let next = |key: &Vec<u8>| [key.as_slice(), &[0]].concat();
    keys.extend(keys.iter().map(next).collect::<Vec<_>>());
    keys.sort();
    keys.dedup();
    keys.into_iter().map(Key::from).collect()
}

/// The atoms from cut `start` up to cut `end`, which may be one past the last cut.
pub(crate) fn atoms(start: usize, end: usize) -> Atoms {
    (start..end).fold(0, |set, atom| set | 1 << atom)
}

/// Whether atom `i` is a single key.
pub(crate) fn is_single(cuts: &[Key], i: usize) -> bool {
    cuts.get(i + 1)
        .is_some_and(|next| **next == [&cuts[i], &b"\0"[..]].concat())
}

/// A span and its atoms, made in any of the ways in which it can be made.
pub(crate) fn a_span() -> impl Strategy<Value = (Span, Atoms)> {
    let cuts = cuts();
    let count = cuts.len();
    (0..count, 1..=6_usize, any::<bool>()).prop_map(move |(start, length, as_point)| {
        let end = (start + length).min(count);
        let key = cuts[start].clone();
        let span = match cuts.get(end) {
            _ if as_point && is_single(&cuts, start) => {
                return (Span::point(key), atoms(start, start + 1));
            }
            Some(end) => Span::range(key, end.clone()).expect("cuts ascend"),
            None => Span::starting_at(key),
        };
        (span, atoms(start, end))
    })
}

/// Every span that there is, with its atoms.
pub(crate) fn all_spans() -> Vec<(Span, Atoms)> {
    let cuts = cuts();
    let from = |start: usize| {
        let low = cuts[start].clone();
        let ranges = (start + 1..cuts.len()).map({
            let low = low.clone();
            let cuts = &cuts;
            move |end| {
                let span = Span::range(low.clone(), cuts[end].clone()).expect("cuts ascend");
                (span, atoms(start, end))
            }
        });
        let rest = (Span::starting_at(low), atoms(start, cuts.len()));
        ranges.chain([rest]).collect::<Vec<_>>()
    };
    (0..cuts.len()).flat_map(from).collect()
}

/// Every access to the global scope.
pub(crate) fn all_accesses() -> impl Iterator<Item = (Access, Option<Timestamp>)> {
    let times = [None, Some(time(1)), Some(time(2)), Some(time(3))];
    [Access::Read, Access::Write]
        .into_iter()
        .flat_map(move |access| times.map(|at| (access, at)))
}

pub(crate) fn an_access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::Read), Just(Access::Write)]
}

pub(crate) fn a_timestamp() -> impl Strategy<Value = Timestamp> {
    (1..=3_u64).prop_map(time)
}

pub(crate) fn time(wall: u64) -> Timestamp {
    Timestamp::new(wall, 0)
}

/// An access as the naive side keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Naive {
    pub(crate) access: Access,
    pub(crate) scope: Scope,
    pub(crate) at: Option<Timestamp>,
    pub(crate) atoms: Atoms,
}

pub(crate) fn a_declaration() -> impl Strategy<Value = (Declaration, Naive)> {
    (
        a_span(),
        an_access(),
        prop::option::of(prop::option::of(a_timestamp())),
    )
        .prop_map(|((span, atoms), access, kind)| {
            let (declaration, scope, at) = match kind {
                None => (Declaration::local(access, span), Scope::Local, None),
                Some(None) => (Declaration::global(access, span), Scope::Global, None),
                Some(Some(at)) => (
                    Declaration::global_at(access, span, at),
                    Scope::Global,
                    Some(at),
                ),
            };
            let naive = Naive {
                access,
                scope,
                at,
                atoms,
            };
            (declaration, naive)
        })
}

pub(crate) fn a_set() -> impl Strategy<Value = (SpanSet, Vec<Naive>)> {
    prop::collection::vec(a_declaration(), 0..8)
        .prop_map(|declarations| declarations.into_iter().unzip())
}

/// The atoms of which each lies in one declaration that allows the access, by the words of the
/// rules.
pub(crate) fn allowed(set: &[Naive], access: Access, scope: Scope, at: Option<Timestamp>) -> Atoms {
    let allows = |held: &&Naive| {
        let kind = held.access == Access::Write || access == Access::Read;
        let time = match (held.at, at) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(declared), Some(at)) => match (held.access, access) {
                (Access::Read, _) => at <= declared,
                (Access::Write, Access::Write) => at >= declared,
                (Access::Write, Access::Read) => true,
            },
        };
        held.scope == scope && kind && time
    };
    set.iter()
        .filter(allows)
        .fold(0, |set, held| set | held.atoms)
}

/// The end at a cut; one past the last cut is no end. A cut that follows a single key can be said
/// in two ways, of which `as_key` takes the other.
pub(crate) fn end_at(cuts: &[Key], cut: usize, as_key: bool) -> End<'_> {
    match cuts.get(cut) {
        None => End::Unbounded,
        Some(_) if as_key && cut > 0 && is_single(cuts, cut - 1) => End::At(&cuts[cut - 1]),
        Some(key) => End::Before(key),
    }
}

#[test]
fn the_universe_has_every_short_key_and_what_lies_between() {
    let cuts = cuts();
    assert_eq!(cuts.len(), 22);
    assert!(cuts.is_sorted());
    assert_eq!((0..22).filter(|&i| is_single(&cuts, i)).count(), 13);
    assert_eq!(all_spans().len(), 22 * 23 / 2);
}
