//! What the microbenchmarks print: one table, and how many goals are met.

use std::fmt::Write as _;

use super::goal::Goal;
use super::tree::PUBLISHED_FLOOR_NS;
use crate::table::{Align, aligned};

/// What was measured of a row, and what it is held against.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The name of the benchmark.
    pub name: String,
    /// Nanoseconds per operation.
    pub ns: f64,
    /// Allocations per operation.
    pub allocs: f64,
    /// Nanoseconds per operation of the floor, measured between its batches.
    pub floor_ns: f64,
    /// Nanoseconds per operation of the original, as published.
    pub original_ns: Option<f64>,
    /// What did the same work beside it, and in how many nanoseconds.
    pub beside: Option<(&'static str, f64)>,
    /// What it is meant to show.
    pub goal: Goal,
}

impl Outcome {
    /// What the original would have taken on this machine, at this moment.
    fn scaled_ns(&self) -> Option<f64> {
        let original = self.original_ns?;
        Some(original * self.floor_ns / PUBLISHED_FLOOR_NS)
    }

    /// How many times as fast as the original.
    fn times(&self) -> Option<f64> {
        Some(self.scaled_ns()? / self.ns)
    }

    /// How many times as fast as what did the same beside it.
    fn times_beside(&self) -> Option<f64> {
        let (_, ns) = self.beside?;
        Some(ns / self.ns)
    }

    /// The goals that can be checked, each with whether it is met.
    fn goals(&self) -> Vec<(String, bool)> {
        let Goal {
            times,
            allocs,
            within,
        } = self.goal;
        let times = times
            .zip(self.times())
            .map(|(goal, times)| (format!("{goal}x"), times >= goal));
        let allocs = allocs.map(|goal| (format!("{goal} allocs"), self.allocs <= goal + SURPLUS));
        let within = within
            .zip(self.times_beside())
            .map(|(goal, times)| (format!("within {goal}"), times * goal >= 1.0));
        [times, allocs, within].into_iter().flatten().collect()
    }
}

/// Allocations per operation that are not the operation's: what grows now and then.
const SURPLUS: f64 = 0.01;

/// The table, the floor, and how many goals are met.
pub fn summary(outcomes: &[Outcome]) -> String {
    let heads = [
        "name",
        "ns/op",
        "allocs/op",
        "original",
        "ratio",
        "goal",
        "met",
        "beside",
        "ns/op",
        "ratio",
    ];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    lines.extend(outcomes.iter().map(line));
    let align = |column| match column {
        0 | 5..=7 => Align::Left,
        _ => Align::Right,
    };
    let mut text = aligned(&lines, align);
    let goals: Vec<(String, bool)> = outcomes.iter().flat_map(Outcome::goals).collect();
    let met = goals.iter().filter(|(_, met)| *met).count();
    let least = outcomes
        .iter()
        .map(|of| of.floor_ns)
        .fold(f64::MAX, f64::min);
    let most = outcomes.iter().map(|of| of.floor_ns).fold(0.0, f64::max);
    let _ = writeln!(text);
    if outcomes
        .iter()
        .any(|of| of.name.starts_with("read_only_mix/"))
    {
        let _ = writeln!(
            text,
            "read_only_mix: 326 to 386 ns were published over all sizes; the least is shown."
        );
    }
    if let Some(convoys) = convoys(outcomes) {
        let _ = writeln!(text, "{convoys}");
    }
    let _ = writeln!(
        text,
        "floor: {} to {} ns ({PUBLISHED_FLOOR_NS} where the original was measured, whose figures are scaled by it, row by row)",
        figure(least),
        figure(most),
    );
    let _ = writeln!(text, "goals: {met} of {} met", goals.len());
    text
}

/// The time of a convoy by its waiters.
fn convoys(outcomes: &[Outcome]) -> Option<String> {
    let each: Vec<String> = outcomes
        .iter()
        .filter_map(|of| {
            let waiters = of.name.strip_prefix("convoy/")?;
            let each = of.ns / waiters.parse::<f64>().ok()?;
            Some(format!("{} ns of {waiters}", figure(each)))
        })
        .collect();
    (!each.is_empty()).then(|| format!("convoy: each waiter takes {}.", each.join(", ")))
}

fn line(of: &Outcome) -> Vec<String> {
    let or_dash = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
    let goals = of.goals();
    let missed: Vec<&str> = goals
        .iter()
        .filter(|(_, met)| !met)
        .map(|(goal, _)| goal.as_str())
        .collect();
    let all: Vec<&str> = goals.iter().map(|(goal, _)| goal.as_str()).collect();
    let met = match (goals.is_empty(), missed.is_empty()) {
        (true, _) => "-".to_owned(),
        (false, true) => "yes".to_owned(),
        (false, false) => format!("no: {}", missed.join(", ")),
    };
    vec![
        of.name.clone(),
        figure(of.ns),
        allocs(of.allocs),
        or_dash(of.scaled_ns().map(figure)),
        or_dash(of.times().map(ratio)),
        if all.is_empty() {
            "-".to_owned()
        } else {
            all.join(", ")
        },
        met,
        or_dash(of.beside.map(|(name, _)| name.to_owned())),
        or_dash(of.beside.map(|(_, ns)| figure(ns))),
        or_dash(of.times_beside().map(ratio)),
    ]
}

/// Nanoseconds, with three digits at least.
fn figure(ns: f64) -> String {
    let digits = match ns {
        ns if ns < 9.995 => 2,
        ns if ns < 99.95 => 1,
        _ => 0,
    };
    format!("{ns:.digits$}")
}

fn allocs(allocs: f64) -> String {
    let rounded = (allocs * 100.0).round() / 100.0;
    rounded.to_string()
}

fn ratio(ratio: f64) -> String {
    if ratio < 99.95 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, ns: f64, original_ns: Option<f64>, goal: Goal) -> Outcome {
        Outcome {
            name: name.to_owned(),
            ns,
            allocs: 0.0,
            floor_ns: 280.0,
            original_ns,
            beside: None,
            goal,
        }
    }

    #[test]
    fn the_table_has_what_was_published_scaled_by_the_floor_and_says_which_goals_are_missed() {
        let goal = Goal {
            times: Some(4.5),
            allocs: Some(0.0),
            within: None,
        };
        let tree = Goal {
            times: Some(5.0),
            allocs: None,
            within: Some(1.3),
        };
        let outcomes = [
            Outcome {
                beside: Some(("predecessor", 86.4)),
                ..outcome("uncontended/point_write", 43.21, Some(242.0), goal)
            },
            Outcome {
                allocs: 1.0,
                floor_ns: 140.0,
                ..outcome("uncontended/point_read", 60.0, Some(183.0), goal)
            },
            outcome("read_only_mix/1", 163.0, Some(326.0), Goal::default()),
            Outcome {
                beside: Some(("BTreeMap", 58.0)),
                ..outcome("tree/first_overlap/128", 45.0, None, tree)
            },
            Outcome {
                allocs: 0.046,
                beside: Some(("BTreeMap", 5.7)),
                ..outcome("tree/first_overlap/1024", 8.0, Some(414.0), tree)
            },
            outcome("convoy/10", 31_000.0, Some(14_400.0), Goal::default()),
            outcome("convoy/1000", 3_100_000.0, Some(55.6e6), Goal::default()),
        ];
        insta::assert_snapshot!(summary(&outcomes));
    }
}
