//! One key at a time: is there an order of the operations on it, in line with real time, in which each is told what a
//! register holds?
//!
//! The search is that of Wing and Gong (Testing and verifying concurrent objects, 1993), with what Lowe added to it
//! (Testing for linearizability, 2017): where it has been before, it does not go again. Operations that only read are
//! put in order as soon as they fit, as that takes nothing from the others.

use std::collections::{BTreeMap, HashSet};

use spanlatch_replica::{Batch, Error, Reply, Request, Response, Value};
use spanset::{Key, Span};

use super::clients::span_of;
use super::serial::number;
use super::{History, KEYS, LISTS, NUMBERS, Outcome};

/// How many steps the search may take for one key. A history that takes more is not decided, and that is a failure.
const STEPS: u64 = 2_000_000;

/// What a batch did to one key, at once.
#[derive(Debug)]
struct Operation<'a> {
    began: u64,
    /// `u64::MAX`: nobody knows.
    ended: u64,
    steps: Vec<Step<'a>>,
    /// Whether nothing of it stays, since the batch failed.
    failed: bool,
}

/// A part of it. What is `None` in an answer was not told.
#[derive(Debug)]
enum Step<'a> {
    Reads(Option<&'a Value>),
    FindsSomething,
    Writes(Option<&'a Value>),
    Expects(Option<&'a Value>),
    Adds(i64, Option<i64>),
}

/// Panics unless all keys are linearizable. Returns how many steps it took to find that.
pub(super) fn check(history: &History) -> u64 {
    let keys = KEYS.iter().chain(&NUMBERS).chain(&LISTS);
    keys.map(|&key| check_key(history, &Key::from(key))).sum()
}

fn check_key(history: &History, key: &Key) -> u64 {
    // What was applied, by the values in it; each is of one batch.
    let mut applied = BTreeMap::new();
    for effects in &history.applied {
        let values = effects.writes.iter();
        applied.extend(values.filter_map(|(_, value)| Some((value.as_ref()?, effects))));
    }
    let mut operations = Vec::new();
    for op in &history.ops {
        let effects = op.mark.as_ref().and_then(|mark| applied.get(mark));
        let own = effects.and_then(|effects| effects.writes.iter().rfind(|w| w.0 == *key));
        // Who asks for a timestamp is told of the past, but for the keys that it writes.
        if op.batch.timestamp().is_some() && own.is_none() {
            continue;
        }
        let (steps, failed) = match &op.outcome {
            Outcome::Served(reply) => (told(&op.batch, reply, key), false),
            Outcome::Failed(error) => (found(&op.batch, error, key), true),
            Outcome::Ambiguous => {
                let steps = own.map(|(_, value)| untold(&op.batch, key, value));
                (steps.unwrap_or_default(), false)
            }
        };
        if !steps.is_empty() {
            operations.push(Operation {
                began: op.began,
                ended: op.ended.unwrap_or(u64::MAX),
                steps,
                failed,
            });
        }
    }
    operations.sort_by_key(|operation| operation.began);
    match order(&operations) {
        Ok(steps) => steps,
        Err(NoOrder { why, held, next }) => {
            let next = Vec::from_iter(next.iter().map(|&at| &operations[at]));
            panic!(
                "{key:?}: {why}; at the furthest it holds {held:?}, and next is one of {next:#?}"
            )
        }
    }
}

/// What a batch that was served did to `key`.
fn told<'a>(batch: &'a Batch, reply: &'a Reply, key: &Key) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    for (request, response) in batch.requests().iter().zip(&reply.responses) {
        match (request, response) {
            (_, Response::Rows { rows, resume }) if covers(request, resume.as_ref(), key) => {
                let row = rows.iter().find(|(row, _)| row == key);
                steps.push(Step::Reads(row.map(|(_, value)| value)));
            }
            (_, Response::Deleted { keys, resume }) if covers(request, resume.as_ref(), key) => {
                if keys.contains(key) {
                    steps.extend([Step::FindsSomething, Step::Writes(None)]);
                } else {
                    steps.push(Step::Reads(None));
                }
            }
            (Request::Get { key: of }, Response::Value(value)) if of == key => {
                steps.push(Step::Reads(value.as_ref()));
            }
            (Request::Increment { key: of, by }, Response::Incremented(sum)) if of == key => {
                steps.push(Step::Adds(*by, Some(*sum)));
            }
            _ => steps.extend(writes(request, key)),
        }
    }
    steps
}

/// What a batch that failed found at `key`, if that is told.
fn found<'a>(batch: &'a Batch, error: &'a Error, key: &Key) -> Vec<Step<'a>> {
    match error {
        Error::ConditionFailed {
            index,
            key: of,
            actual,
        } if of == key => {
            let mut steps = Vec::new();
            for request in &batch.requests()[..*index] {
                match request {
                    // How far it went is not told.
                    Request::DeleteRange { span, .. } if span.contains_key(key) => return vec![],
                    _ => steps.extend(writes(request, key)),
                }
            }
            steps.push(Step::Reads(actual.as_ref()));
            steps
        }
        _ => Vec::new(),
    }
}

/// What a batch did to `key` that was told nothing, and left `value`.
fn untold<'a>(batch: &'a Batch, key: &Key, value: &'a Option<Value>) -> Vec<Step<'a>> {
    let deletes = |request: &Request| matches!(request, Request::DeleteRange { span, .. } if span.contains_key(key));
    if batch.requests().iter().any(deletes) {
        return vec![Step::Writes(value.as_ref())];
    }
    let requests = batch.requests().iter();
    let mut steps = Vec::from_iter(requests.flat_map(|request| writes(request, key)));
    steps.push(Step::Reads(value.as_ref()));
    steps
}

/// What a request does to `key` whose answer says nothing more.
fn writes<'a>(request: &'a Request, key: &Key) -> Vec<Step<'a>> {
    match request {
        Request::Put { key: of, value } if of == key => vec![Step::Writes(Some(value))],
        Request::Delete { key: of } if of == key => vec![Step::Writes(None)],
        Request::Increment { key: of, by } if of == key => vec![Step::Adds(*by, None)],
        Request::ConditionalPut {
            key: of,
            expected,
            value,
        } if of == key => vec![Step::Expects(expected.as_ref()), Step::Writes(Some(value))],
        _ => Vec::new(),
    }
}

/// Whether a request that went as far as `resume` looked at `key`.
fn covers(request: &Request, resume: Option<&Span>, key: &Key) -> bool {
    span_of(request).contains_key(key) && !resume.is_some_and(|rest| rest.contains_key(key))
}

impl Operation<'_> {
    /// What the key holds afterwards, if it may have held `value` before.
    fn after(&self, value: &Option<Value>) -> Option<Option<Value>> {
        let mut now = value.clone();
        for step in &self.steps {
            match step {
                Step::Reads(told) | Step::Expects(told) if now.as_ref() != *told => return None,
                Step::FindsSomething if now.is_none() => return None,
                Step::Reads(_) | Step::Expects(_) | Step::FindsSomething => {}
                Step::Writes(value) => now = value.cloned(),
                Step::Adds(by, told) => {
                    let sum = number(now.as_ref()).ok()? + by;
                    if told.is_some_and(|told| told != sum) {
                        return None;
                    }
                    now = Some(Value::copy_from_slice(&sum.to_be_bytes()));
                }
            }
        }
        Some(if self.failed { value.clone() } else { now })
    }

    fn only_reads(&self) -> bool {
        self.failed || self.steps.iter().all(|s| matches!(s, Step::Reads(_)))
    }
}

/// Which operations are in order already: all below the first, and some more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Done {
    below: usize,
    more: Vec<usize>,
}

impl Done {
    fn has(&self, at: usize) -> bool {
        at < self.below || self.more.binary_search(&at).is_ok()
    }

    fn with(&self, at: usize) -> Self {
        let mut done = self.clone();
        let place = done.more.partition_point(|&other| other < at);
        done.more.insert(place, at);
        while done.more.first() == Some(&done.below) {
            done.more.remove(0);
            done.below += 1;
        }
        done
    }
}

/// How far the search came.
#[derive(Debug, PartialEq, Eq)]
struct NoOrder {
    why: &'static str,
    held: Option<Value>,
    /// The operations of which one had to be the next.
    next: Vec<usize>,
}

/// Looks for an order. Returns how many steps that took.
fn order(operations: &[Operation<'_>]) -> Result<u64, NoOrder> {
    let mut furthest = (
        0,
        NoOrder {
            why: "there is no order",
            held: None,
            next: Vec::new(),
        },
    );
    let mut been = HashSet::new();
    let mut to_go = vec![(Done::default(), None)];
    let mut steps = 0;
    while let Some((done, value)) = to_go.pop() {
        if done.below == operations.len() {
            return Ok(steps);
        }
        if !been.insert((done.clone(), value.clone())) {
            continue;
        }
        steps += 1;
        if steps > STEPS {
            furthest.1.why = "it is not decided whether there is an order";
            break;
        }
        // Next is one that began before any other that is left ended.
        let left = || (done.below..operations.len()).filter(|&at| !done.has(at));
        let mut end = u64::MAX;
        let mut next = Vec::new();
        for at in left() {
            if operations[at].began > end {
                break;
            }
            end = end.min(operations[at].ended);
            next.push(at);
        }
        let len = done.below + done.more.len();
        if len >= furthest.0 {
            furthest.0 = len;
            furthest.1.held = value.clone();
            furthest.1.next.clone_from(&next);
        }
        let fits = |at: usize| Some((done.with(at), operations[at].after(&value)?));
        let read = next
            .iter()
            .find(|&&at| operations[at].only_reads() && operations[at].after(&value).is_some());
        match read {
            Some(&at) => to_go.extend(fits(at)),
            // The last pushed is looked at first: the one that began first.
            None => to_go.extend(next.into_iter().rev().filter_map(fits)),
        }
    }
    Err(furthest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation<'a>(began: u64, ended: u64, step: Step<'a>) -> Operation<'a> {
        Operation {
            began,
            ended,
            steps: vec![step],
            failed: false,
        }
    }

    #[test]
    fn a_stale_read_has_no_order() {
        let (a, b) = (Value::from("a"), Value::from("b"));
        let mut history = vec![
            operation(0, 1, Step::Writes(Some(&a))),
            operation(2, 5, Step::Writes(Some(&b))),
            operation(3, 4, Step::Reads(Some(&b))),
            operation(6, 7, Step::Reads(Some(&b))),
        ];
        assert!(order(&history).is_ok());
        history[3].steps = vec![Step::Reads(Some(&a))];
        let told = order(&history).unwrap_err();
        assert_eq!((told.held, told.next), (Some(b.clone()), vec![3]));
    }

    #[test]
    fn reads_that_overlap_a_write_may_see_it_or_not_but_not_go_back() {
        let a = Value::from("a");
        let history = |first, second| {
            [
                operation(0, 9, Step::Writes(Some(&a))),
                operation(1, 2, Step::Reads(first)),
                operation(3, 4, Step::Reads(second)),
            ]
        };
        assert!(order(&history(None, Some(&a))).is_ok());
        assert!(order(&history(Some(&a), Some(&a))).is_ok());
        assert!(order(&history(Some(&a), None)).is_err());
    }

    #[test]
    fn an_operation_of_which_nobody_knows_when_it_ended_may_come_late() {
        let a = Value::from("a");
        let history = [
            operation(0, u64::MAX, Step::Writes(Some(&a))),
            operation(1, 2, Step::Reads(None)),
            operation(3, 4, Step::Reads(Some(&a))),
        ];
        assert!(order(&history).is_ok());
    }

    #[test]
    fn sums_are_in_order() {
        let history = [
            operation(0, 5, Step::Adds(1, Some(2))),
            operation(1, 4, Step::Adds(1, Some(1))),
        ];
        assert!(order(&history).is_ok());
        let lost = [
            operation(0, 5, Step::Adds(1, Some(1))),
            operation(1, 4, Step::Adds(1, Some(1))),
        ];
        assert!(order(&lost).is_err());
    }
}
