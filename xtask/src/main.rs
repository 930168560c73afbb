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
mod tidy;
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
    /// Check what a reviewer would otherwise have to say
    Tidy,
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
        Command::Tidy => tidy::run(&Workspace::load(&root)?),
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
    let text = error.to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text);
    let message = message.split("\n\nFor more").next().unwrap_or(message);
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("{line}; see cargo xtask --help");
    ExitCode::from(2)
}
