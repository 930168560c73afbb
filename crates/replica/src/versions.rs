//! A walk over all versions.

use std::fmt;

use spanset::{Key, Span, Timestamp};

use crate::{EngineError, Snapshot, Version};

/// All versions of the keys of a span, on one snapshot: keys ascending, each one's newest version
/// first. O(log n) a step.
pub struct Versions {
    snapshot: Snapshot,
    span: Span,
    place: Place,
}

/// Where a walk is.
#[derive(Debug)]
enum Place {
    /// Before the first key.
    Start,
    /// At a key, with its versions above and at this timestamp seen.
    At(Key, Timestamp),
    /// After the last key, or after an error.
    End,
}

impl Versions {
    /// Those that `snapshot` shows.
    pub fn new(snapshot: Snapshot, span: Span) -> Self {
        Self {
            snapshot,
            span,
            place: Place::Start,
        }
    }

    fn step(&mut self) -> Result<Option<(Key, Version)>, EngineError> {
        if let Place::At(key, seen) = &self.place
            && let Some(below) = seen.prev()
            && let Some(version) = self.snapshot.get(key, Some(below))?
        {
            return Ok(Some((key.clone(), version)));
        }
        let mut cursor = self.snapshot.cursor(Some(Timestamp::MAX));
        match &self.place {
            Place::Start => cursor.seek(self.span.start())?,
            Place::At(key, _) => {
                cursor.seek(key)?;
                cursor.next()?;
            }
            Place::End => return Ok(None),
        }
        let item = cursor.item().filter(|(key, _)| self.span.contains_key(key));
        Ok(item.map(|(key, version)| (key.clone(), version.clone())))
    }
}

impl Iterator for Versions {
    type Item = Result<(Key, Version), EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        self.place = match &step {
            Ok(Some((key, version))) => Place::At(key.clone(), version.timestamp),
            Ok(None) | Err(_) => Place::End,
        };
        step.transpose()
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versions")
            .field("span", &self.span)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
