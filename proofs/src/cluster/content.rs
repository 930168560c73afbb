//! All that an engine has.

use std::collections::BTreeMap;

use spanlatch_replica::{Engine, EngineError, Marks, Value, Version, Versions, WriteBatch};
use spanset::{Key, Span, Timestamp};

/// Versions, keys ascending and each one's newest version first, and marks.
#[derive(Debug, PartialEq)]
pub(crate) struct Content {
    pub(crate) versions: Vec<(Key, Version)>,
    pub(crate) marks: Marks,
}

impl Content {
    /// What `engine` has.
    ///
    /// # Errors
    ///
    /// What the engine says.
    pub(crate) fn read(engine: &dyn Engine) -> Result<Self, EngineError> {
        let versions = Versions::new(engine.snapshot()?, Span::all());
        Ok(Self {
            versions: versions.collect::<Result<_, _>>()?,
            marks: engine.marks(),
        })
    }

    /// All that was applied is there, and nothing else; but what reads from the threshold on do not see may be gone. It need
    /// not be: what was evaluated before a collection may be applied after it.
    ///
    /// # Panics
    ///
    /// If that is not so.
    pub(crate) fn compare_with_applied(&self, batches: &[WriteBatch]) {
        let mut keys: BTreeMap<&Key, BTreeMap<Timestamp, &Option<Value>>> = BTreeMap::new();
        for WriteBatch { timestamp, writes } in batches {
            for (key, value) in writes {
                keys.entry(key).or_default().insert(*timestamp, value);
            }
        }
        for (key, Version { timestamp, value }) in &self.versions {
            let applied = keys.get(key).and_then(|key| key.get(timestamp).copied());
            assert!(
                applied == Some(value),
                "{key:?} has {value:?} at {timestamp}; applied was {applied:?}"
            );
        }
        let threshold = self.marks.threshold;
        for (key, applied) in keys {
            let mut is_seen = true;
            for (timestamp, value) in applied.into_iter().rev() {
                let must_be = timestamp > threshold || (is_seen && value.is_some());
                is_seen = timestamp > threshold;
                let found = (self.versions.iter())
                    .any(|(of, version)| of == key && version.timestamp == timestamp);
                assert!(
                    found || !must_be,
                    "{key:?} has lost {value:?}, which was applied at {timestamp}; the threshold is {threshold}"
                );
            }
        }
    }

    /// # Panics
    ///
    /// With the first difference, if there is one.
    pub(crate) fn compare(&self, other: &Self, who: &str) {
        assert_eq!(self.marks, other.marks, "the marks of {who} differ");
        let both = self.versions.iter().zip(&other.versions);
        let same = both.take_while(|(one, other)| one == other).count();
        let (one, other) = (self.versions.get(same), other.versions.get(same));
        assert!(one == other, "{who} differ: {one:?} and {other:?}");
    }
}
