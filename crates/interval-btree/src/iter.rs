//! Iterators in the order of entries.

mod cursor;
mod into_iter;

use std::fmt;
use std::iter::FusedIterator;

use crate::node::Node;
use crate::{Abbreviate, Interval, Whole};
pub(crate) use cursor::Cursor;
pub use into_iter::IntoIter;

/// All entries of a map: what [`iter`](crate::IntervalMap::iter) returns.
pub struct Iter<'a, K, V, const B: usize = 32, A: Abbreviate<K> = Whole> {
    pub(crate) range: Range<'a, K, V, B, A>,
    left: usize,
}

/// Some consecutive entries of a map: what seeks such as
/// [`iter_from`](crate::IntervalMap::iter_from) return.
pub struct Range<'a, K, V, const B: usize = 32, A: Abbreviate<K> = Whole> {
    /// The first and the last entry that are left.
    ends: Option<Ends<'a, K, V, B, A>>,
}

type Ends<'a, K, V, const B: usize, A> = (Cursor<'a, K, V, B, A>, Cursor<'a, K, V, B, A>);

impl<'a, K, V, const B: usize, A: Abbreviate<K>> Iter<'a, K, V, B, A> {
    pub(crate) fn new(root: Option<&'a Node<K, V, B, A>>, left: usize) -> Self {
        let ends = root.map(|root| (Cursor::first(root), Cursor::last(root)));
        Iter {
            range: Range { ends },
            left,
        }
    }
}

impl<'a, K, V, const B: usize, A: Abbreviate<K>> Range<'a, K, V, B, A> {
    pub(crate) const EMPTY: Self = Range { ends: None };

    /// The entries from one to another, which is not before it; none if one of them is missing.
    pub(crate) fn between(
        first: Option<Cursor<'a, K, V, B, A>>,
        last: Option<Cursor<'a, K, V, B, A>>,
    ) -> Self {
        Range {
            ends: first.zip(last),
        }
    }

    /// The entries from the first of this range to the last of another of the same tree.
    pub(crate) fn intersection(self, other: Self) -> Self {
        let ends = self
            .ends
            .zip(other.ends)
            .map(|((first, _), (_, last))| (first, last));
        Range {
            ends: ends.filter(|(first, last)| first.is_at_or_before(last)),
        }
    }
}

impl<'a, K, V, const B: usize, A: Abbreviate<K>> Iterator for Range<'a, K, V, B, A> {
    type Item = (&'a Interval<K>, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (first, last) = self.ends.as_mut()?;
        let entry = first.entry();
        if first.is_at(last) || !first.step() {
            self.ends = None;
        }
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.ends.is_some()), None)
    }

    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> DoubleEndedIterator for Range<'_, K, V, B, A> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let (first, last) = self.ends.as_mut()?;
        let entry = last.entry();
        if last.is_at(first) || !last.step_back() {
            self.ends = None;
        }
        Some(entry)
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> FusedIterator for Range<'_, K, V, B, A> {}

impl<'a, K, V, const B: usize, A: Abbreviate<K>> Iterator for Iter<'a, K, V, B, A> {
    type Item = (&'a Interval<K>, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.range.next()?;
        self.left -= 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    fn last(mut self) -> Option<Self::Item> {
        self.next_back()
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> DoubleEndedIterator for Iter<'_, K, V, B, A> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.range.next_back()?;
        self.left -= 1;
        Some(entry)
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> ExactSizeIterator for Iter<'_, K, V, B, A> {}

impl<K, V, const B: usize, A: Abbreviate<K>> FusedIterator for Iter<'_, K, V, B, A> {}

impl<K, V, const B: usize, A: Abbreviate<K>> Clone for Range<'_, K, V, B, A> {
    fn clone(&self) -> Self {
        Range { ends: self.ends }
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> Clone for Iter<'_, K, V, B, A> {
    fn clone(&self) -> Self {
        Iter {
            range: self.range.clone(),
            left: self.left,
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug, const B: usize, A: Abbreviate<K>> fmt::Debug
    for Range<'_, K, V, B, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<K: fmt::Debug, V: fmt::Debug, const B: usize, A: Abbreviate<K>> fmt::Debug
    for Iter<'_, K, V, B, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.range.fmt(f)
    }
}
