//! Two saved sessions side by side.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::ValueEnum;
use regex::Regex;

use crate::results::{Measured, Results};
use crate::sample::Sample;
use crate::table::{self, Pair};

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

/// The tables that compare what one side did in `a` (old) with what it did in `b` (new), and then the
/// rows that only one of them has.
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
                beside: row.beside.as_ref(),
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
    Ok(table::all(&pairs) + &alone)
}
