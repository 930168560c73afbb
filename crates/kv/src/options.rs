//! How often, how long and how hurriedly a transaction is tried.

use std::sync::Arc;
use std::time::Duration;

use crate::{SystemTimer, Timer, TxnMetrics};

/// How often, how long and how hurriedly a transaction is tried; and where it reports.
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    pub(crate) max_attempts: u32,
    pub(crate) deadline: Option<Duration>,
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) metrics: TxnMetrics,
}

impl Default for Options {
    /// At most 100 attempts, without a deadline, with pauses up to 1 ms before the second, then doubled up to 256 ms.
    fn default() -> Self {
        Self {
            max_attempts: 100,
            deadline: None,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(256),
            timer: Arc::new(SystemTimer),
            metrics: TxnMetrics::default(),
        }
    }
}

impl Options {
    /// How many attempts are made at most; at least one is.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// How long after its beginning a transaction may still begin another attempt. An attempt that is under way goes
    /// on.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The bounds of the pause between attempts: up to `first` before the second, twice as long before each further
    /// one, `longest` at most. Each pause is chosen at random between half of its bound and the bound, so that those
    /// who met do not meet again.
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.first_pause = first;
        self.longest_pause = longest;
        self
    }

    /// What tells the time, for tests or for the timer of a runtime.
    pub fn timer(mut self, timer: impl Timer) -> Self {
        self.timer = Arc::new(timer);
        self
    }

    /// Where transactions are counted and measured. Default: nowhere that anybody looks.
    pub fn metrics(mut self, metrics: TxnMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// The pause after attempt `attempt` (from 1), with its jitter.
    pub(crate) fn pause_after(&self, attempt: u32) -> Duration {
        let doubled = 1u32.checked_shl(attempt.saturating_sub(1));
        let bound = doubled
            .and_then(|factor| self.first_pause.checked_mul(factor))
            .map_or(self.longest_pause, |pause| pause.min(self.longest_pause));
        let half = bound / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        half + Duration::from_nanos(fastrand::u64(0..=nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_keep_within_half_of_their_bound() {
        let ms = Duration::from_millis;
        let options = Options::default().pauses(ms(2), ms(20));
        for (attempt, bound) in [
            (1, 2),
            (2, 4),
            (3, 8),
            (4, 16),
            (5, 20),
            (33, 20),
            (500, 20),
        ] {
            for _ in 0..50 {
                let pause = options.pause_after(attempt);
                assert!(
                    ms(bound) / 2 <= pause && pause <= ms(bound),
                    "{attempt}: {pause:?}"
                );
            }
        }
    }

    #[test]
    fn no_bound_is_too_long() {
        let options = Options::default().pauses(Duration::MAX, Duration::MAX);
        for attempt in [1, 2, u32::MAX] {
            assert!(options.pause_after(attempt) >= Duration::MAX / 2);
        }
    }
}
