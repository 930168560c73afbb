//! Evaluation: what the requests of a batch answer and write, at one timestamp, on one snapshot.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use spanset::{End, Key, Reader, Span, Timestamp};

use crate::{Error, Request, Response, Value, Version};

/// What evaluating a batch at a timestamp came to.
#[derive(Debug)]
pub(crate) struct Evaluation {
    /// The timestamp.
    pub(crate) at: Timestamp,
    /// The newest version under what the batch writes. If it is not below the timestamp, all else
    /// here is void: the batch must be evaluated again, above it.
    pub(crate) newest: Option<Timestamp>,
    /// What to write, in order.
    pub(crate) writes: Vec<(Key, Option<Value>)>,
    /// What was read and must stay as it was found. What is also written needs no mention: the new
    /// version keeps later writes above it.
    pub(crate) reads: Vec<Span>,
    /// One response for each request, or the error that ended evaluation.
    pub(crate) outcome: Result<Vec<Response>, Error>,
}

/// Evaluates requests in order; each sees what the earlier ones write. Writes nothing.
///
/// O(log n) for each key of a request, and for each row of a scan at most.
pub(crate) fn evaluate<R>(requests: &[Request], reader: &R, at: Timestamp) -> Evaluation
where
    R: Reader<Value = Version>,
    Error: From<R::Error>,
{
    let mut evaluator = Evaluator {
        reader,
        at,
        newest: None,
        writes: Writes::default(),
        reads: Vec::new(),
    };
    let mut responses = Vec::with_capacity(requests.len());
    let mut outcome = Ok(());
    for (index, request) in requests.iter().enumerate() {
        match evaluator.request(index, request) {
            Ok(response) => responses.push(response),
            Err(error) => {
                // Nothing will be written, so what was to be overwritten counts as read.
                evaluator.reads.extend(
                    requests[..=index]
                        .iter()
                        .filter(|request| request.reads_what_it_writes())
                        .map(|request| request.touched().to_span()),
                );
                outcome = Err(error);
                break;
            }
        }
    }
    Evaluation {
        at,
        newest: evaluator.newest,
        writes: evaluator.writes.list,
        reads: evaluator.reads,
        outcome: outcome.map(|()| responses),
    }
}

struct Evaluator<'a, R> {
    reader: &'a R,
    at: Timestamp,
    newest: Option<Timestamp>,
    writes: Writes,
    reads: Vec<Span>,
}

impl<R> Evaluator<'_, R>
where
    R: Reader<Value = Version>,
    Error: From<R::Error>,
{
    fn request(&mut self, index: usize, request: &Request) -> Result<Response, Error> {
        match request {
            Request::Get { key } => {
                self.reads.push(Span::point(key.clone()));
                Ok(Response::Value(self.read(key)?))
            }
            Request::Put { key, value } => {
                self.overwrite(key)?;
                self.writes.push(key, Some(value.clone()));
                Ok(Response::Written)
            }
            Request::ConditionalPut {
                key,
                expected,
                value,
            } => {
                let actual = self.read_to_overwrite(key)?;
                if actual != *expected {
                    let key = key.clone();
                    return Err(Error::ConditionFailed { index, key, actual });
                }
                self.writes.push(key, Some(value.clone()));
                Ok(Response::Written)
            }
            Request::Increment { key, by } => {
                let sum = self.increment(index, key, *by)?;
                self.writes.push(key, Some(encode(sum)));
                Ok(Response::Incremented(sum))
            }
            Request::Delete { key } => {
                self.overwrite(key)?;
                self.writes.push(key, None);
                Ok(Response::Written)
            }
            Request::DeleteRange { span, limit } => self.delete_range(span, *limit),
            Request::Scan { span, limit } => self.scan(span, *limit, Direction::Up),
            Request::ReverseScan { span, limit } => self.scan(span, *limit, Direction::Down),
            Request::Confirm { span, since } => self.confirm(index, span, *since),
        }
    }

    /// What `key` holds for the batch.
    fn read(&mut self, key: &Key) -> Result<Option<Value>, Error> {
        if let Some(value) = self.writes.get(key) {
            return Ok(value.clone());
        }
        let version = self.reader.get(key, Some(self.at))?;
        Ok(version.and_then(|version| version.value))
    }

    /// Minds the newest version of a key that will be written, and returns it.
    fn overwrite(&mut self, key: &Key) -> Result<Option<Version>, Error> {
        let newest = self.reader.get(key, Some(Timestamp::MAX))?;
        self.newest = self.newest.max(newest.as_ref().map(|v| v.timestamp));
        Ok(newest)
    }

    /// What a key that will be written holds for the batch. One look-up does for both: if the newest
    /// version is not the one to read, the evaluation is void.
    fn read_to_overwrite(&mut self, key: &Key) -> Result<Option<Value>, Error> {
        if let Some(value) = self.writes.get(key) {
            return Ok(value.clone());
        }
        Ok(self.overwrite(key)?.and_then(|version| version.value))
    }

    fn increment(&mut self, index: usize, key: &Key, by: i64) -> Result<i64, Error> {
        let actual = match self.read_to_overwrite(key)? {
            None => 0,
            Some(value) => decode(&value).ok_or_else(|| Error::NotAnInteger {
                index,
                key: key.clone(),
                actual: value,
            })?,
        };
        actual
            .checked_add(by)
            .ok_or_else(|| Error::IncrementOverflow {
                index,
                key: key.clone(),
                actual,
                by,
            })
    }

    fn delete_range(&mut self, span: &Span, limit: usize) -> Result<Response, Error> {
        // As of the highest timestamp, to see the newest version of each key, deletions too.
        let walk = walk(
            self.reader,
            &mut self.writes,
            span,
            limit,
            Direction::Up,
            Timestamp::MAX,
        )?;
        self.newest = self.newest.max(walk.newest);
        self.reads.extend(walk.covered);
        let keys: Vec<Key> = walk.rows.into_iter().map(|(key, _)| key).collect();
        for key in &keys {
            self.writes.push(key, None);
        }
        let resume = walk.resume;
        Ok(Response::Deleted { keys, resume })
    }

    fn scan(&mut self, span: &Span, limit: usize, direction: Direction) -> Result<Response, Error> {
        let walk = walk(
            self.reader,
            &mut self.writes,
            span,
            limit,
            direction,
            self.at,
        )?;
        self.reads.extend(walk.covered);
        let (rows, resume) = (walk.rows, walk.resume);
        Ok(Response::Rows { rows, resume })
    }

    /// Looks for a version of a key of `span` above `since`. Deletions are versions, too.
    fn confirm(&mut self, index: usize, span: &Span, since: Timestamp) -> Result<Response, Error> {
        let changed = |key: &Key, version: &Version| Error::Changed {
            index,
            key: key.clone(),
            since,
            changed: version.timestamp,
        };
        if span.is_point() {
            let key = span.start();
            let newest = self.reader.get(key, Some(self.at))?;
            if let Some(version) = newest.filter(|version| version.timestamp > since) {
                return Err(changed(key, &version));
            }
        } else {
            let mut cursor = self.reader.cursor(Some(self.at));
            cursor.seek(span.start())?;
            while let Some((key, version)) = cursor.item()
                && span.contains_key(key)
            {
                if version.timestamp > since {
                    return Err(changed(key, version));
                }
                cursor.next()?;
            }
        }
        self.reads.push(span.clone());
        Ok(Response::Unchanged)
    }
}

/// The integer that a value is.
fn decode(value: &Value) -> Option<i64> {
    Some(i64::from_be_bytes(value.as_ref().try_into().ok()?))
}

/// The value that an integer is.
fn encode(integer: i64) -> Value {
    Value::copy_from_slice(&integer.to_be_bytes())
}

/// What the batch has written so far.
#[derive(Debug, Default)]
struct Writes {
    list: Vec<(Key, Option<Value>)>,
    /// Where in the list the latest write of each key is, for the first `indexed` of them. Brought up
    /// to date when the batch looks for its own writes, so that one that only writes pays nothing.
    index: BTreeMap<Key, usize>,
    indexed: usize,
}

impl Writes {
    fn push(&mut self, key: &Key, value: Option<Value>) {
        self.list.push((key.clone(), value));
    }

    /// What the batch has written to `key`, if it has.
    fn get(&mut self, key: &Key) -> Option<&Option<Value>> {
        self.index();
        self.index.get(key).map(|&at| &self.list[at].1)
    }

    /// What the batch has written to the keys of `span`, in ascending order.
    fn within(
        &mut self,
        span: &Span,
    ) -> impl DoubleEndedIterator<Item = (&Key, &Option<Value>)> + '_ {
        self.index();
        let end = match span.end() {
            End::At(key) => Bound::Included(key),
            End::Before(key) => Bound::Excluded(key),
            End::Unbounded => Bound::Unbounded,
        };
        self.index
            .range::<Key, _>((Bound::Included(span.start()), end))
            .map(|(key, &at)| (key, &self.list[at].1))
    }

    fn index(&mut self) {
        for (at, (key, _)) in self.list.iter().enumerate().skip(self.indexed) {
            self.index.insert(key.clone(), at);
        }
        self.indexed = self.list.len();
    }
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Up,
    Down,
}

/// What a walk over a span found.
struct Walk {
    /// The keys that hold something, and what, in the order of the walk.
    rows: Vec<(Key, Value)>,
    /// What is left of the span, if the limit was reached.
    resume: Option<Span>,
    /// What was looked at, if anything: the rest.
    covered: Option<Span>,
    /// The newest version that it came across.
    newest: Option<Timestamp>,
}

/// Walks over what the keys of `span` hold for the batch as of `at`, up to `limit` rows: a merge of
/// the stored versions and of what the batch itself has written, which hides them.
///
/// It stops at the last row and doesn't look whether there are more, because that would have to be
/// protected too.
fn walk<R>(
    reader: &R,
    writes: &mut Writes,
    span: &Span,
    limit: usize,
    direction: Direction,
    at: Timestamp,
) -> Result<Walk, Error>
where
    R: Reader<Value = Version>,
    Error: From<R::Error>,
{
    let mut cursor = reader.cursor(Some(at));
    match direction {
        Direction::Up => cursor.seek(span.start())?,
        Direction::Down => cursor.seek_back(span.end())?,
    }
    let mut own = writes.within(span);
    let mut next_own = || match direction {
        Direction::Up => own.next(),
        Direction::Down => own.next_back(),
    };
    let mut written = next_own();
    let mut rows: Vec<(Key, Value)> = Vec::new();
    let mut newest = None;
    while rows.len() < limit {
        let stored = cursor.item().filter(|(key, _)| span.contains_key(key));
        let order = match (stored, written) {
            (None, None) => {
                let (resume, covered) = (None, Some(span.clone()));
                return Ok(Walk {
                    rows,
                    resume,
                    covered,
                    newest,
                });
            }
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((stored, _)), Some((written, _))) => match direction {
                Direction::Up => stored.cmp(written),
                Direction::Down => written.cmp(stored),
            },
        };
        let mut row = None;
        if let (true, Some((key, version))) = (order.is_le(), stored) {
            newest = newest.max(Some(version.timestamp));
            row = version
                .value
                .as_ref()
                .map(|value| (key.clone(), value.clone()));
            match direction {
                Direction::Up => cursor.next()?,
                Direction::Down => cursor.prev()?,
            }
        }
        if let (true, Some((key, value))) = (order.is_ge(), written) {
            row = value.as_ref().map(|value| (key.clone(), value.clone()));
            written = next_own();
        }
        rows.extend(row);
    }
    let (covered, resume) = match (rows.last(), direction) {
        (None, _) => (None, Some(span.clone())),
        (Some((last, _)), Direction::Up) => cut(span, End::At(last)),
        (Some((last, _)), Direction::Down) => {
            let (resume, covered) = cut(span, End::Before(last));
            (covered, resume)
        }
    };
    Ok(Walk {
        rows,
        resume,
        covered,
        newest,
    })
}

/// The parts of `span` below and above `place`.
fn cut(span: &Span, place: End<'_>) -> (Option<Span>, Option<Span>) {
    let Some(key) = place.key_above() else {
        return (Some(span.clone()), None);
    };
    let above = span.intersection(&Span::starting_at(key.clone()));
    let below = match &above {
        None => Some(span.clone()),
        Some(_) => Span::range(span.start().clone(), key).ok(),
    };
    (below, above)
}
