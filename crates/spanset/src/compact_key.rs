//! A key as trees keep it: short ones in place, and ordered by whole numbers.

use std::cmp::Ordering;
use std::fmt;

use triomphe::ThinArc;

use crate::Key;

/// The longest key that is kept in place.
const INLINE: usize = 23;

/// How many bytes a long key keeps in place beside the pointer to all of it.
const HEAD: usize = 8;

/// A copy of a key for use in ordered collections: up to 23 bytes are kept in place, and comparing them
/// follows no pointer; cloning them touches no reference count. Longer keys are shared, and their first
/// eight bytes are kept in place too.
///
/// Ordered as the keys are. 24 bytes, and so is an `Option` of it; a [`Key`] has 32.
///
/// ```
/// use spanset::{CompactKey, Key};
///
/// let (apple, pear) = (Key::from("apple"), Key::from("pear"));
/// assert!(CompactKey::from(&apple) < CompactKey::from(&pear));
/// assert_eq!(CompactKey::from(&apple).to_key(), apple);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CompactKey(Repr);

const _: () = assert!(size_of::<CompactKey>() == 24);
const _: () = assert!(size_of::<Option<CompactKey>>() == 24);

#[derive(PartialEq, Eq, Hash)]
enum Repr {
    /// A key of at most [`INLINE`] bytes, filled up with zeros.
    Inline { bytes: [u8; INLINE], len: Len },
    /// A longer key, and its first bytes.
    Long {
        head: [u8; HEAD],
        all: ThinArc<(), u8>,
    },
}

impl Clone for Repr {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            &Repr::Inline { bytes, len } => Repr::Inline { bytes, len },
            Repr::Long { head, all } => Self::share(*head, all),
        }
    }
}

impl Repr {
    /// Apart, so that copying many keys in place is a loop without calls in it.
    #[cold]
    fn share(head: [u8; HEAD], all: &ThinArc<(), u8>) -> Self {
        let all = all.clone();
        Repr::Long { head, all }
    }
}

/// The length of a key that is kept in place. An enum, because the values that it cannot have tell
/// [`Repr::Long`] from [`Repr::Inline`] without a byte more.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[rustfmt::skip]
enum Len {
    L0, L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11,
    L12, L13, L14, L15, L16, L17, L18, L19, L20, L21, L22, L23,
}

impl Len {
    #[rustfmt::skip]
    const ALL: [Self; INLINE + 1] = {
        use Len::*;
        [
            L0, L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11,
            L12, L13, L14, L15, L16, L17, L18, L19, L20, L21, L22, L23,
        ]
    };
}

impl From<&[u8]> for CompactKey {
    /// O(length); allocates for more than 23 bytes.
    #[inline]
    fn from(key: &[u8]) -> Self {
        let Some(len) = Len::ALL.get(key.len()) else {
            return Self::long(key);
        };
        // The bytes are put together as numbers: parts written to memory and read back at once as a whole
        // would have to wait for each other.
        let word = |at: usize| {
            key[at..]
                .first_chunk()
                .map_or(0, |word| u64::from_le_bytes(*word))
        };
        // The last eight bytes, without those that other words have.
        let rest = |after: usize| match key.len() - after {
            0 => 0,
            len => word(key.len() - 8) >> (8 * (8 - len)),
        };
        let words = match key.len() {
            16.. => [word(0), word(8), rest(16)],
            8.. => [word(0), rest(8), 0],
            _ => [short(key), 0, 0],
        };
        let [first, second, third] = words.map(u64::to_le_bytes);
        let mut bytes = [0; INLINE];
        bytes[..8].copy_from_slice(&first);
        bytes[8..16].copy_from_slice(&second);
        bytes[16..].copy_from_slice(&third[..INLINE - 16]);
        CompactKey(Repr::Inline { bytes, len: *len })
    }
}

/// The bytes of a key of less than eight, as a number.
#[inline]
fn short(key: &[u8]) -> u64 {
    match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            let [first, last] = [first, last].map(|part| u64::from(u32::from_le_bytes(*part)));
            first | last << (8 * (key.len() - 4))
        }
        _ => (key.iter().zip(0..)).fold(0, |word, (byte, place)| {
            word | u64::from(*byte) << (8 * place)
        }),
    }
}

impl From<&Key> for CompactKey {
    /// O(length); allocates for more than 23 bytes.
    #[inline]
    fn from(key: &Key) -> Self {
        CompactKey::from(&key[..])
    }
}

impl CompactKey {
    #[cold]
    fn long(key: &[u8]) -> Self {
        let mut head = [0; HEAD];
        head.copy_from_slice(&key[..HEAD]);
        CompactKey(Repr::Long {
            head,
            all: ThinArc::from_header_and_slice((), key),
        })
    }

    /// The key itself. O(length), in an allocation of its own.
    pub fn to_key(&self) -> Key {
        Key::copy_from_slice(self.as_ref())
    }

    /// The first 16 bytes as a big-endian number, filled up with zeros: an abbreviation that is in the order of
    /// keys, though different keys may have the same. O(1).
    #[inline]
    pub fn leading(&self) -> u128 {
        match &self.0 {
            Repr::Inline { bytes, .. } => {
                u128::from(word(bytes, 0)) << 64 | u128::from(word(bytes, 8))
            }
            Repr::Long { all, .. } => {
                let first = all.slice.first_chunk();
                u128::from_be_bytes(*first.expect("a long key has more than 23 bytes"))
            }
        }
    }

    /// The first eight bytes as a big-endian number, filled up with zeros.
    #[inline]
    fn head(&self) -> u64 {
        match &self.0 {
            Repr::Inline { bytes, .. } => word(bytes, 0),
            Repr::Long { head, .. } => u64::from_be_bytes(*head),
        }
    }
}

/// Eight bytes as a big-endian number.
#[inline]
fn word(bytes: &[u8; INLINE], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

/// The bytes of the key.
impl AsRef<[u8]> for CompactKey {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { bytes, len } => &bytes[..*len as usize],
            Repr::Long { all, .. } => &all.slice,
        }
    }
}

impl Ord for CompactKey {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        // As numbers, the bytes filled up with zeros are ordered as the keys are; where they are equal,
        // the shorter key ended first, and is the lesser.
        match (&self.0, &other.0) {
            (
                Repr::Inline { bytes: a, len },
                Repr::Inline {
                    bytes: b,
                    len: other,
                },
            ) => {
                // Without a loop the compiler sees that most keys differ in the first words.
                let words = |at: usize| (word(a, at), word(b, at));
                let (one, two) = words(0);
                if one != two {
                    return one.cmp(&two);
                }
                let (one, two) = words(8);
                if one != two {
                    return one.cmp(&two);
                }
                let (one, two) = words(15);
                if one != two {
                    return one.cmp(&two);
                }
                (*len as u8).cmp(&(*other as u8))
            }
            _ => (self.head().cmp(&other.head())).then_with(|| self.as_ref().cmp(other.as_ref())),
        }
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
            let leading = [&one, &other].map(|bytes| [&bytes[..], &[0; 16]].concat()[..16].to_vec());
            for (key, leading) in keys.iter().zip(leading) {
                prop_assert_eq!(&key.leading().to_be_bytes()[..], leading);
            }
            prop_assert_eq!(keys[0] == keys[1], one == other);
            prop_assert_eq!(keys[0].to_key(), one);
        }
    }
}
