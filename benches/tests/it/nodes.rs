//! What becomes of the processes that are the nodes of a row with three.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const ROW: &str = "kv0/cores=1/nodes=3/splits=0/concurrency=4";

/// A session of rows with three nodes on a disk, in folders of its own.
struct Session {
    data: TempDir,
    out: TempDir,
}

impl Session {
    fn new() -> Self {
        let folder = || tempfile::tempdir().expect("a folder can be made");
        Self {
            data: folder(),
            out: folder(),
        }
    }

    /// Runs `spanlatch-bench`, or whatever is told to.
    fn command(&self, program: &[&str], duration: &str) -> Command {
        let bench = [env!("CARGO_BIN_EXE_spanlatch-bench")];
        let mut words = program.iter().chain(&bench);
        let mut command = Command::new(words.next().expect("there is one at least"));
        command
            .args(words)
            .args(["kv", "--nodes", "3", "--engine", "fjall"])
            .args(["--cores", "1", "--runs", "1", "--concurrency", "4"])
            .args(["--duration", duration, "--out"])
            .arg(self.out.path().join("out"))
            .env("TMPDIR", self.data.path())
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts one that takes an hour, and waits until its workers write.
    fn start(&self, program: &[&str]) -> (Running, BTreeSet<u32>) {
        let child = self.command(program, "1h").spawn();
        let mut session = Running(child.expect("it starts"));
        let mut running = BTreeSet::new();
        // In the folder of the session there is that of the run, and in it those of the nodes.
        while running.len() < 3 || formats(self.data.path(), 4) < 3 {
            assert!(matches!(session.0.try_wait(), Ok(None)), "it has ended");
            std::thread::yield_now();
            running = nodes(session.0.id());
        }
        // Much more than nodes that only know of each other.
        let busy = |pid: &u32| written(*pid) > 1 << 17;
        until(|| running.iter().all(busy));
        (session, running)
    }

    fn saved(&self, name: &str) -> String {
        fs::read_to_string(self.out.path().join("out").join(name)).expect("it was saved")
    }

    /// One of each side.
    fn samples(&self) -> impl Iterator<Item = Value> {
        let results: Value = serde_json::from_str(&self.saved("results.json")).expect("JSON");
        ["old", "new"]
            .map(|side| results["rows"][0][side][0].clone())
            .into_iter()
    }

    fn has_left_nothing(&self) -> bool {
        let mut entries = fs::read_dir(self.data.path()).expect("it is there");
        entries.next().is_none()
    }
}

/// A session that is killed if its test fails.
struct Running(Child);

impl Running {
    /// How it ends.
    fn end(&mut self) -> ExitStatus {
        until(|| !matches!(self.0.try_wait(), Ok(None)));
        self.0.wait().expect("it has ended")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many data folders there are, down to a depth.
fn formats(folder: &Path, depth: usize) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.map(|entry| match depth {
        0 => 0,
        _ => usize::from(entry.file_name() == "FORMAT") + formats(&entry.path(), depth - 1),
    });
    below.sum()
}

/// The nodes that a process has started and that run.
fn nodes(parent: u32) -> BTreeSet<u32> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().flat_map(str::parse);
    children.filter(|&pid| runs(pid)).collect()
}

/// How many bytes a process has written, to files and to others.
fn written(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    written.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// Whether a process is a node that runs.
fn runs(pid: u32) -> bool {
    // It is empty of one that has ended and was not waited for.
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
    line.is_ok_and(|line| line.contains("spanlatch-bench-node"))
}

fn all_end(nodes: &BTreeSet<u32>) {
    until(|| !nodes.iter().any(|&pid| runs(pid)));
}

/// Waits until it is so; what would have to be waited for longer never comes.
fn until(mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < give_up, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(signal: &str, pid: u32) {
    let sent = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.expect("there is a kill").success());
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it speaks UTF-8")
}

#[test]
fn a_session_says_what_it_shares_and_leaves_no_data() {
    let mut duration = Duration::from_millis(300);
    // On a busy machine, longer: one operation in sixteen is metered.
    let session = loop {
        let session = Session::new();
        let millis = format!("{}ms", duration.as_millis());
        let output = session.command(&[], &millis).output().expect("it starts");
        let stdout = text(&output.stdout);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(stdout.contains(ROW), "{stdout}");
        assert!(stdout.contains("\nnodes=3: "), "{stdout}");
        assert!(session.has_left_nothing());
        if session
            .samples()
            .all(|sample| sample["ops"].as_u64() > Some(200))
        {
            break session;
        }
        duration *= 2;
    };
    for file in ["results.json", "report.html"] {
        let saved = session.saved(file);
        assert!(
            saved.contains(ROW) && saved.contains("nodes=3: "),
            "{saved}"
        );
    }
    for sample in session.samples() {
        assert!(sample["latching"]["held"].as_f64() > Some(0.0), "{sample}");
    }
}

#[test]
fn transactions_run_on_three_nodes() {
    let session = Session::new();
    let mut command = session.command(&[], "200ms");
    command.args(["--client", "txn", "--read-percent", "50", "--splits", "3"]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn ctrl_c_ends_the_nodes_the_first_time_and_the_second() {
    for times in [1, 2] {
        let session = Session::new();
        let (mut running, nodes) = session.start(&[]);
        // To all that are in its group, as a terminal does.
        let group = format!("-{}", running.0.id());
        for _ in 0..times {
            let _ = Command::new("kill").args(["-INT", "--", &group]).status();
        }
        assert_eq!(running.end().code(), Some(130));
        all_end(&nodes);
        assert!(session.has_left_nothing(), "after {times}");
    }
}

#[test]
fn nodes_do_not_outlive_a_session_that_is_killed() {
    let session = Session::new();
    let (mut running, nodes) = session.start(&[]);
    kill("-KILL", running.0.id());
    running.end();
    all_end(&nodes);
}

/// Has something happen to the node that was started as the `number`th, and returns what the session says then. The first one leads.
fn after(session: &Session, program: &[&str], number: usize, happens: impl Fn(u32)) -> String {
    let (mut running, nodes) = session.start(program);
    happens(*nodes.iter().nth(number).expect("there are three"));
    assert_eq!(running.end().code(), Some(1));
    assert!(!nodes.iter().any(|&pid| runs(pid)));
    assert!(session.has_left_nothing());
    let stderr = running.0.stderr.take().expect("it is piped");
    let stderr = io::read_to_string(stderr).expect("it speaks UTF-8");
    let errors = stderr.lines().filter(|line| line.starts_with("error: "));
    let errors: Vec<&str> = errors.collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    errors[0].to_owned()
}

#[test]
fn a_node_that_is_killed_ends_the_session_with_its_name() {
    for number in [0, 2] {
        let error = after(&Session::new(), &[], number, |pid| kill("-KILL", pid));
        let says = format!("node {} has ended: signal: 9", number + 1);
        assert!(
            error.contains("/nodes=3/") && error.contains(&says),
            "{error}"
        );
    }
}

#[test]
fn a_node_whose_disk_is_full_ends_the_session_with_the_reason() {
    // Signals that are ignored are so in all that is started.
    let ignoring = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    let error = after(&Session::new(), &ignoring, 1, |pid| {
        let limit = ["--fsize=4096", "--pid", &pid.to_string()];
        let limited = Command::new("prlimit").args(limit).status();
        assert!(limited.expect("there is a prlimit").success());
    });
    assert!(error.contains("storage has failed: "), "{error}");
    assert!(error.contains("File too large"), "{error}");
}
