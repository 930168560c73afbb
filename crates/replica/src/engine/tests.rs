//! What every engine does, against a sorted map.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;
use spanset::{Cursor, End, Key, Timestamp};

use super::*;
use crate::{MemEngine, Value};

/// The newest version of a key first.
type Content = BTreeMap<(Key, Reverse<Timestamp>), Option<Value>>;

#[derive(Debug, Clone)]
enum Action {
    Apply(Vec<WriteBatch>),
    Collect(Timestamp),
    /// Closes the engine and opens it again, if anything outlives it.
    Reopen,
    /// Takes a snapshot, to be looked at when all is done.
    Keep,
    Look(Option<Timestamp>, Vec<Move>),
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

fn any_action() -> impl Strategy<Value = Action> {
    let value = prop_oneof![
        Just(None),
        Just(Some(Value::new())),
        any::<u16>().prop_map(|i| Some(i.to_string().into())),
    ];
    let writes = prop::collection::vec((any_key(), value), 0..6);
    let batch =
        (any_timestamp(), writes).prop_map(|(timestamp, writes)| WriteBatch { timestamp, writes });
    let group = prop::collection::vec(batch, 0..4);
    let moves = prop::collection::vec(any_move(), 1..20);
    prop_oneof![
        6 => group.prop_map(Action::Apply),
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

/// Takes the actions on an engine, which `reopen` closes and opens again, and on a map.
fn run<E: Engine>(mut engine: E, reopen: impl Fn(E) -> E, actions: &[Action]) {
    let mut content = Content::new();
    let mut kept = Vec::new();
    let mut marks = engine.marks();
    for (i, action) in actions.iter().enumerate() {
        match action {
            Action::Apply(group) => {
                for batch in group {
                    for (key, value) in &batch.writes {
                        let place = (key.clone(), Reverse(batch.timestamp));
                        content.insert(place, value.clone());
                    }
                }
                engine.apply(group.clone()).unwrap();
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
        let to = Timestamp::new(i as u64, 0);
        engine.raise_ceiling(to).unwrap();
        marks.ceiling = marks.ceiling.max(to);
        assert_eq!(engine.marks(), marks);
    }
    drop(engine);
    for (snapshot, content) in kept {
        let moves = [Move::Seek(Key::new()), Move::Next, Move::Last];
        look(&snapshot, &content, None, &moves);
    }
}

proptest! {
    #[test]
    fn the_engine_in_memory_is_a_sorted_map(actions in actions()) {
        run(MemEngine::new(), |engine| engine, &actions);
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
