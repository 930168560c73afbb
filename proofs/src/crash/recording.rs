//! An engine that writes with each group a record of the batches in it, as a replica does of its log.

use std::collections::HashMap;

use spanlatch_replica::{
    Collected, Engine, EngineError, FjallEngine, Marks, Records, Snapshot, WriteBatch,
};
use spanset::{Key, Timestamp};

use super::ledger;

#[derive(Debug)]
pub(super) struct Recording(pub(super) FjallEngine);

impl Engine for Recording {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.0.snapshot()
    }

    /// The record's key is its first batch, which is in no other.
    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        let batches: Vec<String> = group.iter().filter_map(said).collect();
        let key = batches.first().cloned().unwrap_or_default();
        let record = (Key::from(key), Some(batches.join("\n").into()));
        self.0.write(group, vec![record])
    }

    fn marks(&self) -> Marks {
        self.0.marks()
    }

    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError> {
        self.0.raise_ceiling(to)
    }

    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError> {
        self.0.collect(threshold)
    }
}

/// What is recorded of a batch.
fn said(batch: &WriteBatch) -> Option<String> {
    let value = batch
        .writes
        .iter()
        .find_map(|(_, value)| value.as_deref())?;
    let Timestamp { wall, logical, .. } = batch.timestamp;
    Some(format!("{} {wall} {logical}", ledger::id(value)?))
}

/// The batches that are recorded, and when they were applied.
pub(super) fn recorded(engine: &FjallEngine) -> Result<HashMap<String, Timestamp>, String> {
    let records = engine.records(b"", b"\xff", usize::MAX);
    let mut batches = HashMap::new();
    for (_, record) in records.map_err(|error| error.to_string())? {
        let none = || format!("{record:?} is no record");
        for line in str::from_utf8(&record).map_err(|_| none())?.lines() {
            let mut words = line.split(' ');
            let id = words.next().ok_or_else(none)?;
            let at = ledger::timestamp(&mut words).ok_or_else(none)?;
            if batches.insert(id.to_owned(), at).is_some() {
                return Err(format!("batch {id} is recorded twice"));
            }
        }
    }
    Ok(batches)
}
