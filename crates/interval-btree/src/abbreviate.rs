//! Abbreviations of keys, which nodes compare instead of the keys.

mod bytewise;

use std::fmt;

pub use bytewise::{Bytewise, Prefix, Probe};

/// A way to abbreviate keys to [words](Word), in an order-preserving way.
///
/// A node of a map with abbreviations keeps the words of its keys side by side, and a search
/// compares these. Only where words are equal, it compares keys.
///
/// What the keys of a node have in common says nothing about their order, so a word is taken after
/// a prefix, which each node chooses for itself. The prefix is a hint: an entry may be stored, or
/// looked for, whose key does not begin with it.
///
/// # Law
///
/// For each prefix, words are in the order of keys: if `a <= b`, then the word of `a` is not greater than
/// that of `b`. If an implementation breaks it, a map may answer wrongly; nothing else happens.
pub trait Abbreviate<K> {
    /// What a key is abbreviated to.
    type Word: Word;

    /// What keys are abbreviated relative to. The default must do, but may do badly.
    type Prefix: Clone + Default + PartialEq + fmt::Debug;

    /// A key, made ready for its words to be taken relative to one prefix after another.
    type Probe<'k>: Copy
    where
        K: 'k;

    /// The prefix that makes the most of the keys from `first` to `last`.
    fn prefix(first: &K, last: &K) -> Self::Prefix;

    /// Makes a key ready.
    fn probe(key: &K) -> Self::Probe<'_>;

    /// The word of any key, relative to any prefix.
    fn word(prefix: &Self::Prefix, probe: &Self::Probe<'_>) -> Self::Word;
}

/// What keys are abbreviated to: a number that a processor compares at once, or nothing.
pub trait Word: Copy + Ord + fmt::Debug {
    /// No word is greater.
    const MAX: Self;
}

impl Word for u64 {
    const MAX: Self = u64::MAX;
}

/// No abbreviation.
impl Word for () {
    const MAX: Self = ();
}

/// Keys are not abbreviated: nodes compare whole keys, and keep nothing beside them.
#[derive(Clone, Copy, Debug)]
pub enum Whole {}

impl<K> Abbreviate<K> for Whole {
    type Word = ();
    type Prefix = ();
    type Probe<'k>
        = ()
    where
        K: 'k;

    fn prefix(_: &K, _: &K) {}

    fn probe(_: &K) {}

    fn word((): &(), (): &()) {}
}
