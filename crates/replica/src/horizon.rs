//! What has to outlive a store: the highest timestamp that it may serve, and the lowest that can be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spanset::Timestamp;
use tracing::debug;

use crate::replica::Shared;
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

    /// Whether `at` may be served. O(1).
    pub(crate) fn covers(&self, at: Timestamp) -> bool {
        self.covers_wall(at.wall)
    }

    /// Where in time the ceiling has to be in advance, if it is not there yet: when half of the last step is used up.
    pub(crate) fn lacks_ahead(&self, latest: Timestamp) -> Option<u64> {
        let wall = latest.wall.saturating_add(self.step / 2);
        (!self.covers_wall(wall)).then_some(wall)
    }

    /// Has the ceiling raised above `wall`, wherever it is remembered.
    pub(crate) async fn raise_above(&self, wall: u64, shared: &Shared) -> Result<(), Error> {
        match &shared.leadership {
            None => Ok(self.raise(wall, &*shared.engine)?),
            Some(leadership) => {
                let ceiling = self.next(wall);
                let to = Timestamp::new(ceiling, 0);
                leadership.raise_ceiling(to).await?;
                debug!(%to, "raised");
                // Others may have raised it meanwhile.
                self.ceiling.fetch_max(ceiling, Ordering::AcqRel);
                Ok(())
            }
        }
    }

    /// Where the ceiling is raised to, to be above `wall`.
    fn next(&self, wall: u64) -> u64 {
        wall.saturating_add(self.step.max(1))
    }

    fn covers_wall(&self, wall: u64) -> bool {
        // Acquire, with the release in `raise`: who sees the ceiling comes after it was made durable.
        let ceiling = self.ceiling.load(Ordering::Acquire);
        wall < ceiling || ceiling == u64::MAX
    }

    pub(crate) fn raise(&self, wall: u64, engine: &dyn Engine) -> Result<(), EngineError> {
        let _one_at_a_time = self.raising.lock();
        if self.covers_wall(wall) {
            return Ok(());
        }
        let ceiling = self.next(wall);
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

    /// Refuses to read below `wall` from now on.
    pub(crate) fn raise_threshold(&self, wall: u64) {
        self.threshold.fetch_max(wall, Ordering::AcqRel);
    }

    /// Raises the threshold to `wall`, and collects what is not seen from there on. Whoever has taken a snapshot
    /// that lacks some of it finds the higher threshold when it checks.
    pub(crate) fn collect(&self, wall: u64, engine: &dyn Engine) -> Result<Collected, EngineError> {
        self.raise_threshold(wall);
        engine.collect(self.threshold())
    }
}
