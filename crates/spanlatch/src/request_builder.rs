//! A request that is about to be made, with what is special about it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use spanset::{Access, SpanSet};

use crate::error::{OptimisticError, ShuttingDown, TryAcquireError, WaitError};
use crate::guard::{Guard, Place};
use crate::label::Label;
use crate::latch::Latch;
use crate::manager::{Manager, Shared};
use crate::optimistic::Optimistic;
use crate::pending::{Pending, WaitFor};
use crate::poison::OnPoison;
use crate::request::{Kind, Request};
use crate::spare;

/// In how many bounded stays under the mutex an optimistic request tries to settle what others have left
/// unsettled in its way.
const STAYS: usize = 8;

/// A request that is about to be made: what [`Manager::request`] returns.
///
/// ```
/// use std::fmt;
///
/// use spanlatch::{Manager, OnPoison, WaitError};
/// use spanset::{Span, SpanSet};
///
/// let manager = Manager::new();
/// let mut spans = SpanSet::new();
/// spans.write(Span::point("apple"));
/// let stuck = manager.request(&spans).label("import of fruit").acquire()?;
/// stuck.poison();
/// let hurried = manager.request(&spans).on_poison(OnPoison::Fail).acquire();
/// assert!(matches!(hurried, Err(WaitError::Poisoned(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a request does nothing before it is sequenced"]
pub struct RequestBuilder {
    shared: Arc<Shared>,
    request: Box<Request>,
}

impl RequestBuilder {
    #[inline]
    pub(crate) fn new(manager: &Manager, spans: &SpanSet) -> Self {
        let (mut request, shared) = spare::take(&manager.shared);
        request.declare(spans, manager.shared.few());
        RequestBuilder { shared, request }
    }

    /// What logs and [`Manager::inspect`] call it. Formatted only when it is shown, outside the mutex.
    pub fn label(self, label: impl fmt::Display + Send + Sync + 'static) -> Self {
        self.shared_label(Arc::new(label))
    }

    /// As [`label`](Self::label), for a name that several requests have: allocates nothing.
    pub fn shared_label(mut self, label: Arc<dyn fmt::Display + Send + Sync>) -> Self {
        self.request.label = Some(Label(label));
        self
    }

    /// What it does about poisoned latches. Default: [`OnPoison::Wait`].
    pub fn on_poison(mut self, on_poison: OnPoison) -> Self {
        self.request.on_poison = on_poison;
        self
    }

    /// As [`Manager::sequence`].
    ///
    /// # Errors
    ///
    /// As [`Manager::sequence`].
    #[inline]
    pub fn sequence(self) -> Result<Pending, ShuttingDown> {
        let (place, ready) = self.enter()?;
        Ok(Pending::new(place, ready))
    }

    /// Takes a place in line, and a first look; says whether nothing is in the way.
    #[inline]
    fn enter(self) -> Result<(Place, bool), ShuttingDown> {
        let (slot, ready) = {
            let mut line = self.shared.line.lock();
            if line.is_shut_down() {
                return Err(ShuttingDown);
            }
            line.sequence(self.request)
        };
        Ok((Place::new(self.shared, slot), ready))
    }

    /// As [`Manager::acquire`].
    ///
    /// # Errors
    ///
    /// As [`Manager::acquire`], or [`WaitError::Poisoned`].
    #[inline]
    pub fn acquire(self) -> Result<Guard, WaitError> {
        match self.enter()? {
            (place, true) => Ok(Guard::new(place)),
            (place, false) => Pending::new(place, false).wait(),
        }
    }

    /// As [`Manager::acquire_until`].
    ///
    /// # Errors
    ///
    /// As [`Manager::acquire_until`], or [`WaitError::Poisoned`].
    pub fn acquire_until(self, deadline: Instant) -> Result<Guard, WaitError> {
        if Instant::now() >= deadline {
            return Err(WaitError::DeadlinePassed);
        }
        self.sequence()?.wait_until(deadline)
    }

    /// As [`Manager::try_acquire`].
    ///
    /// # Errors
    ///
    /// As [`Manager::try_acquire`].
    pub fn try_acquire(self) -> Result<Guard, TryAcquireError> {
        let sequenced = {
            let mut line = self.shared.line.lock();
            if line.is_shut_down() {
                return Err(TryAcquireError::ShuttingDown);
            }
            line.try_sequence(self.request)
        };
        let (slot, ready) = match sequenced {
            Ok(sequenced) => sequenced,
            Err(refused) => {
                spare::give(refused, self.shared);
                return Err(TryAcquireError::WouldWait);
            }
        };
        let mut pending = Pending::new(Place::new(self.shared, slot), ready);
        // Where the look ran out of steps, it goes on from a place in line, or others could pass.
        if !pending.is_ready() {
            return Err(TryAcquireError::WouldWait);
        }
        pending
            .wait()
            .map_err(|_shut_down| TryAcquireError::ShuttingDown)
    }

    /// As [`Manager::wait_for`].
    ///
    /// # Errors
    ///
    /// As [`Manager::wait_for`].
    pub fn wait_for(mut self) -> Result<WaitFor, ShuttingDown> {
        self.request.kind = Kind::WaitsOnly;
        self.sequence().map(WaitFor)
    }

    /// As [`Manager::sequence_optimistic`].
    ///
    /// # Errors
    ///
    /// As [`Manager::sequence_optimistic`].
    pub fn sequence_optimistic(self) -> Result<Optimistic, OptimisticError> {
        let mut latches = self.request.latches.iter();
        if let Some(write) = latches.find(|latch| latch.access == Access::Write) {
            return Err(OptimisticError::DeclaresWrite(Box::new(
                write.declaration(),
            )));
        }
        let declared = cfg!(debug_assertions)
            .then(|| (self.request.latches.iter().map(Latch::declaration)).collect());
        let (mut request, mut stays) = (Some(self.request), STAYS);
        let sequenced = self.shared.in_stays(|line| match line.is_shut_down() {
            true => Some(Err(OptimisticError::ShuttingDown)),
            false => line.sequence_optimistic(&mut request, &mut stays).map(Ok),
        });
        let (slot, ready, writes) = sequenced?;
        let place = Place::new(self.shared, slot);
        let pending = Pending::new(place, ready);
        Ok(Optimistic::new(pending, writes, declared))
    }
}

impl fmt::Debug for RequestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
