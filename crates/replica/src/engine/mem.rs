//! The embedded default: an engine in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use bytes::Bytes;
use interval_btree::{Bytewise, Interval, IntervalMap};
use parking_lot::Mutex;
use spanset::{CompactKey, Cursor, End, Key, Reader, Span, Timestamp};

use super::records::{check_inside, until_exceeded};
use super::{Collected, Collector, Engine, EngineError, Marks, Records, Snapshot};
use crate::{Version, WriteBatch};

/// All versions of all keys: points, under each the newest version first.
type Versions = IntervalMap<CompactKey, Version, 32, Bytewise>;

/// Keeps every version in memory, in one tree that is changed in place.
///
/// A snapshot shares the tree, in O(1); while one is alive, a change copies the path to the leaf that
/// it changes, unless an earlier change already has.
pub struct MemEngine {
    /// Clones and changes of the content, and nothing else, happen under it; keys and values that are done
    /// with are dropped after unlocking.
    content: Mutex<Content>,
    /// A move happens under it.
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct Content {
    versions: Versions,
    records: BTreeMap<Bytes, Bytes>,
}

impl MemEngine {
    /// An empty engine for one store. It keeps no ceiling: [`marks`](Engine::marks) says that nothing outlives the store.
    pub fn new() -> Self {
        Self::with_ceiling(Timestamp::MAX)
    }

    /// An empty engine for stores one after the other. It keeps the ceiling, which the next one starts at.
    pub fn outliving_stores() -> Self {
        Self::with_ceiling(Timestamp::MIN)
    }

    fn with_ceiling(ceiling: Timestamp) -> Self {
        Self {
            content: Mutex::default(),
            marks: Mutex::new(Marks {
                ceiling,
                threshold: Timestamp::MIN,
            }),
        }
    }

    /// How many versions are removed without a chance for others in between.
    const REMOVED_AT_ONCE: usize = 256;
}

impl Default for MemEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for MemEngine {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        Ok(Box::new(MemSnapshot(self.content.lock().versions.clone())))
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.write(group, Vec::new())
    }

    fn marks(&self) -> Marks {
        *self.marks.lock()
    }

    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError> {
        let mut marks = self.marks.lock();
        marks.ceiling = marks.ceiling.max(to);
        Ok(())
    }

    /// Looks for what to remove on a snapshot, and then removes it a portion at a time, so that nobody
    /// waits long. O(n), and O(log n) for each version that is removed.
    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError> {
        {
            let mut marks = self.marks.lock();
            marks.threshold = marks.threshold.max(threshold);
        }
        let versions = self.content.lock().versions.clone();
        let unseen = unseen_from(&versions, threshold);
        drop(versions);
        for portion in unseen.chunks(Self::REMOVED_AT_ONCE) {
            let mut content = self.content.lock();
            let removed: Vec<_> = portion
                .iter()
                .map(|(key, timestamp)| content.versions.remove(&point(key), &probe(*timestamp)))
                .collect();
            drop(content);
            drop(removed);
        }
        Ok(Collected {
            versions: unseen.len() as u64,
        })
    }
}

impl Records for MemEngine {
    fn write(
        &self,
        mut batches: Vec<WriteBatch>,
        mut records: Vec<(Bytes, Option<Bytes>)>,
    ) -> Result<(), EngineError> {
        let mut content = self.content.lock();
        for batch in &mut batches {
            let timestamp = batch.timestamp;
            for (key, value) in &mut batch.writes {
                let version = Version {
                    timestamp,
                    value: value.take(),
                };
                let replaced = content.versions.insert(point(&(&*key).into()), version);
                // Goes with the group, after unlocking.
                *value = replaced.and_then(|version| version.value);
            }
        }
        let mut removed = Vec::new();
        for (key, value) in &mut records {
            match value.take() {
                // The key stays the one that is there.
                Some(new) => *value = content.records.insert(key.clone(), new),
                None => removed.extend(content.records.remove_entry(key)),
            }
        }
        drop(content);
        drop((batches, records, removed));
        Ok(())
    }

    /// O(log n).
    fn record(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        Ok(self.content.lock().records.get(key).cloned())
    }

    /// O(log n), and O(1) for each record.
    fn records(
        &self,
        start: &[u8],
        end: &[u8],
        max_bytes: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, EngineError> {
        if start > end {
            return Ok(Vec::new());
        }
        let content = self.content.lock();
        let range = (Bound::Included(start), Bound::Excluded(end));
        let records = content.records.range::<[u8], _>(range);
        until_exceeded(
            records.map(|(key, value)| Ok((key.clone(), value.clone()))),
            max_bytes,
        )
    }

    /// O(log n) for each version that goes or comes, while everybody else waits.
    fn replace(&self, span: &Span, versions: Vec<(Key, Version)>) -> Result<(), EngineError> {
        check_inside(span, &versions)?;
        let start = point(&span.start().into());
        let mut content = self.content.lock();
        let gone: Vec<_> = content
            .versions
            .iter_from(&start, &probe(Timestamp::MAX))
            .map(|(interval, version)| (interval.start().to_key(), version.clone()))
            .take_while(|(key, _)| span.contains_key(key))
            .collect();
        for (key, version) in &gone {
            content.versions.remove(&point(&key.into()), version);
        }
        for (key, version) in &versions {
            content.versions.insert(point(&key.into()), version.clone());
        }
        drop(content);
        Ok(())
    }

    fn blocks(&self) -> bool {
        false
    }
}

/// The versions that reads from `threshold` on do not see, in an order in which they can be removed. O(n).
fn unseen_from(versions: &Versions, threshold: Timestamp) -> Vec<(CompactKey, Timestamp)> {
    let mut unseen = Vec::new();
    let mut collector = Collector::new(threshold);
    let mut remove = |key: &&CompactKey, timestamp| unseen.push(((*key).clone(), timestamp));
    for (interval, version) in versions {
        collector.meet(interval.start(), version, &mut remove);
    }
    collector.end(remove);
    unseen
}

impl fmt::Debug for MemEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemEngine")
            .field("versions", &self.content.lock().versions.len())
            .finish_non_exhaustive()
    }
}

struct MemSnapshot(Versions);

impl Reader for MemSnapshot {
    type Value = Version;
    type Error = EngineError;

    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<Version>, EngineError> {
        Ok(newest(&self.0, &key.into(), at.unwrap_or(Timestamp::MAX)).cloned())
    }

    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = Version, Error = EngineError> + '_> {
        Box::new(MemCursor {
            versions: &self.0,
            at: at.unwrap_or(Timestamp::MAX),
            ahead: None,
            place: None,
            key: Key::new(),
        })
    }
}

/// The newest version of `key` at or below `at`. O(log n).
fn newest<'a>(versions: &'a Versions, key: &CompactKey, at: Timestamp) -> Option<&'a Version> {
    let (found, version) = versions.iter_from(&point(key), &probe(at)).next()?;
    (found.start() == key).then_some(version)
}

fn point(key: &CompactKey) -> Interval<CompactKey> {
    Interval::point(key.clone())
}

/// Stands for the place of a version in the order of a key's versions.
fn probe(timestamp: Timestamp) -> Version {
    Version {
        timestamp,
        value: None,
    }
}

/// An iterator over consecutive versions.
type Run<'a> = interval_btree::Range<'a, CompactKey, Version, 32, Bytewise>;

struct MemCursor<'a> {
    versions: &'a Versions,
    at: Timestamp,
    /// The versions after the item, once the cursor has moved up.
    ahead: Option<Run<'a>>,
    /// Where the cursor is, if it is on an entry; and the key of that entry.
    place: Option<(&'a CompactKey, &'a Version)>,
    key: Key,
}

impl<'a> MemCursor<'a> {
    /// How many versions to pass over one by one before seeking beyond them.
    const STEPS: usize = 8;

    /// Goes to the first version of `ahead` that is to be seen: the newest one at or below `at` of a
    /// key that is not `passed`.
    fn settle_up(&mut self, mut ahead: Run<'a>, passed: Option<&'a CompactKey>) {
        let mut steps = 0;
        let place = loop {
            let Some((interval, version)) = ahead.next() else {
                break None;
            };
            let key = interval.start();
            let is_passed = passed == Some(key);
            if !is_passed && version.timestamp <= self.at {
                break Some((key, version));
            }
            steps += 1;
            if steps % Self::STEPS == 0 {
                ahead = if is_passed {
                    self.versions.iter_after(interval, &probe(Timestamp::MIN))
                } else {
                    self.versions.iter_from(interval, &probe(self.at))
                };
            }
        };
        self.ahead = Some(ahead);
        self.stop_at(place);
    }

    /// Goes to the last key of `behind` that has a version to be seen.
    fn settle_down(&mut self, mut behind: Run<'a>) {
        self.ahead = None;
        let place = loop {
            let Some((interval, _)) = behind.next_back() else {
                break None;
            };
            let key = interval.start();
            if let Some(version) = newest(self.versions, key, self.at) {
                break Some((key, version));
            }
            behind = self.versions.iter_before(interval, &probe(Timestamp::MAX));
        };
        self.stop_at(place);
    }

    fn stop_at(&mut self, place: Option<(&'a CompactKey, &'a Version)>) {
        self.place = place;
        if let Some((key, _)) = place {
            self.key = key.to_key();
        }
    }
}

impl Cursor for MemCursor<'_> {
    type Value = Version;
    type Error = EngineError;

    fn seek(&mut self, key: &Key) -> Result<(), EngineError> {
        let from = Interval::point(key.into());
        self.settle_up(self.versions.iter_from(&from, &probe(self.at)), None);
        Ok(())
    }

    fn seek_back(&mut self, end: End<'_>) -> Result<(), EngineError> {
        let behind = match end {
            End::Before(key) => self
                .versions
                .iter_before(&Interval::point(key.into()), &probe(Timestamp::MAX)),
            End::At(key) => self
                .versions
                .iter_through(&Interval::point(key.into()), &probe(Timestamp::MIN)),
            End::Unbounded => self.versions.starting_in(..),
        };
        self.settle_down(behind);
        Ok(())
    }

    fn next(&mut self) -> Result<(), EngineError> {
        if let Some((key, _)) = self.place {
            let ahead = self.ahead.take().unwrap_or_else(|| {
                self.versions
                    .iter_after(&point(key), &probe(Timestamp::MIN))
            });
            self.settle_up(ahead, Some(key));
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<(), EngineError> {
        if let Some((key, _)) = self.place {
            let behind = self
                .versions
                .iter_before(&point(key), &probe(Timestamp::MAX));
            self.settle_down(behind);
        }
        Ok(())
    }

    fn item(&self) -> Option<(&Key, &Version)> {
        self.place.map(|(_, version)| (&self.key, version))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;
    use spanset::Span;

    use super::*;
    use crate::Value;

    fn key(i: u8) -> Key {
        Key::copy_from_slice(&[i])
    }

    fn apply(engine: &MemEngine, k: u8, wall: u64, value: Option<Value>) {
        let writes = vec![(key(k), value)];
        let timestamp = Timestamp::new(wall, 0);
        engine
            .apply(vec![WriteBatch { timestamp, writes }])
            .unwrap();
    }

    #[test]
    fn a_snapshot_does_not_see_what_is_applied_later() {
        let engine = MemEngine::new();
        apply(&engine, 1, 5, Some("old".into()));
        let snapshot = engine.snapshot().unwrap();
        apply(&engine, 1, 5, Some("new".into()));
        apply(&engine, 1, 7, None);
        let seen = snapshot.get(&key(1), None).unwrap().unwrap();
        assert_eq!(seen.value, Some("old".into()));
        let now = engine
            .snapshot()
            .unwrap()
            .get(&key(1), None)
            .unwrap()
            .unwrap();
        assert_eq!((now.timestamp.wall, now.value), (7, None));
    }

    #[test]
    fn an_engine_for_one_store_keeps_no_ceiling() {
        let engine = MemEngine::new();
        engine.raise_ceiling(Timestamp::new(5, 0)).unwrap();
        assert_eq!(engine.marks().ceiling, Timestamp::MAX);
    }

    /// Bytes that note, where they are freed, whether the engine is locked.
    struct Watched {
        engine: Arc<MemEngine>,
        freed: Arc<Mutex<Vec<&'static str>>>,
        bytes: &'static [u8],
    }

    impl AsRef<[u8]> for Watched {
        fn as_ref(&self) -> &[u8] {
            self.bytes
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            let is_locked = self.engine.content.try_lock().is_none();
            let locked = if is_locked { "locked" } else { "unlocked" };
            self.freed.lock().push(locked);
        }
    }

    #[test]
    fn keys_and_values_that_are_replaced_or_removed_are_freed_after_unlocking() {
        let engine = Arc::new(MemEngine::new());
        let freed = Arc::<Mutex<Vec<_>>>::default();
        let watched = |bytes| {
            Value::from_owner(Watched {
                engine: engine.clone(),
                freed: freed.clone(),
                bytes,
            })
        };
        for value in [Some(watched(b"old")), Some(watched(b"newer")), None] {
            let writes = vec![(watched(b"key"), value)];
            let timestamp = Timestamp::new(5, 0);
            engine
                .apply(vec![WriteBatch { timestamp, writes }])
                .unwrap();
        }
        assert_eq!(*freed.lock(), ["unlocked"; 5], "three keys, two values");

        freed.lock().clear();
        for value in [Some(watched(b"old")), Some(watched(b"newer")), None] {
            engine
                .write(vec![], vec![(watched(b"record"), value)])
                .unwrap();
        }
        assert_eq!(*freed.lock(), ["unlocked"; 5], "three keys, two values");

        freed.lock().clear();
        for value in [Some(watched(b"old")), Some(watched(b"newer")), None] {
            let timestamp = Timestamp::new(5, 0);
            let versions = vec![(watched(b"key"), Version { timestamp, value })];
            engine.replace(&Span::all(), versions).unwrap();
        }
        assert_eq!(*freed.lock(), ["unlocked"; 5], "three keys, two values");
    }

    proptest! {
        #[test]
        fn a_collection_that_has_come_anywhere_shows_nothing_else(
            writes in prop::collection::vec((0u8..3, 0u64..8, prop::bool::ANY), 0..20),
            threshold in 0u64..8,
        ) {
            let engine = MemEngine::new();
            for (k, wall, deletes) in writes {
                apply(&engine, k, wall, (!deletes).then(|| wall.to_string().into()));
            }
            let before = engine.content.lock().versions.clone();
            let mut versions = before.clone();
            for (gone, timestamp) in unseen_from(&before, Timestamp::new(threshold, 0)) {
                prop_assert!(versions.remove(&point(&gone), &probe(timestamp)).is_some());
                for (key, at) in (0..3).flat_map(|k| (threshold..9).map(move |at| (key(k), at))) {
                    let value = |versions| {
                        let found = newest(versions, &(&key).into(), Timestamp::new(at, 0));
                        found.and_then(|version: &Version| version.value.clone())
                    };
                    prop_assert_eq!(value(&versions), value(&before));
                }
            }
        }
    }

    #[derive(Debug, Clone)]
    enum Move {
        Seek(u8),
        Before(u8),
        At(u8),
        Last,
        Next,
        Prev,
    }

    fn any_move() -> impl Strategy<Value = Move> {
        prop_oneof![
            (0u8..7).prop_map(Move::Seek),
            (0u8..7).prop_map(Move::Before),
            (0u8..7).prop_map(Move::At),
            Just(Move::Last),
            Just(Move::Next),
            Just(Move::Next),
            Just(Move::Prev),
            Just(Move::Prev),
        ]
    }

    proptest! {
        #[test]
        fn collecting_changes_nothing_from_the_threshold_on(
            writes in prop::collection::vec((0u8..4, 0u64..12, prop::bool::ANY), 0..40),
            threshold in 0u64..12,
        ) {
            let engine = MemEngine::new();
            let mut content = BTreeMap::new();
            for (k, wall, deletes) in writes {
                apply(&engine, k, wall, (!deletes).then(|| wall.to_string().into()));
                content.insert((k, wall), deletes);
            }
            let before = engine.snapshot().unwrap();
            let threshold = Timestamp::new(threshold, 0);
            let collected = engine.collect(threshold).unwrap();
            prop_assert_eq!(engine.marks().threshold, threshold);

            let after = engine.snapshot().unwrap();
            let value = |snapshot: &Snapshot, k, at| {
                let version = snapshot.get(&key(k), Some(Timestamp::new(at, 0))).unwrap();
                version.and_then(|version| version.value)
            };
            let mut left = 0;
            for k in 0..4 {
                for at in threshold.wall..13 {
                    prop_assert_eq!(value(&before, k, at), value(&after, k, at));
                }
                let newest = content
                    .range((k, 0)..=(k, threshold.wall))
                    .next_back()
                    .filter(|(_, deletes)| !**deletes);
                left += newest.iter().count();
                left += content.range((k, threshold.wall + 1)..(k + 1, 0)).count();
            }
            prop_assert_eq!(collected.versions, (content.len() - left) as u64);
            prop_assert_eq!(engine.content.lock().versions.len(), left);
        }
    }

    proptest! {
        #[test]
        fn a_cursor_walks_over_the_newest_visible_versions(
            // Many versions of few keys, so that some are passed by seeking.
            writes in prop::collection::vec((0u8..6, 0u64..40), 0..120),
            at in 0u64..40,
            moves in prop::collection::vec(any_move(), 1..30),
        ) {
            let engine = MemEngine::new();
            let mut visible = BTreeMap::<u8, u64>::new();
            for (k, wall) in writes {
                apply(&engine, k, wall, None);
                if wall <= at {
                    let newest = visible.entry(k).or_default();
                    *newest = wall.max(*newest);
                }
            }
            let snapshot = engine.snapshot().unwrap();
            let at = Some(Timestamp::new(at, 0));
            for k in 0..7 {
                let found = snapshot.get(&key(k), at).unwrap();
                prop_assert_eq!(found.map(|v| v.timestamp.wall), visible.get(&k).copied());
            }
            let mut cursor = snapshot.cursor(at);
            let mut expected: Option<u8> = None;
            for step in moves {
                let from = |k: u8| visible.range(k..).next().map(|(k, _)| *k);
                let below = |k: u8| visible.range(..k).next_back().map(|(k, _)| *k);
                match step {
                    Move::Seek(k) => {
                        cursor.seek(&key(k)).unwrap();
                        expected = from(k);
                    }
                    Move::Before(k) => {
                        cursor.seek_back(End::Before(&key(k))).unwrap();
                        expected = below(k);
                    }
                    Move::At(k) => {
                        cursor.seek_back(Span::point(key(k)).end()).unwrap();
                        expected = below(k + 1);
                    }
                    Move::Last => {
                        cursor.seek_back(End::Unbounded).unwrap();
                        expected = below(u8::MAX);
                    }
                    Move::Next => {
                        cursor.next().unwrap();
                        expected = expected.and_then(|k| from(k + 1));
                    }
                    Move::Prev => {
                        cursor.prev().unwrap();
                        expected = expected.and_then(below);
                    }
                }
                let item = cursor.item().map(|(k, v)| (k[0], v.timestamp.wall));
                prop_assert_eq!(item, expected.map(|k| (k, visible[&k])));
            }
        }
    }
}
