//! A node that holds entries.

use std::cmp::Ordering;

use arrayvec::ArrayVec;
use triomphe::{Arc, UniqueArc};

use super::{Entry, Grown, min_len};
use crate::End;
use crate::peaks::Peaks;

/// A node that holds entries, in order.
#[derive(Clone, Debug)]
pub(crate) struct Leaf<K, V, const B: usize> {
    pub(crate) entries: ArrayVec<Entry<K, V>, B>,
    pub(crate) peaks: Peaks<B>,
}

impl<K, V, const B: usize> Leaf<K, V, B> {
    #[inline]
    pub(crate) fn empty() -> Self {
        Leaf {
            entries: ArrayVec::new(),
            peaks: Peaks::new(),
        }
    }

    /// The greatest end in a leaf that isn't empty.
    pub(crate) fn top(&self) -> End<&K> {
        self.entries[self.peaks.up_to(self.entries.len() - 1)]
            .0
            .end()
    }
}

impl<K: Clone, V: Clone, const B: usize> Leaf<K, V, B> {
    /// The leaf, copied first if it is shared.
    pub(crate) fn make_mut(shared: &mut Arc<Self>) -> &mut Self {
        if !Arc::is_unique(shared) {
            // Filled where it is to stay: moving a node there costs more than its contents.
            let mut copy = UniqueArc::new(Self::empty());
            copy.entries.extend(shared.entries.iter().cloned());
            copy.peaks = shared.peaks;
            *shared = copy.shareable();
        }
        Arc::make_mut(shared)
    }
}

impl<K: Ord, V, const B: usize> Leaf<K, V, B> {
    /// The first entry whose end is past `key`.
    pub(crate) fn first_past(&self, key: &K) -> Option<usize> {
        self.peaks
            .first(self.entries.len(), |i| self.entries[i].0.reaches(key))
    }

    /// Where an entry is, or would be inserted (see [`Node::locate`](super::Node::locate)).
    pub(crate) fn locate(
        &self,
        start: &impl Fn(&K) -> Ordering,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> Result<usize, usize> {
        let below = |entry: &Entry<K, V>| start(entry.0.start()) == Ordering::Less;
        let at = self.entries.partition_point(below);
        match self.entries.get(at).map_or(Ordering::Greater, order) {
            Ordering::Equal => Ok(at),
            Ordering::Greater => Err(at),
            // Others with the same start.
            Ordering::Less => match self.entries[at + 1..].binary_search_by(order) {
                Ok(more) => Ok(at + 1 + more),
                Err(more) => Err(at + 1 + more),
            },
        }
    }

    /// Appends entries, of no more entries than there is room for.
    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = Entry<K, V>>) {
        let old = self.entries.len();
        self.entries.extend(entries);
        let entries = &self.entries;
        self.peaks.recompute(old, entries.len(), further(entries));
    }

    pub(crate) fn insert(&mut self, at: usize, entry: Entry<K, V>) -> Grown<K, Self>
    where
        K: Clone,
    {
        if !self.entries.is_full() {
            self.entries.insert(at, entry);
            let entries = &self.entries;
            let raised = self.peaks.inserted(at, entries.len(), further(entries));
            return Grown {
                raised,
                split: None,
            };
        }
        // The larger part of B + 1 entries stays, the smaller part goes.
        let left = B + 1 - min_len(B);
        let mut right = Leaf::empty();
        if at < left {
            right.extend(self.entries.drain(left - 1..));
            self.insert(at, entry);
        } else {
            right.extend(self.entries.drain(left..));
            right.insert(at - left, entry);
        }
        let start = right.entries[0].0.start().clone();
        Grown {
            raised: true,
            split: Some((start, right)),
        }
    }

    pub(crate) fn remove(&mut self, at: usize) -> (Entry<K, V>, bool) {
        let entry = self.entries.remove(at);
        let entries = &self.entries;
        let lowered = self.peaks.removed(at, entries.len(), further(entries));
        (entry, lowered)
    }
}

fn further<K: Ord, V>(entries: &[Entry<K, V>]) -> impl Fn(usize, usize) -> bool {
    |i, j| entries[i].0.end() > entries[j].0.end()
}
