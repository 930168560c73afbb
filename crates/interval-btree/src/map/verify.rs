//! The checker of the invariants.

use super::IntervalMap;
use crate::Interval;
use crate::node::{Node, min_len};

impl<K: Ord, V: Ord, const B: usize> IntervalMap<K, V, B> {
    /// Checks the invariants that are listed on the type. O(n).
    ///
    /// # Panics
    ///
    /// If one is broken, with its name.
    #[doc(hidden)]
    pub fn verify(&self) {
        let entries: Vec<_> = self.iter().collect();
        assert!(entries.is_sorted_by(|a, b| a < b), "sorted");
        let Some(root) = &self.root else {
            assert_eq!(self.len, 0, "counted");
            return;
        };
        assert_eq!(check(root, true).0, self.len, "counted");
    }
}

/// Checks a subtree; returns how many entries it has and its height.
fn check<K: Ord, V: Ord, const B: usize>(node: &Node<K, V, B>, is_root: bool) -> (usize, usize) {
    let least = match node {
        _ if !is_root => min_len(B),
        Node::Branch(_) => 2,
        Node::Leaf(_) => 0,
    };
    assert!(node.len() >= least, "filled");
    match node {
        Node::Leaf(leaf) => {
            let ends: Vec<_> = leaf
                .entries
                .iter()
                .map(|(interval, _)| interval.end())
                .collect();
            for i in 0..ends.len() {
                let peak = (0..=i).rev().max_by_key(|&j| ends[j]);
                assert_eq!(Some(leaf.peaks.up_to(i)), peak, "peaks");
            }
            (leaf.entries.len(), 0)
        }
        Node::Branch(branch) => {
            let mut len = 0;
            let mut height = None;
            for (i, child) in branch.children.iter().enumerate() {
                if i > 0 {
                    let bound = &branch.starts[i];
                    assert!(last(&branch.children[i - 1]).start() <= bound, "separated");
                    assert!(bound <= child.first().0.start(), "separated");
                }
                let (child_len, child_height) = check(child, false);
                assert_eq!(
                    *height.get_or_insert(child_height),
                    child_height,
                    "balanced"
                );
                assert!(branch.ends[i].as_ref() == child.top(), "ends");
                let peak = (0..=i).rev().max_by_key(|&j| &branch.ends[j]);
                assert_eq!(Some(branch.peaks.up_to(i)), peak, "peaks");
                len += child_len;
            }
            (len, 1 + height.unwrap_or(0))
        }
    }
}

fn last<K, V, const B: usize>(node: &Node<K, V, B>) -> &Interval<K> {
    match node {
        Node::Leaf(leaf) => &leaf.entries[leaf.entries.len() - 1].0,
        Node::Branch(branch) => last(&branch.children[branch.children.len() - 1]),
    }
}
