//! Folders that are not as they should be.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use spanset::{End, Reader, Span};
use tempfile::TempDir;

use super::*;
use crate::{Value, Version};

/// Also puts a record, in the same group.
fn write(engine: &FjallEngine, wall: u64, keys: &[&str], value: &str) {
    let writes = keys
        .iter()
        .map(|key| ((*key).to_owned().into(), Some(value.to_owned().into())))
        .collect();
    let timestamp = Timestamp::new(wall, 0);
    let group = vec![WriteBatch { timestamp, writes }];
    let record = ("last".into(), Some(wall.to_string().into()));
    engine.write(group, vec![record]).unwrap();
}

#[derive(Debug, PartialEq)]
struct Content {
    versions: Vec<(spanset::Key, Timestamp, Option<Value>)>,
    records: Vec<(Bytes, Bytes)>,
}

/// All versions and records.
fn content(engine: &FjallEngine) -> Content {
    let snapshot = FjallSnapshot::new(engine.shared.clone());
    let entries = snapshot.range(encoding::FIRST.to_vec(), encoding::END.to_vec());
    Content {
        versions: entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.key, entry.version.timestamp, entry.version.value))
            .collect(),
        records: engine.records(b"", b"\xff", usize::MAX).unwrap(),
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    for file in files(from) {
        let copy = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
}

/// A closed folder with tables and journals, and what it holds.
fn closed(folder: &Path) -> Content {
    let engine = FjallEngine::open_with(folder, 1 << 10).unwrap();
    let mut wall = 1;
    // Each value takes a block of a table.
    while engine.shared.tree.table_count() == 0 {
        write(&engine, wall, &["a", "b\0c", ""], &"value ".repeat(700));
        wall += 1;
        assert!(wall < 100_000, "no table is ever written");
    }
    drop(engine);
    // The second time, the journal is as long as it has to be.
    let engine = FjallEngine::open(folder).unwrap();
    write(&engine, wall, &["a", "d"], "last but one");
    write(&engine, wall + 1, &["a", "e"], "last");
    engine.raise_ceiling(Timestamp::new(wall, 7)).unwrap();
    content(&engine)
}

fn journal(folder: &Path) -> PathBuf {
    let mut files = files(&folder.join("data"));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jnl"));
    files.pop().unwrap()
}

#[test]
fn a_folder_is_open_once_and_for_as_long_as_its_last_snapshot() {
    let folder = TempDir::new().unwrap();
    let engine = FjallEngine::open(folder.path()).unwrap();
    write(&engine, 5, &["a"], "value");
    let again = FjallEngine::open(folder.path());
    assert!(matches!(again, Err(FjallError::InUse { .. })));
    let snapshot = engine.snapshot().unwrap();
    drop(engine);
    let again = FjallEngine::open(folder.path());
    assert!(matches!(again, Err(FjallError::InUse { .. })));
    assert!(snapshot.get(&"a".into(), None).unwrap().is_some());
    drop(snapshot);
    let again = FjallEngine::open(folder.path()).unwrap();
    assert_eq!(content(&again).versions.len(), 1);
}

#[test]
fn what_is_not_ours_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("letter");
    fs::write(&file, "dear").unwrap();
    let error = FjallEngine::open(folder.path()).unwrap_err();
    assert!(matches!(error, FjallError::NotOurs { .. }), "{error}");
    assert_eq!(files(folder.path()), [file]);
}

#[test]
fn another_format_is_refused_by_its_number() {
    let folder = TempDir::new().unwrap();
    drop(FjallEngine::open(folder.path()).unwrap());
    let file = folder.path().join("FORMAT");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("format 1", "format 27")).unwrap();
    let error = FjallEngine::open(folder.path()).unwrap_err();
    assert!(
        matches!(
            &error,
            FjallError::OtherFormat {
                found: 27,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_folder_that_was_not_finished_is_begun_again() {
    let folder = TempDir::new().unwrap();
    drop(FjallEngine::open(folder.path()).unwrap());
    fs::rename(
        folder.path().join("FORMAT"),
        folder.path().join("FORMAT.new"),
    )
    .unwrap();
    fs::remove_file(folder.path().join("data/version")).unwrap();
    let engine = FjallEngine::open(folder.path()).unwrap();
    write(&engine, 5, &["a"], "value");
    drop(engine);
    let engine = FjallEngine::open(folder.path()).unwrap();
    assert_eq!(content(&engine).versions.len(), 1);
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_that_names_the_file_or_changes_nothing() {
    let pristine = TempDir::new().unwrap();
    let expected = closed(pristine.path());
    let copies = TempDir::new().unwrap();
    let damaged = copies.path().join("damaged");
    let mut named = 0;
    for file in files(pristine.path()) {
        let bytes = fs::read(&file).unwrap();
        let relative = file.strip_prefix(pristine.path()).unwrap();
        let name = relative.display().to_string();
        let step = (bytes.len() / 31).max(1);
        copy(pristine.path(), &damaged);
        for at in (0..bytes.len())
            .step_by(step)
            .chain(bytes.len().checked_sub(1))
        {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let place = damaged.join(relative);
            fs::write(&place, flipped).unwrap();
            match FjallEngine::open(&damaged) {
                Ok(engine) => {
                    assert_eq!(content(&engine), expected, "{name} at {at}");
                    // And nothing is wrong with what comes next.
                    write(&engine, 1 << 40, &["more"], "and more");
                    drop(engine);
                    let engine = FjallEngine::open(&damaged).unwrap();
                    let (now, before) = (content(&engine), &expected);
                    assert_eq!(now.versions.len(), before.versions.len() + 1);
                    drop(engine);
                    // It is of no use any more, or is the number of a batch and still in order.
                    assert!(
                        name.contains("/v") || name.ends_with(".jnl"),
                        "{name} at {at}"
                    );
                    copy(pristine.path(), &damaged);
                }
                Err(error) => {
                    assert!(error.to_string().contains(&name), "{name} at {at}: {error}");
                    named += 1;
                }
            }
        }
    }
    assert!(named > 250, "{named}");
}

/// Lowers the note of what was synced, as it is after a power cut.
fn forget_synced(folder: &Path, by: u64) {
    let Found::Data(mut folder, synced) = Folder::open(folder).unwrap() else {
        panic!("it is no data folder");
    };
    folder.note_synced(synced - by).unwrap();
}

/// The length of the journal without its last group.
fn without_last(bytes: &[u8]) -> usize {
    let end = bytes.len() - 4;
    let trailer = bytes[..end].windows(4).rposition(|four| four == b"FJL\x03");
    trailer.unwrap() + 4
}

#[test]
fn a_group_that_is_torn_is_dropped_as_a_whole_unless_it_was_synced() {
    tear(|engine| write(engine, 2, &["a", "b", "c"], "second"));
}

#[test]
fn a_replacement_that_is_torn_is_dropped_as_a_whole_unless_it_was_synced() {
    tear(|engine| {
        let version = Version {
            timestamp: Timestamp::new(2, 0),
            value: Some("second".into()),
        };
        let versions = ["a", "c"].map(|key| (key.into(), version.clone()));
        engine.replace(&Span::all(), versions.to_vec()).unwrap();
    });
}

/// Has the group that `second` writes torn in many places.
fn tear(second: impl Fn(&FjallEngine)) {
    let pristine = TempDir::new().unwrap();
    let engine = FjallEngine::open(pristine.path()).unwrap();
    write(&engine, 1, &["a", "b"], "first");
    let before = content(&engine);
    second(&engine);
    let after = content(&engine);
    drop(engine);
    drop(FjallEngine::open(pristine.path()).unwrap());
    let bytes = fs::read(journal(pristine.path())).unwrap();
    let copies = TempDir::new().unwrap();
    let torn = copies.path().join("torn");
    let cuts = (without_last(&bytes)..bytes.len()).step_by(5);
    for at in cuts.chain([bytes.len()]) {
        for zeros in [0, 4096] {
            copy(pristine.path(), &torn);
            let mut left = bytes[..at].to_vec();
            left.resize(left.len() + zeros, 0);
            fs::write(journal(&torn), &left).unwrap();
            let is_torn = at < bytes.len();
            if is_torn {
                let error = FjallEngine::open(&torn).unwrap_err();
                assert!(matches!(&error, FjallError::Corrupt { .. }), "{error}");
                assert_eq!(
                    fs::read(journal(&torn)).unwrap(),
                    left,
                    "nothing is written"
                );
                forget_synced(&torn, 1);
            }
            let engine = FjallEngine::open(&torn).unwrap();
            let expected = if is_torn { &before } else { &after };
            assert_eq!(&content(&engine), expected, "torn at {at}");
            // And it goes on from there.
            write(&engine, 3, &["a"], "third");
            drop(engine);
            let engine = FjallEngine::open(&torn).unwrap();
            let now = content(&engine);
            assert_eq!(now.versions.len(), expected.versions.len() + 1);
            assert_eq!(now.records, [("last".into(), "3".into())]);
        }
    }
}

#[test]
fn damage_before_an_intact_group_is_no_torn_tail() {
    let folder = TempDir::new().unwrap();
    let engine = FjallEngine::open(folder.path()).unwrap();
    for wall in 1..6 {
        write(&engine, wall, &["a", "b"], "value");
    }
    drop(engine);
    forget_synced(folder.path(), 5);
    let journal = journal(folder.path());
    let mut bytes = fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    fs::write(&journal, &bytes).unwrap();
    let error = FjallEngine::open(folder.path()).unwrap_err();
    assert!(error.to_string().contains("group 2 follows"), "{error}");
    assert_eq!(fs::read(&journal).unwrap(), bytes, "nothing is written");
}

#[test]
fn a_journal_that_is_gone_is_missed() {
    let folder = TempDir::new().unwrap();
    let engine = FjallEngine::open(folder.path()).unwrap();
    write(&engine, 1, &["a"], "value");
    drop(engine);
    fs::write(journal(folder.path()), "").unwrap();
    let error = FjallEngine::open(folder.path()).unwrap_err();
    assert!(matches!(error, FjallError::Corrupt { .. }), "{error}");
}

#[test]
fn a_key_that_is_too_long_fails_and_harms_nothing() {
    let folder = TempDir::new().unwrap();
    let engine = FjallEngine::open(folder.path()).unwrap();
    let timestamp = Timestamp::new(1, 0);
    let apply = |key: Vec<u8>| {
        let writes = vec![(key.into(), None)];
        engine.apply(vec![WriteBatch { timestamp, writes }])
    };
    let room = encoding::LONGEST - encoding::version(&[], timestamp).len();
    apply(vec![1; room]).unwrap();
    apply(vec![0; room / 2]).unwrap();
    for key in [vec![1; room + 1], vec![0; room / 2 + 1]] {
        let error = apply(key).unwrap_err();
        assert!(error.is_refusal());
        let own = error.error().downcast_ref();
        assert!(
            matches!(own, Some(FjallError::KeyTooLong { .. })),
            "{error}"
        );
    }
    apply(vec![2]).unwrap();
    assert_eq!(content(&engine).versions.len(), 3);
    // They can be asked for.
    let snapshot = engine.snapshot().unwrap();
    for (long, above) in [(vec![0; 1 << 17], 1), (vec![1; 1 << 17], 2)] {
        let long = spanset::Key::from(long);
        assert!(snapshot.get(&long, None).unwrap().is_none());
        let mut cursor = snapshot.cursor(None);
        cursor.seek(&long).unwrap();
        assert_eq!(cursor.item().unwrap().0[0], above);
        cursor.seek_back(End::At(&long)).unwrap();
        assert_eq!(cursor.item().unwrap().0[0], above - 1);
    }
}

#[test]
fn a_record_whose_key_is_too_long_fails_and_harms_nothing() {
    let folder = TempDir::new().unwrap();
    let engine = FjallEngine::open(folder.path()).unwrap();
    let put = |length| {
        let writes = vec![("a".into(), None)];
        let timestamp = Timestamp::new(1, 0);
        let record = (vec![1; length].into(), Some(Bytes::new()));
        engine.write(vec![WriteBatch { timestamp, writes }], vec![record])
    };
    let longest = encoding::LONGEST_RECORD - 1;
    let error = put(longest + 1).unwrap_err();
    assert!(error.is_refusal());
    let own = error.error().downcast_ref();
    assert!(
        matches!(own, Some(FjallError::KeyTooLong { .. })),
        "{error}"
    );
    assert_eq!(content(&engine).versions, []);
    put(longest).unwrap();
    // Longer ones can be asked for, and be bounds: above it, all of them.
    let kept = vec![1; longest];
    let found = |start: &[u8], end: &[u8]| engine.records(start, end, usize::MAX).unwrap().len();
    assert_eq!(engine.record(&kept).unwrap(), Some(Bytes::new()));
    for long in [vec![1; longest + 1], vec![1; 1 << 17]] {
        assert_eq!(engine.record(&long).unwrap(), None);
        assert_eq!(found(b"", &long), 1);
        assert_eq!(found(&long, b"\xff"), 0);
    }
}

#[test]
fn a_block_that_is_damaged_while_it_is_open_is_an_error_that_names_the_table() {
    let pristine = TempDir::new().unwrap();
    closed(pristine.path());
    let copies = TempDir::new().unwrap();
    // Fjall merges tables whenever it wants to, and maybe just these.
    let error = (0..1_000).find_map(|i| {
        let damaged = copies.path().join(i.to_string());
        copy(pristine.path(), &damaged);
        let engine = FjallEngine::open(&damaged).unwrap();
        for table in files(&damaged.join("data/keyspaces/1/tables")) {
            let Ok(mut file) = fs::OpenOptions::new().write(true).open(table) else {
                continue;
            };
            // Not the first block, which has been read for the marks.
            let middle = file.metadata().unwrap().len() / 2;
            file.seek(SeekFrom::Start(middle)).unwrap();
            file.write_all(&[0xa5; 64]).unwrap();
        }
        let snapshot = FjallSnapshot::new(engine.shared.clone());
        let mut entries = snapshot.range(encoding::FIRST.to_vec(), encoding::END.to_vec());
        entries.find_map(Result::err)
    });
    let error = error.unwrap().to_string();
    assert!(error.contains("/data/keyspaces/1/tables/"), "{error}");
}

#[test]
fn after_a_failure_every_call_fails_until_it_is_opened_again() {
    let folder = TempDir::new().unwrap();
    let engine = FjallEngine::open(folder.path()).unwrap();
    write(&engine, 1, &["a"], "value");
    // What cannot be written to fails.
    let unwritable = fs::File::open(folder.path().join("synced")).unwrap();
    engine
        .shared
        .writer
        .lock()
        .folder
        .replace_synced(unwritable);
    let poisoned = |result: Result<(), EngineError>| {
        let error = result.unwrap_err();
        let own = error.error().downcast_ref();
        let is_poisoned = matches!(own, Some(FjallError::Poisoned { .. }));
        assert_eq!(error.is_refusal(), is_poisoned);
        is_poisoned
    };
    let batch = || WriteBatch {
        timestamp: Timestamp::new(2, 0),
        writes: vec![("a".into(), None)],
    };
    assert!(!poisoned(engine.apply(vec![batch()])), "this one says why");
    assert!(poisoned(engine.apply(vec![batch()])));
    assert!(poisoned(engine.snapshot().map(drop)));
    assert!(poisoned(engine.record(b"last").map(drop)));
    assert!(poisoned(engine.records(b"", b"\xff", 0).map(drop)));
    assert!(poisoned(engine.write(vec![], vec![])));
    assert!(poisoned(engine.replace(&Span::all(), vec![])));
    assert!(poisoned(engine.raise_ceiling(Timestamp::new(9, 0))));
    assert!(poisoned(engine.raise_ceiling(Timestamp::MIN)));
    assert!(poisoned(engine.collect(Timestamp::new(9, 0)).map(drop)));
    drop(engine);
    let engine = FjallEngine::open(folder.path()).unwrap();
    assert!(engine.snapshot().is_ok());
}
