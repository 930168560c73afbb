//! An engine that notes what is applied to it, for all nodes of a group together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use spanlatch_replica::{
    Collected, Engine, EngineError, Marks, Records, Snapshot, Value, Version, WriteBatch,
};
use spanset::{Key, Span, Timestamp};

/// What was applied on any node. All nodes apply the same, so each batch is here once.
#[derive(Debug, Default)]
pub(super) struct Applied {
    batches: Mutex<BTreeMap<Timestamp, Vec<WriteBatch>>>,
    snapshots: AtomicU64,
}

impl Applied {
    /// All of it, in the order of timestamps.
    pub(super) fn batches(&self) -> Vec<WriteBatch> {
        let batches = self.batches.lock().expect("no panic in between");
        batches.values().flatten().cloned().collect()
    }

    /// How many snapshots were installed.
    pub(super) fn snapshots(&self) -> u64 {
        self.snapshots.load(Ordering::Relaxed)
    }

    fn note(&self, group: Vec<WriteBatch>) {
        let mut batches = self.batches.lock().expect("no panic in between");
        for batch in group {
            let same_time = batches.entry(batch.timestamp).or_default();
            if !same_time.contains(&batch) {
                same_time.push(batch);
            }
        }
    }
}

/// The engine of one node.
#[derive(Clone)]
pub(super) struct Noting {
    inner: Arc<dyn Records>,
    applied: Arc<Applied>,
}

impl Noting {
    pub(super) fn new(inner: Arc<dyn Records>, applied: Arc<Applied>) -> Self {
        Self { inner, applied }
    }
}

impl fmt::Debug for Noting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Engine for Noting {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.inner.snapshot()
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.inner.apply(group.clone())?;
        self.applied.note(group);
        Ok(())
    }

    fn marks(&self) -> Marks {
        self.inner.marks()
    }

    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError> {
        self.inner.raise_ceiling(to)
    }

    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError> {
        self.inner.collect(threshold)
    }
}

impl Records for Noting {
    fn write(
        &self,
        group: Vec<WriteBatch>,
        records: Vec<(Value, Option<Value>)>,
    ) -> Result<(), EngineError> {
        self.inner.write(group.clone(), records)?;
        self.applied.note(group);
        Ok(())
    }

    fn record(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.inner.record(key)
    }

    fn records(
        &self,
        start: &[u8],
        end: &[u8],
        max_bytes: usize,
    ) -> Result<Vec<(Value, Value)>, EngineError> {
        self.inner.records(start, end, max_bytes)
    }

    /// The last replacement of a snapshot goes up to the end of all keys.
    fn replace(&self, span: &Span, versions: Vec<(Key, Version)>) -> Result<(), EngineError> {
        let is_last = *span == Span::starting_at(span.start().clone());
        self.applied
            .snapshots
            .fetch_add(is_last.into(), Ordering::Relaxed);
        self.inner.replace(span, versions)
    }

    fn blocks(&self) -> bool {
        self.inner.blocks()
    }
}
