//! The tree alone, on the work that its published original was measured on: `tree/insert/1024` and so on.
//!
//! Keys are byte strings of any length, as the latch manager keeps them; under `bytes/` they are shared, under
//! `inline/` arrays of 16 bytes, and under `whole/` the same without abbreviations.

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use interval_btree::IntervalMap;
use spanlatch_benches::micro::benchmark::Scale;
use spanlatch_benches::micro::tree::{Abbreviated, Ours, benchmarks};

#[path = "shared/bench.rs"]
mod bench;

fn all(c: &mut Criterion) {
    let scale = Scale::asked_for();
    bench::floor(c);
    bench::all(c, "", benchmarks::<Ours>(scale));
    bench::all(c, "inline/", benchmarks::<Abbreviated<[u8; 16]>>(scale));
    bench::all(c, "whole/", benchmarks::<IntervalMap<[u8; 16], u64>>(scale));
    bench::all(c, "bytes/", benchmarks::<Abbreviated<Bytes>>(scale));
}

criterion_group!(benches, all);
criterion_main!(benches);
