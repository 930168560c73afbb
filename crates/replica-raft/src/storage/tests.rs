//! The log and the state machine, as openraft's own suite wants them, and where we do more.

use std::sync::Arc;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite, blank_ent};
use openraft::{RaftLogReader, StorageError};
use spanlatch_replica::{FjallEngine, MemEngine, Records};
use tempfile::TempDir;

use super::Storage;
use crate::log::Log;
use crate::machine::Machine;
use crate::types::{LeaderId, LogId, NodeId, TypeConfig};

fn on(engine: Arc<dyn Records>) -> (Log, Machine) {
    let storage = Arc::new(Storage::open(engine, std::env::temp_dir()).unwrap());
    (Log(storage.clone()), Machine(storage))
}

struct InMemory;

impl StoreBuilder<TypeConfig, Log, Machine, ()> for InMemory {
    async fn build(&self) -> Result<((), Log, Machine), StorageError<NodeId>> {
        let (log, machine) = on(Arc::new(MemEngine::outliving_stores()));
        Ok(((), log, machine))
    }
}

struct OnDisk;

impl StoreBuilder<TypeConfig, Log, Machine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, Log, Machine), StorageError<NodeId>> {
        let folder = tempfile::tempdir().unwrap();
        let engine = FjallEngine::open(folder.path().join("data")).unwrap();
        let (log, machine) = on(Arc::new(engine));
        Ok((folder, log, machine))
    }
}

/// Runs the suite, but for what it asks of purging: it purges what was never applied, and we keep that until it is.
async fn suite<G: Send + Sync, B: StoreBuilder<TypeConfig, Log, Machine, G>>(builder: B) {
    macro_rules! run {
        ($($test:ident)*) => {$(
            let (_guard, log, machine) = builder.build().await.unwrap();
            Suite::<TypeConfig, Log, Machine, B, G>::$test(log, machine).await.unwrap();
        )*};
    }
    run! {
        last_membership_in_log_initial last_membership_in_log last_membership_in_log_multi_step
        get_membership_initial get_membership_from_log_and_empty_sm get_membership_from_empty_log_and_sm
        get_membership_from_log_le_sm_last_applied get_membership_from_log_gt_sm_last_applied_1
        get_membership_from_log_gt_sm_last_applied_2 get_initial_state_without_init
        get_initial_state_with_state get_initial_state_membership_from_log_and_sm
        get_initial_state_last_log_gt_sm get_initial_state_last_log_lt_sm
        get_initial_state_re_apply_committed save_vote get_log_entries limited_get_log_entries
        initial_logs last_applied_state
        delete_logs_since_11 delete_logs_since_0 snapshot_meta apply_single apply_multiple
    }
    Suite::<TypeConfig, Log, Machine, B, G>::transfer_snapshot(&builder)
        .await
        .unwrap();
}

#[tokio::test]
async fn in_memory_they_are_as_openraft_wants_them() {
    suite(InMemory).await;
}

#[tokio::test]
async fn on_disk_they_are_as_openraft_wants_them() {
    suite(OnDisk).await;
}

fn id(index: u64) -> LogId {
    LogId::new(LeaderId::new(1, 1), index)
}

#[tokio::test]
async fn the_log_is_kept_until_what_replaces_it_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Arc::new(FjallEngine::open(folder.path().join("data")).unwrap());
    let entries = |to: u64| (0..to).map(|index| blank_ent::<TypeConfig>(1, 1, index));
    {
        let (mut log, mut machine) = on(open());
        log.blocking_append(entries(10)).await.unwrap();
        machine.apply(entries(3)).await.unwrap();
        // As when a snapshot is being installed.
        log.purge(id(5)).await.unwrap();
        assert_eq!(log.try_get_log_entries(0..).await.unwrap().len(), 10);
    }
    {
        // After a crash at this point all is there to go on.
        let (mut log, mut machine) = on(open());
        assert_eq!(log.get_log_state().await.unwrap().last_purged_log_id, None);
        log.purge(id(1)).await.unwrap();
        machine.apply(entries(6)).await.unwrap();
        log.purge(id(5)).await.unwrap();
        let state = log.get_log_state().await.unwrap();
        assert_eq!(
            (state.last_purged_log_id, state.last_log_id),
            (Some(id(5)), Some(id(9)))
        );
        assert_eq!(log.try_get_log_entries(0..).await.unwrap().len(), 4);
    }
    // What was applied without an effect was not recorded then; with the log gone, it has to be.
    let (_, mut machine) = on(open());
    assert_eq!(machine.applied_state().await.unwrap().0, Some(id(5)));
}
