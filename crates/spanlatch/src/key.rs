//! A key as the trees keep it: short ones in place, as three numbers.

use std::cmp::Ordering;
use std::fmt;

use spanset::Key;
use triomphe::ThinArc;

/// The longest key that is kept in place.
const INLINE: usize = 23;

/// The length that stands for "longer than [`INLINE`]".
const LONG: u64 = INLINE as u64 + 1;

/// A copy of a key, so that comparing two reads no memory beside theirs and copying one touches no
/// reference count, unless it is longer than 23 bytes.
///
/// `words` are the first 23 bytes, filled up with zeros, and then the length, or 24 for anything longer;
/// as big-endian numbers. They order keys as their bytes do: where the bytes are equal, the shorter key
/// ended first, and is the lesser. Only two long keys whose words are equal remain to be compared.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LatchKey {
    words: [u64; 3],
    /// All bytes of a long key.
    long: Option<ThinArc<(), u8>>,
}

impl From<&Key> for LatchKey {
    fn from(key: &Key) -> Self {
        let mut padded = [0; INLINE + 1];
        let inline = key.len().min(INLINE);
        padded[..inline].copy_from_slice(&key[..inline]);
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&padded[at..at + 8]);
            u64::from_be_bytes(bytes)
        };
        let long = key.len() > INLINE;
        let length = if long { LONG } else { key.len() as u64 };
        LatchKey {
            words: [word(0), word(8), word(16) | length],
            long: long.then(|| ThinArc::from_header_and_slice((), key)),
        }
    }
}

impl LatchKey {
    /// The key's bytes.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        match &self.long {
            Some(long) => long.slice.to_vec(),
            None => {
                let mut bytes =
                    Vec::from_iter(self.words.iter().flat_map(|word| word.to_be_bytes()));
                bytes.truncate(usize::from(bytes[INLINE]));
                bytes
            }
        }
    }
}

impl Ord for LatchKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.words
            .cmp(&other.words)
            .then_with(|| match (&self.long, &other.long) {
                (Some(one), Some(other)) => one.slice.cmp(&other.slice),
                _ => Ordering::Equal,
            })
    }
}

impl PartialOrd for LatchKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for LatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.to_vec().escape_ascii())
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
        fn a_latch_key_is_ordered_as_its_bytes_and_gives_them_back(
            one in bytes(),
            mut other in bytes(),
            shared in 0..30_usize,
        ) {
            let shared = shared.min(one.len());
            other.splice(..shared.min(other.len()), one[..shared].iter().copied());
            let keys = [&one, &other].map(|bytes| LatchKey::from(&Key::from(bytes.clone())));
            prop_assert_eq!(keys[0].cmp(&keys[1]), one.cmp(&other));
            prop_assert_eq!(keys[0] == keys[1], one == other);
            prop_assert_eq!(keys[0].to_vec(), one);
        }
    }
}
