//! A request in line, on its way to its guard.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use crate::error::WaitError;
use crate::guard::{Guard, Place};
use crate::line::{Parking, Waiting};
use crate::look::Found;
use crate::sync::{self, Thread};
use crate::wake::wake_all;

/// A request that has been sequenced and may have to wait.
///
/// It becomes a [`Guard`] by `.await`, on any executor, or by [`wait`](Self::wait), which blocks the
/// thread; both are one implementation. Dropping it cancels: its latches are removed at once and those
/// parked on them look again; nobody else is woken. The drop takes the manager's mutex.
///
/// The search for conflicts goes on where it stopped whenever the request is polled. Nothing of the line is
/// retained meanwhile.
#[must_use = "dropping a pending request gives up its place in line"]
pub struct Pending {
    /// `None` once the guard has been handed out or the wait has failed.
    place: Option<Place>,
    /// Whether no earlier conflict is left.
    ready: bool,
    /// Whether it has parked, so that its wait is to be ended.
    parked: bool,
}

impl Pending {
    #[inline]
    pub(crate) fn new(place: Place, ready: bool) -> Self {
        Pending {
            place: Some(place),
            ready,
            parked: false,
        }
    }

    /// The request's number in sequence order: of two requests of one manager, the one sequenced
    /// first has the smaller.
    ///
    /// `None` after the future has completed. Takes the manager's mutex.
    pub fn sequence_number(&self) -> Option<u64> {
        self.place.as_ref().map(Place::sequence_number)
    }

    /// The place in line, whether or not it is held.
    pub(crate) fn into_place(mut self) -> Place {
        self.place.take().expect("not completed")
    }

    /// Whether every earlier conflicting latch has been released, so that [`wait`](Self::wait) would
    /// return at once. Never blocks. True after a shutdown: a request that holds its latches by then still
    /// gets its guard, and for the others waiting fails at once.
    pub fn is_ready(&mut self) -> bool {
        let Some(place) = &self.place else {
            return true;
        };
        if self.ready {
            return true;
        }
        let (ready, shut_down) = place.shared().in_stays(|line| {
            // After a shutdown, nobody is granted anything who has not found out before.
            if line.is_shut_down() {
                return Some((line.holds(place.slot), true));
            }
            match line.look(place.slot) {
                Found::Nothing => Some((true, false)),
                Found::Conflict(_) => Some((false, false)),
                Found::OutOfSteps => None,
            }
        });
        self.ready = ready;
        ready || shut_down
    }

    /// Blocks the thread until every earlier conflicting latch has been released.
    ///
    /// # Errors
    ///
    /// [`WaitError::ShuttingDown`] or [`WaitError::Poisoned`]; the latches are gone.
    ///
    /// # Panics
    ///
    /// After the future has completed.
    pub fn wait(self) -> Result<Guard, WaitError> {
        self.block(None)
    }

    /// As [`wait`](Self::wait), until `deadline` at the latest. A request that is ready gets its guard
    /// even if the deadline has passed.
    ///
    /// # Errors
    ///
    /// [`WaitError::DeadlinePassed`], [`WaitError::ShuttingDown`] or [`WaitError::Poisoned`]; the latches are
    /// gone.
    ///
    /// # Panics
    ///
    /// After the future has completed.
    pub fn wait_until(self, deadline: Instant) -> Result<Guard, WaitError> {
        self.block(Some(deadline))
    }

    #[inline]
    fn block(mut self, deadline: Option<Instant>) -> Result<Guard, WaitError> {
        if self.ready
            && !self.parked
            && let Some(place) = self.place.take()
        {
            return Ok(Guard::new(place));
        }
        self.park(deadline)
    }

    /// Parks the thread on the future.
    fn park(mut self, deadline: Option<Instant>) -> Result<Guard, WaitError> {
        // Whoever holds latches for a moment only lets go of them before a thread can be parked and woken.
        if self.is_ready() || sync::spins().any(|()| self.is_ready()) {
            // Ready, or shut down: no waker will be stored.
            if let Poll::Ready(outcome) = self.poll_wait(Waker::noop()) {
                return outcome;
            }
        }
        let waker = Waker::from(Arc::new(Unpark(sync::current())));
        loop {
            if let Poll::Ready(outcome) = self.poll_wait(&waker) {
                return outcome;
            }
            match deadline {
                None => sync::park(),
                Some(deadline) if sync::park_until(deadline) => {}
                Some(_) => return Err(WaitError::DeadlinePassed),
            }
        }
    }

    fn poll_wait(&mut self, waker: &Waker) -> Poll<Result<Guard, WaitError>> {
        let place = self.place.take().expect("polled after completion");
        match self.go_on(&place, waker) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(Guard::new(place))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.place = Some(place);
                Poll::Pending
            }
        }
    }

    /// Looks for an earlier conflict and parks on it, until none is left.
    fn go_on(&mut self, place: &Place, waker: &Waker) -> Poll<Result<(), WaitError>> {
        if self.ready && !self.parked {
            return Poll::Ready(Ok(()));
        }
        let (shared, slot) = (place.shared(), place.slot);
        let parking = || Parking {
            now: shared.now(),
            waker: Some(waker.clone()),
        };
        // Who has parked before is mostly polled when nothing is in the way any more.
        let mut prepared = (!self.parked).then(parking);
        loop {
            match shared.in_stays(|line| line.wait(slot, waker, &mut prepared, &shared.metrics)) {
                Waiting::MustPark => prepared = Some(parking()),
                Waiting::Failed(error) => return Poll::Ready(Err(error)),
                Waiting::Ended(since) => {
                    if let Some(since) = since {
                        let waited = shared.now().saturating_duration_since(since);
                        shared.metrics.wait.observe(waited);
                    }
                    return Poll::Ready(Ok(()));
                }
                Waiting::Parked(poisoned) => {
                    self.parked = true;
                    wake_all(poisoned.into_iter());
                    return Poll::Pending;
                }
            }
        }
    }
}

impl Future for Pending {
    type Output = Result<Guard, WaitError>;

    /// # Panics
    ///
    /// When polled after it has completed.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_wait(context.waker())
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending")
            .field(&self.sequence_number())
            .finish()
    }
}

/// A request that waits for earlier conflicting requests without having latches of its own: nobody waits
/// for it. What [`Manager::wait_for`](crate::Manager::wait_for) returns.
///
/// A future, or [`wait`](Self::wait) on a thread. Dropping it ends the wait.
#[must_use = "waiting happens when it is awaited"]
#[derive(Debug)]
pub struct WaitFor(pub(crate) Pending);

impl WaitFor {
    /// As [`Pending::is_ready`].
    pub fn is_ready(&mut self) -> bool {
        self.0.is_ready()
    }

    /// Blocks the thread until every conflicting latch that was in line when this was made has been
    /// released.
    ///
    /// # Errors
    ///
    /// As [`Pending::wait`].
    pub fn wait(self) -> Result<(), WaitError> {
        self.0.wait().map(drop)
    }

    /// As [`wait`](Self::wait), until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// As [`Pending::wait_until`].
    pub fn wait_until(self, deadline: Instant) -> Result<(), WaitError> {
        self.0.wait_until(deadline).map(drop)
    }
}

impl Future for WaitFor {
    type Output = Result<(), WaitError>;

    /// # Panics
    ///
    /// When polled after it has completed.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let guard = self.0.poll_wait(context.waker());
        guard.map(|guard| guard.map(drop))
    }
}

/// Wakes a thread parked in [`Pending::wait`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
