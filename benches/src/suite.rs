//! Which rows run: the published suites, the default selection, and one's own workload.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use crate::name::RowName;
use crate::published::{PublishedRow, published};
use crate::workload::{Flags, Workload};

/// A published suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// Writes only and 5 % writes, split and not.
    Standard,
    /// The standard one on the largest machine.
    LargeMachine,
    /// Few keys, many conflicts.
    Motivating,
    /// Many rows per operation.
    Batching,
}

impl Suite {
    /// In the order in which they were published.
    pub const ALL: [Self; 4] = [
        Self::Standard,
        Self::LargeMachine,
        Self::Motivating,
        Self::Batching,
    ];
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::LargeMachine => "large-machine",
            Self::Motivating => "motivating",
            Self::Batching => "batching",
        })
    }
}

impl FromStr for Suite {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::ALL
            .into_iter()
            .find(|suite| suite.to_string() == name)
        {
            Some(suite) => Ok(suite),
            None => bail!("no suite is called {name:?}"),
        }
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A few rows from every corner, for a first look.
    Selection,
    /// One published suite.
    Suite(Suite),
    /// All published suites.
    All,
    /// A workload of one's own.
    Own(Box<Workload>),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selection => f.write_str("selection"),
            Self::Suite(suite) => suite.fmt(f),
            Self::All => f.write_str("all"),
            Self::Own(_) => f.write_str("kv"),
        }
    }
}

/// The default selection: with the published number of runs, six rows take two and a half minutes.
/// Unsplit, because that is where latches meet; the suites have the split rows too.
const SELECTION: [&str; 6] = [
    "kv0",
    "kv95-c5",
    "kv50-c128",
    "kv70-20-c128",
    "kv0-b128",
    "kv95-b16",
];

/// A row that runs here, standing for one or several published ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name, with the cores that it has here.
    pub name: String,
    /// What it runs.
    pub workload: Workload,
    /// Nodes of its cluster.
    pub nodes: usize,
    /// The published row beside which it is shown: the one at the same number of cores, or else the
    /// one at the smallest.
    pub published: Option<PublishedRow>,
}

/// The published rows that a choice stands for, in their order, or only those of so many nodes; none for a workload of one's own.
///
/// # Errors
///
/// If the published table is malformed.
pub fn published_rows(choice: &Choice, nodes: Option<usize>) -> Result<Vec<PublishedRow>> {
    let mut rows = published()?;
    rows.retain(|row| nodes.is_none_or(|nodes| row.name.nodes == nodes));
    rows.retain(|row| match choice {
        Choice::Selection => {
            let RowName {
                workload,
                nodes,
                splits,
                ..
            } = row.name;
            nodes == 1 && splits == 0 && SELECTION.contains(&workload.to_string().as_str())
        }
        Choice::Suite(suite) => row.suite == *suite,
        Choice::All => true,
        Choice::Own(_) => false,
    });
    Ok(rows)
}

/// The rows of a choice on this many cores: one for each published configuration, or only those of so many nodes. A workload of
/// one's own runs on one node, unless another number is given.
///
/// # Errors
///
/// If the published table is malformed, or holds a workload that breaks its own rules.
pub fn rows(choice: &Choice, cores: usize, nodes: Option<usize>) -> Result<Vec<Row>> {
    if let Choice::Own(workload) = choice {
        return Ok(vec![own_row(workload, cores, nodes.unwrap_or(1))?]);
    }
    let mut rows: Vec<Row> = Vec::new();
    for published in published_rows(choice, nodes)? {
        let name = RowName {
            cores,
            ..published.name
        };
        let same = rows.iter_mut().find(|row| row.name == name.to_string());
        match same {
            Some(row) => {
                let distance = |candidate: &PublishedRow| {
                    (candidate.name.cores != cores, candidate.name.cores)
                };
                if row
                    .published
                    .as_ref()
                    .is_none_or(|known| distance(&published) < distance(known))
                {
                    row.published = Some(published);
                }
            }
            None => rows.push(Row {
                name: name.to_string(),
                workload: Workload::new(Flags::named(name.workload, name.splits))?,
                nodes: name.nodes,
                published: Some(published),
            }),
        }
    }
    Ok(rows)
}

/// A row under the published form of its name, followed by what has no place in one.
fn own_row(workload: &Workload, cores: usize, nodes: usize) -> Result<Row> {
    let flags = workload.flags();
    let like_published = Flags::named(workload.name(), flags.splits);
    let row = RowName {
        workload: workload.name(),
        cores,
        nodes,
        splits: flags.splits,
    };
    let mut name = row.to_string();
    let (min, max) = (flags.min_block_bytes, flags.max_block_bytes);
    if (min, max)
        != (
            like_published.min_block_bytes,
            like_published.max_block_bytes,
        )
    {
        name += &format!("/block={min}..={max}");
    }
    if flags.sequential {
        name += "/sequential";
    }
    if flags.seed != like_published.seed {
        name += &format!("/seed={}", flags.seed);
    }
    if flags.concurrency != like_published.concurrency {
        name += &format!("/concurrency={}", flags.concurrency);
    }
    let published = if *flags == like_published {
        let all = rows(&Choice::All, cores, None)?;
        all.into_iter()
            .find(|known| known.name == name)
            .and_then(|known| known.published)
    } else {
        None
    };
    Ok(Row {
        name,
        workload: workload.clone(),
        nodes,
        published,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(change: impl FnOnce(&mut Flags)) -> Result<Row> {
        let mut flags = Flags::default();
        change(&mut flags);
        let choice = Choice::Own(Box::new(Workload::new(flags)?));
        Ok(rows(&choice, 2, None)?.remove(0))
    }

    #[test]
    fn seventy_published_rows_are_23_configurations_of_which_19_need_one_node() -> Result<()> {
        assert_eq!(published_rows(&Choice::All, None)?.len(), 70);
        let rows = rows(&Choice::All, 2, None)?;
        assert_eq!(rows.len(), 23);
        assert_eq!(rows.iter().filter(|row| row.nodes == 1).count(), 19);
        assert_eq!(super::rows(&Choice::All, 2, Some(3))?.len(), 4);
        Ok(())
    }

    #[test]
    fn the_suites_together_are_everything() -> Result<()> {
        let sizes: Result<Vec<usize>> = Suite::ALL
            .map(|suite| Ok(published_rows(&Choice::Suite(suite), None)?.len()))
            .into_iter()
            .collect();
        assert_eq!(sizes?, [24, 4, 6, 36]);
        Ok(())
    }

    #[test]
    fn a_row_says_how_many_cores_it_has_here() -> Result<()> {
        let rows = rows(&Choice::Suite(Suite::Motivating), 2, None)?;
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "kv95-c5/cores=2/nodes=1/splits=0",
                "kv50-c128/cores=2/nodes=1/splits=0",
                "kv70-20-c128/cores=2/nodes=1/splits=0",
            ]
        );
        Ok(())
    }

    #[test]
    fn a_row_stands_beside_the_smallest_published_machine_unless_there_is_one_of_its_size()
    -> Result<()> {
        let cores = |suite, own| -> Result<Vec<usize>> {
            let rows = rows(&suite, own, None)?;
            let mut cores: Vec<usize> = rows
                .iter()
                .filter_map(|row| Some(row.published.as_ref()?.name.cores))
                .collect();
            cores.dedup();
            Ok(cores)
        };
        assert_eq!(cores(Choice::Suite(Suite::Standard), 2)?, [4]);
        assert_eq!(cores(Choice::Suite(Suite::Standard), 16)?, [16]);
        assert_eq!(cores(Choice::Suite(Suite::Motivating), 2)?, [16]);
        assert_eq!(cores(Choice::Suite(Suite::LargeMachine), 2)?, [72]);
        Ok(())
    }

    #[test]
    fn the_selection_is_the_rows_that_it_names() -> Result<()> {
        let rows = rows(&Choice::Selection, 2, None)?;
        let mut names: Vec<String> = rows
            .iter()
            .map(|row| row.workload.name().to_string())
            .collect();
        names.sort();
        let mut expected = SELECTION;
        expected.sort_unstable();
        assert_eq!(names, expected);
        Ok(())
    }

    #[test]
    fn ones_own_workload_shows_what_differs_and_finds_its_published_row() -> Result<()> {
        let known = own(|f| (f.read_percent, f.cycle_length) = (95, 5))?;
        assert_eq!(known.name, "kv95-c5/cores=2/nodes=1/splits=0");
        assert_eq!(known.published.map(|row| row.name.cores), Some(16));

        let replicated = Choice::Own(Box::new(Workload::new(Flags::default())?));
        let replicated = rows(&replicated, 2, Some(3))?.remove(0);
        assert_eq!(replicated.name, "kv0/cores=2/nodes=3/splits=0");
        assert_eq!(replicated.published.map(|row| row.name.nodes), Some(3));

        let odd =
            own(|f| (f.seed, f.sequential, f.concurrency, f.max_block_bytes) = (7, true, 8, 9))?;
        assert_eq!(
            odd.name,
            "kv0/cores=2/nodes=1/splits=0/block=1..=9/sequential/seed=7/concurrency=8"
        );
        assert_eq!(odd.published, None);
        Ok(())
    }

    #[test]
    fn an_unknown_suite_is_named_in_the_error() {
        let error = "standart"
            .parse::<Suite>()
            .map_err(|error| error.to_string());
        assert_eq!(error, Err("no suite is called \"standart\"".to_owned()));
    }
}
