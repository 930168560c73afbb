//! The published names: `kv95-c5` is a workload, `kv95-c5/cores=2/nodes=1/splits=0` a row.

use std::fmt;
use std::str::FromStr;

/// A workload by its published name: `kv` and the share of reads, then what differs from the default.
///
/// | part | means |
/// |---|---|
/// | `kv70` | 70 % of the operations read |
/// | `-20` | 20 % scan the whole table |
/// | `-c128` | write indexes repeat after 128 |
/// | `-b16` | 16 rows per operation |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadName {
    /// Share of operations that read, in percent.
    pub read_percent: u32,
    /// Share of operations that scan, in percent.
    pub span_percent: u32,
    /// Write indexes repeat after this many; `None` for the default.
    pub cycle_length: Option<u64>,
    /// Rows per operation.
    pub batch: u32,
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kv{}", self.read_percent)?;
        if self.span_percent > 0 {
            write!(f, "-{}", self.span_percent)?;
        }
        if let Some(cycle) = self.cycle_length {
            write!(f, "-c{cycle}")?;
        }
        if self.batch != 1 {
            write!(f, "-b{}", self.batch)?;
        }
        Ok(())
    }
}

/// A name that is none of a workload or a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is no {kind}: expected something like {example}")]
pub struct NameError {
    name: String,
    kind: &'static str,
    example: &'static str,
}

impl FromStr for WorkloadName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let parsed = || {
            let mut parts = name.strip_prefix("kv")?.split('-').peekable();
            let read_percent = parts.next()?.parse().ok()?;
            let span_percent = match parts.peek().and_then(|part| part.parse().ok()) {
                Some(percent) => {
                    parts.next();
                    percent
                }
                None => 0,
            };
            let mut labelled = |label: char| {
                let value = parts.peek().and_then(|part| part.strip_prefix(label))?;
                parts.next();
                Some(value)
            };
            let cycle_length = labelled('c').map(str::parse).transpose().ok()?;
            let batch = labelled('b').map_or(Ok(1), str::parse).ok()?;
            let parsed = Self {
                read_percent,
                span_percent,
                cycle_length,
                batch,
            };
            // Refuses what has another spelling: leading zeros, signs, spelled-out defaults.
            (parts.next().is_none() && parsed.to_string() == name).then_some(parsed)
        };
        parsed().ok_or_else(|| NameError {
            name: name.to_owned(),
            kind: "workload",
            example: "kv95-c5, kv70-20-c128 or kv0-b16",
        })
    }
}

/// A row of a table: a workload and the parameters of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowName {
    /// What runs.
    pub workload: WorkloadName,
    /// Cores per node.
    pub cores: usize,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Split points of the table.
    pub splits: u32,
}

impl fmt::Display for RowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            workload,
            cores,
            nodes,
            splits,
        } = self;
        write!(f, "{workload}/cores={cores}/nodes={nodes}/splits={splits}")
    }
}

impl FromStr for RowName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let parsed = || {
            let mut parts = name.split('/');
            let workload = parts.next()?.parse().ok()?;
            let cores = parts.next()?.strip_prefix("cores=")?.parse().ok()?;
            let nodes = parts.next()?.strip_prefix("nodes=")?.parse().ok()?;
            let splits = parts.next()?.strip_prefix("splits=")?.parse().ok()?;
            let parsed = Self {
                workload,
                cores,
                nodes,
                splits,
            };
            (parsed.to_string() == name).then_some(parsed)
        };
        parsed().ok_or_else(|| NameError {
            name: name.to_owned(),
            kind: "row",
            example: "kv95-c5/cores=2/nodes=1/splits=0",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_name_says_what_differs_from_the_default() {
        let name = |text: &str| text.parse::<WorkloadName>();
        let plain = WorkloadName {
            read_percent: 95,
            span_percent: 0,
            cycle_length: None,
            batch: 1,
        };
        assert_eq!(name("kv95"), Ok(plain));
        assert_eq!(
            name("kv95-c5"),
            Ok(WorkloadName {
                cycle_length: Some(5),
                ..plain
            })
        );
        assert_eq!(
            name("kv95-b1024"),
            Ok(WorkloadName {
                batch: 1024,
                ..plain
            })
        );
        assert_eq!(
            name("kv70-20-c128"),
            Ok(WorkloadName {
                read_percent: 70,
                span_percent: 20,
                cycle_length: Some(128),
                batch: 1
            })
        );
        assert_eq!(
            name("kv0-c7-b2"),
            Ok(WorkloadName {
                read_percent: 0,
                cycle_length: Some(7),
                batch: 2,
                ..plain
            })
        );
    }

    #[test]
    fn a_name_has_one_spelling() {
        for wrong in [
            "",
            "kv",
            "kv-c5",
            "kv95-b16-c5",
            "kv095",
            "kv+5",
            "kv95-b1",
            "kv95-0",
            "kv95-",
            "KV95",
        ] {
            let error = wrong.parse::<WorkloadName>().expect_err(wrong).to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn a_row_name_is_read_back_as_it_was_written() {
        let name = "kv95-c5/cores=2/nodes=1/splits=100";
        assert_eq!(
            name.parse::<RowName>().map(|row| row.to_string()),
            Ok(name.to_owned())
        );
        for wrong in [
            "kv95",
            "kv95/cores=2/nodes=1",
            "kv95/nodes=1/cores=2/splits=0",
            "kv95/cores=02/nodes=1/splits=0",
        ] {
            assert!(wrong.parse::<RowName>().is_err(), "{wrong}");
        }
    }
}
