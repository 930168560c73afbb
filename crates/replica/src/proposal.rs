//! From proposing on: effects on their way, the latches that go with them, and the caller's wait.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use spanset::Timestamp;
use tracing::{debug, warn};

use crate::admission::OwnedPermit;
use crate::flights::{Flights, Flying};
use crate::held::Held;
use crate::{Cause, Error, Latches, WriteBatch};

/// Makes the effects of batches happen, in an order of its choosing.
pub trait Proposer: Send + Sync + 'static {
    /// Takes a proposal and returns without waiting for its fate.
    ///
    /// Two proposals are in flight at once only if their latches allow it, so any order of applying
    /// them is right. Whoever ends the proposal tells its caller: by [`Proposal::applied`],
    /// [`Proposal::failed`] or [`Proposal::ambiguous`].
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

    /// It may have been applied, and will not be from now on, unless this store serves nobody any more. Treats it as if
    /// applied, which is right either way, but fails the caller with [`Error::Ambiguous`].
    pub fn ambiguous(mut self, cause: Cause) {
        self.end(Fate::Unknown(cause));
    }

    /// Nobody should wait for it: fails the caller with [`Error::Ambiguous`], and those that wait for its
    /// latches, or come to wait, with [`Error::Stuck`], unless they say that they would rather wait. It may still
    /// be applied, and keeps its latches until it ends.
    pub fn poison(&self) {
        if let Some(flight) = &self.flight {
            flight.poison();
        }
    }

    fn end(&mut self, fate: Fate) {
        if let Some(flight) = self.flight.take() {
            flight.end(fate);
        }
    }
}

/// As [`Proposal::ambiguous`], with [`Cause::Dropped`]. Takes the mutexes of the timestamp caches and the latch
/// managers.
impl Drop for Proposal {
    fn drop(&mut self) {
        self.end(Fate::Unknown(Cause::Dropped));
    }
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proposal")
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}

/// How a proposal ended, for its caller.
#[derive(Debug)]
enum Fate {
    Applied,
    Failed(Error),
    Unknown(Cause),
}

/// A flight without the type of its latches, as its proposal sees it.
trait End: Send + Sync {
    fn end(&self, fate: Fate);
    fn poison(&self);
}

/// What the proposal and its caller share: one allocation for both directions.
struct Flight<L: Latches> {
    at: Timestamp,
    /// How many keys it writes.
    keys: usize,
    flights: Arc<Flights>,
    /// The caller's, so that what happens after it has gone is still told of its request.
    span: tracing::Span,
    /// Moves in and out, and nothing else, happen under it.
    state: Mutex<State<L>>,
}

struct State<L: Latches> {
    /// Where it is among the flights; `None` before and after.
    place: Option<usize>,
    latches: Latched<L>,
    /// Until it ends.
    permit: Option<OwnedPermit>,
    told: Told,
}

/// Where the latches of a flight are.
enum Latched<L: Latches> {
    /// Here, until the proposal ends.
    Held(Held<L>),
    /// With somebody who marks them as stuck, and brings them back.
    Lent,
    /// With somebody who marks them as stuck, and releases them then: the proposal has ended.
    Due,
    /// Released.
    Released,
}

/// What the caller knows.
enum Told {
    /// Nothing yet; the waker is the caller's, while it waits.
    Nothing(Option<Waker>),
    /// This is there for it to see.
    Fate(Fate),
    /// It has seen it.
    Seen,
}

impl<L: Latches> Flight<L> {
    /// Tells the caller, unless it has been told something before.
    fn tell(&self, fate: Fate) {
        let waker = {
            let mut state = self.state.lock();
            match &mut state.told {
                Told::Nothing(waker) => {
                    let waker = waker.take();
                    state.told = Told::Fate(fate);
                    waker
                }
                Told::Fate(_) | Told::Seen => None,
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<L: Latches> End for Flight<L> {
    fn end(&self, fate: Fate) {
        let _in_span = self.span.enter();
        match &fate {
            Fate::Applied => debug!(at = %self.at, "applied"),
            Fate::Failed(error) => debug!(at = %self.at, %error, "failed"),
            Fate::Unknown(cause) => debug!(at = %self.at, %cause, "ambiguous"),
        }
        let (latches, place, permit) = {
            let mut state = self.state.lock();
            let after = match &state.latches {
                Latched::Lent => Latched::Due,
                _ => Latched::Released,
            };
            let latches = mem::replace(&mut state.latches, after);
            (latches, state.place.take(), state.permit.take())
        };
        if let Latched::Held(held) = latches {
            held.record_and_release(self.at);
        }
        if let Some(place) = place {
            self.flights.remove(place);
        }
        drop(permit);
        self.tell(fate);
    }

    fn poison(&self) {
        let _in_span = self.span.enter();
        let held = {
            let mut state = self.state.lock();
            match mem::replace(&mut state.latches, Latched::Lent) {
                Latched::Held(held) => held,
                other => {
                    state.latches = other;
                    return;
                }
            }
        };
        debug!(at = %self.at, "poisoned");
        // Wakes those that wait: not under the mutex.
        held.poison();
        let ended = {
            let mut state = self.state.lock();
            match state.latches {
                Latched::Due => {
                    state.latches = Latched::Released;
                    Some(held)
                }
                _ => {
                    state.latches = Latched::Held(held);
                    None
                }
            }
        };
        if let Some(held) = ended {
            held.record_and_release(self.at);
        }
        self.tell(Fate::Unknown(Cause::Stuck));
    }
}

impl<L: Latches> Flying for Flight<L> {
    fn is_slow(&self, elapsed: Duration) {
        let _in_span = self.span.enter();
        warn!(at = %self.at, keys = self.keys, ?elapsed, "slow proposal");
    }

    fn is_stuck(&self, elapsed: Duration) {
        let _in_span = self.span.enter();
        warn!(at = %self.at, keys = self.keys, ?elapsed, "stuck proposal");
        self.poison();
    }
}

/// The caller's side of a proposal: ends when the proposal has, or is stuck. Dropping it changes nothing for
/// the proposal.
#[must_use]
pub(crate) struct InFlight<L: Latches>(Arc<Flight<L>>);

/// Binds effects to the latches that protect them: the proposal, and the wait for its end.
pub(crate) fn propose<L: Latches>(
    writes: WriteBatch,
    held: Held<L>,
    permit: OwnedPermit,
    flights: &Arc<Flights>,
) -> (Proposal, InFlight<L>) {
    let flight = Arc::new(Flight {
        at: writes.timestamp,
        keys: writes.writes.len(),
        flights: flights.clone(),
        span: tracing::Span::current(),
        state: Mutex::new(State {
            place: None,
            latches: Latched::Held(held),
            permit: Some(permit),
            told: Told::Nothing(None),
        }),
    });
    let place = flights.add(flight.clone());
    flight.state.lock().place = Some(place);
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
        let waker = Some(context.waker().clone());
        let (told, unused) = {
            let mut state = self.0.state.lock();
            match &mut state.told {
                Told::Nothing(stored) => (None, mem::replace(stored, waker)),
                told => (Some(mem::replace(told, Told::Seen)), waker),
            }
        };
        drop(unused);
        match told {
            None => Poll::Pending,
            Some(Told::Fate(Fate::Applied)) => Poll::Ready(Ok(())),
            Some(Told::Fate(Fate::Failed(error))) => Poll::Ready(Err(error)),
            Some(Told::Fate(Fate::Unknown(cause))) => Poll::Ready(Err(Error::Ambiguous(cause))),
            Some(Told::Nothing(_) | Told::Seen) => panic!("polled after completion"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use spanlatch::Manager;
    use spanlatch_metrics::ReplicaMetrics;

    use super::*;
    use crate::admission::Admission;

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
        let admission = Arc::new(Admission::new(1));
        let permit = admission.admit().unwrap().into_owned();
        let metrics = ReplicaMetrics::default();
        let flights = Arc::new(Flights::new(&metrics, Duration::MAX, Duration::MAX));
        let (proposal, mut in_flight) = propose::<Manager>(writes, Held::new(), permit, &flights);
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
