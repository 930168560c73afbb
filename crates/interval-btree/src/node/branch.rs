//! A node that holds subtrees.

use std::cmp::Ordering;

use arrayvec::ArrayVec;
use triomphe::{Arc, UniqueArc};

use super::{Entry, Grown, Leaf, Node, min_len};
use crate::End;
use crate::peaks::Peaks;

/// A node that holds subtrees of one height, in order. The fields run parallel.
#[derive(Debug)]
pub(crate) struct Branch<K, V, const B: usize> {
    /// Between children `i - 1` and `i`: no entry before starts above `starts[i]`, none after
    /// starts below it. `starts[0]` repeats the bound before this branch, if there is one.
    pub(crate) starts: ArrayVec<K, B>,
    /// The greatest end in each child.
    pub(crate) ends: ArrayVec<End<K>, B>,
    pub(crate) children: ArrayVec<Node<K, V, B>, B>,
    pub(crate) peaks: Peaks<B>,
}

impl<K: Clone, V, const B: usize> Clone for Branch<K, V, B> {
    fn clone(&self) -> Self {
        Branch {
            starts: self.starts.clone(),
            ends: self.ends.clone(),
            children: self.children.clone(),
            peaks: self.peaks,
        }
    }
}

impl<K, V, const B: usize> Branch<K, V, B> {
    #[inline]
    pub(crate) fn empty() -> Self {
        Branch {
            starts: ArrayVec::new(),
            ends: ArrayVec::new(),
            children: ArrayVec::new(),
            peaks: Peaks::new(),
        }
    }

    /// The greatest end.
    pub(crate) fn top(&self) -> End<&K> {
        self.ends[self.peaks.up_to(self.ends.len() - 1)].as_ref()
    }
}

impl<K: Clone, V, const B: usize> Branch<K, V, B> {
    /// The branch, copied first if it is shared.
    pub(crate) fn make_mut(shared: &mut Arc<Self>) -> &mut Self {
        if !Arc::is_unique(shared) {
            // Filled where it is to stay: moving a node there costs more than its contents.
            let mut copy = UniqueArc::new(Self::empty());
            copy.starts.extend(shared.starts.iter().cloned());
            copy.ends.extend(shared.ends.iter().cloned());
            copy.children.extend(shared.children.iter().cloned());
            copy.peaks = shared.peaks;
            *shared = copy.shareable();
        }
        Arc::make_mut(shared)
    }
}

impl<K: Ord, V, const B: usize> Branch<K, V, B> {
    /// The child where the place that `start` and `order` describe is (see [`Node::locate`]).
    pub(crate) fn child_for(
        &self,
        start: &impl Fn(&K) -> Ordering,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> usize {
        let below = |bound: &K| start(bound) == Ordering::Less;
        let at = 1 + self.starts[1..].partition_point(below);
        match self.starts.get(at) {
            Some(bound) if start(bound) == Ordering::Equal => at - 1 + self.ties(at, start, order),
            _ => at - 1,
        }
    }

    /// How many of the children from `at` on, whose bounds are equal to the start looked for, are
    /// to be passed.
    ///
    /// A bound may be that of an entry that is gone, and entries with equal starts may lie on
    /// both sides of it: the first entry of the child decides.
    fn ties(
        &self,
        at: usize,
        start: &impl Fn(&K) -> Ordering,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> usize {
        let ties = self.starts[at..].partition_point(|bound| start(bound) == Ordering::Equal);
        self.children[at..at + ties]
            .partition_point(|child| order(child.first()) != Ordering::Greater)
    }

    /// The first child at `from` or after in which some entry's end is past `key`.
    pub(crate) fn first_past(&self, from: usize, key: &K) -> Option<usize> {
        if from == 0 {
            return self
                .peaks
                .first(self.ends.len(), |i| self.ends[i].is_past(key));
        }
        (from..self.ends.len()).find(|&i| self.ends[i].is_past(key))
    }
}

impl<K: Ord + Clone, V, const B: usize> Branch<K, V, B> {
    /// A branch with two children.
    pub(crate) fn pair(left: Node<K, V, B>, start: K, right: Node<K, V, B>) -> Self {
        let mut branch = Self::empty();
        branch.extend([(start.clone(), left), (start, right)]);
        branch
    }

    /// Appends children, of no more than there is room for.
    pub(crate) fn extend(&mut self, children: impl IntoIterator<Item = (K, Node<K, V, B>)>) {
        let old = self.children.len();
        for (start, child) in children {
            self.starts.push(start);
            self.ends.push(child.top().cloned());
            self.children.push(child);
        }
        let ends = &self.ends;
        self.peaks.recompute(old, ends.len(), further(ends));
    }

    /// Inserts a child that isn't empty.
    fn insert_child(&mut self, at: usize, start: K, child: Node<K, V, B>) -> Grown<K, Self> {
        if !self.children.is_full() {
            self.ends.insert(at, child.top().cloned());
            self.starts.insert(at, start);
            self.children.insert(at, child);
            let ends = &self.ends;
            let raised = self.peaks.inserted(at, ends.len(), further(ends));
            return Grown {
                raised,
                split: None,
            };
        }
        let left = B + 1 - min_len(B);
        let mut right = Self::empty();
        if at < left {
            self.split_off(left - 1, &mut right);
            self.insert_child(at, start, child);
        } else {
            self.split_off(left, &mut right);
            right.insert_child(at - left, start, child);
        }
        Grown {
            raised: true,
            split: Some((right.starts[0].clone(), right)),
        }
    }

    /// Moves the children from `at` on to an empty branch.
    fn split_off(&mut self, at: usize, right: &mut Self) {
        right.starts.extend(self.starts.drain(at..));
        right.ends.extend(self.ends.drain(at..));
        right.children.extend(self.children.drain(at..));
        let ends = &right.ends;
        right.peaks.recompute(0, ends.len(), further(ends));
    }

    /// Removes a child.
    fn remove_child(&mut self, at: usize) -> (K, Node<K, V, B>) {
        let start = self.starts.remove(at);
        self.ends.remove(at);
        let child = self.children.remove(at);
        let ends = &self.ends;
        self.peaks.removed(at, ends.len(), further(ends));
        (start, child)
    }

    /// Looks again how far a child reaches. Returns whether it reaches further than the others.
    fn refresh(&mut self, at: usize) -> bool {
        self.ends[at] = self.children[at].top().cloned();
        let ends = &self.ends;
        self.peaks.changed(at, ends.len(), further(ends));
        self.peaks.up_to(ends.len() - 1) == at
    }
}

impl<K: Ord + Clone, V: Clone, const B: usize> Branch<K, V, B> {
    pub(crate) fn insert(&mut self, path: &[u8], at: usize, entry: Entry<K, V>) -> Grown<K, Self> {
        let child = usize::from(path[0]);
        let grown = self.children[child].insert(&path[1..], at, entry);
        let raised = grown.raised && self.refresh(child);
        let Some((start, right)) = grown.split else {
            return Grown {
                raised,
                split: None,
            };
        };
        let grown = self.insert_child(child + 1, start, right);
        Grown {
            raised: raised || grown.raised,
            ..grown
        }
    }

    pub(crate) fn remove(&mut self, path: &[u8], at: usize) -> (Entry<K, V>, bool) {
        let child = usize::from(path[0]);
        let (entry, lowered) = self.children[child].remove(&path[1..], at);
        let lowered = lowered && {
            let was_top = self.peaks.up_to(self.ends.len() - 1) == child;
            self.refresh(child);
            was_top
        };
        if self.children[child].len() < min_len(B) {
            self.fill(child);
        }
        (entry, lowered)
    }

    /// Gives a child that has become too small something of a neighbour's, or joins the two.
    fn fill(&mut self, child: usize) {
        let (left, right) = if child > 0 {
            (child - 1, child)
        } else {
            (0, 1)
        };
        let donor = if child > 0 { left } else { right };
        if self.children[donor].len() <= min_len(B) {
            let (_, node) = self.remove_child(right);
            self.children[left].append(node);
            self.refresh(left);
            return;
        }
        let bound = &mut self.starts[right];
        let [l, r] = &mut self.children[left..=right] else {
            unreachable!("there are two")
        };
        match (l, r) {
            (Node::Leaf(l), Node::Leaf(r)) => {
                let (l, r) = (Leaf::make_mut(l), Leaf::make_mut(r));
                if donor == left {
                    let (entry, _) = l.remove(l.entries.len() - 1);
                    r.insert(0, entry);
                } else {
                    let (entry, _) = r.remove(0);
                    l.insert(l.entries.len(), entry);
                }
                *bound = r.entries[0].0.start().clone();
            }
            (Node::Branch(l), Node::Branch(r)) => {
                let (l, r) = (Branch::make_mut(l), Branch::make_mut(r));
                if donor == left {
                    let (start, node) = l.remove_child(l.children.len() - 1);
                    r.insert_child(0, start, node);
                } else {
                    let (start, node) = r.remove_child(0);
                    l.insert_child(l.children.len(), start, node);
                }
                *bound = r.starts[0].clone();
            }
            _ => unreachable!("siblings are of one height"),
        }
        self.refresh(left);
        self.refresh(right);
    }
}

impl<K: Ord + Clone, V: Clone, const B: usize> Node<K, V, B> {
    /// Appends the right neighbour's entries or children.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                Leaf::make_mut(left).extend(Arc::unwrap_or_clone(right).entries);
            }
            (Node::Branch(left), Node::Branch(right)) => {
                let right = Arc::unwrap_or_clone(right);
                Branch::make_mut(left).extend(right.starts.into_iter().zip(right.children));
            }
            _ => unreachable!("siblings are of one height"),
        }
    }
}

fn further<K: Ord>(ends: &[End<K>]) -> impl Fn(usize, usize) -> bool {
    |i, j| ends[i] > ends[j]
}
