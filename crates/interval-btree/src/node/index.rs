//! What a node keeps of the starts and ends of its parts, to search them.

use std::ops::Range;

use crate::peaks::Peaks;
use crate::words::Words;
use crate::{Abbreviate, End, Word};

/// The words of a node's starts, and of the furthest end up to each of its parts.
///
/// The parts themselves stay where they are: callers pass a function that gives the end of one.
pub(crate) struct Index<K, const B: usize, A: Abbreviate<K>> {
    /// What all words are relative to.
    pub(crate) prefix: A::Prefix,
    pub(crate) starts: Words<A::Word, B>,
    pub(crate) peaks: Peaks<A::Word, B>,
}

impl<K, const B: usize, A: Abbreviate<K>> Clone for Index<K, B, A> {
    fn clone(&self) -> Self {
        Index {
            prefix: self.prefix.clone(),
            starts: self.starts,
            peaks: self.peaks,
        }
    }

    #[inline]
    fn clone_from(&mut self, from: &Self) {
        self.prefix.clone_from(&from.prefix);
        self.starts = from.starts;
        self.peaks = from.peaks;
    }
}

impl<K, const B: usize, A: Abbreviate<K>> Index<K, B, A> {
    #[inline]
    pub(crate) fn empty() -> Self {
        Index {
            prefix: A::Prefix::default(),
            starts: Words::NONE,
            peaks: Peaks::NONE,
        }
    }

    #[inline]
    pub(crate) fn word(&self, key: &K) -> A::Word {
        word::<K, A>(&self.prefix, key)
    }

    #[inline]
    pub(crate) fn end_word(&self, end: End<&K>) -> A::Word {
        end_word::<K, A>(&self.prefix, end)
    }

    /// How many starts, of `len`, are below a key; or the first of those that have the same word as the
    /// key, as an error: they have to be compared.
    #[inline(always)]
    pub(crate) fn starts_below(&self, len: usize, key: &A::Probe<'_>) -> Result<usize, usize> {
        let word = A::word(&self.prefix, key);
        let at = self.starts.below(word);
        if at < len && self.starts.get(at) == word {
            Err(at)
        } else {
            Ok(at)
        }
    }

    /// The starts, of `len`, that have the same word as that at `at`, the first of them.
    #[inline]
    pub(crate) fn same_starts(&self, len: usize, at: usize) -> Range<usize> {
        at..at + self.starts.run(at, len, self.starts.get(at))
    }

    /// The first of `len` parts whose end is past `key`, as `past` says of a part.
    #[inline(always)]
    pub(crate) fn first_past(
        &self,
        len: usize,
        key: &A::Probe<'_>,
        past: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.peaks.first(len, A::word(&self.prefix, key), past)
    }

    /// Whether another of `len` starts beside `at` has the same word.
    #[inline]
    pub(crate) fn has_twin(&self, at: usize, len: usize) -> bool {
        let same = |i: usize| self.starts.get(i) == self.starts.get(at);
        size_of::<A::Word>() != 0 && (at > 0 && same(at - 1) || at + 1 < len && same(at + 1))
    }

    /// Chooses a prefix for `len` keys in order. Returns whether it is another one than before; the words
    /// then have to be taken again.
    pub(crate) fn choose_prefix<'k>(&mut self, len: usize, key: impl Fn(usize) -> &'k K) -> bool
    where
        K: 'k,
    {
        let Some(last) = len.checked_sub(1) else {
            return false;
        };
        let mut prefix = A::prefix(key(0), key(last));
        // Few keys that are unlike the others must not spoil the words of these.
        let (low, high) = (key(len / 4), key(last - len / 4));
        if word::<K, A>(&prefix, low) == word::<K, A>(&prefix, high) {
            prefix = A::prefix(low, high);
        }
        let changed = prefix != self.prefix;
        self.prefix = prefix;
        changed
    }

    /// Takes the words of all starts again.
    pub(crate) fn retake_starts<'k>(&mut self, keys: impl Iterator<Item = &'k K>)
    where
        K: 'k,
    {
        let prefix = &self.prefix;
        self.starts
            .refill(keys.map(|key| word::<K, A>(prefix, key)));
    }

    /// Takes the words of the peaks again, which are still the same.
    pub(crate) fn retake_tops<'k>(&mut self, len: usize, end: impl Fn(usize) -> End<&'k K>)
    where
        K: 'k,
    {
        let prefix = &self.prefix;
        self.peaks.refill(len, |i| end_word::<K, A>(prefix, end(i)));
    }

    /// Takes over the prefix of the left part of a node that is split, and the words of its starts from
    /// `starts` on; the left part keeps `len` of its peaks.
    pub(crate) fn split_from(&mut self, left: &mut Self, starts: usize, len: usize) {
        self.prefix = left.prefix.clone();
        self.starts = left.starts.split_off(starts);
        left.peaks.truncate(len);
    }
}

impl<K: Ord, const B: usize, A: Abbreviate<K>> Index<K, B, A> {
    /// Takes note that a part was inserted at `at`, whose end has this word, and there are now `len`.
    ///
    #[inline]
    pub(crate) fn inserted<'k>(
        &mut self,
        at: usize,
        len: usize,
        word: A::Word,
        end: impl Fn(usize) -> End<&'k K>,
    ) where
        K: 'k,
    {
        self.peaks.inserted(at, len, word, |i, j| end(i) > end(j));
    }

    /// Takes note that the end of the part at `at` rose, to one with this word.
    #[inline]
    pub(crate) fn raised<'k>(
        &mut self,
        at: usize,
        len: usize,
        word: A::Word,
        end: impl Fn(usize) -> End<&'k K>,
    ) where
        K: 'k,
    {
        self.peaks.raised(at, len, word, |i, j| end(i) > end(j));
    }

    /// Takes note that the part at `at` was removed, and `len` are left.
    #[inline]
    pub(crate) fn removed<'k>(&mut self, at: usize, len: usize, end: impl Fn(usize) -> End<&'k K>)
    where
        K: 'k,
    {
        let prefix = &self.prefix;
        self.peaks.removed(
            at,
            len,
            |i| end_word::<K, A>(prefix, end(i)),
            |i, j| end(i) > end(j),
        );
    }

    /// Takes note that the end of the part at `at` changed; there are `len`.
    pub(crate) fn changed<'k>(&mut self, at: usize, len: usize, end: impl Fn(usize) -> End<&'k K>)
    where
        K: 'k,
    {
        let prefix = &self.prefix;
        self.peaks.changed(
            at,
            len,
            |i| end_word::<K, A>(prefix, end(i)),
            |i, j| end(i) > end(j),
        );
    }

    /// Appends the words of a right neighbour, which has the same prefix, to the first `at` ones; then there
    /// are `len`.
    pub(crate) fn append<'k>(
        &mut self,
        at: usize,
        right: &Self,
        len: usize,
        end: impl Fn(usize) -> End<&'k K>,
    ) where
        K: 'k,
    {
        let prefix = &self.prefix;
        self.starts.append(at, &right.starts);
        self.peaks.append(
            at,
            &right.peaks,
            len,
            |i| end_word::<K, A>(prefix, end(i)),
            |i, j| end(i) > end(j),
        );
    }

    /// Looks again at the ends of all `len` parts.
    pub(crate) fn measure<'k>(&mut self, len: usize, end: impl Fn(usize) -> End<&'k K>)
    where
        K: 'k,
    {
        let prefix = &self.prefix;
        self.peaks.recompute(
            len,
            |i| end_word::<K, A>(prefix, end(i)),
            |i, j| end(i) > end(j),
        );
    }

    /// Whether another of `len` starts beside `at` has the same word, and is not the same key.
    pub(crate) fn is_vague<'k>(&self, at: usize, len: usize, key: impl Fn(usize) -> &'k K) -> bool
    where
        K: 'k,
    {
        let differs = |i: usize| self.starts.get(i) == self.starts.get(at) && key(i) != key(at);
        at > 0 && differs(at - 1) || at + 1 < len && differs(at + 1)
    }
}

#[inline]
fn end_word<K, A: Abbreviate<K>>(prefix: &A::Prefix, end: End<&K>) -> A::Word {
    end.key()
        .map_or(A::Word::MAX, |key| word::<K, A>(prefix, key))
}

#[inline]
fn word<K, A: Abbreviate<K>>(prefix: &A::Prefix, key: &K) -> A::Word {
    A::word(prefix, &A::probe(key))
}
