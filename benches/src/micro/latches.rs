//! The published work of latch managers: one definition for all of them.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::hint::{self, black_box};
use std::iter::Sum;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use spanset::Access::{self, Read, Write};
use spanset::{Span, SpanSet};

use super::benchmark::{Benchmark, Scale, Work};
use super::parks;
use super::rng::SplitMix64;
use super::sets::{point, range, read_write_mix, request, writes};
use super::spent::Spent;

/// What is measured.
pub trait Measured: Send + Sync + Sized + 'static {
    /// Holds latches.
    type Guard: Send + 'static;
    /// Is in line.
    type Pending: Future<Output = Result<Self::Guard, Self::Error>> + Unpin + Send + 'static;
    /// There is none, as nothing is shut down.
    type Error: Debug;

    /// One with nothing in line.
    fn new() -> Self;

    /// Takes a place in line, without waiting.
    fn sequence(&self, spans: &SpanSet) -> Self::Pending;

    /// Blocks the thread until it holds its latches.
    fn wait(pending: Self::Pending) -> Self::Guard;

    /// Acquires what nothing is in the way of.
    fn acquire(&self, spans: &SpanSet) -> Self::Guard {
        let mut pending = self.sequence(spans);
        at_once(&mut pending).expect("nothing is in the way")
    }
}

/// The guard, if nothing is in the way.
fn at_once<G, E: Debug>(pending: &mut (impl Future<Output = Result<G, E>> + Unpin)) -> Option<G> {
    match Pin::new(pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(guard) => Some(guard.expect("not shut down")),
        Poll::Pending => None,
    }
}

impl Measured for spanlatch::Manager {
    type Guard = spanlatch::Guard;
    type Pending = spanlatch::Pending;
    type Error = spanlatch::WaitError;

    fn new() -> Self {
        spanlatch::Manager::new()
    }

    fn sequence(&self, spans: &SpanSet) -> Self::Pending {
        spanlatch::Manager::sequence(self, spans).expect("not shut down")
    }

    fn wait(pending: Self::Pending) -> Self::Guard {
        pending.wait().expect("not shut down")
    }

    fn acquire(&self, spans: &SpanSet) -> Self::Guard {
        spanlatch::Manager::acquire(self, spans).expect("not shut down")
    }
}

impl Measured for crate::predecessor::Predecessor {
    type Guard = crate::predecessor::Guard;
    type Pending = crate::predecessor::Pending;
    type Error = spanlatch_replica::Error;

    fn new() -> Self {
        crate::predecessor::Predecessor::new()
    }

    fn sequence(&self, spans: &SpanSet) -> Self::Pending {
        crate::predecessor::Predecessor::sequence(self, spans)
    }

    /// Prepares to be woken only if it has to wait, as the latch manager does.
    fn wait(mut pending: Self::Pending) -> Self::Guard {
        at_once(&mut pending)
            .unwrap_or_else(|| futures::executor::block_on(pending).expect("not shut down"))
    }
}

/// How many points are chosen at random in advance.
const PROBES: u64 = 65_536;
/// How many points each of the parallel threads has.
const OWN_POINTS: usize = 1024;

/// All benchmarks of a latch manager, under their published names.
pub fn benchmarks<M: Measured>(scale: Scale) -> Vec<Benchmark> {
    [
        read_only_mixes::<M>(scale),
        read_write_mixes::<M>(),
        uncontended::<M>(),
        held_writes::<M>(scale),
        held_reads::<M>(scale),
        parallel::<M>(scale),
        convoys::<M>(scale),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A million reads of one range are acquired and never released.
fn read_only_mixes<M: Measured>(scale: Scale) -> Vec<Benchmark> {
    let operations = scale.of(1_000_000);
    let of = |held: u64| {
        Benchmark::new(format!("read_only_mix/{held}"), move || {
            let spans = request(Read, Span::range("a", "b").expect("in order"));
            Box::new(move |total| {
                (0..total / operations)
                    .map(|_| {
                        let line = M::new();
                        let _held = Vec::from_iter((0..held).map(|_| line.acquire(&spans)));
                        let mut more = Vec::with_capacity(operations as usize);
                        Spent::on(|| {
                            for _ in 0..operations {
                                more.push(line.acquire(&spans));
                            }
                        })
                    })
                    .sum()
            })
        })
        .in_units_of(operations)
        .one_by_one()
    };
    (0..=8).map(|power| of(1 << power)).collect()
}

/// Requests pass through a FIFO of 16. As in the original, nothing waits: what is pending is released
/// like what is held. The search for conflicts is part of it.
fn read_write_mixes<M: Measured>() -> Vec<Benchmark> {
    let of = |reads_per_write: u64| {
        Benchmark::new(format!("read_write_mix/{reads_per_write}"), move || {
            let mix = read_write_mix(reads_per_write);
            let line = M::new();
            let mut fifo = VecDeque::with_capacity(17);
            let mut number = 0;
            Box::new(move |operations| {
                Spent::on(|| {
                    for _ in 0..operations {
                        let pending = line.sequence(&mix[number]);
                        if fifo.len() == 16 {
                            drop(fifo.pop_front());
                        }
                        fifo.push_back(pending);
                        number = next(number, &mix);
                    }
                })
            })
        })
    };
    [0, 1, 4, 16, 64, 128, 256].map(of).into()
}

/// Acquires and releases where nothing else is; then the same, making the span set each time.
fn uncontended<M: Measured>() -> Vec<Benchmark> {
    let mut both = request(Write, range(10, 20));
    both.read(range(30, 40));
    let sets = [
        ("point_write", request(Write, point(1))),
        ("point_read", request(Read, point(1))),
        ("write+read", both),
        ("writes_10", writes(10)),
        ("writes_100", writes(100)),
    ];
    let ready_made = sets.clone().map(|(name, set)| {
        Benchmark::new(format!("uncontended/{name}"), move || {
            let line = M::new();
            Box::new(move |operations| {
                Spent::on(|| {
                    for _ in 0..operations {
                        drop(black_box(line.acquire(black_box(&set))));
                    }
                })
            })
        })
    });
    let built = sets.map(|(name, set)| {
        Benchmark::new(format!("uncontended_build/{name}"), move || {
            let line = M::new();
            let parts = Vec::from_iter(set.iter().map(|part| (part.access(), part.span().clone())));
            Box::new(move |operations| {
                Spent::on(|| {
                    for _ in 0..operations {
                        let mut set = SpanSet::new();
                        for (access, span) in black_box(&parts) {
                            match access {
                                Write => set.write(span.clone()),
                                Read => set.read(span.clone()),
                            }
                        }
                        drop(black_box(line.acquire(&set)));
                    }
                })
            })
        })
    });
    ready_made.into_iter().chain(built).collect()
}

/// A line in which every even point below `2 * n` is held.
struct Held<M: Measured> {
    line: M,
    _guards: Vec<M::Guard>,
}

impl<M: Measured> Held<M> {
    fn new(access: Access, n: u64) -> Self {
        let line = M::new();
        let mut order: Vec<u64> = (0..n).collect();
        SplitMix64::new(2).shuffle(&mut order);
        let hold = |i: &u64| line.acquire(&request(access, point(2 * i)));
        let _guards = order.iter().map(hold).collect();
        Self { line, _guards }
    }
}

/// Made by the first of several benchmarks that needs it.
type Shared<T> = Rc<LazyCell<T, Box<dyn FnOnce() -> T>>>;

fn shared<T>(make: impl FnOnce() -> T + 'static) -> Shared<T> {
    Rc::new(LazyCell::new(Box::new(make)))
}

/// Acquires and releases random odd points below `2 * n`.
fn at_odd_points<M: Measured>(held: Shared<Held<M>>, access: Access, n: u64) -> Work {
    let mut rng = SplitMix64::new(3);
    let mut probe = || request(access, point(2 * rng.below(n) + 1));
    let probes: Vec<SpanSet> = (0..PROBES.min(16 * n)).map(|_| probe()).collect();
    let mut number = 0;
    Box::new(move |operations| {
        let line = &held.line;
        Spent::on(|| {
            for _ in 0..operations {
                drop(black_box(line.acquire(&probes[number])));
                number = next(number, &probes);
            }
        })
    })
}

/// The number of the set after this one; it goes round.
fn next(number: usize, sets: &[SpanSet]) -> usize {
    if number + 1 == sets.len() {
        0
    } else {
        number + 1
    }
}

const HELD: [u64; 3] = [100, 10_000, 1_000_000];

fn held_writes<M: Measured>(scale: Scale) -> Vec<Benchmark> {
    let of = |published: u64| {
        let n = scale.of(published);
        let held = shared(move || Held::<M>::new(Write, n));
        [("write", Write), ("read", Read)].map(|(op, access)| {
            let held = Rc::clone(&held);
            let name = format!("held/write/{published}/op={op}");
            Benchmark::new(name, move || at_odd_points(held, access, n))
        })
    };
    HELD.into_iter().flat_map(of).collect()
}

/// Beside the published one, in which a write has come before: that first write itself.
fn held_reads<M: Measured>(scale: Scale) -> Vec<Benchmark> {
    let of = |published: u64| {
        let n = scale.of(published);
        let first = Benchmark::new(format!("held/read/{published}/first_write"), move || {
            let write = request(Write, point(2 * (n / 2) + 1));
            Box::new(move |operations| {
                (0..operations)
                    .map(|_| {
                        let held = Held::<M>::new(Read, n);
                        Spent::on(|| drop(black_box(held.line.acquire(&write))))
                    })
                    .sum()
            })
        })
        .one_by_one();
        let later = Benchmark::new(format!("held/read/{published}/op=write"), move || {
            let held = shared(move || {
                let held = Held::<M>::new(Read, n);
                drop(held.line.acquire(&request(Write, point(1))));
                held
            });
            at_odd_points(held, Write, n)
        });
        [first, later]
    };
    HELD.into_iter().flat_map(of).collect()
}

/// Two threads acquire and release; the wall time, by all operations.
fn parallel<M: Measured>(scale: Scale) -> Vec<Benchmark> {
    let disjoint = |published: u64, op: &str, access: Access| {
        let n = scale.of(published);
        let name = format!("parallel/disjoint/{published}/{op}");
        Benchmark::new(name, move || {
            // Odd ones, of which none is held, in a random order.
            let mut order: Vec<u64> = (0..n.max(2 * OWN_POINTS as u64)).collect();
            SplitMix64::new(4).shuffle(&mut order);
            let mut own = order
                .chunks(OWN_POINTS)
                .map(|own| Vec::from_iter(own.iter().map(|i| request(access, point(2 * i + 1)))));
            let own = [(); 2].map(|()| own.next().expect("there are points for two"));
            on_two_threads(Held::<M>::new(Write, n), own)
        })
    };
    let same_key = Benchmark::new("parallel/same_key", || {
        let spans = || vec![request(Write, point(1))];
        on_two_threads(Held::<M>::new(Write, 0), [spans(), spans()])
    });
    [0, 10_000]
        .into_iter()
        .flat_map(|n| {
            [("write", Write), ("read", Read)].map(|(op, access)| disjoint(n, op, access))
        })
        .chain([same_key])
        .map(|benchmark| benchmark.in_units_of(2).by_median())
        .collect()
}

fn on_two_threads<M: Measured>(held: Held<M>, own: [Vec<SpanSet>; 2]) -> Work {
    Box::new(move |operations| {
        let line = &held.line;
        let ready = AtomicUsize::new(0);
        let work = |own: &[SpanSet]| {
            let each = operations as usize / 2;
            ready.fetch_add(1, Ordering::AcqRel);
            while ready.load(Ordering::Acquire) < 2 {
                hint::spin_loop();
            }
            let start = Instant::now();
            let Spent { allocs, .. } = Spent::on(|| {
                for spans in own.iter().cycle().take(each) {
                    drop(black_box(M::wait(line.sequence(spans))));
                }
            });
            (start, Instant::now(), allocs)
        };
        let [one, other] = thread::scope(|scope| {
            let threads = own.each_ref().map(|own| scope.spawn(|| work(own)));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        Spent {
            time: one.1.max(other.1) - one.0.min(other.0),
            allocs: one.2 + other.2,
        }
    })
}

/// Writers on threads of their own, queued on one key; from the first release to the last.
fn convoys<M: Measured>(scale: Scale) -> Vec<Benchmark> {
    let of = |published: u64| {
        let waiters = scale.of(published) as usize;
        Benchmark::new(format!("convoy/{published}"), move || {
            let one = move || {
                let wait = |pending| Spent::on(|| drop(M::wait(pending))).allocs;
                let (spent, allocs): (Spent, u64) = convoy::<M, _>(waiters, wait);
                let allocs = spent.allocs + allocs;
                Spent { allocs, ..spent }
            };
            Box::new(move |operations| (0..operations).map(|_| one()).sum())
        })
    };
    [10, 100, 1000].map(of).into()
}

/// How often each waiter of such a convoy parks: once if nobody is woken in vain. `None` where that
/// cannot be observed.
pub fn parks_per_waiter<M: Measured>(waiters: usize) -> Option<f64> {
    let wait = |pending| parks::of(|| drop(M::wait(pending)));
    let (_, parks): (Spent, Option<u64>) = convoy::<M, _>(waiters, wait);
    Some(parks? as f64 / waiters as f64)
}

/// How long threads that are about to park are given to do so, off the clock.
const SETTLING: Duration = Duration::from_millis(2);

/// What it takes from the first release to the last, and the sum of what the waiters count.
fn convoy<M: Measured, C: Sum + Send>(
    waiters: usize,
    wait: impl Fn(M::Pending) -> C + Sync,
) -> (Spent, C) {
    let line = M::new();
    let spans = request(Write, point(1));
    let first = line.acquire(&spans);
    let (begun, left) = (AtomicUsize::new(0), AtomicUsize::new(waiters));
    // Threads end after the clock has stopped.
    let end = Barrier::new(waiters + 1);
    let main = thread::current();
    thread::scope(|scope| {
        let threads = Vec::from_iter((0..waiters).map(|_| {
            let pending = line.sequence(&spans);
            scope.spawn(|| {
                let pending = pending;
                begun.fetch_add(1, Ordering::AcqRel);
                let counted = wait(pending);
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    main.unpark();
                }
                end.wait();
                counted
            })
        }));
        while begun.load(Ordering::Acquire) < waiters {
            thread::yield_now();
        }
        thread::sleep(SETTLING);
        let spent = Spent::on(|| {
            drop(first);
            while left.load(Ordering::Acquire) > 0 {
                thread::park();
            }
        });
        end.wait();
        let counted = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        (spent, counted.sum())
    })
}

#[cfg(test)]
mod tests {
    use spanlatch::Manager;

    use super::*;
    use crate::predecessor::Predecessor;

    fn every_benchmark_runs<M: Measured>() {
        for benchmark in benchmarks::<M>(Scale::Tiny) {
            let spent = (benchmark.set_up)()(4 * benchmark.unit);
            assert!(spent.time > Duration::ZERO, "{}", benchmark.name);
        }
    }

    #[test]
    fn every_benchmark_runs_on_both_latch_managers() {
        every_benchmark_runs::<Manager>();
        every_benchmark_runs::<Predecessor>();
    }
}
