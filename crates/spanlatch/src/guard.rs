//! Holding latches, and letting go of them.

use std::fmt;
use std::sync::Arc;

use crate::manager::Shared;
use crate::wake::wake_all;

/// All spans of a request, held.
///
/// Dropping it releases them and wakes those who are parked on them; it happens as well when a panic
/// unwinds. The drop takes the manager's mutex. It panics only if somebody's waker or label does, after the
/// release and after all others have been woken. A guard may be sent to another thread and outlive every
/// handle of its manager.
#[must_use = "dropping a guard releases its latches at once"]
pub struct Guard {
    place: Place,
}

impl Guard {
    #[inline]
    pub(crate) fn new(place: Place) -> Self {
        Guard { place }
    }

    /// The request's number in sequence order: of two requests of one manager, the one sequenced
    /// first has the smaller. Takes the manager's mutex.
    pub fn sequence_number(&self) -> u64 {
        self.place.sequence_number()
    }

    /// Says that the holder is stuck. Requests that choose [`OnPoison::Fail`](crate::OnPoison::Fail) and
    /// would have to wait for these latches, or wait for them already, fail; the others go on waiting and
    /// are poisoned in turn. The mark ends with the release. Marking a guard twice does nothing.
    ///
    /// Takes the manager's mutex; O(requests parked on this one), once.
    pub fn poison(&self) {
        self.place.poison();
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard")
            .field(&self.sequence_number())
            .finish()
    }
}

/// A place in line, given up when dropped: the one way out for pendings and guards alike.
pub(crate) struct Place {
    /// `None` once it has been given up.
    shared: Option<Arc<Shared>>,
    pub(crate) slot: u32,
}

impl Place {
    #[inline]
    pub(crate) fn new(shared: Arc<Shared>, slot: u32) -> Self {
        Place {
            shared: Some(shared),
            slot,
        }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        (self.shared.as_ref()).expect("a place is given up when it is dropped")
    }

    pub(crate) fn sequence_number(&self) -> u64 {
        self.shared().line.lock().sequence_of(self.slot)
    }

    pub(crate) fn poison(&self) {
        let wakers = self.shared().line.lock().poison(self.slot);
        wake_all(wakers.into_iter());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else {
            return;
        };
        let released = {
            let mut line = shared.line.lock();
            line.release(self.slot, shared.long_hold_threshold(), &shared.metrics)
        };
        released.settle_up(shared);
    }
}
