//! Clients that send random batches, each several at a time, some of which they give up; and one who splits and collects.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::sync::Mutex;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use futures::future::{Either, join_all};
use spanlatch_replica::{Batch, Error, ManualSource, Reply, Request, Response, Store, Value};
use spanset::{Key, Span, Timestamp};

use super::{Collection, History, KEYS, LISTS, Moments, NUMBERS, Op, Outcome};
use crate::Choices;

const THREADS: u64 = 3;
const TASKS: u64 = 3;
/// How many clients there are; the one after them looks at what came of it all, and is patient.
pub(crate) const CLIENTS: u64 = THREADS * TASKS;

/// Where ranges are split, in this order.
const SPLITS: [&str; 5] = ["b", "d", "e", "p", "q"];

/// Whom clients send their batches to.
pub(crate) trait Asked {
    /// Serves a batch, unless that takes so long that `patience` is over, in whatever steps that is counted.
    async fn ask(&self, batch: Batch, patience: Option<usize>) -> Result<Reply, Error>;
}

impl Asked for Store {
    /// Counts how often it is polled.
    async fn ask(&self, batch: Batch, patience: Option<usize>) -> Result<Reply, Error> {
        let cancelled = match patience {
            Some(polls) => Either::Left(after(polls)),
            None => Either::Right(pending()),
        };
        self.send_until(cancelled, batch).await
    }
}

/// Clients of a store.
pub(crate) struct Clients<'a, S> {
    store: &'a S,
    seed: u64,
    moments: Moments,
    history: Mutex<History>,
}

/// One client: what it knows of the store.
pub(crate) struct Client<'a, S> {
    of: &'a Clients<'a, S>,
    number: u64,
    choices: Choices<'static>,
    sent: usize,
    /// What it has last seen at a key.
    seen: BTreeMap<Key, Option<Value>>,
    /// When its batches took place.
    times: Vec<Timestamp>,
}

impl Clients<'_, Store> {
    /// Sends about `batches` and returns what happened. `time` is the store's, or not.
    pub(super) fn run(self, time: &ManualSource, batches: usize) -> History {
        let each = batches / CLIENTS as usize;
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let clients = &self;
                scope.spawn(move || {
                    let tasks = (0..TASKS).map(|task| async move {
                        let mut client = clients.client(thread * TASKS + task);
                        while client.sent < each {
                            client.step().await;
                        }
                    });
                    block_on(join_all(tasks));
                });
            }
            scope.spawn(|| self.operate(time));
        });
        block_on(self.look_at_everything());
        self.into_history()
    }

    /// Splits ranges and collects versions, while the others are at work.
    fn operate(&self, time: &ManualSource) {
        let mut choices = Choices::random(self.seed ^ 0x5eed);
        for key in SPLITS {
            for _ in 0..choices.below(400) {
                thread::yield_now();
            }
            if block_on(self.store.split(key)).is_ok() {
                self.has_split();
            }
            for _ in 0..choices.below(400) {
                thread::yield_now();
            }
            time.advance(Duration::from_nanos(1));
            let threshold = self.store.clock().now();
            self.store
                .collect_garbage(threshold)
                .expect("the clock has been there");
            self.has_collected(threshold);
        }
    }
}

impl<'a, S: Asked> Clients<'a, S> {
    pub(crate) fn new(store: &'a S, seed: u64) -> Self {
        Self {
            store,
            seed,
            moments: Moments::default(),
            history: Mutex::default(),
        }
    }

    pub(crate) fn client(&'a self, number: u64) -> Client<'a, S> {
        Client {
            of: self,
            number,
            choices: Choices::random(self.seed << 8 | number),
            sent: 0,
            seen: BTreeMap::new(),
            times: Vec::new(),
        }
    }

    /// Reads all that came of it.
    pub(crate) async fn look_at_everything(&self) {
        let mut client = self.client(CLIENTS);
        for key in KEYS.iter().chain(&NUMBERS).chain(&LISTS) {
            client.send(Request::get(*key).into()).await;
        }
        client.send(Request::scan(Span::all()).into()).await;
    }

    /// Notes that a range was split.
    pub(crate) fn has_split(&self) {
        self.with(|history| history.splits += 1);
    }

    /// Notes that versions below a timestamp have been collected.
    pub(crate) fn has_collected(&self, threshold: Timestamp) {
        let ended = self.moments.next();
        // The logical part is left out.
        let threshold = Timestamp::new(threshold.wall, 0);
        self.with(|history| history.collections.push(Collection { threshold, ended }));
    }

    /// All that happened; what was applied is not known here.
    pub(crate) fn into_history(self) -> History {
        self.history.into_inner().expect("no client panicked")
    }

    fn with(&self, f: impl FnOnce(&mut History)) {
        f(&mut self.history.lock().expect("no client panicked"));
    }
}

impl<S: Asked> Client<'_, S> {
    /// How many batches it has sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent
    }

    /// Sends a batch, or two.
    pub(crate) async fn step(&mut self) {
        if self.choices.one_in(5) {
            self.append().await;
        } else {
            let batch = self.batch();
            self.send(batch).await;
        }
    }

    /// Reads a list, and writes it with one item more if it is still the same.
    async fn append(&mut self) {
        let key = Key::from(self.choices.of(&LISTS));
        self.send(Request::get(key.clone()).into()).await;
        let list = self.seen.get(&key).cloned().flatten();
        let mark = self.mark();
        let longer = match &list {
            None => mark.clone(),
            Some(list) => Value::from([list, &b","[..], &mark].concat()),
        };
        self.send_marked(
            Request::conditional_put(key, list, longer.clone()).into(),
            Some(longer),
        )
        .await;
    }

    fn mark(&self) -> Value {
        Value::from(format!("{}.{}", self.number, self.sent))
    }

    async fn send(&mut self, batch: Batch) {
        self.send_marked(batch, None).await;
    }

    async fn send_marked(&mut self, mut batch: Batch, mut mark: Option<Value>) {
        if mark.is_none() && batch.requests().iter().any(Request::is_write) {
            let value = self.mark();
            batch.push(Request::put(self.choices.of(&KEYS), value.clone()));
            mark = Some(value);
        }
        self.sent += 1;
        let is_impatient = self.number < CLIENTS && self.choices.one_in(6);
        let patience = is_impatient.then(|| self.choices.below(12));
        let began = self.of.moments.next();
        let answer = self.of.store.ask(batch.clone(), patience).await;
        let ended = self.of.moments.next();
        let outcome = match answer {
            Ok(reply) => {
                self.learn(&batch, &reply);
                Outcome::Served(reply)
            }
            Err(Error::Ambiguous(_)) => Outcome::Ambiguous,
            Err(error) => {
                if let Error::ConditionFailed { key, actual, .. } = &error {
                    self.seen.insert(key.clone(), actual.clone());
                }
                Outcome::Failed(error)
            }
        };
        let ended = (!matches!(outcome, Outcome::Ambiguous)).then_some(ended);
        let op = Op {
            mark,
            batch,
            began,
            ended,
            outcome,
        };
        self.of.with(|history| history.ops.push(op));
    }

    /// Notes what it was told of single keys.
    fn learn(&mut self, batch: &Batch, reply: &Reply) {
        self.times.push(reply.timestamp);
        for (request, response) in batch.requests().iter().zip(&reply.responses) {
            match (request, response) {
                (Request::Get { key }, Response::Value(value)) => {
                    self.seen.insert(key.clone(), value.clone());
                }
                (Request::Put { key, value } | Request::ConditionalPut { key, value, .. }, _) => {
                    self.seen.insert(key.clone(), Some(value.clone()));
                }
                _ => {}
            }
        }
    }

    /// A few requests: reads, perhaps of the past, or writes, or both.
    fn batch(&mut self) -> Batch {
        let mut batch = Batch::new();
        let kind = self.choices.below(3);
        if kind != 0 {
            for _ in 0..1 + self.choices.below(2) {
                batch.push(self.read());
            }
        }
        if kind != 1 {
            for _ in 0..self.choices.below(3) {
                let write = self.write();
                batch.push(write);
            }
            if kind == 0 || self.choices.one_in(2) {
                let (key, value) = (self.choices.of(&KEYS), self.mark());
                batch.push(Request::put(key, value));
            }
        }
        // Reads are of the past then; writes are pushed as far as others' reads and versions demand.
        if self.choices.one_in(6) && !self.times.is_empty() {
            let recent = self.times.len().saturating_sub(20);
            let at = recent + self.choices.below(self.times.len() - recent);
            batch = batch.at(self.times[at]);
        }
        batch
    }

    fn read(&mut self) -> Request {
        let limit = match self.choices.one_in(3) {
            true => Request::UNLIMITED,
            false => 1 + self.choices.below(3),
        };
        match self.choices.below(4) {
            0 => Request::get(self.choices.of(&NUMBERS)),
            1 => Request::get(self.choices.of(&KEYS)),
            2 => Request::scan(self.span("z")).limited(limit),
            _ => Request::reverse_scan(self.span("z")).limited(limit),
        }
    }

    fn write(&mut self) -> Request {
        match self.choices.below(6) {
            0 | 1 => Request::increment(self.choices.of(&NUMBERS), 1),
            2 => Request::delete(self.choices.of(&KEYS)),
            3 => Request::delete_range(self.span("m")).limited(1 + self.choices.below(3)),
            _ => {
                let key = Key::from(self.choices.of(&KEYS));
                let expected = self.seen.get(&key).cloned().flatten();
                Request::conditional_put(key, expected, self.mark())
            }
        }
    }

    /// A span that ends at `end` at most.
    fn span(&mut self, end: &'static str) -> Span {
        let (a, b) = (self.choices.of(&KEYS), self.choices.of(&KEYS));
        let (low, high) = (a.min(b), a.max(b).min(end));
        match Span::range(low, high) {
            Ok(span) => span,
            Err(_) => Span::range(low.min("e"), end).expect("all keys are below z, and e below m"),
        }
    }
}

/// Ends when it has been polled a few times.
fn after(polls: usize) -> impl Future<Output = ()> {
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// The keys that a request is about.
pub(super) fn span_of(request: &Request) -> Span {
    match request {
        Request::Get { key }
        | Request::Put { key, .. }
        | Request::ConditionalPut { key, .. }
        | Request::Increment { key, .. }
        | Request::Delete { key } => Span::point(key.clone()),
        Request::DeleteRange { span, .. }
        | Request::Scan { span, .. }
        | Request::ReverseScan { span, .. } => span.clone(),
        _ => unreachable!("clients do not send {request:?}"),
    }
}

/// What a batch was told that `key` holds.
pub(super) fn values_of(batch: &Batch, reply: &Reply, key: &Key) -> Vec<Value> {
    let mut values = Vec::new();
    for (request, response) in batch.requests().iter().zip(&reply.responses) {
        match response {
            Response::Value(Some(value)) if span_of(request) == Span::point(key.clone()) => {
                values.push(value.clone());
            }
            Response::Rows { rows, .. } => {
                let found = rows.iter().filter(|(row, _)| row == key);
                values.extend(found.map(|(_, value)| value.clone()));
            }
            _ => {}
        }
    }
    values
}
