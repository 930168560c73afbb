//! The proposals whose fate is not known yet, and which of them take long.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use slab::Slab;
use spanlatch_metrics::{GaugeShare, ReplicaMetrics};
use tracing::warn;

/// All proposals in flight of a store.
///
/// No clock is read when a proposal is made or ends: how long it has been in flight is counted from the first
/// tick that sees it.
pub(crate) struct Flights {
    pending: GaugeShare,
    slow: GaugeShare,
    slow_threshold: Duration,
    stuck_threshold: Duration,
    /// Insertions, removals and looks at every entry, and nothing else, happen under it.
    entries: Mutex<Slab<Entry>>,
}

struct Entry {
    flight: Arc<dyn Flying>,
    /// When a tick first saw it.
    since: Option<Instant>,
    /// Whether it is counted as slow, and whether as stuck.
    slow: bool,
    stuck: bool,
}

/// A flight without the type of its latches, as the one who looks after all of them sees it.
pub(crate) trait Flying: Send + Sync {
    /// It has been in flight for so long.
    fn is_slow(&self, elapsed: Duration);

    /// It has been in flight for so long that others should not wait for it.
    fn is_stuck(&self, elapsed: Duration);
}

impl Flights {
    /// How many slow proposals a tick logs one by one.
    const NAMED: usize = 4;

    pub(crate) fn new(
        metrics: &ReplicaMetrics,
        slow_threshold: Duration,
        stuck_threshold: Duration,
    ) -> Self {
        Self {
            pending: metrics.proposals_pending.share(),
            slow: metrics.slow_raft.share(),
            slow_threshold,
            stuck_threshold,
            entries: Mutex::default(),
        }
    }

    /// Adds one, and returns the place that it is [removed](Self::remove) from. O(1).
    pub(crate) fn add(&self, flight: Arc<dyn Flying>) -> usize {
        self.pending.inc();
        self.entries.lock().insert(Entry {
            flight,
            since: None,
            slow: false,
            stuck: false,
        })
    }

    /// Removes one that has ended. O(1).
    pub(crate) fn remove(&self, place: usize) {
        let entry = self.entries.lock().remove(place);
        self.pending.dec();
        if entry.slow {
            self.slow.dec();
        }
    }

    /// Looks at each: whether it has become slow, or stuck, since the last tick. O(proposals in flight).
    pub(crate) fn tick(&self, now: Instant) {
        let mut slow = Vec::new();
        let mut stuck = Vec::new();
        {
            let mut entries = self.entries.lock();
            for (_, entry) in entries.iter_mut() {
                let since = *entry.since.get_or_insert(now);
                let elapsed = now.saturating_duration_since(since);
                if elapsed >= self.slow_threshold && !mem::replace(&mut entry.slow, true) {
                    // Under the mutex, so that it is not lowered before.
                    self.slow.inc();
                    slow.push((entry.flight.clone(), elapsed));
                }
                if elapsed >= self.stuck_threshold && !mem::replace(&mut entry.stuck, true) {
                    stuck.push((entry.flight.clone(), elapsed));
                }
            }
        }
        for (flight, elapsed) in slow.iter().take(Self::NAMED) {
            flight.is_slow(*elapsed);
        }
        if let Some(more @ 1..) = slow.len().checked_sub(Self::NAMED) {
            warn!(more, "slow proposals");
        }
        for (flight, elapsed) in stuck {
            flight.is_stuck(elapsed);
        }
    }
}
