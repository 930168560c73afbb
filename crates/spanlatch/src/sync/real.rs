//! What everybody uses.

use std::time::Instant;

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::thread::{Thread, current, park};

pub(crate) use parking_lot::{Mutex, MutexGuard};

/// Parks the thread until it is unparked or `deadline` comes; it may return early. False, at once, if `deadline` has
/// passed.
pub(crate) fn park_until(deadline: Instant) -> bool {
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => {
            std::thread::park_timeout(left);
            true
        }
        _ => false,
    }
}
