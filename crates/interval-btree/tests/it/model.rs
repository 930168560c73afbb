//! Random operations against a sorted `Vec`, snapshots included, with whole keys and with abbreviated ones.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use interval_btree::{Abbreviate, Bytewise, End, Interval, IntervalMap, Whole};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// A value whose order leaves a part of it out.
#[derive(Clone, Copy)]
struct Value {
    rank: u8,
    payload: u16,
}

type Entry = (Interval<u8>, Value);

#[derive(Clone, Debug)]
enum Op {
    Insert(Entry),
    /// Removes an entry that is there, if there is any.
    RemoveAt(Index),
    /// Removes an entry that may not be there.
    Remove(Entry),
    PopFirst,
    PopLast,
    /// Keeps what has another rank.
    Retain(u8),
    Extend(Vec<Entry>),
    Rebuild,
    Clear,
    Snapshot,
    /// Goes on with a snapshot; what was changed so far becomes one.
    Swap(Index),
    DropSnapshot(Index),
}

/// What is asked after an operation.
#[derive(Clone, Debug)]
struct Question {
    query: Interval<u8>,
    entry: Entry,
    keys: (Bound<u8>, Bound<u8>),
}

/// A key of the map. The model and what is generated have numbers instead, in the same order.
trait Key: Ord + Clone + fmt::Debug {
    fn of(number: u8) -> Self;
}

impl Key for u8 {
    fn of(number: u8) -> Self {
        number
    }
}

thread_local! {
    /// Byte strings in order that are hard to abbreviate: the empty key, keys that begin others, the least
    /// and the greatest byte, common prefixes of all lengths up to some that are too long to be kept
    /// in place, and differences in the first eight bytes that follow and after them.
    static KEYS: Vec<Vec<u8>> = {
        let prefixes = [(0, b'a'), (1, 0), (5, b'b'), (15, b'b'), (16, b'b'), (40, b'c'), (3, 0xff)];
        let rest = [
            &b""[..],
            b"\0",
            b"\0\0",
            b"\0\x01",
            b"abcdefgh",
            b"abcdefghi",
            b"abcdefghj",
            b"abcdefgi",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        let mut keys: Vec<_> = (prefixes.iter())
            .flat_map(|&(n, byte)| rest.map(|rest| [&vec![byte; n], rest].concat()))
            .collect();
        keys.sort();
        keys.dedup();
        keys
    };
}

impl Key for Vec<u8> {
    fn of(number: u8) -> Self {
        KEYS.with(|keys| match keys.get(usize::from(number)) {
            Some(key) => key.clone(),
            // Above all of them.
            None => [&[0xff; 20], &[number][..]].concat(),
        })
    }
}

fn keyed<K: Key>(interval: &Interval<u8>) -> Interval<K> {
    Interval::new(
        K::of(*interval.start()),
        interval.end().map(|&key| K::of(key)),
    )
    .expect("the order is the same")
}

/// A map and what it should be.
struct Pair<K, const B: usize, A: Abbreviate<K>> {
    map: IntervalMap<K, Value, B, A>,
    model: Vec<Entry>,
}

impl<K: Key, const B: usize, A: Abbreviate<K>> Clone for Pair<K, B, A> {
    fn clone(&self) -> Self {
        Pair {
            map: self.map.clone(),
            model: self.model.clone(),
        }
    }
}

impl<K: Key, const B: usize, A: Abbreviate<K>> Pair<K, B, A> {
    fn apply(&mut self, op: Op, snapshots: &mut Vec<Self>) {
        match op {
            Op::Insert((interval, value)) => {
                let replaced = self.map.insert(keyed(&interval), value);
                let expected = insert(&mut self.model, (interval, value));
                assert_eq!(
                    replaced.map(|value| value.payload),
                    expected.map(|value| value.payload)
                );
            }
            Op::RemoveAt(_) if self.model.is_empty() => {}
            Op::RemoveAt(index) => {
                let (interval, value) = self.model.remove(index.index(self.model.len()));
                let removed = self.map.remove(&keyed(&interval), &value);
                assert_eq!(removed.map(|value| value.payload), Some(value.payload));
            }
            Op::Remove((interval, value)) => {
                let removed = self.map.remove(&keyed(&interval), &value);
                let expected = self.model.binary_search(&(interval, value)).ok();
                let expected = expected.map(|at| self.model.remove(at).1.payload);
                assert_eq!(removed.map(|value| value.payload), expected);
            }
            Op::PopFirst => {
                let expected = (!self.model.is_empty()).then(|| self.model.remove(0));
                assert_eq!(self.map.pop_first(), expected.map(|(i, v)| (keyed(&i), v)));
            }
            Op::PopLast => {
                let expected = self.model.pop().map(|(i, v)| (keyed(&i), v));
                assert_eq!(self.map.pop_last(), expected);
            }
            Op::Retain(rank) => {
                self.map.retain(|_, value| value.rank != rank);
                self.model.retain(|(_, value)| value.rank != rank);
            }
            Op::Extend(entries) => {
                self.map.extend(entries.iter().map(|(i, v)| (keyed(i), *v)));
                for entry in entries {
                    insert(&mut self.model, entry);
                }
            }
            Op::Rebuild => {
                self.map = std::mem::take(&mut self.map).into_iter().rev().collect();
            }
            Op::Clear => {
                self.map.clear();
                self.model.clear();
            }
            Op::Snapshot => snapshots.push(self.clone()),
            Op::Swap(_) | Op::DropSnapshot(_) if snapshots.is_empty() => {}
            Op::Swap(index) => {
                let at = index.index(snapshots.len());
                std::mem::swap(self, &mut snapshots[at]);
            }
            Op::DropSnapshot(index) => {
                snapshots.swap_remove(index.index(snapshots.len()));
            }
        }
    }

    /// The map holds exactly what the model holds.
    fn check(&self) {
        self.map.verify();
        assert_eq!(self.map.len(), self.model.len());
        assert_same(self.map.iter(), &self.model);
    }

    /// The map answers as the model does.
    fn ask(&self, question: &Question) {
        let Question { query, entry, keys } = question;
        let (map, model) = (&self.map, &self.model);
        let (query, interval) = (keyed(query), keyed(&entry.0));
        let (query, interval, value) = (&query, &interval, &entry.1);
        let overlapping: Vec<_> = model
            .iter()
            .filter(|e| e.0.overlaps(&question.query))
            .copied()
            .collect();
        assert_same(
            map.first_overlap(query),
            overlapping.get(..1).unwrap_or_default(),
        );
        assert_same(map.overlapping(query), &overlapping);
        let after = overlapping.partition_point(|e| e <= entry);
        assert_same(
            map.overlapping_after(query, (interval, value)),
            &overlapping[after..],
        );

        let at = model.binary_search(entry);
        let payload = at.ok().map(|at| model[at].1.payload);
        assert_eq!(map.get(interval, value).map(|value| value.payload), payload);
        let (from, after) = (
            model.partition_point(|e| e < entry),
            model.partition_point(|e| e <= entry),
        );
        assert_same(map.iter_from(interval, value), &model[from..]);
        assert_same(map.iter_after(interval, value), &model[after..]);
        assert_same(map.iter_before(interval, value), &model[..from]);
        assert_same(map.iter_through(interval, value), &model[..after]);
        let reversed: Vec<_> = model[..from].iter().rev().copied().collect();
        assert_same(map.iter_before(interval, value).rev(), &reversed);

        let starting: Vec<_> = model
            .iter()
            .filter(|e| is_in(keys, *e.0.start()))
            .copied()
            .collect();
        let keys = (keys.0.map(K::of), keys.1.map(K::of));
        assert_same(map.starting_in(keys), &starting);
        assert_same(map.first(), model.get(..1).unwrap_or_default());
        assert_same(
            map.last(),
            model.last().map(std::slice::from_ref).unwrap_or_default(),
        );
    }
}

/// Inserts into a model; returns what the entry replaces.
fn insert(model: &mut Vec<Entry>, entry: Entry) -> Option<Value> {
    match model.binary_search(&entry) {
        Ok(at) => Some(std::mem::replace(&mut model[at].1, entry.1)),
        Err(at) => {
            model.insert(at, entry);
            None
        }
    }
}

fn is_in(keys: &(Bound<u8>, Bound<u8>), key: u8) -> bool {
    std::ops::RangeBounds::contains(keys, &key)
}

fn assert_same<'a, K: Key + 'a>(
    entries: impl IntoIterator<Item = (&'a Interval<K>, &'a Value)>,
    expected: &[Entry],
) {
    let entries: Vec<_> = (entries.into_iter())
        .map(|(i, v)| (i.clone(), v.rank, v.payload))
        .collect();
    let expected: Vec<_> = (expected.iter())
        .map(|(i, v)| (keyed(i), v.rank, v.payload))
        .collect();
    assert_eq!(entries, expected);
}

/// Runs operations on a map and its model; both begin with the same entries.
fn run<K: Key, const B: usize, A: Abbreviate<K>>(entries: Vec<Entry>, steps: Vec<(Op, Question)>) {
    let mut pair = Pair::<K, B, A> {
        map: entries.iter().map(|(i, v)| (keyed(i), *v)).collect(),
        model: Vec::new(),
    };
    for entry in entries {
        insert(&mut pair.model, entry);
    }
    pair.check();
    let mut snapshots = Vec::new();
    for (op, question) in steps {
        pair.apply(op, &mut snapshots);
        pair.check();
        pair.ask(&question);
        snapshots.iter().for_each(Pair::check);
    }
}

/// Intervals over few keys, most of them short.
fn intervals(keys: u8) -> impl Strategy<Value = Interval<u8>> {
    let end = |start: u8| {
        prop_oneof![
            4 => Just(End::At(start)),
            4 => (start + 1..start + 4).prop_map(End::Before),
            2 => (start..start + 4).prop_map(End::At),
            1 => (start + 1..=start + 100).prop_map(End::Before),
            1 => Just(End::Unbounded),
        ]
    };
    (0..keys)
        .prop_flat_map(move |start| (Just(start), end(start)))
        .prop_filter_map("not empty", |(start, end)| Interval::new(start, end).ok())
}

fn entries(keys: u8) -> impl Strategy<Value = Entry> {
    (intervals(keys), 0_u8..4, any::<u16>())
        .prop_map(|(interval, rank, payload)| (interval, Value { rank, payload }))
}

fn ops(keys: u8) -> impl Strategy<Value = Op> {
    prop_oneof![
        24 => entries(keys).prop_map(Op::Insert),
        20 => any::<Index>().prop_map(Op::RemoveAt),
        2 => entries(keys).prop_map(Op::Remove),
        2 => Just(Op::PopFirst),
        2 => Just(Op::PopLast),
        1 => (0_u8..8).prop_map(Op::Retain),
        1 => vec(entries(keys), 0..20).prop_map(Op::Extend),
        1 => Just(Op::Rebuild),
        1 => prop::bool::weighted(0.2).prop_map(|clear| if clear { Op::Clear } else { Op::PopLast }),
        3 => Just(Op::Snapshot),
        3 => any::<Index>().prop_map(Op::Swap),
        3 => any::<Index>().prop_map(Op::DropSnapshot),
    ]
}

fn questions(keys: u8) -> impl Strategy<Value = Question> {
    let bound = move || {
        prop_oneof![
            (0..keys).prop_map(Bound::Included),
            (0..keys).prop_map(Bound::Excluded),
            Just(Bound::Unbounded),
        ]
    };
    (intervals(keys), entries(keys), (bound(), bound())).prop_map(|(query, entry, keys)| Question {
        query,
        entry,
        keys,
    })
}

fn steps(keys: u8, n: usize) -> impl Strategy<Value = Vec<(Op, Question)>> {
    vec((ops(keys), questions(keys)), 0..n)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_smallest_fan_out_agrees_with_a_sorted_vec(
        entries in vec(entries(10), 0..60),
        steps in steps(10, 120),
    ) {
        run::<u8, 3, Whole>(entries, steps);
    }

    #[test]
    fn a_small_even_fan_out_agrees_with_a_sorted_vec(
        entries in vec(entries(12), 0..80),
        steps in steps(12, 120),
    ) {
        run::<u8, 4, Whole>(entries, steps);
    }

    #[test]
    fn a_small_odd_fan_out_agrees_with_a_sorted_vec(
        entries in vec(entries(12), 0..100),
        steps in steps(12, 120),
    ) {
        run::<u8, 5, Whole>(entries, steps);
    }

    #[test]
    fn the_default_fan_out_agrees_with_a_sorted_vec(
        entries in vec(entries(100), 0..1500),
        steps in steps(100, 40),
    ) {
        run::<u8, 32, Whole>(entries, steps);
    }
}

proptest! {
    // Their comparisons are slow in unoptimized builds.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn abbreviated_keys_agree_with_a_sorted_vec(
        entries in vec(entries(70), 0..60),
        steps in steps(70, 120),
    ) {
        run::<Vec<u8>, 3, Bytewise>(entries.clone(), steps.clone());
        run::<Vec<u8>, 4, Bytewise>(entries, steps);
    }

    #[test]
    fn abbreviated_keys_agree_with_a_sorted_vec_at_fan_outs_with_blocks(
        entries in vec(entries(70), 0..400),
        steps in steps(70, 60),
    ) {
        run::<Vec<u8>, 11, Bytewise>(entries.clone(), steps.clone());
        run::<Vec<u8>, 32, Bytewise>(entries, steps);
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rank, self.payload)
    }
}
