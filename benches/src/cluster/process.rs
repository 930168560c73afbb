//! A node as whoever has started it sees it: a process that answers when it is asked, a line of JSON each.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use serde::Serialize;
use serde::de::DeserializeOwned;
use spanlatch_replica_raft::NodeId;

use crate::cluster::node::Ask;
use crate::run::{Cores, PATIENCE};
use crate::session::Side;

/// The program, in the folder of this one.
const PROGRAM: &str = "spanlatch-bench-node";

/// What a node is told when it starts.
pub(super) struct Setup<'a> {
    pub(super) id: NodeId,
    pub(super) side: Side,
    pub(super) splits: u32,
    pub(super) cores: &'a Cores,
    /// Its folder; in memory without one.
    pub(super) data: Option<PathBuf>,
}

/// A node that runs. It is killed when this is dropped, and ends by itself when this process is no more.
pub(super) struct Process {
    id: NodeId,
    child: Child,
    said: Receiver<String>,
    /// The last line that it has complained in, once it has ended.
    complaint: Option<String>,
}

impl Process {
    pub(super) fn start(setup: &Setup<'_>) -> Result<Self> {
        let own = std::env::current_exe().context("this program's own folder is unknown")?;
        let program = own.with_file_name(format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX));
        let side = setup.side.to_possible_value();
        let side = side.as_ref().map_or("", |side| side.get_name());
        let mut command = Command::new(&program);
        command
            .args(["--id", &setup.id.to_string(), "--side", side])
            .args(["--splits", &setup.splits.to_string()])
            .args(["--cores", &setup.cores.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(data) = &setup.data {
            command.arg("--data").arg(data);
        }
        // Ctrl-C is for us, who end it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("it is piped")?;
        let (say, said) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if say.send(line).is_err() {
                    break;
                }
            }
        });
        let id = setup.id;
        Ok(Self {
            id,
            child,
            said,
            complaint: None,
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask<T: DeserializeOwned>(&mut self, ask: Ask) -> Result<T> {
        self.say(&ask)?;
        self.hear()
    }

    pub(super) fn say(&mut self, what: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(what)? + "\n";
        let stdin = self.child.stdin.as_mut().context("it is piped")?;
        match stdin.write_all(line.as_bytes()) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.ended()),
        }
    }

    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        match self.said.recv_timeout(PATIENCE) {
            Ok(line) => {
                serde_json::from_str(&line).with_context(|| format!("{self} says {line:?}"))
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(anyhow!("{self} has not answered for {PATIENCE:?}"))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// Why it has ended, if it has.
    pub(super) fn failure(&mut self) -> Option<anyhow::Error> {
        let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
        has_ended.then(|| self.ended())
    }

    /// Why it has ended, or is about to.
    fn ended(&mut self) -> anyhow::Error {
        if let Some(mut stderr) = self.child.stderr.take() {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            self.complaint = text.lines().last().map(str::to_owned);
        }
        let status = self.child.wait();
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let why = self.complaint.as_deref().unwrap_or(&status);
        let why = why.strip_prefix("error: ").unwrap_or(why);
        anyhow!("{self} has ended: {why}")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.id)
    }
}
