//! What is measured: each benchmark, and what it is compared with in the same run.

use anyhow::Result;
use spanlatch::Manager;

use super::benchmark::{Benchmark, Scale};
use super::goal::{Goal, goals};
use super::measure::{Effort, Floor, Measured, measure};
use super::published::{Published, published};
use super::summary::Outcome;
use super::{latches, tree};
use crate::predecessor::Predecessor;

/// A benchmark of ours, and what it is compared with.
#[derive(Debug)]
pub struct Row {
    /// Ours.
    pub ours: Benchmark,
    /// The same work done by something else, and what that is called.
    pub beside: Option<(&'static str, Benchmark)>,
    /// What was published of it.
    pub published: Option<Published>,
    /// What it is meant to show.
    pub goal: Goal,
}

impl Row {
    /// Sets up all that it compares, and measures it.
    pub fn measure(self, floor: &mut Floor, effort: Effort) -> Outcome {
        let name = self.ours.name.clone();
        let (beside_name, beside) = self.beside.unzip();
        let benchmarks = [self.ours].into_iter().chain(beside).collect();
        let waiters = name.strip_prefix("convoy/").and_then(|of| of.parse().ok());
        let Measured { floor_ns, costs } = measure(benchmarks, floor, effort);
        Outcome {
            name,
            ns: costs[0].ns,
            allocs: costs[0].allocs,
            floor_ns,
            published: self.published,
            beside: beside_name.zip(costs.get(1).map(|cost| cost.ns)),
            goal: self.goal,
            parks: waiters.and_then(latches::parks_per_waiter::<Manager>),
        }
    }
}

/// What the predecessor is called beside a row.
pub const PREDECESSOR: &str = "predecessor";

/// What takes the predecessor too long: it would double the time of the whole.
const NOT_BESIDE: [&str; 3] = ["/1000000/", "convoy/1000", "first_write"];

/// All rows: latch managers beside the predecessor, trees beside an ordered map where that can do the
/// same.
///
/// # Errors
///
/// If the published figures are malformed.
pub fn rows(scale: Scale) -> Result<Vec<Row>> {
    let mut ours = latches::benchmarks::<Manager>(scale);
    ours.extend(tree::benchmarks::<tree::Ours>(scale));
    let mut predecessors = latches::benchmarks::<Predecessor>(scale);
    predecessors.retain(|of| !NOT_BESIDE.iter().any(|not| of.name.contains(not)));
    let mut beside: Vec<(&'static str, Benchmark)> = predecessors
        .into_iter()
        .map(|benchmark| (PREDECESSOR, benchmark))
        .chain(
            tree::floors::<tree::Std>(scale)
                .into_iter()
                .map(|benchmark| ("BTreeMap", benchmark)),
        )
        .collect();
    let published = published()?;
    let goals = goals(ours.iter().map(|benchmark| benchmark.name.as_str()))?;
    let row = |(ours, goal): (Benchmark, Goal)| {
        let same = beside.iter().position(|(_, other)| other.name == ours.name);
        Row {
            beside: same.map(|at| beside.swap_remove(at)),
            published: published.iter().find(|of| of.name == ours.name).cloned(),
            goal,
            ours,
        }
    };
    Ok(ours.into_iter().zip(goals).map(row).collect())
}
