//! Telling the manager the time, so that slow waits are noticed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::line::SlowWait;
use crate::manager::Shared;

/// A thread that ticks. Dropping it stops the thread and waits until it has ended.
pub struct Monitor {
    /// Dropped first, which is what tells the thread to stop.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// The shortest interval between ticks.
    pub const MIN_INTERVAL: Duration = Duration::from_millis(1);

    pub(crate) fn start(
        handles: Weak<()>,
        shared: &Arc<Shared>,
        interval: Duration,
    ) -> std::io::Result<Self> {
        let shared = Arc::downgrade(shared);
        let interval = interval.max(Self::MIN_INTERVAL);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("spanlatch-monitor".into())
            .spawn(move || {
                while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    let Some(shared) = shared.upgrade() else {
                        return;
                    };
                    let used = || shared.line.lock().counts().requests > 0;
                    if handles.strong_count() == 0 && !used() {
                        return;
                    }
                    // A label that cannot be shown must not end the watch; the panic has been reported.
                    let _ = catch_unwind(AssertUnwindSafe(|| tick(&shared, shared.now())));
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
        if newly_slow.is_empty() {
            break;
        }
        slow.extend(newly_slow);
    }
    let described = shared.line.lock().describable(slow.len(), now);
    for &request in &slow[..described] {
        let wait = shared.line.lock().describe(request, now);
        if let Some(wait) = wait {
            warn(&wait);
        }
    }
    if slow.len() > described {
        let more = slow.len() - described;
        tracing::warn!(more, "and more requests have been waiting for long");
    }
}

fn warn(wait: &SlowWait) {
    let head = wait.head.as_ref();
    tracing::warn!(
        request = wait.request,
        label = wait.label.as_ref().map(tracing::field::display),
        waited = ?wait.waited,
        wants = %wait.wants,
        parked_on = wait.on,
        head = head.map(|head| head.request),
        head_label = head.and_then(|head| head.label.as_ref()).map(tracing::field::display),
        head_held = head.and_then(|head| head.held).map(tracing::field::debug),
        head_latches = head.map(|head| tracing::field::display(&head.latches)),
        "a request has been waiting for latches for long"
    );
}
