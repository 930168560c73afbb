//! The tables: name, old, new, delta, and what was published about the same operation.

use super::published;
use super::{Cell, Sample};
use crate::stats::{Summary, Verdict};
use crate::table::{Align, aligned};

/// A figure of a table.
struct Metric {
    label: &'static str,
    published: &'static str,
    of: fn(&Sample) -> f64,
    /// What it is shown in, in thousands of each other.
    units: [&'static str; 3],
}

const METRICS: [Metric; 3] = [
    Metric {
        label: "time/op",
        published: "time_per_op_us",
        of: |sample| sample.us,
        units: ["µs", "ms", "s"],
    },
    Metric {
        label: "alloc/op",
        published: "alloc_bytes_per_op",
        of: |sample| sample.bytes,
        units: ["B", "kB", "MB"],
    },
    Metric {
        label: "allocs/op",
        published: "allocs_per_op",
        of: |sample| sample.allocs,
        units: ["", "k", "M"],
    },
];

/// One table a metric, as `benchstat` prints them.
pub fn tables(cells: &[(Cell, [Vec<Sample>; 2])]) -> String {
    let tables = METRICS.iter().map(|metric| table(metric, cells));
    let mut text = tables.collect::<Vec<String>>().join("\n");
    text.push_str(
        "\nold - new: where it is the same in each pair of samples.\nold prepares the target of its error inspection on every call; new is the client as it is. \
         published: of another system, through SQL, and of a dozen changes together.\n",
    );
    text
}

fn table(metric: &Metric, cells: &[(Cell, [Vec<Sample>; 2])]) -> String {
    let heads = [
        "name",
        "old",
        "new",
        "delta",
        "",
        "old - new",
        "published (SQL)",
    ];
    let mut heads = heads.map(str::to_owned).to_vec();
    for head in &mut heads[1..3] {
        *head = format!("{head} {}", metric.label);
    }
    let mut lines = vec![heads];
    for (cell, samples) in cells {
        let [old, new] = [&samples[0], &samples[1]]
            .map(|samples| samples.iter().map(metric.of).collect::<Vec<f64>>());
        let side = |figures: &[f64]| match Summary::of(figures) {
            Some(Summary { median, spread }) => {
                format!("{} ± {:.0}%", show(median, metric.units), spread * 100.0)
            }
            None => "-".to_owned(),
        };
        let n = format!("n={}+{}", old.len(), new.len());
        let (delta, sureness) = match Verdict::of(&old, &new) {
            None => ("?".to_owned(), format!("({n})")),
            Some(Verdict::AllEqual) => ("~".to_owned(), "(all equal)".to_owned()),
            Some(Verdict::Indistinct { p }) => ("~".to_owned(), format!("(p={p:.3} {n})")),
            Some(Verdict::Differs { delta, p }) => {
                (format!("{:+.2}%", delta * 100.0), format!("(p={p:.3} {n})"))
            }
        };
        // Both sides of a pair have done the same before, so that growing trees cancel out.
        let pairs: Vec<f64> = old.iter().zip(&new).map(|(old, new)| old - new).collect();
        let difference = match Summary::of(&pairs) {
            Some(Summary { median, spread }) if spread < 1e-6 => show(median, metric.units),
            _ => "-".to_owned(),
        };
        let published = published::delta(cell, metric.published).unwrap_or_default();
        lines.push(vec![
            cell.to_string(),
            side(&old),
            side(&new),
            delta,
            sureness,
            difference,
            published,
        ]);
    }
    aligned(&lines, |_| Align::Left)
}

/// A figure in the unit that suits it: counts to the last one, as long as they are below 10,000.
fn show(figure: f64, units: [&str; 3]) -> String {
    let (scaled, unit) = match figure {
        _ if units[0].is_empty() && figure < 1e4 => {
            let digits = usize::from((figure - figure.round()).abs() > 1e-6);
            return format!("{figure:.digits$}");
        }
        _ if figure >= 1e6 => (figure / 1e6, units[2]),
        _ if figure >= 1e3 => (figure / 1e3, units[1]),
        _ => (figure, units[0]),
    };
    let is_whole = (scaled - scaled.round()).abs() < 1e-6;
    let digits = match scaled {
        _ if unit == units[0] && is_whole => 0,
        _ if scaled >= 99.95 => 0,
        _ if scaled >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_those_that_benchstat_prints() {
        let sample = |us: f64, allocs: f64| Sample {
            us,
            bytes: allocs * 40.0,
            allocs,
        };
        let side = |us: f64, allocs| {
            (0..5)
                .map(|i| sample(us + f64::from(i) / 10.0, allocs))
                .collect()
        };
        let cells: Vec<(Cell, [Vec<Sample>; 2])> = Cell::all()
            .filter(|cell| cell.rows < 100)
            .map(|cell| {
                let rows = cell.rows as f64;
                (
                    cell,
                    [
                        side(9.0 * rows, 30.0 * rows + 1.0),
                        side(9.0 * rows, 30.0 * rows),
                    ],
                )
            })
            .collect();
        insta::assert_snapshot!(tables(&cells));
    }
}
