//! The checks of the invariants, one function each.

use super::IntervalMap;
use crate::node::{Branch, Entry, Index, Leaf, Node, min_len};
use crate::{Abbreviate, End, Interval, Word};

impl<K: Ord, V: Ord, const B: usize, A: Abbreviate<K>> IntervalMap<K, V, B, A> {
    pub(super) fn verify_sorted(&self) {
        let entries: Vec<_> = self.root.iter().flat_map(entries).collect();
        assert!(
            entries.is_sorted_by(|a, b| a < b),
            "sorted: entries are out of order"
        );
    }

    pub(super) fn verify_separated(&self) {
        for branch in self.root.iter().flat_map(branches) {
            for (i, pair) in branch.children.windows(2).enumerate() {
                let bound = &branch.bounds[i];
                let (before, after) = (last(&pair[0]).start(), pair[1].first().0.start());
                assert!(
                    before <= bound,
                    "separated: an entry starts above the bound after it"
                );
                assert!(
                    bound <= after,
                    "separated: an entry starts below the bound before it"
                );
            }
        }
    }

    pub(super) fn verify_balanced(&self) {
        for branch in self.root.iter().flat_map(branches) {
            let mut heights = branch.children.iter().map(height);
            let first = heights.next();
            assert!(
                heights.all(|height| Some(height) == first),
                "balanced: heights differ"
            );
        }
    }

    pub(super) fn verify_filled(&self) {
        if let Some(Node::Branch(root)) = &self.root {
            assert!(
                root.children.len() >= 2,
                "filled: the root has an only child"
            );
        }
        for node in self.root.iter().flat_map(branches) {
            let len = node.children.len();
            assert!(len <= B && node.ends.len() == len, "filled: too many parts");
            assert_eq!(node.bounds.len() + 1, len, "filled: bounds are missing");
        }
        for leaf in self.root.iter().flat_map(leaves) {
            assert!(leaf.entries.len() <= B, "filled: too many entries");
        }
        for child in self
            .root
            .iter()
            .flat_map(branches)
            .flat_map(|branch| &branch.children)
        {
            assert!(
                child.len() >= min_len(B),
                "filled: a node has {} parts only",
                child.len()
            );
        }
    }

    pub(super) fn verify_measured(&self) {
        for branch in self.root.iter().flat_map(branches) {
            for (end, child) in branch.ends.iter().zip(&branch.children) {
                let furthest = entries(child).map(|(interval, _)| interval.end()).max();
                assert!(
                    furthest == Some(end.as_ref()),
                    "measured: a child's end is wrong"
                );
            }
        }
    }

    pub(super) fn verify_peaked(&self) {
        for branch in self.root.iter().flat_map(branches) {
            let ends: Vec<_> = branch.ends.iter().collect();
            check_peaks(&ends, |i| branch.index.peaks.up_to(i));
        }
        for leaf in self.root.iter().flat_map(leaves) {
            let ends: Vec<_> = leaf
                .entries
                .iter()
                .map(|(interval, _)| interval.end())
                .collect();
            check_peaks(&ends, |i| leaf.index.peaks.up_to(i));
        }
    }

    pub(super) fn verify_abbreviated(&self) {
        for branch in self.root.iter().flat_map(branches) {
            let starts = branch.bounds.iter().collect::<Vec<_>>();
            let ends = branch.ends.iter().map(End::as_ref).collect::<Vec<_>>();
            check_words(&branch.index, &starts, &ends);
        }
        for leaf in self.root.iter().flat_map(leaves) {
            let entries = leaf.entries.iter();
            let (starts, ends): (Vec<_>, Vec<_>) = entries
                .map(|(interval, _)| (interval.start(), interval.end()))
                .unzip();
            check_words(&leaf.index, &starts, &ends);
        }
    }

    pub(super) fn verify_counted(&self) {
        assert_eq!(
            self.root.iter().flat_map(entries).count(),
            self.len,
            "counted"
        );
    }
}

fn check_peaks<E: Ord>(ends: &[E], peak: impl Fn(usize) -> usize) {
    let mut furthest = 0;
    for i in 0..ends.len() {
        if ends[i] > ends[furthest] {
            furthest = i;
        }
        assert_eq!(peak(i), furthest, "peaked: at {i}");
    }
}

fn check_words<K, const B: usize, A: Abbreviate<K>>(
    index: &Index<K, B, A>,
    starts: &[&K],
    ends: &[End<&K>],
) {
    for i in 0..B {
        let start = starts.get(i).map_or(A::Word::MAX, |key| index.word(key));
        assert_eq!(index.starts.get(i), start, "abbreviated: start {i}");
        let top = match i < ends.len() {
            true => index.end_word(ends[index.peaks.up_to(i)]),
            false => A::Word::MAX,
        };
        assert_eq!(index.peaks.top(i), top, "abbreviated: top {i}");
    }
}

fn branches<K, V, const B: usize, A: Abbreviate<K>>(
    node: &Node<K, V, B, A>,
) -> Vec<&Branch<K, V, B, A>> {
    match node {
        Node::Leaf(_) => Vec::new(),
        Node::Branch(branch) => {
            let below = branch.children.iter().flat_map(branches);
            std::iter::once(&**branch).chain(below).collect()
        }
    }
}

fn leaves<K, V, const B: usize, A: Abbreviate<K>>(
    node: &Node<K, V, B, A>,
) -> Vec<&Leaf<K, V, B, A>> {
    match node {
        Node::Leaf(leaf) => vec![leaf],
        Node::Branch(branch) => branch.children.iter().flat_map(leaves).collect(),
    }
}

fn entries<K, V, const B: usize, A: Abbreviate<K>>(
    node: &Node<K, V, B, A>,
) -> impl Iterator<Item = &Entry<K, V>> {
    leaves(node).into_iter().flat_map(|leaf| &leaf.entries)
}

fn height<K, V, const B: usize, A: Abbreviate<K>>(node: &Node<K, V, B, A>) -> usize {
    match node {
        Node::Leaf(_) => 0,
        Node::Branch(branch) => 1 + height(&branch.children[0]),
    }
}

fn last<K, V, const B: usize, A: Abbreviate<K>>(node: &Node<K, V, B, A>) -> &Interval<K> {
    match node {
        Node::Leaf(leaf) => &leaf.entries[leaf.entries.len() - 1].0,
        Node::Branch(branch) => last(&branch.children[branch.children.len() - 1]),
    }
}
