//! A store that does everything one by one in the simplest way, and random batches for both.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use proptest::prelude::*;
use spanlatch_replica::{Error, Request, Response, Value};
use spanset::{Key, Span, Timestamp};

use crate::scene::{after, ts};

/// All versions, and all reads that were ever recorded.
#[derive(Debug, Default, Clone)]
pub(crate) struct Naive {
    pub(crate) versions: BTreeMap<Key, BTreeMap<Timestamp, Option<Value>>>,
    reads: Vec<(Span, Timestamp)>,
    clock: Timestamp,
    threshold: Timestamp,
}

/// What a batch comes to at one timestamp.
#[derive(Debug, Default)]
pub(crate) struct Evaluated {
    pub(crate) responses: Vec<Response>,
    pub(crate) failed: Option<&'static str>,
    pub(crate) writes: BTreeMap<Key, Option<Value>>,
    reads: Vec<Span>,
    newest: Option<Timestamp>,
}

/// The kind of an error that evaluation can end in.
pub(crate) fn kind(error: &Error) -> &'static str {
    match error {
        Error::ConditionFailed { .. } => "condition",
        Error::NotAnInteger { .. } => "integer",
        Error::IncrementOverflow { .. } => "overflow",
        Error::BelowThreshold { .. } => "threshold",
        Error::Changed { .. } => "changed",
        other => panic!("{other}"),
    }
}

pub(crate) fn span_of(request: &Request) -> Span {
    match request {
        Request::Get { key }
        | Request::Put { key, .. }
        | Request::ConditionalPut { key, .. }
        | Request::Increment { key, .. }
        | Request::Delete { key } => Span::point(key.clone()),
        Request::DeleteRange { span, .. }
        | Request::Scan { span, .. }
        | Request::ReverseScan { span, .. }
        | Request::Confirm { span, .. } => span.clone(),
    }
}

impl Naive {
    /// Serves a batch, asked for at `at` or else at the time, and says when that was.
    pub(crate) fn serve(
        &mut self,
        requests: &[Request],
        at: Option<Timestamp>,
        time: Timestamp,
    ) -> (Timestamp, Evaluated) {
        let mut at = at.unwrap_or_else(|| time.max(after(self.clock)));
        let is_forgotten = |request: &Request| match request {
            Request::Confirm { since, .. } => *since < self.threshold,
            _ => false,
        };
        if requests.iter().any(is_forgotten) {
            self.clock = self.clock.max(at);
            let failed = Some("threshold");
            let evaluated = Evaluated {
                failed,
                ..Evaluated::default()
            };
            return (at, evaluated);
        }
        if at <= self.threshold {
            if requests.iter().any(Request::is_write) {
                at = after(self.threshold);
            } else if at < self.threshold && !requests.is_empty() {
                let failed = Some("threshold");
                let evaluated = Evaluated {
                    failed,
                    ..Evaluated::default()
                };
                return (at, evaluated);
            }
        }
        for request in requests.iter().filter(|request| request.is_write()) {
            let written = span_of(request);
            for (read, read_at) in &self.reads {
                if read.overlaps(&written) {
                    at = at.max(after(*read_at));
                }
            }
        }
        let evaluated = loop {
            let evaluated = self.evaluate(requests, at);
            match evaluated.newest {
                Some(newest) if newest >= at => at = after(newest),
                _ => break evaluated,
            }
        };
        self.clock = self.clock.max(at);
        for read in &evaluated.reads {
            self.reads.push((read.clone(), at));
        }
        if evaluated.failed.is_none() {
            self.write(at, &evaluated.writes);
        }
        (at, evaluated)
    }

    /// Forgets the versions that nobody sees from `threshold` on. Returns how many those were.
    pub(crate) fn collect(&mut self, threshold: Timestamp) -> u64 {
        self.clock = self.clock.max(threshold);
        self.threshold = self.threshold.max(threshold);
        let threshold = self.threshold;
        let mut collected = 0;
        for versions in self.versions.values_mut() {
            let before = versions.len();
            let seen = versions.range(..=threshold).next_back();
            let seen = seen.filter(|(_, value)| value.is_some()).map(|(at, _)| *at);
            versions.retain(|at, _| *at > threshold || Some(*at) == seen);
            collected += (before - versions.len()) as u64;
        }
        collected
    }

    pub(crate) fn write<'a>(
        &mut self,
        at: Timestamp,
        writes: impl IntoIterator<Item = (&'a Key, &'a Option<Value>)>,
    ) {
        for (key, value) in writes {
            let versions = self.versions.entry(key.clone()).or_default();
            versions.insert(at, value.clone());
        }
    }

    fn read(&self, key: &Key, at: Timestamp) -> Option<(Timestamp, Option<Value>)> {
        let (at, value) = self.versions.get(key)?.range(..=at).next_back()?;
        Some((*at, value.clone()))
    }

    pub(crate) fn evaluate(&self, requests: &[Request], at: Timestamp) -> Evaluated {
        let mut e = Evaluated::default();
        for (index, request) in requests.iter().enumerate() {
            match self.request(&mut e, request, at) {
                Ok(response) => e.responses.push(response),
                Err(failed) => {
                    e.failed = Some(failed);
                    for request in &requests[..=index] {
                        if let Request::ConditionalPut { .. } | Request::Increment { .. } = request
                        {
                            e.reads.push(span_of(request));
                        }
                    }
                    break;
                }
            }
        }
        e
    }

    fn request(
        &self,
        e: &mut Evaluated,
        request: &Request,
        at: Timestamp,
    ) -> Result<Response, &'static str> {
        // What a key holds for the batch as of a timestamp.
        let holds = |e: &Evaluated, key: &Key, at| match e.writes.get(key) {
            Some(value) => value.clone(),
            None => self.read(key, at).and_then(|(_, value)| value),
        };
        if let Request::Put { key, .. }
        | Request::ConditionalPut { key, .. }
        | Request::Increment { key, .. }
        | Request::Delete { key } = request
        {
            e.newest = e.newest.max(self.read(key, Timestamp::MAX).map(|v| v.0));
        }
        match request {
            Request::Get { key } => {
                e.reads.push(Span::point(key.clone()));
                Ok(Response::Value(holds(e, key, at)))
            }
            Request::Put { key, value } => {
                e.writes.insert(key.clone(), Some(value.clone()));
                Ok(Response::Written)
            }
            Request::Delete { key } => {
                e.writes.insert(key.clone(), None);
                Ok(Response::Written)
            }
            Request::ConditionalPut {
                key,
                expected,
                value,
            } => {
                if holds(e, key, Timestamp::MAX) != *expected {
                    return Err("condition");
                }
                e.writes.insert(key.clone(), Some(value.clone()));
                Ok(Response::Written)
            }
            Request::Increment { key, by } => {
                let before = match holds(e, key, Timestamp::MAX) {
                    None => 0,
                    Some(value) => i64::from_be_bytes(value[..].try_into().map_err(|_| "integer")?),
                };
                let sum = before.checked_add(*by).ok_or("overflow")?;
                let value = Value::copy_from_slice(&sum.to_be_bytes());
                e.writes.insert(key.clone(), Some(value));
                Ok(Response::Incremented(sum))
            }
            Request::DeleteRange { span, limit } => {
                let mut keys = Vec::new();
                for key in self.keys(e, span) {
                    if keys.len() == *limit {
                        break;
                    }
                    if !e.writes.contains_key(&key) {
                        e.newest = e.newest.max(self.read(&key, Timestamp::MAX).map(|v| v.0));
                    }
                    if holds(e, &key, Timestamp::MAX).is_some() {
                        keys.push(key);
                    }
                }
                let is_cut = keys.len() == *limit;
                let (covered, resume) = up_to(span, is_cut, keys.last());
                for key in &keys {
                    e.writes.insert(key.clone(), None);
                }
                e.reads.extend(covered);
                Ok(Response::Deleted { keys, resume })
            }
            Request::Scan { span, limit } => {
                let mut rows = self.rows(e, span, at);
                let is_cut = rows.len() >= *limit;
                rows.truncate(*limit);
                let (covered, resume) = up_to(span, is_cut, rows.last().map(|(key, _)| key));
                e.reads.extend(covered);
                Ok(Response::Rows { rows, resume })
            }
            Request::ReverseScan { span, limit } => {
                let mut rows = self.rows(e, span, at);
                rows.reverse();
                let is_cut = rows.len() >= *limit;
                rows.truncate(*limit);
                let resume = match rows.last() {
                    _ if !is_cut => None,
                    None => Some(span.clone()),
                    Some((last, _)) => Span::range(span.start().clone(), last.clone()).ok(),
                };
                e.reads.extend(match (is_cut, rows.last()) {
                    (false, _) => Some(span.clone()),
                    (true, None) => None,
                    (true, Some((last, _))) => span.intersection(&Span::starting_at(last.clone())),
                });
                Ok(Response::Rows { rows, resume })
            }
            Request::Confirm { span, since } => {
                let later = (Bound::Excluded(*since), Bound::Included(at));
                let within = self.versions.iter().filter(|(k, _)| span.contains_key(k));
                for (_, versions) in within {
                    // An inverted range is no range.
                    if *since < at && versions.range(later).next().is_some() {
                        return Err("changed");
                    }
                }
                e.reads.push(span.clone());
                Ok(Response::Unchanged)
            }
        }
    }

    fn keys(&self, e: &Evaluated, span: &Span) -> BTreeSet<Key> {
        let keys = self.versions.keys().chain(e.writes.keys());
        keys.filter(|key| span.contains_key(key)).cloned().collect()
    }

    fn rows(&self, e: &Evaluated, span: &Span, at: Timestamp) -> Vec<(Key, Value)> {
        let value = |key: &Key| match e.writes.get(key) {
            Some(value) => value.clone(),
            None => self.read(key, at)?.1,
        };
        let keys = self.keys(e, span).into_iter();
        keys.filter_map(|key| Some((key.clone(), value(&key)?)))
            .collect()
    }
}

/// The part of a span that was looked at, and the rest, if the last key looked at was this one.
fn up_to(span: &Span, is_cut: bool, last: Option<&Key>) -> (Option<Span>, Option<Span>) {
    match last {
        _ if !is_cut => (Some(span.clone()), None),
        None => (None, Some(span.clone())),
        Some(last) => {
            let next = Key::from([&last[..], &[0]].concat());
            let covered = Span::range(span.start().clone(), next.clone()).unwrap();
            (
                span.intersection(&covered),
                span.intersection(&Span::starting_at(next)),
            )
        }
    }
}

pub(crate) fn any_key() -> impl Strategy<Value = Key> {
    prop::sample::select(&["", "a", "a\0", "b", "c", "d", "e", "f"][..]).prop_map(Key::from)
}

pub(crate) fn any_span() -> impl Strategy<Value = Span> {
    prop_oneof![
        4 => (any_key(), any_key()).prop_map(|(a, b)| {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            Span::range(low.clone(), high).unwrap_or_else(|_| Span::point(low))
        }),
        1 => any_key().prop_map(Span::starting_at),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(&["x", "y"][..]).prop_map(Value::from),
        (0i64..3).prop_map(|n| Value::copy_from_slice(&n.to_be_bytes())),
    ]
}

fn any_limit() -> impl Strategy<Value = usize> {
    prop_oneof![1usize..4, Just(Request::UNLIMITED)]
}

pub(crate) fn any_request() -> impl Strategy<Value = Request> {
    let by = prop_oneof![9 => -2i64..3, 1 => Just(i64::MAX)];
    prop_oneof![
        3 => any_key().prop_map(Request::get),
        3 => (any_key(), any_value()).prop_map(|(key, value)| Request::put(key, value)),
        2 => (any_key(), prop::option::of(any_value()), any_value())
            .prop_map(|(key, expected, value)| Request::conditional_put(key, expected, value)),
        2 => (any_key(), by).prop_map(|(key, by)| Request::increment(key, by)),
        1 => any_key().prop_map(Request::delete),
        1 => (any_span(), any_limit()).prop_map(|(s, n)| Request::delete_range(s).limited(n)),
        2 => (any_span(), any_limit()).prop_map(|(s, n)| Request::scan(s).limited(n)),
        2 => (any_span(), any_limit()).prop_map(|(s, n)| Request::reverse_scan(s).limited(n)),
        2 => (any_span(), 950u64..1_300).prop_map(|(s, at)| Request::confirm(s, ts(at))),
    ]
}

/// A few requests: of all kinds, or only reads, or only writes.
pub(crate) fn any_requests() -> impl Strategy<Value = Vec<Request>> {
    (prop::collection::vec(any_request(), 0..5), 0..3).prop_map(|(mut requests, which)| {
        match which {
            0 => requests.retain(Request::is_write),
            1 => requests.retain(|request| !request.is_write()),
            _ => {}
        }
        requests
    })
}

pub(crate) fn any_splits() -> impl Strategy<Value = Vec<Key>> {
    prop::collection::vec(any_key(), 0..4)
}
