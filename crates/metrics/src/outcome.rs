//! How a request ended, and a counter for each way.

use crate::counter::Counter;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was served.
    Success,
    /// It was turned away before it latched anything: bad input, another range's key, overload.
    Refused,
    /// It was evaluated or proposed, and failed; nothing was applied.
    Failed,
    /// It was given up before it was proposed: cancelled, out of time, shut down. Nothing was applied.
    Cancelled,
    /// It was proposed, and whether it was or will be applied is not known.
    Ambiguous,
}

impl Outcome {
    /// All outcomes, in order.
    pub const ALL: [Outcome; 5] = [
        Outcome::Success,
        Outcome::Refused,
        Outcome::Failed,
        Outcome::Cancelled,
        Outcome::Ambiguous,
    ];

    /// The value of the label `outcome` in the exposition.
    pub const fn label(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
            Outcome::Ambiguous => "ambiguous",
        }
    }
}

/// A counter for each [`Outcome`].
///
/// Clones count together. All operations are O(1), without a lock.
#[derive(Clone, Debug, Default)]
pub struct Outcomes([Counter; Outcome::ALL.len()]);

impl Outcomes {
    /// The counter of one outcome.
    pub fn of(&self, outcome: Outcome) -> &Counter {
        &self.0[outcome as usize]
    }

    /// The count over all outcomes.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::value).sum()
    }
}
