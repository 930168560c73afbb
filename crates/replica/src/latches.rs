//! The one thing a replica asks of a latch manager.

use std::future::Future;
use std::time::Instant;

use spanlatch::{Guard, Manager, ShuttingDown, WaitError};
use spanset::SpanSet;

use crate::Error;

/// A latch manager, as the pipeline sees it.
///
/// [`spanlatch::Manager`] is the implementation; the trait exists so that the same pipeline can be
/// measured on another one. Whoever implements it promises: conflicting requests hold their latches
/// one after the other, in the order of their calls to [`acquire`](Self::acquire).
pub trait Latches: Send + Sync + 'static {
    /// Holds latches, and releases them when dropped, on any thread.
    type Guard: Send + 'static;

    /// Takes a place in line for all of `spans`, in the call itself and not at the first poll. The
    /// future ends when every earlier conflicting request has released; dropping it leaves the line.
    ///
    /// # Errors
    ///
    /// [`Error::ShuttingDown`] if the manager is shut down before the latches are held.
    fn acquire(
        &self,
        spans: &SpanSet,
    ) -> impl Future<Output = Result<Self::Guard, Error>> + Send + 'static;

    /// Whether no request holds latches or waits for some.
    fn is_idle(&self) -> bool;

    /// Ends every wait, and refuses every later request, with [`Error::ShuttingDown`].
    fn shut_down(&self);

    /// Tells it the time, every second or so, for it to notice what takes long. Does nothing unless
    /// implemented.
    fn tick(&self, now: Instant) {
        let _ = now;
    }
}

impl Latches for Manager {
    type Guard = Guard;

    fn acquire(
        &self,
        spans: &SpanSet,
    ) -> impl Future<Output = Result<Guard, Error>> + Send + 'static {
        let pending = self.sequence(spans);
        async move {
            let pending = pending.map_err(|ShuttingDown| Error::ShuttingDown)?;
            pending.await.map_err(|error| match error {
                WaitError::ShuttingDown => Error::ShuttingDown,
                // No deadlines are set here.
                _ => Error::Cancelled,
            })
        }
    }

    fn is_idle(&self) -> bool {
        self.counts().requests == 0
    }

    fn shut_down(&self) {
        Manager::shut_down(self);
    }

    fn tick(&self, now: Instant) {
        Manager::tick(self, now);
    }
}
