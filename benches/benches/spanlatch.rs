//! The latch manager alone, on the work that its published original was measured on.

use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use spanlatch::{Guard, Manager, Pending, WaitError};
use spanlatch_benches::micro::{point, request};
use spanset::{Access, SpanSet};

#[path = "shared/work.rs"]
mod work;

impl work::Measured for Manager {
    type Guard = Guard;
    type Pending = Pending;
    type Error = WaitError;

    fn new() -> Self {
        Manager::new()
    }

    fn sequence(&self, spans: &SpanSet) -> Pending {
        Manager::sequence(self, spans).expect("not shut down")
    }
}

fn bench(c: &mut Criterion) {
    work::all::<Manager>(c, "");
}

/// Writers on threads of their own, queued on one key; from the first release to the last.
fn convoy(c: &mut Criterion) {
    let mut group = c.benchmark_group("convoy");
    for waiters in [10, 100] {
        group.bench_function(BenchmarkId::from_parameter(waiters), |b| {
            b.iter_custom(|rounds| (0..rounds).map(|_| one_convoy(waiters)).sum());
        });
    }
}

fn one_convoy(waiters: usize) -> Duration {
    let manager = Manager::new();
    let spans = request(Access::Write, point(1));
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

criterion_group!(benches, bench, convoy);
criterion_main!(benches);
