//! Building a tree from the leaves up.

use triomphe::UniqueArc;

use super::IntervalMap;
use crate::Abbreviate;
use crate::node::{Branch, Entry, Leaf, Node};

impl<K: Ord + Clone, V: Ord + Clone, const B: usize, A: Abbreviate<K>> IntervalMap<K, V, B, A> {
    /// Builds a map from entries that are in order, no two equal. O(n).
    pub(super) fn from_sorted(entries: Vec<Entry<K, V>>) -> Self {
        let len = entries.len();
        let mut level: Vec<(K, Node<K, V, B, A>)> = chunks::<_, B>(entries)
            .map(|entries| {
                let mut leaf = UniqueArc::new(Leaf::empty());
                leaf.extend(entries);
                let start = leaf.entries[0].0.start().clone();
                (start, Node::Leaf(leaf.shareable()))
            })
            .collect();
        while level.len() > 1 {
            level = chunks::<_, B>(level)
                .map(|children| (children[0].0.clone(), Node::Branch(Branch::of(children))))
                .collect();
        }
        IntervalMap {
            root: level.pop().map(|(_, root)| root),
            len,
        }
    }

    /// Builds a map from entries in any order; among equal ones the last is kept. O(n log n).
    pub(super) fn from_unsorted(mut entries: Vec<Entry<K, V>>) -> Self {
        entries.sort();
        entries.dedup_by(|next, kept| {
            let equal = next.cmp(&kept) == std::cmp::Ordering::Equal;
            if equal {
                std::mem::swap(next, kept);
            }
            equal
        });
        Self::from_sorted(entries)
    }
}

/// Divides items evenly into as few parts of at most `B` as there can be.
///
/// Each of several parts has at least half of `B` items, rounded up, which is what a node needs.
fn chunks<T, const B: usize>(items: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let parts = items.len().div_ceil(B);
    let (least, longer) = (
        items.len().checked_div(parts).unwrap_or(0),
        items.len().checked_rem(parts).unwrap_or(0),
    );
    let mut items = items.into_iter();
    (0..parts).map(move |part| {
        items
            .by_ref()
            .take(least + usize::from(part < longer))
            .collect()
    })
}
