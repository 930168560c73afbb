//! What a store proposes through: a queue, and a task that sends what is in it as groups.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Weak};

use futures_util::TryFutureExt;
use parking_lot::Mutex;
use spanlatch_replica::{Error, Leadership, Leading, Proposal, Proposer};
use spanset::Timestamp;
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::command::{Command, Effect, size};
use crate::confirm::Confirmations;
use crate::flight::{Flight, Places};
use crate::types::{LeaderId, Raft};

/// How many bytes a batch may have in a command. One with more is refused.
pub(crate) const MAX_BATCH: usize = 8 << 20;

/// How many bytes a command has, unless a single batch has more.
const COMMAND: usize = 1 << 20;

/// How many commands may be in flight.
const IN_FLIGHT: u32 = 1_024;

/// The proposer of the store of one leadership, and what the store asks about that.
pub(crate) struct RaftProposer {
    leadership: LeaderId,
    confirmations: Arc<Confirmations>,
    /// Things move in and out under it, and nothing is sent, woken or encoded.
    queue: Mutex<Queue>,
    /// There is something in the queue, or nothing ever will be.
    changed: Notify,
    /// For the command on its way to the log.
    window: Arc<Semaphore>,
    /// For those that have not ended.
    in_flight: Arc<Semaphore>,
    /// Taken while what is proposed is sent.
    running: Semaphore,
}

#[derive(Default)]
struct Queue {
    /// With what they take in a command.
    proposals: VecDeque<(usize, Proposal)>,
    ceilings: Asked,
    collections: Asked,
    /// Those that were sent and may not have ended.
    flights: Vec<Weak<Flight>>,
    is_closed: bool,
}

/// A mark that was asked to be raised, as high as anybody wants, and all who want it.
#[derive(Default)]
struct Asked {
    to: Timestamp,
    by: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl RaftProposer {
    pub(crate) fn new(leadership: LeaderId, confirmations: Arc<Confirmations>) -> Self {
        Self {
            leadership,
            confirmations,
            queue: Mutex::new(Queue::default()),
            changed: Notify::new(),
            window: Arc::new(Semaphore::new(1)),
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT as usize)),
            running: Semaphore::new(1),
        }
    }

    /// Has the engines of all nodes raise their threshold, and collect what is not seen from there on.
    pub(crate) fn collect(&self, threshold: Timestamp) -> Leading {
        self.ask(threshold, |queue| &mut queue.collections)
    }

    fn ask(&self, to: Timestamp, mark: fn(&mut Queue) -> &mut Asked) -> Leading {
        let (tell, told) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            if !queue.is_closed {
                let asked = mark(&mut queue);
                asked.to = asked.to.max(to);
                asked.by.push(tell);
            }
        }
        self.changed.notify_one();
        // Who is dropped without a word was never sent.
        Box::pin(async { told.await.unwrap_or(Err(Error::ShuttingDown)) })
    }

    /// Sends what is proposed until it is shut down and all is sent. One command at a time is on its way to the log; what is
    /// proposed meanwhile goes with the next.
    pub(crate) async fn run(&self, raft: &Raft) {
        let _running = self.running.acquire().await;
        loop {
            let changed = self.changed.notified();
            let Some(places) = self.places().await else {
                return;
            };
            match self.next(places) {
                Next::Command(command) => {
                    // If openraft has ended, it drops the command, and the flight with it, which ends then.
                    let _ = raft.client_write_ff(command).await;
                }
                Next::Nothing => changed.await,
                Next::End => return,
            }
        }
    }

    async fn places(&self) -> Option<Places> {
        Some(Places {
            window: self.window.clone().acquire_owned().await.ok()?,
            in_flight: self.in_flight.clone().acquire_owned().await.ok()?,
        })
    }

    /// Returns when it has been shut down, and all that was proposed is sent and has ended.
    pub(crate) async fn ended(&self) {
        // First of all, or those that are still to be sent would be behind it in line.
        let _ = self.running.acquire().await;
        let _ = self.in_flight.acquire_many(IN_FLIGHT).await;
    }

    /// Takes out of the queue what goes next.
    fn next(&self, places: Places) -> Next {
        let mut queue = self.queue.lock();
        let (effect, flight) = if !queue.ceilings.by.is_empty() {
            let asked = mem::take(&mut queue.ceilings);
            (
                Effect::Ceiling(asked.to),
                Flight::new(Vec::new(), asked.by, Some(places)),
            )
        } else if !queue.proposals.is_empty() {
            let mut proposals = queue.take_proposals();
            let writes = proposals.iter_mut().map(Proposal::take_writes).collect();
            (
                Effect::Write(writes),
                Flight::new(proposals, Vec::new(), Some(places)),
            )
        } else if !queue.collections.by.is_empty() {
            let asked = mem::take(&mut queue.collections);
            (
                Effect::Collect(asked.to),
                Flight::new(Vec::new(), asked.by, Some(places)),
            )
        } else if queue.is_closed {
            return Next::End;
        } else {
            return Next::Nothing;
        };
        queue.note(&flight);
        drop(queue);
        Next::Command(Command::new(self.leadership, effect).with(flight))
    }

    /// The leadership is over: what was never sent has failed, and what was sent and has not ended is ambiguous. To be called
    /// when it is shut down, and nobody is served any more because of this store's latches.
    pub(crate) fn abandon(&self) {
        let Queue {
            proposals, flights, ..
        } = {
            let mut queue = self.queue.lock();
            let is_closed = queue.is_closed;
            let left = Queue {
                is_closed,
                ..Queue::default()
            };
            mem::replace(&mut *queue, left)
        };
        for (_, proposal) in proposals {
            proposal.failed(Error::NotLeader { leader: None });
        }
        for flight in flights.iter().filter_map(Weak::upgrade) {
            flight.abandon();
        }
    }
}

/// What the sending task does next.
enum Next {
    Command(Command),
    Nothing,
    End,
}

impl Queue {
    /// As many proposals as go into one command.
    fn take_proposals(&mut self) -> Vec<Proposal> {
        let mut total = 0;
        let fits = |(size, _): &&(usize, Proposal)| {
            total += size;
            total <= COMMAND
        };
        let many = self.proposals.iter().take_while(fits).count().max(1);
        let taken = self.proposals.drain(..many);
        taken.map(|(_, proposal)| proposal).collect()
    }

    /// The list stays at most twice as long as what is in flight, so this is O(1), amortized.
    fn note(&mut self, flight: &Arc<Flight>) {
        if self.flights.len() == self.flights.capacity() {
            self.flights.retain(|flight| flight.strong_count() > 0);
        }
        self.flights.push(Arc::downgrade(flight));
    }
}

impl Proposer for RaftProposer {
    fn propose(&self, proposal: Proposal) {
        let size = size(proposal.writes());
        if size > MAX_BATCH {
            let max = MAX_BATCH;
            return proposal.failed(Error::BatchTooLarge { size, max });
        }
        {
            let mut queue = self.queue.lock();
            if queue.is_closed {
                drop(queue);
                return proposal.failed(Error::ShuttingDown);
            }
            queue.proposals.push_back((size, proposal));
        }
        self.changed.notify_one();
    }

    fn shut_down(&self) {
        self.queue.lock().is_closed = true;
        self.changed.notify_one();
    }
}

impl Leadership for RaftProposer {
    fn confirm(&self) -> Leading {
        self.confirmations.join()
    }

    fn raise_ceiling(&self, to: Timestamp) -> Leading {
        let raised = self.ask(to, |queue| &mut queue.ceilings);
        // Whether it is raised all the same makes no difference to who cannot serve: nothing of theirs was proposed.
        Box::pin(raised.map_err(|error| match error {
            Error::Ambiguous(_) => Error::NotLeader { leader: None },
            error => error,
        }))
    }
}

impl fmt::Debug for RaftProposer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RaftProposer")
            .field("leadership", &self.leadership)
            .finish_non_exhaustive()
    }
}
