//! A node that holds subtrees.

use std::cmp::Ordering;

use triomphe::{Arc, UniqueArc};

use super::{Entry, Index, Leaf, Node, is_small, may_join, split_at};
use crate::{Abbreviate, End};

/// A node that holds subtrees of one height, in order. The fields run parallel.
pub(crate) struct Branch<K, V, const B: usize, A: Abbreviate<K>> {
    /// Over the bounds and ends.
    pub(crate) index: Index<K, B, A>,
    /// Between children `i` and `i + 1`: no entry before starts above `bounds[i]`, none after starts below
    /// it. One less than children.
    pub(crate) bounds: Vec<K>,
    /// The greatest end in each child.
    pub(crate) ends: Vec<End<K>>,
    pub(crate) children: Vec<Node<K, V, B, A>>,
}

impl<K: Clone, V, const B: usize, A: Abbreviate<K>> Clone for Branch<K, V, B, A> {
    fn clone(&self) -> Self {
        Branch {
            index: self.index.clone(),
            bounds: self.bounds.clone(),
            ends: self.ends.clone(),
            children: self.children.clone(),
        }
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> Branch<K, V, B, A> {
    #[inline]
    pub(crate) fn empty() -> Self {
        Branch {
            index: Index::empty(),
            bounds: Vec::with_capacity(B),
            ends: Vec::with_capacity(B),
            children: Vec::with_capacity(B),
        }
    }

    /// The greatest end.
    pub(crate) fn top(&self) -> End<&K> {
        self.ends[self.index.peaks.last()].as_ref()
    }
}

impl<K: Clone, V, const B: usize, A: Abbreviate<K>> Branch<K, V, B, A> {
    /// The branch, copied first if it is shared.
    #[inline]
    pub(crate) fn make_mut(shared: &mut Arc<Self>) -> &mut Self {
        if !Arc::is_unique(shared) {
            *shared = shared.copy();
        }
        Arc::get_mut(shared).expect("a branch that is not shared")
    }

    #[cold]
    fn copy(&self) -> Arc<Self> {
        Arc::new(Branch {
            index: self.index.clone(),
            bounds: roomy::<_, B>(&self.bounds),
            ends: roomy::<_, B>(&self.ends),
            children: roomy::<_, B>(&self.children),
        })
    }
}

/// A copy with room for as many items as a node may have.
fn roomy<T: Clone, const B: usize>(items: &[T]) -> Vec<T> {
    let mut copy = Vec::with_capacity(B);
    copy.extend_from_slice(items);
    copy
}

impl<K: Ord, V, const B: usize, A: Abbreviate<K>> Branch<K, V, B, A> {
    /// The child where the place that `start` and `order` describe is (see [`Node::locate`]).
    #[inline(always)]
    pub(crate) fn child_for(
        &self,
        start: &K,
        probe: &A::Probe<'_>,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> usize {
        match self.index.starts_below(self.bounds.len(), probe) {
            Ok(at) => at,
            Err(at) => self.child_among(at, start, order),
        }
    }

    /// The same, if the word of the bound at `at` is that of `start`, and none before is.
    #[inline(never)]
    fn child_among(
        &self,
        at: usize,
        start: &K,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> usize {
        let bounds = &self.bounds[self.index.same_starts(self.bounds.len(), at)];
        let below = bounds.partition_point(|bound| bound < start);
        at + below + self.ties(&bounds[below..], at + below, start, order)
    }

    /// How many of the bounds that follow child `at` have it and others before the place that is looked
    /// for, being equal to its start.
    ///
    /// A bound may be that of an entry that is gone, and entries with equal starts may lie on
    /// both sides of it: the first entry of the child after it decides.
    fn ties(
        &self,
        bounds: &[K],
        at: usize,
        start: &K,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> usize {
        let ties = bounds.partition_point(|bound| bound == start);
        self.children[at + 1..at + 1 + ties]
            .partition_point(|child| order(child.first()) != Ordering::Greater)
    }

    /// The first child in which some entry's end is past `key`.
    #[inline(always)]
    pub(crate) fn first_past(&self, key: &K, probe: &A::Probe<'_>) -> Option<usize> {
        let ends = &self.ends;
        self.index
            .first_past(ends.len(), probe, |i| ends[i].is_past(key))
    }

    /// The first child at `from` or after in which some entry's end is past `key`.
    pub(crate) fn next_past(&self, from: usize, key: &K) -> Option<usize> {
        match from {
            0 => self.first_past(key, &A::probe(key)),
            _ => (from..self.ends.len()).find(|&i| self.ends[i].is_past(key)),
        }
    }
}

impl<K: Ord + Clone, V, const B: usize, A: Abbreviate<K>> Branch<K, V, B, A> {
    /// A branch with these children, of which there are no more than there is room for. The bound of the
    /// first is not needed.
    pub(crate) fn of(children: impl IntoIterator<Item = (K, Node<K, V, B, A>)>) -> Arc<Self> {
        let mut branch = UniqueArc::new(Self::empty());
        for (bound, child) in children {
            if !branch.children.is_empty() {
                branch.bounds.push(bound);
            }
            branch.ends.push(child.top().cloned());
            branch.children.push(child);
        }
        branch.reindex();
        branch.shareable()
    }

    /// Takes note that all children may have changed.
    fn reindex(&mut self) {
        let Branch {
            index,
            bounds,
            ends,
            ..
        } = self;
        index.choose_prefix(bounds.len(), |i| &bounds[i]);
        index.retake_starts(bounds.iter());
        index.measure(ends.len(), |i| ends[i].as_ref());
    }

    /// Inserts a child, for which there is room, and a bound that is on one side of it.
    fn insert_child(&mut self, at: usize, child: Node<K, V, B, A>, bound_at: usize, bound: K) {
        let Branch {
            index,
            bounds,
            ends,
            children,
        } = self;
        let start = index.word(&bound);
        let end = index.end_word(child.top());
        ends.insert(at, child.top().cloned());
        children.insert(at, child);
        index.inserted(at, ends.len(), end, |i| ends[i].as_ref());
        bounds.insert(bound_at, bound);
        index.starts.insert(bound_at, bounds.len(), start);
        if index.has_twin(bound_at, bounds.len()) {
            self.refine(bound_at);
        }
    }

    /// Chooses another prefix if there is a better one, now that the word of the bound at `at` is that of
    /// a neighbour too.
    #[cold]
    fn refine(&mut self, at: usize) {
        let Branch {
            index,
            bounds,
            ends,
            ..
        } = self;
        let bound = |i: usize| &bounds[i];
        if index.is_vague(at, bounds.len(), bound) && index.choose_prefix(bounds.len(), bound) {
            index.retake_starts(bounds.iter());
            index.retake_tops(ends.len(), |i| ends[i].as_ref());
        }
    }

    /// Moves the second part of the children to a new branch, and inserts a child into one of the two,
    /// `bound` being the bound before it. Returns the new branch and the bound before that.
    fn split(&mut self, at: usize, bound: K, child: Node<K, V, B, A>) -> (K, Arc<Self>) {
        let cut = split_at(at, B);
        let keep = if at < cut { cut - 1 } else { cut };
        let mut right = UniqueArc::new(Self::empty());
        right.bounds.extend(self.bounds.drain(keep..));
        right.ends.extend(self.ends.drain(keep..));
        right.children.extend(self.children.drain(keep..));
        let between = self.bounds.remove(keep - 1);
        let Branch { index, ends, .. } = &mut *right;
        index.split_from(&mut self.index, keep, keep);
        self.index.starts.remove(keep - 1, keep - 1);
        index.measure(ends.len(), |i| ends[i].as_ref());
        let between = match at.cmp(&cut) {
            Ordering::Less => {
                self.insert_child(at, child, at - 1, bound);
                between
            }
            Ordering::Equal => {
                right.insert_child(0, child, 0, between);
                bound
            }
            Ordering::Greater => {
                right.insert_child(at - cut, child, at - cut - 1, bound);
                between
            }
        };
        (between, right.shareable())
    }

    /// Looks again how far a child reaches. Returns whether it reaches further than the others.
    fn refresh(&mut self, at: usize) -> bool {
        let Branch {
            index,
            ends,
            children,
            ..
        } = self;
        ends[at] = children[at].top().cloned();
        index.changed(at, ends.len(), |i| ends[i].as_ref());
        index.peaks.last() == at
    }

    /// Takes note that an interval with this end is about to be inserted into a child.
    #[inline]
    pub(crate) fn raise(&mut self, at: usize, end: End<&K>) {
        let Branch { index, ends, .. } = self;
        if end > ends[at].as_ref() {
            let word = index.end_word(end);
            ends[at] = end.cloned();
            index.raised(at, ends.len(), word, |i| ends[i].as_ref());
        }
    }
}

impl<K: Ord + Clone, V: Clone, const B: usize, A: Abbreviate<K>> Branch<K, V, B, A> {
    /// Inserts an entry at a place that `locate` found, whose leaf is full.
    pub(crate) fn insert(
        &mut self,
        path: &[u8],
        at: usize,
        entry: Entry<K, V>,
    ) -> Option<(K, Arc<Self>)> {
        let child = usize::from(path[0]);
        self.raise(child, entry.0.end());
        let (bound, right) = self.children[child].insert(&path[1..], at, entry)?;
        // What went to the right doesn't count for the left any more.
        self.refresh(child);
        if self.children.len() == B {
            return Some(self.split(child + 1, bound, right));
        }
        self.insert_child(child + 1, right, child, bound);
        None
    }

    /// Removes the entry at a place that `locate` found. Returns it, and whether the greatest end may
    /// have changed.
    pub(crate) fn remove(&mut self, path: &[u8], at: usize) -> (Entry<K, V>, bool) {
        let child = usize::from(path[0]);
        let (entry, lowered) = self.children[child].remove(&path[1..], at);
        let lowered = lowered && {
            let was_top = self.index.peaks.last() == child;
            self.refresh(child);
            was_top
        };
        if is_small(self.children[child].len(), B) {
            self.fill(child);
        }
        (entry, lowered)
    }

    /// Gives a child that has become too small something of a neighbour's, or joins the two.
    fn fill(&mut self, child: usize) {
        let left = child.saturating_sub(1);
        let right = left + 1;
        if may_join(self.children[left].len() + self.children[right].len(), B) {
            let Branch {
                index,
                bounds,
                ends,
                children,
            } = self;
            let bound = bounds.remove(left);
            index.starts.remove(left, bounds.len());
            ends.remove(right);
            let node = children.remove(right);
            index.removed(right, ends.len(), |i| ends[i].as_ref());
            children[left].append(bound, node);
        } else {
            let [l, r] = &mut self.children[left..=right] else {
                unreachable!("there are two")
            };
            let bound = &mut self.bounds[left];
            match (l, r) {
                (Node::Leaf(l), Node::Leaf(r)) => {
                    *bound = Leaf::make_mut(l).balance(Leaf::make_mut(r));
                }
                (Node::Branch(l), Node::Branch(r)) => {
                    Branch::make_mut(l).balance(bound, Branch::make_mut(r));
                }
                _ => unreachable!("siblings are of one height"),
            }
            let word = self.index.word(&self.bounds[left]);
            self.index.starts.set(left, word);
            self.refresh(right);
        }
        self.refresh(left);
    }

    /// Shares children evenly with the right neighbour. `bound` is the bound between the two.
    fn balance(&mut self, bound: &mut K, right: &mut Self) {
        let (len, keep) = (
            self.children.len(),
            (self.children.len() + right.children.len()) / 2,
        );
        if keep < len {
            right.bounds.insert(0, bound.clone());
            right.bounds.splice(..0, self.bounds.drain(keep..));
            *bound = self.bounds.remove(keep - 1);
            right.ends.splice(..0, self.ends.drain(keep..));
            right.children.splice(..0, self.children.drain(keep..));
        } else {
            let moved = keep - len;
            self.bounds.push(bound.clone());
            self.bounds.extend(right.bounds.drain(..moved - 1));
            *bound = right.bounds.remove(0);
            self.ends.extend(right.ends.drain(..moved));
            self.children.extend(right.children.drain(..moved));
        }
        self.reindex();
        right.reindex();
    }
}

impl<K: Ord + Clone, V: Clone, const B: usize, A: Abbreviate<K>> Node<K, V, B, A> {
    /// Appends the right neighbour's entries or children. `bound` is the bound between the two.
    fn append(&mut self, bound: K, right: Self) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => Leaf::make_mut(left).append(right),
            (Node::Branch(left), Node::Branch(mut right)) => {
                let (left, right) = (Branch::make_mut(left), Branch::make_mut(&mut right));
                left.bounds.push(bound);
                left.bounds.append(&mut right.bounds);
                left.ends.append(&mut right.ends);
                left.children.append(&mut right.children);
                left.reindex();
            }
            _ => unreachable!("siblings are of one height"),
        }
    }
}
