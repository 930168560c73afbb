//! Records in a folder.

use bytes::Bytes;
use spanset::{Key, Span};

use super::group::Group;
use super::reader::FjallSnapshot;
use super::{FjallEngine, encoding};
use crate::engine::records::{check_inside, until_exceeded};
use crate::{EngineError, Records, Version, WriteBatch};

impl Records for FjallEngine {
    /// One batch of fjall's, and one `fdatasync`. A key that is too long fails the group before anything
    /// is written.
    fn write(
        &self,
        batches: Vec<WriteBatch>,
        records: Vec<(Bytes, Option<Bytes>)>,
    ) -> Result<(), EngineError> {
        let mut group = Group::default();
        group.put_batches(&batches)?;
        drop(batches);
        for (key, value) in records {
            group.put_record(&key, value)?;
        }
        Ok(self.shared.write(group)?)
    }

    /// O(log n) in memory plus, where tables are needed, a block from each level.
    fn record(&self, key: &[u8]) -> Result<Option<Bytes>, EngineError> {
        self.snapshot_of_all()?.record(key)
    }

    /// As [`record`](Records::record), and O(1) for each record. Those that were removed are passed over one by one, until
    /// fjall has merged them away.
    fn records(
        &self,
        start: &[u8],
        end: &[u8],
        max_bytes: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, EngineError> {
        let snapshot = self.snapshot_of_all()?;
        until_exceeded(snapshot.records(start, end), max_bytes)
    }

    /// As [`write`](Records::write) of the versions that go and those that come; the former are read for it.
    fn replace(&self, span: &Span, versions: Vec<(Key, Version)>) -> Result<(), EngineError> {
        check_inside(span, &versions)?;
        let snapshot = self.snapshot_of_all()?;
        let mut group = Group::default();
        let (from, to) = (encoding::before(span.start()), encoding::end(span.end()));
        for entry in snapshot.range(from, to) {
            let entry = entry?;
            group.remove_version(&entry.key, entry.version.timestamp);
        }
        for (key, version) in &versions {
            group.put_version(key, version.timestamp, version.value.as_ref())?;
        }
        drop(versions);
        Ok(self.shared.write(group)?)
    }

    /// Until its disk has what it was given.
    fn blocks(&self) -> bool {
        true
    }
}

impl FjallEngine {
    fn snapshot_of_all(&self) -> Result<FjallSnapshot, EngineError> {
        self.shared.check()?;
        Ok(FjallSnapshot::new(self.shared.clone()))
    }
}
