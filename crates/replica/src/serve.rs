//! Whom a client sends its batches to: a store, or somebody who passes them on to one.

use std::future::{self, Future};

use spanset::Timestamp;

use crate::{Batch, Error, Latches, Reply, Store};

/// Serves batches: a [`Store`], or a way to one that is elsewhere.
pub trait Serve: Send + Sync + 'static {
    /// Serves a batch.
    ///
    /// # Errors
    ///
    /// As [`Store::send`]. From elsewhere also [`Error::NotLeader`] and [`Error::Unreachable`], if nobody was found who serves; and
    /// [`Error::Ambiguous`] if no answer came to a batch that can write.
    fn send(&self, batch: Batch) -> impl Future<Output = Result<Reply, Error>> + Send;

    /// A timestamp above that of each batch that was acknowledged before the call, at which a batch can read.
    ///
    /// # Errors
    ///
    /// Those of a batch that is empty. A store has none.
    fn now(&self) -> impl Future<Output = Result<Timestamp, Error>> + Send;
}

impl<L: Latches> Serve for Store<L> {
    fn send(&self, batch: Batch) -> impl Future<Output = Result<Reply, Error>> + Send {
        Store::send(self, batch)
    }

    fn now(&self) -> impl Future<Output = Result<Timestamp, Error>> + Send {
        future::ready(Ok(self.clock().now()))
    }
}
