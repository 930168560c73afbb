//! One attempt of a transaction: what its closure works with.

use std::fmt;
use std::sync::Arc;

use spanlatch_replica::{Batch, Request, Response, Serve, Store, Value};
use spanset::{Key, Span};

use crate::state::Shared;
use crate::{AttemptId, Error};

/// A handle to one attempt of a transaction. Clones are handles to the same attempt, and may be used at once.
///
/// All reads see the store as it was at one moment, with the attempt's own writes on top. Writes are kept by the
/// client until the commit. When the attempt is over, its handles are refused with [`Error::Over`]; when it cannot
/// commit any more, with the [`Error::Retry`] that says why.
pub struct Attempt<S = Store> {
    shared: Arc<Shared<S>>,
    id: AttemptId,
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Up,
    Down,
}

impl<S: Serve> Attempt<S> {
    /// The present attempt.
    pub(crate) fn present(shared: &Arc<Shared<S>>) -> Self {
        Self {
            id: shared.id(),
            shared: shared.clone(),
        }
    }

    /// Which attempt it is, of which transaction.
    pub fn id(&self) -> AttemptId {
        self.id
    }

    /// What `key` holds.
    ///
    /// # Errors
    ///
    /// As all reads: [`Error::Retry`], [`Error::Over`] or [`Error::Store`].
    pub async fn get(&self, key: impl Into<Key>) -> Result<Option<Value>, Error> {
        let key = key.into();
        if let Some(own) = self.own(&key)? {
            return Ok(own);
        }
        let read = self.read(Request::get(key.clone()).into()).await?;
        self.shared.note_reads(self.id, [Span::point(key)])?;
        match read.into_iter().next() {
            Some(Response::Value(value)) => Ok(value),
            other => unreachable!("a get is answered by a value, not {other:?}"),
        }
    }

    /// What each of `keys` holds, in their order: one request to the store.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn get_all(
        &self,
        keys: impl IntoIterator<Item = Key>,
    ) -> Result<Vec<Option<Value>>, Error> {
        let mut values = Vec::new();
        // The keys to ask the store for, and where in the values their answers belong.
        let (mut asked, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            match self.own(&key)? {
                Some(own) => values.push(own),
                None => {
                    asked.push(key);
                    places.push(values.len());
                    values.push(None);
                }
            }
        }
        if asked.is_empty() {
            return Ok(values);
        }
        let read = self.read(asked.iter().cloned().map(Request::get).collect());
        let read = read.await?;
        (self.shared).note_reads(self.id, asked.into_iter().map(Span::point))?;
        for (place, response) in places.into_iter().zip(read) {
            if let Response::Value(value) = response {
                values[place] = value;
            }
        }
        Ok(values)
    }

    /// The rows of `span`, ascending, `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn scan(&self, span: Span, limit: usize) -> Result<Vec<(Key, Value)>, Error> {
        self.walk(span, limit, Direction::Up).await
    }

    /// The rows of `span`, descending, `limit` at most.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub async fn reverse_scan(&self, span: Span, limit: usize) -> Result<Vec<(Key, Value)>, Error> {
        self.walk(span, limit, Direction::Down).await
    }

    /// Writes `value` to `key`, to be seen by this attempt at once, and by others if it commits. O(log n).
    ///
    /// # Errors
    ///
    /// [`Error::Over`], or the [`Error::Retry`] that the attempt has met before.
    pub fn put(&self, key: impl Into<Key>, value: impl Into<Value>) -> Result<(), Error> {
        let (key, value) = (key.into(), Some(value.into()));
        (self.shared).buffer(self.id, |buffer| buffer.write(key, value))
    }

    /// Writes that `key` holds nothing. O(log n).
    ///
    /// # Errors
    ///
    /// As [`put`](Self::put).
    pub fn delete(&self, key: impl Into<Key>) -> Result<(), Error> {
        let key = key.into();
        (self.shared).buffer(self.id, |buffer| buffer.write(key, None))
    }

    /// Ends the attempt: nothing that it did counts. Does nothing if it is over; other attempts go on.
    pub fn rollback(&self) {
        self.shared.end(self.id);
    }

    /// Commits, if it can.
    pub(crate) async fn commit(&self) -> Result<(), Error> {
        let Some(batch) = self.shared.commit(self.id)? else {
            return Ok(());
        };
        match self.shared.store().send(batch).await {
            Ok(reply) => {
                self.shared.committed(self.id, reply.timestamp);
                Ok(())
            }
            Err(error) => Err(self.shared.failed(self.id, error)),
        }
    }

    /// What the attempt itself has written to `key`, if it has.
    fn own(&self, key: &Key) -> Result<Option<Option<Value>>, Error> {
        self.shared
            .buffer(self.id, |buffer| buffer.get(key).cloned())
    }

    /// Reads from the store, at the time of the attempt.
    async fn read(&self, batch: Batch) -> Result<Vec<Response>, Error> {
        let store = self.shared.store();
        let at = match self.shared.reads_at(self.id)? {
            Some(at) => at,
            None => match store.now().await {
                Ok(now) => self.shared.read_at(self.id, now)?,
                Err(error) => return Err(self.shared.failed(self.id, error)),
            },
        };
        match store.send(batch.at(at)).await {
            Ok(reply) => Ok(reply.responses),
            Err(error) => Err(self.shared.failed(self.id, error)),
        }
    }

    /// Asks the store for more as long as own deletions leave fewer rows than wanted.
    async fn walk(
        &self,
        span: Span,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<(Key, Value)>, Error> {
        let mut rows = Vec::new();
        let mut rest = Some(span);
        while let Some(piece) = rest.take()
            && rows.len() < limit
        {
            let request = match direction {
                Direction::Up => Request::scan(piece.clone()),
                Direction::Down => Request::reverse_scan(piece.clone()),
            };
            let wanted = match limit {
                Request::UNLIMITED => limit,
                limit => limit - rows.len(),
            };
            let read = self.read(request.limited(wanted).into()).await?;
            let Some(Response::Rows {
                rows: mut stored,
                resume,
            }) = read.into_iter().next()
            else {
                unreachable!("a scan is answered by rows");
            };
            let covered = match (&resume, direction) {
                (None, _) => Some(piece),
                (Some(resume), Direction::Up) => {
                    Span::range(piece.start().clone(), resume.start().clone()).ok()
                }
                (Some(resume), Direction::Down) => (resume.end().key_above())
                    .and_then(|above| piece.intersection(&Span::starting_at(above))),
            };
            rest = resume;
            let Some(covered) = covered else {
                continue;
            };
            self.shared.note_reads(self.id, [covered.clone()])?;
            match direction {
                Direction::Up => {
                    let cover = |buffer: &mut crate::buffer::Buffer| buffer.cover(&covered, stored);
                    rows.extend(self.shared.buffer(self.id, cover)?);
                }
                Direction::Down => {
                    stored.reverse();
                    let cover = |buffer: &mut crate::buffer::Buffer| buffer.cover(&covered, stored);
                    rows.extend(self.shared.buffer(self.id, cover)?.into_iter().rev());
                }
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }
}

impl<S> Clone for Attempt<S> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            id: self.id,
        }
    }
}

impl<S> fmt::Debug for Attempt<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attempt").field(&self.id).finish()
    }
}
