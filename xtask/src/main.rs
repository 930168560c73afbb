//! The workspace's own commands, run as `cargo xtask ..`.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to the person who runs it"
)]

mod bench;
mod ci;
mod command;
mod fuzz;
mod tidy;
mod verify;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// The workspace's own commands.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    arg_required_else_help = false
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the benchmarks in release mode and run them; all arguments are theirs (try `bench --help`)
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run everything that a change must pass; writes nothing but build output
    Ci {
        /// Run this step alone
        #[arg(long, value_name = "STEP")]
        only: Option<ci::Step>,
        /// Print the steps and their commands, and run none
        #[arg(long, conflicts_with = "only")]
        list: bool,
    },
    /// Let a fuzzer choose what a proof does
    Fuzz {
        target: fuzz::Target,
        /// For how long
        #[arg(long, value_name = "N", default_value_t = 60)]
        seconds: u64,
    },
    /// Check what a reviewer would otherwise have to say
    Tidy,
    /// Run the long proofs, and print what they covered
    Verify {
        /// Run a small part of each, as CI does
        #[arg(long)]
        quick: bool,
        /// Run this one alone
        #[arg(long, value_name = "STEP", conflicts_with = "cluster")]
        only: Option<verify::Step>,
        /// Run only what this seed chooses, as a failure says it
        #[arg(long, value_name = "N", requires = "only")]
        seed: Option<u64>,
        /// Plant only a part of the mutants: the k-th of n shares, counted from 0
        #[arg(long, value_name = "K/N", requires = "only")]
        shard: Option<String>,
        /// Run those of groups of nodes alone
        #[arg(long)]
        cluster: bool,
    },
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misuse(&error),
    };
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let root = workspace::root();
    match command {
        Command::Bench { args } => bench::run(&root, args),
        Command::Ci { list: true, .. } => ci::list(&Workspace::load(&root)?),
        Command::Ci { only, .. } => ci::run(&Workspace::load(&root)?, only),
        Command::Fuzz { target, seconds } => fuzz::run(&Workspace::load(&root)?, target, seconds),
        Command::Tidy => tidy::run(&Workspace::load(&root)?),
        Command::Verify {
            only: Some(verify::Step::Mutants),
            shard,
            ..
        } => verify::mutants(&Workspace::load(&root)?, shard.as_deref()),
        Command::Verify {
            quick,
            only,
            seed,
            cluster,
            ..
        } => {
            let steps = match only {
                Some(step) => vec![step],
                None if cluster => verify::CLUSTER.to_vec(),
                None => verify::all(),
            };
            let extent = verify::Extent { quick, seed };
            verify::run(&Workspace::load(&root)?, &steps, extent)
        }
    }
}

/// Help goes out as it is; an error becomes one line, and exit code 2.
fn misuse(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        error.exit();
    }
    eprintln!("{}", one_line(error));
    ExitCode::from(2)
}

fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text);
    let message = message.split("\n\nFor more").next().unwrap_or(message);
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{line}; see cargo xtask --help")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Cli, Command, one_line};

    #[test]
    fn misuse_is_told_in_one_line() {
        for (args, line) in [
            (
                "",
                "error: 'cargo xtask' requires a subcommand but one was not provided [subcommands: bench, ci, fuzz, tidy, verify, help]",
            ),
            ("nope", "error: unrecognized subcommand 'nope'"),
            ("tidy all", "error: unexpected argument 'all' found"),
            (
                "ci --only all",
                "error: invalid value 'all' for '--only <STEP>' [possible values: fmt, tidy, clippy, test, verify, docs, examples, bench, package]",
            ),
            (
                "ci --list --only fmt",
                "error: the argument '--list' cannot be used with '--only <STEP>'",
            ),
        ] {
            let args = ["xtask"].into_iter().chain(args.split_whitespace());
            let error = Cli::try_parse_from(args).unwrap_err();
            assert_eq!(one_line(&error), format!("{line}; see cargo xtask --help"));
        }
    }

    #[test]
    fn everything_after_bench_is_left_to_the_benchmarks() {
        for given in [
            &["--help"][..],
            &["all", "--list"],
            &["--runs", "5", "--nonsense"],
            &["compare", "a.json", "--", "b"],
        ] {
            let line = ["xtask", "bench"].iter().chain(given);
            match Cli::try_parse_from(line).unwrap().command {
                Command::Bench { args } => assert_eq!(args, given),
                other => panic!("{other:?}"),
            }
        }
    }
}
