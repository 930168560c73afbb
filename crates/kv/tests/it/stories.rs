//! Stories of transactions that meet: scripts in `stories/*.txt`, and what came of each line in `stories/*.snap`.
//!
//! A line that begins with `#` is prose. `given a=1 b=2` fills the store, `store` shows it. All others begin with the name of
//! a transaction and a colon, and are done one after the other, the store's part included:
//!
//! | | |
//! |---|---|
//! | `get K`, `scan K..K` | reads at the moment of the attempt |
//! | `put K V`, `delete K` | writes, to be seen by others when it commits |
//! | `commit`, `rollback` | ends the attempt |
//! | `restart` | begins the next |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use spanlatch_kv::{Error, Txn};
use spanlatch_replica::{Request, Value};
use spanset::{Key, Span};

use crate::scene::Scene;

#[test]
fn the_stories_go_as_they_were_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stories");
    let mut scripts: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("stories");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for path in scripts {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let script = fs::read_to_string(&path).unwrap();
            insta::assert_snapshot!(name, tell(&script));
        }
    });
}

fn tell(script: &str) -> String {
    let scene = Scene::new();
    let mut txns = BTreeMap::<String, Txn>::new();
    let mut told = String::new();
    for line in script.lines() {
        let came = match line.split_once(": ") {
            _ if line.starts_with('#') || line.is_empty() => {
                let _ = writeln!(told, "{line}");
                continue;
            }
            Some((name, command)) => {
                let txn = txns
                    .entry(name.to_owned())
                    .or_insert_with(|| scene.db.begin());
                told_of(run(&scene, txn, command))
            }
            None => store(&scene, line),
        };
        let command = format!("> {line}");
        let told_line = format!("{command:<28} {came}");
        let _ = writeln!(told, "{}", told_line.trim_end());
    }
    told
}

fn store(scene: &Scene, command: &str) -> String {
    match command.split_once(' ') {
        None if command == "store" => show(
            scene
                .run(scene.db.scan(Span::all(), Request::UNLIMITED))
                .unwrap(),
        ),
        Some(("given", rows)) => {
            for row in rows.split(' ') {
                let (key, value) = row.split_once('=').expect("K=V");
                scene
                    .run(scene.db.put(key.to_owned(), value.to_owned()))
                    .unwrap();
            }
            String::new()
        }
        _ => panic!("no such command: {command}"),
    }
}

fn run(scene: &Scene, txn: &mut Txn, command: &str) -> Result<String, Error> {
    let words: Vec<&str> = command.split(' ').collect();
    let attempt = txn.attempt();
    match words[..] {
        ["get", key] => {
            let value = scene.run(attempt.get(key.to_owned()))?;
            Ok(value.map_or("nothing".to_owned(), |value| text(&value)))
        }
        ["scan", span] => {
            let (start, end) = span.split_once("..").expect("K..K");
            let span = Span::range(start.to_owned(), end.to_owned()).unwrap();
            Ok(show(scene.run(attempt.scan(span, Request::UNLIMITED))?))
        }
        ["put", key, value] => attempt
            .put(key.to_owned(), value.to_owned())
            .map(|()| String::new()),
        ["delete", key] => attempt.delete(key.to_owned()).map(|()| String::new()),
        ["commit"] => scene.run(txn.commit()).map(|()| "committed".to_owned()),
        ["rollback"] => {
            txn.rollback();
            Ok(String::new())
        }
        ["restart"] => {
            txn.restart();
            Ok(String::new())
        }
        _ => panic!("no such command: {command}"),
    }
}

/// Without timestamps, which are of the real clock.
fn told_of(came: Result<String, Error>) -> String {
    match came {
        Ok(came) => came,
        Err(Error::Retry { reason, .. }) => format!("has to be made again: {}", reason.label()),
        Err(error) => error.to_string(),
    }
}

fn show(rows: Vec<(Key, Value)>) -> String {
    let rows = rows
        .iter()
        .map(|(key, value)| format!("{}={}", text(key), text(value)));
    let rows: Vec<String> = rows.collect();
    if rows.is_empty() {
        "nothing".to_owned()
    } else {
        rows.join(" ")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
