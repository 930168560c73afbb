//! The predecessor on the work on which the original's predecessor was measured.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use spanlatch_benches::micro::{Floor, SplitMix64, point, range, read_write_mix, request, writes};
use spanlatch_benches::predecessor::{Guard, Predecessor};
use spanset::Access::{Read, Write};
use spanset::{Span, SpanSet};

fn acquire(queue: &Predecessor, spans: &SpanSet) -> Guard {
    let mut pending = queue.sequence(spans);
    match Pin::new(&mut pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(guard)) => guard,
        other => panic!("nothing is in the way, but {other:?}"),
    }
}

/// The machine's own speed, by which figures of different machines are compared.
fn floor(c: &mut Criterion) {
    let mut floor = Floor::new();
    c.bench_function("floor", |b| b.iter(|| floor.step()));
}

fn read_only_mix(c: &mut Criterion) {
    let mut group = c.benchmark_group("predecessor/read_only_mix");
    for held in [1, 16, 256] {
        let spans = request(Read, Span::range("a", "b").expect("in order"));
        group.bench_function(BenchmarkId::from_parameter(held), |b| {
            b.iter_custom(|operations| {
                let queue = Predecessor::new();
                let _held: Vec<Guard> = (0..held).map(|_| acquire(&queue, &spans)).collect();
                let mut more = Vec::with_capacity(operations as usize);
                let start = Instant::now();
                for _ in 0..operations {
                    more.push(acquire(&queue, &spans));
                }
                start.elapsed()
            });
        });
    }
}

fn read_write_mix_of(c: &mut Criterion) {
    let mut group = c.benchmark_group("predecessor/read_write_mix");
    for reads_per_write in [0, 1, 4, 16, 64, 128, 256] {
        let mix = read_write_mix(reads_per_write);
        let queue = Predecessor::new();
        // As in the original, nothing waits: what is pending is released like what is held.
        let mut fifo = VecDeque::with_capacity(17);
        let mut next = mix.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(reads_per_write), |b| {
            b.iter(|| {
                let pending = queue.sequence(next.next().expect("it goes round"));
                if fifo.len() == 16 {
                    drop(fifo.pop_front());
                }
                fifo.push_back(pending);
            });
        });
    }
}

fn uncontended(c: &mut Criterion) {
    let mut group = c.benchmark_group("predecessor/uncontended");
    let mut both = request(Write, range(10, 20));
    both.read(range(30, 40));
    let work = [
        ("point_write", request(Write, point(1))),
        ("point_read", request(Read, point(1))),
        ("write+read", both),
        ("writes_10", writes(10)),
        ("writes_100", writes(100)),
    ];
    for (name, spans) in work {
        let queue = Predecessor::new();
        group.bench_function(name, |b| {
            b.iter(|| drop(black_box(acquire(&queue, &spans))))
        });
    }
}

fn held(c: &mut Criterion) {
    let mut group = c.benchmark_group("predecessor/held/write");
    for n in [100, 10_000, 1_000_000] {
        // Made when the first of its benchmarks is not filtered out.
        let line = LazyCell::new(|| {
            let queue = Predecessor::new();
            let mut order: Vec<u64> = (0..n).collect();
            SplitMix64::new(2).shuffle(&mut order);
            let write = |i: &u64| acquire(&queue, &request(Write, point(2 * i)));
            let held: Vec<Guard> = order.iter().map(write).collect();
            (queue, held)
        });
        for (op, access) in [("write", Write), ("read", Read)] {
            let mut rng = SplitMix64::new(3);
            let mut probe = || request(access, point(2 * rng.below(n) + 1));
            let probes: Vec<SpanSet> = (0..65_536).map(|_| probe()).collect();
            let mut next = probes.iter().cycle();
            group.bench_function(format!("{n}/op={op}"), |b| {
                let queue = &line.0;
                b.iter(|| {
                    drop(black_box(acquire(
                        queue,
                        next.next().expect("it goes round"),
                    )))
                });
            });
        }
    }
}

criterion_group!(
    benches,
    floor,
    read_only_mix,
    read_write_mix_of,
    uncontended,
    held
);
criterion_main!(benches);
