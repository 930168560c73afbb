//! Confirming a leadership: rounds of asking the other nodes, which reads join.

use std::mem;
use std::time::Duration;

use openraft::error::{CheckIsLeaderError, RaftError};
use parking_lot::Mutex;
use spanlatch_replica::{Error, Leading};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep};

use crate::storage::AppliedState;
use crate::types::{LeaderId, Raft};

/// The reads of one leadership that wait for a round to begin.
///
/// # Invariants
///
/// - *not before*: a read is answered by a round that was sent after the read had asked.
#[derive(Debug)]
pub(crate) struct Confirmations {
    leadership: LeaderId,
    /// For how long rounds are repeated that too few answer.
    patience: Duration,
    /// A push or a swap happens under it.
    waiting: Mutex<Vec<Read>>,
    changed: Notify,
    /// Whether it is closed; also for those whose round was made, and who wait for what was committed.
    closed: watch::Sender<bool>,
}

type Read = oneshot::Sender<Result<(), Error>>;

impl Confirmations {
    pub(crate) fn new(leadership: LeaderId, patience: Duration) -> Self {
        Self {
            leadership,
            patience,
            waiting: Mutex::default(),
            changed: Notify::new(),
            closed: watch::Sender::new(false),
        }
    }

    /// Joins the next round.
    pub(crate) fn join(&self) -> Leading {
        let (tell, told) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if !self.is_closed() {
                waiting.push(tell);
            }
        }
        self.changed.notify_one();
        Box::pin(async { told.await.unwrap_or(Err(NO_LEADER)) })
    }

    /// Begins no more rounds. Who has joined one that has not begun fails.
    pub(crate) fn close(&self) {
        // First: who joins from now on sees it, and all who have not seen it are among those who wait.
        self.closed.send_replace(true);
        let reads = mem::take(&mut *self.waiting.lock());
        drop(reads);
        self.changed.notify_one();
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Makes one round after the other, as long as somebody joins, until it is closed.
    pub(crate) async fn run(&self, raft: &Raft, applied: &watch::Receiver<AppliedState>) {
        loop {
            self.changed.notified().await;
            loop {
                if self.is_closed() {
                    return;
                }
                let reads = mem::take(&mut *self.waiting.lock());
                if reads.is_empty() {
                    break;
                }
                self.round(raft, applied, reads).await;
            }
        }
    }

    /// Asks a majority of the nodes whether they follow, and answers `reads` when what was committed before is applied.
    async fn round(
        &self,
        raft: &Raft,
        applied: &watch::Receiver<AppliedState>,
        mut reads: Vec<Read>,
    ) {
        let give_up = Instant::now() + self.patience;
        let confirmed = loop {
            match raft.get_read_log_id().await {
                Ok((read, _)) => break Ok(read),
                // Nobody has another leader, but too few have answered in time: ask again for those who still wait.
                Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => {
                    reads.retain(|read| !read.is_closed());
                    let is_over = self.is_closed() || Instant::now() >= give_up;
                    if reads.is_empty() || is_over {
                        break Err(NO_LEADER);
                    }
                    sleep(PAUSE).await;
                }
                Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(forward))) => {
                    let leader = forward.leader_node.map(|node| node.addr.into());
                    break Err(Error::NotLeader { leader });
                }
                Err(RaftError::Fatal(_)) => break Err(NO_LEADER),
            }
        };
        let read = match confirmed {
            // Of this leadership, and not of a later one of this node that its store knows nothing of yet.
            Ok(Some(read)) if read.leader_id == self.leadership => read,
            Ok(_) => return answer(reads, Err(NO_LEADER)),
            Err(error) => return answer(reads, Err(error)),
        };
        if applied.borrow().0 >= Some(read) {
            return answer(reads, Ok(()));
        }
        // The next round need not wait for it.
        let (mut applied, mut closed) = (applied.clone(), self.closed.subscribe());
        tokio::spawn(async move {
            let reached = applied.wait_for(|(applied, _)| *applied >= Some(read));
            let result = tokio::select! {
                reached = reached => reached.map(|_| ()).map_err(|_| NO_LEADER),
                _ = closed.wait_for(|is_closed| *is_closed) => Err(NO_LEADER),
            };
            answer(reads, result);
        });
    }
}

/// Between rounds that too few answer.
const PAUSE: Duration = Duration::from_millis(20);

const NO_LEADER: Error = Error::NotLeader { leader: None };

fn answer(reads: Vec<Read>, result: Result<(), Error>) {
    for read in reads {
        // Whoever does not wait any more need not be told.
        let _ = read.send(result.clone());
    }
}
