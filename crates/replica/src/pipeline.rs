//! The way of a batch from request to response.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Instant;

use spanlatch_metrics::{Outcome, ReplicaMetrics};
use spanset::{Access, Declaration, Declared, Scope, Span, SpanSet, Timestamp};
use tracing::field::{Empty, display};
use tracing::{Instrument, debug, debug_span};

use crate::batch::{Kind, Touched};
use crate::evaluate::{Evaluation, evaluate};
use crate::held::Held;
use crate::proposal::propose;
use crate::ranges::{Ranges, declare, descriptor, split};
use crate::replica::{ReleaseReads, Shared};
use crate::{Batch, Clock, Error, Latches, Reply, Request, Snapshot, StoreBuilder, WriteBatch};

/// Serves a batch, in a span of its own, and counts how it ended.
pub(crate) async fn serve<L: Latches>(
    shared: &Shared,
    route: impl Fn(&Batch) -> Result<Ranges<L>, Error>,
    batch: Batch,
    cancelled: impl Future<Output = ()> + Send,
) -> Result<Reply, Error> {
    let span = debug_span!("request", at = Empty);
    async {
        let mut watch = Watch::start(&shared.metrics);
        let served = send(&mut watch, shared, route, &batch, cancelled).await;
        watch.responds(&served);
        served
    }
    .instrument(span)
    .await
}

/// The way of a batch:
///
/// 1. Admit it, check it and give it a timestamp: [`Admission::admit`](crate::admission::Admission::admit),
///    [`check_requests`], [`assign_timestamp`].
/// 2. Find the ranges that have its keys, and declare what it will touch: `route`, [`declare`].
/// 3. Latch, range by range: [`latch`]. All that follows, up to the release, happens under the
///    latches of all ranges. If one of them has been split meanwhile, begin again at 2. If the store is one of
///    several replicas, wait until it is known that it may still serve: [`confirm`].
/// 4. Push the timestamp above what others have read of the keys that it writes: [`push`].
/// 5. Evaluate on a snapshot of the engine, above the newest versions of those keys: [`pin`],
///    [`evaluate_above_newest`].
/// 6. Have a ceiling remembered that covers the timestamp: [`Shared::cover`]. If there is something to write, propose it. From here on the latches belong to the proposal,
///    which ends the same way whether or not the caller is still there: [`propose`].
/// 7. Record in the timestamp caches what was read, and then release: [`Held::record_and_release`],
///    which the proposal calls once it is applied, or we if nothing was proposed.
/// 8. Respond.
///
/// Scans with a limit are evaluated between taking their place in line and waiting, and wait only if what they
/// read conflicts: [`evaluate_optimistically`]. Reads that release early do so between pinning and evaluating:
/// [`evaluate_released`].
async fn send<L: Latches>(
    watch: &mut Watch<'_>,
    shared: &Shared,
    route: impl Fn(&Batch) -> Result<Ranges<L>, Error>,
    batch: &Batch,
    cancelled: impl Future<Output = ()> + Send,
) -> Result<Reply, Error> {
    let mut cancelled = pin!(cancelled);

    let permit = shared.admission.admit()?;
    check_requests(batch.requests(), shared.max_value_bytes)?;
    let at = assign_timestamp(batch, &shared.clock)?;
    tracing::Span::current().record("at", display(at));
    if batch.requests().is_empty() {
        confirm(shared, cancelled.as_mut()).await?;
        unless(cancelled, shared.cover(at), Error::Cancelled).await?;
        return Ok(Reply {
            timestamp: at,
            responses: Vec::new(),
        });
    }
    let kind = batch.kind();
    if kind == Kind::Reads {
        check_threshold(at, shared.horizon.threshold())?;
    }

    let (ranges, declared, mut held) = loop {
        let ranges = route(batch)?;
        watch.ends_as(Outcome::Cancelled);
        let declared = declare(&ranges, batch, at);
        for (range, spans) in ranges.iter().zip(&declared) {
            debug!(range = %range.replica.id(), %spans, "declared");
        }
        let until = cancelled.as_mut();
        let evaluated =
            evaluate_optimistically(watch, shared, batch, &ranges, &declared, at, until);
        let held = match evaluated.await? {
            Optimism::Served(reply) => return Ok(reply),
            Optimism::Waited(held) => held,
            Optimism::Unused => latch(batch, &ranges, &declared, cancelled.as_mut()).await?,
        };
        let mut checked = ranges.iter().zip(&declared);
        if checked.all(|(range, spans)| range.still_has(spans)) {
            break (ranges, declared, held);
        }
        debug!("moved");
    };

    if !batch.only_writes_blindly() {
        confirm(shared, cancelled.as_mut()).await?;
    }
    watch.ends_as(Outcome::Failed);
    let pushed = push(&ranges, &declared, at);
    let (snapshot, pushed) = self::pin(shared, batch, pushed)?;
    if kind == Kind::Reads && shared.release_reads == ReleaseReads::Pinned && !batch.may_read_less()
    {
        unless(cancelled, shared.cover(pushed), Error::Cancelled).await?;
        return evaluate_released(batch, snapshot, &declared, held, pushed);
    }
    let evaluated = {
        let _stage = debug_span!("evaluate").entered();
        evaluate_above_newest(batch.requests(), &snapshot, &declared, pushed)?
    };
    drop(snapshot);
    if evaluated.at != at {
        debug!(from = %at, to = %evaluated.at, "pushed");
    }
    tell(&evaluated);

    // Whoever learns of this batch must get a higher timestamp for the next, from the next store, too.
    shared.clock.forward(evaluated.at);
    let covered = shared.cover(evaluated.at);
    unless(cancelled.as_mut(), covered, Error::Cancelled).await?;
    note_reads(&ranges, &mut held, evaluated.reads);
    if evaluated.outcome.is_ok() && !evaluated.writes.is_empty() {
        let writes = WriteBatch {
            timestamp: evaluated.at,
            writes: evaluated.writes,
        };
        shared.metrics.proposals.inc();
        watch.ends_as(Outcome::Ambiguous);
        debug!(at = %evaluated.at, "proposed");
        let (proposal, in_flight) = propose(writes, held, permit.into_owned(), &shared.flights);
        shared.proposer.propose(proposal);
        let error = Error::Ambiguous(crate::Cause::CallerGone);
        unless(cancelled, in_flight, error)
            .instrument(debug_span!("apply"))
            .await?;
    } else {
        held.record_and_release(evaluated.at);
    }
    Ok(Reply {
        timestamp: evaluated.at,
        responses: evaluated.outcome?,
    })
}

/// Refuses keys that are too long to be written, values that are larger than `max` bytes, and limits that leave
/// nothing to do.
fn check_requests(requests: &[Request], max: usize) -> Result<(), Error> {
    for (index, request) in requests.iter().enumerate() {
        if let Request::Put { key, .. }
        | Request::ConditionalPut { key, .. }
        | Request::Increment { key, .. }
        | Request::Delete { key } = request
            && key.len() > StoreBuilder::MAX_KEY_BYTES
        {
            return Err(Error::KeyTooLong {
                index,
                size: key.len(),
                max: StoreBuilder::MAX_KEY_BYTES,
            });
        }
        match request {
            Request::Put { key, value } | Request::ConditionalPut { key, value, .. }
                if value.len() > max =>
            {
                let (key, size) = (key.clone(), value.len());
                return Err(Error::ValueTooLarge { key, size, max });
            }
            Request::Scan { limit: 0, .. }
            | Request::ReverseScan { limit: 0, .. }
            | Request::DeleteRange { limit: 0, .. } => return Err(Error::ZeroLimit { index }),
            _ => {}
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
    batch: &Batch,
    ranges: &Ranges<L>,
    declared: &[SpanSet],
    mut cancelled: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<Held<L>, Error> {
    let mut held = Held::new();
    for (range, spans) in ranges.iter().zip(declared) {
        let stage = debug_span!("latch", range = %range.replica.id());
        let acquired =
            stage.in_scope(|| range.replica.latches.acquire(spans, batch.poison_policy()));
        let guard = unless(cancelled.as_mut(), acquired, Error::Cancelled)
            .instrument(stage)
            .await?;
        debug!(range = %range.replica.id(), request = L::request_of(&guard), "latched");
        held.push(guard, range.replica.clone());
    }
    not_cancelled(cancelled).await?;
    Ok(held)
}

/// What came of evaluating before waiting.
enum Optimism<L: Latches> {
    /// Nobody was in the way.
    Served(Reply),
    /// Somebody was; these are the latches, after all.
    Waited(Held<L>),
    /// It is not for this batch, or the latches do not offer it.
    Unused,
}

/// For a batch that only reads, with a limit, in one range: takes a place in line, evaluates, and then asks whether
/// what it read conflicts with anything that was in line before. If so, waits.
async fn evaluate_optimistically<L: Latches>(
    watch: &mut Watch<'_>,
    shared: &Shared,
    batch: &Batch,
    ranges: &Ranges<L>,
    declared: &[SpanSet],
    at: Timestamp,
    mut cancelled: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<Optimism<L>, Error> {
    if batch.kind() != Kind::Reads || !batch.may_read_less() || ranges.len() != 1 {
        return Ok(Optimism::Unused);
    }
    let replica = &ranges[0].replica;
    let stage = debug_span!("latch", range = %replica.id());
    let place = stage.in_scope(|| {
        let policy = batch.poison_policy();
        replica.latches.acquire_optimistically(&declared[0], policy)
    })?;
    let Some(place) = place else {
        return Ok(Optimism::Unused);
    };
    not_cancelled(cancelled.as_mut()).await?;
    confirm(shared, cancelled.as_mut()).await?;
    watch.ends_as(Outcome::Failed);
    let (snapshot, _) = self::pin(shared, batch, at)?;
    let evaluated = {
        let _stage = debug_span!("evaluate").entered();
        evaluate_declared(batch.requests(), &snapshot, declared, at)
    };
    drop(snapshot);
    tell(&evaluated);
    let mut read = SpanSet::with_capacity(evaluated.reads.len() + 1);
    // A split that was in line, too: it may have moved the keys.
    read.read_local(descriptor());
    for span in &evaluated.reads {
        read.read_at(span.clone(), at);
    }
    match place.check(&read) {
        Ok(validated) if ranges[0].still_has(&declared[0]) => {
            debug!("validated");
            unless(cancelled, shared.cover(at), Error::Cancelled).await?;
            replica.record(evaluated.reads, at);
            drop(validated);
            debug!(range = %replica.id(), "released");
            Ok(Optimism::Served(Reply {
                timestamp: at,
                responses: evaluated.outcome?,
            }))
        }
        // The keys had been moved before: this place in line protects nothing.
        Ok(_) => {
            watch.ends_as(Outcome::Cancelled);
            Ok(Optimism::Unused)
        }
        Err(waiting) => {
            debug!("conflicted");
            watch.ends_as(Outcome::Cancelled);
            let guard = unless(cancelled, waiting, Error::Cancelled)
                .instrument(stage)
                .await?;
            debug!(range = %replica.id(), request = L::request_of(&guard), "latched");
            let mut held = Held::new();
            held.push(guard, replica.clone());
            Ok(Optimism::Waited(held))
        }
    }
}

/// Fails if `cancelled` has ended.
async fn not_cancelled(
    mut cancelled: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<(), Error> {
    let ended = poll_fn(|context| Poll::Ready(cancelled.as_mut().poll(context).is_ready()));
    match ended.await {
        true => Err(Error::Cancelled),
        false => Ok(()),
    }
}

/// Returns once it is known that this replica still leads, if it is one of several.
async fn confirm(
    shared: &Shared,
    cancelled: Pin<&mut (impl Future<Output = ()> + Send)>,
) -> Result<(), Error> {
    let Some(leadership) = &shared.leadership else {
        return Ok(());
    };
    let confirmed = leadership.confirm();
    unless(cancelled, confirmed, Error::Cancelled)
        .instrument(debug_span!("confirm"))
        .await?;
    debug!("confirmed");
    Ok(())
}

/// The lowest timestamp from `at` on that is above each recorded read of what is declared as written.
fn push<L: Latches>(ranges: &Ranges<L>, declared: &[SpanSet], at: Timestamp) -> Timestamp {
    let mut at = at;
    for (range, spans) in ranges.iter().zip(declared) {
        let mut written = spans
            .iter_of(Scope::Global, Access::Write)
            .map(Declaration::span)
            .peekable();
        if written.peek().is_some() {
            at = range.replica.cache.push(written, at);
        }
    }
    at
}

/// A snapshot of the engine that has all versions that are seen at `at`. What also writes is moved above the
/// threshold instead, as if all keys had been read there.
///
/// The threshold is asked for after the snapshot was taken: what is collected is collected after it was raised.
fn pin(shared: &Shared, batch: &Batch, at: Timestamp) -> Result<(Snapshot, Timestamp), Error> {
    let snapshot = shared.engine.snapshot()?;
    debug!("pinned");
    let threshold = shared.threshold();
    if let Some(since) = batch.confirms_since() {
        check_threshold(since, threshold)?;
    }
    if batch.kind() == Kind::Reads {
        check_threshold(at, threshold)?;
        return Ok((snapshot, at));
    }
    let at = if at > threshold || threshold == Timestamp::MIN {
        at
    } else {
        threshold.next().ok_or(Error::NoTimestampLeft)?
    };
    Ok((snapshot, at))
}

/// Refuses to see versions as of a timestamp below the threshold.
fn check_threshold(timestamp: Timestamp, threshold: Timestamp) -> Result<(), Error> {
    if timestamp < threshold {
        return Err(Error::BelowThreshold {
            timestamp,
            threshold,
        });
    }
    Ok(())
}

/// Records all that the batch declares, releases, and then evaluates on the snapshot.
fn evaluate_released<L: Latches>(
    batch: &Batch,
    snapshot: Snapshot,
    declared: &[SpanSet],
    mut held: Held<L>,
    at: Timestamp,
) -> Result<Reply, Error> {
    for (range, spans) in declared.iter().enumerate() {
        let read = spans.iter_of(Scope::Global, Access::Read);
        held.note_reads(range, read.map(|declaration| declaration.span().clone()));
    }
    held.record_and_release(at);
    let evaluated = {
        let _stage = debug_span!("evaluate").entered();
        evaluate_declared(batch.requests(), &snapshot, declared, at)
    };
    tell(&evaluated);
    Ok(Reply {
        timestamp: at,
        responses: evaluated.outcome?,
    })
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
) -> Result<Evaluation, Error> {
    loop {
        let evaluation = evaluate_declared(requests, snapshot, declared, at);
        match evaluation.newest {
            Some(newest) if newest >= at => at = newest.next().ok_or(Error::NoTimestampLeft)?,
            _ => return Ok(evaluation),
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

fn tell(evaluated: &Evaluation) {
    let Evaluation {
        at, writes, reads, ..
    } = evaluated;
    match &evaluated.outcome {
        Ok(responses) => debug!(%at, ?reads, writes = writes.len(), ?responses, "evaluated"),
        Err(error) => debug!(%at, ?reads, %error, "evaluated"),
    }
}

/// Leaves with the latches of each range what was read of it.
fn note_reads<L: Latches>(ranges: &Ranges<L>, held: &mut Held<L>, reads: Vec<Span>) {
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
    responded: bool,
}

impl<'a> Watch<'a> {
    pub(crate) fn start(metrics: &'a ReplicaMetrics) -> Self {
        Self {
            metrics,
            started: Instant::now(),
            outcome: Outcome::Refused,
            responded: false,
        }
    }

    /// What it counts as if it ends here.
    fn ends_as(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    /// It ends here, with a response.
    fn responds(&mut self, served: &Result<Reply, Error>) {
        self.responded = true;
        match served {
            Ok(reply) => {
                self.outcome = Outcome::Success;
                debug!(at = %reply.timestamp, "responded");
            }
            Err(error) => {
                self.outcome = match (error, self.outcome) {
                    (_, Outcome::Refused) => Outcome::Refused,
                    (Error::Ambiguous(_), _) => Outcome::Ambiguous,
                    (Error::Cancelled | Error::ShuttingDown, _) => Outcome::Cancelled,
                    _ => Outcome::Failed,
                };
                debug!(%error, "responded");
            }
        }
    }
}

/// Counts. If nothing was responded, the caller has gone.
impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.responded {
            debug!("left");
        }
        self.metrics.requests.of(self.outcome).inc();
        self.metrics
            .request_duration
            .observe(self.started.elapsed());
    }
}
