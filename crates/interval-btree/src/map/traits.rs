//! What collections are expected to implement.

use std::fmt;

use super::IntervalMap;
use crate::iter::{IntoIter, Iter};
use crate::{Abbreviate, Interval};

/// A snapshot: O(1), one reference count. Afterwards each of the two maps copies the nodes on the
/// paths that it changes, once.
impl<K, V, const B: usize, A: Abbreviate<K>> Clone for IntervalMap<K, V, B, A> {
    fn clone(&self) -> Self {
        IntervalMap {
            root: self.root.clone(),
            len: self.len,
        }
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> Default for IntervalMap<K, V, B, A> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<K: fmt::Debug, V: fmt::Debug, const B: usize, A: Abbreviate<K>> fmt::Debug
    for IntervalMap<K, V, B, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: PartialEq, V: PartialEq, const B: usize, A: Abbreviate<K>> PartialEq
    for IntervalMap<K, V, B, A>
{
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other)
    }
}

impl<K: Eq, V: Eq, const B: usize, A: Abbreviate<K>> Eq for IntervalMap<K, V, B, A> {}

/// Builds the tree from the leaves up. Among equal entries the last is kept. O(n log n).
impl<K: Ord + Clone, V: Ord + Clone, const B: usize, A: Abbreviate<K>>
    FromIterator<(Interval<K>, V)> for IntervalMap<K, V, B, A>
{
    fn from_iter<I: IntoIterator<Item = (Interval<K>, V)>>(entries: I) -> Self {
        Self::from_unsorted(entries.into_iter().collect())
    }
}

impl<K: Ord + Clone, V: Ord + Clone, const B: usize, A: Abbreviate<K>> Extend<(Interval<K>, V)>
    for IntervalMap<K, V, B, A>
{
    fn extend<I: IntoIterator<Item = (Interval<K>, V)>>(&mut self, entries: I) {
        for (interval, value) in entries {
            self.insert(interval, value);
        }
    }
}

impl<'a, K, V, const B: usize, A: Abbreviate<K>> IntoIterator for &'a IntervalMap<K, V, B, A> {
    type Item = (&'a Interval<K>, &'a V);
    type IntoIter = Iter<'a, K, V, B, A>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Clones only what a snapshot shares.
impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> IntoIterator
    for IntervalMap<K, V, B, A>
{
    type Item = (Interval<K>, V);
    type IntoIter = IntoIter<K, V, B, A>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter::new(self.root, self.len)
    }
}
