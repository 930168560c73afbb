//! What a replication log asks of a storage engine.

use bytes::Bytes;
use spanset::{Key, Span};

use super::{Engine, EngineError};
use crate::{Version, WriteBatch};

/// An engine that also keeps records: plain keys and values beside the versions, which [snapshots](Engine::snapshot) do
/// not show. A replication log is made of them, and so is what a replica knows of its own progress.
pub trait Records: Engine {
    /// Applies batches, as [`apply`](Engine::apply) does, and writes records, all as one group: whoever sees one part of it
    /// sees every part, also after a crash. `None` removes a record; of two values for a key the later stays.
    ///
    /// # Errors
    ///
    /// Whatever the engine says; whether the group was written is then unknown, but it is as a whole or not at all, and
    /// nothing of it is written later. It was not if the engine [refuses](EngineError::is_refusal) it.
    fn write(
        &self,
        batches: Vec<WriteBatch>,
        records: Vec<(Bytes, Option<Bytes>)>,
    ) -> Result<(), EngineError>;

    /// What the record of `key` holds.
    ///
    /// # Errors
    ///
    /// Whatever the engine says.
    fn record(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError>;

    /// The records from `start` to before `end`, as of one moment, in ascending order. The last one is the first with
    /// which keys and values are more than `max_bytes` together; so if there is one, there is one in the answer. Nothing
    /// after it is read.
    ///
    /// # Errors
    ///
    /// Whatever the engine says.
    fn records(
        &self,
        start: &[u8],
        end: &[u8],
        max_bytes: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, EngineError>;

    /// Replaces all versions of all keys in `span` by `versions`, of which the order does not matter, as one group.
    /// Snapshots taken before keep what they show. The caller sees to it that nothing else writes there or collects
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// As of [`write`](Self::write). A key outside of `span` is refused.
    fn replace(&self, span: &Span, versions: Vec<(Key, Version)>) -> Result<(), EngineError>;

    /// Whether calls wait for a disk, so that an async caller had better make them on a thread of their own.
    fn blocks(&self) -> bool;
}

/// Takes records until they are more than `max_bytes`.
pub(super) fn until_exceeded(
    all: impl Iterator<Item = Result<(Bytes, Bytes), EngineError>>,
    max_bytes: usize,
) -> Result<Vec<(Bytes, Bytes)>, EngineError> {
    let mut records = Vec::new();
    let mut bytes = 0;
    for record in all {
        let (key, value) = record?;
        bytes += key.len() + value.len();
        records.push((key, value));
        if bytes > max_bytes {
            break;
        }
    }
    Ok(records)
}

/// Refuses versions of keys that are not in the span that they are to fill.
pub(super) fn check_inside(span: &Span, versions: &[(Key, Version)]) -> Result<(), EngineError> {
    #[derive(Debug, thiserror::Error)]
    #[error("{key:?} is outside of {span}, which is to be replaced")]
    struct Outside {
        key: Key,
        span: Span,
    }

    match versions.iter().find(|(key, _)| !span.contains_key(key)) {
        None => Ok(()),
        Some((key, _)) => Err(EngineError::refused(Outside {
            key: key.clone(),
            span: span.clone(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn nothing_is_read_after_the_record_that_exceeds_the_limit() {
        let record = |key: &'static str, value: &'static str| (key.into(), value.into());
        let kept = [record("a", ""), record("b", "12"), record("c", "3")];
        for (max_bytes, expected) in [(0, 1), (1, 2), (3, 2), (4, 3), (5, 3)] {
            let beyond = iter::once_with(|| panic!("read on"));
            let all = kept[..expected].iter().cloned().map(Ok).chain(beyond);
            let found = until_exceeded(all, max_bytes).unwrap();
            assert_eq!(found, kept[..expected]);
        }
        let all = kept.iter().cloned().map(Ok);
        assert_eq!(until_exceeded(all, 6).unwrap(), kept);
    }
}
