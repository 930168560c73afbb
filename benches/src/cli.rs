//! The command line of `spanlatch-bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use regex::Regex;

use crate::client::ClientKind;
use crate::compare::Whose;
use crate::storage::EngineKind;
use crate::suite::{Choice, Suite};
use crate::workload::{Flags, Workload, WorkloadError};

/// Compares the latch manager (new) with its predecessor (old) on the published kv workloads.
///
/// Without a suite, a representative selection runs, in less than three minutes.
#[derive(Debug, Parser)]
#[command(
    name = "spanlatch-bench",
    version,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

/// What to run.
#[derive(Debug, Subcommand)]
enum Command {
    /// The published suite of writes only and of 5 % writes, split and not
    Standard(Options),
    /// The published suite of the largest machine
    LargeMachine(Options),
    /// The published suite of few keys and many conflicts
    Motivating(Options),
    /// The published suite of many rows per operation
    Batching(Options),
    /// All published suites
    All(Options),
    /// A kv workload of your own
    Kv {
        #[command(flatten)]
        flags: KvFlags,
        #[command(flatten)]
        options: Options,
    },
    /// The published microbenchmarks of the latch manager and of the tree, in less than four minutes
    Micro(Micro),
    /// Print the tables for two saved runs: what one side did in A, against what it did in B
    Compare(Compare),
}

/// What a command line asks for.
#[derive(Debug)]
pub enum Job {
    /// To run workloads.
    Run(Choice, Options),
    /// To run microbenchmarks.
    Micro(Micro),
    /// To compare what was saved.
    Compare(Compare),
}

/// How to run it.
#[derive(Debug, Args)]
pub struct Options {
    /// Worker threads, each pinned to a core [default: as many as there are cores]
    #[arg(long, value_name = "N")]
    pub cores: Option<usize>,
    /// Only rows of so many nodes, 1 or 3; a workload of your own runs on so many [default: 1]
    #[arg(long, value_name = "N", value_parser = nodes)]
    pub nodes: Option<usize>,
    /// Runs of each side, at most 100 [default: 5]
    #[arg(long, value_name = "N", value_parser = runs)]
    pub runs: Option<usize>,
    /// How long each run is measured, from 1ms to 1day [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// A rough look: 300ms a run
    #[arg(long, conflicts_with = "duration")]
    pub quick: bool,
    /// Where versions are kept
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineKind,
    /// What the workers talk to
    #[arg(long, value_enum, default_value_t)]
    pub client: ClientKind,
    /// Only rows whose name matches
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,
    /// List the published rows and what runs for them, and run nothing
    #[arg(long, conflicts_with_all = ["runs", "duration", "quick", "out"])]
    pub list: bool,
    /// Where results.json and report.html go; neither may be there yet [default: a new folder in
    /// target/spanlatch-bench]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables.
    Table,
    /// All results, as they are saved.
    Json,
}

/// Which microbenchmarks, and how.
#[derive(Debug, Args)]
pub struct Micro {
    /// Only benchmarks whose name matches
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,
    /// A rough look, in less than 40 seconds
    #[arg(long)]
    pub quick: bool,
    /// List the names, and run nothing
    #[arg(long, conflicts_with = "quick")]
    pub list: bool,
}

/// Two saved runs.
#[derive(Debug, Args)]
pub struct Compare {
    /// The results.json to compare with
    pub a: PathBuf,
    /// The results.json to compare
    pub b: PathBuf,
    /// Whose samples are compared
    #[arg(long, value_enum, default_value_t = Whose::Manager)]
    pub side: Whose,
    /// Only rows whose name matches
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,
}

/// The settings of a workload of one's own.
#[derive(Debug, Args)]
struct KvFlags {
    /// Share of operations that read a batch of keys, in percent
    #[arg(long, value_name = "P", default_value_t = Flags::default().read_percent)]
    read_percent: u32,
    /// Share of operations that scan and count the whole table, in percent
    #[arg(long, value_name = "P", default_value_t = Flags::default().span_percent)]
    span_percent: u32,
    /// Rows per operation
    #[arg(long, value_name = "N", default_value_t = Flags::default().batch)]
    batch: u32,
    /// Write indexes repeat after this many
    #[arg(long, value_name = "N", default_value_t = Flags::default().cycle_length)]
    cycle_length: u64,
    /// Size of the smallest value
    #[arg(long, value_name = "BYTES", default_value_t = Flags::default().min_block_bytes)]
    min_block_bytes: usize,
    /// Size of the largest value
    #[arg(long, value_name = "BYTES", default_value_t = Flags::default().max_block_bytes)]
    max_block_bytes: usize,
    /// Pre-split points
    #[arg(long, value_name = "N", default_value_t = Flags::default().splits)]
    splits: u32,
    /// Keys are the indexes themselves, not their hashes
    #[arg(long)]
    sequential: bool,
    /// Seed of keys and choices
    #[arg(long, value_name = "N", default_value_t = Flags::default().seed)]
    seed: u64,
    /// Workers, each with one operation in flight
    #[arg(long, value_name = "N", default_value_t = Flags::default().concurrency)]
    concurrency: u32,
}

impl KvFlags {
    /// The workload that they describe, or the first rule that they break.
    fn workload(&self) -> Result<Workload, WorkloadError> {
        Workload::new(Flags {
            read_percent: self.read_percent,
            span_percent: self.span_percent,
            batch: self.batch,
            cycle_length: self.cycle_length,
            min_block_bytes: self.min_block_bytes,
            max_block_bytes: self.max_block_bytes,
            splits: self.splits,
            sequential: self.sequential,
            seed: self.seed,
            concurrency: self.concurrency,
        })
    }
}

impl Cli {
    /// What it asks for.
    ///
    /// # Errors
    ///
    /// If a workload of one's own breaks a rule.
    pub fn job(self) -> Result<Job, WorkloadError> {
        let Some(command) = self.command else {
            return Ok(Job::Run(Choice::Selection, self.options));
        };
        Ok(match command {
            Command::Standard(options) => Job::Run(Choice::Suite(Suite::Standard), options),
            Command::LargeMachine(options) => Job::Run(Choice::Suite(Suite::LargeMachine), options),
            Command::Motivating(options) => Job::Run(Choice::Suite(Suite::Motivating), options),
            Command::Batching(options) => Job::Run(Choice::Suite(Suite::Batching), options),
            Command::All(options) => Job::Run(Choice::All, options),
            Command::Kv { flags, options } => {
                Job::Run(Choice::Own(Box::new(flags.workload()?)), options)
            }
            Command::Micro(micro) => Job::Micro(micro),
            Command::Compare(compare) => Job::Compare(compare),
        })
    }
}

fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes @ (1 | 3)) => Ok(nodes),
        _ => Err("must be 1 or 3".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(1);
    const MOST: Duration = Duration::from_secs(24 * 60 * 60);
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if !(LEAST..=MOST).contains(&duration) {
        return Err("a run must take from 1ms to 1day".to_owned());
    }
    Ok(duration)
}

/// Runs of each side: enough for any question, and few enough for an exact test of them.
///
/// # Errors
///
/// What they must be.
pub fn runs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(runs) if (1..=100).contains(&runs) => Ok(runs),
        _ => Err("must be in 1..=100".to_owned()),
    }
}

/// What is wrong with a command line, in one line: clap says it in several, with a usage below.
pub fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let wrong = text.split("\n\nUsage:").next().unwrap_or(&text);
    let wrong = wrong
        .split("\n\nFor more information")
        .next()
        .unwrap_or(wrong);
    wrong.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_flags_of_a_workload_default_to_those_of_the_workload() {
        let cli = Cli::try_parse_from(["spanlatch-bench", "kv"]).expect("no flags needed");
        match cli.command {
            Some(Command::Kv { flags, .. }) => {
                assert_eq!(flags.workload(), Workload::new(Flags::default()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn runs_and_their_duration_have_bounds() {
        for good in ["1", "100"] {
            assert!(runs(good).is_ok(), "{good}");
        }
        for bad in ["0", "101", "-1", "18446744073709551616"] {
            assert!(runs(bad).is_err(), "{bad}");
        }
        for good in ["1ms", "1day"] {
            assert!(duration(good).is_ok(), "{good}");
        }
        for bad in ["0s", "999us", "1day 1ns", "18446744073709551615s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_is_one_line() {
        for wrong in [
            &["--frobnicate"][..],
            &["standart"],
            &["--runs", "x"],
            &["compare", "a"],
            &["--filter", "("],
        ] {
            let arguments = ["spanlatch-bench"].iter().chain(wrong);
            let error = Cli::try_parse_from(arguments).expect_err("wrong");
            let line = in_one_line(&error);
            assert!(
                line.starts_with("error: ") && !line.contains('\n') && line.len() < 300,
                "{line}"
            );
        }
    }
}
