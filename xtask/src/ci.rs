//! `cargo xtask ci`: everything that a change must pass, one step after the other.

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;

use crate::command::Cargo;
use crate::workspace::Workspace;

/// What has to stay out of the tree when a test fails: snapshots to review, and seeds to replay.
const KEEP_OUT: [(&str, &str); 2] = [
    ("INSTA_UPDATE", "no"),
    ("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true"),
];

/// A step of CI; cheap ones and those that fail often come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// All code is formatted
    Fmt,
    /// What a reviewer would otherwise have to say
    Tidy,
    /// No warnings
    Clippy,
    /// All tests, those in the documentation included
    Test,
    /// A small part of each of the long proofs
    Verify,
    /// The documentation builds without warnings
    Docs,
    /// Every example runs to its end
    Examples,
    /// Every benchmark runs once, unoptimized
    Bench,
    /// Every published crate can be packaged, and builds from its package
    Package,
}

/// The feature that none of the tools has a use for.
const NODE: &str = "--features spanlatch-replica-raft/node";

impl Step {
    fn name(self) -> String {
        self.to_possible_value()
            .expect("no step is hidden")
            .get_name()
            .to_owned()
    }

    /// What the step runs; each command can be run by hand. `scratch` is a folder that no earlier run had.
    fn commands(self, workspace: &Workspace, scratch: &Path) -> Vec<Cargo> {
        match self {
            Step::Fmt => vec![Cargo::new("fmt --all --check")],
            Step::Tidy => vec![Cargo::new("xtask tidy")],
            // The tools turn all other features on; the second one is of what has features, as others get it.
            Step::Clippy => vec![
                Cargo::new(&format!(
                    "clippy --workspace {NODE} --all-targets --locked -- -D warnings"
                )),
                Cargo::new(
                    "clippy -p spanlatch-replica -p spanlatch-replica-raft -p spanset --all-targets --locked -- -D warnings",
                ),
            ],
            Step::Test => vec![Cargo::new(&format!("test --workspace {NODE} --locked"))],
            Step::Verify => vec![Cargo::new("xtask verify --quick")],
            Step::Docs => vec![
                Cargo::new(&format!("doc --workspace {NODE} --no-deps --locked"))
                    .with_env("RUSTDOCFLAGS", "-D warnings"),
            ],
            Step::Examples => workspace
                .examples()
                .iter()
                .map(|(package, example)| {
                    Cargo::new(&format!(
                        "run --quiet --locked -p {package} --example {example}"
                    ))
                })
                .collect(),
            // The profile of the tests, so that nothing is compiled twice.
            Step::Bench => vec![Cargo::new(
                "bench --locked -p spanlatch-benches --bench * --profile dev -- --test",
            )],
            Step::Package => {
                // Cargo unpacks our packages into its home, by the name of the target folder, and never looks
                // again: under a name that was used before it would build what was packaged then.
                let scratch = scratch.strip_prefix(&workspace.root).unwrap_or(scratch);
                let mut args = format!(
                    "package --workspace --locked --allow-dirty --target-dir {}",
                    scratch.display()
                );
                for package in workspace.packages() {
                    if package.publish.as_deref() == Some(&[]) {
                        args.push_str(" --exclude ");
                        args.push_str(&package.name);
                    }
                }
                vec![Cargo::new(&args)]
            }
        }
    }
}

/// Prints the steps and their commands.
pub(crate) fn list(workspace: &Workspace) -> anyhow::Result<ExitCode> {
    for step in Step::value_variants() {
        let name = step.name();
        for command in step.commands(workspace, &workspace.target().join("ci")) {
            println!("{name:<9} {command}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all steps, or one, and stops at the first that fails.
pub(crate) fn run(workspace: &Workspace, only: Option<Step>) -> anyhow::Result<ExitCode> {
    let steps = match &only {
        Some(step) => std::slice::from_ref(step),
        None => Step::value_variants(),
    };
    if !is_as_committed(&workspace.root)? {
        eprintln!("\nci: the tree is not as committed; if it is Cargo.lock, commit that too");
        return Ok(ExitCode::FAILURE);
    }
    let scratch = tempfile::Builder::new()
        .prefix("ci-")
        .tempdir_in(workspace.target())
        .context("cannot make a folder in the target folder")?;
    let start = Instant::now();
    let mut times = Vec::new();
    for &step in steps {
        let name = step.name();
        let start = Instant::now();
        for command in step.commands(workspace, scratch.path()) {
            println!("\n==> {name}: {command}");
            let status = command
                .command(&workspace.root)
                .envs(KEEP_OUT)
                .stdin(Stdio::null())
                .status()
                .with_context(|| format!("cannot start {command}"))?;
            if !status.success() {
                eprintln!(
                    "\nci: step {name} failed after {} ({status}); run it again with\n    {command}",
                    seconds(start.elapsed())
                );
                return Ok(ExitCode::FAILURE);
            }
        }
        if !is_as_committed(&workspace.root)? {
            eprintln!("\nci: step {name} wrote into the tree");
            return Ok(ExitCode::FAILURE);
        }
        println!("--- {name}: {}", seconds(start.elapsed()));
        times.push((name, start.elapsed()));
    }
    println!("\nci: all passed");
    for (name, time) in times {
        println!("{name:<9} {:>8}", seconds(time));
    }
    println!("{:<9} {:>8}", "together", seconds(start.elapsed()));
    Ok(ExitCode::SUCCESS)
}

/// Whether the tree is as it was committed; prints what is not.
///
/// Only a CI machine can tell: there it is a fresh clone, and nobody edits it meanwhile.
fn is_as_committed(root: &Path) -> anyhow::Result<bool> {
    if std::env::var_os("CI").is_none() || !root.join(".git").exists() {
        return Ok(true);
    }
    let status = std::process::Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    eprint!("{}", String::from_utf8_lossy(&status.stdout));
    Ok(status.stdout.is_empty())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Step;
    use crate::workspace::{Workspace, root};

    fn commands(step: Step) -> Vec<String> {
        let workspace = Workspace::load(&root()).expect("a sound workspace");
        let commands = step.commands(&workspace, Path::new("target/ci"));
        commands.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_is_packaged_but_what_is_not_published() {
        assert_eq!(
            commands(Step::Package),
            [
                "cargo package --workspace --locked --allow-dirty --target-dir target/ci --exclude spanlatch-benches --exclude spanlatch-proofs --exclude xtask"
            ]
        );
    }

    #[test]
    fn every_example_is_run() {
        let run = "cargo run --quiet --locked -p spanlatch-metrics --example own_metrics";
        assert!(commands(Step::Examples).contains(&run.to_owned()));
    }
}
