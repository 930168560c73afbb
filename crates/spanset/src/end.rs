//! Where a span ends.

use std::cmp::Ordering;

use bytes::{BufMut, BytesMut};

use crate::Key;

/// Where a span ends, borrowed from it.
///
/// Ends are ordered by what lies below them. For one key, `Before(k) < At(k) < Unbounded`; and
/// because nothing lies between `k` and `k` followed by a zero byte, `At(k)` and `Before(k\0)` are
/// the same end and compare equal.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// Just below the key: the key itself is outside.
    Before(&'a Key),
    /// Just above the key: it is the last key inside.
    At(&'a Key),
    /// Above every key.
    Unbounded,
}

impl<'a> End<'a> {
    /// The key that the end is next to.
    pub(crate) fn key(self) -> Option<&'a Key> {
        match self {
            End::Before(key) | End::At(key) => Some(key),
            End::Unbounded => None,
        }
    }

    /// The lowest key above the end; none is above [`Unbounded`](End::Unbounded).
    ///
    /// O(1), but O(length of the key) for [`At`](End::At), whose key is followed by itself and a zero
    /// byte.
    pub fn key_above(self) -> Option<Key> {
        match self {
            End::Before(key) => Some(key.clone()),
            End::At(key) => Some(successor(key)),
            End::Unbounded => None,
        }
    }
}

impl Ord for End<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (End::Unbounded, End::Unbounded) => Ordering::Equal,
            (End::Unbounded, _) => Ordering::Greater,
            (_, End::Unbounded) => Ordering::Less,
            (End::Before(a), End::Before(b)) | (End::At(a), End::At(b)) => a.cmp(b),
            (End::Before(a), End::At(b)) => with_successor(a, b),
            (End::At(a), End::Before(b)) => with_successor(b, a).reverse(),
        }
    }
}

/// Compares `a` with the successor of `b`, which is `b` followed by a zero byte.
fn with_successor(a: &[u8], b: &[u8]) -> Ordering {
    match a.strip_prefix(b) {
        Some([]) => Ordering::Less,
        Some([0]) => Ordering::Equal,
        Some(_) => Ordering::Greater,
        None => a.cmp(b),
    }
}

impl PartialOrd for End<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for End<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for End<'_> {}

/// The next key: the same followed by a zero byte.
pub(crate) fn successor(key: &Key) -> Key {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}
