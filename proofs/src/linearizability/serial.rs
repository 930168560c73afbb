//! Batches one after the other, in the order of their timestamps, on a sorted map.

use std::collections::{BTreeMap, HashMap};

use spanlatch_replica::{Batch, Request, Response, Value, WriteBatch};
use spanset::{Key, Span, Timestamp};

use super::{History, Op, Outcome};

/// A batch that took place, when it did, and its place among what was applied, if it wrote.
pub(super) struct Placed<'a> {
    pub(super) at: Timestamp,
    pub(super) applied: Option<usize>,
    pub(super) op: &'a Op,
}

/// Panics unless the history is that of one batch after the other. Returns how many of the ambiguous ones were applied.
pub(super) fn check(history: &History) -> u64 {
    let effects = effects(history);
    let mut placed = Vec::new();
    let mut ambiguous = 0;
    for (number, op) in history.ops.iter().enumerate() {
        let applied = effects.get(&number).copied();
        let at = match (&op.outcome, applied) {
            (Outcome::Served(reply), Some(applied)) => {
                assert_eq!(
                    reply.timestamp, history.applied[applied].timestamp,
                    "{op:?}"
                );
                reply.timestamp
            }
            (Outcome::Served(reply), None) => {
                assert!(op.mark.is_none(), "it was served and not applied: {op:?}");
                reply.timestamp
            }
            (Outcome::Failed(_), Some(_)) => panic!("it failed and was applied: {op:?}"),
            (Outcome::Ambiguous, Some(applied)) => {
                ambiguous += 1;
                history.applied[applied].timestamp
            }
            (Outcome::Failed(_) | Outcome::Ambiguous, None) => continue,
        };
        placed.push(Placed { at, applied, op });
    }
    assert_eq!(
        effects.len(),
        history.applied.len(),
        "something was applied twice"
    );
    // Those that only read come after those that wrote at the same timestamp; these write different keys.
    placed.sort_by_key(|placed| (placed.at, placed.applied.unwrap_or(usize::MAX)));
    check_real_time(&placed);
    check_thresholds(history);

    let mut rows = Rows::default();
    for Placed { at, applied, op } in placed {
        let evaluated = rows.serve(&op.batch);
        let (responses, writes) = evaluated.unwrap_or_else(|error| {
            panic!("it was served, and would have failed, {error}: {op:?}")
        });
        if let Outcome::Served(reply) = &op.outcome {
            assert_eq!(reply.responses, responses, "at {at}: {op:?}");
        }
        if let Some(applied) = applied {
            let WriteBatch { writes: wrote, .. } = &history.applied[applied];
            let wrote: BTreeMap<_, _> = wrote.iter().cloned().collect();
            assert_eq!(wrote, writes, "at {at}: {op:?}");
        }
    }
    ambiguous
}

/// By the number of a batch: the position of its effects.
fn effects(history: &History) -> HashMap<usize, usize> {
    let mut by_mark = HashMap::new();
    for (number, op) in history.ops.iter().enumerate() {
        if let Some(mark) = &op.mark {
            assert!(by_mark.insert(mark, number).is_none(), "marks differ");
        }
    }
    let mut effects = HashMap::new();
    for (position, applied) in history.applied.iter().enumerate() {
        let mut values = applied
            .writes
            .iter()
            .filter_map(|(_, value)| value.as_ref());
        let number = values.find_map(|value| by_mark.get(value));
        let number = *number.unwrap_or_else(|| panic!("whose effects are these? {applied:?}"));
        let other = effects.insert(number, position);
        assert!(
            other.is_none(),
            "it was applied twice: {:?}",
            history.ops[number]
        );
    }
    effects
}

/// Who began after another had ended took place after it, unless it asked for a timestamp.
pub(super) fn check_real_time(placed: &[Placed<'_>]) {
    let mut by_end: Vec<_> = placed
        .iter()
        .filter_map(|placed| Some((placed.op.ended?, placed)))
        .collect();
    by_end.sort_by_key(|(ended, _)| *ended);
    let mut by_begin = Vec::from_iter(placed);
    by_begin.sort_by_key(|placed| placed.op.began);
    let mut ended = by_end.into_iter().peekable();
    let mut latest: Option<&Placed<'_>> = None;
    for later in by_begin {
        while let Some((_, earlier)) = ended.next_if(|(end, _)| *end < later.op.began) {
            if latest.is_none_or(|latest| latest.at < earlier.at) {
                latest = Some(earlier);
            }
        }
        if let Some(earlier) = latest
            && later.op.batch.timestamp().is_none()
        {
            assert!(
                later.at > earlier.at,
                "one took place at {}, and another that began after it at {}: {:?}, {:?}",
                earlier.at,
                later.at,
                earlier.op,
                later.op
            );
        }
    }
}

/// Who only read, and asked for a timestamp that was below the threshold before it began, was refused.
fn check_thresholds(history: &History) {
    for op in history.ops.iter().filter(|op| op.mark.is_none()) {
        let Some(at) = op.batch.timestamp() else {
            continue;
        };
        let before = history.collections.iter().filter(|c| c.ended < op.began);
        if let Some(threshold) = before.map(|c| c.threshold).max()
            && at < threshold
        {
            let served = matches!(op.outcome, Outcome::Served(_));
            assert!(!served, "{at} is below {threshold}: {op:?}");
        }
    }
}

/// What all keys hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows(pub(super) BTreeMap<Key, Value>);

pub(super) type Writes = BTreeMap<Key, Option<Value>>;

impl Rows {
    /// Serves a batch, and returns the answers and what it wrote; or says why it fails, and changes nothing.
    pub(super) fn serve(&mut self, batch: &Batch) -> Result<(Vec<Response>, Writes), &'static str> {
        let mut rows = self.0.clone();
        let mut writes = Writes::new();
        let mut responses = Vec::new();
        for request in batch.requests() {
            responses.push(one(&mut rows, &mut writes, request)?);
        }
        self.0 = rows;
        Ok((responses, writes))
    }
}

fn write(rows: &mut BTreeMap<Key, Value>, writes: &mut Writes, key: &Key, value: Option<Value>) {
    match &value {
        Some(value) => rows.insert(key.clone(), value.clone()),
        None => rows.remove(key),
    };
    writes.insert(key.clone(), value);
}

fn one(
    rows: &mut BTreeMap<Key, Value>,
    writes: &mut Writes,
    request: &Request,
) -> Result<Response, &'static str> {
    Ok(match request {
        Request::Get { key } => Response::Value(rows.get(key).cloned()),
        Request::Put { key, value } => {
            write(rows, writes, key, Some(value.clone()));
            Response::Written
        }
        Request::Delete { key } => {
            write(rows, writes, key, None);
            Response::Written
        }
        Request::ConditionalPut {
            key,
            expected,
            value,
        } => {
            if rows.get(key) != expected.as_ref() {
                return Err("as the condition does not hold");
            }
            write(rows, writes, key, Some(value.clone()));
            Response::Written
        }
        Request::Increment { key, by } => {
            let sum = number(rows.get(key))? + by;
            write(
                rows,
                writes,
                key,
                Some(Value::copy_from_slice(&sum.to_be_bytes())),
            );
            Response::Incremented(sum)
        }
        Request::Scan { span, limit } => {
            let mut found = within(rows, span);
            let resume = cut(&mut found, *limit, |last| after(span, last));
            let rows = found;
            Response::Rows { rows, resume }
        }
        Request::ReverseScan { span, limit } => {
            let mut found = within(rows, span);
            found.reverse();
            let before = |last: &Key| Span::range(span.start().clone(), last.clone()).ok();
            let resume = cut(&mut found, *limit, before);
            let rows = found;
            Response::Rows { rows, resume }
        }
        Request::DeleteRange { span, limit } => {
            let mut found = within(rows, span);
            let resume = cut(&mut found, *limit, |last| after(span, last));
            let keys = Vec::from_iter(found.into_iter().map(|(key, _)| key));
            for key in &keys {
                write(rows, writes, key, None);
            }
            Response::Deleted { keys, resume }
        }
        _ => unreachable!("clients do not send {request:?}"),
    })
}

/// The number that a key holds, 0 if nothing.
pub(super) fn number(value: Option<&Value>) -> Result<i64, &'static str> {
    match value {
        None => Ok(0),
        Some(value) => match value[..].try_into() {
            Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
            Err(_) => Err("as it is no number"),
        },
    }
}

fn within(rows: &BTreeMap<Key, Value>, span: &Span) -> Vec<(Key, Value)> {
    let found = rows.iter().filter(|(key, _)| span.contains_key(key));
    found
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Leaves the first `limit` rows, and says where to go on if there are as many.
fn cut(
    rows: &mut Vec<(Key, Value)>,
    limit: usize,
    rest: impl FnOnce(&Key) -> Option<Span>,
) -> Option<Span> {
    rows.truncate(limit);
    match rows.last() {
        Some((last, _)) if rows.len() == limit => rest(last),
        _ => None,
    }
}

/// What is left of a span after a key.
fn after(span: &Span, last: &Key) -> Option<Span> {
    let next = Key::from([&last[..], &[0]].concat());
    span.intersection(&Span::starting_at(next))
}
