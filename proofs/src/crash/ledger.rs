//! All that was told, and whether a folder agrees with it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use spanlatch_replica::{Engine, FjallEngine, Store};
use spanset::{Key, Span, Timestamp};

use super::recording::recorded;

/// A key as a word of a line.
pub(super) fn name(key: &[u8]) -> String {
    let mut name = "k".to_owned();
    for byte in key {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

fn key(name: &str) -> Option<Key> {
    let digits = name.strip_prefix('k')?;
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The batch that has written a value.
pub(super) fn id(value: &[u8]) -> Option<&str> {
    str::from_utf8(value).ok()?.split(' ').next()
}

/// What a batch does to a key.
struct Effect {
    key: Key,
    deletes: bool,
}

/// What was told of batches, of reads and of the rest, over all rounds.
#[derive(Default)]
pub(super) struct Ledger {
    tried: HashMap<String, Vec<Effect>>,
    /// Those that are applied, and when: acknowledged, or found afterwards.
    applied: HashMap<String, Timestamp>,
    /// Those of this round whose fate is not known, and the highest timestamp that was acknowledged before each.
    under_way: HashMap<String, Timestamp>,
    /// Those that were not applied, and must never be.
    dropped: HashSet<String>,
    reads: Vec<(Timestamp, Vec<(Key, String)>)>,
    compared: u64,
    /// Everything below may be collected.
    collected: Timestamp,
    /// The highest timestamp served, and the one in earlier rounds.
    highest: Timestamp,
    before: Timestamp,
    acknowledged: u64,
    failures: Vec<String>,
    is_idle: bool,
}

/// How batches ended.
pub(super) struct Settled {
    pub(super) acknowledged: u64,
    pub(super) applied: u64,
    pub(super) dropped: u64,
}

type Content = BTreeMap<(Key, Reverse<Timestamp>), Option<String>>;

impl Ledger {
    pub(super) fn begin(&mut self) {
        self.before = self.highest;
        self.acknowledged = 0;
        self.failures.clear();
        self.is_idle = false;
    }

    pub(super) fn reads(&self) -> u64 {
        self.compared
    }

    /// Takes note of a line.
    pub(super) fn note(&mut self, line: &str) -> Result<(), String> {
        self.read_line(line)
            .unwrap_or_else(|| Err("it makes no sense".to_owned()))
            .map_err(|error| format!("{error}: {line}"))
    }

    fn read_line(&mut self, line: &str) -> Option<Result<(), String>> {
        let mut words = line.split(' ');
        match words.next()? {
            "try" => {
                let id = words.next()?.to_owned();
                let effects = words.map(|word| {
                    let (name, sign) = word.split_at_checked(word.len() - 1)?;
                    Some(Effect {
                        key: key(name)?,
                        deletes: sign == "-",
                    })
                });
                self.tried
                    .insert(id.clone(), effects.collect::<Option<_>>()?);
                self.under_way.insert(id, self.highest_acknowledged());
                Some(Ok(()))
            }
            "ack" => {
                let id = words.next()?;
                let at = timestamp(&mut words)?;
                let before = self.under_way.remove(id)?;
                self.applied.insert(id.to_owned(), at);
                self.acknowledged += 1;
                Some(if at <= before {
                    Err(format!("{before} was acknowledged before it began"))
                } else {
                    self.served(at)
                })
            }
            "read" => {
                let at = timestamp(&mut words)?;
                let rows = words.map(|word| {
                    let (name, id) = word.split_once('=')?;
                    Some((key(name)?, id.to_owned()))
                });
                self.reads.push((at, rows.collect::<Option<_>>()?));
                Some(self.served(at))
            }
            "collect" => {
                let wall = words.next()?.parse().ok()?;
                self.collected = self.collected.max(Timestamp::new(wall, 0));
                Some(Ok(()))
            }
            "fail" => {
                self.failures.push(line.to_owned());
                Some(Ok(()))
            }
            "idle" => {
                self.is_idle = true;
                Some(Ok(()))
            }
            "busy" => Some(Err("latches were left behind".to_owned())),
            "zombie" => {
                let first = self.failures.first().cloned().unwrap_or_default();
                Some(Err(format!("it was served after a failure, {first}")))
            }
            _ => None,
        }
    }

    /// Of the batches alone: reads do not take place in the order of the lines.
    fn highest_acknowledged(&self) -> Timestamp {
        self.highest.max(self.before)
    }

    fn served(&mut self, at: Timestamp) -> Result<(), String> {
        if at <= self.before {
            return Err(format!(
                "{} was served before the store was started again",
                self.before
            ));
        }
        self.highest = self.highest.max(at);
        Ok(())
    }

    /// That nothing fails for no reason.
    pub(super) fn has_not_failed(&self) -> Result<(), String> {
        match self.failures.first() {
            None => Ok(()),
            Some(failure) => Err(failure.clone()),
        }
    }

    /// That a disk has failed is seen, and lets the child end.
    pub(super) fn has_failed(&self) -> Result<(), String> {
        match (self.failures.is_empty(), self.is_idle) {
            (false, true) => Ok(()),
            // It had failed before the store was there.
            (false, false) if self.failures[0].starts_with("fail open") => Ok(()),
            _ => Err("the child did not end after a failure".to_owned()),
        }
    }

    /// Compares the folder with all that was told, and finds what became of the batches that were under way.
    pub(super) fn settle(&mut self, folder: &Path) -> Result<Settled, String> {
        let engine = FjallEngine::open(folder).map_err(|error| error.to_string())?;
        let marks = engine.marks();
        if marks.ceiling < self.highest {
            return Err(format!(
                "{} was served, and the ceiling is {}",
                self.highest, marks.ceiling
            ));
        }
        if marks.threshold > self.collected {
            return Err(format!("nobody has collected up to {}", marks.threshold));
        }
        let recorded = recorded(&engine)?;
        let content = content(engine)?;
        let mut settled = Settled {
            acknowledged: self.acknowledged,
            applied: 0,
            dropped: 0,
        };
        for (id, at) in &recorded {
            if self.dropped.contains(id) || !self.tried.contains_key(id) {
                return Err(format!("batch {id} is at {at}, and was not applied"));
            }
            match self.applied.get(id) {
                Some(applied) if applied == at => {}
                Some(applied) => return Err(format!("batch {id} is at {applied} and at {at}")),
                None => {
                    settled.applied += 1;
                    self.applied.insert(id.clone(), *at);
                }
            }
        }
        if let Some(id) = self.applied.keys().find(|id| !recorded.contains_key(*id)) {
            return Err(format!("batch {id} was applied, and is not recorded"));
        }
        for (id, _) in self.under_way.drain() {
            if !self.applied.contains_key(&id) {
                settled.dropped += 1;
                self.dropped.insert(id);
            }
        }
        let expected = self.expected();
        for (place, id) in &expected {
            match content.get(place) {
                Some(found) if found == id => {}
                None if self.may_be_collected(place, id, &expected) => {}
                found => {
                    let (key, Reverse(at)) = place;
                    return Err(format!(
                        "of {key:?} at {at}, {found:?} is there and not {id:?}"
                    ));
                }
            }
        }
        if let Some(((key, Reverse(at)), id)) = content
            .iter()
            .find(|(place, _)| !expected.contains_key(place))
        {
            return Err(format!(
                "{key:?} at {at} is {id:?}, which nobody has written"
            ));
        }
        self.compare_reads(&content)?;
        Ok(settled)
    }

    /// All versions of the batches that are applied.
    fn expected(&self) -> Content {
        let mut expected = Content::new();
        for (id, at) in &self.applied {
            for Effect { key, deletes } in &self.tried[id] {
                let written = (!deletes).then(|| id.clone());
                expected.insert((key.clone(), Reverse(*at)), written);
            }
        }
        expected
    }

    /// Whether no read from the threshold on sees it.
    fn may_be_collected(
        &self,
        place: &(Key, Reverse<Timestamp>),
        id: &Option<String>,
        expected: &Content,
    ) -> bool {
        let (key, Reverse(at)) = place;
        let newest = (key.clone(), Reverse(self.collected));
        let is_newest = expected
            .range(newest..)
            .next()
            .is_some_and(|(first, _)| first == place);
        *at <= self.collected && (id.is_none() || !is_newest)
    }

    /// What was read as of a timestamp is what is there as of that timestamp.
    fn compare_reads(&mut self, content: &Content) -> Result<(), String> {
        self.reads.retain(|(at, _)| *at >= self.collected);
        for (at, rows) in &self.reads {
            let mut now = Vec::new();
            let mut last = None;
            for ((key, Reverse(written)), id) in content {
                if written > at || last == Some(key) {
                    continue;
                }
                last = Some(key);
                if let Some(id) = id {
                    now.push((key.clone(), id.clone()));
                }
            }
            if now != *rows {
                return Err(format!("at {at} there was {rows:?}, and now is {now:?}"));
            }
            self.compared += 1;
        }
        Ok(())
    }
}

/// The next two words.
pub(super) fn timestamp<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Timestamp> {
    let wall = words.next()?.parse().ok()?;
    Some(Timestamp::new(wall, words.next()?.parse().ok()?))
}

/// All versions, and who has written them.
fn content(engine: FjallEngine) -> Result<Content, String> {
    let (store, _applier) = Store::builder().engine(Arc::new(engine)).build();
    let versions = store
        .versions(Span::all())
        .map_err(|error| error.to_string())?;
    let mut content = Content::new();
    let mut last: Option<(Key, Reverse<Timestamp>)> = None;
    for version in versions {
        let (key, version) = version.map_err(|error| error.to_string())?;
        let place = (key, Reverse(version.timestamp));
        if last.is_some_and(|last| last >= place) {
            return Err(format!("{place:?} is out of order"));
        }
        let id = match &version.value {
            None => None,
            Some(value) => Some(id(value).ok_or("it holds what nobody writes")?.to_owned()),
        };
        content.insert(place.clone(), id);
        last = Some(place);
    }
    Ok(content)
}
