//! Keys that are byte strings, abbreviated to the eight bytes after a prefix.

use triomphe::ThinArc;

use super::Abbreviate;

/// Keys that are ordered as the bytes they can be seen as, abbreviated to the eight bytes that follow
/// what a node's keys have in common: `[u8; N]`, `Vec<u8>`, `String`, `Bytes` and the like.
#[derive(Clone, Copy, Debug)]
pub enum Bytewise {}

/// What the keys of a node begin with, or most of them: see [`Bytewise`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prefix {
    len: usize,
    /// The first bytes as big-endian numbers, filled up with zeros.
    head: [u64; 2],
    /// All of a prefix that is longer than [`SHORT`].
    long: Option<ThinArc<(), u8>>,
}

/// The longest prefix that is kept in place.
const SHORT: usize = 16;

/// A key's bytes, the first of them as numbers: see [`Bytewise`].
#[derive(Clone, Copy, Debug)]
pub struct Probe<'k> {
    /// The first bytes as big-endian numbers, filled up with zeros, and a word of zeros.
    words: [u64; 4],
    key: &'k [u8],
}

impl<K: AsRef<[u8]>> Abbreviate<K> for Bytewise {
    type Word = u64;
    type Prefix = Prefix;
    type Probe<'k>
        = Probe<'k>
    where
        K: 'k;

    fn prefix(first: &K, last: &K) -> Prefix {
        Prefix::common(first.as_ref(), last.as_ref())
    }

    #[inline]
    fn probe(key: &K) -> Probe<'_> {
        Probe::new(key.as_ref())
    }

    #[inline]
    fn word(prefix: &Prefix, probe: &Probe<'_>) -> u64 {
        prefix.word(probe)
    }
}

impl Prefix {
    fn common(first: &[u8], last: &[u8]) -> Self {
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        // As long as the word reaches the ends of keys, a shorter prefix is one that more keys have.
        let len = common.min(first.len().max(last.len()).saturating_sub(8));
        let all = &first[..len];
        let [head @ .., _, _] = Probe::new(all).words;
        Prefix {
            len,
            head,
            long: (len > SHORT).then(|| ThinArc::from_header_and_slice((), all)),
        }
    }

    /// The eight bytes after the prefix, filled up with zeros; or the least or the greatest word for a
    /// key that is below or above all that begin with the prefix.
    #[inline(always)]
    fn word(&self, probe: &Probe<'_>) -> u64 {
        let words = &probe.words;
        let Some(mask) = MASKS.get(self.len) else {
            return self.word_after_long(probe.key);
        };
        // A key that ends within the prefix is taken as if zeros followed, which keeps the order.
        let differs = [0, 1].map(|i| (words[i] ^ self.head[i]) & mask[i]);
        if differs[0] | differs[1] == 0 {
            let (i, bits) = (self.len / 8, 8 * (self.len % 8));
            // What comes from the second word is moved in two steps, since it may be nothing.
            words[i] << bits | words[i + 1] >> 1 >> (63 - bits)
        } else if (words[0], words[1]) < (self.head[0], self.head[1]) {
            0
        } else {
            u64::MAX
        }
    }

    #[cold]
    fn word_after_long(&self, key: &[u8]) -> u64 {
        let prefix = self.long.as_ref().map_or(&[][..], |long| &long.slice);
        match key.strip_prefix(prefix) {
            Some(rest) => Probe::new(rest).words[0],
            None if key < prefix => 0,
            None => u64::MAX,
        }
    }
}

impl<'k> Probe<'k> {
    #[inline]
    fn new(key: &'k [u8]) -> Self {
        let len = key.len();
        let word = |at: usize| {
            key[at..]
                .first_chunk()
                .map_or(0, |word| u64::from_be_bytes(*word))
        };
        // The last eight bytes, moved up by as many as are missing from the eight that end at `end`.
        let last = |end: usize| word(len - 8) << 1 << (8 * (end - len) - 1);
        let words = match len {
            24.. => [word(0), word(8), word(16), 0],
            17..24 => [word(0), word(8), last(24), 0],
            16 => [word(0), word(8), 0, 0],
            9..16 => [word(0), last(16), 0, 0],
            8 => [word(0), 0, 0, 0],
            _ => [few(key), 0, 0, 0],
        };
        Probe { words, key }
    }
}

/// Fewer than eight bytes as a big-endian number, filled up with zeros.
#[inline]
fn few(key: &[u8]) -> u64 {
    match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => {
            let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
            u64::from(first) << 32 | u64::from(last) << (8 * (8 - key.len()))
        }
        _ => (key.iter().zip((0..8).rev()))
            .map(|(byte, place)| u64::from(*byte) << (8 * place))
            .sum(),
    }
}

/// The bits of the first 16 bytes that belong to a prefix of each length.
const MASKS: [[u64; 2]; SHORT + 1] = {
    let mut masks = [[0; 2]; SHORT + 1];
    let mut len = 1;
    while len <= SHORT {
        let all = !0_u128 << (128 - 8 * len);
        masks[len] = [(all >> 64) as u64, all as u64];
        len += 1;
    }
    masks
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0xff)], 0..30)
    }

    fn word(prefix: &Prefix, key: &[u8]) -> u64 {
        prefix.word(&Probe::new(key))
    }

    /// Keys with much in common.
    fn keys() -> impl Strategy<Value = [Vec<u8>; 4]> {
        (
            bytes(),
            [bytes(), bytes(), bytes(), bytes()],
            [(); 4].map(|()| 0..30_usize),
        )
            .prop_map(|(common, mut keys, shared)| {
                for (key, shared) in keys.iter_mut().zip(shared) {
                    let shared = &common[..shared.min(common.len())];
                    key.splice(..shared.len().min(key.len()), shared.iter().copied());
                }
                keys
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn words_are_in_the_order_of_keys_whatever_the_prefix([first, last, a, b] in keys()) {
            let prefix = Prefix::common(&first, &last);
            let (a, b) = (a.clone().min(b.clone()), a.max(b));
            prop_assert!(word(&prefix, &a) <= word(&prefix, &b));
        }

        #[test]
        fn a_word_is_what_follows_the_prefix([first, last, ..] in keys()) {
            let prefix = Prefix::common(&first, &last);
            prop_assert!(first.starts_with(&last[..prefix.len]));
            let (short, long) = (first.len().min(last.len()), first.len().max(last.len()));
            let differs = prefix.len == short || first[prefix.len] != last[prefix.len];
            prop_assert!(differs || prefix.len == long.saturating_sub(8));
            let mut after = first[prefix.len..].to_vec();
            after.resize(8, 0);
            prop_assert_eq!(word(&prefix, &first).to_be_bytes(), &after[..]);
        }
    }
}
