//! What every engine does, against a sorted map.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::thread;

use bytes::Bytes;
use proptest::prelude::*;
use spanset::{Cursor, End, Key, Span, Timestamp};

use super::*;
use crate::{MemEngine, Value, Versions};

/// The newest version of a key first.
type Content = BTreeMap<(Key, Reverse<Timestamp>), Option<Value>>;

#[derive(Debug, Clone)]
enum Action {
    Apply(Vec<WriteBatch>),
    Write(Vec<WriteBatch>, Vec<(Bytes, Option<Bytes>)>),
    Replace(Span, Vec<(Key, Version)>),
    Collect(Timestamp),
    /// Closes the engine and opens it again, if anything outlives it.
    Reopen,
    /// Takes a snapshot, to be looked at when all is done.
    Keep,
    Look(Option<Timestamp>, Vec<Move>),
    /// Reads the records from one key to another, up to a number of bytes.
    Records(Bytes, Bytes, usize),
}

#[derive(Debug, Clone)]
enum Move {
    Seek(Key),
    Before(Key),
    At(Key),
    Last,
    Next,
    Prev,
}

/// Few keys, of bytes that an encoding may trip over.
fn any_key() -> impl Strategy<Value = Key> {
    let byte = prop::sample::select(vec![0, 1, 0xff]);
    prop::collection::vec(byte, 0..3).prop_map(Key::from)
}

fn any_timestamp() -> impl Strategy<Value = Timestamp> {
    (0..4u64, 0..3u32).prop_map(|(wall, logical)| Timestamp::new(wall, logical))
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        any_key().prop_map(Move::Seek),
        any_key().prop_map(Move::Before),
        any_key().prop_map(Move::At),
        Just(Move::Last),
        Just(Move::Next),
        Just(Move::Next),
        Just(Move::Prev),
        Just(Move::Prev),
    ]
}

fn any_value() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None),
        Just(Some(Value::new())),
        any::<u16>().prop_map(|i| Some(i.to_string().into())),
    ]
}

fn any_group() -> impl Strategy<Value = Vec<WriteBatch>> {
    let writes = prop::collection::vec((any_key(), any_value()), 0..6);
    let batch =
        (any_timestamp(), writes).prop_map(|(timestamp, writes)| WriteBatch { timestamp, writes });
    prop::collection::vec(batch, 0..4)
}

fn any_span() -> impl Strategy<Value = Span> {
    prop_oneof![
        2 => any_key().prop_map(Span::point),
        4 => (any_key(), any_key()).prop_filter_map("empty", |(a, b)| Span::range(a, b).ok()),
        1 => any_key().prop_map(Span::starting_at),
        1 => Just(Span::all()),
    ]
}

/// A span and what it is to hold, seldom with a version of a key outside.
fn any_replacement() -> impl Strategy<Value = (Span, Vec<(Key, Version)>)> {
    let version =
        (any_timestamp(), any_value()).prop_map(|(timestamp, value)| Version { timestamp, value });
    let versions = prop::collection::vec((any_key(), version), 0..8);
    let may_stray = prop::bool::weighted(0.1);
    (any_span(), versions, may_stray).prop_map(|(span, mut versions, may_stray)| {
        versions.retain(|(key, _)| may_stray || span.contains_key(key));
        (span, versions)
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let moves = prop::collection::vec(any_move(), 1..20);
    let records = prop::collection::vec((any_key(), any_value()), 0..6);
    prop_oneof![
        4 => any_group().prop_map(Action::Apply),
        4 => (any_group(), records).prop_map(|(group, records)| Action::Write(group, records)),
        2 => any_replacement().prop_map(|(span, versions)| Action::Replace(span, versions)),
        2 => (any_key(), any_key(), 0..20usize).prop_map(|(a, b, max)| Action::Records(a, b, max)),
        1 => any_timestamp().prop_map(Action::Collect),
        1 => Just(Action::Reopen),
        1 => Just(Action::Keep),
        3 => (prop::option::of(any_timestamp()), moves).prop_map(|(at, moves)| Action::Look(at, moves)),
    ]
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    prop::collection::vec(any_action(), 1..25)
}

/// The newest versions at or below `at`.
fn visible(content: &Content, at: Option<Timestamp>) -> Vec<(Key, Version)> {
    let at = at.unwrap_or(Timestamp::MAX);
    let mut rows: Vec<(Key, Version)> = Vec::new();
    for ((key, Reverse(timestamp)), value) in content {
        let is_settled = rows.last().is_some_and(|(last, _)| last == key);
        if *timestamp <= at && !is_settled {
            let version = Version {
                timestamp: *timestamp,
                value: value.clone(),
            };
            rows.push((key.clone(), version));
        }
    }
    rows
}

/// Versions are compared by their timestamps alone, but not here.
fn said(item: Option<(&Key, &Version)>) -> Option<(Key, Timestamp, Option<Value>)> {
    item.map(|(key, version)| (key.clone(), version.timestamp, version.value.clone()))
}

fn look(snapshot: &Snapshot, content: &Content, at: Option<Timestamp>, moves: &[Move]) {
    let rows = visible(content, at);
    for (key, version) in &rows {
        let found = snapshot.get(key, at).unwrap();
        assert_eq!(
            said(found.as_ref().map(|found| (key, found))),
            said(Some((key, version)))
        );
    }
    let absent = Key::from_static(b"absent");
    assert!(snapshot.get(&absent, at).unwrap().is_none());
    let mut cursor = snapshot.cursor(at);
    let mut place: Option<usize> = None;
    for step in moves {
        let below = |end: &Key| rows.partition_point(|(key, _)| key < end);
        let through = |end: &Key| rows.partition_point(|(key, _)| key <= end);
        place = match step {
            Move::Seek(key) => {
                cursor.seek(key).unwrap();
                Some(below(key))
            }
            Move::Before(key) => {
                cursor.seek_back(End::Before(key)).unwrap();
                below(key).checked_sub(1)
            }
            Move::At(key) => {
                cursor.seek_back(End::At(key)).unwrap();
                through(key).checked_sub(1)
            }
            Move::Last => {
                cursor.seek_back(End::Unbounded).unwrap();
                rows.len().checked_sub(1)
            }
            Move::Next => {
                cursor.next().unwrap();
                place.map(|place| place + 1)
            }
            Move::Prev => {
                cursor.prev().unwrap();
                place.and_then(|place| place.checked_sub(1))
            }
        }
        .filter(|&place| place < rows.len());
        let expected = place.map(|place| (&rows[place].0, &rows[place].1));
        assert_eq!(said(cursor.item()), said(expected), "after {step:?}");
    }
}

/// Removes what reads from the threshold on do not see, and returns how many that were.
fn collect(content: &mut Content, threshold: Timestamp) -> u64 {
    let before = content.len();
    let seen = visible(content, Some(threshold));
    content.retain(|(key, Reverse(timestamp)), value| {
        let is_newest = seen
            .iter()
            .any(|(seen, version)| seen == key && version.timestamp == *timestamp);
        *timestamp > threshold || (is_newest && value.is_some())
    });
    (before - content.len()) as u64
}

fn apply(content: &mut Content, group: &[WriteBatch]) {
    for batch in group {
        for (key, value) in &batch.writes {
            let place = (key.clone(), Reverse(batch.timestamp));
            content.insert(place, value.clone());
        }
    }
}

fn all_of(snapshot: Snapshot) -> Content {
    let entry = |item: Result<(Key, Version), EngineError>| {
        let (key, version) = item.unwrap();
        ((key, Reverse(version.timestamp)), version.value)
    };
    Versions::new(snapshot, Span::all()).map(entry).collect()
}

/// Above all records.
const END: &[u8] = &[0xff; 4];

/// The first records from `start` to `end`, up to the one with which they are more than `max_bytes`.
fn first(
    records: &BTreeMap<Bytes, Bytes>,
    start: &[u8],
    end: &[u8],
    max_bytes: usize,
) -> Vec<(Bytes, Bytes)> {
    let inside = records
        .iter()
        .filter(|(key, _)| start <= *key && *key < end);
    let before = inside.scan(0, |bytes, (key, value)| {
        let before = *bytes;
        *bytes += key.len() + value.len();
        Some((before, (key.clone(), value.clone())))
    });
    before
        .filter(|(before, _)| *before <= max_bytes)
        .map(|(_, record)| record)
        .collect()
}

/// Takes the actions on an engine, which `reopen` closes and opens again, and on maps.
fn run<E: Records>(mut engine: E, reopen: impl Fn(E) -> E, actions: &[Action]) {
    let mut content = Content::new();
    let mut records = BTreeMap::new();
    let mut kept = Vec::new();
    let mut marks = engine.marks();
    for (i, action) in actions.iter().enumerate() {
        match action {
            Action::Apply(group) => {
                apply(&mut content, group);
                engine.apply(group.clone()).unwrap();
            }
            Action::Write(group, changes) => {
                apply(&mut content, group);
                for (key, value) in changes {
                    match value.clone() {
                        Some(value) => records.insert(key.clone(), value),
                        None => records.remove(key),
                    };
                }
                engine.write(group.clone(), changes.clone()).unwrap();
            }
            Action::Replace(span, versions) => {
                let replaced = engine.replace(span, versions.clone());
                if versions.iter().all(|(key, _)| span.contains_key(key)) {
                    replaced.unwrap();
                    content.retain(|(key, _), _| !span.contains_key(key));
                    for (key, version) in versions {
                        let place = (key.clone(), Reverse(version.timestamp));
                        content.insert(place, version.value.clone());
                    }
                } else {
                    assert!(replaced.unwrap_err().is_refusal());
                }
            }
            Action::Records(start, end, max_bytes) => {
                let found = engine.records(start, end, *max_bytes).unwrap();
                assert_eq!(found, first(&records, start, end, *max_bytes));
                assert_eq!(engine.record(start).unwrap(), records.get(start).cloned());
            }
            Action::Collect(threshold) => {
                let collected = engine.collect(*threshold).unwrap();
                assert_eq!(collected.versions, collect(&mut content, *threshold));
                marks.threshold = marks.threshold.max(*threshold);
            }
            Action::Reopen => {
                kept.clear();
                engine = reopen(engine);
            }
            Action::Keep => kept.push((engine.snapshot().unwrap(), content.clone())),
            Action::Look(at, moves) => look(&engine.snapshot().unwrap(), &content, *at, moves),
        }
        // Sometimes lower than it is.
        let to = Timestamp::new(i as u64 ^ 1, 0);
        engine.raise_ceiling(to).unwrap();
        marks.ceiling = marks.ceiling.max(to);
        assert_eq!(engine.marks(), marks);
        let found = engine.records(&[], END, usize::MAX).unwrap();
        assert_eq!(found, Vec::from_iter(records.clone()));
    }
    kept.push((engine.snapshot().unwrap(), content));
    drop(engine);
    for (snapshot, content) in kept {
        let moves = [Move::Seek(Key::new()), Move::Next, Move::Last];
        look(&snapshot, &content, None, &moves);
        assert_eq!(all_of(snapshot), content);
    }
}

/// Has groups written, of a version and a record with the same number, and compares the two meanwhile.
fn race(engine: Arc<dyn Records>, groups: u64) {
    let number = |bytes: Bytes| u64::from_be_bytes(bytes.as_ref().try_into().unwrap());
    let key = Key::from_static(b"key");
    let recorded = || engine.record(b"record").unwrap().map_or(0, number);
    let shown = || {
        let engine: Arc<dyn Engine> = engine.clone();
        let newest = engine.snapshot().unwrap().get(&key, None).unwrap();
        newest.map_or(0, |version| number(version.value.unwrap()))
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 1..=groups {
                let bytes = Bytes::from_owner(n.to_be_bytes());
                let batch = WriteBatch {
                    timestamp: Timestamp::new(n, 0),
                    writes: vec![(key.clone(), Some(bytes.clone()))],
                };
                let record = (Bytes::from_static(b"record"), Some(bytes));
                engine.write(vec![batch], vec![record]).unwrap();
            }
        });
        while !writer.is_finished() {
            let (a, b, c) = (recorded(), shown(), recorded());
            assert!(a <= b && b <= c, "record {a}, version {b}, record {c}");
        }
    });
}

#[test]
fn in_memory_whoever_sees_a_record_sees_the_versions_of_its_group_and_the_other_way_round() {
    race(Arc::new(MemEngine::new()), 20_000);
}

#[cfg(feature = "fjall")]
#[test]
fn in_a_folder_whoever_sees_a_record_sees_the_versions_of_its_group_and_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    race(Arc::new(FjallEngine::open(folder.path()).unwrap()), 200);
}

proptest! {
    #[test]
    fn the_engine_in_memory_is_a_sorted_map(actions in actions()) {
        run(MemEngine::outliving_stores(), |engine| engine, &actions);
    }
}

#[cfg(feature = "fjall")]
proptest! {
    // Each case syncs some dozens of times.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_engine_in_a_folder_is_a_sorted_map(actions in actions()) {
        let folder = tempfile::tempdir().unwrap();
        let open = || FjallEngine::open_with(folder.path(), 1 << 10).unwrap();
        run(open(), |engine| { drop(engine); open() }, &actions);
    }
}
