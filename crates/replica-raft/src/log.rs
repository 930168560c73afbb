//! The log, as records of the engine.

use std::fmt::Debug;
use std::ops::RangeBounds;
use std::sync::Arc;

use futures_util::TryFutureExt;
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    Entry, EntryPayload, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError,
};

use crate::storage::{Failure, LAST, PURGED, Storage, VOTE, entry, indexes, told};
use crate::types::{LogId, NodeId, TypeConfig, Vote};

/// How many bytes of entries are read at once, unless a single one has more.
const READ_AT_ONCE: usize = 1 << 20;

/// The log of a node. Each call of openraft's is one group of the engine: durable when it returns, all or nothing.
#[derive(Debug, Clone)]
pub(crate) struct Log(pub(crate) Arc<Storage>);

impl Log {
    /// Reads all entries from `start` on, to before `end`, that are there.
    fn all(storage: &Storage, start: u64, end: u64) -> Result<Vec<Entry<TypeConfig>>, Failure> {
        let mut entries: Vec<Entry<TypeConfig>> = Vec::new();
        loop {
            let next = entries.last().map_or(start, |last| last.log_id.index + 1);
            let more = match next < end {
                true => storage.entries(next, end, READ_AT_ONCE)?,
                false => Vec::new(),
            };
            if more.is_empty() {
                return Ok(entries);
            }
            entries.extend(more);
        }
    }

    /// Removes the entries from `from` on.
    fn cut(storage: &Storage, from: LogId) -> Result<(), Failure> {
        let Some(last) = storage.read(&LAST)? else {
            return Ok(());
        };
        let before = match from.index.checked_sub(1) {
            Some(before) => storage.read(&entry(before))?,
            None => None,
        };
        let new_last = match before {
            Some(before) => LAST.of(&before.log_id),
            None => LAST.of_nothing(),
        };
        let removed = (from.index..=last.index).map(|index| entry(index).of_nothing());
        Ok(storage.write(removed.chain([new_last]).collect())?)
    }
}

impl RaftLogReader<TypeConfig> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<TypeConfig>>, StorageError<NodeId>> {
        let (start, end) = indexes(&range);
        let read = self.0.run(move |storage| Self::all(storage, start, end));
        read.await.map_err(told(StorageIOError::read_logs))
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry<TypeConfig>>, StorageError<NodeId>> {
        let read = self
            .0
            .run(move |storage| storage.entries(start, end, READ_AT_ONCE))
            .map_ok(move |entries| match entries.first() {
                Some(first) if first.log_id.index == start => entries,
                // It has been removed: there must be no gap. openraft takes it for a heartbeat, and looks again.
                _ => Vec::new(),
            });
        read.await.map_err(told(StorageIOError::read_logs))
    }
}

impl RaftLogStorage<TypeConfig> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError<NodeId>> {
        let read = self.0.run(|storage| {
            let purged = storage.read(&PURGED)?;
            let last = storage.read(&LAST)?;
            Ok(LogState {
                last_purged_log_id: purged,
                last_log_id: last.max(purged),
            })
        });
        read.await.map_err(told(StorageIOError::read_logs))
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError<NodeId>> {
        let vote = VOTE.of(vote);
        let saved = self.0.run(|storage| Ok(storage.write(vec![vote])?));
        saved.await.map_err(told(StorageIOError::write_vote))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError<NodeId>> {
        let read = self.0.run(|storage| storage.read(&VOTE));
        read.await.map_err(told(StorageIOError::read_vote))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<TypeConfig>,
    ) -> Result<(), StorageError<NodeId>>
    where
        I: IntoIterator<Item = Entry<TypeConfig>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        let mut last = None;
        for appended in entries {
            if let EntryPayload::Normal(command) = &appended.payload
                && let Some(passage) = &command.passage
            {
                passage.append();
            }
            last = Some(appended.log_id);
            records.push(entry(appended.log_id.index).of(&appended));
        }
        if let Some(last) = last {
            records.push(LAST.of(&last));
        }
        let appended = self.0.run(|storage| Ok(storage.write(records)?));
        appended.await.map_err(told(StorageIOError::write_logs))?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), StorageError<NodeId>> {
        let cut = self.0.run(move |storage| Self::cut(storage, from));
        cut.await.map_err(told(StorageIOError::write_logs))
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError<NodeId>> {
        let purged = self.0.run(move |storage| storage.purge(upto));
        purged.await.map_err(told(StorageIOError::write_logs))
    }
}
