//! What a replica asks of a storage engine.

use std::error;
use std::fmt;
use std::sync::Arc;

use spanset::Reader;

use crate::{Version, WriteBatch};

mod mem;

pub use mem::MemEngine;

/// A multi-version storage engine, shared by the replicas of a store.
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// A view of all that has been applied so far, which later batches do not change.
    fn snapshot(&self) -> Snapshot;

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
    /// Whatever the engine says; which of the batches have been applied is then unknown.
    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError>;
}

/// A view of an engine's content at one moment.
///
/// As of a timestamp, each key that has a version at or below it has the newest such version, a
/// deletion ([`Version::value`] is `None`) as any other. As of no timestamp, it has its newest version.
pub type Snapshot = Box<dyn Reader<Value = Version, Error = EngineError> + Send>;

/// A failure of a storage engine, in its own words.
#[derive(Debug, Clone, thiserror::Error)]
#[error("storage engine: {0}")]
pub struct EngineError(Arc<dyn error::Error + Send + Sync>);

impl EngineError {
    /// Wraps the engine's own error.
    pub fn new(error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }
}
