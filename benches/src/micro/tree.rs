//! The published work of the tree: one definition for every ordered collection.
//!
//! Item `i` is `[K(i), K(i + 1))` with `i` as its value.

use std::cell::{LazyCell, RefCell};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::rc::Rc;

use bytes::Bytes;
use interval_btree::{Abbreviate, Bytewise, Interval, IntervalMap};
use spanset::CompactKey;

use super::benchmark::{Benchmark, Scale, Work};
use super::rng::SplitMix64;
use super::sets;
use super::spent::Spent;

/// A collection of items.
pub trait Map: Default + 'static {
    /// An interval, and a value that tells it from others like it.
    type Item: Clone + 'static;

    /// Item `i`, with a value of its own choice.
    fn item(i: u64, value: u64) -> Self::Item;

    /// Puts an item in.
    fn insert(&mut self, item: Self::Item);

    /// Takes an item out; says whether it was there.
    fn remove(&mut self, item: &Self::Item) -> bool;

    /// The value of the first item that overlaps this one's interval.
    fn first_overlap(&self, query: &Self::Item) -> Option<u64>;
}

/// A collection of which a snapshot costs O(1), and whose items can be visited in order.
pub trait Tree: Map + Clone {
    /// An item that overlaps items 0 to `n - 1` and no others.
    fn whole(n: u64) -> Self::Item;

    /// Visits all items that overlap this one's interval.
    fn scan(&self, query: &Self::Item);
}

/// A key as a collection keeps it.
pub trait Key: Ord + Clone + 'static {
    /// Key number `i`.
    fn of(i: u64) -> Self;
}

impl Key for CompactKey {
    fn of(i: u64) -> Self {
        CompactKey::from(&sets::key(i))
    }
}

impl Key for Bytes {
    fn of(i: u64) -> Self {
        sets::key(i)
    }
}

impl Key for [u8; 16] {
    fn of(i: u64) -> Self {
        sets::key(i)[..].try_into().expect("keys have 16 bytes")
    }
}

/// The tree, as the latch manager uses it: for byte strings of any length.
pub type Ours = Abbreviated<CompactKey>;

/// The tree for keys that are byte strings.
pub type Abbreviated<K> = IntervalMap<K, u64, 32, Bytewise>;

impl<K: Key, A: Abbreviate<K> + 'static> Map for IntervalMap<K, u64, 32, A> {
    type Item = (Interval<K>, u64);

    fn item(i: u64, value: u64) -> Self::Item {
        let interval = Interval::range(K::of(i), K::of(i + 1));
        (interval.ok().expect("keys are in order"), value)
    }

    fn insert(&mut self, (interval, value): Self::Item) {
        IntervalMap::insert(self, interval, value);
    }

    fn remove(&mut self, (interval, value): &Self::Item) -> bool {
        IntervalMap::remove(self, interval, value).is_some()
    }

    fn first_overlap(&self, (query, _): &Self::Item) -> Option<u64> {
        IntervalMap::first_overlap(self, query).map(|(_, value)| *value)
    }
}

impl<K: Key, A: Abbreviate<K> + 'static> Tree for IntervalMap<K, u64, 32, A> {
    fn whole(n: u64) -> Self::Item {
        let interval = Interval::range(K::of(0), K::of(n));
        (interval.ok().expect("n is above 0"), n)
    }

    fn scan(&self, (query, _): &Self::Item) {
        for entry in self.overlapping(query) {
            black_box(entry);
        }
    }
}

/// An ordered map of the standard library, by the start of the interval and the value: what any
/// interval map has to do besides, and so a floor. It finds overlaps among disjoint intervals only.
#[derive(Debug, Default)]
pub struct Std(BTreeMap<([u8; 16], u64), u64>);

impl Map for Std {
    type Item = ([u8; 16], u64);

    fn item(i: u64, value: u64) -> Self::Item {
        (Key::of(i), value)
    }

    fn insert(&mut self, item: Self::Item) {
        self.0.insert(item, item.1);
    }

    fn remove(&mut self, item: &Self::Item) -> bool {
        self.0.remove(item).is_some()
    }

    fn first_overlap(&self, (start, _): &Self::Item) -> Option<u64> {
        let first = self.0.range((*start, 0)..).next();
        first.map(|(_, value)| *value)
    }
}

/// The sizes of the published figures.
pub const SIZES: [u64; 6] = [16, 128, 1024, 8192, 65_536, 1_000_000];

/// How many items out of `n` are chosen at random in advance: most come up, and they take less room than
/// the map does.
fn probes(n: u64) -> u64 {
    (4 * n).clamp(1024, 65_536)
}

/// Several benchmarks' map, filled by the first that needs it.
pub(super) type Filled<M> = Rc<LazyCell<RefCell<M>, Box<dyn FnOnce() -> RefCell<M>>>>;

/// A map of `n` items, put in in random order when it is needed.
pub(super) fn shared<M: Map>(n: u64) -> Filled<M> {
    Rc::new(LazyCell::new(Box::new(move || {
        RefCell::new(grown(shuffled::<M>(n, 1)))
    })))
}

fn grown<M: Map>(items: impl IntoIterator<Item = M::Item>) -> M {
    let mut map = M::default();
    for item in items {
        map.insert(item);
    }
    map
}

fn shuffled<M: Map>(n: u64, seed: u64) -> Vec<M::Item> {
    let mut order: Vec<u64> = (0..n).collect();
    SplitMix64::new(seed).shuffle(&mut order);
    order.into_iter().map(|i| M::item(i, i)).collect()
}

/// Random items out of `n`, without end: `value` says with which value.
struct Probes<T> {
    items: Vec<T>,
    at: usize,
}

impl<T> Probes<T> {
    fn new<M: Map<Item = T>>(n: u64, value: impl Fn(u64) -> u64) -> Self {
        let mut rng = SplitMix64::new(3);
        let mut probe = || {
            let i = rng.below(n);
            M::item(i, value(i))
        };
        Self {
            items: (0..probes(n)).map(|_| probe()).collect(),
            at: 0,
        }
    }

    fn next(&mut self) -> &T {
        let last = self.at + 1 == self.items.len();
        self.at = if last { 0 } else { self.at + 1 };
        &self.items[self.at]
    }
}

impl<T: Clone> Probes<T> {
    /// The next ones, to be used up.
    fn take(&mut self, count: u64) -> Vec<T> {
        (0..count).map(|_| self.next().clone()).collect()
    }
}

/// All benchmarks of a tree, under their published names.
pub fn benchmarks<M: Tree>(scale: Scale) -> Vec<Benchmark> {
    let of = |published: u64| {
        let n = scale.of(published);
        let [changed, cloned, copied, searched, scanned] = of_one(&shared::<M>(n));
        [
            Benchmark::new("insert", move || insert::<M>(n)).in_units_of(n),
            Benchmark::new("remove", move || remove::<M>(n)).in_units_of(n),
            Benchmark::new("remove_insert", move || remove_insert(changed, n)),
            Benchmark::new("snapshot", move || snapshot(cloned)),
            Benchmark::new("snapshot_insert_remove", move || {
                snapshot_insert_remove(copied, n)
            }),
            Benchmark::new("first_overlap", move || first_overlap(searched, n)),
            Benchmark::new("scan", move || scan(scanned, n)).in_units_of(n),
        ]
        .map(|benchmark| named(benchmark, published))
    };
    SIZES.into_iter().flat_map(of).collect()
}

/// Those of them that an ordered map can do.
pub fn floors<M: Map>(scale: Scale) -> Vec<Benchmark> {
    let of = |published: u64| {
        let n = scale.of(published);
        let [changed, searched] = of_one(&shared::<M>(n));
        [
            Benchmark::new("remove_insert", move || remove_insert(changed, n)),
            Benchmark::new("first_overlap", move || first_overlap(searched, n)),
        ]
        .map(|benchmark| named(benchmark, published))
    };
    SIZES.into_iter().flat_map(of).collect()
}

fn of_one<M, const USERS: usize>(map: &Filled<M>) -> [Filled<M>; USERS] {
    std::array::from_fn(|_| Rc::clone(map))
}

fn named(benchmark: Benchmark, n: u64) -> Benchmark {
    let name = format!("tree/{}/{n}", benchmark.name);
    Benchmark { name, ..benchmark }
}

/// What machines are compared by: the pair of remove and insert in an ordered map of 1,024 entries.
pub fn floor() -> Work {
    remove_insert(shared::<Std>(1024), 1024)
}

/// What an operation of the [`floor`] took where the published figures were measured, in nanoseconds.
pub const PUBLISHED_FLOOR_NS: f64 = 140.0;

/// Growth from nothing to `n` items.
fn insert<M: Map>(n: u64) -> Work {
    let items = shuffled::<M>(n, 1);
    Box::new(move |operations| {
        (0..operations / n)
            .map(|_| {
                let (mut map, items) = (M::default(), items.clone());
                Spent::on(|| {
                    for item in items {
                        map.insert(item);
                    }
                })
            })
            .sum()
    })
}

/// Emptying a map of `n` items, in another order.
fn remove<M: Map>(n: u64) -> Work {
    let [items, first] = [2, 1].map(|seed| shuffled::<M>(n, seed));
    Box::new(move |operations| {
        (0..operations / n)
            .map(|_| {
                let mut map: M = grown(first.iter().cloned());
                Spent::on(|| {
                    for item in &items {
                        black_box(map.remove(item));
                    }
                })
            })
            .sum()
    })
}

fn remove_insert<M: Map>(map: Filled<M>, n: u64) -> Work {
    let mut probes = Probes::new::<M>(n, |i| i);
    Box::new(move |operations| {
        let (mut map, items) = (map.borrow_mut(), probes.take(operations));
        Spent::on(|| {
            for item in items {
                black_box(map.remove(&item));
                map.insert(item);
            }
        })
    })
}

/// An operation is one of the pair.
pub(super) fn change<M: Map>(map: Filled<M>, n: u64) -> Work {
    let mut pairs = remove_insert(map, n);
    Box::new(move |operations| pairs(operations / 2))
}

/// What is inserted is gone with the snapshot, so that the map keeps its size.
pub(super) fn snapshot_insert<M: Map + Clone>(map: Filled<M>, n: u64) -> Work {
    let mut probes = Probes::new::<M>(n, |_| n);
    Box::new(move |operations| {
        let (map, items) = (map.borrow(), probes.take(operations));
        Spent::on(|| {
            for item in items {
                let mut snapshot = map.clone();
                snapshot.insert(item);
                drop(black_box(snapshot));
            }
        })
    })
}

fn snapshot<M: Map + Clone>(map: Filled<M>) -> Work {
    Box::new(move |operations| {
        let map = map.borrow();
        Spent::on(|| {
            for _ in 0..operations {
                drop(black_box(map.clone()));
            }
        })
    })
}

/// The extra item lies where a present one does, and has a value of its own.
fn snapshot_insert_remove<M: Map + Clone>(map: Filled<M>, n: u64) -> Work {
    let mut probes = Probes::new::<M>(n, |_| n);
    Box::new(move |operations| {
        let mut map = map.borrow_mut();
        let pairs: Vec<_> = (0..operations)
            .map(|_| {
                let item = probes.next();
                (item.clone(), item.clone())
            })
            .collect();
        Spent::on(|| {
            for (item, again) in pairs {
                let snapshot = map.clone();
                map.insert(item);
                drop(snapshot);
                black_box(map.remove(&again));
            }
        })
    })
}

pub(super) fn first_overlap<M: Map>(map: Filled<M>, n: u64) -> Work {
    let mut probes = Probes::new::<M>(n, |i| i);
    Box::new(move |operations| {
        let map = map.borrow();
        Spent::on(|| {
            for _ in 0..operations {
                black_box(map.first_overlap(probes.next()));
            }
        })
    })
}

/// All items, as one query; an operation is one of them.
fn scan<M: Tree>(map: Filled<M>, n: u64) -> Work {
    let whole = M::whole(n);
    Box::new(move |operations| {
        let map = map.borrow();
        Spent::on(|| {
            for _ in 0..operations / n {
                map.scan(&whole);
            }
        })
    })
}
