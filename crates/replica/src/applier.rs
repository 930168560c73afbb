//! The local proposer: a queue, and an applier that applies what it holds in groups.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use parking_lot::Mutex;
use tracing::{trace, warn};

use crate::{Cause, Engine, Error, Proposal, Proposer};

/// Takes a store's proposals in groups and applies them to its engine.
///
/// It is a future that ends when the store is gone or shut down and all it proposed is applied. Let
/// an executor run it, or a thread ([`run`](Self::run)), or call [`step`](Self::step) whenever a group
/// should be applied. Each poll applies at most one group: all that was proposed since the last.
///
/// Dropping it earlier fails what was not applied, and all that is proposed later, with
/// [`Error::ShuttingDown`].
#[must_use = "nothing is applied unless the applier runs"]
pub struct Applier {
    queue: Arc<Queue>,
    engine: Arc<dyn Engine>,
}

/// Hands proposals to an [`Applier`].
pub(crate) struct LocalProposer(Arc<Queue>);

/// Between the proposer and the applier.
#[derive(Default)]
struct Queue {
    /// Pushes and swaps, and nothing else, happen under it; no waker is cloned, dropped or woken.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    proposals: Vec<Proposal>,
    /// The applier's, while it waits for a proposal.
    waker: Option<Waker>,
    /// Whether no more proposals are accepted.
    closed: bool,
}

/// The two ends of a new queue in front of `engine`.
pub(crate) fn local(engine: Arc<dyn Engine>) -> (LocalProposer, Applier) {
    let queue = Arc::new(Queue::default());
    (LocalProposer(queue.clone()), Applier { queue, engine })
}

impl Proposer for LocalProposer {
    fn propose(&self, proposal: Proposal) {
        let mut state = self.0.state.lock();
        if state.closed {
            drop(state);
            proposal.failed(Error::ShuttingDown);
            return;
        }
        state.proposals.push(proposal);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn shut_down(&self) {
        self.0.close();
    }
}

/// Ends the applier, once it has applied what is in the queue.
impl Drop for LocalProposer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Queue {
    fn close(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.closed = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What a poll of the applier returns, if there is nothing to apply: that it waits, and then
    /// `waker` is stored, or that it has ended.
    fn wait(&self, waker: &Waker) -> Option<Poll<()>> {
        // Cloning and dropping a waker is the executor's code: not under the mutex.
        let mut waker = Some(waker.clone());
        let mut state = self.state.lock();
        let end = match (state.proposals.is_empty(), state.closed) {
            (false, _) => None,
            (true, true) => Some(Poll::Ready(())),
            (true, false) => {
                mem::swap(&mut state.waker, &mut waker);
                Some(Poll::Pending)
            }
        };
        drop(state);
        end
    }

    fn take(&self) -> Vec<Proposal> {
        mem::take(&mut self.state.lock().proposals)
    }
}

impl Applier {
    /// Applies, as one group, all that is proposed and not applied, and lets the callers respond.
    /// Returns how many proposals that were.
    ///
    /// If the engine refuses the group, the callers fail with [`Error::Engine`]; if it fails in another way, with
    /// [`Error::Ambiguous`]. The latches are released all the
    /// same: by [`Engine::apply`]'s promise nothing of the group is applied later.
    pub fn step(&mut self) -> usize {
        let mut group = self.queue.take();
        if group.is_empty() {
            return 0;
        }
        let size = group.len();
        let writes = group.iter_mut().map(Proposal::take_writes).collect();
        match self.engine.apply(writes) {
            Ok(()) => {
                trace!(size, "applied");
                group.into_iter().for_each(Proposal::applied);
            }
            Err(error) if error.is_refusal() => {
                warn!(size, %error, "a group was not applied");
                for proposal in group {
                    proposal.failed(Error::Engine(error.clone()));
                }
            }
            Err(error) => {
                warn!(size, %error, "a group may not have been applied");
                // Each fate is settled, and not known.
                for proposal in group {
                    proposal.ambiguous(Cause::Engine(error.clone()));
                }
            }
        }
        size
    }

    /// Applies on this thread, which sleeps while there is nothing to do, until the store is gone or
    /// shut down.
    pub fn run(mut self) {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        while Pin::new(&mut self).poll(&mut context).is_pending() {
            thread::park();
        }
    }
}

impl Future for Applier {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.step() == 0
            && let Some(end) = self.queue.wait(context.waker())
        {
            return end;
        }
        // One group a poll: those who were told that theirs is applied get a turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Closes the queue and fails what is in it.
impl Drop for Applier {
    fn drop(&mut self) {
        self.queue.close();
        for proposal in self.queue.take() {
            proposal.failed(Error::ShuttingDown);
        }
    }
}

impl fmt::Debug for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applier")
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::MemEngine;

    /// A waker that counts, where it is dropped, whether the queue's mutex is free.
    struct Watching {
        queue: Arc<Queue>,
        dropped_unlocked: Arc<AtomicUsize>,
    }

    impl Wake for Watching {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Watching {
        fn drop(&mut self) {
            let is_free = self.queue.state.try_lock().is_some();
            let count = usize::from(is_free);
            self.dropped_unlocked.fetch_add(count, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_that_another_replaces_is_dropped_after_unlocking() {
        let (proposer, mut applier) = local(Arc::new(MemEngine::new()));
        let dropped_unlocked = Arc::new(AtomicUsize::new(0));
        for replaced in [0, 1] {
            let waker = Waker::from(Arc::new(Watching {
                queue: applier.queue.clone(),
                dropped_unlocked: dropped_unlocked.clone(),
            }));
            let poll = Pin::new(&mut applier).poll(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
            assert_eq!(dropped_unlocked.load(Ordering::Relaxed), replaced);
        }
        proposer.shut_down();
        assert_eq!(dropped_unlocked.load(Ordering::Relaxed), 2);
        let poll = Pin::new(&mut applier).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_ready());
    }
}
