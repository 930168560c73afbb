//! What a store asks of the group that replicates it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use spanset::Timestamp;

use crate::Error;

/// The right to serve, for a store that is one of several replicas. The store was built when this replica began to
/// lead, and is shut down when it has stopped; in between, others may have begun without its knowing. So it asks.
pub trait Leadership: fmt::Debug + Send + Sync + 'static {
    /// Resolves when it is known that no other replica had begun to lead when this was called, and when all that was
    /// acknowledged by then has been applied here. Asked under a batch's latches, before it is evaluated.
    ///
    /// # Errors
    ///
    /// [`Error::NotLeader`], or why it cannot be known.
    fn confirm(&self) -> Leading;

    /// Resolves when the engines of whoever may lead next have raised their ceiling to `to`, by a command of this
    /// leadership.
    ///
    /// # Errors
    ///
    /// [`Error::NotLeader`], or why it cannot be known whether they have.
    fn raise_ceiling(&self, to: Timestamp) -> Leading;
}

/// An answer of a [`Leadership`].
pub type Leading = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;
