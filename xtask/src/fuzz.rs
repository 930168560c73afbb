//! `cargo xtask fuzz`: starts cargo-fuzz on one of the proofs.

use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;

use crate::command::Cargo;
use crate::verify::installed;
use crate::workspace::Workspace;

/// What the fuzzer makes choices for; each is a file in `fuzz/fuzz_targets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// The interval tree against a sorted vector, snapshots included
    Tree,
    /// Spans, span sets and compact keys against a model of single keys
    Sets,
    /// Scripts on one thread: exactly those wait that must
    Scripts,
}

/// Fuzzes for some seconds. What was found lies in `fuzz/artifacts`, what is interesting in `fuzz/corpus`.
pub(crate) fn run(workspace: &Workspace, target: Target, seconds: u64) -> anyhow::Result<ExitCode> {
    installed("fuzz")?;
    let value = target.to_possible_value().expect("no target is hidden");
    let command = command(value.get_name(), seconds);
    println!("==> fuzz: {command}");
    let status = command
        .command(&workspace.root)
        .env("CARGO_TARGET_DIR", workspace.target().join("fuzz"))
        .status()
        .with_context(|| format!("cannot start {command}"))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Coverage needs an unstable flag of the compiler, whichever that is. No sanitizer: there is no unsafe code to watch.
fn command(target: &str, seconds: u64) -> Cargo {
    Cargo::new(&format!(
        "fuzz run --sanitizer none {target} -- -max_total_time={seconds} -max_len=4096"
    ))
    .with_env("RUSTC_BOOTSTRAP", 1)
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_fuzzer_is_started_on_any_compiler() {
        assert_eq!(
            command("tree", 5).to_string(),
            "RUSTC_BOOTSTRAP='1' cargo fuzz run --sanitizer none tree -- -max_total_time=5 -max_len=4096"
        );
    }
}
