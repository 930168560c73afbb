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
            name,
            unit,
            most,
            set_up,
            ..
        } = benchmark;
        let name = format!("{prefix}{name}");
        let (group, function) = name.rsplit_once('/').unwrap_or(("machine", &name));
        let mut group = c.benchmark_group(group);
        if most < u64::MAX {
            // Preparing them takes a second.
            group.sample_size(10);
        }
        // Not set up if it is filtered out; criterion comes twice if it is not.
        let (mut set_up, mut ready) = (Some(set_up), None::<Work>);
        group.bench_function(function, |bencher| {
            let work = ready.get_or_insert_with(|| {
                let set_up = set_up.take();
                set_up.expect("it is set up once")()
            });
            bencher.iter_custom(|operations| {
                let done = operations.next_multiple_of(unit).min(most);
                let share = operations as f64 / done as f64;
                work(done).time.mul_f64(share).max(Duration::from_nanos(1))
            });
        });
    }
}
