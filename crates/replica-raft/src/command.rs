//! What the log says.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use spanlatch_replica::WriteBatch;
use spanset::{Key, Timestamp};

use crate::flight::{Flight, Passage};
use crate::types::LeaderId;

/// A log entry of ours: the bytes of an [`Effect`] and of the leadership in which it was evaluated.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Command {
    bytes: Bytes,
    /// On the node that proposes it: who waits for it. openraft's answering takes it out.
    #[serde(skip)]
    pub(crate) flight: Option<Arc<Flight>>,
    /// On the node that proposes it: to be told when the log has it.
    #[serde(skip)]
    pub(crate) passage: Option<Arc<Passage>>,
}

/// What applying a log entry does to the engine. All of it can be done again: versions have their timestamps, and marks are
/// only raised.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// Nothing; whoever sees it applied knows that all before it are.
    Begin,
    /// Applies what a group of proposals writes.
    Write(Vec<WriteBatch>),
    /// Raises the ceiling.
    Ceiling(Timestamp),
    /// Raises the threshold, and collects below.
    Collect(Timestamp),
}

/// As an [`Effect`], as it is encoded.
#[derive(Serialize, Deserialize)]
enum Encoded {
    Begin,
    Write(Vec<Batch>),
    Ceiling(u64, u32),
    Collect(u64, u32),
}

#[derive(Serialize, Deserialize)]
struct Batch {
    wall: u64,
    logical: u32,
    writes: Vec<(Key, Option<Bytes>)>,
}

/// A command that cannot be read: another version wrote it, or it is damaged.
#[derive(Debug, thiserror::Error)]
#[error("a command that cannot be read: {0}")]
pub(crate) struct Unreadable(postcard::Error);

impl Command {
    /// A command that nobody waits for yet.
    pub(crate) fn new(leadership: LeaderId, effect: Effect) -> Self {
        let encoded = match effect {
            Effect::Begin => Encoded::Begin,
            Effect::Write(batches) => {
                Encoded::Write(batches.into_iter().map(Batch::from).collect())
            }
            Effect::Ceiling(to) => Encoded::Ceiling(to.wall, to.logical),
            Effect::Collect(threshold) => Encoded::Collect(threshold.wall, threshold.logical),
        };
        let bytes = postcard::to_stdvec(&(leadership, encoded)).expect("a vector takes all bytes");
        Self {
            bytes: bytes.into(),
            flight: None,
            passage: None,
        }
    }

    /// The same command, for which somebody waits.
    pub(crate) fn with(mut self, flight: Arc<Flight>) -> Self {
        self.passage = Some(flight.passage());
        self.flight = Some(flight);
        self
    }

    /// The leadership in which it was evaluated, and what it does.
    pub(crate) fn decode(&self) -> Result<(LeaderId, Effect), Unreadable> {
        let (leadership, encoded) = postcard::from_bytes(&self.bytes).map_err(Unreadable)?;
        let effect = match encoded {
            Encoded::Begin => Effect::Begin,
            Encoded::Write(batches) => {
                Effect::Write(batches.into_iter().map(WriteBatch::from).collect())
            }
            Encoded::Ceiling(wall, logical) => Effect::Ceiling(Timestamp::new(wall, logical)),
            Encoded::Collect(wall, logical) => Effect::Collect(Timestamp::new(wall, logical)),
        };
        Ok((leadership, effect))
    }
}

/// How many bytes a batch takes in a command, at most.
pub(crate) fn size(batch: &WriteBatch) -> usize {
    /// A timestamp, two lengths and an option's tag, each in its longest form.
    const OVERHEAD: usize = 32;
    let writes = batch.writes.iter();
    let sizes =
        writes.map(|(key, value)| OVERHEAD + key.len() + value.as_ref().map_or(0, Bytes::len));
    OVERHEAD + sizes.sum::<usize>()
}

impl From<WriteBatch> for Batch {
    fn from(batch: WriteBatch) -> Self {
        Self {
            wall: batch.timestamp.wall,
            logical: batch.timestamp.logical,
            writes: batch.writes,
        }
    }
}

impl From<Batch> for WriteBatch {
    fn from(batch: Batch) -> Self {
        Self {
            timestamp: Timestamp::new(batch.wall, batch.logical),
            writes: batch.writes,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Ok((leadership, effect)) => write!(f, "{leadership}: {effect:?}"),
            Err(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let leadership = LeaderId::new(7, 3);
        let batch = |wall| WriteBatch {
            timestamp: Timestamp::new(wall, 9),
            writes: vec![
                (Key::from("a"), Some(Bytes::from("1"))),
                (Key::from("b"), None),
                (Key::new(), Some(Bytes::new())),
            ],
        };
        let effects = || {
            [
                Effect::Begin,
                Effect::Write(vec![batch(5), batch(u64::MAX)]),
                Effect::Ceiling(Timestamp::MAX),
                Effect::Collect(Timestamp::new(1, 2)),
            ]
        };
        for (effect, expected) in effects().into_iter().zip(effects()) {
            let command = Command::new(leadership, effect);
            assert_eq!(command.decode().unwrap(), (leadership, expected));
        }
    }

    #[test]
    fn the_size_of_a_batch_is_never_underrated() {
        for length in [0, 1, 127, 128, 70_000] {
            let batch = WriteBatch {
                timestamp: Timestamp::MAX,
                writes: vec![(Key::from(vec![1; length]), Some(vec![2; length].into()))],
            };
            let size = size(&batch);
            let command = Command::new(LeaderId::new(0, 0), Effect::Write(vec![batch]));
            assert!(
                command.bytes.len() <= size,
                "{} > {size}",
                command.bytes.len()
            );
        }
    }
}
