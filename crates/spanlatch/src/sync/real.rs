//! What everybody uses.

use std::time::Instant;

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::thread::{Thread, current, park};

pub(crate) use parking_lot::{Mutex, MutexGuard};

/// How often a thread looks again before it parks: after 1, 2, 4 and so on up to 32 pauses of the processor,
/// some 1 to 3 us together, where parking and being woken takes 10 us and more.
const SPINS: u32 = 6;

/// Pauses, shortly at first, before each item.
pub(crate) fn spins() -> impl Iterator<Item = ()> {
    (0..SPINS).map(|round| (0..1 << round).for_each(|_| std::hint::spin_loop()))
}

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
