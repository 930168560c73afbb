//! The predecessor on the work on which the original's predecessor was measured.

use criterion::{Criterion, criterion_group, criterion_main};
use spanlatch_benches::micro::benchmark::Scale;
use spanlatch_benches::micro::latches::benchmarks;
use spanlatch_benches::predecessor::Predecessor;

#[path = "shared/bench.rs"]
mod bench;

fn all(c: &mut Criterion) {
    bench::floor(c);
    bench::all(
        c,
        "predecessor/",
        benchmarks::<Predecessor>(Scale::asked_for()),
    );
}

criterion_group!(benches, all);
criterion_main!(benches);
