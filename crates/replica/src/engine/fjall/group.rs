//! What is written at once.

use std::collections::BTreeMap;

use bytes::Bytes;
use fjall::{Keyspace, OwnedWriteBatch};
use spanset::Timestamp;

use super::{FjallError, encoding};
use crate::{Value, WriteBatch};

/// What some places of the tree hold from then on, or nothing.
///
/// Sorted, and of two things for a place only the later: fjall orders within a batch by nothing else.
#[derive(Debug, Default)]
pub(super) struct Group {
    items: BTreeMap<Vec<u8>, Option<Bytes>>,
}

impl Group {
    pub(super) fn put_batches(&mut self, batches: &[WriteBatch]) -> Result<(), FjallError> {
        for batch in batches {
            for (key, value) in &batch.writes {
                self.put_version(key, batch.timestamp, value.as_ref())?;
            }
        }
        Ok(())
    }

    pub(super) fn put_version(
        &mut self,
        key: &[u8],
        at: Timestamp,
        value: Option<&Value>,
    ) -> Result<(), FjallError> {
        let encoded = encoding::version(key, at);
        check_length(key, &encoded, encoding::LONGEST)?;
        self.items
            .insert(encoded, Some(encoding::value(value).into()));
        Ok(())
    }

    pub(super) fn remove_version(&mut self, key: &[u8], at: Timestamp) {
        self.items.insert(encoding::version(key, at), None);
    }

    pub(super) fn put_record(
        &mut self,
        key: &[u8],
        value: Option<Bytes>,
    ) -> Result<(), FjallError> {
        let encoded = encoding::record(key);
        check_length(key, &encoded, encoding::LONGEST_RECORD)?;
        self.items.insert(encoded, value);
        Ok(())
    }

    pub(super) fn put_mark(&mut self, name: &str, value: Vec<u8>) {
        self.items.insert(encoding::mark(name), Some(value.into()));
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Moves it into a batch.
    pub(super) fn fill(self, batch: &mut OwnedWriteBatch, tree: &Keyspace) {
        for (place, value) in self.items {
            match value {
                Some(value) => batch.insert(tree, place, value),
                None => batch.remove(tree, place),
            }
        }
    }
}

fn check_length(key: &[u8], encoded: &[u8], longest: usize) -> Result<(), FjallError> {
    if encoded.len() <= longest {
        return Ok(());
    }
    Err(FjallError::KeyTooLong {
        length: key.len(),
        encoded: encoded.len(),
        longest,
    })
}
