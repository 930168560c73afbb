//! An engine in memory that gets into trouble when a script says so.

use std::fmt;

use parking_lot::Mutex;
use spanlatch_replica::{
    Collected, Engine, EngineError, Marks, MemEngine, Snapshot, Version, WriteBatch,
};
use spanset::{Cursor, Key, Reader, Timestamp};

/// What happens, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A snapshot panics when it is read.
    PanicsWhenRead,
    /// No snapshot can be taken.
    FailsToPin,
    /// Applying fails, and has or has not happened.
    FailsToApply,
    /// Applying fails, and has not happened.
    RefusesToApply,
}

type Hook = Box<dyn FnOnce(&Troubled) + Send>;

/// Versions in memory, which outlive the stores of a script.
#[derive(Default)]
pub(super) struct Troubled {
    inner: MemEngine,
    trouble: Mutex<Option<Trouble>>,
    /// Called once, just before a snapshot is taken.
    before_snapshot: Mutex<Option<Hook>>,
    /// If it remembers a ceiling.
    pub(super) ceiling: Mutex<Option<Timestamp>>,
}

impl Troubled {
    pub(super) fn expect(&self, trouble: Trouble) {
        *self.trouble.lock() = Some(trouble);
    }

    pub(super) fn before_snapshot(&self, hook: impl FnOnce(&Self) + Send + 'static) {
        *self.before_snapshot.lock() = Some(Box::new(hook));
    }

    /// Whether there is that trouble now.
    fn meets(&self, trouble: Trouble) -> bool {
        self.trouble.lock().take_if(|t| *t == trouble).is_some()
    }
}

impl fmt::Debug for Troubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Troubled")
    }
}

impl Engine for Troubled {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let hook = self.before_snapshot.lock().take();
        if let Some(hook) = hook {
            hook(self);
        }
        if self.meets(Trouble::FailsToPin) {
            return Err(EngineError::new("cannot read"));
        }
        Ok(Box::new(Read {
            inner: self.inner.snapshot()?,
            panics: self.meets(Trouble::PanicsWhenRead),
        }))
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        if self.meets(Trouble::RefusesToApply) {
            return Err(EngineError::refused("no space left"));
        }
        self.inner.apply(group)?;
        match self.meets(Trouble::FailsToApply) {
            true => Err(EngineError::new("cannot sync")),
            false => Ok(()),
        }
    }

    fn marks(&self) -> Marks {
        Marks {
            ceiling: self.ceiling.lock().unwrap_or(Timestamp::MAX),
            ..self.inner.marks()
        }
    }

    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError> {
        *self.ceiling.lock() = Some(to);
        Ok(())
    }

    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError> {
        self.inner.collect(threshold)
    }
}

struct Read {
    inner: Snapshot,
    panics: bool,
}

impl Read {
    fn check(&self) {
        assert!(!self.panics, "the engine is broken");
    }
}

impl Reader for Read {
    type Value = Version;
    type Error = EngineError;

    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<Version>, EngineError> {
        self.check();
        self.inner.get(key, at)
    }

    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = Version, Error = EngineError> + '_> {
        self.check();
        self.inner.cursor(at)
    }
}
