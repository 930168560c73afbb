//! What a batch costs on its way through the pipeline, on one thread, with the in-memory engine.

use std::hint::black_box;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use futures::executor::block_on;
use spanlatch_benches::micro::benchmark::Scale;
use spanlatch_replica::{Applier, Batch, Reply, Request, Store, StoreBuilder};
use spanset::{Span, Timestamp};

/// How many keys are in the store.
fn keys() -> u64 {
    Scale::asked_for().of(100_000)
}

fn key(i: u64) -> Bytes {
    // Spread like hashed keys.
    Bytes::copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
}

/// Polls the batch and steps the applier in turn until the reply is there.
fn serve(store: &Store, applier: &mut Applier, batch: impl Into<Batch>) -> Reply {
    let mut reply = pin!(store.send(batch));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(reply) = reply.as_mut().poll(&mut context) {
            return reply.expect("nothing fails here");
        }
        applier.step();
    }
}

fn filled(splits: impl IntoIterator<Item = Bytes>) -> (Store, Applier) {
    filled_by(Store::builder().splits(splits))
}

fn filled_by(builder: StoreBuilder) -> (Store, Applier) {
    let (store, mut applier) = builder.build();
    let keys: Vec<u64> = (0..keys()).collect();
    for some in keys.chunks(1_000) {
        let rows = some.iter().map(|i| Request::put(key(*i), "v"));
        serve(&store, &mut applier, rows.collect::<Batch>());
    }
    (store, applier)
}

fn points(c: &mut Criterion) {
    let (store, mut applier) = filled([]);
    let keys: Vec<Bytes> = (0..keys()).map(key).collect();
    let mut cycle = keys.iter().cycle();
    let mut next = || cycle.next().expect("a cycle does not end").clone();

    let mut group = c.benchmark_group("replica");
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    for batch in [1, 16, 128, 1_024] {
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::new("get", batch), |b| {
            b.iter(|| {
                let batch: Batch = (0..batch).map(|_| Request::get(next())).collect();
                serve(&store, &mut applier, batch)
            });
        });
        group.bench_function(BenchmarkId::new("put", batch), |b| {
            b.iter(|| {
                let batch: Batch = (0..batch).map(|_| Request::put(next(), "v")).collect();
                serve(&store, &mut applier, batch)
            });
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("increment", |b| {
        let counter = Bytes::from_static(b"counter");
        b.iter(|| serve(&store, &mut applier, Request::increment(counter.clone(), 1)));
    });
    group.finish();
}

fn spans(c: &mut Criterion) {
    let (store, mut applier) = filled([]);
    let mut group = c.benchmark_group("replica");
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    for rows in [1, 1_000] {
        group.throughput(Throughput::Elements(rows as u64));
        for (name, scan) in [
            ("scan", Request::scan(Span::all())),
            ("reverse_scan", Request::reverse_scan(Span::all())),
        ] {
            let scan = scan.limited(rows);
            group.bench_function(BenchmarkId::new(name, rows), |b| {
                b.iter(|| black_box(serve(&store, &mut applier, scan.clone())));
            });
        }
    }
    group.finish();
}

fn ranges(c: &mut Criterion) {
    let mut group = c.benchmark_group("replica");
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    for ranges in [1u8, 2, 8] {
        let width = 256 / u16::from(ranges);
        let starts: Vec<Bytes> = (0..u16::from(ranges))
            .map(|i| Bytes::copy_from_slice(&(i * width).to_be_bytes()[1..]))
            .collect();
        let (store, mut applier) = filled(starts.iter().skip(1).cloned());
        let (mut i, keys) = (0, keys());
        group.throughput(Throughput::Elements(8));
        group.bench_function(BenchmarkId::new("put_8_over", ranges), |b| {
            b.iter(|| {
                i += 8;
                let batch: Batch = (i..i + 8)
                    .map(|i| Request::put(key(i % keys), "v"))
                    .collect();
                serve(&store, &mut applier, batch)
            });
        });
    }
    group.finish();
}

/// A write at a timestamp below that of a scan that goes on: it waits until the scan lets go.
fn writes_below_a_scan(c: &mut Criterion) {
    let mut group = c.benchmark_group("replica");
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    for (name, builder) in [
        ("scan_holds", Store::builder()),
        (
            "scan_releases_early",
            Store::builder().release_reads_early(),
        ),
    ] {
        let (store, mut applier) = filled_by(builder);
        let (scan, stop) = (Request::scan(Span::all()), AtomicBool::new(false));
        group.bench_function(BenchmarkId::new("write_below_scan", name), |b| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        black_box(block_on(store.send(scan.clone())).expect("nothing fails here"));
                    }
                });
                b.iter(|| {
                    let now = store.clock().now();
                    let below = Timestamp::new(now.wall - 1_000_000_000, 0);
                    let put = Batch::from(Request::put(key(1), "v")).at(below);
                    serve(&store, &mut applier, put)
                });
                stop.store(true, Ordering::Relaxed);
            });
            stop.store(false, Ordering::Relaxed);
        });
    }
    group.finish();
}

criterion_group!(benches, points, spans, ranges, writes_below_a_scan);
criterion_main!(benches);
