//! The health check: which metrics are above what they should be, and whose.

use std::collections::BTreeMap;
use std::fmt;

use crate::catalogue;
use crate::def::{Def, Kind};
use crate::registry::{Metric, Registry};

/// Looks at tracked metrics and tells which are above their threshold.
///
/// A gauge alerts while it is above its minimum. A counter alerts when it has risen by more than
/// its minimum since the last look; the first look at a counter has nothing to compare with and
/// never alerts. The same holds for a counter that is seen again after an absence, or that is
/// lower than it was: it is another counter.
///
/// [`Default`] tracks `requests.slow.latch` and `requests.slow.raft` with minimum 0.
#[derive(Clone, Debug)]
pub struct Health {
    /// What is tracked, by name.
    tracked: BTreeMap<&'static str, Tracked>,
}

#[derive(Clone, Debug)]
struct Tracked {
    def: Def,
    minimum: u64,
    /// What the counters of each owner stood at at the last look.
    previous: BTreeMap<String, u64>,
}

/// A metric that is above its threshold.
///
/// Displayed as one line, such as `store-1: requests.slow.latch is 2, above 0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alert {
    /// Whose metric it is.
    pub owner: String,
    /// The name in the metric's definition.
    pub metric: &'static str,
    /// What it was found at.
    pub reading: Reading,
    /// What it should not be above.
    pub minimum: u64,
}

/// What a tracked metric was found at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reading {
    /// The value of a gauge.
    Value(u64),
    /// How much a counter has risen since the last look.
    Rise(u64),
}

/// A histogram has no single value to compare with a threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name:?} cannot be tracked: it has no single value")]
pub struct Untrackable {
    /// The metric.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
}

impl Health {
    /// Tracks nothing.
    pub fn new() -> Self {
        Self {
            tracked: BTreeMap::new(),
        }
    }

    /// Tracks one more metric: a gauge alerts above `minimum`, a counter when it rises by more
    /// than that between two looks. Tracking a metric again replaces its minimum and forgets what it stood at.
    ///
    /// # Errors
    ///
    /// If it is a histogram.
    pub fn track(&mut self, def: Def, minimum: u64) -> Result<(), Untrackable> {
        match def.kind {
            Kind::Counter | Kind::Gauge => {
                let tracked = Tracked {
                    def,
                    minimum,
                    previous: BTreeMap::new(),
                };
                self.tracked.insert(def.name, tracked);
                Ok(())
            }
            Kind::Histogram => Err(Untrackable {
                name: def.name,
                kind: def.kind,
            }),
        }
    }

    /// Looks at all tracked metrics, and returns the alerts sorted by owner, then by metric.
    /// O(n log n) in the tracked instances registered.
    pub fn check(&mut self, registry: &Registry) -> Vec<Alert> {
        let mut alerts: Vec<Alert> = self
            .tracked
            .values_mut()
            .flat_map(|tracked| tracked.check(registry))
            .collect();
        alerts.sort();
        alerts
    }
}

impl Default for Health {
    fn default() -> Self {
        let mut health = Self::new();
        for gauge in [
            catalogue::REQUESTS_SLOW_LATCH,
            catalogue::REQUESTS_SLOW_RAFT,
        ] {
            health.track(gauge, 0).expect("gauges can be tracked");
        }
        health
    }
}

impl Tracked {
    fn check(&mut self, registry: &Registry) -> Vec<Alert> {
        // What is not seen now is not carried over: an owner that comes back is new.
        let previous = std::mem::take(&mut self.previous);
        let mut alerts = Vec::new();
        for (owner, metric) in registry.instances(self.def) {
            let reading = match metric {
                Metric::Gauge(gauge) => Reading::Value(gauge.value().try_into().unwrap_or(0)),
                Metric::Counter(counter) => self.rise(&previous, owner, counter.value()),
                Metric::Outcomes(outcomes) => self.rise(&previous, owner, outcomes.total()),
                // `track` refuses its definition.
                Metric::Histogram(_) => continue,
            };
            if reading.amount() > self.minimum {
                alerts.push(Alert {
                    owner: owner.to_owned(),
                    metric: self.def.name,
                    reading,
                    minimum: self.minimum,
                });
            }
        }
        alerts
    }

    /// How much a counter that stands at `now` has risen; remembers where it stands.
    fn rise(&mut self, previous: &BTreeMap<String, u64>, owner: &str, now: u64) -> Reading {
        let before = previous.get(owner).copied().unwrap_or(now);
        self.previous.insert(owner.to_owned(), now);
        Reading::Rise(now.saturating_sub(before))
    }
}

impl Reading {
    fn amount(self) -> u64 {
        match self {
            Reading::Value(amount) | Reading::Rise(amount) => amount,
        }
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.owner.is_empty() {
            write!(f, "{}: ", self.owner)?;
        }
        let (metric, minimum) = (self.metric, self.minimum);
        match self.reading {
            Reading::Value(value) => write!(f, "{metric} is {value}, above {minimum}"),
            Reading::Rise(rise) => write!(
                f,
                "{metric} rose by {rise} since the last look, more than {minimum}"
            ),
        }
    }
}
