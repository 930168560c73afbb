//! What the log and the state machine share: the engine, its records, and how far it has come.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use openraft::{AnyError, Entry, StorageError, StorageIOError};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use spanlatch_replica::{EngineError, Records};
use tokio::sync::watch;
use tokio::task;

use crate::types::{LogId, NodeId, StoredMembership, TypeConfig, Vote};

/// The name of a record, and what it is a record of.
pub(crate) struct Name<T>(Bytes, PhantomData<T>);

/// How much is applied; it may be a little more.
pub(crate) const APPLIED: Name<AppliedState> = Name::new(b"applied");
/// The last entry of the log, if it is not empty.
pub(crate) const LAST: Name<LogId> = Name::new(b"last");
/// The node whose data it is, and those of its group.
pub(crate) const NODE: Name<(NodeId, Vec<NodeId>)> = Name::new(b"node");
/// The last entry that was removed at the beginning of the log.
pub(crate) const PURGED: Name<LogId> = Name::new(b"purged");
/// For whom the node has voted.
pub(crate) const VOTE: Name<Vote> = Name::new(b"vote");

impl<T> Name<T> {
    const fn new(name: &'static [u8]) -> Self {
        Self(Bytes::from_static(name), PhantomData)
    }
}

impl<T: Serialize> Name<T> {
    /// The record of `value`.
    pub(crate) fn of(&self, value: &T) -> Record {
        let bytes = postcard::to_stdvec(value).expect("a vector takes all bytes");
        (self.0.clone(), Some(bytes.into()))
    }

    /// That there is none.
    pub(crate) fn of_nothing(&self) -> Record {
        (self.0.clone(), None)
    }
}

/// A record to be written, or with `None` to be removed.
pub(crate) type Record = (Bytes, Option<Bytes>);

/// The entry at `index`: after a prefix, by its index in eight bytes, big endian, so that they are in order.
pub(crate) fn entry(index: u64) -> Name<Entry<TypeConfig>> {
    let name = [b"log/", &index.to_be_bytes()[..]].concat();
    Name(name.into(), PhantomData)
}

/// Up to where the log has been applied, and the membership there.
pub(crate) type AppliedState = (Option<LogId>, StoredMembership);

/// The engine of a node, as its log and its state machine use it.
pub(crate) struct Storage {
    pub(crate) engine: Arc<dyn Records>,
    /// For temporary files.
    pub(crate) folder: PathBuf,
    /// Up to where it has been applied.
    pub(crate) applied: watch::Sender<AppliedState>,
    purge: Mutex<Purge>,
    /// Held by whoever applies, installs or purges: one at a time, so that what is recorded as applied never goes back.
    turn: Mutex<Turn>,
}

/// The right to change what is applied.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// Whether nobody has it any more, since the node has ended.
    is_closed: bool,
}

/// How much of the log is removed, and how much is to be.
#[derive(Debug, Default)]
struct Purge {
    done: Option<LogId>,
    wanted: Option<LogId>,
}

/// A record that cannot be read: another version wrote it, or it is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the record {name:?} cannot be read: {error}")]
pub(crate) struct Unreadable {
    name: Bytes,
    error: postcard::Error,
}

/// What storage can fail with, before openraft is told.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Storage {
    /// Takes up where an earlier one has stopped.
    pub(crate) fn open(engine: Arc<dyn Records>, folder: PathBuf) -> Result<Self, Failure> {
        let applied = read(&*engine, &APPLIED)?;
        let done = read(&*engine, &PURGED)?;
        Ok(Self {
            engine,
            folder,
            applied: watch::Sender::new(applied.unwrap_or_default()),
            purge: Mutex::new(Purge { done, wanted: done }),
            turn: Mutex::default(),
        })
    }

    /// Runs `work`, off this thread if the engine waits for a disk.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if !self.engine.blocks() {
            return work(self);
        }
        let storage = self.clone();
        task::spawn_blocking(move || work(&storage)).await?
    }

    /// Reads a record.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &Name<T>) -> Result<Option<T>, Failure> {
        read(&*self.engine, name)
    }

    /// Reads entries from `start` on, to before `end`: as many as are there, until they exceed `max_bytes`.
    pub(crate) fn entries(
        &self,
        start: u64,
        end: u64,
        max_bytes: usize,
    ) -> Result<Vec<Entry<TypeConfig>>, Failure> {
        let (start, end) = (entry(start), entry(end));
        let records = self.engine.records(&start.0, &end.0, max_bytes)?;
        let decoded = records
            .into_iter()
            .map(|(name, bytes)| decode(&name, &bytes));
        decoded.collect()
    }

    /// Writes records as one group.
    pub(crate) fn write(&self, records: Vec<Record>) -> Result<(), EngineError> {
        self.engine.write(Vec::new(), records)
    }

    /// What is applied now.
    pub(crate) fn applied(&self) -> AppliedState {
        self.applied.borrow().clone()
    }

    /// Waits until nobody else applies or installs.
    pub(crate) fn turn(&self) -> Result<MutexGuard<'_, Turn>, Failure> {
        let turn = self.turn.lock();
        match turn.is_closed {
            true => Err("the node has ended".into()),
            false => Ok(turn),
        }
    }

    /// Waits until nobody applies or installs, and lets nobody do so any more.
    pub(crate) fn close(&self) {
        self.turn.lock().is_closed = true;
    }

    /// Removes the log up to `upto`, or notes that this is to be done when that has been applied: openraft asks for it as
    /// soon as it has begun to install a snapshot.
    pub(crate) fn purge(&self, upto: LogId) -> Result<(), Failure> {
        {
            let mut purge = self.purge.lock();
            purge.wanted = purge.wanted.max(Some(upto));
        }
        // Whoever has the turn sees to it, now or the next time.
        match self.turn.try_lock() {
            Some(turn) => self.purge_what_is_applied(&turn),
            None => Ok(()),
        }
    }

    /// Removes what is to be removed, if it has been applied. What is applied is recorded with it: it must not seem to end
    /// before what is left of the log.
    pub(crate) fn purge_what_is_applied(&self, turn: &Turn) -> Result<(), Failure> {
        let mut purge = self.purge.lock();
        let applied = self.applied();
        let Some(wanted) = purge.wanted.filter(|_| purge.wanted > purge.done) else {
            return Ok(());
        };
        if applied.0 < Some(wanted) || turn.is_closed {
            return Ok(());
        }
        let first = purge.done.map_or(0, |done| done.index + 1);
        // A snapshot may be far ahead of the log.
        let last = self.read(&LAST)?.map_or(0, |last| last.index);
        let removed = (first..=wanted.index.min(last)).map(|index| entry(index).of_nothing());
        let records = [PURGED.of(&wanted), APPLIED.of(&applied)]
            .into_iter()
            .chain(removed);
        self.write(records.collect())?;
        purge.done = Some(wanted);
        Ok(())
    }
}

fn read<T: DeserializeOwned>(engine: &dyn Records, name: &Name<T>) -> Result<Option<T>, Failure> {
    let Some(bytes) = engine.record(&name.0)? else {
        return Ok(None);
    };
    decode(&name.0, &bytes).map(Some)
}

/// What the bytes of a record say.
fn decode<T: DeserializeOwned>(name: &Bytes, bytes: &[u8]) -> Result<T, Failure> {
    let decoded = postcard::take_from_bytes(bytes).and_then(|(value, rest)| match rest {
        [] => Ok(value),
        _ => Err(postcard::Error::DeserializeBadEncoding),
    });
    let unreadable = |error| Unreadable {
        name: name.clone(),
        error,
    };
    Ok(decoded.map_err(unreadable)?)
}

/// The indexes that a range of openraft's covers: from, and to before which.
pub(crate) fn indexes(range: &impl std::ops::RangeBounds<u64>) -> (u64, u64) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => u64::MAX,
    };
    (start, end)
}

/// As openraft wants to be told.
pub(crate) fn told(
    kind: impl FnOnce(AnyError) -> StorageIOError<NodeId>,
) -> impl FnOnce(Failure) -> StorageError<NodeId> {
    |failure| kind(AnyError::from_dyn(&*failure, None)).into()
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("engine", &self.engine)
            .field("applied", &*self.applied.borrow())
            .field("purge", &self.purge)
            .finish()
    }
}

#[cfg(test)]
mod tests;
