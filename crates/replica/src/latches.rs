//! What a replica asks of a latch manager.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use spanlatch::{Guard, Manager, OnPoison, Optimistic, OptimisticError, Pending, State, WaitError};
use spanset::SpanSet;
use tracing::{Level, debug, enabled};

use crate::Error;

/// A latch manager, as the pipeline sees it.
///
/// [`spanlatch::Manager`] is the implementation; the trait exists so that the same pipeline can be
/// measured on another one. Whoever implements it promises: conflicting requests hold their latches
/// one after the other, in the order of their calls to [`acquire`](Self::acquire). The methods that have a
/// default are what another one can do without.
pub trait Latches: Send + Sync + 'static {
    /// Holds latches, and releases them when dropped, on any thread.
    type Guard: Send + 'static;

    /// Takes a place in line for all of `spans`, in the call itself and not at the first poll. The
    /// future ends when every earlier conflicting request has released; dropping it leaves the line.
    ///
    /// # Errors
    ///
    /// [`Error::ShuttingDown`] if the manager is shut down before the latches are held, and
    /// [`Error::Stuck`] if they are in the way of a request that [is stuck](Self::poison) and the policy is
    /// to fail then.
    fn acquire(
        &self,
        spans: &SpanSet,
        on_poison: OnPoison,
    ) -> impl Future<Output = Result<Self::Guard, Error>> + Send + 'static;

    /// Takes a place in line for reads that are evaluated first, and only then asks whether what they read
    /// was in anybody's way. `None`, if it cannot do that.
    ///
    /// # Errors
    ///
    /// [`Error::ShuttingDown`] if the manager is shut down.
    fn acquire_optimistically(
        &self,
        spans: &SpanSet,
        on_poison: OnPoison,
    ) -> Result<Option<Box<dyn Optimist<Self::Guard>>>, Error> {
        let _ = (spans, on_poison);
        Ok(None)
    }

    /// Marks what a guard holds as stuck, for those that wait for it.
    fn poison(guard: &Self::Guard) {
        let _ = guard;
    }

    /// What a guard's request is called in logs and pictures.
    fn request_of(guard: &Self::Guard) -> Option<u64> {
        let _ = guard;
        None
    }

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

/// Reads that have a place in line and have not waited. Dropping it leaves the line.
pub trait Optimist<G>: Send {
    /// Whether nothing that was in line before conflicts with `read`, of what was declared. Then what it returns
    /// protects that as a guard would, until it is dropped. Else the future waits for all that was declared.
    ///
    /// # Errors
    ///
    /// The wait, if there was a conflict; it ends as [`Latches::acquire`].
    fn check(self: Box<Self>, read: &SpanSet) -> Result<Box<dyn Any + Send>, Waiting<G>>;
}

/// A wait for latches, boxed.
pub type Waiting<G> = Pin<Box<dyn Future<Output = Result<G, Error>> + Send>>;

impl Latches for Manager {
    type Guard = Guard;

    fn acquire(
        &self,
        spans: &SpanSet,
        on_poison: OnPoison,
    ) -> impl Future<Output = Result<Guard, Error>> + Send + 'static {
        let pending = self.request(spans).on_poison(on_poison).sequence();
        if let Ok(pending) = &pending {
            sequenced(|| pending.sequence_number());
        }
        let shown = shown_to(self);
        async move {
            let pending = pending.map_err(|_| Error::ShuttingDown)?;
            wait(pending, shown).await
        }
    }

    fn acquire_optimistically(
        &self,
        spans: &SpanSet,
        on_poison: OnPoison,
    ) -> Result<Option<Box<dyn Optimist<Guard>>>, Error> {
        let request = self.request(spans).on_poison(on_poison);
        match request.sequence_optimistic() {
            Ok(optimistic) => {
                sequenced(|| optimistic.sequence_number());
                Ok(Some(Box::new((optimistic, shown_to(self)))))
            }
            Err(OptimisticError::ShuttingDown) => Err(Error::ShuttingDown),
            // Not only reads: nothing for optimists.
            Err(_) => Ok(None),
        }
    }

    fn poison(guard: &Guard) {
        guard.poison();
    }

    fn request_of(guard: &Guard) -> Option<u64> {
        Some(guard.sequence_number())
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

impl Optimist<Guard> for (Optimistic, Option<Manager>) {
    fn check(self: Box<Self>, read: &SpanSet) -> Result<Box<dyn Any + Send>, Waiting<Guard>> {
        let (optimistic, shown) = *self;
        match optimistic.check_no_conflicts(read) {
            Ok(validated) => Ok(Box::new(validated)),
            Err(pending) => Err(Box::pin(wait(pending, shown))),
        }
    }
}

/// The manager, if waits for it are to be logged with whom they wait for.
fn shown_to(manager: &Manager) -> Option<Manager> {
    enabled!(Level::DEBUG).then(|| manager.clone())
}

fn sequenced(number: impl FnOnce() -> Option<u64>) {
    if enabled!(Level::DEBUG)
        && let Some(request) = number()
    {
        debug!(request, "sequenced");
    }
}

async fn wait(mut pending: Pending, shown: Option<Manager>) -> Result<Guard, Error> {
    let mut last = None;
    let guard = poll_fn(|context| {
        let poll = Pin::new(&mut pending).poll(context);
        if let (Poll::Pending, Some(manager)) = (&poll, &shown) {
            waits(manager, pending.sequence_number(), &mut last);
        }
        poll
    });
    guard.await.map_err(|error| match error {
        WaitError::Poisoned(latch) => Error::Stuck(latch),
        WaitError::ShuttingDown => Error::ShuttingDown,
        // No deadlines are set here.
        _ => Error::Cancelled,
    })
}

/// Logs whom `request` waits for, unless that is whom it waited for `last`.
fn waits(manager: &Manager, request: Option<u64>, last: &mut Option<u64>) {
    let picture = manager.inspect();
    let Some(this) = picture.requests.iter().find(|r| Some(r.request) == request) else {
        return;
    };
    if let State::Waiting {
        wants,
        on,
        conflict,
        head,
        ..
    } = &this.state
        && last.replace(*on) != Some(*on)
    {
        debug!(request, on, head, %wants, %conflict, "waits");
    }
}
