//! The words of a node, in order and side by side.

use crate::Word;

/// Up to `B` words, which never decrease; those that aren't there are the greatest word.
///
/// How many there are, the node knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<W, const B: usize>([W; B]);

/// So many words are counted through once those before are known to be less: one cache line of them.
const BLOCK: usize = 8;

impl<W: Word, const B: usize> Words<W, B> {
    pub(crate) const NONE: Self = Words([W::MAX; B]);

    #[inline]
    pub(crate) fn get(&self, i: usize) -> W {
        self.0[i]
    }

    /// How many of the words are less than `word`.
    ///
    /// Counted without branches: which block they end in, which two words in it, which of these. Counting
    /// through all of a block, and binary search, were slower.
    #[inline(always)]
    pub(crate) fn below(&self, word: W) -> usize {
        let less = |w: &W| usize::from(*w < word);
        let (blocks, rest) = self.0.as_chunks::<BLOCK>();
        // What follows the last of these has to be looked at in any case.
        let passable = blocks.len() - usize::from(rest.is_empty());
        let passed: usize = blocks[..passable].iter().map(|[.., last]| less(last)).sum();
        let within = match blocks.get(passed) {
            Some(block) => {
                let pair = 2 * (less(&block[1]) + less(&block[3]) + less(&block[5]));
                pair + less(&block[pair]) + less(&block[pair + 1])
            }
            None => rest.partition_point(|w| *w < word),
        };
        passed * BLOCK + within
    }

    /// How many of the first `len` words are equal to `word` from `at` on, where the first of them is.
    #[inline]
    pub(crate) fn run(&self, at: usize, len: usize, word: W) -> usize {
        if size_of::<W>() == 0 {
            return len - at;
        }
        let words = &self.0[at..len];
        (words.iter().position(|w| *w != word)).unwrap_or(words.len())
    }

    #[inline]
    pub(crate) fn set(&mut self, i: usize, word: W) {
        self.0[i] = word;
    }

    /// Inserts a word; there are then `len`.
    #[inline]
    pub(crate) fn insert(&mut self, at: usize, len: usize, word: W) {
        if at < len - 1 {
            self.0.copy_within(at..len - 1, at + 1);
        }
        self.0[at] = word;
    }

    /// Removes a word; `len` are left.
    #[inline]
    pub(crate) fn remove(&mut self, at: usize, len: usize) {
        if at < len {
            self.0.copy_within(at + 1..len + 1, at);
        }
        self.0[len] = W::MAX;
    }

    /// Appends words to the first `len`, as far as there is room.
    pub(crate) fn append(&mut self, len: usize, right: &Self) {
        self.0[len..].copy_from_slice(&right.0[..B - len]);
    }

    /// Forgets the words from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0[len..].fill(W::MAX);
    }

    /// Moves the words from `at` on to the beginning of others.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let mut right = Self::NONE;
        right.0[..B - at].copy_from_slice(&self.0[at..]);
        self.truncate(at);
        right
    }

    /// Replaces all words.
    pub(crate) fn refill(&mut self, words: impl Iterator<Item = W>) {
        let mut words = words.fuse();
        for place in &mut self.0 {
            *place = words.next().unwrap_or(W::MAX);
        }
    }
}
