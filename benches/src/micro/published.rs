//! What was published of the microbenchmarks.

use anyhow::{Context, Result, bail};

/// `name original_ns original_bytes original_allocs predecessor_ns predecessor_allocs`, tab-separated; `-`
/// where nothing was published.
const TABLE: &str = include_str!("../../published/micro.tsv");

/// What was published of one benchmark, per operation, on a machine whose
/// [floor](super::tree::floor) is [`PUBLISHED_FLOOR_NS`](super::tree::PUBLISHED_FLOOR_NS).
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The name of the benchmark.
    pub name: String,
    /// Nanoseconds of the original.
    pub original_ns: Option<f64>,
    /// Allocations of the original.
    pub original_allocs: Option<f64>,
    /// Nanoseconds of the original's predecessor.
    pub predecessor_ns: Option<f64>,
}

/// All published figures.
///
/// # Errors
///
/// If the table that is compiled in is malformed; the error names the line.
pub fn published() -> Result<Vec<Published>> {
    let parsed = TABLE.lines().enumerate().skip(1).map(|(number, line)| {
        parse(line)
            .with_context(|| format!("line {} of the published figures: {line:?}", number + 1))
    });
    parsed.collect()
}

fn parse(line: &str) -> Result<Published> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [name, original_ns, _, original_allocs, predecessor_ns, _] = columns[..] else {
        bail!("{} columns instead of 6", columns.len());
    };
    let figure = |column: &str| match column {
        "-" => Ok(None),
        number => number
            .parse()
            .map(Some)
            .with_context(|| format!("{number:?}")),
    };
    Ok(Published {
        name: name.to_owned(),
        original_ns: figure(original_ns)?,
        original_allocs: figure(original_allocs)?,
        predecessor_ns: figure(predecessor_ns)?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::micro::benchmark::Scale;
    use crate::micro::rows::rows;

    #[test]
    fn every_published_figure_belongs_to_a_benchmark() -> Result<()> {
        let names: BTreeSet<String> = rows(Scale::Tiny)?
            .into_iter()
            .map(|row| row.ours.name)
            .collect();
        let published = published()?;
        assert_eq!(published.len(), 67);
        for figure in published {
            assert!(names.contains(&figure.name), "{}", figure.name);
        }
        Ok(())
    }

    #[test]
    fn a_figure_is_read_as_it_was_published() -> Result<()> {
        let all = published()?;
        let of = |name| all.iter().find(|figure| figure.name == name);
        let mix = of("read_write_mix/4").context("no such figure")?;
        assert_eq!(mix.original_ns, Some(385.0));
        assert_eq!(mix.original_allocs, Some(1.0));
        assert_eq!(mix.predecessor_ns, Some(2492.0));
        let tree = of("tree/first_overlap/1024").context("no such figure")?;
        assert_eq!((tree.original_ns, tree.predecessor_ns), (Some(414.0), None));
        Ok(())
    }
}
