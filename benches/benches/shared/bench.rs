//! Hands benchmarks to criterion.

use std::time::Duration;

use criterion::Criterion;
use spanlatch_benches::micro::benchmark::{Benchmark, Work};
use spanlatch_benches::micro::tree;

/// What machines are compared by.
pub(crate) fn floor(c: &mut Criterion) {
    all(c, "", vec![Benchmark::new("floor", tree::floor)]);
}

/// All of these; `prefix` comes before the name of each.
pub(crate) fn all(c: &mut Criterion, prefix: &str, benchmarks: Vec<Benchmark>) {
    for benchmark in benchmarks {
        let Benchmark {
            name, unit, set_up, ..
        } = benchmark;
        // Not set up if it is filtered out; criterion comes twice if it is not.
        let (mut set_up, mut ready) = (Some(set_up), None::<Work>);
        c.bench_function(&format!("{prefix}{name}"), |bencher| {
            let work = ready.get_or_insert_with(|| {
                let set_up = set_up.take();
                set_up.expect("it is set up once")()
            });
            bencher.iter_custom(|operations| {
                let whole = operations.next_multiple_of(unit);
                let share = operations as f64 / whole as f64;
                work(whole).time.mul_f64(share).max(Duration::from_nanos(1))
            });
        });
    }
}
