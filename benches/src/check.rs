//! What must be true of a store after a workload has run on it.

use bytes::Bytes;
use spanlatch_replica::{EngineError, Latches, Store};
use spanset::{Span, Timestamp};

/// A write that was acknowledged: its key, and when it took place.
pub type Acknowledged = ([u8; 8], Timestamp);

/// A store that is not as its acknowledgements say.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckError {
    /// Latches are held, or waited for, though nobody is at work.
    #[error("latches are left over though no operation is in flight")]
    Latches,
    /// The newest version of a key is not the newest acknowledged write.
    #[error(
        "the newest version of key {key:?} is of {found}, its newest acknowledged write of {expected}"
    )]
    Newest {
        /// The key.
        key: Bytes,
        /// The timestamp of its newest version.
        found: Timestamp,
        /// The timestamp of its newest acknowledged write.
        expected: Timestamp,
    },
    /// A key has too few or too many versions.
    #[error("key {key:?} has {found} versions, but {expected} of its writes were acknowledged")]
    Versions {
        /// The key.
        key: Bytes,
        /// How many versions it has.
        found: usize,
        /// How many writes were acknowledged.
        expected: usize,
    },
    /// The versions cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The writes of one key.
#[derive(Debug)]
struct Writes {
    key: Bytes,
    newest: Timestamp,
    count: usize,
}

/// Checks that no latches are left, that the newest version of each key is its newest acknowledged
/// write, and that there are as many versions as acknowledged writes. Nobody may be at work.
/// O(w log w + v log v) for w acknowledged writes and v versions.
///
/// # Errors
///
/// The first thing that is not so.
pub fn check<L: Latches>(store: &Store<L>, writes: Vec<Acknowledged>) -> Result<(), CheckError> {
    if !store.is_idle() {
        return Err(CheckError::Latches);
    }
    let mut expected = acknowledged(writes).into_iter().peekable();
    let mut found = versions(store)?.into_iter().peekable();
    loop {
        match (expected.peek(), found.peek()) {
            (None, None) => return Ok(()),
            (Some(expected), found) if found.is_none_or(|found| expected.key < found.key) => {
                let Writes { key, count, .. } = expected;
                return Err(CheckError::Versions {
                    key: key.clone(),
                    found: 0,
                    expected: *count,
                });
            }
            (expected, Some(found)) if expected.is_none_or(|expected| found.key < expected.key) => {
                let Writes { key, count, .. } = found;
                return Err(CheckError::Versions {
                    key: key.clone(),
                    found: *count,
                    expected: 0,
                });
            }
            _ => {}
        }
        if let (Some(expected), Some(found)) = (expected.next(), found.next()) {
            if expected.count != found.count {
                let (found, expected, key) = (found.count, expected.count, expected.key);
                return Err(CheckError::Versions {
                    key,
                    found,
                    expected,
                });
            }
            if expected.newest != found.newest {
                let (found, expected, key) = (found.newest, expected.newest, expected.key);
                return Err(CheckError::Newest {
                    key,
                    found,
                    expected,
                });
            }
        }
    }
}

/// What was acknowledged, by ascending key. A batch that writes a key twice makes one version of it.
fn acknowledged(mut writes: Vec<Acknowledged>) -> Vec<Writes> {
    writes.sort_unstable();
    writes.dedup();
    let of_key = |of_key: &[Acknowledged]| Writes {
        key: Bytes::copy_from_slice(&of_key[0].0),
        newest: of_key[of_key.len() - 1].1,
        count: of_key.len(),
    };
    writes
        .chunk_by(|one, other| one.0 == other.0)
        .map(of_key)
        .collect()
}

/// What the store has, by ascending key; its newest version of each comes first.
fn versions<L: Latches>(store: &Store<L>) -> Result<Vec<Writes>, CheckError> {
    let mut found: Vec<Writes> = Vec::new();
    for version in store.versions(Span::all())? {
        let (key, version) = version?;
        match found.last_mut() {
            Some(last) if last.key == key => last.count += 1,
            _ => found.push(Writes {
                key,
                newest: version.timestamp,
                count: 1,
            }),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use spanlatch_replica::{Batch, Request};

    use super::*;
    use crate::predecessor::Predecessor;

    /// A store in which "aaaaaaaa" was written twice and "bbbbbbbb" once, and the acknowledgements.
    fn written() -> (Store<Predecessor>, Vec<Acknowledged>) {
        let (store, applier) = Store::builder().build_latched(|_| Predecessor::new());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build();
        let runtime = runtime.expect("a runtime");
        drop(runtime.spawn(applier));
        let mut writes = Vec::new();
        for key in [*b"aaaaaaaa", *b"bbbbbbbb", *b"aaaaaaaa"] {
            let put = Request::put(Bytes::copy_from_slice(&key), "value");
            let reply = runtime
                .block_on(store.send(Batch::new().with(put)))
                .expect("it is written");
            writes.push((key, reply.timestamp));
        }
        (store, writes)
    }

    fn failure(change: impl FnOnce(&mut Vec<Acknowledged>)) -> String {
        let (store, mut writes) = written();
        change(&mut writes);
        check(&store, writes)
            .expect_err("a fault was planted")
            .to_string()
    }

    #[test]
    fn a_store_that_has_what_it_acknowledged_passes() {
        let (store, writes) = written();
        assert!(check(&store, writes).is_ok());
    }

    #[test]
    fn latches_that_are_left_over_are_noticed() {
        let (store, writes) = written();
        let mut spans = spanset::SpanSet::new();
        spans.read(Span::point("x"));
        let _left_over = store.replicas()[0].latches().sequence(&spans);
        assert!(matches!(check(&store, writes), Err(CheckError::Latches)));
    }

    #[test]
    fn a_lost_write_is_noticed() {
        let error = failure(|writes| writes.push((*b"aaaaaaaa", Timestamp::MAX)));
        assert!(error.contains("has 2 versions, but 3"), "{error}");
        let error = failure(|writes| writes.push((*b"cccccccc", Timestamp::MAX)));
        assert!(error.contains("has 0 versions, but 1"), "{error}");
    }

    #[test]
    fn a_write_that_nobody_acknowledged_is_noticed() {
        let error = failure(|writes| writes.truncate(2));
        assert!(error.contains("has 2 versions, but 1"), "{error}");
        let error = failure(|writes| writes.retain(|write| write.0 != *b"bbbbbbbb"));
        assert!(error.contains("has 1 versions, but 0"), "{error}");
    }

    #[test]
    fn a_write_under_another_timestamp_is_noticed() {
        let error = failure(|writes| writes[2].1 = Timestamp::MAX);
        assert!(error.contains("newest version"), "{error}");
    }
}
