//! What has to outlive a store: the highest timestamp that it may serve, and the lowest that can be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spanset::Timestamp;
use tracing::debug;

use crate::{Collected, Engine, EngineError, Error};

/// The ceiling above which no timestamp is served before the engine remembers a higher one, and the threshold
/// below which none is read.
///
/// # Invariants
///
/// - *remembered*: the engine remembers a ceiling at or above `ceiling`, and a threshold at or above any that
///   it collects below.
#[derive(Debug)]
pub(crate) struct Horizon {
    /// Wall nanoseconds: all timestamps below may be served.
    ceiling: AtomicU64,
    /// Wall nanoseconds: no timestamp below can be read.
    threshold: AtomicU64,
    /// How far the ceiling is raised above what is served, in nanoseconds.
    step: u64,
    /// Held while the engine makes a mark durable, so that one of those who need it does.
    raising: Mutex<()>,
}

impl Horizon {
    pub(crate) fn new(engine: &dyn Engine, step: Duration) -> Self {
        let marks = engine.marks();
        Self {
            ceiling: AtomicU64::new(marks.ceiling.wall),
            threshold: AtomicU64::new(marks.threshold.wall),
            step: u64::try_from(step.as_nanos()).unwrap_or(u64::MAX),
            raising: Mutex::new(()),
        }
    }

    /// Returns once the engine remembers a ceiling that is not below `at`. O(1), but for once in a while, when
    /// it waits for the engine to do so.
    pub(crate) fn cover(&self, at: Timestamp, engine: &dyn Engine) -> Result<(), EngineError> {
        if self.covers(at.wall) {
            return Ok(());
        }
        self.raise(at.wall, engine)
    }

    /// Raises the ceiling in advance when half of the last step is used up.
    pub(crate) fn cover_ahead(
        &self,
        latest: Timestamp,
        engine: &dyn Engine,
    ) -> Result<(), EngineError> {
        if self.covers(latest.wall.saturating_add(self.step / 2)) {
            return Ok(());
        }
        self.raise(latest.wall.saturating_add(self.step / 2), engine)
    }

    fn covers(&self, wall: u64) -> bool {
        // Acquire, with the release in `raise`: who sees the ceiling comes after it was made durable.
        let ceiling = self.ceiling.load(Ordering::Acquire);
        wall < ceiling || ceiling == u64::MAX
    }

    fn raise(&self, wall: u64, engine: &dyn Engine) -> Result<(), EngineError> {
        let _one_at_a_time = self.raising.lock();
        if self.covers(wall) {
            return Ok(());
        }
        let ceiling = wall.saturating_add(self.step.max(1));
        let to = Timestamp::new(ceiling, 0);
        engine.raise_ceiling(to)?;
        debug!(%to, "raised");
        self.ceiling.store(ceiling, Ordering::Release);
        Ok(())
    }

    /// The lowest timestamp that can be read.
    pub(crate) fn threshold(&self) -> Timestamp {
        Timestamp::new(self.threshold.load(Ordering::Acquire), 0)
    }

    /// Refuses to read below the threshold.
    pub(crate) fn check(&self, timestamp: Timestamp) -> Result<(), Error> {
        let threshold = self.threshold();
        if timestamp < threshold {
            return Err(Error::BelowThreshold {
                timestamp,
                threshold,
            });
        }
        Ok(())
    }

    /// Raises the threshold to `wall`, and collects what is not seen from there on. Whoever has taken a snapshot
    /// that lacks some of it finds the higher threshold when it checks.
    pub(crate) fn collect(&self, wall: u64, engine: &dyn Engine) -> Result<Collected, EngineError> {
        self.threshold.fetch_max(wall, Ordering::AcqRel);
        engine.collect(self.threshold())
    }
}
