//! Batches and the versions that they have left: each at its timestamp saw what is below it, and wrote what is there.

use std::collections::{BTreeMap, BTreeSet};

use spanlatch_replica::{Request, Value, Version, WriteBatch};
use spanset::{Key, Timestamp};

use super::clients::span_of;
use super::serial::{Placed, Rows, Writes, check_real_time};
use super::{History, Op, Outcome};

/// The versions of each timestamp. Those may be of several batches that have written different keys.
pub(super) fn groups(versions: &[(Key, Version)]) -> Vec<WriteBatch> {
    let mut groups: BTreeMap<Timestamp, Vec<(Key, Option<Value>)>> = BTreeMap::new();
    for (key, version) in versions {
        let group = groups.entry(version.timestamp).or_default();
        group.push((key.clone(), version.value.clone()));
    }
    let group = |(timestamp, writes)| WriteBatch { timestamp, writes };
    groups.into_iter().map(group).collect()
}

/// Panics unless all versions are of batches that took place, and each of these saw what it should have. Returns how many of the
/// ambiguous ones were applied.
pub(super) fn check(history: &History) -> u64 {
    let mut marks: BTreeMap<&Value, BTreeSet<Timestamp>> = BTreeMap::new();
    for WriteBatch { timestamp, writes } in &history.applied {
        for value in writes.iter().filter_map(|(_, value)| value.as_ref()) {
            marks.entry(value).or_default().insert(*timestamp);
        }
    }
    let mut placed = Vec::new();
    let mut ambiguous = 0;
    for op in &history.ops {
        let wrote = op.mark.as_ref().and_then(|mark| marks.get(mark));
        let wrote = wrote.map(|times| Vec::from_iter(times.iter().copied()));
        let at = match (&op.outcome, wrote.as_deref()) {
            (_, Some([_, _, ..])) => panic!("it was applied twice: {op:?}"),
            (Outcome::Served(reply), Some([at])) => {
                assert_eq!(reply.timestamp, *at, "{op:?}");
                *at
            }
            (Outcome::Served(reply), _) => {
                assert!(op.mark.is_none(), "it was served and is not there: {op:?}");
                reply.timestamp
            }
            (Outcome::Failed(_), Some(_)) => panic!("it failed and was applied: {op:?}"),
            (Outcome::Ambiguous, Some([at])) => {
                ambiguous += 1;
                *at
            }
            (Outcome::Failed(_) | Outcome::Ambiguous, _) => continue,
        };
        let applied = op.mark.as_ref().map(|_| placed.len());
        placed.push(Placed { at, applied, op });
    }
    placed.sort_by_key(|placed| (placed.at, placed.applied.unwrap_or(usize::MAX)));
    check_real_time(&placed);
    check_values(history, &placed);
    ambiguous
}

/// Serves them again, each on what is there below its timestamp, or at it if it only reads.
fn check_values(history: &History, placed: &[Placed<'_>]) {
    let mut groups = history.applied.iter().peekable();
    let mut rows = Rows::default();
    let mut apply = |rows: &mut Rows, is_due: &dyn Fn(Timestamp) -> bool| {
        while let Some(group) = groups.next_if(|group| is_due(group.timestamp)) {
            write(rows, &group.writes);
        }
    };
    let mut explained: BTreeSet<(Timestamp, Key)> = BTreeSet::new();
    for Placed { at, op, .. } in placed {
        if op.mark.is_none() {
            apply(&mut rows, &|timestamp| timestamp <= *at);
        } else {
            apply(&mut rows, &|timestamp| timestamp < *at);
        }
        let group = history
            .applied
            .binary_search_by_key(at, |group| group.timestamp);
        let group = group.map_or(&[][..], |place| &history.applied[place].writes);
        let wrote = check_one(rows.clone(), group, *at, op).or_else(|_| {
            // Another that took place at the same time, and wrote other keys, was before it.
            let mut rows = rows.clone();
            let others = group.iter();
            let others = others.filter(|(key, value)| !is_own(op, key, value.as_ref()));
            write(&mut rows, others);
            check_one(rows, group, *at, op)
        });
        let wrote = wrote.unwrap_or_else(|error| panic!("{error}"));
        explained.extend(wrote.into_keys().map(|key| (*at, key)));
    }
    for WriteBatch { timestamp, writes } in &history.applied {
        for (key, value) in writes {
            let is_known = explained.contains(&(*timestamp, key.clone()));
            assert!(is_known, "who wrote {value:?} to {key:?} at {timestamp}?");
        }
    }
}

fn write<'a>(rows: &mut Rows, writes: impl IntoIterator<Item = &'a (Key, Option<Value>)>) {
    for (key, value) in writes {
        match value {
            Some(value) => rows.0.insert(key.clone(), value.clone()),
            None => rows.0.remove(key),
        };
    }
}

/// Whether a version of its time is its own. A range that it deletes may end early, and have another's value then.
fn is_own(op: &Op, key: &Key, value: Option<&Value>) -> bool {
    op.batch.requests().iter().any(|request| match request {
        Request::DeleteRange { span, .. } => value.is_none() && span.contains_key(key),
        _ => request.is_write() && span_of(request).contains_key(key),
    })
}

/// Returns what it wrote, if it is told what it should be on these rows, and its writes are among those of its timestamp.
fn check_one(
    mut rows: Rows,
    group: &[(Key, Option<Value>)],
    at: Timestamp,
    op: &Op,
) -> Result<Writes, String> {
    let served = rows.serve(&op.batch);
    let (responses, writes) = served.map_err(|error| {
        format!("it took place at {at}, and would have failed, {error}: {op:?}")
    })?;
    match &op.outcome {
        Outcome::Served(reply) if reply.responses != responses => {
            return Err(format!("at {at} it should be told {responses:?}: {op:?}"));
        }
        _ => {}
    }
    let is_there =
        |wrote: &(&Key, &Option<Value>)| group.iter().any(|(key, value)| (key, value) == *wrote);
    match writes.iter().find(|wrote| !is_there(wrote)) {
        Some(missing) => Err(format!("at {at} {missing:?} is not there: {op:?}")),
        None => Ok(writes),
    }
}
