//! Keys, spans and span sets of the microbenchmarks, the same for every latch manager.

use bytes::Bytes;
use spanset::{Access, Declaration, Span, SpanSet};

use super::rng::SplitMix64;

/// Key number `i`: 16 bytes, `k` and 15 decimal digits.
pub fn key(i: u64) -> Bytes {
    format!("k{i:015}").into()
}

/// The point of key `i`.
pub fn point(i: u64) -> Span {
    Span::point(key(i))
}

/// The range from key `i` up to key `j`; `i` must be below `j`.
pub fn range(i: u64, j: u64) -> Span {
    Span::range(key(i), key(j)).expect("i is below j")
}

/// A request that touches one span, as of every timestamp.
pub fn request(access: Access, span: Span) -> SpanSet {
    [Declaration::global(access, span)].into_iter().collect()
}

/// One request with `n` disjoint writes.
pub fn writes(n: u64) -> SpanSet {
    (0..n)
        .map(|i| Declaration::global(Access::Write, range(2 * i, 2 * i + 1)))
        .collect()
}

/// The mix of reads and writes of which a FIFO of 16 is held: one range of two random keys of 100
/// bytes that start with 'a', a write iff its number divides by `reads_per_write + 1`. It goes round
/// after a few thousand requests, a multiple of that.
pub fn read_write_mix(reads_per_write: u64) -> Vec<SpanSet> {
    let mut rng = SplitMix64::new(0);
    let mut long_key = || {
        let mut key = vec![b'a'; 100];
        key[1..].fill_with(|| rng.next_u64() as u8);
        key
    };
    let request_of = |number: u64| {
        let (one, other) = (long_key(), long_key());
        let span = Span::range(one.clone().min(other.clone()), one.max(other));
        let access = if number.is_multiple_of(reads_per_write + 1) {
            Access::Write
        } else {
            Access::Read
        };
        request(access, span.expect("99 random bytes differ"))
    };
    (0..4096_u64.next_multiple_of(reads_per_write + 1))
        .map(request_of)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sixteen_bytes_in_numeric_order() {
        assert_eq!(key(42), "k000000000000042");
        assert!(key(9) < key(10));
    }

    #[test]
    fn one_in_so_many_requests_of_the_mix_is_a_write() {
        let is_write = |set: &SpanSet| set.iter().all(|d| d.access() == Access::Write);
        let mix = read_write_mix(4);
        assert_eq!(
            mix.iter().filter(|set| is_write(set)).count() * 5,
            mix.len()
        );
        assert!(read_write_mix(0).iter().all(is_write));
    }
}
