//! What the microbenchmarks print: one table, and how many goals are met.

use super::goal::Goal;
use super::rivals::{Compared, Kind};
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
    /// How often each waiter of a convoy parks.
    pub parks: Option<f64>,
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
            parks,
        } = self.goal;
        let times = times
            .zip(self.times())
            .map(|(goal, times)| (format!("{goal}x"), times >= goal));
        let allocs = allocs.map(|goal| (format!("{goal} allocs"), self.allocs <= goal + SURPLUS));
        let within = within
            .zip(self.times_beside())
            .map(|(goal, times)| (format!("within {goal}"), times * goal >= 1.0));
        let parks = parks
            .zip(self.parks)
            .map(|(goal, parks)| (format!("{goal} parks"), parks <= goal));
        [times, allocs, within, parks]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Allocations per operation that are not the operation's: what grows now and then.
const SURPLUS: f64 = 0.01;

/// The tables, the floor, and how many goals are met.
pub fn summary(outcomes: &[Outcome], compared: &[Compared]) -> String {
    let mut tables = Vec::new();
    if !outcomes.is_empty() {
        tables.push(table(outcomes) + &notes(outcomes));
    }
    if !compared.is_empty() {
        tables.push(crates(compared));
    }
    let of_outcomes = outcomes.iter().map(|of| of.floor_ns);
    let floors = || (of_outcomes.clone()).chain(compared.iter().map(|of| of.floor_ns));
    let goals = Vec::from_iter(
        (outcomes.iter().flat_map(Outcome::goals).map(|(_, met)| met)).chain(
            compared
                .iter()
                .flat_map(Compared::goals)
                .map(|(_, met)| met),
        ),
    );
    tables.push(format!(
        "floor: {} to {} ns ({PUBLISHED_FLOOR_NS} where the original was measured, whose figures are scaled by it, row by row)\n\
         goals: {} of {} met\n",
        figure(floors().fold(f64::MAX, f64::min)),
        figure(floors().fold(0.0, f64::max)),
        goals.iter().filter(|met| **met).count(),
        goals.len(),
    ));
    tables.join("\n")
}

/// Every benchmark, and what it is held against.
fn table(outcomes: &[Outcome]) -> String {
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
    aligned(&lines, |column| match column {
        0 | 5..=7 => Align::Left,
        _ => Align::Right,
    })
}

/// What the table cannot say.
fn notes(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    if outcomes
        .iter()
        .any(|of| of.name.starts_with("read_only_mix/"))
    {
        text += "read_only_mix: 326 to 386 ns were published over all sizes; the least is shown.\n";
    }
    if let Some(convoys) = convoys(outcomes) {
        text += &convoys;
    }
    text
}

/// Other crates, and how many times what ours takes each of them takes.
fn crates(compared: &[Compared]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for figure in compared.iter().flat_map(|of| &of.figures) {
        if !names.contains(&figure.name) {
            names.push(figure.name);
        }
    }
    let mut lines = vec![
        ["name"]
            .iter()
            .chain(&names)
            .chain(&["met"])
            .map(|head| (*head).to_owned())
            .collect(),
    ];
    lines.extend(compared.iter().map(|of| {
        let cell = |name: &&str| {
            let found = of.figures.iter().find(|figure| figure.name == *name);
            found.map_or("-".to_owned(), |found| match found.kind {
                Kind::Ours => figure(found.ns),
                _ => format!("{} ({}x)", figure(found.ns), ratio(of.times(found))),
            })
        };
        let goals = of.goals();
        let missed = Vec::from_iter(goals.iter().filter(|(_, met)| !met).map(|(name, _)| *name));
        let met = match &missed[..] {
            [] => "yes".to_owned(),
            missed => format!("no: {}", missed.join(", ")),
        };
        [of.name.clone()]
            .into_iter()
            .chain(names.iter().map(cell))
            .chain([met])
            .collect()
    }));
    let last = names.len() + 1;
    aligned(&lines, |column| match column {
        0 => Align::Left,
        column if column == last => Align::Left,
        _ => Align::Right,
    })
}

/// The time of a convoy by its waiters, and how often each of them parks.
fn convoys(outcomes: &[Outcome]) -> Option<String> {
    let each: Vec<String> = outcomes
        .iter()
        .filter_map(|of| {
            let waiters = of.name.strip_prefix("convoy/")?;
            let each = of.ns / waiters.parse::<f64>().ok()?;
            let parks = of
                .parks
                .map_or_else(String::new, |parks| format!(" and {parks:.2} parks"));
            Some(format!("{} ns{parks} of {waiters}", figure(each)))
        })
        .collect();
    (!each.is_empty()).then(|| format!("convoy: each waiter takes {}.\n", each.join(", ")))
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
    use crate::micro::rivals::{Figure, Operation};

    fn outcome(name: &str, ns: f64, original_ns: Option<f64>, goal: Goal) -> Outcome {
        Outcome {
            name: name.to_owned(),
            ns,
            allocs: 0.0,
            floor_ns: 280.0,
            original_ns,
            beside: None,
            goal,
            parks: None,
        }
    }

    #[test]
    fn the_table_has_what_was_published_scaled_by_the_floor_and_says_which_goals_are_missed() {
        let goal = Goal {
            times: Some(4.5),
            allocs: Some(0.0),
            ..Goal::default()
        };
        let tree = Goal {
            times: Some(5.0),
            within: Some(1.3),
            ..Goal::default()
        };
        let convoy = Goal {
            parks: Some(1.5),
            ..Goal::default()
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
            Outcome {
                parks: Some(1.004),
                ..outcome("convoy/1000", 3_100_000.0, Some(55.6e6), convoy)
            },
        ];
        insta::assert_snapshot!(summary(&outcomes, &[]));
    }

    #[test]
    fn other_crates_stand_in_columns_with_what_ours_is_ahead_by() {
        let figure = |(name, kind, ns)| Figure { name, kind, ns };
        let of = |name: &str, operation, figures: &[(&'static str, Kind, f64)]| Compared {
            name: name.to_owned(),
            operation,
            floor_ns: 140.0,
            figures: figures.iter().copied().map(figure).collect(),
        };
        let compared = [
            of(
                "tree/crates/change/16",
                Operation::Change,
                &[
                    ("ours", Kind::Ours, 40.0),
                    ("BTreeMap", Kind::Floor, 30.0),
                    ("iset", Kind::Intervals, 119.0),
                    ("imbl", Kind::Persistent, 68.0),
                ],
            ),
            of(
                "tree/crates/snapshot_insert/16",
                Operation::SnapshotInsert,
                &[
                    ("ours", Kind::Ours, 300.0),
                    ("imbl", Kind::Persistent, 540.0),
                ],
            ),
        ];
        insta::assert_snapshot!(summary(&[], &compared));
    }
}
