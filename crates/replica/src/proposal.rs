//! From proposing on: effects on their way, the latches that go with them, and the caller's wait.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use spanlatch_metrics::GaugeShare;
use spanset::Timestamp;
use tracing::trace;

use crate::held::Held;
use crate::{Error, Latches, WriteBatch};

/// Makes the effects of batches happen, in an order of its choosing.
pub trait Proposer: Send + Sync + 'static {
    /// Takes a proposal and returns without waiting for its fate.
    ///
    /// Two proposals are in flight at once only if their latches allow it, so any order of applying
    /// them is right. Whoever ends the proposal tells its caller: by [`Proposal::applied`],
    /// [`Proposal::failed`], or dropping it.
    fn propose(&self, proposal: Proposal);

    /// Accepts no more proposals: later ones fail with [`Error::ShuttingDown`]. Those in flight end
    /// as they would have.
    fn shut_down(&self);
}

/// The effects of one batch on their way to being applied, with the latches that protect them.
///
/// The latches belong to the proposal and not to the caller: they are held for as long as it exists,
/// even if nobody waits for it any more. So whoever does not know its fate keeps it.
#[must_use = "dropping a proposal says that its fate will never be known"]
pub struct Proposal {
    writes: WriteBatch,
    /// `None` once it has ended.
    flight: Option<Arc<dyn End>>,
}

impl Proposal {
    /// What it writes.
    pub fn writes(&self) -> &WriteBatch {
        &self.writes
    }

    /// Takes out what it writes, to be applied without a copy; nothing is left in it.
    pub fn take_writes(&mut self) -> WriteBatch {
        WriteBatch {
            timestamp: self.writes.timestamp,
            writes: mem::take(&mut self.writes.writes),
        }
    }

    /// It has been applied: every later snapshot of the engine shows it. Records in the timestamp
    /// caches what it read, releases its latches, and lets the caller respond, in this order.
    pub fn applied(mut self) {
        self.end(Fate::Applied);
    }

    /// It has not been applied and never will be. Releases its latches and fails the caller with
    /// `error`.
    pub fn failed(mut self, error: Error) {
        self.end(Fate::Failed(error));
    }

    fn end(&mut self, fate: Fate) {
        if let Some(flight) = self.flight.take() {
            flight.end(fate);
        }
    }
}

/// Says that it will not be applied from now on, and may have been: as if applied, but the caller
/// fails with [`Error::Ambiguous`]. Takes the mutexes of the timestamp caches and the latch managers.
impl Drop for Proposal {
    fn drop(&mut self) {
        self.end(Fate::Unknown);
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposal")
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}

/// How a proposal ended.
#[derive(Debug)]
enum Fate {
    Applied,
    Failed(Error),
    Unknown,
}

/// A flight without the type of its latches.
trait End: Send + Sync {
    fn end(&self, fate: Fate);
}

/// What the proposal and its caller share: one allocation for both directions.
struct Flight<L: Latches> {
    at: Timestamp,
    pending: Arc<GaugeShare>,
    /// Moves in and out, and nothing else, happen under it.
    state: Mutex<State<L>>,
}

struct State<L: Latches> {
    /// Until the proposal ends.
    held: Option<Held<L>>,
    /// From when the latches are released until the caller takes it.
    fate: Option<Fate>,
    /// The caller's, while it waits.
    waker: Option<Waker>,
}

impl<L: Latches> End for Flight<L> {
    fn end(&self, fate: Fate) {
        trace!(at = %self.at, ?fate, "ended");
        let held = self.state.lock().held.take();
        if let Some(held) = held {
            held.record_and_release(self.at);
        }
        self.pending.dec();
        let waker = {
            let mut state = self.state.lock();
            state.fate = Some(fate);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The caller's side of a proposal: ends when the proposal has. Dropping it changes nothing for the
/// proposal.
#[must_use]
pub(crate) struct InFlight<L: Latches>(Arc<Flight<L>>);

/// Binds effects to the latches that protect them: the proposal, and the wait for its end.
pub(crate) fn propose<L: Latches>(
    writes: WriteBatch,
    held: Held<L>,
    pending: Arc<GaugeShare>,
) -> (Proposal, InFlight<L>) {
    pending.inc();
    let flight = Arc::new(Flight {
        at: writes.timestamp,
        pending,
        state: Mutex::new(State {
            held: Some(held),
            fate: None,
            waker: None,
        }),
    });
    let proposal = Proposal {
        writes,
        flight: Some(flight.clone()),
    };
    (proposal, InFlight(flight))
}

impl<L: Latches> Future for InFlight<L> {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock();
        match state.fate.take() {
            Some(Fate::Applied) => Poll::Ready(Ok(())),
            Some(Fate::Failed(error)) => Poll::Ready(Err(error)),
            Some(Fate::Unknown) => Poll::Ready(Err(Error::Ambiguous)),
            None => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}
