//! An engine that fails now and then, and notes what it has applied.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread;

use spanlatch_replica::{Collected, Engine, EngineError, Marks, MemEngine, Snapshot, WriteBatch};
use spanset::Timestamp;

use crate::Choices;

/// A [`MemEngine`] behind which a disk could be.
pub(crate) struct FailingEngine {
    inner: MemEngine,
    state: Mutex<State>,
}

struct State {
    choices: Choices<'static>,
    applied: Vec<WriteBatch>,
}

/// How many of a group are applied, and what is said then.
enum Way {
    Well,
    /// This many, and then it fails.
    Part(usize),
    Refuse,
}

impl FailingEngine {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            inner: MemEngine::new(),
            state: Mutex::new(State {
                choices: Choices::random(!seed),
                applied: Vec::new(),
            }),
        }
    }

    /// What it has applied so far, in this order.
    pub(crate) fn applied(&self) -> Vec<WriteBatch> {
        self.with(|state| state.applied.clone())
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets others go first now and then, as a disk would.
    fn dawdle(&self) {
        for _ in 0..self.with(|state| state.choices.below(4)) {
            thread::yield_now();
        }
    }
}

impl fmt::Debug for FailingEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailingEngine")
    }
}

impl Engine for FailingEngine {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        if self.with(|state| state.choices.one_in(200)) {
            return Err(EngineError::new("no snapshot today"));
        }
        let snapshot = self.inner.snapshot();
        self.dawdle();
        snapshot
    }

    fn apply(&self, mut group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.dawdle();
        let len = group.len();
        let way = self.with(|state| match state.choices.below(40) {
            0 => Way::Part(0),
            1 => Way::Part(state.choices.below(len + 1)),
            2 => Way::Part(len),
            3 => Way::Refuse,
            _ => Way::Well,
        });
        match way {
            Way::Well => {}
            Way::Part(applied) => group.truncate(applied),
            Way::Refuse => return Err(EngineError::refused("the disk is full")),
        }
        self.inner.apply(group.clone())?;
        self.with(|state| state.applied.extend(group));
        self.dawdle();
        match way {
            Way::Part(_) => Err(EngineError::new("the disk does not answer")),
            _ => Ok(()),
        }
    }

    fn marks(&self) -> Marks {
        self.inner.marks()
    }

    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError> {
        self.inner.raise_ceiling(to)
    }

    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError> {
        let collected = self.inner.collect(threshold);
        self.dawdle();
        collected
    }
}
