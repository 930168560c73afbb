//! A client of a store.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spanlatch_replica::{Batch, Request, Response, Serve, Store, Value};
use spanset::{Key, Span};

use crate::{Attempt, AttemptId, Error, GaveUp, Options, Txn, TxnError};

/// A client of a [`Store`], or of whatever else [serves](Serve) batches. Clones are handles to the same client.
///
/// Its own operations are transactions of one operation each: linearizable, and tried again when the store is busy.
pub struct Db<S = Store> {
    client: Arc<Client<S>>,
}

/// What the transactions of a client share.
pub(crate) struct Client<S> {
    pub(crate) store: S,
    pub(crate) options: Options,
    /// How many transactions were begun.
    txns: AtomicU64,
}

impl<S: Serve> Db<S> {
    /// A client with the default options.
    pub fn new(store: S) -> Self {
        Self::with_options(store, Options::default())
    }

    /// A client.
    pub fn with_options(store: S, options: Options) -> Self {
        Self {
            client: Arc::new(Client {
                store,
                options,
                txns: AtomicU64::new(0),
            }),
        }
    }

    /// Runs `closure` as a transaction: as [`Txn::exec`].
    ///
    /// # Errors
    ///
    /// As [`Txn::exec`].
    pub async fn txn<T, E: TxnError, F: Future<Output = Result<T, E>>>(
        &self,
        closure: impl Fn(Attempt<S>) -> F,
    ) -> Result<T, E> {
        self.begin().exec(closure).await
    }

    /// A transaction to be driven by hand.
    pub fn begin(&self) -> Txn<S> {
        Txn::new(self.client.clone(), self.client.next_txn())
    }

    /// What `key` holds.
    ///
    /// # Errors
    ///
    /// [`Error::Store`]; [`Error::GaveUp`] if the store stays busy.
    pub async fn get(&self, key: impl Into<Key>) -> Result<Option<Value>, Error> {
        let key = key.into();
        match self.send(|| Request::get(key.clone()).into()).await? {
            Some(Response::Value(value)) => Ok(value),
            other => unreachable!("a get is answered by a value, not {other:?}"),
        }
    }

    /// Writes `value` to `key`.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get); and [`Error::Ambiguous`].
    pub async fn put(&self, key: impl Into<Key>, value: impl Into<Value>) -> Result<(), Error> {
        let (key, value) = (key.into(), value.into());
        let put = || Request::put(key.clone(), value.clone()).into();
        self.send(put).await.map(|_| ())
    }

    /// Writes that `key` holds nothing.
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub async fn delete(&self, key: impl Into<Key>) -> Result<(), Error> {
        let key = key.into();
        let delete = || Request::delete(key.clone()).into();
        self.send(delete).await.map(|_| ())
    }

    /// The rows of `span`, ascending, `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn scan(&self, span: Span, limit: usize) -> Result<Vec<(Key, Value)>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let scan = || Request::scan(span.clone()).limited(limit).into();
        match self.send(scan).await? {
            Some(Response::Rows { rows, .. }) => Ok(rows),
            other => unreachable!("a scan is answered by rows, not {other:?}"),
        }
    }

    /// Whom it sends its batches to.
    pub fn store(&self) -> &S {
        &self.client.store
    }

    /// Sends a batch of one request until the store is not too busy for it, and returns the response.
    async fn send(&self, batch: impl Fn() -> Batch) -> Result<Option<Response>, Error> {
        let options = &self.client.options;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let cause = match self.client.store.send(batch()).await {
                Ok(reply) => return Ok(reply.responses.into_iter().next()),
                Err(cause) => cause,
            };
            let (txn, attempt) = (self.client.next_txn(), attempts);
            let failure = Error::of(AttemptId { txn, attempt }, cause);
            if failure.retries().is_none() {
                return Err(failure);
            }
            if attempts >= options.max_attempts {
                let (why, last) = (GaveUp::Attempts, Box::new(failure));
                return Err(Error::GaveUp {
                    attempts,
                    why,
                    last,
                });
            }
            options.timer.sleep(options.pause_after(attempts)).await;
        }
    }
}

impl<S> Client<S> {
    fn next_txn(&self) -> u64 {
        // Relaxed: numbers only have to differ.
        self.txns.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl<S> Clone for Db<S> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Db<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("client", &self.client).finish()
    }
}

impl<S: fmt::Debug> fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("store", &self.store)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
