//! What the command line does: exit codes, standard output, standard error, files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanlatch-bench"));
    command
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it speaks UTF-8")
}

/// A folder of a test's own, which is removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("spanlatch-bench-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the folder can be made");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain path").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a small workload into a folder.
fn measured(out: &str, more: &[&str]) -> Output {
    let small = [
        "kv",
        "--concurrency",
        "4",
        "--cores",
        "1",
        "--runs",
        "2",
        "--out",
        out,
    ];
    let duration: &[&str] = match more.contains(&"--duration") {
        true => &[],
        false => &["--duration", "20ms"],
    };
    let output = bench(&[&small, duration, more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

#[test]
fn every_mistake_is_one_clear_line_and_exit_code_2() {
    let too_many = (std::thread::available_parallelism().map_or(1, usize::from) + 1000).to_string();
    let mistakes: &[(&[&str], &str)] = &[
        (&["--frobnicate"], "--frobnicate"),
        (&["standart"], "standart"),
        (&["--cores", &too_many], &too_many),
        (&["--cores", "0"], "--cores"),
        (&["--cores", "many"], "many"),
        (&["--runs", "0"], "--runs"),
        (&["--runs", "101"], "1..=100"),
        (&["--runs", "-1"], "-1"),
        (&["--duration", "0s"], "1ms"),
        (&["--duration", "1ns"], "1ms"),
        (&["--duration", "25h"], "1day"),
        (&["--duration", "18446744073709551615s"], "1day"),
        (&["--duration", "soon"], "soon"),
        (&["--quick", "--duration", "1s"], "--quick"),
        (&["--list", "--runs", "3"], "--list"),
        (&["--list", "--format", "json"], "--list"),
        (&["--filter", "("], "--filter"),
        (&["--filter", "no such row"], "no such row"),
        (&["--list", "--filter", "no such row"], "no such row"),
        (&["all", "--list", "--filter", "no such row"], "no such row"),
        (
            &["kv", "--batch", "1000", "--max-block-bytes", "1000000"],
            "batch 1000, max-block-bytes 1000000",
        ),
        (&["--format", "xml"], "xml"),
        (&["--nodes", "2"], "1 or 3"),
        (&["--nodes", "3"], "no row of selection has nodes=3"),
        (
            &["motivating", "--nodes", "3", "--filter", "kv95"],
            "no row of motivating has nodes=3 and matches \"kv95\"",
        ),
        (&["--out", "/dev/null/folder"], "/dev/null/folder"),
        (
            &["kv", "--read-percent", "80", "--span-percent", "30"],
            "80",
        ),
        (&["kv", "--sequential", "--splits", "3"], "sequential"),
        (&["kv", "--batch", "0"], "batch"),
        (&["kv", "--cycle-length", "0"], "cycle-length"),
        (
            &["kv", "--min-block-bytes", "9", "--max-block-bytes", "8"],
            "min-block-bytes 9",
        ),
        (
            &["kv", "--max-block-bytes", "100000000"],
            "max-block-bytes 100000000",
        ),
        (
            &[
                "kv",
                "--min-block-bytes",
                "100000000",
                "--max-block-bytes",
                "100000000",
            ],
            "max-block-bytes 100000000",
        ),
        (&["kv", "--splits", "4294967295"], "splits 4294967295"),
        (&["kv", "--batch", "4294967295"], "batch 4294967295"),
        (&["kv", "--concurrency", "0"], "concurrency"),
        (
            &["kv", "--concurrency", "4294967295"],
            "concurrency 4294967295",
        ),
        (&["micro", "--filter", "no such"], "no such"),
        (&["micro", "--list", "--quick"], "--quick"),
        (&["micro", "--runs", "3"], "--runs"),
        (&["compare", "a.json"], "B"),
        (&["compare", "no/a.json", "no/b.json"], "no/a.json"),
        (&["compare", "a", "b", "--cores", "1"], "--cores"),
    ];
    for (arguments, named) in mistakes {
        let output = bench(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(named),
            "{arguments:?}: {stderr}"
        );
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

#[test]
fn the_list_has_all_seventy_published_rows_and_what_runs_for_them() {
    let output = bench(&["all", "--list", "--cores", "1"]);
    let stdout = text(&output.stdout);
    assert!(output.status.success());
    assert_eq!(stdout.lines().count(), 70);
    let replicated = bench(&["standard", "--nodes", "3", "--list", "--cores", "1"]);
    let replicated = text(&replicated.stdout);
    assert_eq!(replicated.lines().count(), 12);
    assert!(
        replicated
            .lines()
            .all(|line| line.contains("runs as kv") && line.contains("/cores=1/nodes=3/")),
        "{replicated}"
    );
    let line = stdout
        .lines()
        .find(|line| line.contains(" kv95-c5/cores=36/nodes=1/splits=0 "));
    assert!(
        line.is_some_and(|line| line.contains("runs as kv95-c5/cores=1/nodes=1/splits=0")),
        "{line:?}"
    );
}

#[test]
fn a_filter_chooses_rows_of_the_list() {
    let output = bench(&[
        "all",
        "--list",
        "--cores",
        "1",
        "--filter",
        "^kv70.*splits=0$",
    ]);
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

#[test]
fn help_and_version_are_no_mistakes() {
    for (argument, says) in [
        ("--help", "compare"),
        ("--version", env!("CARGO_PKG_VERSION")),
    ] {
        let output = bench(&[argument]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains(says));
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn the_help_of_a_command_lists_its_own_options_and_no_others() {
    for (command, has, has_not) in [
        ("compare", "--side", "--duration"),
        ("micro", "--quick", "--runs"),
        ("standard", "--runs", "--side"),
    ] {
        let output = bench(&[command, "--help"]);
        let help = text(&output.stdout);
        assert!(output.status.success());
        assert!(help.contains(has) && !help.contains(has_not), "{help}");
    }
}

#[test]
fn a_session_prints_tables_and_leaves_data_and_a_report() {
    let folder = Folder::new("session");
    let out = folder.path("made/as/needed");
    let output = measured(&out, &[]);
    let stdout = text(&output.stdout);
    for head in [
        "old ops/sec",
        "old p50",
        "old p99",
        "old p99.9",
        "old waits/op",
    ] {
        assert!(stdout.contains(head), "{stdout}");
    }
    assert!(
        stdout.contains("kv0/cores=1/nodes=1/splits=0/concurrency=4"),
        "{stdout}"
    );
    assert_eq!(
        text(&output.stderr).lines().count(),
        2,
        "no progress bar where nobody watches"
    );
    let page = fs::read_to_string(Path::new(&out).join("report.html")).expect("a report");
    assert!(page.contains("<svg") && page.contains("kv0/cores=1/nodes=1/splits=0/concurrency=4"));
}

#[test]
fn json_is_what_was_saved() {
    let folder = Folder::new("json");
    let output = measured(&folder.path("out"), &["--format", "json"]);
    let saved = fs::read_to_string(folder.path("out/results.json")).expect("results");
    assert_eq!(text(&output.stdout).trim_end(), saved);
    let results: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    let samples = |side: &str| results["rows"][0][side].as_array().map(Vec::len);
    assert_eq!((samples("old"), samples("new")), (Some(2), Some(2)));
}

#[test]
fn the_microbenchmarks_are_listed_by_their_published_names() {
    let output = bench(&["micro", "--list"]);
    assert!(output.status.success());
    let names: Vec<&str> = text(&output.stdout).lines().collect();
    for name in [
        "read_only_mix/256",
        "read_write_mix/16",
        "uncontended/write+read",
        "uncontended_build/writes_100",
        "held/write/10000/op=read",
        "held/read/1000000/op=write",
        "parallel/disjoint/10000/write",
        "parallel/same_key",
        "convoy/1000",
        "tree/snapshot_insert_remove/65536",
        "tree/first_overlap/1000000",
    ] {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn microbenchmarks_print_a_table_with_allocations_and_goals() {
    let output = bench(&[
        "micro",
        "--quick",
        "--filter",
        "^uncontended_build/writes_100$",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let stdout = text(&output.stdout);
    let row = stdout.lines().nth(1).unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells.first(),
        Some(&"uncontended_build/writes_100"),
        "{stdout}"
    );
    // A hundred spans have no room in a span set itself.
    let allocs = cells.get(2).and_then(|cell| cell.parse::<f64>().ok());
    assert!(allocs.is_some_and(|allocs| allocs >= 1.0), "{stdout}");
    assert!(
        row.contains(" 3x ") && row.contains(" predecessor "),
        "{stdout}"
    );
    assert!(
        stdout.contains("\nfloor: ") && stdout.contains(" of 1 met\n"),
        "{stdout}"
    );
}

#[test]
fn two_saved_sessions_are_compared_in_the_same_tables() {
    let folder = Folder::new("compare");
    let (a, b) = (folder.path("a"), folder.path("b"));
    measured(&a, &[]);
    measured(&b, &[]);
    let files = [format!("{a}/results.json"), format!("{b}/results.json")];
    let again = bench(&["kv", "--duration", "20ms", "--out", &a]);
    assert_eq!(again.status.code(), Some(2));
    let refusal = text(&again.stderr);
    assert!(
        refusal.contains(&files[0]) && refusal.lines().count() == 1,
        "{refusal}"
    );
    for side in ["manager", "predecessor"] {
        let output = bench(&["compare", &files[0], &files[1], "--side", side]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stdout = text(&output.stdout);
        let heads = [&files[0], &files[1]].map(|file| format!("{file} p99 "));
        assert!(
            stdout.starts_with("name")
                && heads.iter().all(|head| stdout.contains(head))
                && !stdout.contains("published"),
            "{stdout}"
        );
    }
    let longer = folder.path("longer");
    measured(&longer, &["--duration", "30ms"]);
    let output = bench(&["compare", &files[0], &format!("{longer}/results.json")]);
    let warning = text(&output.stdout).lines().next();
    assert!(
        warning.is_some_and(|line| line.ends_with("duration: 0.02 s, then 0.03 s")),
        "{warning:?}"
    );
    let other = folder.path("other");
    measured(&other, &["--read-percent", "50"]);
    let output = bench(&["compare", &files[0], &format!("{other}/results.json")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no such row in common"));
}

/// A small session on a disk whose data is in `data`.
fn on_a_disk(data: &Folder, out: &str, duration: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanlatch-bench"));
    command
        .args(["kv", "--engine", "fjall", "--cores", "1", "--runs", "1"])
        .args(["--concurrency", "4", "--duration", duration, "--out", out])
        .env("TMPDIR", &data.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn is_empty(folder: &Folder) -> bool {
    let mut entries = fs::read_dir(&folder.0).expect("the folder is there");
    entries.next().is_none()
}

#[test]
fn a_session_on_a_disk_says_so_and_leaves_no_data() {
    let (folder, data) = (Folder::new("disk"), Folder::new("disk-data"));
    let out = folder.path("out");
    let output = on_a_disk(&data, &out, "50ms").output().expect("it starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\nengine: fjall, client: store\n"));
    let read = |name| fs::read_to_string(Path::new(&out).join(name)).expect("it was saved");
    assert!(read("results.json").contains("\"engine\": \"fjall\""));
    assert!(read("report.html").contains("<dt>Engine</dt><dd>fjall</dd>"));
    assert!(is_empty(&data));
}

#[cfg(unix)]
#[test]
fn ctrl_c_removes_the_data_the_first_time_and_the_second() {
    for times in [1, 2] {
        let (folder, data) = (Folder::new("int-disk"), Folder::new("int-data"));
        let mut child = on_a_disk(&data, &folder.path("out"), "1h")
            .spawn()
            .expect("it starts");
        // By then Ctrl-C is handled, and a run has begun.
        while !Path::new(&folder.path("out")).exists() || is_empty(&data) {
            std::thread::yield_now();
        }
        for _ in 0..times {
            let pid = child.id().to_string();
            let _ = Command::new("kill").args(["-INT", &pid]).status();
        }
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(130));
        assert!(is_empty(&data), "after {times}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_session_and_still_writes_its_results() {
    let folder = Folder::new("interrupt");
    let out = folder.path("out");
    let arguments = [
        "kv",
        "--cores",
        "1",
        "--concurrency",
        "4",
        "--duration",
        "1h",
        "--out",
        &out,
    ];
    let child = Command::new(env!("CARGO_BIN_EXE_spanlatch-bench"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The folder is made once Ctrl-C is handled.
    while !Path::new(&out).exists() {
        std::thread::yield_now();
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert!(
        text(&output.stderr).contains("interrupted"),
        "{}",
        text(&output.stderr)
    );
    let saved = fs::read_to_string(folder.path("out/results.json")).expect("results");
    assert!(
        saved.contains("\"ended_early\": \"interrupted\""),
        "{saved}"
    );
}
