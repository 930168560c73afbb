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
    /// The original.
    pub original: Costs,
    /// The original's predecessor.
    pub predecessor: Costs,
}

/// What one operation cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Time, in nanoseconds.
    pub ns: Option<f64>,
    /// Bytes allocated.
    pub bytes: Option<f64>,
    /// Allocations.
    pub allocs: Option<f64>,
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
    let [name, figures @ ..] = &columns[..] else {
        bail!("no columns");
    };
    let figures: Result<Vec<Option<f64>>> = figures
        .iter()
        .map(|figure| match *figure {
            "-" => Ok(None),
            number => Ok(Some(number.parse().with_context(|| format!("{number:?}"))?)),
        })
        .collect();
    let [original_ns, bytes, allocs, ns, predecessor_allocs] = figures?[..] else {
        bail!("{} columns instead of 6", columns.len());
    };
    Ok(Published {
        name: (*name).to_owned(),
        original: Costs {
            ns: original_ns,
            bytes,
            allocs,
        },
        predecessor: Costs {
            ns,
            bytes: None,
            allocs: predecessor_allocs,
        },
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
        assert_eq!(mix.original.ns, Some(385.0));
        assert_eq!(mix.original.bytes, Some(160.0));
        assert_eq!(mix.predecessor.allocs, Some(12.0));
        let tree = of("tree/first_overlap/1024").context("no such figure")?;
        assert_eq!(
            (tree.original.ns, tree.original.allocs),
            (Some(414.0), None)
        );
        Ok(())
    }
}
