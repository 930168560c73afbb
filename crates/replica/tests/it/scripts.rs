//! Stories of concurrent requests, told by scripts and pinned as transcripts.
//!
//! Each `scripts/*.txt` is a story, and `scripts/snapshots` has what happened in it: the script's own lines, each
//! with the `tracing` events that the store emitted because of it. Read those; `scripts/README.md` is their table
//! of contents. `INSTA_UPDATE=always cargo test -p spanlatch-replica --test it scripts` writes them anew.
//!
//! Everything happens on one thread. A request is polled when it is sent, and then only when it was woken. Proposals
//! hang until the script says what becomes of them. The clock moves on by 1 with each request that brings no
//! timestamp of its own, and the first gets 101; the time that is told to `Store::tick` moves with
//! `tick` and nothing else. At the end nothing may be left: no request, no proposal, no latch, no gauge above zero.
//!
//! # Scripts
//!
//! One command a line, or several with ` & ` between them: then nobody is polled in between. Keys and values are words, spans are `a..m`, `a..`, `..m` or `..`.
//!
//! | command | what it does |
//! |---|---|
//! | `# prose` | nothing; it stands in the transcript, as do empty lines |
//! | `store: OPTION, ..` | makes the store anew, on the engine that is there; without it, there is a plain one |
//! | `given k=v j=w` | has the engine hold versions at 50, or at T: `given k=v at T`. They are no requests |
//! | `NAME: REQUEST, ..` | sends a batch, and calls it NAME |
//! | `NAME: split k` | splits the range that has k |
//! | `apply NAME` | applies what NAME has proposed |
//! | `fail NAME` | the proposer says that it was not applied and never will be |
//! | `lose NAME` | the proposer forgets it |
//! | `step` | lets the store's own applier apply all that is proposed, if the store has it |
//! | `cancel NAME` | tells NAME that its caller gives up |
//! | `leave NAME` | the caller goes away: drops the future |
//! | `tick 6s` | 6 seconds go by, and the store is told |
//! | `collect T` | collects versions that reads from T on do not see |
//! | `engine TROUBLE` | once: `panics when read`, `fails to pin`, `fails to apply`, `refuses to apply` |
//! | `when pinned apply NAME` | does so just before the next snapshot is taken; `when pinned collect T` likewise |
//! | `shut down` | shuts the store down |
//! | `latches`, `metrics`, `versions`, `ranges` | prints who holds and who waits; what is not zero; what the engine holds; where the ranges are |
//!
//! Requests are `get k`, `put k v`, `put k v if w`, `put k v if nothing`, `add k 2`, `delete k`, `delete a..m limit 2`,
//! `scan a..m limit 2`, `rscan a..m limit 2` and `confirm a..m since 102`; limits can be left out. Among them can stand `at T`, a timestamp of
//! the client's own; `to r0`, a replica to send to instead of the store; `patient`, to go on waiting behind what is stuck.
//!
//! Options are `split at k j`, `in flight N`, `values up to N`, `remembers N reads`, `slow after 2s`, `stuck after 10s`,
//! `reads release early`, `ceiling of N` (the engine remembers a ceiling, raised by N at a time) and `own applier`.
//!
//! # Transcripts
//!
//! `> ` comes before a command; then who, the event's name and its fields. Spans are written as in scripts, `k@101` is k as of
//! timestamp 101, and `101+2` the second timestamp after it that has the same wall time. Numbers of requests are replaced
//! by their names. `gets` and `should` are no events, but what the client sees: the responses, or what the error tells it to do.

mod engine;
mod parse;
mod random;
mod run;
mod transcript;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tracing::Dispatch;
use tracing::dispatcher::with_default;

use run::Run;
use transcript::Transcript;

/// The files of a folder, in the order of their names.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

/// What happens in a story.
fn transcript_of(script: &str) -> String {
    let (transcript, subscriber) = Transcript::new();
    with_default(&Dispatch::new(subscriber), || {
        let mut commands = script.lines().filter(|line| !line.starts_with('#'));
        if commands.any(|line| line.contains(": split ")) {
            transcript.tell_ranges_apart();
        }
        let mut run = Run::new(transcript.clone());
        for line in script.lines() {
            run.line(line);
        }
        run.end();
    });
    transcript.text()
}

#[test]
fn the_stories_go_as_they_were_told() {
    // If there are fewer than two, an event that another test's thread is the first to meet counts as one that nobody
    // listens to. Those that are being met just now are over when a first story has been told.
    let _listening = [Transcript::new().1, Transcript::new().1].map(Dispatch::new);
    transcript_of("a: put k 1\napply a");
    let scripts = files("tests/it/scripts", "txt");
    assert!(!scripts.is_empty());
    let mut failed = Vec::new();
    for path in scripts {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let script = fs::read_to_string(&path).unwrap();
        let told = catch_unwind(AssertUnwindSafe(|| {
            let transcript = transcript_of(&script);
            insta::with_settings!({
                prepend_module_to_snapshot => false,
                omit_expression => true,
                snapshot_path => "scripts/snapshots",
            }, {
                insta::assert_snapshot!(name, transcript);
            });
        }));
        if told.is_err() {
            failed.push(name.to_owned());
        }
    }
    assert!(failed.is_empty(), "these went otherwise: {failed:?}");
}

#[test]
fn each_transcript_is_of_a_script() {
    let names = |files: Vec<PathBuf>| {
        Vec::from_iter(
            files
                .iter()
                .map(|path| path.file_stem().map(ToOwned::to_owned)),
        )
    };
    let scripts = names(files("tests/it/scripts", "txt"));
    let transcripts = names(files("tests/it/scripts/snapshots", "snap"));
    assert_eq!(scripts, transcripts);
}

#[test]
#[should_panic(expected = "left at the end: a")]
fn a_story_that_leaves_something_behind_fails() {
    transcript_of("a: put k 1");
}
