//! Holding latches, and letting go of them.

use std::fmt;
use std::sync::Arc;

use crate::latch::RequestId;
use crate::manager::Shared;

/// All spans of a request, held.
///
/// Dropping it releases them and wakes those who are parked on them. The drop takes the manager's mutex
/// and never fails; it happens as well when a panic unwinds. A guard may be sent to another thread
/// and outlive every handle of its manager.
#[must_use = "dropping a guard releases its latches at once"]
pub struct Guard {
    place: Place,
}

impl Guard {
    pub(crate) fn new(place: Place) -> Self {
        Guard { place }
    }

    /// The request's number in sequence order: of two requests of one manager, the one sequenced
    /// first has the smaller.
    pub fn sequence_number(&self) -> u64 {
        self.place.id.sequence
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
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: RequestId,
}

impl Place {
    pub(crate) fn new(shared: Arc<Shared>, id: RequestId) -> Self {
        Place { shared, id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Shared { line, metrics, .. } = &*self.shared;
        let released = {
            let mut line = line.lock();
            line.release(self.id, self.shared.long_hold_threshold(), metrics)
        };
        released.settle_up();
    }
}
