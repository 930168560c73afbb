//! The iterator over the entries that overlap a query.

use std::fmt;
use std::iter::FusedIterator;

use crate::Interval;
use crate::iter::Cursor;
use crate::node::{MAX_HEIGHT, Node};

/// The entries that overlap a query, in order: what [`overlapping`](crate::IntervalMap::overlapping) returns.
///
/// Allocates nothing.
pub struct Overlapping<'t, 'q, K, V, const B: usize = 32> {
    /// Where to look next; `None` when nothing further can overlap.
    cursor: Option<Cursor<'t, K, V, B>>,
    query: &'q Interval<K>,
}

impl<'t, 'q, K: Ord, V, const B: usize> Overlapping<'t, 'q, K, V, B> {
    pub(crate) fn new(root: Option<&'t Node<K, V, B>>, query: &'q Interval<K>) -> Self {
        let start = query.start();
        let cursor = root.and_then(|root| {
            let mut path = [0; MAX_HEIGHT];
            let leaf = root.leaf_from(&mut path, &|branch, from| branch.first_past(from, start))?;
            let at = leaf.first_past(start)?;
            Some(Cursor {
                root,
                path,
                leaf,
                at,
            })
        });
        Overlapping { cursor, query }
    }

    pub(crate) fn at(cursor: Cursor<'t, K, V, B>, query: &'q Interval<K>) -> Self {
        Overlapping {
            cursor: Some(cursor),
            query,
        }
    }
}

impl<'t, K: Ord, V, const B: usize> Iterator for Overlapping<'t, '_, K, V, B> {
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
            for (interval, value) in &leaf.entries[*at..] {
                *at += 1;
                if !query.reaches(interval.start()) {
                    // All that follow start even later.
                    self.cursor = None;
                    return None;
                }
                if interval.reaches(start) {
                    return Some((interval, value));
                }
            }
            match root.leaf_after(path, &|branch, from| branch.first_past(from, start)) {
                Some(next) => (*leaf, *at) = (next, 0),
                None => self.cursor = None,
            }
        }
    }
}

impl<K: Ord, V, const B: usize> FusedIterator for Overlapping<'_, '_, K, V, B> {}

impl<K, V, const B: usize> Clone for Overlapping<'_, '_, K, V, B> {
    fn clone(&self) -> Self {
        Overlapping {
            cursor: self.cursor,
            query: self.query,
        }
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug, const B: usize> fmt::Debug
    for Overlapping<'_, '_, K, V, B>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}
