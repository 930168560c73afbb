//! The work of the microbenchmarks: keys, spans and orders, the same for every latch manager.

use std::collections::BTreeMap;
use std::hint::black_box;

use bytes::Bytes;
use spanset::{Access, Declaration, Span, SpanSet};

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

/// A small generator whose sequence is part of the definition of the work (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is at least 1. (The bias is below n / 2^64.)
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }

    /// Shuffles in place, as Fisher and Yates do.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
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

/// What machines are compared by: an ordered map of 1,024 entries, of which each operation takes one
/// out and puts it in again. Returns the sum of what it took out; `times` operations.
#[derive(Debug)]
pub struct Floor {
    map: BTreeMap<([u8; 16], u64), u64>,
    order: Vec<([u8; 16], u64)>,
    at: usize,
}

impl Floor {
    /// What one operation took, in nanoseconds, where the published microbenchmarks ran.
    pub const PUBLISHED_NS: f64 = 140.0;

    /// The map, and a random order in which to go through it.
    pub fn new() -> Self {
        let mut order: Vec<_> = (0..1024)
            .map(|i| (key(i)[..].try_into().expect("keys have 16 bytes"), i))
            .collect();
        let map = order.iter().map(|entry| (*entry, entry.1)).collect();
        SplitMix64::new(1).shuffle(&mut order);
        Self { map, order, at: 0 }
    }

    /// One operation.
    pub fn step(&mut self) {
        let entry = self.order[self.at];
        self.at = (self.at + 1) % self.order.len();
        let value = black_box(self.map.remove(&entry)).unwrap_or_default();
        self.map.insert(entry, value);
    }
}

impl Default for Floor {
    fn default() -> Self {
        Self::new()
    }
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
    fn the_generator_is_the_published_one() {
        let mut rng = SplitMix64::new(1234567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(
            first,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423
            ]
        );
    }

    #[test]
    fn a_shuffle_keeps_what_it_orders() {
        let mut items: Vec<u64> = (0..100).collect();
        SplitMix64::new(3).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert!(items.into_iter().eq(0..100));
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

    #[test]
    fn the_floor_keeps_its_entries() {
        let mut floor = Floor::new();
        (0..3000).for_each(|_| floor.step());
        assert_eq!(floor.map.len(), 1024);
    }
}
