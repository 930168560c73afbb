//! The iterator that takes a map apart.

use std::fmt;
use std::iter::{FlatMap, FusedIterator};
use std::vec;

use triomphe::Arc;

use crate::node::{Entry, Leaf, Node};
use crate::{Abbreviate, Interval, Whole};

/// All entries of a map, owned: what its [`into_iter`](crate::IntervalMap::into_iter) returns.
///
/// Entries are moved out of leaves that no other map shares, and cloned out of those that are shared.
pub struct IntoIter<K, V, const B: usize = 32, A: Abbreviate<K> = Whole> {
    entries: Leaves<K, V, B, A>,
    left: usize,
}

type Leaves<K, V, const B: usize, A> = FlatMap<
    vec::IntoIter<Arc<Leaf<K, V, B, A>>>,
    Vec<Entry<K, V>>,
    fn(Arc<Leaf<K, V, B, A>>) -> Vec<Entry<K, V>>,
>;

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> IntoIter<K, V, B, A> {
    pub(crate) fn new(root: Option<Node<K, V, B, A>>, left: usize) -> Self {
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

fn take_apart<K, V, const B: usize, A: Abbreviate<K>>(
    node: Node<K, V, B, A>,
    leaves: &mut Vec<Arc<Leaf<K, V, B, A>>>,
) {
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

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> Iterator for IntoIter<K, V, B, A> {
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

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> DoubleEndedIterator
    for IntoIter<K, V, B, A>
{
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next_back()?;
        self.left -= 1;
        Some(entry)
    }
}

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> ExactSizeIterator
    for IntoIter<K, V, B, A>
{
}

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> FusedIterator for IntoIter<K, V, B, A> {}

impl<K, V, const B: usize, A: Abbreviate<K>> fmt::Debug for IntoIter<K, V, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
