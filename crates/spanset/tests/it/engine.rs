//! A small multi-version engine, which notes how it is called.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;

use spanset::{Cursor, End, Key, Reader, Timestamp, Writer};

/// The versions of each key, oldest first; `None` is a deletion. What has no timestamp is at the
/// lowest, and is all that a read without timestamp sees.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    versions: BTreeMap<Key, BTreeMap<Timestamp, Option<u32>>>,
    pub(crate) calls: RefCell<Vec<String>>,
}

impl Engine {
    fn note(&self, call: String) {
        self.calls.borrow_mut().push(call);
    }

    fn version(&self, key: &Key, at: Option<Timestamp>) -> Option<u32> {
        let versions = self.versions.get(key)?;
        let (_, newest) = versions.range(..=at.unwrap_or_default()).next_back()?;
        *newest
    }
}

impl Reader for Engine {
    type Value = u32;
    type Error = Infallible;

    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<u32>, Infallible> {
        self.note(format!("get {key:?} {at:?}"));
        Ok(self.version(key, at))
    }

    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = u32, Error = Infallible> + '_> {
        self.note(format!("cursor {at:?}"));
        let entries = self.versions.keys();
        Box::new(Entries {
            engine: self,
            entries: entries
                .filter_map(|key| Some((key.clone(), self.version(key, at)?)))
                .collect(),
            on: None,
        })
    }
}

impl Writer for Engine {
    type Value = u32;
    type Error = Infallible;

    fn put(&mut self, key: Key, value: u32, at: Option<Timestamp>) -> Result<(), Infallible> {
        self.note(format!("put {key:?} {value} {at:?}"));
        let versions = self.versions.entry(key).or_default();
        versions.insert(at.unwrap_or_default(), Some(value));
        Ok(())
    }

    fn delete(&mut self, key: Key, at: Option<Timestamp>) -> Result<(), Infallible> {
        self.note(format!("delete {key:?} {at:?}"));
        let versions = self.versions.entry(key).or_default();
        versions.insert(at.unwrap_or_default(), None);
        Ok(())
    }
}

struct Entries<'e> {
    engine: &'e Engine,
    entries: Vec<(Key, u32)>,
    on: Option<usize>,
}

impl Cursor for Entries<'_> {
    type Value = u32;
    type Error = Infallible;

    fn seek(&mut self, key: &Key) -> Result<(), Infallible> {
        self.engine.note(format!("seek {key:?}"));
        self.on = Some(self.entries.partition_point(|(k, _)| k < key));
        Ok(())
    }

    fn seek_back(&mut self, end: End<'_>) -> Result<(), Infallible> {
        self.engine.note(format!("seek_back {end:?}"));
        let below = self.entries.partition_point(|(k, _)| End::Before(k) < end);
        self.on = below.checked_sub(1);
        Ok(())
    }

    fn next(&mut self) -> Result<(), Infallible> {
        self.engine.note("next".to_owned());
        self.on = self.on.map(|on| on + 1);
        Ok(())
    }

    fn prev(&mut self) -> Result<(), Infallible> {
        self.engine.note("prev".to_owned());
        self.on = self.on.and_then(|on| on.checked_sub(1));
        Ok(())
    }

    fn item(&self) -> Option<(&Key, &u32)> {
        let (key, value) = self.entries.get(self.on?)?;
        Some((key, value))
    }
}
