//! The way of a batch from request to response.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use spanlatch_metrics::{Outcome, ReplicaMetrics};
use spanset::{Access, Declaration, Declared, Scope, Span, SpanSet, Timestamp};
use tracing::trace;

use crate::batch::Touched;
use crate::evaluate::{Evaluation, evaluate};
use crate::held::Held;
use crate::proposal::propose;
use crate::ranges::{Ranges, declare, split};
use crate::replica::Shared;
use crate::timestamp_cache::after;
use crate::{Batch, Clock, Error, Latches, Reply, Request, Snapshot, WriteBatch};

/// Serves a batch all of whose keys are in `ranges`, each of which has some; `watch` has been on it
/// since it was received.
///
/// 1. Check the request and give it a timestamp: [`check_values`], [`assign_timestamp`].
/// 2. Declare what it will touch: [`declare`].
/// 3. Latch, range by range: [`latch`]. All that follows, up to the release, happens under the
///    latches of all ranges.
/// 4. Push the timestamp above what others have read of the keys that it writes: [`push`].
/// 5. Evaluate on a snapshot of the engine, above the newest versions of those keys:
///    [`evaluate_above_newest`].
/// 6. If there is something to write, propose it. From here on the latches belong to the proposal,
///    which ends the same way whether or not the caller is still there: [`propose`].
/// 7. Record in the timestamp caches what was read, and then release: [`Held::record_and_release`],
///    which the proposal calls once it is applied, or we if nothing was proposed.
/// 8. Respond.
pub(crate) async fn send<L: Latches>(
    mut watch: Watch<'_>,
    shared: &Shared,
    ranges: Ranges<'_, L>,
    batch: Batch,
    cancelled: impl Future<Output = ()> + Send,
) -> Result<Reply, Error> {
    let mut cancelled = pin!(cancelled);

    check_values(batch.requests(), shared.max_value_bytes)?;
    let at = assign_timestamp(&batch, &shared.clock)?;
    if batch.requests().is_empty() {
        watch.ends_as(Outcome::Success);
        return Ok(Reply {
            timestamp: at,
            responses: Vec::new(),
        });
    }

    let declared = declare(&ranges, &batch, at);
    trace!(%at, ?declared, "declared");

    watch.ends_as(Outcome::Cancelled);
    let mut held = latch(&ranges, &declared, cancelled.as_mut()).await?;
    trace!(%at, "latched");

    watch.ends_as(Outcome::Failed);
    let pushed = push(&ranges, &declared, at);
    trace!(%at, %pushed, "pushed");

    let snapshot = shared.engine.snapshot()?;
    let evaluated = evaluate_above_newest(batch.requests(), &snapshot, &declared, pushed);
    drop(snapshot);
    trace!(%at, ?evaluated, "evaluated");

    // Whoever learns of this batch must get a higher timestamp for the next.
    shared.clock.forward(evaluated.at);
    note_reads(&ranges, &mut held, evaluated.reads);
    if evaluated.outcome.is_ok() && !evaluated.writes.is_empty() {
        let writes = WriteBatch {
            timestamp: evaluated.at,
            writes: evaluated.writes,
        };
        shared.metrics.proposals.inc();
        let (proposal, in_flight) = propose(writes, held, shared.pending.clone());
        watch.ends_as(Outcome::Ambiguous);
        trace!(%at, "proposed");
        shared.proposer.propose(proposal);
        let fate = unless(cancelled, in_flight, Error::Ambiguous).await;
        if !matches!(fate, Err(Error::Ambiguous)) {
            watch.ends_as(Outcome::Failed);
        }
        fate?;
    } else {
        held.record_and_release(evaluated.at);
        trace!(%at, "released");
    }
    let responses = evaluated.outcome?;
    watch.ends_as(Outcome::Success);
    Ok(Reply {
        timestamp: evaluated.at,
        responses,
    })
}

/// Refuses values that are larger than `max` bytes.
fn check_values(requests: &[Request], max: usize) -> Result<(), Error> {
    for request in requests {
        if let Request::Put { key, value } | Request::ConditionalPut { key, value, .. } = request
            && value.len() > max
        {
            let (key, size) = (key.clone(), value.len());
            return Err(Error::ValueTooLarge { key, size, max });
        }
    }
    Ok(())
}

/// The timestamp that the batch asks for, to which the clock is forwarded first, or the clock's next.
fn assign_timestamp(batch: &Batch, clock: &Clock) -> Result<Timestamp, Error> {
    match batch.timestamp() {
        Some(at) => clock.update(at).map(|()| at),
        None => Ok(clock.now()),
    }
}

/// Holds the latches of each range before it takes a place in the line of the next, so that requests
/// that meet in several ranges meet in the same order everywhere.
async fn latch<L: Latches>(
    ranges: &Ranges<'_, L>,
    declared: &[SpanSet],
    mut cancelled: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<Held<L>, Error> {
    let mut held = Held::new();
    for (replica, spans) in ranges.iter().zip(declared) {
        let acquired = replica.latches.acquire(spans);
        let guard = unless(cancelled.as_mut(), acquired, Error::Cancelled).await?;
        held.push(guard, replica.cache.clone());
    }
    let is_cancelled = poll_fn(|context| Poll::Ready(cancelled.as_mut().poll(context).is_ready()));
    if is_cancelled.await {
        return Err(Error::Cancelled);
    }
    Ok(held)
}

/// The lowest timestamp from `at` on that is above each recorded read of what is declared as written.
fn push<L: Latches>(ranges: &Ranges<'_, L>, declared: &[SpanSet], at: Timestamp) -> Timestamp {
    let mut at = at;
    for (replica, spans) in ranges.iter().zip(declared) {
        let mut written = spans
            .iter_of(Scope::Global, Access::Write)
            .map(Declaration::span)
            .peekable();
        if written.peek().is_some() {
            at = replica.cache.push(written, at);
        }
    }
    at
}

/// Evaluates at `at`, or as far above as the newest versions of the keys that it writes demand.
///
/// Each time round the timestamp rises above some version of the snapshot, so it ends; once is the
/// rule, as timestamps come from one clock.
fn evaluate_above_newest(
    requests: &[Request],
    snapshot: &Snapshot,
    declared: &[SpanSet],
    mut at: Timestamp,
) -> Evaluation {
    loop {
        let evaluation = evaluate_declared(requests, snapshot, declared, at);
        match evaluation.newest {
            Some(newest) if newest >= at && at < Timestamp::MAX => at = after(newest),
            _ => return evaluation,
        }
    }
}

/// Evaluates; in debug builds through a wrapper that panics on what was not declared.
fn evaluate_declared(
    requests: &[Request],
    snapshot: &Snapshot,
    declared: &[SpanSet],
    at: Timestamp,
) -> Evaluation {
    if cfg!(debug_assertions) {
        let mut all = SpanSet::new();
        declared.iter().for_each(|spans| all.merge(spans));
        evaluate(requests, &Declared::global(snapshot, &all), at)
    } else {
        evaluate(requests, snapshot, at)
    }
}

/// Leaves with the latches of each range what was read of it.
fn note_reads<L: Latches>(ranges: &Ranges<'_, L>, held: &mut Held<L>, reads: Vec<Span>) {
    if ranges.len() == 1 {
        held.note_reads(0, reads);
        return;
    }
    for span in &reads {
        split(ranges, Touched::Span(span), |range, piece| {
            held.note_reads(range, [piece]);
        });
    }
}

/// Waits for `future` unless `cancelled` ends earlier, which fails with `error`.
async fn unless<T>(
    mut cancelled: Pin<&mut (impl Future<Output = ()> + Send)>,
    future: impl Future<Output = Result<T, Error>> + Send,
    error: Error,
) -> Result<T, Error> {
    let mut future = pin!(future);
    let mut error = Some(error);
    poll_fn(|context| {
        if let Poll::Ready(result) = future.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        match (cancelled.as_mut().poll(context), error.take()) {
            (Poll::Ready(()), Some(error)) => Poll::Ready(Err(error)),
            (_, left) => {
                error = left;
                Poll::Pending
            }
        }
    })
    .await
}

/// Measures one batch, and counts how it ended, wherever it ends: as refused, to begin with.
pub(crate) struct Watch<'a> {
    metrics: &'a ReplicaMetrics,
    started: Instant,
    outcome: Outcome,
}

impl<'a> Watch<'a> {
    pub(crate) fn start(metrics: &'a ReplicaMetrics) -> Self {
        Self {
            metrics,
            started: Instant::now(),
            outcome: Outcome::Refused,
        }
    }

    /// What it counts as if it ends here.
    fn ends_as(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.metrics.requests.of(self.outcome).inc();
        self.metrics
            .request_duration
            .observe(self.started.elapsed());
    }
}
