//! The iterator that takes a map apart.

use std::fmt;
use std::iter::{FlatMap, FusedIterator};
use std::vec;

use arrayvec::ArrayVec;
use triomphe::Arc;

use crate::Interval;
use crate::node::{Entry, Leaf, Node};

/// All entries of a map, owned: what its [`into_iter`](crate::IntervalMap::into_iter) returns.
///
/// Entries are moved out of leaves that no other map shares, and cloned out of those that are shared.
pub struct IntoIter<K, V, const B: usize = 32> {
    entries: Leaves<K, V, B>,
    left: usize,
}

type Leaves<K, V, const B: usize> = FlatMap<
    vec::IntoIter<Arc<Leaf<K, V, B>>>,
    ArrayVec<Entry<K, V>, B>,
    fn(Arc<Leaf<K, V, B>>) -> ArrayVec<Entry<K, V>, B>,
>;

impl<K: Clone, V: Clone, const B: usize> IntoIter<K, V, B> {
    pub(crate) fn new(root: Option<Node<K, V, B>>, left: usize) -> Self {
        let mut leaves = Vec::new();
        if let Some(root) = root {
            take_apart(root, &mut leaves);
        }
        IntoIter {
            entries: leaves
                .into_iter()
                .flat_map(|leaf| Arc::unwrap_or_clone(leaf).entries),
            left,
        }
    }
}

fn take_apart<K, V, const B: usize>(node: Node<K, V, B>, leaves: &mut Vec<Arc<Leaf<K, V, B>>>) {
    match node {
        Node::Leaf(leaf) => leaves.push(leaf),
        Node::Branch(branch) => match Arc::try_unwrap(branch) {
            Ok(branch) => branch
                .children
                .into_iter()
                .for_each(|child| take_apart(child, leaves)),
            Err(shared) => shared
                .children
                .iter()
                .cloned()
                .for_each(|child| take_apart(child, leaves)),
        },
    }
}

impl<K: Clone, V: Clone, const B: usize> Iterator for IntoIter<K, V, B> {
    type Item = (Interval<K>, V);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        self.left -= 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K: Clone, V: Clone, const B: usize> DoubleEndedIterator for IntoIter<K, V, B> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next_back()?;
        self.left -= 1;
        Some(entry)
    }
}

impl<K: Clone, V: Clone, const B: usize> ExactSizeIterator for IntoIter<K, V, B> {}

impl<K: Clone, V: Clone, const B: usize> FusedIterator for IntoIter<K, V, B> {}

impl<K, V, const B: usize> fmt::Debug for IntoIter<K, V, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
