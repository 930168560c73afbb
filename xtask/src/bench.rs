//! `cargo xtask bench`: builds the benches' own binary and becomes it.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::command::Cargo;

const PACKAGE: &str = "spanlatch-benches";
const BINARY: &str = "spanlatch-bench";
/// What it starts for each node of a group.
const NODE: &str = "spanlatch-bench-node";
/// Its allocator counts bytes, which would slow down the others.
const KV_TXN: &str = "spanlatch-bench-kv-txn";

/// Builds the binary, showing cargo's progress, and runs it in place of this process.
pub(crate) fn run(root: &Path, mut args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let mut binary = BINARY;
    if args.first().is_some_and(|first| first == "kv-txn") {
        args.remove(0);
        binary = KV_TXN;
    }
    let target = format!("--release -p {PACKAGE} --bin {binary}");
    let built = Cargo::new(&format!("build {target} --bin {NODE}")).status(root)?;
    if !built.success() {
        return Ok(ExitCode::FAILURE);
    }
    // Quiet, since all is built; in the folder of the caller, so that `--out` is relative to it.
    let manifest = root.join("Cargo.toml");
    let mut run = Cargo::new(&format!("run --quiet {target}")).command(&std::env::current_dir()?);
    run.arg("--manifest-path")
        .arg(manifest)
        .arg("--")
        .args(args);
    replace(run)
}

/// Ctrl-C reaches the benchmarks alone, and their exit code is ours.
#[cfg(unix)]
fn replace(mut command: std::process::Command) -> anyhow::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(anyhow::Error::new(command.exec()).context("cannot start cargo"))
}

/// Where a process cannot be replaced, it is waited for.
#[cfg(not(unix))]
fn replace(mut command: std::process::Command) -> anyhow::Result<ExitCode> {
    let code = command.status()?.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
