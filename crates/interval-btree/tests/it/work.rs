//! How much work an operation is, counted: comparisons, copies and allocations.

use std::cell::Cell;
use std::cmp::Ordering;

use allocation_counter::measure;
use interval_btree::{Abbreviate, Bytewise, Interval, IntervalMap};

thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
    static CLONED: Cell<u64> = const { Cell::new(0) };
}

/// A key or value that counts how often it is compared and cloned.
#[derive(Debug)]
struct Counted(u64);

impl Ord for Counted {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARED.set(COMPARED.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Counted {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Counted {}

impl Clone for Counted {
    fn clone(&self) -> Self {
        CLONED.set(CLONED.get() + 1);
        Counted(self.0)
    }
}

type Map = IntervalMap<Counted, Counted>;

/// How many allocations a leaf is: itself and its entries.
const LEAF: u64 = 2;

/// How many allocations a branch is: itself, its children, their ends, and the bounds between them.
const BRANCH: u64 = 4;

/// Abbreviates numbers to themselves, so that hardly any key needs to be compared.
enum ByNumber {}

impl Abbreviate<Counted> for ByNumber {
    type Word = u64;
    type Prefix = ();
    type Probe<'k> = u64;

    fn prefix(_: &Counted, _: &Counted) {}

    fn probe(key: &Counted) -> u64 {
        key.0
    }

    fn word((): &(), probe: &u64) -> u64 {
        *probe
    }
}

/// A key of which the bytes are known, and which counts how often it is compared.
#[derive(Clone, Debug)]
struct Text(String);

impl Text {
    /// Many bytes that all keys share, and then some that differ from key to key.
    fn of(i: u64) -> Self {
        Text(format!("the quick brown fox jumps over {i:012}"))
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARED.set(COMPARED.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Text {}

/// The number of comparisons that `f` makes.
fn compared<T>(f: impl FnOnce() -> T) -> (u64, T) {
    let before = COMPARED.get();
    let result = f();
    (COMPARED.get() - before, result)
}

/// The number of keys and values that `f` clones.
fn cloned<T>(f: impl FnOnce() -> T) -> (u64, T) {
    let before = CLONED.get();
    let result = f();
    (CLONED.get() - before, result)
}

fn range(start: u64, end: u64) -> Interval<Counted> {
    Interval::range(Counted(start), Counted(end))
        .expect("a test asks for ranges that are not empty")
}

fn point(at: u64) -> Interval<Counted> {
    Interval::point(Counted(at))
}

/// Entries `[10 i, 10 i + 5)` with value `i`, for all `i` below `n`.
fn ranges(n: u64) -> Map {
    (0..n)
        .map(|i| (range(10 * i, 10 * i + 5), Counted(i)))
        .collect()
}

/// A number that behaves as if it were random.
fn scramble(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

const N: u64 = 15_000;

/// 2 log2 N: twice what a perfect binary search takes, since a node is searched as a whole and
/// may be half full.
const LOGARITHMIC: u64 = 2 * N.ilog2() as u64;

#[test]
fn the_first_overlap_takes_logarithmically_many_comparisons() {
    let map = ranges(N);
    for probe in (0..1000).map(|i| scramble(i) % (10 * N - 10)) {
        let (comparisons, found) =
            compared(|| map.first_overlap(&range(probe, probe + 6)).is_some());
        assert!(found, "a gap has five keys");
        assert!(comparisons <= LOGARITHMIC, "{comparisons}");
        let (comparisons, _) = compared(|| map.first_overlap(&point(probe)).is_some());
        assert!(comparisons <= LOGARITHMIC, "{comparisons}");
    }
}

#[test]
fn the_first_overlap_is_found_as_fast_among_long_intervals() {
    // Every hundredth entry reaches far, the first one everywhere.
    let mut map = ranges(N);
    for i in (0..N).step_by(100) {
        map.insert(range(10 * i, 10 * i + 700), Counted(i));
    }
    for probe in (0..1000).map(|i| scramble(i) % (10 * N - 10)) {
        let (comparisons, _) = compared(|| map.first_overlap(&point(probe)).is_some());
        assert!(comparisons <= LOGARITHMIC, "{comparisons}");
    }
    map.insert(range(0, 20 * N), Counted(0));
    for probe in (0..1000).map(|i| scramble(i) % (10 * N - 10)) {
        let (comparisons, found) = compared(|| map.first_overlap(&point(probe)).map(|e| e.1.0));
        assert_eq!(found, Some(0));
        assert!(comparisons <= LOGARITHMIC, "{comparisons}");
    }
}

#[test]
fn the_first_overlap_is_found_as_fast_after_the_long_intervals_are_gone() {
    let mut map = ranges(N);
    for i in (0..N).step_by(100) {
        map.insert(range(10 * i, 20 * N), Counted(i));
    }
    for i in (0..N).step_by(100) {
        map.remove(&range(10 * i, 20 * N), &Counted(i));
    }
    let query = range(10 * N, 20 * N);
    let (comparisons, found) = compared(|| map.first_overlap(&query).is_some());
    assert!(!found);
    assert!(
        comparisons <= 16,
        "the root knows that nothing reaches as far: {comparisons}"
    );
    let (comparisons, _) = compared(|| map.overlapping(&query).count());
    assert!(comparisons <= 16, "{comparisons}");
}

#[test]
fn overlapping_skips_subtrees_that_end_too_early() {
    let mut map = ranges(N);
    map.insert(range(0, 20 * N), Counted(N));
    let probe = 10 * (N / 2);
    let query = range(probe, probe + 10);
    let (comparisons, found) =
        compared(|| map.overlapping(&query).map(|e| e.1.0).collect::<Vec<_>>());
    assert_eq!(found, [N, N / 2]);
    // Each of the two is reached past the entries of one node per level at most.
    assert!(comparisons <= 2 * 4 * 32, "{comparisons}");
}

#[test]
fn overlapping_looks_no_further_than_it_is_asked_to() {
    let map = ranges(N);
    let everything = Interval::starting_at(Counted(0));
    let (comparisons, _) = compared(|| map.overlapping(&everything).next().is_some());
    assert!(comparisons <= LOGARITHMIC, "{comparisons}");
    let (comparisons, n) = compared(|| map.overlapping(&everything).take(1000).count());
    assert_eq!(n, 1000);
    assert!(comparisons <= 2 * 1000 + 2 * LOGARITHMIC, "{comparisons}");
}

#[test]
fn overlapping_is_resumed_without_beginning_again() {
    let map = ranges(N);
    let everything = Interval::starting_at(Counted(0));
    for i in (0..N).step_by(97) {
        let entry = (range(10 * i, 10 * i + 5), Counted(i));
        let (comparisons, next) = compared(|| {
            map.overlapping_after(&everything, (&entry.0, &entry.1))
                .next()
                .map(|e| e.1.0)
        });
        assert_eq!(next, Some(i + 1).filter(|&i| i < N));
        assert!(comparisons <= 2 * LOGARITHMIC, "{comparisons}");
    }
}

#[test]
fn changes_and_look_ups_take_logarithmically_many_comparisons() {
    let mut map = ranges(N);
    let mut sum = 0;
    for i in (0..1000).map(|i| scramble(i) % N) {
        let (interval, value) = (range(10 * i, 10 * i + 5), Counted(i));
        let (comparisons, removed) = compared(|| map.remove(&interval, &value).is_some());
        assert!(comparisons <= 8 * LOGARITHMIC, "{comparisons}");
        sum += comparisons;
        let (comparisons, _) = compared(|| map.get(&interval, &value).is_some());
        assert!(comparisons <= 2 * LOGARITHMIC, "{comparisons}");
        if removed {
            let (comparisons, _) = compared(|| map.insert(interval, value));
            assert!(comparisons <= 8 * LOGARITHMIC, "{comparisons}");
            sum += comparisons;
        }
    }
    assert!(sum <= 2 * 1000 * (LOGARITHMIC + 4), "{}", sum / 2000);
}

#[test]
fn keys_are_hardly_compared_where_words_tell_them_apart() {
    let mut map: IntervalMap<Counted, Counted, 32, ByNumber> = IntervalMap::default();
    for i in (0..N).map(|i| scramble(i) % (100 * N)) {
        map.insert(range(10 * i, 10 * i + 5), Counted(i));
    }
    let mut sum = 0;
    for i in (0..1000).map(|i| scramble(i) % (1000 * N)) {
        // The one entry that is found has to start before the query ends.
        let query = range(i, i + 1);
        let (comparisons, _) = compared(|| map.first_overlap(&query));
        assert!(comparisons <= 2, "{comparisons}");
        let (interval, value) = (range(i, i + 1), Counted(i));
        let (comparisons, _) = compared(|| map.insert(interval.clone(), Counted(i)));
        sum += comparisons;
        // The entry itself: its start, its end and its value.
        let (comparisons, _) = compared(|| map.remove(&interval, &value));
        sum += comparisons;
    }
    assert!(sum <= 5 * 1000, "{}", sum / 1000);
}

#[test]
fn words_follow_what_the_keys_of_a_node_have_in_common() {
    let mut map: IntervalMap<Text, u64, 32, Bytewise> = IntervalMap::default();
    let point = |i: u64| Interval::point(Text::of(i));
    // One key that is unlike the others, from the beginning.
    map.insert(Interval::point(Text("zebra".to_owned())), 0);
    for i in (0..N).map(scramble) {
        map.insert(point(i), i);
    }
    map.verify();
    let mut sum = 0;
    for i in (N..N + 1000).map(scramble) {
        sum += compared(|| map.first_overlap(&point(i)).is_some()).0;
        sum += compared(|| map.insert(point(i), i)).0;
        sum += compared(|| map.remove(&point(i), &i)).0;
    }
    // Less than one comparison a level and operation.
    assert!(sum <= 6 * 1000, "{}", sum / 1000);
    map.verify();
}

#[test]
fn many_values_at_one_interval_are_searched_as_fast() {
    let mut map: Map = (0..N).map(|i| (range(0, 5), Counted(i))).collect();
    for i in (0..1000).map(|i| scramble(i) % N) {
        let (interval, value) = (range(0, 5), Counted(i));
        // An entry is compared by start, end and value.
        let (comparisons, _) = compared(|| map.get(&interval, &value).is_some());
        assert!(comparisons <= 4 * LOGARITHMIC, "{comparisons}");
        let (comparisons, _) = compared(|| map.remove(&interval, &value));
        assert!(comparisons <= 12 * LOGARITHMIC, "{comparisons}");
    }
}

#[test]
fn iterating_compares_copies_and_allocates_nothing() {
    let map = ranges(1000);
    let (comparisons, _) = compared(|| map.iter().rev().chain(map.iter()).count());
    assert_eq!(comparisons, 0);
    let (clones, _) = cloned(|| map.iter().count());
    assert_eq!(clones, 0);
    assert_eq!(
        measure(|| assert_eq!(map.iter().count(), 1000)).count_total,
        0
    );
}

#[test]
fn queries_allocate_nothing() {
    let map = ranges(N);
    let query = range(N, 2 * N);
    let entry = (range(10, 15), Counted(1));
    let info = measure(|| {
        assert!(map.first_overlap(&query).is_some());
        assert_eq!(map.overlapping(&query).count() as u64, N / 10);
        assert!(
            map.overlapping_after(&query, (&entry.0, &entry.1))
                .next()
                .is_some()
        );
        assert!(map.get(&entry.0, &entry.1).is_some());
        assert!(map.iter_from(&entry.0, &entry.1).next().is_some());
        assert!(map.starting_in(Counted(7)..Counted(1000)).next().is_some());
    });
    assert_eq!(info.count_total, 0);
}

#[test]
fn an_empty_map_allocates_nothing_and_a_cleared_one_keeps_nothing() {
    let info = measure(|| drop(Map::new()));
    assert_eq!(info.count_total, 0);
    let info = measure(|| {
        let mut map = ranges(1000);
        map.clear();
        std::mem::forget(map);
    });
    assert_eq!((info.count_current, info.bytes_current), (0, 0));
}

#[test]
fn a_map_that_is_emptied_keeps_one_leaf_at_most() {
    let mut map = Map::new();
    let info = measure(|| {
        for i in 0..1000 {
            map.insert(point(i), Counted(i));
        }
        for i in 0..1000 {
            map.remove(&point(scramble(i) % 1000), &Counted(scramble(i) % 1000));
        }
        while map.pop_last().is_some() {}
    });
    assert!(info.count_current <= LEAF as i64, "{}", info.count_current);
}

#[test]
fn a_map_that_nobody_shares_is_changed_in_place() {
    let mut map = IntervalMap::<u64, Counted>::new();
    for i in 0..1000 {
        map.insert(Interval::point(10 * i), Counted(i));
    }
    // Leaves are about half full, so that nothing is split or joined.
    let (clones, info) = cloned(|| {
        measure(|| {
            for at in (0..990).step_by(100).map(|i| Interval::point(10 * i + 5)) {
                assert_eq!(map.insert(at, Counted(0)), None);
                assert_eq!(map.remove(&at, &Counted(0)), Some(Counted(0)));
            }
        })
    });
    assert_eq!((clones, info.count_total), (0, 0));
}

#[test]
fn a_snapshot_costs_a_reference_count() {
    let map = ranges(N);
    let (clones, info) = cloned(|| measure(|| drop(map.clone())));
    assert_eq!((clones, info.count_total), (0, 0));
}

#[test]
fn after_a_snapshot_one_path_is_copied_once() {
    let mut map = Map::new();
    for i in 0..3000 {
        map.insert(point(10 * i), Counted(i));
    }
    // Leaves and two levels of branches.
    let nodes = LEAF + 2 * BRANCH;
    let snapshot = map.clone();
    let (clones, info) =
        cloned(|| measure(|| assert_eq!(map.insert(point(15_005), Counted(0)), None)));
    assert_eq!(info.count_total, nodes, "a node a level");
    assert!(
        clones <= 2 * 32 * 3,
        "at most two keys or values of each entry or child: {clones}"
    );
    let (clones, info) =
        cloned(|| measure(|| assert_eq!(map.insert(point(15_006), Counted(0)), None)));
    assert_eq!(
        (clones, info.count_total),
        (0, 0),
        "the path is not shared any more"
    );
    assert_eq!(snapshot.len() + 2, map.len());

    // The snapshot now has that path to itself: nothing is copied on its side either.
    let mut snapshot = snapshot;
    let (clones, info) =
        cloned(|| measure(|| assert_eq!(snapshot.insert(point(15_007), Counted(0)), None)));
    assert_eq!((clones, info.count_total), (0, 0));
}

#[test]
fn nothing_is_copied_to_remove_what_is_not_there() {
    let mut map = ranges(N);
    let _snapshot = map.clone();
    let (clones, info) =
        cloned(|| measure(|| assert_eq!(map.remove(&point(7), &Counted(7)), None)));
    assert_eq!((clones, info.count_total), (0, 0));
}

#[test]
fn dropping_snapshots_returns_all_memory() {
    let info = measure(|| {
        let mut map = ranges(1000);
        let mut snapshots = Vec::new();
        for i in 0..100 {
            snapshots.push(map.clone());
            map.insert(point(scramble(i) % 10_000), Counted(i));
        }
        map.retain(|_, value| value.0 % 2 == 0);
    });
    assert_eq!((info.count_current, info.bytes_current), (0, 0));
}
