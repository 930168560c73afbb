//! What transactions report.

use spanlatch_metrics::{Counter, Def, Histogram, Kind, RegisterError, Registry, Unit};

use crate::Reason;

const ATTEMPTS: Def = Def {
    name: "txn.attempts",
    help: "Attempts of transactions, first ones included",
    unit: Unit::Count,
    kind: Kind::Counter,
};

const RETRIES: [Def; Reason::ALL.len()] = [
    Def {
        name: "txn.retries.busy",
        help: "Attempts made again because the store was busy or not reached",
        unit: Unit::Count,
        kind: Kind::Counter,
    },
    Def {
        name: "txn.retries.changed",
        help: "Attempts made again because what they had read was changed",
        unit: Unit::Count,
        kind: Kind::Counter,
    },
    Def {
        name: "txn.retries.aborted",
        help: "Attempts made again because the versions that they read were collected",
        unit: Unit::Count,
        kind: Kind::Counter,
    },
];

const COMMITS: Def = Def {
    name: "txn.commits",
    help: "Transactions that were committed",
    unit: Unit::Count,
    kind: Kind::Counter,
};

const ABORTS: Def = Def {
    name: "txn.aborts",
    help: "Transactions that ended without being committed, or not knowing whether they are",
    unit: Unit::Count,
    kind: Kind::Counter,
};

const COMMITTED_AFTER: Def = Def {
    name: "txn.commit.duration",
    help: "How long committed transactions took, all attempts and pauses together",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
};

const ABORTED_AFTER: Def = Def {
    name: "txn.abort.duration",
    help: "How long transactions took that were not committed, all attempts and pauses together",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
};

const PAUSED: Def = Def {
    name: "txn.pause",
    help: "Pauses before another attempt",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
};

/// What the transactions of a client report together. Clones report together; the default set is registered
/// nowhere.
#[derive(Debug, Clone, Default)]
pub struct TxnMetrics {
    /// Attempts, first ones included.
    pub attempts: Counter,
    retries: [Counter; Reason::ALL.len()],
    /// Transactions that were committed.
    pub commits: Counter,
    /// Transactions that ended in another way.
    pub aborts: Counter,
    /// How long committed transactions took, all attempts together.
    pub committed_after: Histogram,
    /// How long the others took.
    pub aborted_after: Histogram,
    /// Pauses before another attempt.
    pub paused: Histogram,
}

impl TxnMetrics {
    /// Attempts that were made again for a reason.
    pub fn retries(&self, reason: Reason) -> &Counter {
        &self.retries[reason as usize]
    }

    /// Exports the whole set under the name of `owner`.
    ///
    /// # Errors
    ///
    /// As [`Registry::register`]; the metrics registered before the one that failed stay.
    pub fn register(&self, registry: &mut Registry, owner: &str) -> Result<(), RegisterError> {
        registry.register(ATTEMPTS, owner, self.attempts.clone())?;
        for (def, counter) in RETRIES.into_iter().zip(&self.retries) {
            registry.register(def, owner, counter.clone())?;
        }
        registry.register(COMMITS, owner, self.commits.clone())?;
        registry.register(ABORTS, owner, self.aborts.clone())?;
        registry.register(COMMITTED_AFTER, owner, self.committed_after.clone())?;
        registry.register(ABORTED_AFTER, owner, self.aborted_after.clone())?;
        registry.register(PAUSED, owner, self.paused.clone())
    }
}
