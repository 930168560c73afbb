//! The binary behind `cargo xtask bench kv-txn`: it has an allocator of its own, which counts.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to the person who runs it"
)]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use indicatif::ProgressBar;
use regex::Regex;
use spanlatch_benches::cli::{in_one_line, runs};
use spanlatch_benches::kv_txn::{Cell, Counted, measure, tables};

/// What a transaction costs whose error inspection is prepared on every call (old), and one whose is not (new).
#[derive(Debug, Parser)]
#[command(name = "spanlatch-bench kv-txn", version)]
struct Cli {
    /// Only operations whose name matches
    #[arg(long, value_name = "REGEX")]
    filter: Option<Regex>,
    /// Samples of each side, at most 100
    #[arg(long, value_name = "N", value_parser = runs, default_value = "10")]
    runs: usize,
    /// A rough look: smaller samples
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            eprintln!("{}", in_one_line(&error));
            return ExitCode::from(2);
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    match run(&cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let is_chosen = |cell: &Cell| match &cli.filter {
        Some(filter) => filter.is_match(&cell.to_string()),
        None => true,
    };
    let chosen: Vec<Cell> = Cell::all().filter(is_chosen).collect();
    if chosen.is_empty() {
        eprintln!("error: no operation matches");
        return Ok(ExitCode::from(2));
    }
    let rows = if cli.quick { 1_000 } else { 20_000 };
    let mut cells = Vec::with_capacity(chosen.len());
    // Silent where nobody watches.
    let progress = ProgressBar::new(chosen.len() as u64);
    for cell in &chosen {
        cells.push((*cell, measure(*cell, cli.runs, rows, count)?));
        progress.inc(1);
    }
    progress.finish_and_clear();
    print!("{}", tables(&cells));
    Ok(ExitCode::SUCCESS)
}

fn count(work: &mut dyn FnMut()) -> Counted {
    let info = allocation_counter::measure(work);
    Counted {
        allocs: info.count_total,
        bytes: info.bytes_total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_makes_exactly_one_allocation_more() -> Result<()> {
        for cell in Cell::all().filter(|cell| cell.rows <= 100) {
            let [old, new] = measure(cell, 3, 300, count)?;
            for (old, new) in old.iter().zip(&new) {
                assert!(new.allocs > 0.0, "{cell}");
                let more = old.allocs - new.allocs;
                assert!((more - 1.0).abs() < 1e-9, "{cell}: {more}");
                assert!(old.bytes > new.bytes, "{cell}");
            }
        }
        Ok(())
    }
}
