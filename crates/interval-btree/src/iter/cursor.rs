//! A place in a tree.

use std::ptr;

use crate::node::{Leaf, MAX_HEIGHT, Node, Path};
use crate::{Abbreviate, Interval};

/// A place in a tree: an entry, or the gap at the end of a leaf.
pub(crate) struct Cursor<'a, K, V, const B: usize, A: Abbreviate<K>> {
    pub(crate) root: &'a Node<K, V, B, A>,
    /// The way to the leaf.
    pub(crate) path: Path,
    pub(crate) leaf: &'a Leaf<K, V, B, A>,
    pub(crate) at: usize,
}

impl<K, V, const B: usize, A: Abbreviate<K>> Clone for Cursor<'_, K, V, B, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> Copy for Cursor<'_, K, V, B, A> {}

impl<'a, K, V, const B: usize, A: Abbreviate<K>> Cursor<'a, K, V, B, A> {
    /// The first entry of a tree that has one.
    pub(crate) fn first(root: &'a Node<K, V, B, A>) -> Self {
        let path = [0; MAX_HEIGHT];
        Cursor {
            root,
            path,
            leaf: root.leaf_at(&path),
            at: 0,
        }
    }

    /// The last entry of a tree that has one.
    pub(crate) fn last(root: &'a Node<K, V, B, A>) -> Self {
        let mut path = [0; MAX_HEIGHT];
        let leaf = root.last_leaf(&mut path);
        Cursor {
            root,
            path,
            leaf,
            at: leaf.entries.len() - 1,
        }
    }

    pub(crate) fn entry(&self) -> (&'a Interval<K>, &'a V) {
        let (interval, value) = &self.leaf.entries[self.at];
        (interval, value)
    }

    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.at == other.at && ptr::eq(self.leaf, other.leaf)
    }

    /// Whether this is not after another cursor of the same tree.
    pub(crate) fn is_at_or_before(&self, other: &Self) -> bool {
        (self.path, self.at) <= (other.path, other.at)
    }

    /// The same place, if there is an entry, or else the next entry.
    pub(crate) fn normalized(mut self) -> Option<Self> {
        (self.at < self.leaf.entries.len() || self.next_leaf()).then_some(self)
    }

    /// The entry before this place.
    pub(crate) fn back(mut self) -> Option<Self> {
        self.step_back().then_some(self)
    }

    /// Moves to the next entry; returns whether there is one.
    pub(crate) fn step(&mut self) -> bool {
        self.at += 1;
        self.at < self.leaf.entries.len() || self.next_leaf()
    }

    /// Moves to the entry before; returns whether there is one.
    pub(crate) fn step_back(&mut self) -> bool {
        if self.at == 0 {
            let Some(leaf) = self.root.leaf_before(&mut self.path) else {
                return false;
            };
            self.leaf = leaf;
            self.at = leaf.entries.len();
        }
        self.at -= 1;
        true
    }

    fn next_leaf(&mut self) -> bool {
        let next = self.root.leaf_after(&mut self.path, &|branch, from| {
            (from < branch.children.len()).then_some(from)
        });
        let Some(leaf) = next else { return false };
        self.leaf = leaf;
        self.at = 0;
        true
    }
}
