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
    #[inline]
    pub const fn as_ref(&self) -> End<&K> {
        match self {
            End::Before(key) => End::Before(key),
            End::At(key) => End::At(key),
            End::Unbounded => End::Unbounded,
        }
    }

    /// The key, if there is an end.
    #[inline]
    pub const fn key(&self) -> Option<&K> {
        match self {
            End::Before(key) | End::At(key) => Some(key),
            End::Unbounded => None,
        }
    }

    #[inline]
    const fn is_at(&self) -> bool {
        matches!(self, End::At(_))
    }

    /// The same end with another key.
    #[inline]
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
    #[inline]
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
    #[inline]
    pub fn cloned(self) -> End<K> {
        self.map(K::clone)
    }
}

impl<K: Ord> Ord for End<K> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (End::Unbounded, End::Unbounded) => Ordering::Equal,
            (End::Unbounded, _) => Ordering::Greater,
            (_, End::Unbounded) => Ordering::Less,
            (End::Before(a) | End::At(a), End::Before(b) | End::At(b)) => {
                a.cmp(b).then_with(|| self.is_at().cmp(&other.is_at()))
            }
        }
    }
}

impl<K: Ord> PartialOrd for End<K> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
