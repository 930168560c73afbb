//! A key as trees keep it: short ones in place, as three numbers.

use std::cmp::Ordering;
use std::fmt;

use triomphe::ThinArc;

use crate::Key;

/// The longest key that is kept in place.
const INLINE: usize = 23;

/// The length that stands for "longer than [`INLINE`]".
const LONG: u64 = INLINE as u64 + 1;

/// A copy of a key for use in ordered collections: up to 23 bytes are kept in place, and comparing them
/// follows no pointer; cloning them touches no reference count. Longer keys are shared.
///
/// Ordered as the keys are. 32 bytes, as a [`Key`] is.
///
/// ```
/// use spanset::{CompactKey, Key};
///
/// let (apple, pear) = (Key::from("apple"), Key::from("pear"));
/// assert!(CompactKey::from(&apple) < CompactKey::from(&pear));
/// assert_eq!(CompactKey::from(&apple).to_key(), apple);
/// ```
// `words` are the first 23 bytes, filled up with zeros, and then the length, or 24 for anything
// longer, as big-endian numbers. They order keys as their bytes do: where the bytes are equal, the
// shorter key ended first, and is the lesser. Only two long keys with equal words remain to be compared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CompactKey {
    words: [u64; 3],
    /// All bytes of a long key.
    long: Option<ThinArc<(), u8>>,
}

impl From<&[u8]> for CompactKey {
    /// O(length); allocates for more than 23 bytes.
    fn from(key: &[u8]) -> Self {
        let rest = |at: usize| key.get(at..INLINE.min(key.len())).unwrap_or_default();
        let long = key.len() > INLINE;
        let length = if long { LONG } else { key.len() as u64 };
        CompactKey {
            words: [word(key), word(rest(8)), word(rest(16)) | length],
            long: long.then(|| ThinArc::from_header_and_slice((), key)),
        }
    }
}

/// The first eight bytes as a big-endian number, filled up with zeros.
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => (bytes.iter().zip((0..8).rev()))
            .map(|(byte, place)| u64::from(*byte) << (8 * place))
            .sum(),
    }
}

impl From<&Key> for CompactKey {
    /// O(length); allocates for more than 23 bytes.
    fn from(key: &Key) -> Self {
        CompactKey::from(&key[..])
    }
}

impl CompactKey {
    /// The key itself. O(length), in an allocation of its own.
    pub fn to_key(&self) -> Key {
        match &self.long {
            Some(long) => Key::copy_from_slice(&long.slice),
            None => {
                let mut bytes = [0; INLINE + 1];
                for (bytes, word) in bytes.chunks_exact_mut(8).zip(self.words) {
                    bytes.copy_from_slice(&word.to_be_bytes());
                }
                Key::copy_from_slice(&bytes[..usize::from(bytes[INLINE])])
            }
        }
    }
}

impl Ord for CompactKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // Most keys differ in the first word; without a loop the compiler sees that.
        let ([a, b, c], [x, y, z]) = (self.words, other.words);
        (a.cmp(&x))
            .then_with(|| b.cmp(&y).then_with(|| c.cmp(&z)))
            .then_with(|| match (&self.long, &other.long) {
                (Some(one), Some(other)) => one.slice.cmp(&other.slice),
                _ => Ordering::Equal,
            })
    }
}

impl PartialOrd for CompactKey {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for CompactKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_key().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0xff)], 0..30)
    }

    proptest! {
        #[test]
        fn a_compact_key_is_ordered_as_its_bytes_and_gives_them_back(
            one in bytes(),
            mut other in bytes(),
            shared in 0..30_usize,
        ) {
            let shared = shared.min(one.len());
            other.splice(..shared.min(other.len()), one[..shared].iter().copied());
            let keys = [&one, &other].map(|bytes| CompactKey::from(&bytes[..]));
            prop_assert_eq!(keys[0].cmp(&keys[1]), one.cmp(&other));
            prop_assert_eq!(keys[0] == keys[1], one == other);
            prop_assert_eq!(keys[0].to_key(), one);
        }
    }
}
