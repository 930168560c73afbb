//! A request in line, on its way to its guard.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use crate::error::WaitError;
use crate::guard::{Guard, Place};
use crate::look::Found;
use crate::sync::{self, MutexGuard, Thread};

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
    /// `None` after the future has completed.
    pub fn sequence_number(&self) -> Option<u64> {
        self.place.as_ref().map(|place| place.id.sequence)
    }

    /// Whether every earlier conflicting latch has been released, so that [`wait`](Self::wait) would
    /// return at once. Never blocks. True after a shutdown, when waiting fails at once.
    pub fn is_ready(&mut self) -> bool {
        let Some(Place { shared, id }) = &self.place else {
            return true;
        };
        while !self.ready {
            let mut line = shared.line.lock();
            if line.is_shut_down() {
                return true;
            }
            match line.look(*id) {
                Found::Nothing => self.ready = true,
                Found::Conflict(_) => return false,
                // Others get a turn.
                Found::OutOfSteps => {}
            }
        }
        true
    }

    /// Blocks the thread until every earlier conflicting latch has been released.
    ///
    /// # Errors
    ///
    /// [`WaitError::ShuttingDown`]; the latches are gone.
    pub fn wait(self) -> Result<Guard, WaitError> {
        self.block(None)
    }

    /// As [`wait`](Self::wait), until `deadline` at the latest. A request that is ready gets its guard
    /// even if the deadline has passed.
    ///
    /// # Errors
    ///
    /// [`WaitError::DeadlinePassed`] or [`WaitError::ShuttingDown`]; the latches are gone.
    pub fn wait_until(self, deadline: Instant) -> Result<Guard, WaitError> {
        self.block(Some(deadline))
    }

    #[inline]
    fn block(mut self, deadline: Option<Instant>) -> Result<Guard, WaitError> {
        match self.place.take_if(|_| self.ready && !self.parked) {
            Some(place) => Ok(Guard::new(place)),
            None => self.park(deadline),
        }
    }

    /// Parks the thread on the future.
    fn park(mut self, deadline: Option<Instant>) -> Result<Guard, WaitError> {
        if self.is_ready() {
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
        // Foreign code (the clock, the waker's clone and drop) runs outside the mutex.
        let Place { shared, id } = place;
        let now = shared.now();
        let mut waker = Some(waker.clone());
        let mut line = shared.line.lock();
        loop {
            if line.is_shut_down() {
                return Poll::Ready(Err(WaitError::ShuttingDown));
            }
            let found = if self.ready {
                Found::Nothing
            } else {
                line.look(*id)
            };
            match found {
                Found::Nothing => {
                    let waited_since = line.acquired(*id, now, &shared.metrics);
                    drop(line);
                    if let Some(since) = waited_since {
                        let waited = now.saturating_duration_since(since);
                        shared.metrics.wait.observe(waited);
                    }
                    return Poll::Ready(Ok(()));
                }
                Found::Conflict(on) => {
                    line.park(*id, on, now, &mut waker);
                    self.parked = true;
                    return Poll::Pending;
                }
                // Others get a turn.
                Found::OutOfSteps => MutexGuard::bump(&mut line),
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

/// Wakes a thread parked in [`Pending::wait`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
