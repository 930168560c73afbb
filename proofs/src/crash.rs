//! A store on a disk, killed at random again and again: what it has acknowledged is there, and nothing by halves.
//!
//! A child process serves load, and tells on its standard output what it is about to write, what was
//! acknowledged and what was read. It is ended without warning; or its disk fails. Then its folder is opened, and its
//! content has to agree with everything that was ever told, and with the records that were written beside it.
//!
//! What a process wrote survives its end, since the kernel has it. So in some rounds all that the kernel may not have
//! brought to the disk is taken away: `strace` lists the child's writes and syncs, and of what was written to a file
//! after its last sync had begun, each sector is kept or lost by chance. What is not modelled is the loss of
//! names of files.

mod child;
mod ledger;
mod recording;
mod traced;

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use self::ledger::Ledger;
use self::traced::Trace;
use crate::Choices;

pub use self::child::serve;

/// What was covered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Covered {
    /// How often the process was killed, and nothing else.
    pub kills: u64,
    /// How often the power was cut.
    pub cuts: u64,
    /// How many bytes were lost in these.
    pub lost: u64,
    /// How often the disk failed.
    pub failures: u64,
    /// How many batches were acknowledged.
    pub acknowledged: u64,
    /// How many batches were under way at an end, and whether they were applied.
    pub applied: u64,
    /// See `applied`.
    pub dropped: u64,
    /// How many reads were compared.
    pub reads: u64,
}

impl Covered {
    /// Adds what another run has covered.
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.cuts += other.cuts;
        self.lost += other.lost;
        self.failures += other.failures;
        self.acknowledged += other.acknowledged;
        self.applied += other.applied;
        self.dropped += other.dropped;
        self.reads += other.reads;
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kills,
            cuts,
            lost,
            failures,
            acknowledged,
            applied,
            dropped,
            reads,
        } = self;
        write!(
            f,
            "{kills} kills, {cuts} power cuts that lost {lost} bytes, {failures} failing disks; {acknowledged} batches \
             acknowledged, {applied} more applied and {dropped} not; {reads} reads"
        )?;
        if !has_strace() {
            f.write_str("; without strace no power is cut and no disk fails")?;
        }
        Ok(())
    }
}

/// How a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    PowerCut,
    /// From this call of its kind on.
    Failing(Failing, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failing {
    Sync,
    Write,
}

/// Rounds on one folder: what a seed chooses. The load itself is spread over threads, so that a failure may take
/// some tries to be seen again.
///
/// # Panics
///
/// If something was lost, or served twice differently; the folder is kept then.
pub fn run(seed: u64, rounds: u64) -> Covered {
    let mut choices = Choices::random(seed);
    let folder = tempfile::Builder::new()
        .prefix("spanlatch-crash-")
        .tempdir()
        .expect("a temporary folder");
    let mut covered = Covered::default();
    let mut ledger = Ledger::default();
    let has_strace = has_strace();
    for round in 0..rounds {
        let end = match (round + seed) % 6 {
            _ if !has_strace => End::Kill,
            0 | 2 | 4 => End::Kill,
            1 | 3 => End::PowerCut,
            _ => {
                let failing = choices.of(&[Failing::Sync, Failing::Write]);
                End::Failing(failing, 1 + choices.below(40))
            }
        };
        let number = seed * 1_000 + round;
        let path = folder.path().join("data");
        if let Err(error) = self::round(&path, number, end, &mut choices, &mut ledger, &mut covered)
        {
            let kept = keep(folder);
            panic!("seed {seed}, round {round}, {end:?}: {error}\nthe folder is kept: {kept}");
        }
    }
    covered.reads += ledger.reads();
    covered
}

fn keep(folder: TempDir) -> String {
    folder.keep().display().to_string()
}

fn round(
    folder: &Path,
    number: u64,
    end: End,
    choices: &mut Choices<'_>,
    ledger: &mut Ledger,
    covered: &mut Covered,
) -> Result<(), String> {
    let trace = Trace::before(folder).map_err(|error| error.to_string())?;
    let mut running = Running::start(folder, number, end, &trace)?;
    ledger.begin();
    // Not so many at first: much happens while a folder is created.
    let patience = choices.of(&[1, 20, 200, 1_000]);
    let kill_after = 1 + choices.below(patience);
    let mut lines = 0;
    while let Some(line) = running.line()? {
        ledger.note(&line)?;
        lines += 1;
        if lines == kill_after && !matches!(end, End::Failing(..)) {
            running.kill();
        }
    }
    running.ended()?;
    match end {
        End::Kill => {
            ledger.has_not_failed()?;
            covered.kills += 1;
        }
        End::PowerCut => {
            ledger.has_not_failed()?;
            covered.cuts += 1;
            covered.lost += trace.lose_unsynced(choices)?;
        }
        End::Failing(..) => {
            covered.failures += 1;
            ledger.has_failed()?;
        }
    }
    let settled = ledger.settle(folder)?;
    covered.acknowledged += settled.acknowledged;
    covered.applied += settled.applied;
    covered.dropped += settled.dropped;
    Ok(())
}

/// A child and what it says.
struct Running {
    child: Child,
    /// Its own number, which is not that of `strace` above it.
    pid: Option<String>,
    lines: Receiver<String>,
}

impl Running {
    fn start(folder: &Path, number: u64, end: End, trace: &Trace) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = match end {
            End::Kill => Command::new(own),
            End::PowerCut => trace.command(&own),
            End::Failing(Failing::Sync, from) => {
                traced::failing(&own, folder, "fdatasync", "EIO", from)
            }
            End::Failing(Failing::Write, from) => {
                traced::failing(&own, folder, "write", "ENOSPC", from)
            }
        };
        let mut child = command
            .args(["crash", "--seed", &number.to_string(), "--child"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // `strace` talks there of what it does.
            .stderr(if end == End::Kill {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            // A line that has no end was not finished.
            while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
                line.pop();
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        let mut running = Self {
            child,
            pid: None,
            lines,
        };
        running.pid = running.line()?;
        Ok(running)
    }

    /// The next line, or nothing if the child has ended.
    fn line(&mut self) -> Result<Option<String>, String> {
        // A minute is no measure of anything: only something that hangs takes so long.
        match self.lines.recv_timeout(Duration::from_secs(60)) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Err("the child says nothing for a minute".to_owned())
            }
        }
    }

    fn kill(&mut self) {
        if let Some(pid) = &self.pid {
            // It may have ended by itself.
            let _ = Command::new("kill").args(["-KILL", pid]).status();
        }
    }

    /// Waits until it is gone, and with it its lock.
    fn ended(&mut self) -> Result<(), String> {
        self.child
            .wait()
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

fn has_strace() -> bool {
    cfg!(target_os = "linux")
        && Command::new("strace")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}
