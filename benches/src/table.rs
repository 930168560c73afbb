//! Tables as people of this field know them: name, old, new, delta.

use std::fmt::Write as _;

use crate::metric::Metric;
use crate::results::{Beside, Measured, Results};
use crate::sample::{Latching, Sample};
use crate::stats::{Summary, Verdict};

/// Two lists of samples under one name.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The row's name.
    pub name: &'a str,
    /// What it is compared with.
    pub old: &'a [Sample],
    /// What is compared.
    pub new: &'a [Sample],
    /// What was published about it.
    pub beside: Option<&'a Beside>,
}

/// What the two lists are called in the heads of the tables.
#[derive(Clone, Debug)]
pub struct Sides {
    /// What is compared with.
    pub old: String,
    /// What is compared.
    pub new: String,
}

impl Default for Sides {
    /// The predecessor is old, the latch manager new.
    fn default() -> Self {
        Self {
            old: "old".to_owned(),
            new: "new".to_owned(),
        }
    }
}

impl Sides {
    /// The heads of two columns.
    fn heads(&self, of: &str) -> [String; 2] {
        [&self.old, &self.new].map(|side| format!("{side} {of}"))
    }
}

impl<'a> From<&'a Measured> for Pair<'a> {
    fn from(row: &'a Measured) -> Self {
        Self {
            name: &row.name,
            old: &row.old,
            new: &row.new,
            beside: row.beside.as_ref(),
        }
    }
}

/// All tables of a session: throughput, latencies, tails, and how the latches were used.
pub fn session(results: &Results) -> String {
    let pairs: Vec<Pair<'_>> = results.rows.iter().map(Pair::from).collect();
    let mut text = all(&pairs, &Sides::default());
    let (engine, client) = (results.settings.engine, results.settings.client);
    let _ = writeln!(text, "\nengine: {engine}, client: {client}");
    for note in results.notes() {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// All tables of some pairs, and below them the runs that have no figures.
pub fn all(pairs: &[Pair<'_>], sides: &Sides) -> String {
    let tables = Metric::ALL
        .map(|metric| comparison(metric, pairs, sides))
        .into_iter();
    let mut text = tables
        .chain([tails(pairs, sides), latching(pairs, sides)])
        .collect::<Vec<String>>()
        .join("\n");
    for line in nothing_ran(pairs, sides) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// A line for each list with runs in which nothing ended.
pub fn nothing_ran(pairs: &[Pair<'_>], sides: &Sides) -> Vec<String> {
    let of_pair = |pair: &Pair<'_>| {
        [(&sides.old, pair.old), (&sides.new, pair.new)]
            .into_iter()
            .filter_map(|(side, samples)| {
                let idle = samples.len() - ran(samples).count();
                let all = samples.len();
                (idle > 0).then(|| {
                    format!(
                        "nothing ran: {} ({side}): no operation ended in {idle} of {all} runs, which have no \
                         figures; measure for longer",
                        pair.name
                    )
                })
            })
            .collect::<Vec<String>>()
    };
    pairs.iter().flat_map(of_pair).collect()
}

/// The samples that have figures: an operation ended.
fn ran(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| sample.ops > 0)
}

/// The change of a metric and how sure it is: `+3.22%` and `(p=0.008 n=5+5)`.
pub fn delta(metric: Metric, pair: &Pair<'_>) -> (String, String) {
    let [old, new] = [pair.old, pair.new].map(|samples| figures(metric, samples));
    let n = format!("n={}+{}", old.len(), new.len());
    match Verdict::of(&old, &new) {
        None => ("?".to_owned(), format!("({n})")),
        Some(Verdict::AllEqual) => ("~".to_owned(), "(all equal)".to_owned()),
        Some(Verdict::Indistinct { p }) => ("~".to_owned(), format!("(p={p:.3} {n})")),
        Some(Verdict::Differs { delta, p }) => {
            (format!("{:+.2}%", delta * 100.0), format!("(p={p:.3} {n})"))
        }
    }
}

/// The figures of a metric, one for each sample in which an operation ended.
pub fn figures(metric: Metric, samples: &[Sample]) -> Vec<f64> {
    ran(samples).map(|sample| metric.of(sample)).collect()
}

/// The median of what something is in these samples; `None` if in none of them an operation ended.
pub fn median(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Option<f64> {
    let figures: Vec<f64> = ran(samples).map(of).collect();
    Summary::of(&figures).map(|summary| summary.median)
}

fn comparison(metric: Metric, pairs: &[Pair<'_>], sides: &Sides) -> String {
    let [old, new] = sides.heads(metric.label());
    let mut heads = vec!["name".to_owned(), old, new, "delta".to_owned()];
    if pairs.iter().any(|pair| pair.beside.is_some()) {
        heads.extend([String::new(), "published".to_owned()]);
    }
    let mut lines = vec![heads];
    for pair in pairs {
        let side = |samples: &[Sample]| match Summary::of(&figures(metric, samples)) {
            Some(Summary { median, spread }) => {
                format!("{} ± {:.0}%", metric.show(median), spread * 100.0)
            }
            None => "-".to_owned(),
        };
        let (change, sureness) = delta(metric, pair);
        let beside = pair.beside.map_or_else(String::new, |beside| {
            format!("{} (cores={})", beside.delta(metric), beside.cores)
        });
        lines.push(vec![
            pair.name.to_owned(),
            side(pair.old),
            side(pair.new),
            change,
            sureness,
            beside,
        ]);
    }
    aligned(&lines, |_| Align::Left)
}

fn tails(pairs: &[Pair<'_>], sides: &Sides) -> String {
    let heads = ["p99.9", "max"].map(|of| sides.heads(of));
    let mut lines = vec![named("name", heads.into_iter().flatten())];
    for pair in pairs {
        let most = |samples| ran(samples).map(|sample| sample.max_us).reduce(f64::max);
        let figures = [
            median(pair.old, |sample| sample.p999_us),
            median(pair.new, |sample| sample.p999_us),
            most(pair.old),
            most(pair.new),
        ];
        let shown =
            figures.map(|figure| figure.map_or_else(|| "-".to_owned(), |us| Metric::P99.show(us)));
        lines.push(named(pair.name, shown));
    }
    aligned(&lines, |_| Align::Left)
}

fn latching(pairs: &[Pair<'_>], sides: &Sides) -> String {
    let heads = ["waits/op", "latches held", "latching CPU"].map(|of| sides.heads(of));
    let mut lines = vec![named("name", heads.into_iter().flatten())];
    for pair in pairs {
        let both = |show: fn(f64) -> String, of: fn(&Latching) -> f64| {
            [pair.old, pair.new].map(|samples| {
                median(samples, |sample| of(&sample.latching)).map_or_else(|| "-".to_owned(), show)
            })
        };
        let figures = [
            both(
                |waits| format!("{waits:.3}"),
                |latching| latching.waits_per_op,
            ),
            both(|held| format!("{held:.1}"), |latching| latching.held),
            both(
                |share| format!("{:.1}%", share * 100.0),
                |latching| latching.cpu_share,
            ),
        ];
        lines.push(named(pair.name, figures.into_iter().flatten()));
    }
    aligned(&lines, |_| Align::Left)
}

fn named(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    [name.to_owned()].into_iter().chain(cells).collect()
}

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Figures.
    Right,
}

/// Columns side by side, as wide as their widest cell; no spaces at the end of a line.
pub fn aligned(lines: &[Vec<String>], align: impl Fn(usize) -> Align) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = (0..)
            .zip(line.iter().zip(&widths))
            .map(|(column, (cell, width))| match align(column) {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::Timing;
    use crate::storage::EngineKind;
    use crate::suite::Choice;

    fn samples(ops: [u64; 5]) -> Vec<Sample> {
        let latching = Latching {
            waits_per_op: 0.25,
            held: 12.0,
            cpu_share: 0.125,
        };
        ops.map(|ops| {
            Sample::new(
                (0..ops).map(|_| 1_400_000),
                Duration::from_secs(1),
                latching,
            )
        })
        .to_vec()
    }

    fn beside() -> Beside {
        Beside {
            name: "kv0/cores=4/nodes=1/splits=0".to_owned(),
            cores: 4,
            ops_per_sec: "+3.22%".to_owned(),
            p50: "-3.41%".to_owned(),
            p99: "-4.55%".to_owned(),
        }
    }

    fn measured(name: &str, beside: Option<Beside>, old: [u64; 5], new: [u64; 5]) -> Measured {
        Measured {
            name: name.to_owned(),
            note: None,
            beside,
            old: samples(old),
            new: samples(new),
        }
    }

    #[test]
    fn the_tables_are_those_that_benchstat_prints() {
        let timing = Timing {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
        };
        let mut results = Results::begin(&Choice::Selection, EngineKind::Mem, 2, 5, timing);
        let old = [1000, 1010, 990, 1000, 980];
        results.rows = vec![
            measured(
                "kv0/cores=2/nodes=1/splits=0",
                Some(beside()),
                old,
                [1100, 1110, 1100, 1100, 1089],
            ),
            measured(
                "kv95-c5/cores=2/nodes=1/splits=0",
                None,
                old,
                [1001, 1011, 991, 1001, 981],
            ),
            Measured {
                new: Vec::new(),
                ..measured("kv95/cores=2/nodes=1/splits=0", None, old, old)
            },
        ];
        results.rows[0].note = Some("nodes=3: a note".to_owned());
        insta::assert_snapshot!(session(&results));
    }

    #[test]
    fn what_is_not_significant_is_a_tilde_with_its_p_value() {
        let (old, new) = (
            samples([1000, 1010, 990, 1000, 980]),
            samples([1001, 1011, 991, 1001, 981]),
        );
        let pair = Pair {
            name: "x",
            old: &old,
            new: &new,
            beside: None,
        };
        let (change, sureness) = delta(Metric::OpsPerSec, &pair);
        assert_eq!(change, "~");
        assert!(
            sureness.starts_with("(p=0.") && sureness.ends_with(" n=5+5)"),
            "{sureness}"
        );
    }

    #[test]
    fn a_row_without_samples_says_so() {
        let old = samples([1, 2, 3, 4, 5]);
        let pair = Pair {
            name: "x",
            old: &old,
            new: &[],
            beside: None,
        };
        assert_eq!(
            delta(Metric::P50, &pair),
            ("?".to_owned(), "(n=5+0)".to_owned())
        );
        assert!(all(&[pair], &Sides::default()).contains(" - "));
    }

    #[test]
    fn a_run_in_which_no_operation_ended_has_no_figures_and_is_named() {
        let old = samples([0, 0, 0, 0, 0]);
        let new = samples([0, 2, 3, 4, 5]);
        let pair = Pair {
            name: "x",
            old: &old,
            new: &new,
            beside: None,
        };
        let text = all(&[pair], &Sides::default());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('x')).collect();
        assert!(rows.iter().all(|row| row.starts_with("x     -")), "{text}");
        assert!(!text.contains(" 0.00"), "{text}");
        let idle: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("nothing ran: x"))
            .collect();
        assert!(
            idle.len() == 2 && idle[0].contains("5 of 5") && idle[1].contains("1 of 5"),
            "{idle:?}"
        );
    }
}
