//! Runs a script, command by command.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanlatch::{Manager, State};
use spanlatch_metrics::{Outcome, ReplicaMetrics};
use spanlatch_replica::{
    Action, Applier, Cause, Engine, EngineError, Error, ManualSource, Proposal, Reply, Response,
    Store, StoreBuilder, Value, WriteBatch,
};
use spanset::{Key, Span, Timestamp};
use tracing::info_span;

use super::engine::{Trouble, Troubled};
use super::parse::{self, Sent, key, number, seconds, timestamp, value};
use super::transcript::{SPAN, Transcript};
use crate::scene::{Kept, builder, ts};

/// A store, those who use it, and what the script can do to them.
pub(super) struct Run {
    transcript: Transcript,
    engine: Arc<Troubled>,
    source: ManualSource,
    /// The wall time of the next request.
    wall: u64,
    /// What ticks tell, and what latch managers read.
    now: Arc<Mutex<Instant>>,
    metrics: ReplicaMetrics,
    store: Option<Store>,
    applier: Option<Applier>,
    kept: Kept,
    requests: BTreeMap<String, InFlight>,
    /// What has been proposed and has not ended, by who proposed it.
    proposals: BTreeMap<String, Proposal>,
    woken: Arc<Mutex<VecDeque<String>>>,
}

/// A request, or a split, on its way.
struct InFlight {
    future: Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>,
    span: tracing::Span,
    waker: Waker,
    cancelled: Arc<Mutex<Cancelled>>,
}

#[derive(Default)]
struct Cancelled {
    is_set: bool,
    waker: Option<Waker>,
}

/// Ends when it is set.
fn cancellation(cancelled: Arc<Mutex<Cancelled>>) -> impl Future<Output = ()> + Send {
    poll_fn(move |context: &mut Context<'_>| {
        let mut cancelled = cancelled.lock();
        cancelled.waker = Some(context.waker().clone());
        match cancelled.is_set {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
}

/// Has a request polled, by its name.
struct Woken {
    name: String,
    queue: Arc<Mutex<VecDeque<String>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let mut queue = self.queue.lock();
        if !queue.contains(&self.name) {
            queue.push_back(self.name.clone());
        }
    }
}

impl Run {
    pub(super) fn new(transcript: Transcript) -> Self {
        Self {
            transcript,
            engine: Arc::default(),
            source: ManualSource::at(100),
            wall: 101,
            now: Arc::new(Mutex::new(Instant::now())),
            metrics: ReplicaMetrics::default(),
            store: None,
            applier: None,
            kept: Kept::default(),
            requests: BTreeMap::new(),
            proposals: BTreeMap::new(),
            woken: Arc::default(),
        }
    }

    /// One line of the script, and all that comes of it.
    pub(super) fn line(&mut self, line: &str) {
        if line.is_empty() || line.starts_with('#') {
            return self.transcript.line(line);
        }
        self.transcript.line(&format!("> {line}"));
        for command in line.split(" & ") {
            self.command(command);
        }
        self.poll_woken();
    }

    fn command(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["store:", ..] => self.open(line.trim_start_matches("store:")),
            ["given", .., "at", at] => self.given(&words[1..words.len() - 2], timestamp(at)),
            ["given", ..] => self.given(&words[1..], ts(50)),
            ["apply", name] => apply(self.proposal(name), &*self.engine),
            ["fail", name] => {
                let error = EngineError::refused("no quorum");
                self.proposal(name).failed(Error::Engine(error));
            }
            ["lose", name] => drop(self.proposal(name)),
            ["step"] => {
                self.applier.as_mut().expect("an applier").step();
            }
            ["cancel", name] => self.cancel(name),
            ["leave", name] => self.leave(name),
            ["tick", by] => self.tick(seconds(by)),
            ["collect", at] => {
                if let Err(error) = self.store().collect_garbage(timestamp(at)) {
                    self.transcript.event("store", "fails", &error.to_string());
                }
            }
            ["engine", "panics", "when", "read"] => self.engine.expect(Trouble::PanicsWhenRead),
            ["engine", "fails", "to", "pin"] => self.engine.expect(Trouble::FailsToPin),
            ["engine", "fails", "to", "apply"] => self.engine.expect(Trouble::FailsToApply),
            ["engine", "refuses", "to", "apply"] => self.engine.expect(Trouble::RefusesToApply),
            ["when", "pinned", "collect", at] => {
                let (store, at) = (self.store(), timestamp(at));
                self.engine.before_snapshot(move |_| {
                    store.collect_garbage(at).expect("it is in memory");
                });
            }
            ["when", "pinned", "apply", name] => {
                let proposal = self.proposal(name);
                self.engine
                    .before_snapshot(|engine| apply(proposal, engine));
            }
            ["shut", "down"] => self.store().shut_down(),
            ["latches"] => self.latches(),
            ["metrics"] => self.metrics(),
            ["versions"] => self.versions(),
            ["ranges"] => {
                for replica in self.store().replicas() {
                    let span = replica.span().to_string();
                    self.transcript
                        .event("store", &replica.id().to_string(), &span);
                }
            }
            [name, ..] if name.ends_with(':') => {
                let name = name.trim_end_matches(':');
                self.send(name, &line[name.len() + 1..]);
            }
            _ => panic!("not a command: {line}"),
        }
    }

    fn store(&mut self) -> Store {
        if self.store.is_none() {
            self.open("");
        }
        self.store.clone().expect("it is open")
    }

    fn open(&mut self, options: &str) {
        assert!(self.requests.is_empty(), "there are requests");
        self.store = None;
        self.transcript.forget_names();
        let mut store = builder(&self.source)
            .engine(self.engine.clone())
            .metrics(self.metrics.clone());
        let mut own_applier = false;
        for option in options.split(',').map(str::trim).filter(|o| !o.is_empty()) {
            let words: Vec<_> = option.split_whitespace().collect();
            store = match words[..] {
                ["split", "at", ..] => store.splits(words[2..].iter().map(|word| key(word))),
                ["in", "flight", n] => store.max_in_flight(number(n)),
                ["values", "up", "to", n] => store.max_value_bytes(number(n)),
                ["remembers", n, "reads"] => store.timestamp_cache_capacity(number(n)),
                ["slow", "after", time] => store.slow_proposal_threshold(seconds(time)),
                ["stuck", "after", time] => store.stuck_proposal_threshold(seconds(time)),
                ["reads", "release", "early"] => store.release_reads_early(),
                ["ceiling", "of", n] => {
                    let mut ceiling = self.engine.ceiling.lock();
                    *ceiling = Some(ceiling.unwrap_or(Timestamp::MIN));
                    store.ceiling_step(Duration::from_nanos(number(n)))
                }
                ["own", "applier"] => {
                    own_applier = true;
                    store
                }
                _ => panic!("not an option: {option}"),
            };
        }
        self.build(store, own_applier);
    }

    fn build(&mut self, store: StoreBuilder, own_applier: bool) {
        let (now, metrics) = (self.now.clone(), self.metrics.clone());
        let latches = move |_| {
            let now = now.clone();
            Manager::builder()
                .metrics(metrics.latch())
                .clock(move || *now.lock())
                .build()
        };
        if own_applier {
            let (store, applier) = store.build_latched(latches);
            (self.store, self.applier) = (Some(store), Some(applier));
        } else {
            self.store = Some(store.build_proposing(Arc::new(self.kept.clone()), latches));
        }
    }

    fn given(&self, pairs: &[&str], timestamp: Timestamp) {
        let pair = |word: &&str| {
            let (key, value) = word.split_once('=').expect("key=value");
            (self::key(key), Some(self::value(value)))
        };
        let writes = pairs.iter().map(pair).collect();
        let batch = WriteBatch { timestamp, writes };
        self.engine.apply(vec![batch]).expect("it is in memory");
    }

    fn send(&mut self, name: &str, text: &str) {
        assert!(!self.requests.contains_key(name), "{name} is on its way");
        let store = self.store();
        let sent = match parse::sent(text) {
            Ok(sent) => sent,
            Err(error) => return self.transcript.event(name, "cannot be", &error.to_string()),
        };
        if let Sent::Batch(batch, _) = &sent
            && batch.timestamp().is_none()
        {
            self.source.set(self.wall);
            self.wall += 1;
        }
        let cancelled = Arc::new(Mutex::new(Cancelled::default()));
        let until = cancellation(cancelled.clone());
        let future: Pin<Box<dyn Future<Output = Result<String, Error>> + Send>> = match sent {
            Sent::Batch(batch, None) => Box::pin(async move {
                let reply = store.send_until(until, batch).await?;
                Ok(shown(&reply))
            }),
            Sent::Batch(batch, Some(range)) => Box::pin(async move {
                let reply = store.replica(range)?.send_until(until, batch).await?;
                Ok(shown(&reply))
            }),
            Sent::Split(key) => Box::pin(async move { Ok(store.split(key).await?.to_string()) }),
        };
        let woken = Woken {
            name: name.to_owned(),
            queue: self.woken.clone(),
        };
        let request = InFlight {
            future,
            span: info_span!(SPAN, name),
            waker: Arc::new(woken).into(),
            cancelled,
        };
        self.requests.insert(name.to_owned(), request);
        self.poll(name);
    }

    /// Polls those that were woken, in the order in which they were, until nobody is.
    fn poll_woken(&mut self) {
        loop {
            let next = self.woken.lock().pop_front();
            let Some(name) = next else {
                break;
            };
            // Whoever has ended can still be woken, by what it left behind.
            if self.requests.contains_key(&name) {
                let events = self.transcript.events();
                self.poll(&name);
                if self.transcript.events() == events {
                    self.transcript.event(&name, "woken", "and waits on");
                }
            }
        }
    }

    fn poll(&mut self, name: &str) {
        let request = self.requests.get_mut(name).expect("it is on its way");
        let mut context = Context::from_waker(&request.waker);
        let polled = request.span.in_scope(|| {
            let future = request.future.as_mut();
            catch_unwind(AssertUnwindSafe(|| future.poll(&mut context)))
        });
        if self.kept.len() > 0 {
            let earlier = self.proposals.insert(name.to_owned(), self.kept.take());
            assert!(earlier.is_none(), "{name} has proposed twice");
        }
        match polled {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(Ok(shown))) => self.transcript.event(name, "gets", &shown),
            Ok(Poll::Ready(Err(error))) => {
                if !self.transcript.ends_with(name, "responded") {
                    self.transcript.event(name, "fails", &error.to_string());
                }
                let action = match error.action() {
                    Action::Retry => "retry",
                    Action::GoElsewhere => "go elsewhere",
                    Action::GiveUp => "give up",
                    Action::FindOut => "find out what came of it",
                };
                self.transcript.event(name, "should", action);
            }
            Err(panic) => self.transcript.event(name, "panicked", &message(&*panic)),
        }
        self.requests.remove(name);
    }

    fn proposal(&mut self, name: &str) -> Proposal {
        let proposal = self.proposals.remove(name);
        proposal.unwrap_or_else(|| panic!("{name} has proposed nothing"))
    }

    fn cancel(&mut self, name: &str) {
        let waker = {
            let mut cancelled = self.requests[name].cancelled.lock();
            cancelled.is_set = true;
            cancelled.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn leave(&mut self, name: &str) {
        let InFlight { future, span, .. } = self.requests.remove(name).expect("it is on its way");
        span.in_scope(|| drop(future));
    }

    fn tick(&mut self, by: Duration) {
        let now = {
            let mut now = self.now.lock();
            *now += by;
            *now
        };
        self.store().tick(now);
    }

    fn latches(&mut self) {
        let replicas = self.store().replicas();
        for replica in &replicas {
            let range = replica.id().to_string();
            let place = if replicas.len() > 1 {
                format!(" in {range}")
            } else {
                String::new()
            };
            for request in replica.latches().inspect().requests {
                let name = self.transcript.name(&range, &request.request.to_string());
                let latches: Vec<_> = request.latches.iter().map(ToString::to_string).collect();
                let latches = latches.join(", ");
                let stuck = if request.poisoned { "stuck, " } else { "" };
                match &request.state {
                    State::Waiting { on, .. } => {
                        let on = self.transcript.name(&range, &on.to_string());
                        let details = format!("{stuck}for {on}: {latches}{place}");
                        self.transcript.event(&name, "is waiting", &details);
                    }
                    _ => self
                        .transcript
                        .event(&name, "holds", &format!("{stuck}{latches}{place}")),
                }
            }
        }
        if self.store().is_idle() {
            self.transcript
                .event("nobody", "holds", "or waits for latches");
        }
    }

    fn metrics(&self) {
        let metrics = &self.metrics;
        let mut lines = Vec::new();
        for outcome in Outcome::ALL {
            let name = format!("requests, {}", outcome.label());
            lines.push((name, metrics.requests.of(outcome).value().to_string()));
        }
        lines.push((
            "requests.slow.latch".to_owned(),
            metrics.slow_latch.value().to_string(),
        ));
        lines.push((
            "requests.slow.raft".to_owned(),
            metrics.slow_raft.value().to_string(),
        ));
        lines.push((
            "proposals".to_owned(),
            metrics.proposals.value().to_string(),
        ));
        lines.push((
            "proposals.pending".to_owned(),
            metrics.proposals_pending.value().to_string(),
        ));
        lines.push((
            "latch.wait".to_owned(),
            metrics.latch_wait.count().to_string(),
        ));
        for (name, value) in lines.into_iter().filter(|(_, value)| value != "0") {
            self.transcript.line(&format!("        {name}: {value}"));
        }
    }

    fn versions(&mut self) {
        let mut keys: BTreeMap<Key, Vec<String>> = BTreeMap::new();
        for version in self.store().versions(Span::all()).expect("it is in memory") {
            let (key, version) = version.expect("it is in memory");
            let value = version
                .value
                .map_or("nothing".to_owned(), |value| text(&value));
            keys.entry(key)
                .or_default()
                .push(format!("{value} from {} on", version.timestamp));
        }
        for (key, versions) in keys {
            self.transcript
                .event("engine", &text(&key), &versions.join(", "));
        }
    }

    /// Takes a snapshot, so that what was to happen before the next one happens.
    pub(super) fn pin(&mut self) {
        let _ = self.engine.snapshot();
        self.poll_woken();
    }

    /// The names of what is on its way.
    pub(super) fn in_flight(&self) -> Vec<String> {
        self.requests.keys().cloned().collect()
    }

    /// The names of those whose proposals have not ended.
    pub(super) fn proposed(&self) -> Vec<String> {
        self.proposals.keys().cloned().collect()
    }

    /// Nothing may be left.
    pub(super) fn end(mut self) {
        let requests: Vec<_> = self.requests.keys().cloned().collect();
        let proposals: Vec<_> = self.proposals.keys().cloned().collect();
        let left = mem::take(&mut self.requests);
        assert!(left.is_empty(), "left at the end: {}", requests.join(", "));
        assert!(
            proposals.is_empty(),
            "proposals left at the end: {}",
            proposals.join(", ")
        );
        assert!(self.store().is_idle(), "latches are left at the end");
        let metrics = &self.metrics;
        let gauges = [
            &metrics.slow_latch,
            &metrics.slow_raft,
            &metrics.proposals_pending,
        ];
        let gauges = gauges.map(spanlatch_metrics::Gauge::value);
        assert_eq!(
            gauges,
            [0, 0, 0],
            "slow latches, slow proposals, pending proposals"
        );
    }
}

/// As an applier does it.
fn apply(mut proposal: Proposal, engine: &dyn Engine) {
    match engine.apply(vec![proposal.take_writes()]) {
        Ok(()) => proposal.applied(),
        Err(error) if error.is_refusal() => proposal.failed(Error::Engine(error)),
        Err(error) => proposal.ambiguous(Cause::Engine(error)),
    }
}

/// The text of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (_, text) => text.copied().unwrap_or_default().to_owned(),
    }
}

/// Keys and values as scripts write them, and integers in decimal.
fn text(bytes: &Value) -> String {
    match <[u8; 8]>::try_from(&bytes[..]) {
        Ok(integer) if !bytes.is_ascii() || bytes[0] == 0 => {
            i64::from_be_bytes(integer).to_string()
        }
        _ => bytes.escape_ascii().to_string(),
    }
}

fn shown(reply: &Reply) -> String {
    let rest = |resume: &Option<Span>| match resume {
        Some(span) => format!("; to be resumed: {span}"),
        None => String::new(),
    };
    let response = |response: &Response| match response {
        Response::Value(value) => value.as_ref().map_or("nothing".to_owned(), text),
        Response::Written => "written".to_owned(),
        Response::Unchanged => "unchanged".to_owned(),
        Response::Incremented(sum) => sum.to_string(),
        Response::Deleted { keys, resume } => {
            let keys: Vec<_> = keys.iter().map(text).collect();
            format!("deleted {}{}", keys.join(" "), rest(resume))
        }
        Response::Rows { rows, resume } => {
            let row = |(key, value): &(Key, Value)| format!("{}={}", text(key), text(value));
            let rows: Vec<_> = rows.iter().map(row).collect();
            let rows = if rows.is_empty() {
                "no rows".to_owned()
            } else {
                rows.join(" ")
            };
            rows + &rest(resume)
        }
    };
    let responses: Vec<_> = reply.responses.iter().map(response).collect();
    match &responses[..] {
        [] => "no responses".to_owned(),
        responses => responses.join(", "),
    }
}
