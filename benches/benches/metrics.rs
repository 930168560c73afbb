//! What recording costs those who are measured, and what looking costs those who look.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use spanlatch_metrics::health::Health;
use spanlatch_metrics::{Counter, Gauge, Histogram, Registry, ReplicaMetrics};

fn recording(c: &mut Criterion) {
    let mut group = c.benchmark_group("metrics");
    let counter = Counter::default();
    group.bench_function("counter/inc", |b| b.iter(|| counter.inc()));

    let share = Gauge::default().share();
    group.bench_function("share/inc+dec", |b| {
        b.iter(|| {
            share.inc();
            share.dec();
        });
    });

    let histogram = Histogram::default();
    let mut nanos = 1;
    group.bench_function("histogram/observe", |b| {
        b.iter(|| {
            // All buckets in turn, so that the search is not predicted.
            nanos = nanos * 7 % 100_000_000_003;
            histogram.observe(Duration::from_nanos(black_box(nanos)));
        });
    });

    group.bench_function("replica/default", |b| b.iter(ReplicaMetrics::default));
    group.finish();
}

fn looking(c: &mut Criterion) {
    let mut group = c.benchmark_group("metrics");
    for owners in [1, 100] {
        let mut registry = Registry::new();
        for owner in 0..owners {
            ReplicaMetrics::default()
                .register(&mut registry, &format!("store-{owner}"))
                .expect("each owner registers once");
        }
        group.bench_function(BenchmarkId::new("encode", owners), |b| {
            let mut text = String::new();
            b.iter(|| {
                text.clear();
                registry.encode(&mut text).expect("a string takes it all");
                text.len()
            });
        });
        let mut health = Health::default();
        group.bench_function(BenchmarkId::new("health", owners), |b| {
            b.iter(|| health.check(&registry));
        });
    }
    group.finish();
}

criterion_group!(benches, recording, looking);
criterion_main!(benches);
