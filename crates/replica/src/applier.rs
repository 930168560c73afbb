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

use crate::{Engine, Error, Proposal, Proposer};

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
    /// Pushes and swaps, and nothing else, happen under it.
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

    fn take(&self) -> Vec<Proposal> {
        mem::take(&mut self.state.lock().proposals)
    }
}

impl Applier {
    /// Applies, as one group, all that is proposed and not applied, and lets the callers respond.
    /// Returns how many proposals that were.
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
            Err(error) => {
                warn!(size, %error, "a group may not have been applied");
                // Each ends as ambiguous.
                drop(group);
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
        if self.step() == 0 {
            let mut state = self.queue.state.lock();
            if state.proposals.is_empty() {
                if state.closed {
                    return Poll::Ready(());
                }
                state.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
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
