//! Time, for deadlines and pauses.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_timer::Delay;

/// What tells a client the time, and lets it pause.
pub trait Timer: fmt::Debug + Send + Sync + 'static {
    /// The time.
    fn now(&self) -> Instant;

    /// A future that ends after `pause`.
    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The system's time, and pauses on any executor: one thread, started at the first pause, wakes all.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemTimer;

impl Timer for SystemTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Delay::new(pause))
    }
}
