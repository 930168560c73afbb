//! What a replica asks of a storage engine.

use std::error;
use std::fmt;
use std::sync::Arc;

use spanset::{Reader, Timestamp};

use crate::{Version, WriteBatch};

#[cfg(feature = "fjall")]
mod fjall;
mod mem;
mod records;

#[cfg(feature = "fjall")]
pub use fjall::{FjallEngine, FjallError};
pub use mem::MemEngine;
pub use records::Records;

/// A multi-version storage engine, shared by the replicas of a store.
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// A view of all that has been applied so far, which nothing that comes later changes.
    ///
    /// # Errors
    ///
    /// Whatever the engine says; nothing was read then.
    fn snapshot(&self) -> Result<Snapshot, EngineError>;

    /// Applies batches. Each is seen by later snapshots as a whole or not at all; if the call
    /// returns `Ok`, all of them are.
    ///
    /// Once it has ended, with or without an error, or by a panic, nothing of `group` is applied later.
    /// So after an error the fate of each batch is settled, only not known, and its latches can be
    /// released: whoever gets them sees in the next snapshot what came of it. While something may still
    /// be applied, the call does not return.
    ///
    /// # Errors
    ///
    /// Whatever the engine says; which of the batches have been applied is then unknown, unless it
    /// [refuses](EngineError::refused) all of them.
    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError>;

    /// What has to outlive the store, as last raised, by this store or an earlier one.
    fn marks(&self) -> Marks;

    /// Raises the ceiling to `to`, if it is lower. When the call returns `Ok`, the engine will remember it.
    ///
    /// # Errors
    ///
    /// Whatever the engine says; which ceiling it will remember is then unknown.
    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError>;

    /// Raises the threshold to `threshold`, if it is lower, so that the engine will remember it, and then
    /// removes all versions that reads from the threshold on do not see: of each key those below its newest
    /// version at or below the threshold, and that one too if it is a deletion. Snapshots taken before keep
    /// what they show. Other calls may go on at the same time.
    ///
    /// # Errors
    ///
    /// Whatever the engine says; some of the versions may then be left.
    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError>;
}

/// What an engine remembers for the stores that come after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// No timestamp above it has been served. [`Timestamp::MAX`] if nothing outlives the store.
    pub ceiling: Timestamp,
    /// Reads below it may miss versions that were collected.
    pub threshold: Timestamp,
}

/// What became of old versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// How many were removed.
    pub versions: u64,
}

/// Chooses what to collect, of versions that it meets in the order of engines: keys ascending, of each the newest first.
///
/// In the order in which it says so they can be removed one by one: what hides older versions goes after them. So
/// whoever takes a snapshot meanwhile, or finds what an interrupted collection has left, sees from the threshold on
/// what was there before.
#[derive(Debug)]
pub(crate) struct Collector<K> {
    threshold: Timestamp,
    /// The key whose newest version at or below the threshold has been met.
    settled: Option<K>,
    /// That version, if it is a deletion, which has to go when all below it is gone.
    deletion: Option<Timestamp>,
}

impl<K: PartialEq> Collector<K> {
    pub(crate) fn new(threshold: Timestamp) -> Self {
        Self {
            threshold,
            settled: None,
            deletion: None,
        }
    }

    /// Meets the next version.
    pub(crate) fn meet(
        &mut self,
        key: K,
        version: &Version,
        mut remove: impl FnMut(&K, Timestamp),
    ) {
        if version.timestamp > self.threshold {
            return;
        }
        if self.settled.as_ref() == Some(&key) {
            return remove(&key, version.timestamp);
        }
        self.end(remove);
        self.settled = Some(key);
        self.deletion = version.value.is_none().then_some(version.timestamp);
    }

    /// There are no more.
    pub(crate) fn end(&mut self, mut remove: impl FnMut(&K, Timestamp)) {
        if let (Some(key), Some(deletion)) = (&self.settled, self.deletion.take()) {
            remove(key, deletion);
        }
    }
}

/// A view of an engine's content at one moment.
///
/// As of a timestamp, each key that has a version at or below it has the newest such version, a
/// deletion ([`Version::value`] is `None`) as any other. As of no timestamp, it has its newest version.
pub type Snapshot = Box<dyn Reader<Value = Version, Error = EngineError> + Send>;

/// A failure of a storage engine, in its own words; those are all that is left of it where it was sent to somebody else.
#[derive(Debug, Clone, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "Words", into = "Words")
)]
#[error("storage engine: {error}")]
pub struct EngineError {
    error: Arc<dyn error::Error + Send + Sync>,
    refused: bool,
}

impl EngineError {
    /// Wraps the engine's own error. What it was asked for may have been done, in part or as a whole.
    pub fn new(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self {
            error: Arc::from(error.into()),
            refused: false,
        }
    }

    /// Wraps the engine's own error. Nothing of what it was asked for has been done, or will be.
    pub fn refused(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self {
            refused: true,
            ..Self::new(error)
        }
    }

    /// Whether nothing of what the engine was asked for has been done, or will be.
    pub fn is_refusal(&self) -> bool {
        self.refused
    }

    /// The engine's own error.
    pub fn error(&self) -> &(dyn error::Error + Send + Sync + 'static) {
        &*self.error
    }
}

/// An [`EngineError`] as it is written and read.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Words {
    error: String,
    refused: bool,
}

#[cfg(feature = "serde")]
impl From<EngineError> for Words {
    fn from(error: EngineError) -> Self {
        Self {
            error: error.error.to_string(),
            refused: error.refused,
        }
    }
}

#[cfg(feature = "serde")]
impl From<Words> for EngineError {
    fn from(words: Words) -> Self {
        Self {
            refused: words.refused,
            ..Self::new(words.error)
        }
    }
}

#[cfg(test)]
mod tests;
