//! The work on which latch managers are measured alone: one definition for all of them.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use criterion::{BenchmarkId, Criterion};
use spanlatch_benches::micro::{Floor, SplitMix64, point, range, read_write_mix, request, writes};
use spanset::Access::{Read, Write};
use spanset::{Span, SpanSet};

/// What is measured.
pub(crate) trait Measured: Sized {
    type Guard;
    type Pending: Future<Output = Result<Self::Guard, Self::Error>> + Unpin;
    type Error: std::fmt::Debug;

    /// One with nothing in line.
    fn new() -> Self;

    /// Takes a place in line, without waiting.
    fn sequence(&self, spans: &SpanSet) -> Self::Pending;

    /// Acquires what nothing is in the way of.
    fn acquire(&self, spans: &SpanSet) -> Self::Guard {
        let mut pending = self.sequence(spans);
        match Pin::new(&mut pending).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => guard.expect("not shut down"),
            Poll::Pending => panic!("nothing is in the way"),
        }
    }
}

/// All of the work; `prefix` comes before the name of each group.
pub(crate) fn all<M: Measured>(c: &mut Criterion, prefix: &str) {
    floor(c);
    read_only_mix::<M>(c, prefix);
    read_write_mixes::<M>(c, prefix);
    uncontended::<M>(c, prefix);
    held::<M>(c, prefix);
}

/// The machine's own speed, by which figures of different machines are compared.
fn floor(c: &mut Criterion) {
    let mut floor = Floor::new();
    c.bench_function("floor", |b| b.iter(|| floor.step()));
}

fn read_only_mix<M: Measured>(c: &mut Criterion, prefix: &str) {
    let mut group = c.benchmark_group(format!("{prefix}read_only_mix"));
    for held in [1, 16, 256] {
        let spans = request(Read, Span::range("a", "b").expect("in order"));
        group.bench_function(BenchmarkId::from_parameter(held), |b| {
            b.iter_custom(|operations| {
                let line = M::new();
                let _held: Vec<M::Guard> = (0..held).map(|_| line.acquire(&spans)).collect();
                let mut more = Vec::with_capacity(operations as usize);
                let start = Instant::now();
                for _ in 0..operations {
                    more.push(line.acquire(&spans));
                }
                start.elapsed()
            });
        });
    }
}

fn read_write_mixes<M: Measured>(c: &mut Criterion, prefix: &str) {
    let mut group = c.benchmark_group(format!("{prefix}read_write_mix"));
    for reads_per_write in [0, 1, 4, 16, 64, 128, 256] {
        let mix = read_write_mix(reads_per_write);
        let line = M::new();
        // As in the original, nothing waits: what is pending is released like what is held.
        let mut fifo = VecDeque::with_capacity(17);
        let mut next = mix.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(reads_per_write), |b| {
            b.iter(|| {
                let pending = line.sequence(next.next().expect("it goes round"));
                if fifo.len() == 16 {
                    drop(fifo.pop_front());
                }
                fifo.push_back(pending);
            });
        });
    }
}

fn uncontended<M: Measured>(c: &mut Criterion, prefix: &str) {
    let mut group = c.benchmark_group(format!("{prefix}uncontended"));
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
        let line = M::new();
        group.bench_function(name, |b| {
            b.iter(|| drop(black_box(line.acquire(black_box(&spans)))))
        });
    }
}

fn held<M: Measured>(c: &mut Criterion, prefix: &str) {
    let mut group = c.benchmark_group(format!("{prefix}held/write"));
    for n in [100, 10_000, 1_000_000] {
        // Made when the first of its benchmarks is not filtered out.
        let held = LazyCell::new(|| {
            let line = M::new();
            let mut order: Vec<u64> = (0..n).collect();
            SplitMix64::new(2).shuffle(&mut order);
            let write = |i: &u64| line.acquire(&request(Write, point(2 * i)));
            let guards: Vec<M::Guard> = order.iter().map(write).collect();
            (line, guards)
        });
        for (op, access) in [("write", Write), ("read", Read)] {
            let mut rng = SplitMix64::new(3);
            let mut probe = || request(access, point(2 * rng.below(n) + 1));
            let probes: Vec<SpanSet> = (0..65_536).map(|_| probe()).collect();
            let mut next = probes.iter().cycle();
            group.bench_function(format!("{n}/op={op}"), |b| {
                let line = &held.0;
                b.iter(|| drop(black_box(line.acquire(next.next().expect("it goes round")))));
            });
        }
    }
}
