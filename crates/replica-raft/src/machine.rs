//! The state machine: applies the log to the engine.

use std::mem;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{
    BasicNode, Entry, EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, StorageError,
    StorageIOError,
};

use crate::command::Effect;
use crate::snapshot::{SnapshotData, install};
use crate::storage::{APPLIED, AppliedState, Failure, Storage, told};
use crate::types::{Applied, LogId, NodeId, SnapshotMeta, StoredMembership, TypeConfig};

/// Applies entries to the engine of a node, and takes and installs its snapshots.
#[derive(Debug, Clone)]
pub(crate) struct Machine(pub(crate) Arc<Storage>);

impl Machine {
    /// Applies entries, all that write between two others as one group, with what is then applied.
    fn apply_all(
        storage: &Storage,
        entries: Vec<Entry<TypeConfig>>,
    ) -> Result<Vec<Applied>, Failure> {
        let turn = storage.turn()?;
        let engine = &storage.engine;
        let (mut applied, mut membership) = storage.applied();
        let mut results = Vec::with_capacity(entries.len());
        let mut batches = Vec::new();
        let mut is_worth_a_group = false;
        for entry in entries {
            let before = applied;
            applied = Some(entry.log_id);
            let mut result = Applied::Done;
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Membership(changed) => {
                    membership = StoredMembership::new(applied, changed);
                    is_worth_a_group = true;
                }
                EntryPayload::Normal(command) => {
                    let (leadership, effect) = command.decode()?;
                    is_worth_a_group = true;
                    match effect {
                        _ if leadership != entry.log_id.leader_id => result = Applied::Stale,
                        Effect::Begin => {}
                        Effect::Write(more) => batches.extend(more),
                        Effect::Ceiling(to) => engine.raise_ceiling(to)?,
                        Effect::Collect(threshold) => {
                            // What it hides must be there to be collected; and nothing of what comes later, even if this has to
                            // be done again.
                            let before = APPLIED.of(&(before, membership.clone()));
                            engine.write(mem::take(&mut batches), vec![before])?;
                            engine.collect(threshold)?;
                        }
                    }
                }
            }
            results.push(result);
        }
        let state = (applied, membership);
        // Entries without effect can be applied again, so that an idle group syncs nothing on their behalf.
        if is_worth_a_group {
            engine.write(batches, vec![APPLIED.of(&state)])?;
        }
        storage.applied.send_replace(state);
        storage.purge_what_is_applied(&turn)?;
        Ok(results)
    }

    /// A snapshot of what is applied now. O(1): the engine's versions are pinned, and read when it is sent.
    fn snapshot(storage: &Storage) -> Result<Snapshot<TypeConfig>, Failure> {
        let (last_log_id, last_membership) = storage.applied();
        let id = last_log_id.map_or_else(String::new, |id| id.to_string());
        Ok(Snapshot {
            meta: SnapshotMeta {
                last_log_id,
                last_membership,
                snapshot_id: id,
            },
            snapshot: Box::new(SnapshotData::pin(&*storage.engine)?),
        })
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId>, StoredMembership), StorageError<NodeId>> {
        Ok(self.0.applied())
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, StorageError<NodeId>>
    where
        I: IntoIterator<Item = Entry<TypeConfig>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let applied = self.0.run(|storage| Self::apply_all(storage, entries));
        applied
            .await
            .map_err(told(StorageIOError::write_state_machine))
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<SnapshotData>, StorageError<NodeId>> {
        Ok(Box::new(SnapshotData::receive(&self.0.folder)))
    }

    async fn install_snapshot(
        &mut self,
        meta: &openraft::SnapshotMeta<NodeId, BasicNode>,
        snapshot: Box<SnapshotData>,
    ) -> Result<(), StorageError<NodeId>> {
        let state: AppliedState = (meta.last_log_id, meta.last_membership.clone());
        let installed = self.0.run(|storage| {
            let turn = storage.turn()?;
            install(&*storage.engine, *snapshot)?;
            storage.write(vec![APPLIED.of(&state)])?;
            storage.applied.send_replace(state);
            storage.purge_what_is_applied(&turn)
        });
        installed
            .await
            .map_err(told(|error| StorageIOError::write_snapshot(None, error)))
    }

    /// Of now, and not of when the last one was built: the log after it is shorter.
    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<TypeConfig>>, StorageError<NodeId>> {
        if self.0.applied().0.is_none() {
            return Ok(None);
        }
        let pinned = Self::snapshot(&self.0).map(Some);
        pinned.map_err(told(|error| StorageIOError::read_snapshot(None, error)))
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Machine {
    /// What openraft wants to know is that the log up to here is not needed any more.
    async fn build_snapshot(&mut self) -> Result<Snapshot<TypeConfig>, StorageError<NodeId>> {
        let pinned = Self::snapshot(&self.0);
        pinned.map_err(told(|error| StorageIOError::read_snapshot(None, error)))
    }
}

#[cfg(test)]
mod tests {
    use openraft::CommittedLeaderId;
    use spanlatch_replica::{MemEngine, Versions, WriteBatch};
    use spanset::{Key, Span, Timestamp};

    use super::*;
    use crate::command::Command;

    #[test]
    fn a_command_of_another_leadership_than_its_entry_has_no_effect() {
        let engine = Arc::new(MemEngine::outliving_stores());
        let storage = Storage::open(engine, std::env::temp_dir()).unwrap();
        let own = CommittedLeaderId::new(2, 1);
        let entry = |index, evaluated_in, effect| Entry {
            log_id: LogId::new(own, index),
            payload: EntryPayload::Normal(Command::new(evaluated_in, effect)),
        };
        let write = |wall| {
            Effect::Write(vec![WriteBatch {
                timestamp: Timestamp::new(wall, 0),
                writes: vec![(Key::from("a"), Some("1".into()))],
            }])
        };
        // An earlier leadership of the same node, and one of another node.
        let entries = vec![
            entry(1, CommittedLeaderId::new(1, 1), write(1)),
            entry(2, own, write(2)),
            entry(3, CommittedLeaderId::new(2, 3), write(3)),
            entry(
                4,
                CommittedLeaderId::new(1, 1),
                Effect::Ceiling(Timestamp::MAX),
            ),
        ];
        let applied = Machine::apply_all(&storage, entries).unwrap();
        use Applied::{Done, Stale};
        assert_eq!(applied, [Stale, Done, Stale, Stale]);
        let versions = Versions::new(storage.engine.snapshot().unwrap(), Span::all());
        let times = versions.map(|version| version.unwrap().1.timestamp.wall);
        assert_eq!(Vec::from_iter(times), [2]);
        assert_eq!(storage.engine.marks().ceiling, Timestamp::MIN);
        assert_eq!(storage.applied().0.map(|log_id| log_id.index), Some(4));
    }
}
