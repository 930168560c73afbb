//! How many requests are in flight, and whether more are admitted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::Error;

/// Counts the requests in flight, up to a limit. What a caller has left behind counts, too, until its
/// proposal ends: so what is in flight is bounded however many callers come and go.
#[derive(Debug)]
pub(crate) struct Admission {
    in_flight: AtomicUsize,
    limit: usize,
    closed: AtomicBool,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            limit,
            closed: AtomicBool::new(false),
        }
    }

    /// Admits a request, unless there are too many or the store is shutting down. O(1).
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit<'_>, Error> {
        if self.is_closed() {
            return Err(Error::ShuttingDown);
        }
        // Relaxed: the count orders nothing but itself.
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(self);
        if before >= self.limit {
            let limit = self.limit;
            return Err(Error::TooManyRequests { limit });
        }
        Ok(permit)
    }

    /// Admits no more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// One request in flight, until it is dropped.
#[must_use]
pub(crate) struct Permit<'a>(&'a Arc<Admission>);

impl Permit<'_> {
    /// The same permit, for what outlives the caller.
    pub(crate) fn into_owned(self) -> OwnedPermit {
        let owned = OwnedPermit(self.0.clone());
        std::mem::forget(self);
        owned
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// As [`Permit`].
#[must_use]
pub(crate) struct OwnedPermit(Arc<Admission>);

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_counts_once_however_it_ends() {
        let admission = Arc::new(Admission::new(2));
        let one = admission.admit().unwrap();
        let two = admission.admit().unwrap().into_owned();
        let refused = admission.admit().map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::TooManyRequests { limit: 2 }));
        drop(two);
        let three = admission.admit().unwrap();
        drop((one, three));
        assert_eq!(admission.in_flight.load(Ordering::Relaxed), 0);
        admission.close();
        let refused = admission.admit().map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::ShuttingDown));
    }
}
