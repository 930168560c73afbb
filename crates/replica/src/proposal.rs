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
/// even if nobody waits for it any more. So whoever does not know whether it may still be applied keeps
/// it.
#[must_use = "dropping a proposal says that it will not be applied from now on"]
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

/// Says that its fate is settled and not known: it will not be applied from now on, and may have
/// been. Treats it as if applied, which is right either way, but fails the caller with
/// [`Error::Ambiguous`]. Takes the mutexes of the timestamp caches and the latch managers.
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
    /// Settled, one way or the other.
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
        // Cloning and dropping a waker is the executor's code: not under the mutex.
        let waker = context.waker().clone();
        let (fate, unused) = {
            let mut state = self.0.state.lock();
            match state.fate.take() {
                None => (None, state.waker.replace(waker)),
                fate => (fate, Some(waker)),
            }
        };
        drop(unused);
        match fate {
            Some(Fate::Applied) => Poll::Ready(Ok(())),
            Some(Fate::Failed(error)) => Poll::Ready(Err(error)),
            Some(Fate::Unknown) => Poll::Ready(Err(Error::Ambiguous)),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use spanlatch::Manager;

    use super::*;

    /// A waker that counts, where it is dropped, whether the flight's mutex is free.
    struct Watching {
        flight: Arc<Flight<Manager>>,
        dropped_unlocked: Arc<AtomicUsize>,
    }

    impl Wake for Watching {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Watching {
        fn drop(&mut self) {
            let is_free = self.flight.state.try_lock().is_some();
            let count = usize::from(is_free);
            self.dropped_unlocked.fetch_add(count, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_that_another_replaces_is_dropped_after_unlocking() {
        let writes = WriteBatch {
            timestamp: Timestamp::MIN,
            writes: Vec::new(),
        };
        let (proposal, mut in_flight) =
            propose::<Manager>(writes, Held::new(), Arc::new(GaugeShare::default()));
        let dropped_unlocked = Arc::new(AtomicUsize::new(0));
        let watching = || {
            Waker::from(Arc::new(Watching {
                flight: in_flight.0.clone(),
                dropped_unlocked: dropped_unlocked.clone(),
            }))
        };
        let wakers = [watching(), watching()];
        for waker in wakers {
            let poll = Pin::new(&mut in_flight).poll(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
        }
        assert_eq!(dropped_unlocked.load(Ordering::Relaxed), 1);
        proposal.applied();
        let poll = Pin::new(&mut in_flight).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(poll, Poll::Ready(Ok(()))));
        assert_eq!(dropped_unlocked.load(Ordering::Relaxed), 2);
    }
}
