//! A version of a key: what it holds from one timestamp on.

use std::cmp::Ordering;

use spanset::{Key, Timestamp};

use crate::Value;

/// What a key holds from a timestamp until its next version: a value, or nothing.
///
/// Versions are ordered by timestamp alone, the newest first, as engines keep them under a key.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Version {
    /// From when on.
    pub timestamp: Timestamp,
    /// What; `None` if the key was deleted.
    pub value: Option<Value>,
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.timestamp == other.timestamp
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        other.timestamp.cmp(&self.timestamp)
    }
}

/// The effects of one batch: a new version for each key that it writes, all at one timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WriteBatch {
    /// The timestamp of the new versions.
    pub timestamp: Timestamp,
    /// What each key holds from then on, in the order written; of two writes to a key the later
    /// stays.
    pub writes: Vec<(Key, Option<Value>)>,
}
