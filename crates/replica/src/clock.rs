//! The hybrid-logical clock: timestamps that follow physical time and never go back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use spanset::Timestamp;

use crate::Error;
use crate::timestamp_cache::after;

/// Where a [`Clock`] reads physical time.
pub trait TimeSource: Send + Sync + 'static {
    /// Nanoseconds since the Unix epoch. May stand still or go back; the clock does not.
    fn wall_nanos(&self) -> u64;
}

/// The operating system's real-time clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemSource;

impl TimeSource for SystemSource {
    fn wall_nanos(&self) -> u64 {
        // Before 1970 reads as 1970, after 2554 as 2554: the clock then counts logically.
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A time source that moves only when told to, for tests. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct ManualSource(Arc<AtomicU64>);

impl ManualSource {
    /// A source that stands at `wall` nanoseconds.
    pub fn at(wall: u64) -> Self {
        Self(Arc::new(AtomicU64::new(wall)))
    }

    /// Moves on by `by`.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Moves to `wall` nanoseconds, back if need be.
    pub fn set(&self, wall: u64) {
        self.0.store(wall, Ordering::Relaxed);
    }
}

impl TimeSource for ManualSource {
    fn wall_nanos(&self) -> u64 {
        // Relaxed: the time orders nothing but itself.
        self.0.load(Ordering::Relaxed)
    }
}

/// A hybrid-logical clock (Kulkarni et al., "Logical Physical Clocks", 2014).
///
/// - **Monotone**: each [`now`](Self::now) is above every earlier `now` and every timestamp that
///   the clock has heard of.
/// - **Close to physical time**: a foreign timestamp moves it at most `max_ahead` beyond physical
///   time ([`update`](Self::update)).
pub struct Clock {
    source: Box<dyn TimeSource>,
    max_ahead: Duration,
    /// The newest timestamp handed out or heard of. Nothing but arithmetic happens under it.
    latest: Mutex<Timestamp>,
}

impl Clock {
    /// How far ahead of physical time a request's timestamp may be, unless said otherwise.
    pub const DEFAULT_MAX_AHEAD: Duration = Duration::from_millis(500);

    /// A clock on the operating system's time, with the default bound.
    pub fn new() -> Self {
        Self::with_source(SystemSource, Self::DEFAULT_MAX_AHEAD)
    }

    /// A clock on `source` that accepts timestamps up to `max_ahead` ahead of it.
    pub fn with_source(source: impl TimeSource, max_ahead: Duration) -> Self {
        Self {
            source: Box::new(source),
            max_ahead,
            latest: Mutex::new(Timestamp::MIN),
        }
    }

    /// A timestamp above all that this clock has handed out or heard of. O(1).
    pub fn now(&self) -> Timestamp {
        let physical = Timestamp::new(self.source.wall_nanos(), 0);
        let mut latest = self.latest.lock();
        *latest = physical.max(after(*latest));
        *latest
    }

    /// Forwards the clock to a timestamp from outside, so that the next `now` is above it.
    ///
    /// # Errors
    ///
    /// [`Error::FutureTimestamp`] if it is further ahead of physical time than the bound allows; the
    /// clock then stays as it is.
    pub fn update(&self, timestamp: Timestamp) -> Result<(), Error> {
        if *self.latest.lock() >= timestamp {
            return Ok(());
        }
        let physical = self.source.wall_nanos();
        let max_ahead = u64::try_from(self.max_ahead.as_nanos()).unwrap_or(u64::MAX);
        if timestamp.wall > physical.saturating_add(max_ahead) {
            return Err(Error::FutureTimestamp {
                timestamp,
                physical: Timestamp::new(physical, 0),
                max_ahead: self.max_ahead,
            });
        }
        self.forward(timestamp);
        Ok(())
    }

    /// The newest timestamp handed out or heard of.
    pub(crate) fn latest(&self) -> Timestamp {
        *self.latest.lock()
    }

    /// Forwards the clock to a timestamp derived from its own, such as one pushed above a version.
    pub(crate) fn forward(&self, timestamp: Timestamp) {
        let mut latest = self.latest.lock();
        *latest = timestamp.max(*latest);
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("latest", &*self.latest.lock())
            .field("max_ahead", &self.max_ahead)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manual(wall: u64) -> (ManualSource, Clock) {
        let source = ManualSource::at(wall);
        let clock = Clock::with_source(source.clone(), Duration::from_nanos(50));
        (source, clock)
    }

    fn ts(wall: u64, logical: u32) -> Timestamp {
        Timestamp::new(wall, logical)
    }

    #[test]
    fn it_counts_logically_while_time_stands_still_or_goes_back() {
        let (source, clock) = manual(100);
        assert_eq!(clock.now(), ts(100, 0));
        assert_eq!(clock.now(), ts(100, 1));
        source.set(40);
        assert_eq!(clock.now(), ts(100, 2));
        source.set(101);
        assert_eq!(clock.now(), ts(101, 0));
    }

    #[test]
    fn a_foreign_timestamp_within_the_bound_moves_it() {
        let (_, clock) = manual(100);
        clock.update(ts(150, 7)).unwrap();
        assert_eq!(clock.now(), ts(150, 8));
    }

    #[test]
    fn a_foreign_timestamp_beyond_the_bound_is_refused_and_changes_nothing() {
        let (_, clock) = manual(100);
        let error = clock.update(ts(151, 0)).unwrap_err();
        assert!(
            matches!(error, Error::FutureTimestamp { timestamp, .. } if timestamp == ts(151, 0))
        );
        assert_eq!(clock.now(), ts(100, 0));
    }

    #[test]
    fn a_foreign_timestamp_in_the_past_changes_nothing() {
        let (_, clock) = manual(100);
        let now = clock.now();
        clock.update(ts(3, 3)).unwrap();
        assert_eq!(clock.now(), after(now));
    }

    #[test]
    fn a_full_logical_counter_carries_into_the_wall() {
        let (_, clock) = manual(100);
        clock.update(ts(120, u32::MAX)).unwrap();
        assert_eq!(clock.now(), ts(121, 0));
    }
}
