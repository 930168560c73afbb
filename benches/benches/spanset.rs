//! What declaring costs every request, and what checking costs those that are checked.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use spanset::{Access, Key, Scope, Span, SpanSet, Timestamp};

const AT: Timestamp = Timestamp::new(5, 0);

/// The key `k` followed by 15 digits.
fn key(i: usize) -> Key {
    Key::from(format!("k{i:015}"))
}

/// Points that touch none of each other, in shuffled order.
fn points(count: usize) -> SpanSet {
    let mut set = SpanSet::with_capacity(count);
    for i in 0..count {
        // 7919 is a prime and divides no count used here.
        set.write_at(Span::point(key(i * 7919 % count * 2)), AT);
    }
    set
}

/// Adjacent ranges that cover `key(0)` to `key(count)`, in ascending order.
fn pieces(count: usize) -> SpanSet {
    let mut set = SpanSet::with_capacity(count);
    for i in 0..count {
        let range = Span::range(key(i), key(i + 1)).expect("ascending");
        set.read_at(range, AT);
    }
    set
}

fn declaring(c: &mut Criterion) {
    let mut group = c.benchmark_group("spanset/declare");
    let keys: Vec<Key> = (0..128).map(key).collect();
    group.bench_function("point", |b| {
        b.iter(|| {
            let mut set = SpanSet::new();
            set.write_at(Span::point(keys[0].clone()), AT);
            set
        });
    });
    group.bench_function("descriptor+point", |b| {
        b.iter(|| {
            let mut set = SpanSet::new();
            set.read_local(Span::point(keys[0].clone()));
            set.write_at(Span::point(keys[1].clone()), AT);
            set
        });
    });
    group.bench_function("range", |b| {
        b.iter(|| {
            let mut set = SpanSet::new();
            let range = Span::range(keys[0].clone(), keys[1].clone());
            set.read_at(range.expect("ascending"), AT);
            set
        });
    });
    group.bench_function("points/128", |b| {
        b.iter(|| {
            let mut set = SpanSet::with_capacity(keys.len());
            for key in &keys {
                set.write_at(Span::point(key.clone()), AT);
            }
            set
        });
    });
    group.bench_function("sort_and_dedup/128", |b| {
        let set = points(128);
        b.iter_batched_ref(
            || set.clone(),
            SpanSet::sort_and_dedup,
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn checking(c: &mut Criterion) {
    let mut group = c.benchmark_group("spanset/check");
    for count in [1, 2, 16, 128] {
        let set = points(count);
        // The one that was declared last.
        let last = set.iter().last().expect("not empty").span().clone();
        group.bench_function(BenchmarkId::new("point", count), |b| {
            b.iter(|| set.check_allowed_at(Access::Write, black_box(&last), AT));
        });
    }
    let ascending = pieces(128);
    let descending = ascending.iter().rev().cloned().collect();
    for (order, set) in [("ascending", ascending), ("descending", descending)] {
        let whole = Span::range(key(0), key(128)).expect("ascending");
        group.bench_function(BenchmarkId::new("pieces/128", order), |b| {
            b.iter(|| set.check_allowed_at(Access::Read, black_box(&whole), AT));
        });
    }
    let set = points(128);
    let missing = Span::point(key(1));
    group.bench_function("denial/128", |b| {
        b.iter(|| set.check_allowed(Access::Read, Scope::Global, black_box(&missing)));
    });
    group.bench_function("intersects/16x16", |b| {
        let (evens, mut odds) = (points(16), SpanSet::new());
        (0..16).for_each(|i| odds.write_at(Span::point(key(2 * i + 1)), AT));
        b.iter(|| evens.intersects(black_box(&odds)));
    });
    group.finish();
}

criterion_group!(benches, declaring, checking);
criterion_main!(benches);
