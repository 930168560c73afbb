//! How much of each proof is run, on all cores, and how a failure is told.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use clap::ValueEnum;

/// What can be proved, or rather tried very often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Proof {
    /// The interval tree against a sorted vector, snapshots included
    #[cfg(not(any(loom, shuttle)))]
    Tree,
    /// Spans, span sets and compact keys against a model of single keys
    #[cfg(not(any(loom, shuttle)))]
    Sets,
    /// Scripts on one thread: exactly those wait that must
    #[cfg(not(any(loom, shuttle)))]
    Scripts,
    /// Threads and tasks as fast as they come, and their history checked afterwards
    #[cfg(not(any(loom, shuttle)))]
    History,
    /// What clients of a store are told, while its engine fails and its ranges are split, in one order
    #[cfg(not(any(loom, shuttle)))]
    Linearizability,
    /// Transactions on lists, while the engine fails and ranges are split, in one order
    #[cfg(not(any(loom, shuttle)))]
    Serializability,
    /// A store on a disk, whose process is killed, whose power is cut and whose disk fails
    #[cfg(not(any(loom, shuttle)))]
    Crash,
    /// Three nodes in one process, with a network and stops that a seed chooses
    #[cfg(not(any(loom, shuttle)))]
    Cluster,
    /// Three nodes as programs, killed, paused, cut off and without room on the disk
    #[cfg(not(any(loom, shuttle)))]
    Processes,
    /// The example server's page of latches, in a real browser
    #[cfg(not(any(loom, shuttle)))]
    Page,
    /// Very many interleavings of the whole manager
    #[cfg(shuttle)]
    Shuttle,
    /// Every interleaving of the smallest cases
    #[cfg(loom)]
    Loom,
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    Full,
    Quick,
    /// What one seed chooses.
    Only(u64),
}

/// Runs a proof.
///
/// # Errors
///
/// What failed, and how to see it again.
pub(crate) fn run(proof: Proof, size: Size) -> Result<String, String> {
    let start = Instant::now();
    let covered = match proof {
        #[cfg(not(any(loom, shuttle)))]
        Proof::Tree => plain::tree(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Sets => plain::sets(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Scripts => plain::scripts(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::History => plain::history(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Linearizability => plain::linearizability(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Serializability => plain::serializability(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Crash => plain::crash(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Cluster => plain::cluster(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Processes => plain::processes(size)?,
        #[cfg(not(any(loom, shuttle)))]
        Proof::Page => plain::page()?,
        #[cfg(shuttle)]
        Proof::Shuttle => shuttle(size)?,
        #[cfg(loom)]
        Proof::Loom => loom(size)?,
    };
    let name = name(proof);
    let seconds = start.elapsed().as_secs_f64();
    Ok(format!("{name:<8} {covered}; {seconds:.1} s"))
}

fn name(proof: Proof) -> String {
    let value = proof.to_possible_value().expect("none is hidden");
    value.get_name().to_owned()
}

/// Runs `one` for each seed below `seeds`, or for the only one, on all cores; stops at the first that panics.
fn for_each_seed<C: Default + Send>(
    proof: Proof,
    seeds: u64,
    size: Size,
    one: impl Fn(u64) -> C + Sync,
    add: impl Fn(&mut C, C) + Sync,
) -> Result<C, String> {
    let (first, end) = match size {
        Size::Only(seed) => (seed, seed + 1),
        Size::Full | Size::Quick => (0, seeds),
    };
    let next = AtomicU64::new(first);
    let covered = Mutex::new(C::default());
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    match panic::catch_unwind(AssertUnwindSafe(|| one(seed))) {
                        Ok(more) => add(&mut covered.lock().expect("no panic"), more),
                        Err(_) => {
                            next.store(end, Ordering::Relaxed);
                            *failed.lock().expect("no panic") = Some(seed);
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().expect("no panic") {
        None => Ok(covered.into_inner().expect("no panic")),
        Some(seed) => Err(again(proof, seed)),
    }
}

fn again(proof: Proof, seed: u64) -> String {
    let name = name(proof);
    format!("error: {name} failed; again with\n    cargo xtask verify --only {name} --seed {seed}")
}

/// A number with commas, as people read it.
struct Number(u64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.char_indices() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(shuttle)]
fn shuttle(size: Size) -> Result<String, String> {
    use spanlatch_proofs::shuttle::{Covered, run, stories};

    // The stories get more than each of those that are chosen at random.
    let (scenarios, of_a_story, of_another) = match size {
        Size::Quick => (160, 400, 110),
        Size::Full | Size::Only(_) => (4_000, 30_000, 300),
    };
    let stories = stories() as u64;
    let Covered {
        schedules,
        scenarios,
    } = for_each_seed(
        Proof::Shuttle,
        scenarios,
        size,
        |seed| {
            run(
                seed,
                if seed < stories {
                    of_a_story
                } else {
                    of_another
                },
            )
        },
        Covered::add,
    )?;
    let (schedules, scenarios) = (Number(schedules), Number(scenarios));
    Ok(format!(
        "{schedules} schedules of {scenarios} scenarios, {stories} of them stories"
    ))
}

#[cfg(loom)]
fn loom(size: Size) -> Result<String, String> {
    use spanlatch_proofs::loom::CASES;

    let interleavings = for_each_seed(
        Proof::Loom,
        CASES.len() as u64,
        size,
        |seed| {
            let case = CASES[seed as usize];
            let interleavings = case.run(match size {
                Size::Quick => Some(2),
                Size::Full | Size::Only(_) => case.preemptions(),
            });
            println!("{}: {}", case.name, Number(interleavings));
            interleavings
        },
        |sum, more| *sum += more,
    )?;
    let (interleavings, cases) = (Number(interleavings), CASES.len());
    Ok(format!("{interleavings} interleavings of {cases} cases"))
}

#[cfg(not(any(loom, shuttle)))]
mod plain {
    use std::alloc::System;
    use std::convert::Infallible;
    use std::process;
    use std::time::Duration;

    use spanlatch::Inspection;
    use spanlatch_proofs::history::Checked;
    use spanlatch_proofs::live::Live;
    use spanlatch_proofs::{
        Choices, cluster, crash, linearizability, page, processes, script, serializability, sets,
        tree,
    };
    use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

    use super::{Number, Proof, Size, again, for_each_seed};

    #[global_allocator]
    static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    /// How many bytes more than after the first rounds may be in use after a later one: what threads keep for
    /// recycling, and the printing of a line.
    const SLACK: usize = 1 << 16;

    pub(super) fn tree(size: Size) -> Result<String, String> {
        let (runs, operations) = match size {
            Size::Quick => (100, 2_000),
            Size::Full | Size::Only(_) => (500, 200_000),
        };
        let covered = for_each_seed(
            Proof::Tree,
            runs,
            size,
            |seed| tree::run(&mut Choices::random(seed), operations),
            tree::Covered::add,
        )?;
        Ok(format!(
            "{} operations on maps of up to {} entries; {} snapshots unchanged",
            Number(covered.operations),
            Number(covered.largest as u64),
            Number(covered.snapshots),
        ))
    }

    pub(super) fn sets(size: Size) -> Result<String, String> {
        let runs = match size {
            Size::Quick => 20,
            Size::Full | Size::Only(_) => 2_000,
        };
        let covered = for_each_seed(
            Proof::Sets,
            runs,
            size,
            |seed| sets::run(&mut Choices::random(seed), 100),
            sets::Covered::add,
        )?;
        Ok(format!(
            "{} answers of {} pairs of span sets",
            Number(covered.answers),
            Number(covered.pairs)
        ))
    }

    pub(super) fn scripts(size: Size) -> Result<String, String> {
        let runs = match size {
            Size::Quick => 300,
            Size::Full | Size::Only(_) => 10_000,
        };
        let covered = for_each_seed(
            Proof::Scripts,
            runs,
            size,
            |seed| script::run(&mut Choices::random(seed), 200),
            script::Covered::add,
        )?;
        Ok(format!(
            "{} actions on {} requests, of which {} waited",
            Number(covered.actions),
            Number(covered.requests),
            Number(covered.waited)
        ))
    }

    pub(super) fn linearizability(size: Size) -> Result<String, String> {
        let (runs, batches) = match size {
            Size::Quick => (60, 600),
            Size::Full | Size::Only(_) => (1_000, 1_200),
        };
        let covered = for_each_seed(
            Proof::Linearizability,
            runs,
            size,
            |seed| linearizability::run(seed, batches),
            linearizability::Covered::add,
        )?;
        Ok(covered.to_string())
    }

    pub(super) fn serializability(size: Size) -> Result<String, String> {
        let (runs, transactions) = match size {
            Size::Quick => (30, 300),
            Size::Full | Size::Only(_) => (1_000, 600),
        };
        let covered = for_each_seed(
            Proof::Serializability,
            runs,
            size,
            |seed| serializability::run(seed, transactions),
            serializability::Covered::add,
        )?;
        Ok(covered.to_string())
    }

    pub(super) fn crash(size: Size) -> Result<String, String> {
        let (runs, rounds) = match size {
            Size::Quick => (2, 6),
            Size::Full => (40, 12),
            Size::Only(_) => (1, 12),
        };
        let covered = for_each_seed(
            Proof::Crash,
            runs,
            size,
            |seed| crash::run(seed, rounds),
            crash::Covered::add,
        )?;
        Ok(covered.to_string())
    }

    pub(super) fn cluster(size: Size) -> Result<String, String> {
        let (runs, steps) = match size {
            Size::Quick => (30, 400),
            Size::Full | Size::Only(_) => (1_000, 800),
        };
        let covered = for_each_seed(
            Proof::Cluster,
            runs,
            size,
            |seed| cluster::run(seed, steps),
            cluster::Covered::add,
        )?;
        Ok(covered.to_string())
    }

    pub(super) fn processes(size: Size) -> Result<String, String> {
        /// The seed that stands for a story of its own: who is away for long catches up.
        const AWAY: u64 = 30;
        let (runs, seconds) = match size {
            Size::Quick => (2, 12),
            Size::Full | Size::Only(_) => (AWAY + 1, 30),
        };
        let program = processes::build()?;
        let covered = for_each_seed(
            Proof::Processes,
            runs,
            size,
            |seed| match seed {
                AWAY => processes::be_away(&program, 100_000),
                _ => processes::run(&program, seed, Duration::from_secs(seconds)),
            },
            processes::Covered::add,
        )?;
        Ok(covered.to_string())
    }

    /// One story, whatever the size.
    pub(super) fn page() -> Result<String, String> {
        let covered = page::run().map_err(|error| {
            format!("{error}\nerror: page failed; again with\n    cargo xtask verify --only page")
        })?;
        Ok(format!(
            "{} states seen in a browser, in {} looks",
            Number(covered.shown),
            Number(covered.looks),
        ))
    }

    /// Ends the process, as there are threads that will never end.
    fn at_a_standstill(seen: Inspection) -> Infallible {
        eprintln!("nothing happens any more:\n{seen}");
        eprintln!("error: history failed; again with\n    cargo xtask verify --only history");
        process::exit(1)
    }

    /// In rounds, between which everything is counted that is still there.
    pub(super) fn history(size: Size) -> Result<String, String> {
        let (rounds, requests) = match size {
            Size::Quick => (6, 4_000),
            Size::Full | Size::Only(_) => (100, 20_000),
        };
        let managers = [Live::new(Some(2)), Live::new(None)];
        let mut checked = Checked::default();
        let mut baseline = None;
        let mut most = 0;
        for round in 0..rounds {
            let seed = match size {
                Size::Only(seed) => seed,
                Size::Full | Size::Quick => round,
            };
            let live = &managers[seed as usize % managers.len()];
            match live.round(seed, requests, at_a_standstill) {
                Ok(more) => checked.add(more),
                Err(error) => return Err(format!("{error}\n{}", again(Proof::History, seed))),
            }
            let stats = ALLOCATOR.stats();
            let in_use = stats.bytes_allocated - stats.bytes_deallocated;
            if round < managers.len() as u64 {
                baseline = Some(in_use);
                continue;
            }
            most = most.max(in_use);
            if let Some(baseline) = baseline
                && in_use > baseline + SLACK
            {
                return Err(format!(
                    "{in_use} bytes are in use after round {round}, and were {baseline} before\n{}",
                    again(Proof::History, seed)
                ));
            }
        }
        Ok(format!(
            "{} requests, {} granted, {} pairs that waited; {} bytes in use after the first rounds, then at most {}",
            Number(checked.requests),
            Number(checked.granted),
            Number(checked.waits),
            Number(baseline.unwrap_or(0) as u64),
            Number(most as u64),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn numbers_have_commas() {
        let numbers = [0, 999, 1_000, 12_345_678].map(|n| Number(n).to_string());
        assert_eq!(numbers, ["0", "999", "1,000", "12,345,678"]);
    }
}
