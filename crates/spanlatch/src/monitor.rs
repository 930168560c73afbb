//! Telling the manager the time, so that slow waits are noticed.

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::line::{STEPS, SlowWait};
use crate::manager::Shared;

/// How many slow waits one tick describes; the others it only counts.
const DESCRIBED: usize = 10;

/// A thread that ticks. Dropping it stops the thread and waits until it has ended.
pub struct Monitor {
    /// Dropped first, which is what tells the thread to stop.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    pub(crate) fn start(shared: Weak<Shared>, interval: Duration) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("spanlatch-monitor".into())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    let Some(shared) = shared.upgrade() else {
                        return;
                    };
                    tick(&shared, shared.now());
                }
            })?;
        Ok(Monitor {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // An error is a panic in the thread, which has been reported there.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").finish_non_exhaustive()
    }
}

/// Counts and reports the waits that have become slow, in short stays under the mutex.
pub(crate) fn tick(shared: &Arc<Shared>, now: Instant) {
    let threshold = shared.slow_threshold();
    let mut slow = Vec::new();
    loop {
        let newly_slow = shared.line.lock().tick(now, threshold, &shared.metrics);
        let all = newly_slow.len() < STEPS;
        slow.extend(newly_slow);
        if all {
            break;
        }
    }
    for &request in slow.iter().take(DESCRIBED) {
        let described = shared.line.lock().describe(request, now);
        if let Some(wait) = described {
            warn(&wait);
        }
    }
    if slow.len() > DESCRIBED {
        tracing::warn!(more = slow.len() - DESCRIBED, "and more waits became slow");
    }
}

fn warn(wait: &SlowWait) {
    tracing::warn!(
        request = wait.request,
        waited = ?wait.waited,
        wants = %wait.wants,
        parked_on = wait.on,
        head = wait.head,
        head_held = ?wait.head_held,
        head_latches = %wait.head_latches,
        "a request has been waiting for latches for long"
    );
}
