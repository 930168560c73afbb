//! What is expected of any collection.

use std::ops::Bound;
use std::sync::Arc;

use interval_btree::{
    EmptyInterval, End, Interval, IntervalMap, IntoIter, Iter, Overlapping, Range,
};

type Map = IntervalMap<u32, u32>;

/// `n` entries, enough for several levels.
fn map(n: u32) -> Map {
    (0..n).map(|i| (Interval::point(i), i)).collect()
}

#[test]
fn maps_and_iterators_can_be_sent_and_shared() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Map>();
    is_send_and_sync::<Iter<'_, u32, u32>>();
    is_send_and_sync::<Range<'_, u32, u32>>();
    is_send_and_sync::<Overlapping<'_, '_, u32, u32>>();
    is_send_and_sync::<IntoIter<u32, u32>>();
}

#[test]
fn an_empty_map_is_a_constant() {
    static EMPTY: Map = IntervalMap::new();
    assert!(EMPTY.is_empty());
    assert_eq!(EMPTY.iter().next(), None);
    assert_eq!(EMPTY.iter().next_back(), None);
    assert_eq!(EMPTY.first_overlap(&Interval::point(1)), None);
    assert_eq!(EMPTY.overlapping(&Interval::point(1)).next(), None);
    assert_eq!(EMPTY.iter_from(&Interval::point(1), &1).next(), None);
    assert_eq!(EMPTY.starting_in(..).next(), None);
}

#[test]
fn a_map_that_was_emptied_is_as_an_empty_one() {
    let mut map = map(100);
    while map.pop_first().is_some() {}
    map.verify();
    assert_eq!(map, Map::new());
    assert_eq!(
        (map.first(), map.last(), map.iter().next()),
        (None, None, None)
    );
    assert_eq!(map.overlapping(&Interval::starting_at(0)).next(), None);
    assert_eq!(
        map.overlapping_after(&Interval::starting_at(0), (&Interval::point(0), &0))
            .next(),
        None
    );
}

#[test]
fn iterators_meet_in_the_middle() {
    let map = map(1000);
    let mut iter = map.iter();
    let mut owned = map.clone().into_iter();
    let mut range = map.starting_in(..);
    for i in 0..500 {
        assert_eq!(iter.len(), 1000 - 2 * i as usize);
        assert_eq!(owned.len(), iter.len());
        assert_eq!(iter.next().map(|e| *e.1), Some(i));
        assert_eq!(iter.next_back().map(|e| *e.1), Some(999 - i));
        assert_eq!(owned.next().map(|e| e.1), Some(i));
        assert_eq!(owned.next_back().map(|e| e.1), Some(999 - i));
        assert_eq!(range.next().map(|e| *e.1), Some(i));
        assert_eq!(range.next_back().map(|e| *e.1), Some(999 - i));
    }
    assert_eq!((iter.next(), iter.next_back(), iter.len()), (None, None, 0));
    assert_eq!(
        (owned.next(), owned.next_back(), owned.len()),
        (None, None, 0)
    );
    assert_eq!((range.next(), range.next_back()), (None, None));
}

#[test]
fn a_range_whose_bounds_cross_is_empty() {
    let map = map(1000);
    assert_eq!(
        map.starting_in((Bound::Included(500), Bound::Excluded(400)))
            .next(),
        None
    );
    assert_eq!(map.starting_in(500..500).next_back(), None);
    assert_eq!(map.starting_in(500..=500).count(), 1);
    assert_eq!(map.starting_in(2000..).next(), None);
}

#[test]
fn the_last_of_a_range_is_found_at_once() {
    let map = map(1000);
    assert_eq!(map.iter().last(), map.last());
    assert_eq!(map.starting_in(..500).last().map(|e| *e.1), Some(499));
}

#[test]
fn an_iterator_outlives_its_query() {
    let map = map(10);
    let found = {
        let query = Interval::point(5);
        map.overlapping(&query).next()
    };
    assert_eq!(found, Some((&Interval::point(5), &5)));
}

#[test]
fn the_value_that_is_removed_was_the_only_one() {
    let mut map = IntervalMap::<u32, Arc<u32>>::new();
    let value = Arc::new(7);
    for i in 0..1000 {
        map.insert(Interval::point(i), value.clone());
    }
    assert_eq!(Arc::strong_count(&value), 1001);
    let snapshot = map.clone();
    assert_eq!(Arc::strong_count(&value), 1001);
    drop(snapshot);
    for i in (0..1000).rev() {
        map.remove(&Interval::point(i), &value);
        assert_eq!(Arc::strong_count(&value), 1 + i as usize);
    }
}

#[test]
fn taking_a_map_apart_leaves_its_snapshot_alone() {
    let map = map(1000);
    let snapshot = map.clone();
    assert!(map.into_iter().rev().map(|e| e.1).eq((0..1000).rev()));
    snapshot.verify();
    assert!(snapshot.iter().map(|e| *e.1).eq(0..1000));
}

#[test]
fn a_replaced_value_is_returned_and_the_map_does_not_grow() {
    let mut map = map(10);
    assert_eq!(map.insert(Interval::point(3), 3), Some(3));
    assert_eq!(map.insert(Interval::point(3), 4), None);
    assert_eq!(map.len(), 11);
}

#[test]
fn of_equal_entries_the_last_is_collected() {
    let entries = [
        (Interval::point(1), (1, 'a')),
        (Interval::point(1), (1, 'b')),
    ];
    let map: IntervalMap<u32, ByFirst> = entries
        .map(|(i, v)| (i, ByFirst(v.0, v.1)))
        .into_iter()
        .collect();
    assert_eq!(map.iter().map(|(_, v)| v.1).collect::<String>(), "b");
}

#[test]
fn maps_are_equal_iff_their_entries_are() {
    let (a, mut b) = (map(100), map(100));
    assert_eq!(a, b);
    b.remove(&Interval::point(50), &50);
    assert_ne!(a, b);
    b.insert(Interval::point(50), 51);
    assert_ne!(a, b);
}

#[test]
fn debug_shows_entries() -> Result<(), EmptyInterval<u32>> {
    let mut map = Map::new();
    map.extend([
        (Interval::point(7), 1),
        (Interval::range(3, 5)?, 2),
        (Interval::starting_at(9), 3),
    ]);
    assert_eq!(format!("{map:?}"), "{[3, 5): 2, [7]: 1, [9, ..): 3}");
    assert_eq!(
        format!("{:?}", map.overlapping(&Interval::new(5, End::At(7))?)),
        "{[7]: 1}"
    );
    assert_eq!(format!("{:?}", map.starting_in(..7)), "{[3, 5): 2}");
    assert_eq!(format!("{:?}", map.iter()), format!("{map:?}"));
    Ok(())
}

#[derive(Clone, Debug)]
struct ByFirst(u32, char);

impl Ord for ByFirst {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for ByFirst {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByFirst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByFirst {}
