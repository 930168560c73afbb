//! Samples: time and allocations of a fixed number of operations, old and new in turns.

use std::time::Instant;

use anyhow::Result;

use super::operation::{Cell, Side, Table};

/// What was allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// How often.
    pub allocs: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What counts allocations of a piece of work on this thread: the program that runs it knows its allocator.
pub type Counter = fn(&mut dyn FnMut()) -> Counted;

/// What an operation took, on average over those of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Microseconds.
    pub us: f64,
    /// Bytes allocated.
    pub bytes: f64,
    /// Allocations.
    pub allocs: f64,
}

/// How many operations a sample has: so many rows together, whatever an operation has.
fn operations(cell: Cell, rows: u64) -> u64 {
    (rows / cell.rows).clamp(1, 1_000)
}

/// Samples of a cell, old and new, `runs` of each, of about `rows` rows together.
///
/// # Errors
///
/// If a transaction fails.
pub fn measure(cell: Cell, runs: usize, rows: u64, counter: Counter) -> Result<[Vec<Sample>; 2]> {
    let mut tables = [Table::new(cell, Side::Old)?, Table::new(cell, Side::New)?];
    let mut samples = [Vec::new(), Vec::new()];
    let operations = operations(cell, rows);
    // The first is to warm up.
    for run in 0..=runs {
        for (table, samples) in tables.iter_mut().zip(&mut samples) {
            table.prepare(operations)?;
            let sample = sample(table, operations, counter)?;
            if run > 0 {
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}

fn sample(table: &mut Table, operations: u64, counter: Counter) -> Result<Sample> {
    let mut done = Ok(());
    let start = Instant::now();
    let counted = counter(&mut || {
        done = (0..operations).try_for_each(|_| table.operate());
    });
    let elapsed = start.elapsed();
    done?;
    let each = |total: f64| total / operations as f64;
    Ok(Sample {
        us: each(elapsed.as_secs_f64() * 1e6),
        bytes: each(counted.bytes as f64),
        allocs: each(counted.allocs as f64),
    })
}
