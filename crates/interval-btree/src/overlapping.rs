//! The iterator over the entries that overlap a query.

use std::fmt;
use std::iter::FusedIterator;

use crate::iter::Cursor;
use crate::node::{MAX_HEIGHT, Node};
use crate::{Abbreviate, Interval, Whole};

/// The entries that overlap a query, in order: what [`overlapping`](crate::IntervalMap::overlapping) returns.
///
/// Allocates nothing.
pub struct Overlapping<'t, 'q, K, V, const B: usize = 32, A: Abbreviate<K> = Whole> {
    /// Where to look next; `None` when nothing further can overlap.
    cursor: Option<Cursor<'t, K, V, B, A>>,
    query: &'q Interval<K>,
    /// How many entries of the leaf are known to overlap without looking at each.
    sure: usize,
}

impl<'t, 'q, K: Ord, V, const B: usize, A: Abbreviate<K>> Overlapping<'t, 'q, K, V, B, A> {
    pub(crate) fn new(root: Option<&'t Node<K, V, B, A>>, query: &'q Interval<K>) -> Self {
        let start = query.start();
        let cursor = root.and_then(|root| {
            let mut path = [0; MAX_HEIGHT];
            let leaf = root.leaf_from(&mut path, &|branch, from| branch.next_past(from, start))?;
            let at = leaf.first_past(start, &A::probe(start))?;
            Some(Cursor {
                root,
                path,
                leaf,
                at,
            })
        });
        Overlapping {
            cursor,
            query,
            sure: 0,
        }
    }

    pub(crate) fn at(cursor: Cursor<'t, K, V, B, A>, query: &'q Interval<K>) -> Self {
        Overlapping {
            cursor: Some(cursor),
            query,
            sure: 0,
        }
    }
}

impl<'t, K: Ord, V, const B: usize, A: Abbreviate<K>> Iterator for Overlapping<'t, '_, K, V, B, A> {
    type Item = (&'t Interval<K>, &'t V);

    fn next(&mut self) -> Option<Self::Item> {
        let query = self.query;
        let start = query.start();
        loop {
            let Cursor {
                root,
                path,
                leaf,
                at,
            } = self.cursor.as_mut()?;
            while let Some((interval, value)) = leaf.entries.get(*at) {
                *at += 1;
                if *at > self.sure && !query.reaches(interval.start()) {
                    // All that follow start even later.
                    self.cursor = None;
                    return None;
                }
                if *at <= self.sure || interval.reaches(start) {
                    return Some((interval, value));
                }
            }
            let next = root.leaf_after(path, &|branch, from| branch.next_past(from, start));
            let Some(next) = next else {
                self.cursor = None;
                return None;
            };
            (*leaf, *at) = (next, 0);
            self.sure = match next.entries.as_slice() {
                [(first, _), .., (last, _)]
                    if first.start() >= start && query.reaches(last.start()) =>
                {
                    next.entries.len()
                }
                _ => 0,
            };
        }
    }
}

impl<K: Ord, V, const B: usize, A: Abbreviate<K>> FusedIterator
    for Overlapping<'_, '_, K, V, B, A>
{
}

impl<K, V, const B: usize, A: Abbreviate<K>> Clone for Overlapping<'_, '_, K, V, B, A> {
    fn clone(&self) -> Self {
        Overlapping {
            cursor: self.cursor,
            query: self.query,
            sure: self.sure,
        }
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug, const B: usize, A: Abbreviate<K>> fmt::Debug
    for Overlapping<'_, '_, K, V, B, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}
