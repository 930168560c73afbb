//! What is sent and what arrives.

use spanlatch_replica::{MemEngine, WriteBatch};

use super::*;

/// Keys by how many versions they have, each with a value of so many bytes.
fn engine(keys: &[(&str, u64)], value: usize) -> MemEngine {
    let engine = MemEngine::outliving_stores();
    for &(key, versions) in keys {
        let batch = |wall| WriteBatch {
            timestamp: Timestamp::new(wall, 0),
            writes: vec![(Key::from(key.to_owned()), Some(vec![7; value].into()))],
        };
        engine.apply((1..=versions).map(batch).collect()).unwrap();
    }
    engine
}

fn content(engine: &MemEngine) -> (Marks, Vec<(Key, Version)>) {
    let versions = Versions::new(engine.snapshot().unwrap(), Span::all());
    (engine.marks(), versions.map(Result::unwrap).collect())
}

/// Sends what `from` has to `to`, and returns how many pieces that were.
fn transfer(from: &MemEngine, to: &MemEngine) -> usize {
    let mut pieces = SnapshotData::pin(from).unwrap().into_pieces().unwrap();
    let mut received = SnapshotData::receive(&std::env::temp_dir());
    let mut count = 0;
    while let Some(piece) = pieces.next().unwrap() {
        assert!(piece.len() < 2 * PIECE);
        received.add(&piece).unwrap();
        count += 1;
    }
    install(to, received).unwrap();
    count
}

#[test]
fn what_the_sender_has_below_its_threshold_arrives_too() {
    let from = engine(&[("a", 9)], 1);
    from.collect(Timestamp::new(20, 0)).unwrap();
    // Proposed before the collection, and applied after it.
    let late = |wall| WriteBatch {
        timestamp: Timestamp::new(wall, 0),
        writes: vec![(Key::from("a"), None)],
    };
    from.apply(vec![late(10), late(11)]).unwrap();
    let to = engine(&[("a", 3)], 1);
    transfer(&from, &to);
    assert_eq!(content(&to).1.len(), 3);
    assert_eq!(content(&to), content(&from));
}

#[test]
fn all_that_was_sent_arrives_and_nothing_else_is_left() {
    // So that pieces end within keys, and a key has several pieces.
    let from = engine(
        &[
            ("", 3),
            ("a", 900),
            ("b", 1),
            ("c", 100),
            ("d", 400),
            ("f", 1),
        ],
        1000,
    );
    from.raise_ceiling(Timestamp::new(5000, 1)).unwrap();
    from.collect(Timestamp::new(20, 0)).unwrap();
    let to = engine(
        &[
            ("0", 1),
            ("a", 30),
            ("b", 50),
            ("cc", 2),
            ("f", 9),
            ("g", 1),
        ],
        3,
    );
    to.raise_ceiling(Timestamp::new(4000, 0)).unwrap();
    let pieces = transfer(&from, &to);
    assert!(pieces > 4, "{pieces}");
    assert_eq!(content(&to), content(&from));
    // Versions are equal if their timestamps are.
    let values = |engine| {
        content(engine)
            .1
            .into_iter()
            .map(|(_, version)| version.value)
    };
    assert!(values(&to).eq(values(&from)));
}

#[test]
fn an_empty_engine_is_sent_and_empties_another() {
    let to = engine(&[("a", 3)], 1);
    let from = engine(&[], 1);
    assert_eq!(transfer(&from, &to), 1);
    assert_eq!(content(&to), content(&from));
}

#[test]
fn what_is_pinned_does_not_change() {
    let from = engine(&[("a", 3), ("b", 3)], 1);
    let before = content(&from);
    let pinned = SnapshotData::pin(&from).unwrap();
    from.apply(vec![WriteBatch {
        timestamp: Timestamp::new(9, 9),
        writes: vec![(Key::from("c"), None)],
    }])
    .unwrap();
    from.collect(Timestamp::new(3, 0)).unwrap();
    let to = engine(&[], 1);
    install(&to, pinned).unwrap();
    assert_eq!(content(&to), before);
}

#[test]
fn what_has_no_marks_is_no_snapshot_and_changes_nothing() {
    let to = engine(&[("a", 1)], 1);
    let before = content(&to);
    let mut pieces = SnapshotData::pin(&to).unwrap().into_pieces().unwrap();
    pieces.next().unwrap();
    let rows = pieces.next().unwrap().unwrap();
    let receive = || SnapshotData::receive(&std::env::temp_dir());
    let mut without = receive();
    without.add(&rows).unwrap();
    for snapshot in [receive(), without] {
        let error = install(&to, snapshot).unwrap_err();
        assert_eq!(error.to_string(), NO_MARKS);
        assert_eq!(content(&to), before);
    }
}
