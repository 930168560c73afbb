//! A node of the groups that `cargo xtask bench --nodes 3` measures: a process of its own.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stderr,
    reason = "whoever has started it is told why it ends"
)]

use std::process::ExitCode;

use clap::Parser;
use spanlatch_benches::cluster::node::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
