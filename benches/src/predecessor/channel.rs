//! What a command is to those that wait for it, and what a command waits for.

use std::mem;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use smallvec::SmallVec;

/// A command, as those that wait for it see it: a channel that is closed when it has finished.
///
/// A command that nobody waits for has none.
#[derive(Debug)]
pub(super) struct Channel {
    /// The command's place in line: smaller is earlier.
    pub(super) sequence: u64,
    /// Set under the mutex of `wakers`, and never unset; what happened before is visible after it.
    finished: AtomicBool,
    wakers: Mutex<SmallVec<[Waker; 1]>>,
    /// What the command still waited for if it gave up. Set before `finished`.
    handed_on: OnceLock<Box<Prerequisites>>,
}

impl Channel {
    pub(super) fn new(sequence: u64) -> Self {
        Self {
            sequence,
            finished: AtomicBool::new(false),
            wakers: Mutex::default(),
            handed_on: OnceLock::new(),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        // Pairs with the store in `finish`: what was handed on is seen.
        self.finished.load(Ordering::Acquire)
    }

    /// Lets those that wait for this command go on.
    pub(super) fn finish(&self) {
        let wakers = {
            let mut wakers = self.wakers.lock();
            self.finished.store(true, Ordering::Release);
            mem::take(&mut *wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Leaves what this command still waited for to those that wait for it. To be called before
    /// [`finish`](Self::finish), and once.
    pub(super) fn hand_on(&self, prerequisites: Prerequisites) {
        let unfinished = prerequisites.unfinished();
        if !unfinished.is_empty() {
            self.handed_on
                .set(Box::new(unfinished))
                .expect("a command gives up once");
        }
    }

    /// Asks to be woken when the command finishes; `false` if it has.
    pub(super) fn register(&self, waker: &Waker) -> bool {
        let mut wakers = self.wakers.lock();
        let waits = !self.is_finished();
        // A task that is polled without reason mostly finds itself to be the last that registered.
        if waits && !wakers.last().is_some_and(|last| last.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        waits
    }

    /// Wakes those that wait, without having finished.
    pub(super) fn wake_all(&self) {
        let wakers = mem::take(&mut *self.wakers.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// What a command waits for, oldest first.
#[derive(Debug, Default)]
pub(super) struct Prerequisites(SmallVec<[Arc<Channel>; 4]>);

impl Prerequisites {
    /// The commands to wait for, in any order, each once.
    pub(super) fn new(mut channels: SmallVec<[Arc<Channel>; 4]>) -> Self {
        if channels.len() > 1 {
            channels.sort_unstable_by_key(|channel| channel.sequence);
        }
        Self(channels)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets the newest as long as they have finished, takes over what they handed on, and gives
    /// the newest that hasn't. What is handed on is older than who hands it on, so that going from
    /// new to old meets every command once, however many hand it on.
    pub(super) fn newest_unfinished(&mut self) -> Option<&Arc<Channel>> {
        while self.0.last()?.is_finished() {
            let finished = self.0.pop()?;
            for earlier in finished
                .handed_on
                .get()
                .into_iter()
                .flat_map(|handed_on| &handed_on.0)
            {
                if let Err(at) = self
                    .0
                    .binary_search_by_key(&earlier.sequence, |c| c.sequence)
                {
                    self.0.insert(at, Arc::clone(earlier));
                }
            }
        }
        self.0.last()
    }

    /// Those that have not finished, those handed on included.
    fn unfinished(mut self) -> Self {
        let mut unfinished = SmallVec::new();
        while let Some(newest) = self.newest_unfinished() {
            unfinished.push(Arc::clone(newest));
            self.0.pop();
        }
        unfinished.reverse();
        Self(unfinished)
    }

    #[cfg(test)]
    pub(super) fn sequences(&self) -> Vec<u64> {
        self.0.iter().map(|channel| channel.sequence).collect()
    }
}
