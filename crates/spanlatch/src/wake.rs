//! Calling wakers, which are foreign code and may panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;
use std::thread;

/// Wakes all, in order, even if a waker panics. The first panic then goes on, unless the thread is
/// unwinding already.
pub(crate) fn wake_all(wakers: impl Iterator<Item = Waker>) {
    let mut panic = None;
    for waker in wakers {
        let woken = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        panic = panic.or(woken.err());
    }
    if let Some(panic) = panic
        && !thread::panicking()
    {
        resume_unwind(panic);
    }
}
