//! What a session measured, as it is saved.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::client::ClientKind;
use crate::metric::Metric;
use crate::run::{Cores, Timing};
use crate::sample::Sample;
use crate::storage::EngineKind;
use crate::suite::{Choice, Row};
use crate::workload::Flags;

/// Raised when the meaning of a field changes.
const FORMAT: u32 = 1;

/// Everything about one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of this format.
    pub format: u32,
    /// The version of the benches and of what they measure.
    pub version: String,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// Where it ran.
    pub machine: Machine,
    /// How it ran.
    pub settings: Settings,
    /// Why it ended before all was measured, if it did.
    pub ended_early: Option<String>,
    /// What was measured.
    pub rows: Vec<Measured>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name, as it gives it.
    pub processor: String,
    /// Cores that the process may use.
    pub cores: usize,
    /// Operating system and architecture.
    pub system: String,
}

/// The settings of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What was chosen: a suite's name.
    pub suite: String,
    /// Where versions were kept. In memory, if it does not say.
    #[serde(default)]
    pub engine: EngineKind,
    /// What the workers talked to. The store, if it does not say.
    #[serde(default)]
    pub client: ClientKind,
    /// Pinned worker threads.
    pub cores: usize,
    /// Workers, each with one operation in flight.
    pub concurrency: u32,
    /// Runs of each side.
    pub runs: usize,
    /// How long each was measured.
    pub duration_seconds: f64,
    /// How long each ran before that.
    pub warm_up_seconds: f64,
}

/// A row, and all samples that were taken of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What has to be said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The published row that it is shown beside.
    pub beside: Option<Beside>,
    /// The predecessor's samples, in the order in which they were taken.
    pub old: Vec<Sample>,
    /// The latch manager's.
    pub new: Vec<Sample>,
}

/// The changes that were published for a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Its published name.
    pub name: String,
    /// Its cores.
    pub cores: usize,
    /// Change of throughput: `+3.22%` or `~`.
    pub ops_per_sec: String,
    /// Change of the median latency.
    pub p50: String,
    /// Change of the 99th percentile.
    pub p99: String,
}

impl Results {
    /// What has to be said of rows, each once.
    pub fn notes(&self) -> BTreeSet<&str> {
        let notes = self.rows.iter().filter_map(|row| row.note.as_deref());
        notes.collect()
    }

    /// A session that begins now.
    pub fn begin(
        choice: &Choice,
        engine: EngineKind,
        cores: usize,
        runs: usize,
        timing: Timing,
    ) -> Self {
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            machine: Machine::this(),
            settings: Settings {
                suite: choice.to_string(),
                engine,
                client: ClientKind::default(),
                cores,
                concurrency: match choice {
                    Choice::Own(workload) => workload.flags().concurrency,
                    _ => Flags::default().concurrency,
                },
                runs,
                duration_seconds: timing.duration.as_secs_f64(),
                warm_up_seconds: timing.warm_up.as_secs_f64(),
            },
            ended_early: None,
            rows: Vec::new(),
        }
    }

    /// Writes them to a file.
    ///
    /// # Errors
    ///
    /// If it cannot be written; the error names it.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads them from a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or holds something else; the error names it.
    pub fn load(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let results: Self = serde_json::from_str(&text)
            .with_context(|| format!("{name} holds no results of a benchmark"))?;
        if results.format != FORMAT {
            bail!("{name} has format {}, not {FORMAT}", results.format);
        }
        Ok(results)
    }
}

impl Machine {
    /// This one.
    fn this() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = info
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .map(|rest| rest.trim_start_matches([' ', '\t', ':']));
        Self {
            processor: processor.unwrap_or("unknown processor").to_owned(),
            cores: Cores::available(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

impl Measured {
    /// A row of which nothing has been measured yet.
    pub fn new(row: &Row) -> Self {
        let beside = row.published.as_ref().map(|published| {
            let delta = |metric| {
                published
                    .figure(metric)
                    .map_or_else(String::new, |figure| figure.delta())
            };
            Beside {
                name: published.name.to_string(),
                cores: published.name.cores,
                ops_per_sec: delta(Metric::OpsPerSec),
                p50: delta(Metric::P50),
                p99: delta(Metric::P99),
            }
        });
        Self {
            name: row.name.clone(),
            note: None,
            beside,
            old: Vec::new(),
            new: Vec::new(),
        }
    }
}

impl Beside {
    /// The published change of a metric.
    pub fn delta(&self, metric: Metric) -> &str {
        match metric {
            Metric::OpsPerSec => &self.ops_per_sec,
            Metric::P50 => &self.p50,
            Metric::P99 => &self.p99,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::suite::rows;

    fn results() -> Result<Results> {
        let timing = Timing {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
        };
        let mut results = Results::begin(&Choice::Selection, EngineKind::Mem, 2, 5, timing);
        results.rows = rows(&Choice::Selection, 2, None)?
            .iter()
            .map(Measured::new)
            .collect();
        Ok(results)
    }

    #[test]
    fn what_was_saved_is_loaded_again() -> Result<()> {
        let path =
            std::env::temp_dir().join(format!("spanlatch-results-{}.json", std::process::id()));
        let saved = results()?;
        saved.save(&path)?;
        let loaded = Results::load(&path);
        fs::remove_file(&path)?;
        assert_eq!(loaded?, saved);
        Ok(())
    }

    #[test]
    fn a_row_carries_its_published_changes() -> Result<()> {
        let results = results()?;
        let row = results
            .rows
            .iter()
            .find(|row| row.name.starts_with("kv95-c5/"));
        let beside = row
            .and_then(|row| row.beside.as_ref())
            .context("it was published")?;
        assert_eq!(beside.name, "kv95-c5/cores=16/nodes=1/splits=0");
        assert_eq!(
            Metric::ALL.map(|metric| beside.delta(metric)),
            ["+4.59%", "~", "-12.50%"]
        );
        Ok(())
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let missing = Results::load(Path::new("no/such.json")).expect_err("missing");
        assert!(missing.to_string().contains("no/such.json"));
        let other = Results::load(Path::new("Cargo.toml")).expect_err("no JSON");
        assert!(other.to_string().contains("Cargo.toml"));
    }
}
