//! What the log and the state machine share: the engine, its records, and how far it has come.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use openraft::{AnyError, StorageError, StorageIOError};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use spanlatch_replica::{EngineError, Records};
use tokio::sync::watch;
use tokio::task;

use crate::types::{LogId, NodeId, StoredMembership};

/// The names of our records. Log entries come after `LOG`, by their index in eight bytes, big endian.
pub(crate) const APPLIED: &[u8] = b"applied";
pub(crate) const LAST: &[u8] = b"last";
pub(crate) const NODE: &[u8] = b"node";
pub(crate) const PURGED: &[u8] = b"purged";
pub(crate) const VOTE: &[u8] = b"vote";
const LOG: &[u8] = b"log/";

/// A record to be written, or with `None` to be removed.
pub(crate) type Record = (Bytes, Option<Bytes>);

/// The name of the entry at `index`.
pub(crate) fn entry(index: u64) -> Bytes {
    [LOG, &index.to_be_bytes()].concat().into()
}

/// A record of `value`.
pub(crate) fn record(name: impl Into<Bytes>, value: &impl Serialize) -> Record {
    let bytes = postcard::to_stdvec(value).expect("a vector takes all bytes");
    (name.into(), Some(bytes.into()))
}

/// Up to where the log has been applied, and the membership there.
pub(crate) type AppliedState = (Option<LogId>, StoredMembership);

/// The engine of a node, as its log and its state machine use it.
pub(crate) struct Storage {
    pub(crate) engine: Arc<dyn Records>,
    /// Up to where it has been applied.
    pub(crate) applied: watch::Sender<AppliedState>,
    purge: Mutex<Purge>,
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
    pub(crate) fn open(engine: Arc<dyn Records>) -> Result<Self, Failure> {
        let applied: Option<AppliedState> = read(&*engine, APPLIED)?;
        let done = read(&*engine, PURGED)?;
        Ok(Self {
            engine,
            applied: watch::Sender::new(applied.unwrap_or_default()),
            purge: Mutex::new(Purge { done, wanted: done }),
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
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &[u8]) -> Result<Option<T>, Failure> {
        read(&*self.engine, name)
    }

    /// Writes records as one group.
    pub(crate) fn write(&self, records: Vec<Record>) -> Result<(), EngineError> {
        self.engine.write(Vec::new(), records)
    }

    /// What is applied now.
    pub(crate) fn applied(&self) -> AppliedState {
        self.applied.borrow().clone()
    }

    /// Removes the log up to `upto`, or notes that this is to be done when that has been applied: openraft asks for it as
    /// soon as it has begun to install a snapshot.
    pub(crate) fn purge(&self, upto: LogId) -> Result<(), Failure> {
        {
            let mut purge = self.purge.lock();
            purge.wanted = purge.wanted.max(Some(upto));
        }
        self.purge_what_is_applied()
    }

    /// Removes what is to be removed, if it has been applied. What is applied is recorded with it: it must not seem to end
    /// before what is left of the log.
    pub(crate) fn purge_what_is_applied(&self) -> Result<(), Failure> {
        let mut purge = self.purge.lock();
        let applied = self.applied();
        if purge.wanted <= purge.done || applied.0 < purge.wanted {
            return Ok(());
        }
        let first = purge.done.map_or(0, |done| done.index + 1);
        let wanted = purge.wanted.map_or(0, |wanted| wanted.index + 1);
        // A snapshot may be far ahead of the log.
        let last: Option<LogId> = self.read(LAST)?;
        let end = wanted.min(last.map_or(0, |last| last.index + 1));
        let mut records = vec![record(PURGED, &purge.wanted), record(APPLIED, &applied)];
        records.extend((first..end).map(|index| (entry(index), None)));
        self.write(records)?;
        purge.done = purge.wanted;
        Ok(())
    }
}

fn read<T: DeserializeOwned>(engine: &dyn Records, name: &[u8]) -> Result<Option<T>, Failure> {
    let Some(bytes) = engine.record(name)? else {
        return Ok(None);
    };
    decode(name, &bytes).map(Some)
}

/// What the bytes of a record say.
pub(crate) fn decode<T: DeserializeOwned>(name: &[u8], bytes: &[u8]) -> Result<T, Failure> {
    let unreadable = |error| Unreadable {
        name: Bytes::copy_from_slice(name),
        error,
    };
    Ok(postcard::from_bytes(bytes).map_err(unreadable)?)
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
