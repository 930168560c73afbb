//! Transactions of clients on threads, on lists that are only appended to, with an engine that fails, splits, collection
//! and clients that go away: there must be an order in which they took place, and it must be that of real time.

mod graph;

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use futures::future::{Either, join_all, select};
use spanlatch_kv::{Attempt, Db, Error, Options, TxnMetrics};
use spanlatch_replica::{Request, Serve, Store, Value};
use spanset::{Key, Span};

pub(crate) use self::graph::Done;
use self::graph::Fate;
use crate::Choices;
use crate::failing_engine::FailingEngine;

const THREADS: u64 = 3;
const TASKS: u64 = 3;
/// The keys of the lists, in ascending order.
const LISTS: [&str; 6] = ["a", "c", "e", "n", "p", "r"];
/// Where ranges are split, in this order.
const SPLITS: [&str; 4] = ["c", "e", "o", "r"];

/// What was covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// How many transactions were run.
    pub transactions: u64,
    /// How many committed.
    pub committed: u64,
    /// How many attempts they took.
    pub attempts: u64,
    /// Of how many nobody was told how they ended.
    pub unknown: u64,
    /// How many ran at the same time as another with a list in common that one of the two appended to.
    pub overlapped: u64,
}

impl Covered {
    /// Adds up.
    pub fn add(&mut self, more: Self) {
        self.transactions += more.transactions;
        self.committed += more.committed;
        self.attempts += more.attempts;
        self.unknown += more.unknown;
        self.overlapped += more.overlapped;
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            transactions,
            committed,
            attempts,
            unknown,
            overlapped,
        } = self;
        write!(
            f,
            "{transactions} transactions, {committed} committed, in {attempts} attempts; {unknown} whose end is not \
             known; {overlapped} overlapped in conflict"
        )
    }
}

/// Lets clients loose on a store, which `seed` chooses, and checks what they were told. Which seed it was does not
/// decide in which order threads run.
///
/// # Panics
///
/// If there is no order in which the transactions can have taken place.
pub fn run(seed: u64, transactions: usize) -> Covered {
    let mut choices = Choices::random(seed);
    let engine = Arc::new(FailingEngine::new(seed));
    let mut builder = Store::builder().engine(engine).splits([Key::from("n")]);
    if choices.one_in(2) {
        builder = builder.release_reads_early();
    }
    if choices.one_in(2) {
        builder = builder.timestamp_cache_capacity(4);
    }
    let (store, applier) = builder.build();
    let applier = thread::spawn(move || applier.run());
    let metrics = TxnMetrics::default();
    let options = Options::default()
        .max_attempts(1_000)
        .pauses(Duration::from_micros(20), Duration::from_millis(1))
        .metrics(metrics.clone());
    let clients = Clients::new(Db::with_options(store.clone(), options), seed);
    let history = clients.run(transactions);
    store.shut_down();
    applier.join().expect("the applier does not panic");
    assert!(store.is_idle(), "latches were left behind");
    check(&history, &metrics)
}

/// Checks what clients were told.
///
/// # Panics
///
/// If there is no order in which the transactions can have taken place.
pub(crate) fn check(history: &[Done], metrics: &TxnMetrics) -> Covered {
    if let Err(anomaly) = graph::check(history) {
        panic!("{anomaly}");
    }
    let count = |fate| history.iter().filter(|done| done.fate == fate).count() as u64;
    Covered {
        transactions: history.len() as u64,
        committed: count(Fate::Committed),
        attempts: metrics.attempts.value(),
        unknown: count(Fate::Unknown),
        overlapped: overlapped(history),
    }
}

/// How many ran at the same time as another that they conflict with.
fn overlapped(history: &[Done]) -> u64 {
    let touches = |done: &Done, list: usize| {
        done.appends.contains(&list) || done.reads.iter().any(|(read, _)| *read == list)
    };
    let conflict = |one: &Done, other: &Done| {
        let by = |one: &Done, other: &Done| one.appends.iter().any(|list| touches(other, *list));
        by(one, other) || by(other, one)
    };
    let at_once = |one: &Done, other: &Done| one.began < other.ended && other.began < one.ended;
    let meets = |(at, one): &(usize, &Done)| {
        let mut others = history.iter().enumerate();
        others
            .any(|(other_at, other)| other_at != *at && at_once(one, other) && conflict(one, other))
    };
    history.iter().enumerate().filter(meets).count() as u64
}

/// Clients of whoever serves batches.
pub(crate) struct Clients<S> {
    db: Db<S>,
    seed: u64,
    moments: AtomicU64,
    /// The number of the next transaction.
    next: AtomicUsize,
    history: Mutex<Vec<(usize, Done)>>,
}

impl Clients<Store> {
    /// Runs about so many transactions, and at last one that reads everything.
    fn run(self, transactions: usize) -> Vec<Done> {
        let each = transactions / (THREADS * TASKS) as usize;
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let clients = &self;
                scope.spawn(move || {
                    let tasks = (0..TASKS).map(|task| async move {
                        let mut choices = clients.choices(thread << 4 | task);
                        for _ in 0..each {
                            let polls = if choices.one_in(8) {
                                choices.below(6)
                            } else {
                                usize::MAX
                            };
                            clients.transact(&mut choices, after(polls)).await;
                        }
                    });
                    block_on(join_all(tasks));
                });
            }
            scope.spawn(|| self.operate());
        });
        block_on(self.look_at_everything());
        self.into_history()
    }

    /// Splits ranges and collects versions, while the others are at work.
    fn operate(&self) {
        let store = self.db.store();
        let mut choices = Choices::random(self.seed ^ 0x5eed);
        for key in SPLITS {
            for _ in 0..choices.below(400) {
                thread::yield_now();
            }
            // It may be split there already.
            let _ = block_on(store.split(key));
            let threshold = store.clock().now();
            store
                .collect_garbage(threshold)
                .expect("the clock has been there");
        }
    }
}

impl<S: Serve> Clients<S> {
    pub(crate) fn new(db: Db<S>, seed: u64) -> Self {
        Self {
            db,
            seed,
            moments: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            history: Mutex::default(),
        }
    }

    /// What a client chooses by.
    pub(crate) fn choices(&self, client: u64) -> Choices<'static> {
        Choices::random(self.seed << 8 | client)
    }

    /// Runs any transaction, unless `given_up` ends before.
    pub(crate) async fn transact(
        &self,
        choices: &mut Choices<'static>,
        given_up: impl Future<Output = ()>,
    ) {
        let plan = Plan::any(choices);
        self.record(plan, given_up).await;
    }

    /// Reads all that came of it. Everybody has ended, so only who serves can fail.
    pub(crate) async fn look_at_everything(&self) {
        while self.record(Plan::everything(), pending()).await != Fate::Committed {}
    }

    /// All that happened.
    pub(crate) fn into_history(self) -> Vec<Done> {
        let mut history = self.history.into_inner().expect("no client panicked");
        history.sort_by_key(|(txn, _)| *txn);
        history.into_iter().map(|(_, done)| done).collect()
    }

    /// Runs a transaction, unless `given_up` ends before, and notes what became of it.
    async fn record(&self, plan: Plan, given_up: impl Future<Output = ()>) -> Fate {
        let txn = self.next.fetch_add(1, Ordering::Relaxed);
        let began = self.moments.fetch_add(1, Ordering::SeqCst);
        let closure = async |attempt: Attempt<S>| plan.run(attempt, txn).await;
        let run = self.db.txn(closure);
        let outcome = match select(pin!(given_up), pin!(run)).await {
            Either::Left(((), _)) => None,
            Either::Right((outcome, _)) => Some(outcome),
        };
        let ended = self.moments.fetch_add(1, Ordering::SeqCst);
        let (fate, reads) = match outcome {
            Some(Ok(reads)) => (Fate::Committed, reads),
            // What was read is not known, as the last attempt may have been another one.
            None | Some(Err(Error::Ambiguous(_))) => (Fate::Unknown, Vec::new()),
            Some(Err(Error::GaveUp { .. } | Error::Store(_))) => (Fate::Aborted, Vec::new()),
            Some(Err(error)) => panic!("{error}"),
        };
        let done = Done {
            reads,
            appends: plan.appends,
            began,
            ended: if fate == Fate::Unknown {
                u64::MAX
            } else {
                ended
            },
            fate,
        };
        self.history
            .lock()
            .expect("no client panicked")
            .push((txn, done));
        fate
    }
}

/// What a transaction is to do.
struct Plan {
    reads: Vec<usize>,
    scans: bool,
    appends: Vec<usize>,
}

impl Plan {
    fn everything() -> Self {
        Self {
            reads: Vec::new(),
            scans: true,
            appends: Vec::new(),
        }
    }

    fn any(choices: &mut Choices<'static>) -> Self {
        let some = |choices: &mut Choices<'static>, most: usize| {
            let mut lists: Vec<usize> = (0..choices.below(most + 1))
                .map(|_| choices.below(LISTS.len()))
                .collect();
            lists.sort_unstable();
            lists.dedup();
            lists
        };
        Self {
            reads: some(choices, 3),
            scans: choices.one_in(6),
            appends: some(choices, 3),
        }
    }

    /// Reads, by key or by a scan, and appends its number; returns what it read from others.
    async fn run<S: Serve>(
        &self,
        attempt: Attempt<S>,
        txn: usize,
    ) -> Result<Vec<(usize, Vec<usize>)>, Error> {
        let mut read = Vec::new();
        if self.scans {
            let rows = attempt.scan(Span::all(), Request::UNLIMITED).await?;
            for (list, key) in LISTS.iter().enumerate() {
                let row = rows.iter().find(|(found, _)| found == key);
                read.push((list, decode(row.map(|(_, value)| value))));
            }
        }
        for &list in &self.reads {
            read.push((list, decode(attempt.get(LISTS[list]).await?.as_ref())));
        }
        for &list in &self.appends {
            let mut elements = decode(attempt.get(LISTS[list]).await?.as_ref());
            read.push((list, elements.clone()));
            elements.push(txn);
            attempt.put(LISTS[list], encode(&elements))?;
        }
        Ok(read)
    }
}

fn encode(elements: &[usize]) -> Value {
    let bytes = elements
        .iter()
        .flat_map(|element| (*element as u64).to_be_bytes());
    bytes.collect::<Vec<u8>>().into()
}

fn decode(value: Option<&Value>) -> Vec<usize> {
    let (chunks, rest) = value.map_or(&[][..], |value| &value[..]).as_chunks();
    assert!(rest.is_empty(), "a list is torn");
    chunks
        .iter()
        .map(|chunk| u64::from_be_bytes(*chunk) as usize)
        .collect()
}

/// Ends when it is polled once more than so often; it wakes nobody.
fn after(polls: usize) -> impl Future<Output = ()> {
    let mut left = polls;
    poll_fn(move |_| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        Poll::Pending
    })
}
