//! The same interface on a model checker's primitives.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Instant;

#[cfg(loom)]
use loom::{sync, thread};
#[cfg(shuttle)]
use shuttle::{sync, thread};

pub(crate) use sync::atomic::{AtomicU64, Ordering};
pub(crate) use thread::{Thread, current, park};

/// None: the checker chooses who goes on wherever a thread looks.
pub(crate) fn spins() -> impl Iterator<Item = ()> {
    std::iter::empty()
}

/// As `parking_lot`'s: a panic while it is locked does not poison it.
#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Absent only within [`bump`](Self::bump).
    guard: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard {
            mutex: self,
            guard: Some(guard),
        }
    }
}

impl<T> MutexGuard<'_, T> {
    /// Unlocks and locks again: others get a turn.
    pub(crate) fn bump(this: &mut Self) {
        this.guard = None;
        *this = this.mutex.lock();
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("locked")
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// There is no time here. Whether the deadline comes first is chosen at random, and a thread whose deadline does not
/// come is parked for good, so that a wake-up that is lost shows as a deadlock.
#[cfg(shuttle)]
pub(crate) fn park_until(_: Instant) -> bool {
    use shuttle::rand::{Rng, thread_rng};

    let unparked_first = thread_rng().gen_bool(0.5);
    if unparked_first {
        park();
    }
    unparked_first
}

/// There is no time here. The deadline comes at once; what others do before is for loom to choose.
#[cfg(loom)]
pub(crate) fn park_until(_: Instant) -> bool {
    false
}
