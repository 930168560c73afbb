//! `cargo xtask verify`: builds the proofs, with what they run on, and starts one after the other.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::command::Cargo;
use crate::workspace::Workspace;

/// A proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// The interval tree against a sorted vector, snapshots included
    Tree,
    /// Spans, span sets and compact keys against a model of single keys
    Sets,
    /// Scripts on one thread: exactly those wait that must
    Scripts,
    /// Threads and tasks as fast as they come, and their history checked afterwards
    History,
    /// What clients of a store are told, while its engine fails and its ranges are split, in one order
    Linearizability,
    /// Transactions on lists, while the engine fails and ranges are split, in one order
    Serializability,
    /// A store on a disk, whose process is killed, whose power is cut and whose disk fails
    Crash,
    /// Three nodes in one process, with a network and stops that a seed chooses
    Cluster,
    /// Three nodes as programs, killed, paused, cut off and without room on the disk
    Processes,
    /// The example server's page of latches, in a real browser: needs chromium and chromedriver
    Page,
    /// Very many interleavings of the whole manager
    Shuttle,
    /// Every interleaving of the smallest cases
    Loom,
    /// Faults planted in the sources, which tests must find; takes hours, so only if asked for
    Mutants,
}

/// How much of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    /// A small part.
    pub(crate) quick: bool,
    /// Only what this seed chooses.
    pub(crate) seed: Option<u64>,
}

/// Says that there is no browser on this machine.
const WITHOUT_BROWSER: &str = "WITHOUT_BROWSER";

/// What the packages are called whose sources mutants are planted in.
const MUTATED: [&str; 3] = ["interval-btree", "spanset", "spanlatch"];

impl Step {
    fn name(self) -> String {
        let value = self.to_possible_value().expect("no step is hidden");
        value.get_name().to_owned()
    }

    /// The configuration that the manager is built with, if it is not the usual one.
    fn checker(self) -> Option<&'static str> {
        match self {
            Step::Shuttle => Some("shuttle"),
            Step::Loom => Some("loom"),
            _ => None,
        }
    }

    /// What runs it; can be run by hand.
    fn command(self, target: &Path, extent: Extent) -> Cargo {
        // The short forms are done before the optimizer would be.
        let profile = if extent.quick { "dev" } else { "proofs" };
        let mut args = format!(
            "run --quiet --locked --profile {profile} -p spanlatch-proofs -- {}",
            self.name()
        );
        if extent.quick {
            args.push_str(" --quick");
        }
        if let Some(seed) = extent.seed {
            args.push_str(&format!(" --seed {seed}"));
        }
        let command = Cargo::new(&args);
        match self.checker() {
            None => command,
            // Everything is compiled anew for it, so it has a folder of its own.
            Some(checker) => command
                .with_env("RUSTFLAGS", format!("--cfg {checker} -D warnings"))
                .with_env("CARGO_TARGET_DIR", target.join(checker).display()),
        }
    }
}

/// The steps that are of groups of nodes.
pub(crate) const CLUSTER: [Step; 2] = [Step::Cluster, Step::Processes];

/// All steps but the [mutants].
pub(crate) fn all() -> Vec<Step> {
    let all = Step::value_variants().iter().copied();
    all.filter(|&step| step != Step::Mutants).collect()
}

/// Runs some proofs; stops at the first that fails.
pub(crate) fn run(
    workspace: &Workspace,
    steps: &[Step],
    extent: Extent,
) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let mut lines = Vec::new();
    for &step in steps {
        let is_one_of_many = steps.len() > 1;
        if step == Step::Page && is_one_of_many && std::env::var_os(WITHOUT_BROWSER).is_some() {
            lines.push(format!("page: left out, as {WITHOUT_BROWSER} is set"));
            continue;
        }
        let command = step.command(workspace.target(), extent);
        println!("\n==> {}: {command}", step.name());
        match last_line(&command, &workspace.root)? {
            Some(line) => lines.push(line),
            None => {
                eprintln!("\nverify: {} failed", step.name());
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    println!("\nverify: all held");
    for line in lines {
        println!("{line}");
    }
    println!("together {:.1} s", start.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

/// Runs a command and shows what it prints; returns the last line of that, or nothing if it failed.
fn last_line(command: &Cargo, directory: &Path) -> anyhow::Result<Option<String>> {
    let mut child = command
        .command(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command}"))?;
    let mut last = String::new();
    for line in BufReader::new(child.stdout.take().context("has no output")?).lines() {
        last = line.context("cannot read what the proof prints")?;
        println!("{last}");
    }
    let status = child.wait()?;
    Ok(status.success().then_some(last))
}

/// Plants faults with cargo-mutants, all of them or a shard, and runs the tests of the package for each.
pub(crate) fn mutants(workspace: &Workspace, shard: Option<&str>) -> anyhow::Result<ExitCode> {
    installed("mutants")?;
    let output = workspace.target().join("mutants");
    let mut args = "mutants --no-shuffle".to_owned();
    for package in MUTATED {
        args.push_str(&format!(" --package {package}"));
    }
    if let Some(shard) = shard {
        args.push_str(&format!(" --shard {shard}"));
    }
    let command = Cargo::new(&args);
    println!("==> mutants: {command}");
    let status = command
        .command(&workspace.root)
        .arg("--output")
        .arg(&output)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {command}"))?;
    println!(
        "mutants: the lists are in {}",
        output.join("mutants.out").display()
    );
    Ok(match status.code() {
        Some(0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Says how to install a cargo command that is missing.
pub(crate) fn installed(command: &str) -> anyhow::Result<()> {
    let found = Cargo::new(&format!("{command} --version"))
        .command(Path::new("."))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !found.success() {
        bail!(
            "cargo-{command} is missing; install it with: cargo install cargo-{command} --locked"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Extent, Step};

    fn command(step: Step, extent: Extent) -> String {
        step.command(Path::new("/t"), extent).to_string()
    }

    #[test]
    fn the_usual_proofs_run_on_what_everybody_uses() {
        assert_eq!(
            command(Step::Tree, Extent::default()),
            "cargo run --quiet --locked --profile proofs -p spanlatch-proofs -- tree"
        );
    }

    #[test]
    fn a_model_checker_is_built_into_a_folder_of_its_own() {
        let extent = Extent {
            quick: true,
            seed: Some(7),
        };
        assert_eq!(
            command(Step::Shuttle, extent),
            "RUSTFLAGS='--cfg shuttle -D warnings' CARGO_TARGET_DIR='/t/shuttle' cargo run --quiet --locked \
             --profile dev -p spanlatch-proofs -- shuttle --quick --seed 7"
        );
    }
}
