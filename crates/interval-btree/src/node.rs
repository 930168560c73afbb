//! A subtree: a leaf or a branch, shared with other trees until it changes.

mod branch;
mod index;
mod leaf;

use std::cmp::Ordering;

use triomphe::Arc;

use crate::{Abbreviate, End, Interval};
pub(crate) use branch::Branch;
pub(crate) use index::Index;
pub(crate) use leaf::Leaf;

/// What the tree stores.
pub(crate) type Entry<K, V> = (Interval<K>, V);

/// The child to take at each level, from the root down.
pub(crate) type Path = [u8; MAX_HEIGHT];

/// No tree has more levels of branches: a branch has two children or more, so that 2^48 leaves,
/// more than an address space holds, would be needed to exceed it.
pub(crate) const MAX_HEIGHT: usize = 48;

/// The least number of children or entries of a node other than the root.
///
/// Few enough that nodes which were just split, balanced or joined are far from being so again, whatever
/// is inserted and removed.
pub(crate) const fn min_len(fan_out: usize) -> usize {
    if fan_out < 8 { 2 } else { fan_out / 4 }
}

/// Whether a node other than the root has too few children or entries.
const fn is_small(len: usize, fan_out: usize) -> bool {
    len < min_len(fan_out)
}

/// Whether neighbours, one of which is too small, are joined rather than balanced, given how many children
/// or entries they have in all.
const fn may_join(len: usize, fan_out: usize) -> bool {
    len < 2 * min_len(fan_out) || len < fan_out - fan_out / 16
}

/// How many of `fan_out + 1` parts stay in a node that is split, the one that is inserted at `at` included.
///
/// Half of them, unless it comes first or last: keys that are inserted in order then leave nodes fuller.
const fn split_at(at: usize, fan_out: usize) -> usize {
    let all = fan_out + 1;
    let few = if fan_out < 8 { 2 } else { all / 3 };
    if at == 0 {
        few
    } else if at == fan_out {
        all - few
    } else {
        all - all / 2
    }
}

/// A subtree.
pub(crate) enum Node<K, V, const B: usize, A: Abbreviate<K>> {
    Leaf(Arc<Leaf<K, V, B, A>>),
    Branch(Arc<Branch<K, V, B, A>>),
}

impl<K, V, const B: usize, A: Abbreviate<K>> Clone for Node<K, V, B, A> {
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(leaf) => Node::Leaf(leaf.clone()),
            Node::Branch(branch) => Node::Branch(branch.clone()),
        }
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> Node<K, V, B, A> {
    /// A leaf without entries.
    #[cold]
    pub(crate) fn empty() -> Self {
        Node::Leaf(Arc::new(Leaf::empty()))
    }

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
    pub(crate) fn leaf_at(&self, path: &Path) -> &Leaf<K, V, B, A> {
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
        pick: &impl Fn(&Branch<K, V, B, A>, usize) -> Option<usize>,
    ) -> Option<&'a Leaf<K, V, B, A>> {
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
        pick: &impl Fn(&Branch<K, V, B, A>, usize) -> Option<usize>,
    ) -> Option<&'a Leaf<K, V, B, A>> {
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
    pub(crate) fn last_leaf<'a>(&'a self, path: &mut [u8]) -> &'a Leaf<K, V, B, A> {
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
    pub(crate) fn leaf_before<'a>(&'a self, path: &mut [u8]) -> Option<&'a Leaf<K, V, B, A>> {
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

impl<K: Ord, V, const B: usize, A: Abbreviate<K>> Node<K, V, B, A> {
    /// Looks for a place in the order of entries: the leaf, the path to it, and where in it an
    /// entry is for which `order` says `Equal`, or else where one would be inserted.
    ///
    /// `order` says where an entry is relative to the place, which is where entries that start at `start`
    /// are: an entry that starts elsewhere is on the side where it starts. `probe` is that of `start`.
    #[inline]
    pub(crate) fn locate<'a>(
        &'a self,
        path: &mut Path,
        start: &K,
        probe: &A::Probe<'_>,
        order: impl Fn(&Entry<K, V>) -> Ordering,
    ) -> (&'a Leaf<K, V, B, A>, Result<usize, usize>) {
        let mut node = self;
        let mut steps = path.iter_mut();
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, leaf.locate(probe, &order)),
                Node::Branch(branch) => {
                    let child = branch.child_for(start, probe, &order);
                    if let Some(step) = steps.next() {
                        *step = child as u8;
                    }
                    node = &branch.children[child];
                }
            }
        }
    }
}

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> Node<K, V, B, A> {
    /// The leaf to which `path` leads, no longer shared. `visit` is told of the branches on the way, and
    /// which child is taken.
    #[inline]
    pub(crate) fn leaf_mut(
        &mut self,
        path: &Path,
        mut visit: impl FnMut(&mut Branch<K, V, B, A>, usize),
    ) -> &mut Leaf<K, V, B, A> {
        let mut node = self;
        let mut steps = path.iter();
        loop {
            match (node, steps.next()) {
                (Node::Branch(branch), Some(&step)) => {
                    let (branch, child) = (Branch::make_mut(branch), usize::from(step));
                    visit(branch, child);
                    node = &mut branch.children[child];
                }
                (Node::Leaf(leaf), _) => return Leaf::make_mut(leaf),
                (Node::Branch(_), None) => unreachable!("the path is as long as any tree is high"),
            }
        }
    }
}

impl<K: Ord + Clone, V: Clone, const B: usize, A: Abbreviate<K>> Node<K, V, B, A> {
    /// Inserts an entry at a place that `locate` found, whose leaf is full. Returns the right part of the
    /// node, if it had to be split, and the bound between the parts.
    pub(crate) fn insert(
        &mut self,
        path: &[u8],
        at: usize,
        entry: Entry<K, V>,
    ) -> Option<(K, Self)> {
        match self {
            Node::Leaf(leaf) => {
                let right = Leaf::make_mut(leaf).split(at, entry);
                let bound = right.entries[0].0.start().clone();
                Some((bound, Node::Leaf(right)))
            }
            Node::Branch(branch) => {
                let (bound, right) = Branch::make_mut(branch).insert(path, at, entry)?;
                Some((bound, Node::Branch(right)))
            }
        }
    }

    /// The same for a root, which becomes a branch if it has to be split.
    #[cold]
    pub(crate) fn insert_splitting(&mut self, path: &Path, at: usize, entry: Entry<K, V>) {
        if let Some((bound, right)) = self.insert(path, at, entry) {
            let left = self.clone();
            *self = Node::Branch(Branch::of([(bound.clone(), left), (bound, right)]));
        }
    }

    /// Removes the entry at a place that `locate` found. Returns it, and whether the greatest end
    /// may have changed.
    pub(crate) fn remove(&mut self, path: &[u8], at: usize) -> (Entry<K, V>, bool) {
        match self {
            Node::Leaf(leaf) => {
                let leaf = Leaf::make_mut(leaf);
                let lowered = leaf.is_furthest(at);
                (leaf.remove(at), lowered)
            }
            Node::Branch(branch) => Branch::make_mut(branch).remove(path, at),
        }
    }
}
