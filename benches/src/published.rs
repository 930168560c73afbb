//! The published figures of the predecessor and the original latch manager, row by row.

use anyhow::{Context, Result, bail};

use crate::metric::Metric;
use crate::name::RowName;
use crate::suite::Suite;

/// `suite name metric old old_spread_pct new new_spread_pct delta_pct note`, tab-separated.
const TABLE: &str = include_str!("../published/spanlatch.tsv");

/// A published row: one configuration on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// The suite that it was published in.
    pub suite: Suite,
    /// Its published name.
    pub name: RowName,
    /// Its figures, one a metric.
    pub figures: Vec<(Metric, Figure)>,
}

/// One published comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The change from the predecessor to the original latch manager in percent; `None` where it was
    /// published as not significant.
    pub delta_percent: Option<f64>,
}

impl Figure {
    /// The change as it was published: `+3.22%` or `~`.
    pub fn delta(&self) -> String {
        self.delta_percent
            .map_or_else(|| "~".to_owned(), |delta| format!("{delta:+.2}%"))
    }
}

impl PublishedRow {
    /// The figure for `metric`.
    pub fn figure(&self, metric: Metric) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|(of, _)| *of == metric)
            .map(|(_, figure)| figure)
    }
}

/// All published rows, in the order in which they were published.
///
/// # Errors
///
/// If the table that is compiled in is malformed; the error names the line.
pub fn published() -> Result<Vec<PublishedRow>> {
    let mut rows: Vec<PublishedRow> = Vec::new();
    for (number, line) in TABLE.lines().enumerate().skip(1) {
        let (suite, name, metric, figure) = parse(line)
            .with_context(|| format!("line {} of the published table: {line:?}", number + 1))?;
        match rows
            .iter_mut()
            .find(|row| row.name == name && row.suite == suite)
        {
            Some(row) => row.figures.push((metric, figure)),
            None => rows.push(PublishedRow {
                suite,
                name,
                figures: vec![(metric, figure)],
            }),
        }
    }
    Ok(rows)
}

fn parse(line: &str) -> Result<(Suite, RowName, Metric, Figure)> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [suite, name, metric, _, _, _, _, delta, _] = columns[..] else {
        bail!("{} columns instead of 9", columns.len());
    };
    let suite = suite.parse()?;
    let name = name.parse()?;
    let metric = Metric::from_published(metric).with_context(|| format!("metric {metric:?}"))?;
    let delta_percent = match delta {
        "~" => None,
        number => Some(
            number
                .parse()
                .with_context(|| format!("delta {number:?}"))?,
        ),
    };
    Ok((suite, name, metric, Figure { delta_percent }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seventy_rows_were_published_each_with_three_figures() -> Result<()> {
        let rows = published()?;
        assert_eq!(rows.len(), 70);
        assert!(rows.iter().all(|row| row.figures.len() == 3));
        Ok(())
    }

    #[test]
    fn a_figure_is_read_as_it_was_published() -> Result<()> {
        let rows = published()?;
        let row = rows
            .iter()
            .find(|row| row.name.to_string() == "kv95-c5/cores=36/nodes=1/splits=0");
        let figure = row
            .and_then(|row| row.figure(Metric::OpsPerSec))
            .context("no such figure")?;
        assert_eq!(figure.delta(), "+71.05%");
        Ok(())
    }

    #[test]
    fn where_nothing_significant_was_published_the_delta_is_a_tilde() -> Result<()> {
        let rows = published()?;
        let row = rows
            .iter()
            .find(|row| row.name.to_string() == "kv95/cores=4/nodes=1/splits=0");
        let figure = row
            .and_then(|row| row.figure(Metric::P50))
            .context("no such figure")?;
        assert_eq!(figure.delta(), "~");
        Ok(())
    }
}
