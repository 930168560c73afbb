//! Two saved sessions side by side.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::ValueEnum;
use regex::Regex;

use crate::results::{Measured, Results};
use crate::sample::Sample;
use crate::table::{self, Pair, Sides};

/// Whose samples are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Whose {
    /// The latch manager's.
    Manager,
    /// The predecessor's: how much the machine has changed.
    Predecessor,
}

/// A session, and the file that it is from.
#[derive(Clone, Debug)]
pub struct Saved {
    file: PathBuf,
    results: Results,
}

impl Saved {
    /// Reads a session.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or holds something else; the error names it.
    pub fn load(file: &Path) -> Result<Self> {
        Ok(Self {
            file: file.to_owned(),
            results: Results::load(file)?,
        })
    }

    fn row(&self, name: &str) -> Option<&Measured> {
        self.results.rows.iter().find(|row| row.name == name)
    }
}

/// What lets samples of two sessions differ, whatever they measured: one line, or nothing.
fn circumstances(a: &Results, b: &Results) -> String {
    fn described(results: &Results) -> [(&'static str, String); 6] {
        let Results {
            version,
            machine,
            settings,
            ..
        } = results;
        let machine = format!(
            "{} ({} cores, {})",
            machine.processor, machine.cores, machine.system
        );
        [
            ("machine", machine),
            ("engine", settings.engine.to_string()),
            ("client", settings.client.to_string()),
            ("cores", settings.cores.to_string()),
            ("duration", format!("{} s", settings.duration_seconds)),
            ("version", version.clone()),
        ]
    }
    let differences: Vec<String> = described(a)
        .into_iter()
        .zip(described(b))
        .filter(|(of_a, of_b)| of_a != of_b)
        .map(|((what, of_a), (_, of_b))| format!("{what}: {of_a}, then {of_b}"))
        .collect();
    if differences.is_empty() {
        return String::new();
    }
    format!(
        "not under the same conditions: {}\n\n",
        differences.join("; ")
    )
}

/// What two sessions are called: by their files' names, or by the whole paths where those are the same.
fn sides(a: &Saved, b: &Saved) -> Sides {
    let name = |saved: &Saved| {
        saved
            .file
            .file_name()
            .map(|name| name.display().to_string())
    };
    match (name(a), name(b)) {
        (Some(old), Some(new)) if old != new => Sides { old, new },
        _ => Sides {
            old: a.file.display().to_string(),
            new: b.file.display().to_string(),
        },
    }
}

/// The tables that compare what one side did in `a` with what it did in `b`, before them a line if machine,
/// cores, duration or version differ, and after them the rows that only one of the two has. What was
/// published compares other things, and is not in them.
///
/// # Errors
///
/// If they have no row in common that matches.
pub fn tables(a: &Saved, b: &Saved, whose: Whose, filter: Option<&Regex>) -> Result<String> {
    fn samples(whose: Whose, row: &Measured) -> &[Sample] {
        match whose {
            Whose::Manager => &row.new,
            Whose::Predecessor => &row.old,
        }
    }
    let chosen = |row: &&Measured| filter.is_none_or(|filter| filter.is_match(&row.name));
    let mut pairs = Vec::new();
    let mut alone = String::new();
    for row in a.results.rows.iter().filter(chosen) {
        match b.row(&row.name) {
            Some(other) => pairs.push(Pair {
                name: &row.name,
                old: samples(whose, row),
                new: samples(whose, other),
                beside: None,
            }),
            None => writeln!(alone, "only in {}: {}", a.file.display(), row.name)?,
        }
    }
    for row in b
        .results
        .rows
        .iter()
        .filter(chosen)
        .filter(|row| a.row(&row.name).is_none())
    {
        writeln!(alone, "only in {}: {}", b.file.display(), row.name)?;
    }
    if pairs.is_empty() {
        bail!(
            "{} and {} have no such row in common",
            a.file.display(),
            b.file.display()
        );
    }
    Ok(circumstances(&a.results, &b.results) + &table::all(&pairs, &sides(a, b)) + &alone)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::Timing;
    use crate::storage::EngineKind;
    use crate::suite::{Choice, rows};

    fn saved() -> Result<Saved> {
        let timing = Timing {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
        };
        let mut results = Results::begin(&Choice::Selection, EngineKind::Mem, 2, 5, timing);
        results.rows = rows(&Choice::Selection, 2, None)?
            .iter()
            .map(Measured::new)
            .collect();
        Ok(Saved {
            file: "results.json".into(),
            results,
        })
    }

    #[test]
    fn sessions_under_different_conditions_are_compared_with_a_warning_of_one_line() -> Result<()> {
        let a = saved()?;
        type Change = fn(&mut Results);
        let changes: [(Change, &str); 5] = [
            (
                |b| b.settings.engine = EngineKind::Fjall,
                "engine: mem, then fjall",
            ),
            (|b| b.machine.processor = "Abacus".to_owned(), "Abacus"),
            (|b| b.settings.cores = 3, "cores: 2, then 3"),
            (
                |b| b.settings.duration_seconds = 0.3,
                "duration: 1 s, then 0.3 s",
            ),
            (|b| b.version = "9.9.9".to_owned(), "then 9.9.9"),
        ];
        let same = tables(&a, &a, Whose::Manager, None)?;
        for (change, says) in changes {
            let mut b = a.clone();
            change(&mut b.results);
            let text = tables(&a, &b, Whose::Manager, None)?;
            let (warning, rest) = text.split_once("\n\n").unwrap_or_default();
            assert!(
                warning.lines().count() == 1 && warning.contains(says) && !warning.contains(';'),
                "{warning}"
            );
            assert_eq!(rest, same);
        }
        Ok(())
    }

    #[test]
    fn columns_are_headed_by_the_files_and_nothing_published_is_shown() -> Result<()> {
        let named = |file: &str| -> Result<Saved> {
            Ok(Saved {
                file: file.into(),
                ..saved()?
            })
        };
        for (a, b, heads) in [
            ("runs/one.json", "runs/two.json", ["one.json", "two.json"]),
            (
                "a/results.json",
                "b/results.json",
                ["a/results.json", "b/results.json"],
            ),
        ] {
            let text = tables(&named(a)?, &named(b)?, Whose::Manager, None)?;
            let head: Vec<&str> = text
                .lines()
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            assert_eq!(
                head,
                ["name", heads[0], "ops/sec", heads[1], "ops/sec", "delta"]
            );
        }
        Ok(())
    }
}
