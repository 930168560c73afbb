//! What the microbenchmarks print: one table, and how many goals are met.

use super::goal::Goal;
use super::published::Published;
use super::rivals::{Compared, Kind};
use super::rows::PREDECESSOR;
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
    /// What was published of it.
    pub published: Option<Published>,
    /// What did the same work beside it, and in how many nanoseconds.
    pub beside: Option<(&'static str, f64)>,
    /// What it is meant to show.
    pub goal: Goal,
    /// How often each waiter of a convoy parks.
    pub parks: Option<f64>,
}

impl Outcome {
    /// What a published figure would have been on this machine, at this moment.
    fn scaled(&self, of: impl Fn(&Published) -> Option<f64>) -> Option<f64> {
        let published = self.published.as_ref().and_then(of)?;
        Some(published * self.floor_ns / PUBLISHED_FLOOR_NS)
    }

    /// What the original would have taken.
    fn original_ns(&self) -> Option<f64> {
        self.scaled(|published| published.original_ns)
    }

    /// What the original's predecessor would have taken.
    fn predecessor_ns(&self) -> Option<f64> {
        self.scaled(|published| published.predecessor_ns)
    }

    /// How many times as fast as something else.
    fn times(&self, other_ns: Option<f64>) -> Option<f64> {
        Some(other_ns? / self.ns)
    }

    /// What did the same beside it took.
    fn beside_ns(&self) -> Option<f64> {
        self.beside.map(|(_, ns)| ns)
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
            .zip(self.times(self.original_ns()))
            .map(|(goal, times)| (format!("{goal}x"), times >= goal));
        let allocs = allocs.map(|goal| (format!("{goal} allocs"), self.allocs <= goal + SURPLUS));
        let within = within
            .zip(self.times(self.beside_ns()))
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
    if outcomes.is_empty() && compared.is_empty() {
        return "nothing was measured\n".to_owned();
    }
    let mut tables = Vec::new();
    if !outcomes.is_empty() {
        tables.push(table(outcomes));
        tables.extend(notes(outcomes));
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
    if !outcomes.is_empty() {
        tables.push(slower(outcomes));
    }
    tables.join("\n")
}

/// What is slower than something that did the same work: the original, its predecessor, or the predecessor
/// beside it. A map that does less is none of these.
fn slower(outcomes: &[Outcome]) -> String {
    let lost = |of: &Outcome| {
        let beside = of.beside.filter(|(name, _)| *name == PREDECESSOR);
        let others = [
            ("original", of.original_ns()),
            ("published predecessor", of.predecessor_ns()),
            (PREDECESSOR, beside.map(|(_, ns)| ns)),
        ];
        let to: Vec<&str> = others
            .iter()
            .filter(|(_, ns)| ns.is_some_and(|ns| ns < of.ns))
            .map(|(name, _)| *name)
            .collect();
        (!to.is_empty()).then(|| format!("    {} than {}", of.name, to.join(", ")))
    };
    let lost: Vec<String> = outcomes.iter().filter_map(lost).collect();
    match lost.is_empty() {
        true => "slower: none\n".to_owned(),
        false => format!("slower:\n{}\n", lost.join("\n")),
    }
}

/// Every benchmark, and what it is held against.
fn table(outcomes: &[Outcome]) -> String {
    let heads = [
        "name",
        "ns/op",
        "allocs/op",
        "original",
        "allocs",
        "ratio",
        "goal",
        "met",
        "beside",
        "ns/op",
        "ratio",
        "published",
        "ratio",
    ];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    lines.extend(outcomes.iter().map(line));
    aligned(&lines, |column| match column {
        0 | 6..=8 => Align::Left,
        _ => Align::Right,
    })
}

/// What the table cannot say.
fn notes(outcomes: &[Outcome]) -> Option<String> {
    let mut text = String::new();
    if outcomes
        .iter()
        .any(|of| of.name.starts_with("read_only_mix/"))
    {
        text += "read_only_mix: 326 to 386 ns (of the predecessor: 490 to 611) were published over all sizes; the least is shown.\n";
    }
    text += &convoys(outcomes).unwrap_or_default();
    (!text.is_empty()).then_some(text)
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
    let original_allocs = of.published.as_ref().and_then(|of| of.original_allocs);
    vec![
        of.name.clone(),
        figure(of.ns),
        allocs(of.allocs),
        or_dash(of.original_ns().map(figure)),
        or_dash(original_allocs.map(allocs)),
        or_dash(of.times(of.original_ns()).map(ratio)),
        if all.is_empty() {
            "-".to_owned()
        } else {
            all.join(", ")
        },
        met,
        or_dash(of.beside.map(|(name, _)| name.to_owned())),
        or_dash(of.beside_ns().map(figure)),
        or_dash(of.times(of.beside_ns()).map(ratio)),
        or_dash(of.predecessor_ns().map(figure)),
        or_dash(of.times(of.predecessor_ns()).map(ratio)),
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
            published: original_ns.map(|ns| Published {
                name: name.to_owned(),
                original_ns: Some(ns),
                original_allocs: None,
                predecessor_ns: None,
            }),
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
                beside: Some((PREDECESSOR, 86.4)),
                published: Some(Published {
                    name: "uncontended/point_write".to_owned(),
                    original_ns: Some(242.0),
                    original_allocs: Some(1.0),
                    predecessor_ns: Some(216.0),
                }),
                ..outcome("uncontended/point_write", 43.21, None, goal)
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
