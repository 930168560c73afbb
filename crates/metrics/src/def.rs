//! What is said about a metric: name, help, unit and kind, stated once.

use std::fmt;

/// The definition of a metric.
///
/// Plain data, meant for a `const`: see [`catalogue`](crate::catalogue). What a definition must
/// satisfy is checked when it is [registered](crate::Registry::register).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Def {
    /// Words of `a-z` and `0-9` joined by dots, from the general to the particular, without unit:
    /// `requests.slow.latch`.
    pub name: &'static str,
    /// One line for the person who reads the exposition.
    pub help: &'static str,
    /// What is counted or measured.
    pub unit: Unit,
    /// How it behaves.
    pub kind: Kind,
}

/// The unit of a metric; it becomes the last word of the exposed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain number of things.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only ever rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// A distribution of durations.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        })
    }
}

/// Last words that OpenMetrics appends itself to the names of samples; a name that ended in one
/// could be taken for a sample of another metric.
const RESERVED: [&str; 8] = [
    "bucket", "bytes", "count", "created", "info", "seconds", "sum", "total",
];

impl Def {
    /// Whether the name is as [`Def::name`] says, and does not end in a word that OpenMetrics appends itself.
    pub(crate) fn has_valid_name(&self) -> bool {
        let word = |w: &str| {
            !w.is_empty()
                && w.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        self.name.starts_with(|c: char| c.is_ascii_lowercase())
            && self.name.split('.').all(word)
            && !self
                .name
                .rsplit('.')
                .next()
                .is_some_and(|last| RESERVED.contains(&last))
    }

    /// The name in the exposition, without the unit and suffixes: dots become underscores.
    ///
    /// Valid names hold no underscore, so that different names stay different.
    pub(crate) fn exposed_name(&self) -> String {
        self.name.replace('.', "_")
    }
}
