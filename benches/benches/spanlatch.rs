//! The latch manager alone, on the work that its published original was measured on.

use std::collections::VecDeque;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fastrand::Rng;
use spanlatch::Manager;
use spanset::{Span, SpanSet};

/// The key `k` and 15 digits.
fn key(index: usize) -> String {
    format!("k{index:015}")
}

fn point(index: usize) -> Span {
    Span::point(key(index))
}

fn range(start: usize, end: usize) -> Span {
    Span::range(key(start), key(end)).expect("start < end")
}

fn read(span: Span) -> SpanSet {
    let mut spans = SpanSet::new();
    spans.read(span);
    spans
}

fn write(span: Span) -> SpanSet {
    let mut spans = SpanSet::new();
    spans.write(span);
    spans
}

fn writes(count: usize) -> SpanSet {
    let mut spans = SpanSet::with_capacity(count);
    for index in 0..count {
        spans.write(range(2 * index, 2 * index + 1));
    }
    spans
}

/// Acquire and release where nothing is held.
fn uncontended(criterion: &mut Criterion) {
    let mut both = write(range(10, 20));
    both.read(range(30, 40));
    let cases = [
        ("point_write", write(point(1))),
        ("point_read", read(point(1))),
        ("write+read", both),
        ("writes_10", writes(10)),
        ("writes_100", writes(100)),
    ];
    let mut group = criterion.benchmark_group("uncontended");
    for (name, spans) in &cases {
        let manager = Manager::new();
        group.bench_function(*name, |bencher| {
            bencher.iter(|| manager.acquire(black_box(spans)).expect("not shut down"));
        });
    }
    group.finish();
}

/// Sequence a range of two random keys, releasing the oldest of sixteen; one in R + 1 is a write.
fn read_write_mix(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("read_write_mix");
    for reads in [0, 1, 4, 16, 64, 128, 256] {
        let mut rng = Rng::with_seed(1);
        let mut random_key = || {
            let mut key = vec![b'a'; 100];
            key[1..].fill_with(|| rng.u8(..));
            key
        };
        let sets = Vec::from_iter((0..65_536).map(|index| {
            let (a, b) = (random_key(), random_key());
            let span = Span::range(a.clone().min(b.clone()), a.max(b)).expect("two keys");
            if index % (reads + 1) == 0 {
                write(span)
            } else {
                read(span)
            }
        }));
        let manager = Manager::new();
        let mut line = VecDeque::with_capacity(16);
        let mut next = sets.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(reads), |bencher| {
            bencher.iter(|| {
                let spans = next.next().expect("endless");
                let pending = manager.sequence(spans).expect("not shut down");
                if line.len() == 16 {
                    line.pop_front();
                }
                line.push_back(pending);
            });
        });
    }
    group.finish();
}

/// Acquire and release a point between `N` held ones.
fn held(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("held");
    for (kind, hold) in [("write", write as fn(Span) -> SpanSet), ("read", read)] {
        for count in [100, 10_000] {
            let mut rng = Rng::with_seed(1);
            let manager = Manager::new();
            let mut order = Vec::from_iter(0..count);
            rng.shuffle(&mut order);
            let guards = Vec::from_iter(
                order
                    .iter()
                    .map(|&index| manager.acquire(&hold(point(2 * index))).expect("free")),
            );
            drop(manager.acquire(&write(point(1))).expect("free"));
            for (name, operation) in [("write", write as fn(Span) -> SpanSet), ("read", read)] {
                if (kind, name) == ("read", "read") {
                    continue;
                }
                let probes = Vec::from_iter(
                    (0..65_536).map(|_| operation(point(2 * rng.usize(0..count) + 1))),
                );
                let mut next = probes.iter().cycle();
                let id = BenchmarkId::new(kind, format!("{count}/op={name}"));
                group.bench_function(id, |bencher| {
                    bencher.iter(|| {
                        manager
                            .acquire(next.next().expect("endless"))
                            .expect("free")
                    });
                });
            }
            drop(guards);
        }
    }
    group.finish();
}

/// Writers on threads of their own, queued on one key; from the first release to the last.
fn convoy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("convoy");
    for waiters in [10, 100] {
        group.bench_function(BenchmarkId::from_parameter(waiters), |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| one_convoy(waiters)).sum());
        });
    }
    group.finish();
}

fn one_convoy(waiters: usize) -> Duration {
    let manager = Manager::new();
    let spans = write(point(1));
    let first = manager.acquire(&spans).expect("free");
    thread::scope(|scope| {
        let threads = Vec::from_iter((0..waiters).map(|_| {
            let pending = manager.sequence(&spans).expect("not shut down");
            scope.spawn(move || drop(pending.wait().expect("not shut down")))
        }));
        while manager.counts().waiting < waiters {
            thread::yield_now();
        }
        let start = Instant::now();
        drop(first);
        for thread in threads {
            thread.join().expect("no panic");
        }
        start.elapsed()
    })
}

criterion_group!(benches, uncontended, read_write_mix, held, convoy);
criterion_main!(benches);
