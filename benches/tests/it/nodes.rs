//! What becomes of the processes that are the nodes of a row with three.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

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
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts one that takes an hour, and waits until a node has written something of its own.
    fn start(&self, program: &[&str]) -> (Child, BTreeSet<u32>) {
        let mut child = self.command(program, "1h").spawn().expect("it starts");
        let mut running = BTreeSet::new();
        // In the folder of the session there is that of the run, and in it those of the nodes.
        while running.len() < 3 || formats(self.data.path(), 4) < 3 {
            assert!(matches!(child.try_wait(), Ok(None)), "it has ended");
            std::thread::yield_now();
            running = nodes(child.id());
        }
        (child, running)
    }

    fn saved(&self, name: &str) -> String {
        fs::read_to_string(self.out.path().join("out").join(name)).expect("it was saved")
    }

    fn has_left_nothing(&self) -> bool {
        let mut entries = fs::read_dir(self.data.path()).expect("it is there");
        entries.next().is_none()
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

/// Whether a process is a node that runs.
fn runs(pid: u32) -> bool {
    // It is empty of one that has ended and was not waited for.
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
    line.is_ok_and(|line| line.contains("spanlatch-bench-node"))
}

fn all_end(nodes: &BTreeSet<u32>) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while nodes.iter().any(|&pid| runs(pid)) {
        assert!(Instant::now() < give_up, "{nodes:?} still run");
        std::thread::yield_now();
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
    let session = Session::new();
    let output = session.command(&[], "300ms").output().expect("it starts");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let row = "kv0/cores=1/nodes=3/splits=0/concurrency=4";
    assert!(stdout.contains(row), "{stdout}");
    assert!(stdout.contains("\nnodes=3: "), "{stdout}");
    for file in ["results.json", "report.html"] {
        let saved = session.saved(file);
        assert!(
            saved.contains(row) && saved.contains("nodes=3: "),
            "{saved}"
        );
    }
    let results: serde_json::Value =
        serde_json::from_str(&session.saved("results.json")).expect("JSON");
    for side in ["old", "new"] {
        let sample = &results["rows"][0][side][0];
        assert!(sample["ops"].as_u64() > Some(0), "{sample}");
        assert!(sample["latching"]["held"].as_f64() > Some(0.0), "{sample}");
    }
    assert!(session.has_left_nothing());
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
        let (mut child, nodes) = session.start(&[]);
        for _ in 0..times {
            let _ = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status();
        }
        assert_eq!(child.wait().expect("it ends").code(), Some(130));
        all_end(&nodes);
        assert!(session.has_left_nothing(), "after {times}");
    }
}

#[test]
fn nodes_do_not_outlive_a_session_that_is_killed() {
    let session = Session::new();
    let (mut child, nodes) = session.start(&[]);
    kill("-KILL", child.id());
    child.wait().expect("it ends");
    all_end(&nodes);
}

/// Has something happen to a node, and returns what the session says then.
fn after(session: &Session, program: &[&str], happens: impl Fn(u32)) -> String {
    let (child, nodes) = session.start(program);
    let last = nodes.last().expect("there are three");
    happens(*last);
    let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
    assert_eq!(status.code(), Some(1));
    assert!(!nodes.iter().any(|&pid| runs(pid)));
    assert!(session.has_left_nothing());
    let stderr = text(&stderr);
    let errors = stderr.lines().filter(|line| line.starts_with("error: "));
    let errors: Vec<&str> = errors.collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    errors[0].to_owned()
}

#[test]
fn a_node_that_is_killed_ends_the_session_with_its_name() {
    let error = after(&Session::new(), &[], |pid| kill("-KILL", pid));
    assert!(
        error.contains("/nodes=3/") && error.contains("node "),
        "{error}"
    );
    assert!(error.contains("has ended: signal: 9"), "{error}");
}

#[test]
fn a_node_whose_disk_is_full_ends_the_session_with_the_reason() {
    // Signals that are ignored are so in all that is started.
    let ignoring = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
    let error = after(&Session::new(), &ignoring, |pid| {
        let limit = ["--fsize=4096", "--pid", &pid.to_string()];
        let limited = Command::new("prlimit").args(limit).status();
        assert!(limited.expect("there is a prlimit").success());
    });
    assert!(error.contains("storage has failed: "), "{error}");
    assert!(error.contains("File too large"), "{error}");
}
