//! The interval tree against sorted vectors of numbers, snapshots included.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Bound;

use interval_btree::{Abbreviate, Bytewise, End, Interval, IntervalMap, Whole};
use spanset::CompactKey;

use crate::choices::Choices;

/// How many snapshots are kept, each with its model.
const SNAPSHOTS: usize = 4;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// Changes and questions.
    pub operations: u64,
    /// Snapshots that were taken and later found to be unchanged.
    pub snapshots: u64,
    /// The most entries in one map.
    pub largest: usize,
}

impl Covered {
    /// Adds what another run covered.
    pub fn add(&mut self, other: Covered) {
        self.operations += other.operations;
        self.snapshots += other.snapshots;
        self.largest = self.largest.max(other.largest);
    }
}

/// Chooses a fan-out, a kind of keys and a size, and then operations, at most `operations`.
///
/// # Panics
///
/// If the tree does not do as the model does.
pub fn run(choices: &mut Choices<'_>, operations: u64) -> Covered {
    let kind = choices.below(4);
    let compact = || Vec::from_iter(byte_strings(kind).map(|key| CompactKey::from(&key[..])));
    let numbers = Vec::from_iter(0..[8, 30, 300, 3_000_u32][kind]);
    match choices.below(16) {
        0 => with_keys::<_, 3, Whole>(numbers, choices, operations),
        1 => with_keys::<_, 4, Whole>(numbers, choices, operations),
        2 => with_keys::<_, 32, Whole>(numbers, choices, operations),
        3 => with_keys::<_, 5, Bytewise>(byte_strings(kind), choices, operations),
        4 => with_keys::<_, 32, Bytewise>(byte_strings(kind), choices, operations),
        5 => with_keys::<_, 32, Whole>(compact(), choices, operations),
        6 => with_keys::<_, 3, Bytewise>(compact(), choices, operations),
        7 => with_keys::<_, 4, Bytewise>(compact(), choices, operations),
        8 => with_keys::<_, 5, Bytewise>(compact(), choices, operations),
        9 => with_keys::<_, 8, Bytewise>(compact(), choices, operations),
        10 => with_keys::<_, 16, Bytewise>(compact(), choices, operations),
        11 => with_keys::<_, 64, Bytewise>(compact(), choices, operations),
        _ => with_keys::<_, 32, Bytewise>(compact(), choices, operations),
    }
}

/// Keys with much in common: prefixes, zeros, and lengths around those at which something changes.
fn byte_strings(kind: usize) -> impl Iterator<Item = Vec<u8>> {
    let lengths: &[usize] = match kind {
        0 => &[0],
        1 => &[0, 1, 2, 3, 7, 8, 9],
        2 => &[8, 15, 16],
        _ => &[7, 8, 9, 15, 16, 17, 22, 23, 24, 25, 40],
    };
    let middles = (lengths.iter()).flat_map(|&length| {
        let bytes = [0, b'a', 0xff].into_iter();
        bytes.map(move |byte| vec![byte; length])
    });
    middles.flat_map(|middle| {
        let tails = [
            &b""[..],
            b"\0",
            b"\0\0",
            b"\x01",
            b"a",
            b"b",
            b"\xff",
            b"0123456",
            b"012345678",
        ];
        tails.into_iter().map(move |tail| [&middle, tail].concat())
    })
}

fn with_keys<K: Key, const B: usize, A: Abbreviate<K>>(
    keys: impl IntoIterator<Item = K>,
    choices: &mut Choices<'_>,
    operations: u64,
) -> Covered {
    let mut keys = Vec::from_iter(keys);
    keys.sort();
    keys.dedup();
    // Large ones are rare, as their models are slow.
    let size = choices.of(&[6, 20, 20, 60, 60, 60, 200, 200, 600, 4_000]);
    Run::<K, B, A> {
        keys: &keys,
        size,
        growing: true,
        now: Pair::default(),
        snapshots: Vec::new(),
        covered: Covered::default(),
    }
    .go_on(choices, operations)
}

trait Key: Ord + Clone + Debug + Hash {}

impl<K: Ord + Clone + Debug + Hash> Key for K {}

/// A value whose order leaves a part of it out.
#[derive(Clone, Copy, Debug)]
struct Value {
    rank: u8,
    payload: u32,
}

/// An entry of the model: keys are numbers, and an end is twice its key, one more if it takes that in.
///
/// What is in the tree's order comes first, in one number.
type Entry = (u64, u32);

const UNBOUNDED: u32 = u32::MAX;

/// Interval and value of an entry.
#[derive(Clone, Copy)]
struct Parts {
    start: u32,
    end: u32,
    rank: u8,
}

impl Parts {
    fn pack(self) -> u64 {
        u64::from(self.start) << 40 | u64::from(self.end) << 8 | u64::from(self.rank)
    }

    fn unpack(packed: u64) -> Self {
        Parts {
            start: (packed >> 40) as u32,
            end: (packed >> 8) as u32,
            rank: packed as u8,
        }
    }

    fn overlaps(self, other: Parts) -> bool {
        2 * self.start < other.end && 2 * other.start < self.end
    }

    fn interval<K: Key>(self, keys: &[K]) -> Interval<K> {
        let start = keys[self.start as usize].clone();
        let interval = match self.end {
            UNBOUNDED => return Interval::starting_at(start),
            end if end == 2 * self.start + 1 => return Interval::point(start),
            end if end % 2 == 0 => Interval::range(start, keys[end as usize / 2].clone()),
            end => Interval::new(start, End::At(keys[end as usize / 2].clone())),
        };
        interval.expect("not empty")
    }

    fn is_of<K: Key>(self, keys: &[K], interval: &Interval<K>) -> bool {
        let end = match self.end {
            UNBOUNDED => End::Unbounded,
            end if end % 2 == 0 => End::Before(&keys[end as usize / 2]),
            end => End::At(&keys[end as usize / 2]),
        };
        *interval.start() == keys[self.start as usize] && interval.end() == end
    }
}

/// A map and what it should be.
struct Pair<K, const B: usize, A: Abbreviate<K>> {
    map: IntervalMap<K, Value, B, A>,
    model: Vec<Entry>,
}

impl<K: Key, const B: usize, A: Abbreviate<K>> Pair<K, B, A> {
    /// The map holds exactly what the model holds.
    fn check(&self, keys: &[K]) {
        self.map.verify();
        assert_eq!(self.map.len(), self.model.len());
        assert_eq!(self.map.is_empty(), self.model.is_empty());
        assert_same(keys, self.map.iter(), self.model.iter());
        assert_same(keys, self.map.iter().rev(), self.model.iter().rev());
    }

    fn insert(&mut self, keys: &[K], (packed, payload): Entry) {
        let parts = Parts::unpack(packed);
        let rank = parts.rank;
        let replaced = self
            .map
            .insert(parts.interval(keys), Value { rank, payload });
        let replaced = replaced.map(|value| value.payload);
        assert_eq!(replaced, insert(&mut self.model, (packed, payload)));
    }

    fn remove(&mut self, keys: &[K], packed: u64) {
        let parts = Parts::unpack(packed);
        let interval = parts.interval(keys);
        let removed = self.map.remove(&interval, &value_of(parts));
        let at = self.model.binary_search_by_key(&packed, |entry| entry.0);
        let expected = at.ok().map(|at| self.model.remove(at).1);
        assert_eq!(removed.map(|value| value.payload), expected);
    }
}

struct Run<'k, K, const B: usize, A: Abbreviate<K>> {
    keys: &'k [K],
    /// About how many entries there shall be at most.
    size: usize,
    growing: bool,
    now: Pair<K, B, A>,
    snapshots: Vec<Pair<K, B, A>>,
    covered: Covered,
}

impl<K: Key, const B: usize, A: Abbreviate<K>> Run<'_, K, B, A> {
    fn go_on(mut self, choices: &mut Choices<'_>, operations: u64) -> Covered {
        while self.covered.operations < operations && !choices.are_over() {
            self.covered.operations += 1;
            match choices.below(16) {
                0..8 => self.change(choices),
                8..15 => self.ask(choices),
                // What takes time in proportion to the size is chosen that much more rarely.
                _ if choices.below(self.size + 16) < 16 => self.do_something_large(choices),
                _ => self.change(choices),
            }
            self.covered.largest = self.covered.largest.max(self.now.model.len());
        }
        self.now.check(self.keys);
        for snapshot in &self.snapshots {
            snapshot.check(self.keys);
            self.covered.snapshots += 1;
        }
        self.covered
    }

    /// One entry more or less. The map grows up to its size and shrinks to nothing in turn.
    fn change(&mut self, choices: &mut Choices<'_>) {
        let len = self.now.model.len();
        self.growing = match len {
            0 => true,
            _ if len >= self.size => false,
            _ => self.growing,
        };
        let grow = choices.below(8) < if self.growing { 5 } else { 3 };
        let keys = self.keys;
        if grow {
            let entry = match choices.one_in(16) && len > 0 {
                true => (self.now.model[choices.below(len)].0, self.payload()),
                false => (self.parts(choices).pack(), self.payload()),
            };
            return self.now.insert(keys, entry);
        }
        match choices.below(16) {
            0 => self.now.remove(keys, self.parts(choices).pack()),
            1 => {
                let expected = (len > 0).then(|| self.now.model.remove(0));
                let popped = self.now.map.pop_first();
                assert_same(keys, popped.as_ref().map(|(i, v)| (i, v)), &expected);
            }
            2 => {
                let expected = self.now.model.pop();
                let popped = self.now.map.pop_last();
                assert_same(keys, popped.as_ref().map(|(i, v)| (i, v)), &expected);
            }
            _ if len == 0 => self.now.remove(keys, self.parts(choices).pack()),
            _ => {
                let packed = self.now.model[choices.below(len)].0;
                self.now.remove(keys, packed);
            }
        }
    }

    /// The map answers as the model does.
    fn ask(&self, choices: &mut Choices<'_>) {
        let (keys, map, model) = (self.keys, &self.now.map, &self.now.model);
        let query = self.parts(choices);
        let interval = query.interval(keys);
        let overlaps = |entry: &&Entry| Parts::unpack(entry.0).overlaps(query);
        match choices.below(16) {
            0..6 => {
                let expected = model.iter().find(overlaps);
                assert_same(keys, map.first_overlap(&interval), expected);
                assert_eq!(map.overlaps(&interval), expected.is_some());
            }
            6..10 => assert_same(
                keys,
                map.overlapping(&interval),
                model.iter().filter(overlaps),
            ),
            10..12 => {
                let entry = self.entry(choices);
                let after = model.partition_point(|&(packed, _)| packed <= entry.pack());
                assert_same(
                    keys,
                    map.overlapping_after(&interval, (&entry.interval(keys), &value_of(entry))),
                    model[after..].iter().filter(overlaps),
                );
            }
            12..14 => {
                let entry = self.entry(choices);
                let (interval, value) = (entry.interval(keys), value_of(entry));
                let packed = entry.pack();
                let from = model.partition_point(|entry| entry.0 < packed);
                let after = model.partition_point(|entry| entry.0 <= packed);
                let there = model[from..after].first();
                let got = map.get(&interval, &value);
                assert_eq!(got.map(|value| value.payload), there.map(|entry| entry.1));
                assert_eq!(map.contains(&interval, &value), there.is_some());
                let near = choices.of(&[1, 3, usize::MAX]);
                let few = model[from..].iter().take(near);
                assert_same(keys, map.iter_from(&interval, &value).take(near), few);
                let few = model[after..].iter().take(near);
                assert_same(keys, map.iter_after(&interval, &value).take(near), few);
                let few = model[..from].iter().rev().take(near);
                assert_same(
                    keys,
                    map.iter_before(&interval, &value).rev().take(near),
                    few,
                );
                let few = model[..after].iter().rev().take(near);
                assert_same(
                    keys,
                    map.iter_through(&interval, &value).rev().take(near),
                    few,
                );
            }
            14 => {
                let (from, to) = (self.bound(choices), self.bound(choices));
                let is_in = |entry: &&Entry| {
                    let start = Parts::unpack(entry.0).start as usize;
                    std::ops::RangeBounds::contains(&(from, to), &start)
                };
                let bounds = [from, to].map(|bound| bound.map(|i| keys[i].clone()));
                let [from, to] = bounds;
                let found = map.starting_in((from, to));
                assert_same(keys, found.clone(), model.iter().filter(is_in));
                assert_same(keys, found.rev(), model.iter().rev().filter(is_in));
            }
            _ => {
                assert_same(keys, map.first(), model.first());
                assert_same(keys, map.last(), model.last());
            }
        }
    }

    fn do_something_large(&mut self, choices: &mut Choices<'_>) {
        let keys = self.keys;
        match choices.below(32) {
            0 => {
                self.now.map.clear();
                self.now.model.clear();
            }
            1..3 => {
                let rank = choices.below(4) as u8;
                self.now.map.retain(|_, value| value.rank != rank);
                self.now
                    .model
                    .retain(|&(packed, _)| Parts::unpack(packed).rank != rank);
            }
            3..5 => {
                let entries = Vec::from_iter((0..choices.below(20)).map(|_| {
                    let packed = self.parts(choices).pack();
                    (packed, self.payload())
                }));
                self.now
                    .map
                    .extend(entries.iter().map(|&(packed, payload)| {
                        let parts = Parts::unpack(packed);
                        let rank = parts.rank;
                        (parts.interval(keys), Value { rank, payload })
                    }));
                for entry in entries {
                    insert(&mut self.now.model, entry);
                }
            }
            5..7 => {
                let all = std::mem::take(&mut self.now.map).into_iter();
                self.now.map = all.rev().collect();
            }
            7..16 => self.snapshot(),
            16..20 if !self.snapshots.is_empty() => {
                let at = choices.below(self.snapshots.len());
                std::mem::swap(&mut self.now, &mut self.snapshots[at]);
                self.now.check(keys);
            }
            20..22 if !self.snapshots.is_empty() => {
                let at = choices.below(self.snapshots.len());
                self.drop_snapshot(at);
            }
            _ => self.now.check(keys),
        }
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() == SNAPSHOTS {
            self.drop_snapshot(0);
        }
        self.snapshots.push(Pair {
            map: self.now.map.clone(),
            model: self.now.model.clone(),
        });
    }

    fn drop_snapshot(&mut self, at: usize) {
        self.snapshots.swap_remove(at).check(self.keys);
        self.covered.snapshots += 1;
    }

    /// Tells one entry from another that is equal in order.
    fn payload(&self) -> u32 {
        self.covered.operations as u32
    }

    /// Any interval, short ones more often, and any rank.
    fn parts(&self, choices: &mut Choices<'_>) -> Parts {
        let keys = self.keys.len();
        let start = choices.below(keys);
        let longest = keys - start;
        let end = match choices.below(16) {
            0..7 => 2 * start + 1,
            7..13 if longest > 1 => 2 * (start + 1 + choices.below(longest.min(5) - 1)),
            13 => 2 * (start + choices.below(longest.min(4))) + 1,
            14 if longest > 1 => 2 * (start + 1 + choices.below(longest - 1)),
            15 => UNBOUNDED as usize,
            _ => 2 * start + 1,
        };
        Parts {
            start: start as u32,
            end: end as u32,
            rank: choices.below(4) as u8,
        }
    }

    /// An entry that is there more often than not.
    fn entry(&self, choices: &mut Choices<'_>) -> Parts {
        match self.now.model.len() {
            len if len > 0 && !choices.one_in(4) => {
                Parts::unpack(self.now.model[choices.below(len)].0)
            }
            _ => self.parts(choices),
        }
    }

    fn bound(&self, choices: &mut Choices<'_>) -> Bound<usize> {
        let at = choices.below(self.keys.len());
        match choices.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(at),
            _ => Bound::Included(at),
        }
    }
}

fn value_of(parts: Parts) -> Value {
    Value {
        rank: parts.rank,
        payload: 0,
    }
}

/// Inserts into a model; returns what the entry replaces.
fn insert(model: &mut Vec<Entry>, entry: Entry) -> Option<u32> {
    match model.binary_search_by_key(&entry.0, |entry| entry.0) {
        Ok(at) => Some(std::mem::replace(&mut model[at].1, entry.1)),
        Err(at) => {
            model.insert(at, entry);
            None
        }
    }
}

#[track_caller]
fn assert_same<'a, K: Key + 'a>(
    keys: &[K],
    entries: impl IntoIterator<Item = (&'a Interval<K>, &'a Value)>,
    expected: impl IntoIterator<Item = &'a Entry>,
) {
    let mut expected = expected.into_iter();
    for (interval, value) in entries {
        let Some(&(packed, payload)) = expected.next() else {
            panic!("{interval:?} {value:?} should not be there");
        };
        let parts = Parts::unpack(packed);
        let same =
            parts.is_of(keys, interval) && (value.rank, value.payload) == (parts.rank, payload);
        assert!(
            same,
            "{interval:?} {value:?} instead of {:?} {} {payload}",
            parts.interval(keys),
            parts.rank,
        );
    }
    if let Some(&(packed, payload)) = expected.next() {
        let parts = Parts::unpack(packed);
        let (interval, rank) = (parts.interval(keys), parts.rank);
        panic!("{interval:?} {rank} {payload} is missing");
    }
}

impl<K, const B: usize, A: Abbreviate<K>> Default for Pair<K, B, A> {
    fn default() -> Self {
        Pair {
            map: IntervalMap::default(),
            model: Vec::new(),
        }
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

#[cfg(test)]
mod tests {
    use super::{Parts, UNBOUNDED};

    #[test]
    fn intervals_of_the_model_overlap_where_they_share_a_key() {
        let parts = |start, end| Parts {
            start,
            end,
            rank: 0,
        };
        let from_1_before_3 = parts(1, 6);
        assert!(from_1_before_3.overlaps(parts(2, 5)));
        assert!(!from_1_before_3.overlaps(parts(3, 7)));
        assert!(!parts(3, UNBOUNDED).overlaps(from_1_before_3));
        assert!(parts(1, 7).overlaps(parts(3, UNBOUNDED)));
    }

    #[test]
    fn packed_entries_are_in_the_order_of_the_tree() {
        let packed = [
            (1, 3, 0),
            (1, 3, 1),
            (1, 4, 0),
            (1, UNBOUNDED, 0),
            (2, 5, 0),
        ]
        .map(|(start, end, rank)| Parts { start, end, rank }.pack());
        assert!(packed.is_sorted());
    }
}
