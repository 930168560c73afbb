//! A subtree: a leaf or a branch, shared with other trees until it changes.

mod branch;
mod leaf;

use std::cmp::Ordering;

use triomphe::Arc;

use crate::{End, Interval};
pub(crate) use branch::Branch;
pub(crate) use leaf::Leaf;

/// What the tree stores.
pub(crate) type Entry<K, V> = (Interval<K>, V);

/// The child to take at each level, from the root down.
pub(crate) type Path = [u8; MAX_HEIGHT];

/// No tree has more levels of branches: a branch has two children or more, so that 2^48 leaves,
/// more than an address space holds, would be needed to exceed it.
pub(crate) const MAX_HEIGHT: usize = 48;

/// The least number of children or entries of a node other than the root, and what goes to the right
/// when `fan_out + 1` of them are split.
pub(crate) const fn min_len(fan_out: usize) -> usize {
    fan_out.div_ceil(2)
}

/// A subtree.
#[derive(Debug)]
pub(crate) enum Node<K, V, const B: usize> {
    Leaf(Arc<Leaf<K, V, B>>),
    Branch(Arc<Branch<K, V, B>>),
}

/// What became of a node into which something was inserted.
#[derive(Debug)]
pub(crate) struct Grown<K, T> {
    /// Whether the greatest end may have changed.
    pub(crate) raised: bool,
    /// The right part of a node that had to be split, with a bound between the parts: no entry on
    /// the left starts above it, none on the right below it.
    pub(crate) split: Option<(K, T)>,
}

impl<K, V, const B: usize> Clone for Node<K, V, B> {
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(leaf) => Node::Leaf(leaf.clone()),
            Node::Branch(branch) => Node::Branch(branch.clone()),
        }
    }
}

impl<K, V, const B: usize> From<Leaf<K, V, B>> for Node<K, V, B> {
    fn from(leaf: Leaf<K, V, B>) -> Self {
        Node::Leaf(Arc::new(leaf))
    }
}

impl<K, V, const B: usize> From<Branch<K, V, B>> for Node<K, V, B> {
    fn from(branch: Branch<K, V, B>) -> Self {
        Node::Branch(Arc::new(branch))
    }
}

impl<K, V, const B: usize> Node<K, V, B> {
    /// The number of its entries or children.
    pub(crate) fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.entries.len(),
            Node::Branch(branch) => branch.children.len(),
        }
    }

    /// The greatest end in a subtree that isn't empty.
    pub(crate) fn top(&self) -> End<&K> {
        match self {
            Node::Leaf(leaf) => leaf.top(),
            Node::Branch(branch) => branch.top(),
        }
    }

    /// The first entry of a subtree that isn't empty.
    pub(crate) fn first(&self) -> &Entry<K, V> {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return &leaf.entries[0],
                Node::Branch(branch) => node = &branch.children[0],
            }
        }
    }

    /// The leaf to which `path` leads.
    pub(crate) fn leaf_at(&self, path: &Path) -> &Leaf<K, V, B> {
        let mut node = self;
        let mut steps = path.iter();
        loop {
            match (node, steps.next()) {
                (Node::Branch(branch), Some(&step)) => node = &branch.children[usize::from(step)],
                (Node::Leaf(leaf), _) => return leaf,
                (Node::Branch(_), None) => unreachable!("the path is as long as any tree is high"),
            }
        }
    }

    /// The leaf furthest to the left among those that `pick` leads to, and the path to it.
    ///
    /// `pick(branch, from)` is the first child at `from` or after to go down to.
    pub(crate) fn leaf_from<'a>(
        &'a self,
        path: &mut [u8],
        pick: &impl Fn(&Branch<K, V, B>, usize) -> Option<usize>,
    ) -> Option<&'a Leaf<K, V, B>> {
        match self {
            Node::Leaf(leaf) => Some(leaf),
            Node::Branch(branch) => {
                let child = pick(branch, 0)?;
                path[0] = child as u8;
                branch.children[child].leaf_from(&mut path[1..], pick)
            }
        }
    }

    /// The next leaf after the one at `path` among those that `pick` leads to; moves the path on.
    pub(crate) fn leaf_after<'a>(
        &'a self,
        path: &mut [u8],
        pick: &impl Fn(&Branch<K, V, B>, usize) -> Option<usize>,
    ) -> Option<&'a Leaf<K, V, B>> {
        let Node::Branch(branch) = self else {
            return None;
        };
        let here = usize::from(path[0]);
        if let Some(leaf) = branch.children[here].leaf_after(&mut path[1..], pick) {
            return Some(leaf);
        }
        let child = pick(branch, here + 1)?;
        path[0] = child as u8;
        branch.children[child].leaf_from(&mut path[1..], pick)
    }

    /// The last leaf, and the path to it.
    pub(crate) fn last_leaf<'a>(&'a self, path: &mut [u8]) -> &'a Leaf<K, V, B> {
        match self {
            Node::Leaf(leaf) => leaf,
            Node::Branch(branch) => {
                let child = branch.children.len() - 1;
                path[0] = child as u8;
                branch.children[child].last_leaf(&mut path[1..])
            }
        }
    }

    /// The leaf before the one at `path`; moves the path back.
    pub(crate) fn leaf_before<'a>(&'a self, path: &mut [u8]) -> Option<&'a Leaf<K, V, B>> {
        let Node::Branch(branch) = self else {
            return None;
        };
        let here = usize::from(path[0]);
        if let Some(leaf) = branch.children[here].leaf_before(&mut path[1..]) {
            return Some(leaf);
        }
        let child = here.checked_sub(1)?;
        path[0] = child as u8;
        Some(branch.children[child].last_leaf(&mut path[1..]))
    }
}

impl<K: Ord, V, const B: usize> Node<K, V, B> {
    /// Looks for a place in the order of entries: the leaf, the path to it, and where in it an
    /// entry is for which `order` says `Equal`, or else where one would be inserted.
    ///
    /// `order` says where an entry is relative to the place, `start` where the start of an entry
    /// is; where `start` says `Equal`, the entry has to be asked.
    pub(crate) fn locate<'a>(
        &'a self,
        path: &mut Path,
        start: impl Fn(&K) -> Ordering,
        order: impl Fn(&Entry<K, V>) -> Ordering,
    ) -> (&'a Leaf<K, V, B>, Result<usize, usize>) {
        let mut node = self;
        let mut steps = path.iter_mut();
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, leaf.locate(&start, &order)),
                Node::Branch(branch) => {
                    let child = branch.child_for(&start, &order);
                    if let Some(step) = steps.next() {
                        *step = child as u8;
                    }
                    node = &branch.children[child];
                }
            }
        }
    }
}

impl<K: Ord + Clone, V: Clone, const B: usize> Node<K, V, B> {
    /// The entry at a place that `locate` found.
    pub(crate) fn entry_mut(&mut self, path: &[u8], at: usize) -> &mut Entry<K, V> {
        match self {
            Node::Leaf(leaf) => &mut Leaf::make_mut(leaf).entries[at],
            Node::Branch(branch) => {
                let child = usize::from(path[0]);
                Branch::make_mut(branch).children[child].entry_mut(&path[1..], at)
            }
        }
    }

    /// Inserts an entry at a place that `locate` found.
    pub(crate) fn insert(
        &mut self,
        path: &[u8],
        at: usize,
        entry: Entry<K, V>,
    ) -> Grown<K, Node<K, V, B>> {
        match self {
            Node::Leaf(leaf) => Leaf::make_mut(leaf).insert(at, entry).into_node(),
            Node::Branch(branch) => Branch::make_mut(branch).insert(path, at, entry).into_node(),
        }
    }

    /// Removes the entry at a place that `locate` found. Returns it, and whether the greatest end
    /// may have changed.
    pub(crate) fn remove(&mut self, path: &[u8], at: usize) -> (Entry<K, V>, bool) {
        match self {
            Node::Leaf(leaf) => Leaf::make_mut(leaf).remove(at),
            Node::Branch(branch) => Branch::make_mut(branch).remove(path, at),
        }
    }
}

impl<K, T> Grown<K, T> {
    fn into_node<V, const B: usize>(self) -> Grown<K, Node<K, V, B>>
    where
        T: Into<Node<K, V, B>>,
    {
        Grown {
            raised: self.raised,
            split: self.split.map(|(start, right)| (start, right.into())),
        }
    }
}
