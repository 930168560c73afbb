//! A node that holds entries.

use std::cmp::Ordering;
use std::ops::Range;

use triomphe::{Arc, UniqueArc};

use super::{Entry, Index, split_at};
use crate::{Abbreviate, End, Interval};

/// A node that holds entries, in order.
pub(crate) struct Leaf<K, V, const B: usize, A: Abbreviate<K>> {
    /// Over the starts and ends of the entries.
    pub(crate) index: Index<K, B, A>,
    /// At most `B`.
    pub(crate) entries: Vec<Entry<K, V>>,
}

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> Clone for Leaf<K, V, B, A> {
    fn clone(&self) -> Self {
        Leaf {
            index: self.index.clone(),
            entries: self.entries.clone(),
        }
    }
}

impl<K, V, const B: usize, A: Abbreviate<K>> Leaf<K, V, B, A> {
    #[inline]
    pub(crate) fn empty() -> Self {
        Leaf {
            index: Index::empty(),
            entries: Vec::new(),
        }
    }

    /// Whether the entry at `at` is the first of those that reach furthest.
    #[inline]
    pub(crate) fn is_furthest(&self, at: usize) -> bool {
        self.index.peaks.last() == at
    }

    /// The greatest end in a leaf that isn't empty.
    pub(crate) fn top(&self) -> End<&K> {
        self.entries[self.index.peaks.last()].0.end()
    }
}

impl<K: Clone, V: Clone, const B: usize, A: Abbreviate<K>> Leaf<K, V, B, A> {
    /// The leaf, copied first if it is shared.
    #[inline]
    pub(crate) fn make_mut(shared: &mut Arc<Self>) -> &mut Self {
        if !Arc::is_unique(shared) {
            *shared = shared.copy();
        }
        Arc::get_mut(shared).expect("a leaf that is not shared")
    }

    #[cold]
    fn copy(&self) -> Arc<Self> {
        let mut entries = Vec::with_capacity(B);
        entries.extend_from_slice(&self.entries);
        Arc::new(Leaf {
            index: self.index.clone(),
            entries,
        })
    }
}

impl<K: Ord, V, const B: usize, A: Abbreviate<K>> Leaf<K, V, B, A> {
    /// The first entry whose end is past `key`.
    #[inline]
    pub(crate) fn first_past(&self, key: &K, probe: &A::Probe<'_>) -> Option<usize> {
        let entries = &self.entries;
        self.index
            .first_past(entries.len(), probe, |i| entries[i].0.reaches(key))
    }

    /// The words of the start of an interval, whose probe this is, and of its end.
    #[inline]
    pub(crate) fn words(&self, start: &A::Probe<'_>, interval: &Interval<K>) -> [A::Word; 2] {
        let start = A::word(&self.index.prefix, start);
        match interval.is_point() {
            true => [start, start],
            false => [start, self.index.end_word(interval.end())],
        }
    }

    /// Whether all entries end before an end, which has this word.
    #[inline]
    pub(crate) fn ends_before(&self, end: End<&K>, word: A::Word) -> bool {
        let Some(last) = self.entries.len().checked_sub(1) else {
            return true;
        };
        let top = self.index.peaks.top(last);
        top < word || (top == word && self.top() < end)
    }

    /// Where an entry is, or would be inserted (see [`Node::locate`](super::Node::locate)).
    #[inline]
    pub(crate) fn locate(
        &self,
        probe: &A::Probe<'_>,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> Result<usize, usize> {
        match self.index.starts_below(self.entries.len(), probe) {
            Ok(at) => Err(at),
            Err(at) => self.locate_among(self.index.same_starts(self.entries.len(), at), order),
        }
    }

    /// The same, among these entries only.
    #[inline]
    fn locate_among(
        &self,
        ties: Range<usize>,
        order: &impl Fn(&Entry<K, V>) -> Ordering,
    ) -> Result<usize, usize> {
        match &self.entries[ties.clone()] {
            [only] => match order(only) {
                Ordering::Less => Err(ties.end),
                Ordering::Equal => Ok(ties.start),
                Ordering::Greater => Err(ties.start),
            },
            several => match several.binary_search_by(order) {
                Ok(at) => Ok(ties.start + at),
                Err(at) => Err(ties.start + at),
            },
        }
    }

    /// Appends entries, of no more than there is room for.
    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = Entry<K, V>>) {
        self.entries.extend(entries);
        self.reindex();
    }

    /// Takes note that all entries may have changed.
    fn reindex(&mut self) {
        let Leaf { index, entries } = self;
        index.choose_prefix(entries.len(), |i| entries[i].0.start());
        index.retake_starts(entries.iter().map(|(interval, _)| interval.start()));
        index.measure(entries.len(), |i| entries[i].0.end());
    }

    /// Appends the right neighbour's entries.
    pub(crate) fn append(&mut self, mut right: Arc<Self>)
    where
        K: Clone,
        V: Clone,
    {
        let len = self.entries.len();
        match Arc::get_mut(&mut right) {
            Some(right) => self.entries.append(&mut right.entries),
            None => self.entries.extend_from_slice(&right.entries),
        }
        if self.index.prefix == right.index.prefix {
            let Leaf { index, entries } = self;
            index.append(len, &right.index, entries.len(), |i| entries[i].0.end());
        } else {
            self.reindex();
        }
    }

    /// Inserts an entry, for which there is room. The words are those of its start and end.
    #[inline]
    pub(crate) fn insert(&mut self, at: usize, [start, end]: [A::Word; 2], entry: Entry<K, V>) {
        let Leaf { index, entries } = self;
        entries.insert(at, entry);
        let len = entries.len();
        index.starts.insert(at, len, start);
        index.inserted(at, len, end, |i| entries[i].0.end());
        if index.has_twin(at, len) {
            self.refine(at);
        }
    }

    /// Chooses another prefix if there is a better one, now that the word of the entry at `at` is that of a
    /// neighbour too.
    #[cold]
    fn refine(&mut self, at: usize) {
        let Leaf { index, entries } = self;
        let start = |i: usize| entries[i].0.start();
        if index.is_vague(at, entries.len(), start) && index.choose_prefix(entries.len(), start) {
            index.retake_starts(entries.iter().map(|(interval, _)| interval.start()));
            index.retake_tops(entries.len(), |i| entries[i].0.end());
        }
    }

    /// Moves the second part of the entries to a new leaf, and inserts an entry into one of the two.
    pub(crate) fn split(&mut self, at: usize, entry: Entry<K, V>) -> Arc<Self> {
        let cut = split_at(at, B);
        let keep = if at < cut { cut - 1 } else { cut };
        let mut right = UniqueArc::new(Self::empty());
        right.entries.reserve_exact(B);
        right.entries.extend(self.entries.drain(keep..));
        let Leaf { index, entries } = &mut *right;
        index.split_from(&mut self.index, keep, keep);
        index.measure(entries.len(), |i| entries[i].0.end());
        let words = self.words(&A::probe(entry.0.start()), &entry.0);
        if at < cut {
            self.insert(at, words, entry);
        } else {
            right.insert(at - cut, words, entry);
        }
        right.shareable()
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: usize) -> Entry<K, V> {
        let Leaf { index, entries } = self;
        let entry = entries.remove(at);
        let len = entries.len();
        index.starts.remove(at, len);
        index.removed(at, len, |i| entries[i].0.end());
        entry
    }

    /// Shares entries evenly with the right neighbour. Returns where that one now starts.
    pub(crate) fn balance(&mut self, right: &mut Self) -> K
    where
        K: Clone,
    {
        let keep = (self.entries.len() + right.entries.len()) / 2;
        if keep < self.entries.len() {
            let moved = self.entries.drain(keep..);
            right.entries.splice(..0, moved);
        } else {
            let moved = right.entries.drain(..keep - self.entries.len());
            self.entries.extend(moved);
        }
        self.reindex();
        right.reindex();
        right.entries[0].0.start().clone()
    }
}
