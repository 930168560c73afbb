//! The latch manager alone, on the work that its published original was measured on.

use criterion::{Criterion, criterion_group, criterion_main};
use spanlatch::Manager;
use spanlatch_benches::micro::benchmark::Scale;
use spanlatch_benches::micro::latches::benchmarks;

#[path = "shared/bench.rs"]
mod bench;

fn all(c: &mut Criterion) {
    bench::floor(c);
    bench::all(c, "", benchmarks::<Manager>(Scale::asked_for()));
}

criterion_group!(benches, all);
criterion_main!(benches);
