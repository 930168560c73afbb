//! The running maximum of the ends in a node.

use crate::Word;
use crate::words::Words;

/// For each item of a node, which item up to and including it reaches furthest: its *peak*, the first of
/// several.
///
/// An item that reaches further than all before it is its own peak, and a record; the peak of any other
/// is the last record before it. So one bit an item says it all, and most changes are shifts. The ends of
/// records increase; `tops` has for each item the word of its peak's end. So the first item that
/// ends after a key is found by a search, and an update changes the greatest end of its node only if it
/// concerns the last record.
///
/// The ends themselves stay where they are: the caller says how to compare two of them, as
/// `further(i, j)`: whether item `i` ends after item `j`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peaks<W, const B: usize> {
    records: u64,
    tops: Words<W, B>,
}

impl<W: Word, const B: usize> Peaks<W, B> {
    /// The peaks of no items.
    pub(crate) const NONE: Self = {
        assert!(B <= u64::BITS as usize, "there is a bit for each item");
        Peaks {
            records: 0,
            tops: Words::NONE,
        }
    };

    /// The peak of the last item, if there are any.
    #[inline]
    pub(crate) fn last(&self) -> usize {
        (u64::BITS - 1 - (self.records | 1).leading_zeros()) as usize
    }

    /// The peak of an item.
    #[inline]
    pub(crate) fn up_to(&self, i: usize) -> usize {
        let before = self.records & !(!1 << i);
        (u64::BITS - 1 - (before | 1).leading_zeros()) as usize
    }

    /// The word of the end of an item's peak.
    #[inline]
    pub(crate) fn top(&self, i: usize) -> W {
        self.tops.get(i)
    }

    #[inline]
    fn is_record(&self, i: usize) -> bool {
        self.records >> i & 1 == 1
    }

    /// The first of `len` items that ends past the key with this word. Where the words of an end and the
    /// key are equal, `past` says it of an item; it holds for every end beyond one for which it holds.
    #[inline(always)]
    pub(crate) fn first(&self, len: usize, word: W, past: impl Fn(usize) -> bool) -> Option<usize> {
        let at = self.tops.below(word);
        if at < len && self.tops.get(at) == word {
            return self.first_among_equal(at, len, word, past);
        }
        (at < len).then_some(at)
    }

    /// The same, if the word of the peak at `at` is equal, and none before is. Apart, so that searches which
    /// meet no equal words need no room for comparing keys.
    #[inline(never)]
    fn first_among_equal(
        &self,
        mut at: usize,
        len: usize,
        word: W,
        past: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut ties = self.tops.run(at, len, word);
        while ties > 0 {
            let half = ties / 2;
            if past(self.up_to(at + half)) {
                ties = half;
            } else {
                at += half + 1;
                ties -= half + 1;
            }
        }
        (at < len).then_some(at)
    }

    /// Takes note that an item was inserted at `at`, whose end has this word, and there are now `len`.
    #[inline]
    pub(crate) fn inserted(
        &mut self,
        at: usize,
        len: usize,
        end: W,
        further: impl Fn(usize, usize) -> bool,
    ) {
        let before = !(!0 << at);
        self.records = self.records & before | (self.records & !before) << 1;
        self.tops.insert(at, len, end);
        if self.ends_last(at, end, &further) {
            self.records |= 1 << at;
            self.overtake(at, len, end, further);
        } else {
            self.tops.set(at, self.tops.get(at - 1));
        }
    }

    /// Takes note that the end of the item at `at` rose, to one with this word.
    #[inline]
    pub(crate) fn raised(
        &mut self,
        at: usize,
        len: usize,
        end: W,
        further: impl Fn(usize, usize) -> bool,
    ) {
        if self.ends_last(at, end, &further) {
            self.records |= 1 << at;
            self.tops.set(at, end);
            self.overtake(at, len, end, further);
        }
    }

    /// Takes note that the item at `at` was removed, and `len` are left. `word(i)` is that of an end.
    #[inline]
    pub(crate) fn removed(
        &mut self,
        at: usize,
        len: usize,
        word: impl Fn(usize) -> W,
        further: impl Fn(usize, usize) -> bool,
    ) {
        let was_record = self.is_record(at);
        let before = !(!0 << at);
        self.records = self.records & before | self.records >> 1 & !before;
        self.tops.remove(at, len);
        if was_record {
            // Others before the next record may be records without it.
            let mut i = at;
            while i < len && !self.is_record(i) {
                self.settle(i, &word, &further);
                i += 1;
            }
        }
    }

    /// Takes note that the end of the item at `at` changed. `word(i)` is that of an end.
    pub(crate) fn changed(
        &mut self,
        at: usize,
        len: usize,
        word: impl Fn(usize) -> W,
        further: impl Fn(usize, usize) -> bool,
    ) {
        self.settle(at, &word, &further);
        for i in at + 1..len {
            let was_record = self.is_record(i);
            self.settle(i, &word, &further);
            if was_record && self.is_record(i) {
                break;
            }
        }
    }

    /// Appends the peaks of other items to those of the first `at`; then there are `len`. `word(i)` is that
    /// of an end.
    pub(crate) fn append(
        &mut self,
        at: usize,
        right: &Self,
        len: usize,
        word: impl Fn(usize) -> W,
        further: impl Fn(usize, usize) -> bool,
    ) {
        for i in at..len {
            let known = |i: usize| match right.is_record(i - at) {
                true => right.tops.get(i - at),
                false => word(i),
            };
            self.settle(i, &known, &further);
        }
    }

    /// Computes all peaks. `word(i)` is that of an end.
    pub(crate) fn recompute(
        &mut self,
        len: usize,
        word: impl Fn(usize) -> W,
        further: impl Fn(usize, usize) -> bool,
    ) {
        self.truncate(0);
        for i in 0..len {
            self.settle(i, &word, &further);
        }
    }

    /// Computes the words again. `word(i)` is that of an end.
    pub(crate) fn refill(&mut self, len: usize, word: impl Fn(usize) -> W) {
        for i in 0..len {
            let top = match self.is_record(i) {
                true => word(i),
                false => self.tops.get(i - 1),
            };
            self.tops.set(i, top);
        }
    }

    /// Forgets the items from `len` on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.records &= !(!0 << len);
        self.tops.truncate(len);
    }

    /// Whether an end, that of item `at`, is beyond those of all items before.
    #[inline]
    fn ends_last(&self, at: usize, end: W, further: &impl Fn(usize, usize) -> bool) -> bool {
        let Some(before) = at.checked_sub(1) else {
            return true;
        };
        let top = self.tops.get(before);
        end > top || (end == top && further(at, self.up_to(before)))
    }

    /// Makes the item at `at`, a record, the peak of all items after it up to the first that ends later.
    #[inline]
    fn overtake(&mut self, at: usize, len: usize, end: W, further: impl Fn(usize, usize) -> bool) {
        for i in at + 1..len {
            if self.is_record(i) {
                let top = self.tops.get(i);
                if top > end || (top == end && further(i, at)) {
                    break;
                }
                self.records &= !(1 << i);
            }
            self.tops.set(i, end);
        }
    }

    /// Computes the peak of an item, given those before it.
    fn settle(
        &mut self,
        i: usize,
        word: &impl Fn(usize) -> W,
        further: &impl Fn(usize, usize) -> bool,
    ) {
        let end = word(i);
        if self.ends_last(i, end, further) {
            self.records |= 1 << i;
            self.tops.set(i, end);
        } else {
            self.records &= !(1 << i);
            self.tops.set(i, self.tops.get(i - 1));
        }
    }
}
