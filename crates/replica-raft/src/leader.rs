//! This node as the leader: the store that serves, from the beginning to the end of a leadership.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlatch_replica::{Error, Latches, Store};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use crate::command::{Command, Effect};
use crate::config::Config;
use crate::confirm::Confirmations;
use crate::flight::Flight;
use crate::proposer::RaftProposer;
use crate::storage::Storage;
use crate::types::{LeaderId, Raft};

/// How often the store is told the time.
const TICK: Duration = Duration::from_secs(1);

/// What there is of a leadership of this node.
pub(crate) struct Leader<L> {
    pub(crate) id: LeaderId,
    pub(crate) store: Store<L>,
    pub(crate) proposer: Arc<RaftProposer>,
    confirmations: Arc<Confirmations>,
    ticking: JoinHandle<()>,
    raising: JoinHandle<()>,
}

impl<L: Latches> Leader<L> {
    /// Waits until all that earlier leaders have had committed is applied here, so that none of it comes later and no ceiling is
    /// raised by them any more; and then builds a store on what there is.
    ///
    /// # Errors
    ///
    /// [`Error::NotLeader`] if the leadership has ended meanwhile.
    pub(crate) async fn begin(
        id: LeaderId,
        raft: &Raft,
        storage: &Arc<Storage>,
        config: &Config<L>,
    ) -> Result<Self, Error> {
        propose(raft, Command::new(id, Effect::Begin)).await?;

        let patience = config.election_timeout;
        let confirmations = Arc::new(Confirmations::new(id, patience));
        let proposer = Arc::new(RaftProposer::new(id, confirmations.clone()));
        let latches = config.latches.clone();
        let store = (config.store)()
            .engine(storage.engine.clone())
            .leadership(proposer.clone())
            .build_proposing(proposer.clone(), move |range| latches(range));

        tokio::spawn({
            let (proposer, raft) = (proposer.clone(), raft.clone());
            async move { proposer.run(&raft).await }
        });
        tokio::spawn({
            let (confirmations, raft) = (confirmations.clone(), raft.clone());
            let applied = storage.applied.subscribe();
            async move { confirmations.run(&raft, &applied).await }
        });
        let ticking = tokio::spawn(tick(store.clone()));
        let raising = tokio::spawn(raise(store.clone()));
        Ok(Self {
            id,
            store,
            proposer,
            confirmations,
            ticking,
            raising,
        })
    }

    /// The leadership is over: refuses what waits, and then says of what was proposed that its fate is not known.
    ///
    /// In this order: releasing the latches of something that may still be applied must let nobody in.
    pub(crate) fn end(&self) {
        self.refuse();
        self.proposer.abandon();
    }

    /// Serves nobody any more, but what was proposed may end as it would have: waits for that, `patience` at most.
    pub(crate) async fn retire(&self, patience: Duration) {
        self.refuse();
        // If they have not ended by then, so be it.
        let _ = tokio::time::timeout(patience, self.proposer.ended()).await;
    }

    fn refuse(&self) {
        self.ticking.abort();
        self.raising.abort();
        self.confirmations.close();
        self.store.shut_down();
    }
}

/// Has `command` applied, for nobody's sake but the caller's.
async fn propose(raft: &Raft, command: Command) -> Result<(), Error> {
    let (tell, told) = oneshot::channel();
    let flight = Flight::new(Vec::new(), vec![tell], None);
    let _ = raft.client_write_ff(command.with(flight)).await;
    told.await.unwrap_or(Err(Error::NotLeader { leader: None }))
}

/// Tells the store the time.
async fn tick<L: Latches>(store: Store<L>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        store.tick(Instant::now());
    }
}

/// Has the store raise its ceiling in time.
async fn raise<L: Latches>(store: Store<L>) {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = store.raise_ceiling_ahead().await {
            warn!(%error, "cannot raise the ceiling");
        }
    }
}
