//! The tree alone: item `i` is `[K(i), K(i + 1))` with `i` as its value.
//!
//! Every time is that of one operation. `insert/1024` and so on hold keys of 16 bytes inline; the
//! same under `bytes/` hold them as `Bytes`.

use std::fmt::Debug;
use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main,
};
use interval_btree::{Interval, IntervalMap};
use spanlatch_benches::micro::{self, SplitMix64};

const SIZES: [u64; 5] = [16, 128, 1024, 8192, 65_536];
/// How many items are chosen at random in advance.
const PROBES: usize = 4096;

type Item<K> = (Interval<K>, u64);

trait Key: Ord + Clone + Debug {
    fn of(i: u64) -> Self;
}

impl Key for Bytes {
    fn of(i: u64) -> Self {
        micro::key(i)
    }
}

impl Key for [u8; 16] {
    fn of(i: u64) -> Self {
        micro::key(i)[..].try_into().expect("keys have 16 bytes")
    }
}

fn item<K: Key>(i: u64) -> Item<K> {
    (
        Interval::range(K::of(i), K::of(i + 1)).expect("keys are in order"),
        i,
    )
}

/// All items in an order of their own.
fn shuffled<K: Key>(n: u64, seed: u64) -> Vec<Item<K>> {
    let mut items: Vec<_> = (0..n).map(item).collect();
    SplitMix64::new(seed).shuffle(&mut items);
    items
}

/// A map that was filled in random order.
fn filled<K: Key>(n: u64) -> IntervalMap<K, u64> {
    let mut map = IntervalMap::new();
    map.extend(shuffled(n, 1));
    map
}

fn probes<K: Key>(n: u64) -> Vec<Item<K>> {
    let mut rng = SplitMix64::new(3);
    (0..PROBES).map(|_| item(rng.below(n))).collect()
}

/// Times `iters` operations of a batch of `n`, which is begun again as often as needed; the last
/// batch is run to its end, and its surplus taken off in proportion.
fn in_batches<S>(iters: u64, n: u64, setup: impl Fn() -> S, batch: impl Fn(&mut S)) -> Duration {
    let batches = iters.div_ceil(n);
    let mut elapsed = Duration::ZERO;
    for _ in 0..batches {
        let mut state = setup();
        let start = Instant::now();
        batch(&mut state);
        elapsed += start.elapsed();
    }
    elapsed.mul_f64(iters as f64 / (batches * n) as f64)
}

fn bench_keys<K: Key>(group: &mut BenchmarkGroup<'_, WallTime>) {
    for n in SIZES {
        let (items, other_order) = (shuffled::<K>(n, 1), shuffled::<K>(n, 2));
        group.bench_function(BenchmarkId::new("insert", n), |b| {
            b.iter_custom(|iters| {
                in_batches(
                    iters,
                    n,
                    || (IntervalMap::new(), items.clone()),
                    |(map, items)| {
                        for (interval, value) in items.drain(..) {
                            map.insert(interval, value);
                        }
                    },
                )
            });
        });
        let map = filled::<K>(n);
        group.bench_function(BenchmarkId::new("remove", n), |b| {
            // Not a snapshot: nothing of it may be shared.
            let setup = || map.iter().map(|(i, v)| (i.clone(), *v)).collect();
            b.iter_custom(|iters| {
                in_batches(iters, n, setup, |map: &mut IntervalMap<K, u64>| {
                    for (interval, value) in &other_order {
                        map.remove(interval, value);
                    }
                })
            });
        });
        drop(map);

        let mut map = filled::<K>(n);
        let probes = probes::<K>(n);
        let mut probe = probes.iter().cycle();
        group.bench_function(BenchmarkId::new("remove_insert", n), |b| {
            b.iter_batched(
                || probe.next().cloned().expect("it goes round"),
                |(interval, value)| {
                    map.remove(&interval, &value);
                    map.insert(interval, value)
                },
                BatchSize::SmallInput,
            );
        });
        group.bench_function(BenchmarkId::new("snapshot", n), |b| b.iter(|| map.clone()));
        group.bench_function(BenchmarkId::new("snapshot_insert_remove", n), |b| {
            b.iter_batched(
                || {
                    let (interval, _) = probe.next().expect("it goes round");
                    (interval.clone(), interval)
                },
                |(owned, interval)| {
                    let snapshot = map.clone();
                    map.insert(owned, n);
                    drop(snapshot);
                    map.remove(interval, &n)
                },
                BatchSize::SmallInput,
            );
        });
        group.bench_function(BenchmarkId::new("first_overlap", n), |b| {
            b.iter(|| {
                let (interval, _) = probe.next().expect("it goes round");
                map.first_overlap(interval).map(|(_, value)| *value)
            });
        });
        group.bench_function(BenchmarkId::new("scan", n), |b| {
            let query = Interval::range(K::of(0), K::of(n)).expect("n is above 0");
            b.iter_custom(|iters| {
                in_batches(
                    iters,
                    n,
                    || (),
                    |()| {
                        for entry in map.overlapping(&query) {
                            black_box(entry);
                        }
                    },
                )
            });
        });
    }
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("interval_btree");
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(1));
    bench_keys::<[u8; 16]>(&mut group);
    group.finish();
    let mut group = c.benchmark_group("interval_btree/bytes");
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(1));
    bench_keys::<Bytes>(&mut group);
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
