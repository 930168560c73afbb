//! Commands on their way through the log, and who waits for them.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openraft::error::ClientWriteError;
use openraft::raft::{ClientWriteResult, responder::Responder};
use parking_lot::Mutex;
use spanlatch_replica::{Cause, Error, Proposal};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::command::Command;
use crate::types::{Applied, TypeConfig};

/// Those who wait for a command: the proposals of a group, with their latches, and others who only want to know.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    waiting: Mutex<Waiting>,
    passage: Arc<Passage>,
}

/// What a flight takes up of what a proposer allows.
#[derive(Debug)]
pub(crate) struct Places {
    /// Until the log has it.
    pub(crate) window: OwnedSemaphorePermit,
    /// Until it has ended.
    pub(crate) in_flight: OwnedSemaphorePermit,
}

#[derive(Debug, Default)]
struct Waiting {
    proposals: Vec<Proposal>,
    others: Vec<oneshot::Sender<Result<(), Error>>>,
    /// Until it has ended.
    in_flight: Option<OwnedSemaphorePermit>,
}

/// How far a command has come on this node. It outlives those who wait, as long as the log's entry is around.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    /// Whether it was given to the log: from then on others may have it, and apply it whatever becomes of this node.
    appended: AtomicBool,
    /// Held until then, so that the next group is gathered meanwhile instead of being queued behind it.
    window: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Passage {
    /// It is about to be given to the log.
    pub(crate) fn append(&self) {
        self.appended.store(true, Ordering::Release);
        self.leave_window();
    }

    fn leave_window(&self) {
        let permit = self.window.lock().take();
        drop(permit);
    }

    fn is_appended(&self) -> bool {
        self.appended.load(Ordering::Acquire)
    }
}

impl Flight {
    /// Of those who wait.
    pub(crate) fn new(
        proposals: Vec<Proposal>,
        others: Vec<oneshot::Sender<Result<(), Error>>>,
        places: Option<Places>,
    ) -> Arc<Self> {
        let (window, in_flight) = match places {
            Some(places) => (Some(places.window), Some(places.in_flight)),
            None => (None, None),
        };
        Arc::new(Self {
            waiting: Mutex::new(Waiting {
                proposals,
                others,
                in_flight,
            }),
            passage: Arc::new(Passage {
                appended: AtomicBool::new(false),
                window: Mutex::new(window),
            }),
        })
    }

    pub(crate) fn passage(&self) -> Arc<Passage> {
        self.passage.clone()
    }

    /// It has been applied, as `applied` says.
    fn land(&self, applied: Applied) {
        match applied {
            Applied::Done => self.end(Proposal::applied, &Ok(())),
            // It never had an effect, nor will.
            Applied::Stale => self.fail(&Error::NotLeader { leader: None }),
        }
    }

    /// openraft has refused it, or has removed it from the log, or has ended. If it has never given it to the log, it never will.
    fn is_refused(&self, leader: Option<Arc<str>>) {
        if self.passage.is_appended() {
            self.abandon();
        } else {
            self.fail(&Error::NotLeader { leader });
        }
    }

    /// Nobody here can know what comes of it: even if it is removed from this log, another may have it, and see to it that it
    /// is applied.
    pub(crate) fn abandon(&self) {
        let end = |proposal: Proposal| proposal.ambiguous(Cause::LeadershipOver);
        self.end(end, &Err(Error::Ambiguous(Cause::LeadershipOver)));
    }

    fn fail(&self, error: &Error) {
        self.end(
            |proposal| proposal.failed(error.clone()),
            &Err(error.clone()),
        );
    }

    fn end(&self, end: impl FnMut(Proposal), told: &Result<(), Error>) {
        let Waiting {
            proposals,
            others,
            in_flight,
        } = mem::take(&mut *self.waiting.lock());
        proposals.into_iter().for_each(end);
        for other in others {
            // Whoever does not wait any more need not be told.
            let _ = other.send(told.clone());
        }
        drop(in_flight);
    }
}

/// Takes openraft's answer to a command. If openraft ends without one, that is an answer, too.
#[derive(Debug)]
pub(crate) struct Answering(Option<Arc<Flight>>);

impl Responder<TypeConfig> for Answering {
    type Receiver = ();

    fn from_app_data(mut command: Command) -> (Command, Self, ()) {
        let flight = command.flight.take();
        (command, Self(flight), ())
    }

    fn send(mut self, result: ClientWriteResult<TypeConfig>) {
        let Some(flight) = self.0.take() else {
            return;
        };
        flight.passage.leave_window();
        match result {
            Ok(response) => flight.land(response.data),
            Err(ClientWriteError::ForwardToLeader(forward)) => {
                flight.is_refused(forward.leader_node.map(|node| node.addr.into()));
            }
            Err(ClientWriteError::ChangeMembershipError(_)) => flight.is_refused(None),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(flight) = self.0.take() {
            flight.passage.leave_window();
            flight.is_refused(None);
        }
    }
}

#[cfg(test)]
mod tests;
