//! How the microbenchmarks are measured: in turns of many short batches, of which one counts.

use std::fmt;
use std::time::{Duration, Instant};

use super::benchmark::{Benchmark, Figure, Work};
use super::tree;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// For all that is compared in a row together, its preparation included.
    pub time: Duration,
    /// Rounds at least after the first, however long they take.
    pub rounds: usize,
}

impl Effort {
    /// The whole takes a few minutes.
    pub const USUAL: Self = Self {
        time: Duration::from_millis(700),
        rounds: 3,
    };
    /// A rough look.
    pub const QUICK: Self = Self {
        time: Duration::from_millis(100),
        rounds: 0,
    };
}

/// What an operation costs each of those that were measured in alternation.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Nanoseconds, of the floor between them: the fastest batch.
    pub floor_ns: f64,
    /// Of each.
    pub costs: Vec<Cost>,
}

/// What an operation costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Nanoseconds.
    pub ns: f64,
    /// Allocations, in the steady state.
    pub allocs: f64,
}

/// Long enough for the clock not to matter, and short enough for many to be undisturbed.
const BATCH: Duration = Duration::from_micros(400);
/// Where threads are started for each batch.
const LONG_BATCH: Duration = Duration::from_millis(5);
/// Batches grow no further if this has passed: their preparation takes longer than they do.
const PATIENCE: Duration = Duration::from_millis(20);
/// Batches of a size that is tried: one may be disturbed.
const TRIES: usize = 3;
/// How long one runs before the next does: long enough to have its data in the caches again.
const TURN: Duration = Duration::from_millis(15);
/// The same for the floor, whose data is little.
const TURN_OF_FLOOR: Duration = Duration::from_millis(3);

/// Work that is measured in alternation with other work.
struct Contender {
    work: Work,
    figure: Figure,
    /// Operations a batch.
    batch: u64,
    /// Nanoseconds per operation, one a batch.
    samples: Vec<f64>,
    /// Allocations per operation of the latest batch.
    allocs: f64,
}

impl Contender {
    /// Sets it up, warms it up, and runs a first batch.
    fn new(benchmark: Benchmark) -> Self {
        let enough = match benchmark.figure {
            Figure::Undisturbed => BATCH,
            Figure::Median => LONG_BATCH,
        };
        let mut contender = Self {
            work: (benchmark.set_up)(),
            figure: benchmark.figure,
            batch: benchmark.unit,
            samples: Vec::new(),
            allocs: 0.0,
        };
        loop {
            contender.samples.clear();
            let (time, whole) = contender.tried();
            if time >= enough || whole >= PATIENCE || contender.batch >= benchmark.most {
                return contender;
            }
            let growth = enough.as_nanos() / time.as_nanos().max(1) + 1;
            let batch = contender.batch * growth.clamp(2, 10) as u64;
            contender.batch = batch.min(benchmark.most);
        }
    }

    /// How long a batch takes if little else runs on the machine, alone and with its preparation.
    fn tried(&mut self) -> (Duration, Duration) {
        let (mut time, mut whole) = (Duration::MAX, Duration::MAX);
        for _ in 0..TRIES {
            let start = Instant::now();
            time = time.min(self.run());
            whole = whole.min(start.elapsed());
            // Nothing else takes that long; it need not be tried again.
            if whole >= 5 * PATIENCE {
                break;
            }
        }
        (time, whole)
    }

    fn run(&mut self) -> Duration {
        let spent = (self.work)(self.batch);
        let operations = self.batch as f64;
        self.samples
            .push(spent.time.as_secs_f64() * 1e9 / operations);
        self.allocs = spent.allocs as f64 / operations;
        spent.time
    }

    /// As many batches as fit, at least one.
    fn turn(&mut self, long: Duration) {
        let start = Instant::now();
        loop {
            self.run();
            if start.elapsed() >= long {
                return;
            }
        }
    }

    fn cost(&mut self) -> Cost {
        self.samples.sort_by(f64::total_cmp);
        let ns = match self.figure {
            Figure::Undisturbed => self.samples[self.samples.len() / 10],
            Figure::Median => self.samples[self.samples.len() / 2],
        };
        Cost {
            ns,
            allocs: self.allocs,
        }
    }
}

/// The machine's own speed: measured between the batches of everything else, since it changes.
pub struct Floor(Contender);

impl Floor {
    /// Sets it up.
    pub fn new() -> Self {
        Self(Contender::new(Benchmark::new("floor", tree::floor)))
    }
}

impl Default for Floor {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Floor").finish_non_exhaustive()
    }
}

/// Measures these in alternation, with the floor among them.
pub fn measure(benchmarks: Vec<Benchmark>, floor: &mut Floor, effort: Effort) -> Measured {
    let Floor(floor) = floor;
    floor.samples.clear();
    let start = Instant::now();
    let mut contenders: Vec<Contender> = benchmarks.into_iter().map(Contender::new).collect();
    floor.turn(TURN_OF_FLOOR);
    let mut rounds = 0;
    while rounds < effort.rounds || start.elapsed() < effort.time {
        for contender in &mut contenders {
            contender.turn(TURN);
        }
        floor.turn(TURN_OF_FLOOR);
        rounds += 1;
    }
    Measured {
        floor_ns: floor.samples.iter().copied().fold(f64::MAX, f64::min),
        costs: contenders.iter_mut().map(Contender::cost).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::spent::Spent;

    /// An operation takes so many nanoseconds in turn, and two allocations.
    fn of(nanos: &'static [u64], unit: u64) -> Benchmark {
        Benchmark::new("made up", move || {
            let mut nanos = nanos.iter().cycle();
            Box::new(move |operations| {
                assert_eq!(operations % unit, 0);
                Spent {
                    time: Duration::from_nanos(nanos.next().expect("it goes round") * operations),
                    allocs: 2 * operations,
                }
            })
        })
        .in_units_of(unit)
    }

    #[test]
    fn a_fast_batch_counts_and_where_threads_meet_the_median() {
        let effort = Effort {
            time: Duration::ZERO,
            rounds: 1,
        };
        let benchmarks = vec![
            of(&[30, 10, 20, 20, 20], 7),
            of(&[30, 10, 20], 1).by_median(),
            of(&[5], 1_000_000),
        ];
        let Measured { floor_ns, costs } = measure(benchmarks, &mut Floor::new(), effort);
        assert!(floor_ns > 0.0);
        let found: Vec<(f64, f64)> =
            (costs.iter().map(|cost| (cost.ns.round(), cost.allocs))).collect();
        assert_eq!(found, [(10.0, 2.0), (20.0, 2.0), (5.0, 2.0)]);
    }
}
