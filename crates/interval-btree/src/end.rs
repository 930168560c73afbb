//! Where an interval ends.

use std::cmp::Ordering;

/// Where an interval ends.
///
/// Ends are ordered by how far they reach: by key, where `Before(k) < At(k)`, and `Unbounded` is
/// the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End<K> {
    /// Everything below this key belongs to the interval, the key itself does not.
    Before(K),
    /// This key is the last one that belongs to the interval.
    At(K),
    /// The interval has no end.
    Unbounded,
}

impl<K> End<K> {
    /// The same end, its key borrowed.
    pub const fn as_ref(&self) -> End<&K> {
        match self {
            End::Before(key) => End::Before(key),
            End::At(key) => End::At(key),
            End::Unbounded => End::Unbounded,
        }
    }

    /// The key, if there is an end.
    pub const fn key(&self) -> Option<&K> {
        match self {
            End::Before(key) | End::At(key) => Some(key),
            End::Unbounded => None,
        }
    }

    const fn is_at(&self) -> bool {
        matches!(self, End::At(_))
    }

    /// The same end with another key.
    pub fn map<L>(self, f: impl FnOnce(K) -> L) -> End<L> {
        match self {
            End::Before(key) => End::Before(f(key)),
            End::At(key) => End::At(f(key)),
            End::Unbounded => End::Unbounded,
        }
    }
}

impl<K: Ord> End<K> {
    /// Whether an interval with this end that starts at or below `key` contains `key`.
    pub fn is_past(&self, key: &K) -> bool {
        match self {
            End::Before(end) => key < end,
            End::At(end) => key <= end,
            End::Unbounded => true,
        }
    }
}

impl<K: Clone> End<&K> {
    /// The same end, its key cloned.
    pub fn cloned(self) -> End<K> {
        self.map(K::clone)
    }
}

impl<K: Ord> Ord for End<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.key(), other.key()) {
            (Some(a), Some(b)) => a.cmp(b).then_with(|| self.is_at().cmp(&other.is_at())),
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }
}

impl<K: Ord> PartialOrd for End<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
