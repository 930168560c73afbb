//! Runs one proof, and says in one line what it covered. `cargo xtask verify` builds and starts it.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to the person who runs it"
)]

mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::run::{Proof, Size};

/// Runs one proof.
#[derive(Debug, Parser)]
struct Cli {
    proof: Proof,
    /// A small part of it
    #[arg(long)]
    quick: bool,
    /// Only what this seed chooses, as a failure says it
    #[arg(long)]
    seed: Option<u64>,
    /// What is to be killed: serves load on this folder
    #[cfg(not(any(loom, shuttle)))]
    #[arg(long, hide = true)]
    child: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(not(any(loom, shuttle)))]
    if let Some(folder) = &cli.child {
        spanlatch_proofs::crash::serve(folder, cli.seed.unwrap_or(0));
        return ExitCode::SUCCESS;
    }
    let Cli {
        proof, quick, seed, ..
    } = cli;
    let size = match (seed, quick) {
        (Some(seed), _) => Size::Only(seed),
        (None, true) => Size::Quick,
        (None, false) => Size::Full,
    };
    match run::run(proof, size) {
        Ok(covered) => {
            println!("{covered}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
