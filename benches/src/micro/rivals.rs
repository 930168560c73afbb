//! Other crates at the tree's work: interval maps, and persistent maps.

use std::ops::{Bound, Range};

use augmented_rbtree::interval_tree as augmented;
use bytes::Bytes;
use imbl::OrdMap;
use interavl::IntervalTree;
use rpds::RedBlackTreeMapSync;

use super::benchmark::{Benchmark, Scale};
use super::measure::{Cost, Effort, Floor, Measured, measure};
use super::sets::key;
use super::tree::{Key, Map, Ours, Std, change, first_overlap, shared, snapshot_insert};

/// What a crate is to the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The tree itself.
    Ours,
    /// An ordered map that changes in place: a floor.
    Floor,
    /// A map of intervals.
    Intervals,
    /// An ordered map of which a snapshot costs O(1).
    Persistent,
}

/// A crate at some work.
#[derive(Debug)]
pub struct Contender {
    /// The crate.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The work.
    pub benchmark: Benchmark,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An item is removed, or inserted: half of the pair.
    Change,
    /// The first item that overlaps a present one's interval.
    FirstOverlap,
    /// A snapshot is taken, an item is inserted into it, and it is dropped.
    SnapshotInsert,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Change, Self::FirstOverlap, Self::SnapshotInsert];

    fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::FirstOverlap => "first_overlap",
            Self::SnapshotInsert => "snapshot_insert",
        }
    }

    /// How many times what ours takes a crate of this kind is to take, at least.
    pub fn goal(self, kind: Kind) -> Option<f64> {
        match (self, kind) {
            (Self::Change, Kind::Floor) => Some(1.0 / 1.5),
            (Self::FirstOverlap, Kind::Floor) => Some(1.0 / 1.3),
            (Self::Change | Self::FirstOverlap, Kind::Intervals) => Some(3.0),
            (Self::Change, Kind::Persistent) => Some(1.7),
            (Self::FirstOverlap, Kind::Persistent) => Some(3.0),
            (Self::SnapshotInsert, Kind::Persistent) => Some(1.8),
            (Self::SnapshotInsert, _) | (_, Kind::Ours) => None,
        }
    }
}

/// The same operation at the same size, by the tree and by every crate that can do it.
#[derive(Debug)]
pub struct Comparison {
    /// Its name.
    pub name: String,
    /// What is done.
    pub operation: Operation,
    /// Who does it; ours comes first.
    pub contenders: Vec<Contender>,
}

impl Comparison {
    /// Sets up all contenders, and measures them in alternation.
    pub fn measure(self, floor: &mut Floor, effort: Effort) -> Compared {
        let (crates, benchmarks): (Vec<_>, Vec<_>) = self
            .contenders
            .into_iter()
            .map(|contender| ((contender.name, contender.kind), contender.benchmark))
            .unzip();
        let Measured { floor_ns, costs } = measure(benchmarks, floor, effort);
        let figure = |((name, kind), cost): (_, Cost)| Figure {
            name,
            kind,
            ns: cost.ns,
        };
        Compared {
            name: self.name,
            operation: self.operation,
            floor_ns,
            figures: crates.into_iter().zip(costs).map(figure).collect(),
        }
    }
}

/// What a comparison found.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// What was done.
    pub operation: Operation,
    /// Nanoseconds per operation of the floor, measured between the batches.
    pub floor_ns: f64,
    /// Of each crate; ours comes first.
    pub figures: Vec<Figure>,
}

/// What a crate took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The crate.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Nanoseconds per operation.
    pub ns: f64,
}

impl Compared {
    /// How many times what ours takes this one took.
    pub fn times(&self, figure: &Figure) -> f64 {
        figure.ns / self.figures[0].ns
    }

    /// Each goal, by the crate, and whether it is met.
    pub fn goals(&self) -> Vec<(&'static str, bool)> {
        let goal = |figure: &Figure| {
            let goal = self.operation.goal(figure.kind)?;
            Some((figure.name, self.times(figure) >= goal))
        };
        self.figures.iter().filter_map(goal).collect()
    }
}

/// The sizes at which crates are compared.
const SIZES: [u64; 5] = [16, 128, 1024, 8192, 65_536];

/// Every operation at every size.
pub fn comparisons(scale: Scale) -> Vec<Comparison> {
    let of = |operation: Operation, published: u64| {
        let n = scale.of(published);
        let contenders = match operation {
            Operation::Change => each(Change(n)),
            Operation::FirstOverlap => each(FirstOverlap(n)),
            Operation::SnapshotInsert => snapshots(n),
        };
        Comparison {
            name: format!("tree/crates/{}/{published}", operation.name()),
            operation,
            contenders,
        }
    };
    let sizes = |operation| SIZES.map(|n| of(operation, n));
    Operation::ALL.into_iter().flat_map(sizes).collect()
}

/// Work that any map can do.
trait AnyMap {
    fn of<M: Map>(&self) -> Benchmark;
}

struct Change(u64);

impl AnyMap for Change {
    fn of<M: Map>(&self) -> Benchmark {
        let n = self.0;
        Benchmark::new("change", move || change(shared::<M>(n), n)).in_units_of(2)
    }
}

struct FirstOverlap(u64);

impl AnyMap for FirstOverlap {
    fn of<M: Map>(&self) -> Benchmark {
        let n = self.0;
        Benchmark::new("first_overlap", move || first_overlap(shared::<M>(n), n))
    }
}

fn each(work: impl AnyMap) -> Vec<Contender> {
    let contender = |name, kind, benchmark| Contender {
        name,
        kind,
        benchmark,
    };
    vec![
        contender("ours", Kind::Ours, work.of::<Ours>()),
        contender("BTreeMap", Kind::Floor, work.of::<Std>()),
        contender("rb-interval-map", Kind::Intervals, work.of::<Rb>()),
        contender("augmented-rbtree", Kind::Intervals, work.of::<Augmented>()),
        contender("interavl", Kind::Intervals, work.of::<Avl>()),
        contender("iset", Kind::Intervals, work.of::<Iset>()),
        contender("imbl", Kind::Persistent, work.of::<Imbl>()),
        contender("rpds", Kind::Persistent, work.of::<Rpds>()),
    ]
}

fn snapshots(n: u64) -> Vec<Contender> {
    fn contender<M: Map + Clone>(name: &'static str, kind: Kind, n: u64) -> Contender {
        let benchmark = Benchmark::new("snapshot_insert", move || {
            snapshot_insert(shared::<M>(n), n)
        });
        Contender {
            name,
            kind,
            benchmark,
        }
    }
    vec![
        contender::<Ours>("ours", Kind::Ours, n),
        contender::<Imbl>("imbl", Kind::Persistent, n),
        contender::<Rpds>("rpds", Kind::Persistent, n),
    ]
}

/// A red-black tree in a vector.
#[derive(Debug, Default)]
struct Rb(rb_interval_map::IntervalMap<Bytes, u64>);

impl Map for Rb {
    type Item = (rb_interval_map::Interval<Bytes>, u64);

    fn item(i: u64, value: u64) -> Self::Item {
        (rb_interval_map::Interval::new(key(i), key(i + 1)), value)
    }

    fn insert(&mut self, (interval, value): Self::Item) {
        self.0.insert(interval, value);
    }

    fn remove(&mut self, (interval, _): &Self::Item) -> bool {
        self.0.remove(interval).is_some()
    }

    fn first_overlap(&self, (query, _): &Self::Item) -> Option<u64> {
        let first = self.0.filter_iter(query).next();
        first.map(|(_, value)| *value)
    }
}

/// A red-black tree, of closed intervals.
#[derive(Default)]
struct Augmented(augmented::IntervalTree<Bytes, u64>);

impl Map for Augmented {
    type Item = (augmented::Interval<Bytes>, u64);

    /// Ends before `K(i + 1)`, since that would be in it.
    fn item(i: u64, value: u64) -> Self::Item {
        let last = Bytes::from([&key(i)[..], b"~"].concat());
        (augmented::Interval::new(key(i), last), value)
    }

    fn insert(&mut self, (interval, value): Self::Item) {
        self.0.insert(interval, value);
    }

    fn remove(&mut self, (interval, _): &Self::Item) -> bool {
        self.0.remove(interval).is_some()
    }

    fn first_overlap(&self, (query, _): &Self::Item) -> Option<u64> {
        let first = self.0.first_overlap(&query.lo, &query.hi);
        first.map(|(_, value)| *value)
    }
}

/// An AVL tree.
#[derive(Debug, Default)]
struct Avl(IntervalTree<Bytes, u64>);

impl Map for Avl {
    type Item = (Range<Bytes>, u64);

    fn item(i: u64, value: u64) -> Self::Item {
        (key(i)..key(i + 1), value)
    }

    fn insert(&mut self, (interval, value): Self::Item) {
        self.0.insert(interval, value);
    }

    fn remove(&mut self, (interval, _): &Self::Item) -> bool {
        self.0.remove(interval).is_some()
    }

    fn first_overlap(&self, (query, _): &Self::Item) -> Option<u64> {
        let first = self.0.iter_overlaps(query).next();
        first.map(|(_, value)| *value)
    }
}

/// A red-black tree in a vector, for keys that are `Copy`.
#[derive(Debug, Default)]
struct Iset(iset::IntervalMap<[u8; 16], u64>);

impl Map for Iset {
    type Item = (Range<[u8; 16]>, u64);

    fn item(i: u64, value: u64) -> Self::Item {
        (Key::of(i)..Key::of(i + 1), value)
    }

    fn insert(&mut self, (interval, value): Self::Item) {
        self.0.insert(interval, value);
    }

    fn remove(&mut self, (interval, _): &Self::Item) -> bool {
        self.0.remove(interval.clone()).is_some()
    }

    fn first_overlap(&self, (query, _): &Self::Item) -> Option<u64> {
        self.0.values(query.clone()).next().copied()
    }
}

/// A persistent B-tree, by the start of the interval and the value: it finds overlaps among disjoint
/// intervals only.
#[derive(Clone, Debug, Default)]
struct Imbl(OrdMap<(Bytes, u64), u64>);

impl Map for Imbl {
    type Item = (Bytes, u64);

    fn item(i: u64, value: u64) -> Self::Item {
        (key(i), value)
    }

    fn insert(&mut self, item: Self::Item) {
        let value = item.1;
        self.0.insert(item, value);
    }

    fn remove(&mut self, item: &Self::Item) -> bool {
        self.0.remove(item).is_some()
    }

    fn first_overlap(&self, query: &Self::Item) -> Option<u64> {
        let mut from = (self.0).range::<_, Self::Item>((Bound::Included(query), Bound::Unbounded));
        from.next().map(|(_, value)| *value)
    }
}

/// A persistent red-black tree, by the start of the interval and the value: it finds overlaps among disjoint
/// intervals only.
#[derive(Clone, Debug, Default)]
struct Rpds(RedBlackTreeMapSync<(Bytes, u64), u64>);

impl Map for Rpds {
    type Item = (Bytes, u64);

    fn item(i: u64, value: u64) -> Self::Item {
        (key(i), value)
    }

    fn insert(&mut self, item: Self::Item) {
        let value = item.1;
        self.0.insert_mut(item, value);
    }

    fn remove(&mut self, item: &Self::Item) -> bool {
        self.0.remove_mut(item)
    }

    fn first_overlap(&self, query: &Self::Item) -> Option<u64> {
        let mut from = (self.0).range::<Self::Item, _>((Bound::Included(query), Bound::Unbounded));
        from.next().map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items come, are found, and go.
    fn works<M: Map>() {
        let mut map = M::default();
        let items = Vec::from_iter((0..300).map(|i| M::item(i, i)));
        items.iter().for_each(|item| map.insert(item.clone()));
        for (i, item) in (0..).zip(&items) {
            assert_eq!(map.first_overlap(item), Some(i));
        }
        for item in items.iter().step_by(2) {
            assert!(map.remove(item));
            assert!(!map.remove(item));
        }
        for (i, item) in (0..).zip(&items).skip(1).step_by(2) {
            assert_eq!(map.first_overlap(item), Some(i));
        }
    }

    #[test]
    fn every_map_does_the_work() {
        works::<Ours>();
        works::<Std>();
        works::<Rb>();
        works::<Augmented>();
        works::<Avl>();
        works::<Iset>();
        works::<Imbl>();
        works::<Rpds>();
    }

    #[test]
    fn every_comparison_runs_and_begins_with_ours() {
        for comparison in comparisons(Scale::Tiny) {
            assert_eq!(comparison.contenders[0].kind, Kind::Ours);
            for contender in comparison.contenders {
                let mut work = (contender.benchmark.set_up)();
                work(4 * contender.benchmark.unit);
            }
        }
    }
}
