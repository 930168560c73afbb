//! A transaction, and the loop that retries it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use spanlatch_replica::{Serve, Store};
use spanset::Timestamp;

use crate::db::Client;
use crate::state::Shared;
use crate::{Attempt, AttemptId, Error, GaveUp, TxnError, TxnMetrics};

/// A transaction that is driven by hand: attempt by attempt, or with [`exec`](Self::exec).
pub struct Txn<S = Store> {
    shared: Arc<Shared<S>>,
}

impl<S: Serve> Txn<S> {
    pub(crate) fn new(client: Arc<Client<S>>, txn: u64) -> Self {
        Self {
            shared: Arc::new(Shared::new(client, txn)),
        }
    }

    /// The present attempt.
    pub fn attempt(&self) -> Attempt<S> {
        Attempt::present(&self.shared)
    }

    /// Commits the present attempt.
    ///
    /// # Errors
    ///
    /// [`Error::Retry`]: nothing was written, and [`restart`](Self::restart) begins another attempt.
    /// [`Error::Ambiguous`]: it may be committed. [`Error::Store`] and [`Error::Over`]: nothing was written.
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.attempt().commit().await
    }

    /// When the present attempt took place: what a transaction reads that begins after it was told is above. `None`
    /// if it is not committed, and if it neither read nor wrote.
    pub fn committed_at(&self) -> Option<Timestamp> {
        self.shared.committed_at()
    }

    /// Ends the present attempt; nothing that it did counts. Does nothing if it is over.
    pub fn rollback(&mut self) {
        self.attempt().rollback();
    }

    /// Begins another attempt, with nothing read and nothing written. Handles of earlier ones are refused.
    pub fn restart(&mut self) {
        self.shared.restart();
    }

    /// Runs `closure` on the present attempt, or on another if somebody has read or written with the present one
    /// before, and commits it; and does so again, with another attempt, as long as that
    /// helps and the [`Options`](crate::Options) allow it. Whatever the closure does besides reading and writing
    /// through its attempt, it may do several times.
    ///
    /// The attempt itself knows whether it can commit. So a closure that has met an [`Error::Retry`] of its attempt may
    /// return whatever it likes, also `Ok`: it is run again. And one that returns an error otherwise ends the
    /// transaction with it, even if it is an `Error::Retry` of somebody else. Nothing is prepared for errors, and
    /// none is looked at, as long as there is none: what `exec` costs beside the closure and the commit are two looks
    /// at the time and a few counters, and no allocation.
    ///
    /// If the future is dropped, nothing was written, unless the commit was under way.
    ///
    /// `async |txn| { .. }` is such a closure, unless it moves something into itself that its future borrows (Rust then
    /// calls it lending); `|txn| async move { .. }` with clones is another. With the trait `AsyncFn` in place of `Fn`,
    /// the future could not be sent to another thread where the closure borrows.
    ///
    /// # Errors
    ///
    /// The closure's; or, converted to its type, [`Error::GaveUp`] around the last `Error::Retry`,
    /// [`Error::Ambiguous`], [`Error::Store`], or [`Error::Over`] if the transaction was over before or the closure
    /// rolled it back. Never an `Error::Retry` of this transaction.
    pub async fn exec<T, E: TxnError, F: Future<Output = Result<T, E>>>(
        &mut self,
        closure: impl Fn(Attempt<S>) -> F,
    ) -> Result<T, E> {
        self.shared.renew();
        let options = &self.shared.client.options;
        let mut watch = Watch::start(&options.metrics, options.timer.now());
        let mut attempts = 0;
        loop {
            attempts += 1;
            options.metrics.attempts.inc();
            let attempt = self.attempt();
            let failure = match closure(attempt.clone()).await {
                Ok(value) => match attempt.commit().await {
                    Ok(()) => {
                        watch.commits(options.timer.now());
                        return Ok(value);
                    }
                    Err(failure) => failure,
                },
                Err(error) => match self.shared.failure() {
                    Some(failure) => failure,
                    None => {
                        attempt.rollback();
                        watch.aborts(options.timer.now());
                        return Err(with_earlier_wrapped(error, attempt.id()));
                    }
                },
            };
            let Error::Retry { reason, .. } = failure else {
                attempt.rollback();
                watch.aborts(options.timer.now());
                return Err(failure.into());
            };
            let pause = options.pause_after(attempts);
            let now = options.timer.now();
            let elapsed = now.saturating_duration_since(watch.started);
            let is_late = |deadline| elapsed.saturating_add(pause) >= deadline;
            let why = if attempts >= options.max_attempts {
                Some(GaveUp::Attempts)
            } else if options.deadline.is_some_and(is_late) {
                Some(GaveUp::Deadline)
            } else {
                None
            };
            if let Some(why) = why {
                attempt.rollback();
                watch.aborts(now);
                let last = Box::new(failure);
                return Err(Error::GaveUp {
                    attempts,
                    why,
                    last,
                }
                .into());
            }
            options.metrics.retries(reason).inc();
            options.metrics.paused.observe(pause);
            options.timer.sleep(pause).await;
            self.shared.restart();
        }
    }
}

/// A closure may return what an earlier attempt of its transaction failed with, although the last one did not: that
/// is told as what it is.
fn with_earlier_wrapped<E: TxnError>(error: E, last: AttemptId) -> E {
    match error.as_txn_error() {
        Some(own) if own.retries().is_some_and(|id| id.txn == last.txn) => {
            Error::Earlier(Box::new(own.clone())).into()
        }
        _ => error,
    }
}

impl<S> fmt::Debug for Txn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Txn").field(&self.shared.id()).finish()
    }
}

/// Counts how a transaction ended, wherever it ends: if nothing is said, as given up by its caller.
struct Watch<'a> {
    metrics: &'a TxnMetrics,
    started: Instant,
    is_counted: bool,
}

impl<'a> Watch<'a> {
    fn start(metrics: &'a TxnMetrics, now: Instant) -> Self {
        Self {
            metrics,
            started: now,
            is_counted: false,
        }
    }

    fn commits(&mut self, now: Instant) {
        self.is_counted = true;
        self.metrics.commits.inc();
        let elapsed = now.saturating_duration_since(self.started);
        self.metrics.committed_after.observe(elapsed);
    }

    fn aborts(&mut self, now: Instant) {
        self.is_counted = true;
        self.metrics.aborts.inc();
        let elapsed = now.saturating_duration_since(self.started);
        self.metrics.aborted_after.observe(elapsed);
    }
}

/// Counts an abort, without a time, if the caller has gone.
impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.is_counted {
            self.metrics.aborts.inc();
        }
    }
}
