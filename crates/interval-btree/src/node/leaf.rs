//! A node that holds entries.

use arrayvec::ArrayVec;

use super::{Entry, Grown, split_len};
use crate::End;
use crate::peaks::Peaks;

/// A node that holds entries, in order.
#[derive(Clone, Debug)]
pub(crate) struct Leaf<K, V, const B: usize> {
    pub(crate) entries: ArrayVec<Entry<K, V>, B>,
    pub(crate) peaks: Peaks<B>,
}

impl<K, V, const B: usize> Leaf<K, V, B> {
    pub(crate) const EMPTY: Self = Leaf {
        entries: ArrayVec::new_const(),
        peaks: Peaks::new(),
    };

    /// The greatest end in a leaf that isn't empty.
    pub(crate) fn top(&self) -> End<&K> {
        self.entries[self.peaks.up_to(self.entries.len() - 1)]
            .0
            .end()
    }
}

impl<K: Ord, V, const B: usize> Leaf<K, V, B> {
    /// The first entry whose end is past `key`.
    pub(crate) fn first_past(&self, key: &K) -> Option<usize> {
        self.peaks
            .first(self.entries.len(), |i| self.entries[i].0.reaches(key))
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
        let left = B + 1 - split_len(B);
        let mut right = Leaf::EMPTY;
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
