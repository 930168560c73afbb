//! Reading versions from a snapshot of fjall's.

use std::sync::Arc;

use bytes::Bytes;
use fjall::{Guard, Iter, Readable};
use spanset::{Cursor, End, Key, Reader, Timestamp};

use super::{Shared, encoding};
use crate::{EngineError, Version};

/// A snapshot. Keeps the engine open.
pub(super) struct FjallSnapshot {
    /// Goes first: fjall's bookkeeping of it is in what the other keeps.
    view: fjall::Snapshot,
    shared: Arc<Shared>,
}

/// One version.
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) version: Version,
}

impl FjallSnapshot {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            view: shared.database.snapshot(),
            shared,
        }
    }

    /// All versions from `from` to before `to`, both encoded.
    pub(super) fn range(&self, from: Vec<u8>, to: Vec<u8>) -> Entries<'_> {
        Entries {
            iter: self.iter(from, to),
            shared: &self.shared,
        }
    }

    /// All that is kept from `from` to before `to`.
    ///
    /// Of longer bounds than can be kept the first part says the same: nothing that is kept is between the two, or is
    /// the part itself, since the key of a version has no end in it, and no record is so long.
    fn iter(&self, mut from: Vec<u8>, mut to: Vec<u8>) -> Option<Iter> {
        from.truncate(encoding::LONGEST);
        to.truncate(encoding::LONGEST);
        (from < to).then(|| self.view.range(&self.shared.tree, from..to))
    }

    /// What the record of `key` holds.
    pub(super) fn record(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        let mut encoded = encoding::record(key);
        encoded.truncate(encoding::LONGEST);
        let found = self.view.get(&self.shared.tree, encoded);
        let found = found.map_err(|error| self.shared.unreadable(error))?;
        Ok(found.map(Bytes::from))
    }

    /// The records of the keys from `start` to before `end`.
    pub(super) fn records(
        &self,
        start: &[u8],
        end: &[u8],
    ) -> impl Iterator<Item = Result<(Bytes, Bytes), EngineError>> {
        let iter = self.iter(encoding::record(start), encoding::record(end));
        iter.into_iter().flatten().map(|guard| {
            let (key, value) = self.shared.read(guard)?;
            Ok((encoding::decode_record(&key), value))
        })
    }

    /// The newest version of `key` at or below `at`.
    fn newest(&self, key: &Key, at: Timestamp) -> Result<Option<Entry>, EngineError> {
        let mut versions = self.range(encoding::version(key, at), encoding::after(key));
        versions.next().transpose()
    }
}

/// An iterator over consecutive versions.
pub(super) struct Entries<'a> {
    iter: Option<Iter>,
    shared: &'a Shared,
}

impl Entries<'_> {
    fn read(&self, guard: Guard) -> Result<Entry, EngineError> {
        let (key, value) = self.shared.read(guard)?;
        let decoded = encoding::decode_version(&key).and_then(|(key, timestamp)| {
            let version = encoding::decode_value(timestamp, &value)?;
            Some(Entry { key, version })
        });
        decoded.ok_or_else(|| self.shared.undecodable())
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let guard = self.iter.as_mut()?.next()?;
        Some(self.read(guard))
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let guard = self.iter.as_mut()?.next_back()?;
        Some(self.read(guard))
    }
}

impl Reader for FjallSnapshot {
    type Value = Version;
    type Error = EngineError;

    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<Version>, EngineError> {
        let newest = self.newest(key, at.unwrap_or(Timestamp::MAX))?;
        Ok(newest.map(|entry| entry.version))
    }

    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = Version, Error = EngineError> + '_> {
        Box::new(FjallCursor {
            snapshot: self,
            at: at.unwrap_or(Timestamp::MAX),
            ahead: None,
            place: None,
        })
    }
}

struct FjallCursor<'a> {
    snapshot: &'a FjallSnapshot,
    at: Timestamp,
    /// The versions after the item, once the cursor has moved up.
    ahead: Option<Entries<'a>>,
    /// The entry that the cursor is on.
    place: Option<Entry>,
}

impl<'a> FjallCursor<'a> {
    /// How many versions to pass over one by one before seeking beyond them.
    const STEPS: usize = 8;

    fn from(&self, from: Vec<u8>) -> Entries<'a> {
        self.snapshot.range(from, encoding::END.to_vec())
    }

    /// Goes to the first version of `ahead` that is to be seen: the newest one at or below `at` of a
    /// key that is not `passed`.
    fn settle_up(
        &mut self,
        mut ahead: Entries<'a>,
        passed: Option<&Key>,
    ) -> Result<(), EngineError> {
        let mut steps = 0;
        while let Some(entry) = ahead.next() {
            let entry = entry?;
            let is_passed = passed == Some(&entry.key);
            if !is_passed && entry.version.timestamp <= self.at {
                self.place = Some(entry);
                self.ahead = Some(ahead);
                break;
            }
            steps += 1;
            if steps % Self::STEPS == 0 {
                ahead = self.from(if is_passed {
                    encoding::after(&entry.key)
                } else {
                    encoding::version(&entry.key, self.at)
                });
            }
        }
        Ok(())
    }

    /// Goes to the last key before `end` that has a version to be seen.
    fn settle_down(&mut self, mut end: Vec<u8>) -> Result<(), EngineError> {
        while let Some(last) = self
            .snapshot
            .range(encoding::FIRST.to_vec(), end)
            .next_back()
        {
            let key = last?.key;
            self.place = self.snapshot.newest(&key, self.at)?;
            if self.place.is_some() {
                break;
            }
            end = encoding::before(&key);
        }
        Ok(())
    }

    /// Leaves the entry, and the way that has led there.
    fn leave(&mut self) -> (Option<Entry>, Option<Entries<'a>>) {
        (self.place.take(), self.ahead.take())
    }
}

impl Cursor for FjallCursor<'_> {
    type Value = Version;
    type Error = EngineError;

    fn seek(&mut self, key: &Key) -> Result<(), EngineError> {
        self.leave();
        let ahead = self.from(encoding::version(key, self.at));
        self.settle_up(ahead, None)
    }

    fn seek_back(&mut self, end: End<'_>) -> Result<(), EngineError> {
        self.leave();
        self.settle_down(encoding::end(end))
    }

    fn next(&mut self) -> Result<(), EngineError> {
        let (Some(left), ahead) = self.leave() else {
            return Ok(());
        };
        let ahead = ahead.unwrap_or_else(|| self.from(encoding::after(&left.key)));
        self.settle_up(ahead, Some(&left.key))
    }

    fn prev(&mut self) -> Result<(), EngineError> {
        match self.leave() {
            (Some(left), _) => self.settle_down(encoding::before(&left.key)),
            (None, _) => Ok(()),
        }
    }

    fn item(&self) -> Option<(&Key, &Version)> {
        let entry = self.place.as_ref()?;
        Some((&entry.key, &entry.version))
    }
}
