//! The predecessor of the latch manager: a queue of commands that lists its prerequisites.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use spanlatch::OnPoison;
use spanlatch_replica::{Error, Latches};
use spanset::SpanSet;

mod channel;
mod coverage;
mod part;
mod queue;
#[cfg(test)]
mod tests;

use channel::Prerequisites;
use part::Group;
use queue::{Place, Queue};

/// The command queue that the latch manager replaced: the baseline of every comparison.
///
/// All commands in line stand in interval trees under one mutex. Under that mutex, a new command
/// looks for *all* earlier commands that it conflicts with, keeps the minimal explicit list of those
/// it has to wait for, and joins the trees. Then it waits for each of them in turn.
/// What costs is the list: it is made in full, under the mutex, by every command.
///
/// Four things make it as good as that design can be:
///
/// - **Covering.** A command with many spans of one kind joins a tree as the one span that covers
///   them, and is expanded into its parts only when a search meets it.
/// - **Buffered reads.** Reads do not depend on reads, so that a read joins its tree only once a write
///   looks for reads.
/// - **Stand-ins.** A command that a later prerequisite waits for is left out of the list.
/// - **Hand-over.** A command that gives up leaves at once, and hands what it still waited for on to
///   those that wait for it.
///
/// Cloning gives another handle to the same queue.
#[derive(Clone, Default)]
pub struct Predecessor {
    shared: Arc<Shared>,
}

#[derive(Default, Debug)]
struct Shared {
    /// Held while a command joins or leaves, never while it waits or wakes others.
    queue: Mutex<Queue>,
    shut_down: AtomicBool,
}

impl Predecessor {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a place in line for all of `spans`, behind every earlier command, without waiting.
    pub fn sequence(&self, spans: &SpanSet) -> Pending {
        let groups = Group::of_all(spans);
        let (place, prerequisites) = self.shared.queue.lock().join(groups);
        let line = Line {
            shared: Arc::clone(&self.shared),
            place,
        };
        Pending {
            line: Some(line),
            prerequisites,
        }
    }
}

impl Latches for Predecessor {
    type Guard = Guard;

    fn acquire(
        &self,
        spans: &SpanSet,
        _: OnPoison,
    ) -> impl Future<Output = Result<Self::Guard, Error>> + Send + 'static {
        self.sequence(spans)
    }

    fn is_idle(&self) -> bool {
        self.shared.queue.lock().is_empty()
    }

    fn shut_down(&self) {
        // Before the wake-ups: whoever is woken, or registers from now on, sees it.
        self.shared.shut_down.store(true, Ordering::Release);
        // Collected, so that the mutex is released before anybody is woken.
        let channels: Vec<_> = self.shared.queue.lock().channels().cloned().collect();
        channels.iter().for_each(|channel| channel.wake_all());
    }
}

impl fmt::Debug for Predecessor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predecessor").finish_non_exhaustive()
    }
}

/// A place in the line of a queue.
#[derive(Debug)]
struct Line {
    shared: Arc<Shared>,
    place: Place,
}

impl Line {
    /// Leaves the line. Those that wait for this command go on, to what it still waited for.
    fn leave(&self, still: Prerequisites) {
        // The waiters are woken, and the spans freed, after the mutex is released.
        let left = self.shared.queue.lock().leave(&self.place);
        if let Some(channel) = &left.channel {
            channel.hand_on(still);
            channel.finish();
        }
    }

    fn is_shut_down(&self) -> bool {
        self.shared.shut_down.load(Ordering::Acquire)
    }
}

/// A command in line. It becomes a [`Guard`] once its prerequisites have finished; dropping it leaves
/// the line, which takes the queue's mutex.
#[derive(Debug)]
#[must_use = "dropping it leaves the line"]
pub struct Pending {
    /// `None` once the wait has ended.
    line: Option<Line>,
    /// What is still waited for.
    prerequisites: Prerequisites,
}

impl Pending {
    fn give_up(&mut self) {
        if let Some(line) = self.line.take() {
            line.leave(mem::take(&mut self.prerequisites));
        }
    }
}

impl Future for Pending {
    type Output = Result<Guard, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            line,
            prerequisites,
        } = &mut *self;
        let is_shut_down = || line.as_ref().is_some_and(Line::is_shut_down);
        while let Some(channel) = prerequisites.newest_unfinished()
            && !is_shut_down()
        {
            // Looked at again once registered: a shutdown in between wakes nobody.
            if channel.register(context.waker()) && !is_shut_down() {
                return Poll::Pending;
            }
        }
        if is_shut_down() {
            self.give_up();
            return Poll::Ready(Err(Error::ShuttingDown));
        }
        let line = line.take().expect("not polled again once it is ready");
        Poll::Ready(Ok(Guard(line)))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// A command whose turn it is. Dropping it lets those behind it go on; that takes the queue's mutex.
#[derive(Debug)]
#[must_use = "dropping it releases the latches"]
pub struct Guard(Line);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.leave(Prerequisites::default());
    }
}
