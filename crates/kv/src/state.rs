//! What a transaction and the handles of its attempts share.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use spanlatch_replica::{Batch, Request};
use spanset::{Span, Timestamp};

use crate::buffer::Buffer;
use crate::db::Client;
use crate::{AttemptId, Error};

/// A transaction, as its handles see it: one allocation, whatever the number of attempts.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    pub(crate) client: Arc<Client<S>>,
    /// Lists are extended and maps looked up under it, and nothing is sent.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The present attempt.
    id: AttemptId,
    phase: Phase,
    /// When the attempt reads; chosen by its first read.
    read_at: Option<Timestamp>,
    /// What it has read from the store.
    reads: Vec<Span>,
    buffer: Buffer,
    /// When it took place, once it is committed.
    committed_at: Option<Timestamp>,
    /// Why it cannot commit, if it cannot: always a [`Error::Retry`] of the present attempt.
    failure: Option<Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Active,
    /// Its commit was sent; if nobody waited for the answer, for ever.
    Committing,
    Over,
}

impl<S> Shared<S> {
    pub(crate) fn new(client: Arc<Client<S>>, txn: u64) -> Self {
        let id = AttemptId { txn, attempt: 1 };
        Self {
            client,
            state: Mutex::new(State {
                id,
                phase: Phase::Active,
                read_at: None,
                reads: Vec::new(),
                buffer: Buffer::default(),
                committed_at: None,
                failure: None,
            }),
        }
    }

    pub(crate) fn store(&self) -> &S {
        &self.client.store
    }

    /// The present attempt.
    pub(crate) fn id(&self) -> AttemptId {
        self.state.lock().id
    }

    /// Why the present attempt cannot commit, if it cannot.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state.lock().failure.clone()
    }

    /// When attempt `id` reads, if it has read before.
    pub(crate) fn reads_at(&self, id: AttemptId) -> Result<Option<Timestamp>, Error> {
        let state = self.state.lock();
        state.check(id)?;
        Ok(state.read_at)
    }

    /// When attempt `id` reads: `now`, unless another of its reads was first.
    pub(crate) fn read_at(&self, id: AttemptId, now: Timestamp) -> Result<Timestamp, Error> {
        let mut state = self.state.lock();
        state.check(id)?;
        Ok(*state.read_at.get_or_insert(now))
    }

    /// Does something with what attempt `id` has written.
    pub(crate) fn buffer<T>(
        &self,
        id: AttemptId,
        with: impl FnOnce(&mut Buffer) -> T,
    ) -> Result<T, Error> {
        let mut state = self.state.lock();
        state.check(id)?;
        Ok(with(&mut state.buffer))
    }

    /// Notes that attempt `id` has read `spans`, before anybody learns what was read.
    pub(crate) fn note_reads(
        &self,
        id: AttemptId,
        spans: impl IntoIterator<Item = Span>,
    ) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.check(id)?;
        state.reads.extend(spans);
        Ok(())
    }

    /// What the store's failure means for attempt `id`; if that has to be made again, it can no longer commit.
    pub(crate) fn failed(&self, id: AttemptId, cause: spanlatch_replica::Error) -> Error {
        let error = Error::of(id, cause);
        let mut state = self.state.lock();
        if state.id == id && state.phase != Phase::Over {
            state.fail(&error);
        }
        error
    }

    /// Ends attempt `id`, and returns what has to be sent to commit it. `None`, if that is nothing: it wrote nothing,
    /// and what it read was so at one time.
    pub(crate) fn commit(&self, id: AttemptId) -> Result<Option<Batch>, Error> {
        let mut state = self.state.lock();
        state.check(id)?;
        let reads = mem::take(&mut state.reads);
        let buffer = mem::take(&mut state.buffer);
        if buffer.is_empty() {
            state.phase = Phase::Over;
            state.committed_at = state.read_at;
            return Ok(None);
        }
        state.phase = Phase::Committing;
        let read_at = state.read_at;
        drop(state);
        let mut requests = Vec::with_capacity(reads.len() + buffer.len());
        if let Some(since) = read_at {
            requests.extend(reads.into_iter().map(|span| Request::confirm(span, since)));
        }
        requests.extend(buffer.into_writes().map(|(key, value)| match value {
            Some(value) => Request::put(key, value),
            None => Request::delete(key),
        }));
        Ok(Some(requests.into()))
    }

    /// Attempt `id` was committed at `at`.
    pub(crate) fn committed(&self, id: AttemptId, at: Timestamp) {
        let mut state = self.state.lock();
        if state.id == id {
            state.phase = Phase::Over;
            state.committed_at = Some(at);
            // Of a read that nobody waited for.
            state.failure = None;
        }
    }

    /// When the present attempt took place, if it is committed.
    pub(crate) fn committed_at(&self) -> Option<Timestamp> {
        self.state.lock().committed_at
    }

    /// Nothing that attempt `id` did counts any more. Does nothing if the attempt is over.
    pub(crate) fn end(&self, id: AttemptId) {
        let mut state = self.state.lock();
        if state.id == id {
            state.clear();
            state.phase = Phase::Over;
        }
    }

    /// Begins the next attempt, if somebody has used the present one without ending it.
    pub(crate) fn renew(&self) {
        let used = {
            let state = self.state.lock();
            let used =
                state.read_at.is_some() || !state.buffer.is_empty() || state.failure.is_some();
            used && state.phase == Phase::Active
        };
        if used {
            self.restart();
        }
    }

    /// Begins the next attempt. All handles of earlier ones are refused from now on.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock();
        state.clear();
        state.phase = Phase::Active;
        state.committed_at = None;
        state.id.attempt += 1;
    }
}

impl State {
    /// Whether attempt `id` can go on.
    fn check(&self, id: AttemptId) -> Result<(), Error> {
        if self.id != id || self.phase != Phase::Active {
            return Err(Error::Over(id));
        }
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Keeps the more severe of two failures.
    fn fail(&mut self, error: &Error) {
        let Error::Retry { reason, .. } = error else {
            return;
        };
        let is_worse = match &self.failure {
            Some(Error::Retry { reason: known, .. }) => reason > known,
            _ => true,
        };
        if is_worse {
            self.failure = Some(error.clone());
        }
    }

    fn clear(&mut self) {
        self.read_at = None;
        self.reads.clear();
        self.buffer.clear();
        self.failure = None;
    }
}
