//! Random batches on threads, with an engine that fails, splits, collection and clients that go away: what they
//! were told must be what one batch after the other would have been told.
//!
//! Three checks, which share no assumption:
//!
//! - *By timestamp* (`serial`): the batches, served one after the other in the order of their timestamps by a sorted
//!   map, get the same answers and write the same; and that order is the one of real time.
//! - *By real time alone* (`register`): what batches did to a key is linearizable as operations on a register. No
//!   timestamp is looked at. Linearizability is local (Herlihy and Wing, 1990), so one key at a time.
//! - *Lists* that are only appended to: all that were read are prefixes of the longest.
//!
//! What became of an ambiguous batch is read off the engine, which notes what it applied.

pub(crate) mod clients;
mod pushes;
mod register;
mod serial;
mod versions;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use spanlatch_replica::{
    Batch, Clock, Error, ManualSource, Reply, Store, Value, Version, WriteBatch,
};
use spanset::{Key, Timestamp};

use self::clients::Clients;
use crate::Choices;
use crate::failing_engine::FailingEngine;

/// What was covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// How many batches were sent.
    pub batches: u64,
    /// How many of them were served.
    pub served: u64,
    /// How many were in flight at the same time as another one that touched one of their keys, and one of the two
    /// wrote it.
    pub overlapped: u64,
    /// How many had an ambiguous result.
    pub ambiguous: u64,
    /// How many of these were applied.
    pub applied_ambiguous: u64,
    /// How many ranges were split, and how often versions were collected.
    pub splits: u64,
    /// How often versions were collected.
    pub collections: u64,
    /// How many steps it took to find an order of the operations of all registers.
    pub steps: u64,
}

impl Covered {
    /// Adds up.
    pub fn add(&mut self, more: Self) {
        self.batches += more.batches;
        self.served += more.served;
        self.overlapped += more.overlapped;
        self.ambiguous += more.ambiguous;
        self.applied_ambiguous += more.applied_ambiguous;
        self.splits += more.splits;
        self.collections += more.collections;
        self.steps += more.steps;
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            batches,
            served,
            overlapped,
            ambiguous,
            applied_ambiguous,
            splits,
            collections,
            steps,
        } = self;
        write!(
            f,
            "{batches} batches, {served} served, {overlapped} overlapped in conflict; {ambiguous} ambiguous, of which \
             {applied_ambiguous} applied; {splits} splits, {collections} collections; {steps} steps to order the registers"
        )
    }
}

/// A batch that was sent, and what came back.
#[derive(Debug)]
struct Op {
    /// The value of the last put of a batch that writes, so that its effects are known.
    mark: Option<Value>,
    batch: Batch,
    began: u64,
    /// `None`: nobody knows when, or whether, it took place.
    ended: Option<u64>,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Served(Reply),
    Failed(Error),
    Ambiguous,
}

/// That versions below a timestamp were collected, from a moment on.
#[derive(Debug)]
struct Collection {
    threshold: Timestamp,
    ended: u64,
}

/// All that happened.
#[derive(Debug, Default)]
pub(crate) struct History {
    ops: Vec<Op>,
    collections: Vec<Collection>,
    splits: u64,
    /// What the engine applied, in this order.
    pub(crate) applied: Vec<WriteBatch>,
}

/// The order of real time: a moment is before another if its number is lower.
#[derive(Debug, Default)]
struct Moments(AtomicU64);

impl Moments {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// Keys that are put, deleted and counted with; those below `m` are in spans that are deleted.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "p"];
/// Keys that hold numbers.
const NUMBERS: [&str; 2] = ["f", "q"];
/// Keys that hold lists, which nothing but appending changes.
const LISTS: [&str; 2] = ["n", "r"];

/// Lets clients loose on a store, which `seed` chooses, and checks what they were told. Which seed it was does not
/// decide in which order threads run.
///
/// # Panics
///
/// If it was not what one after the other would have been told, or cannot be decided.
pub fn run(seed: u64, batches: usize) -> Covered {
    let mut choices = Choices::random(seed);
    pushes::check(&mut choices);
    let engine = Arc::new(FailingEngine::new(seed));
    let mut builder = Store::builder()
        .engine(engine.clone())
        .splits(["c", "n"].map(Key::from));
    if choices.one_in(2) {
        builder = builder.release_reads_early();
    }
    if choices.one_in(2) {
        builder = builder.timestamp_cache_capacity(4);
    }
    // In half of the runs time moves only now and then, so that timestamps are close.
    let time = ManualSource::at(1_000_000);
    if choices.one_in(2) {
        builder = builder.clock(Clock::with_source(time.clone(), Clock::DEFAULT_MAX_AHEAD));
    }
    let (store, applier) = builder.build();
    let applier = thread::spawn(move || applier.run());
    let mut history = Clients::new(&store, seed).run(&time, batches);
    store.shut_down();
    applier.join().expect("the applier does not panic");
    assert!(store.is_idle(), "latches were left behind");
    history.applied = engine.applied();
    check(&history)
}

/// Checks what clients were told.
///
/// # Panics
///
/// If it was not what one after the other would have been told, or cannot be decided.
pub(crate) fn check(history: &History) -> Covered {
    let applied_ambiguous = serial::check(history);
    covered(history, applied_ambiguous)
}

/// As [`check`], with the versions that are there at the end: all of them, as nothing was collected.
///
/// # Panics
///
/// As [`check`].
pub(crate) fn check_with_versions(mut history: History, versions: &[(Key, Version)]) -> Covered {
    history.applied = versions::groups(versions);
    let applied_ambiguous = versions::check(&history);
    covered(&history, applied_ambiguous)
}

/// Checks what both have in common.
fn covered(history: &History, applied_ambiguous: u64) -> Covered {
    let steps = register::check(history);
    check_lists(history);
    let count = |is: fn(&Outcome) -> bool| {
        let found = history.ops.iter().filter(|op| is(&op.outcome));
        found.count() as u64
    };
    Covered {
        batches: history.ops.len() as u64,
        served: count(|outcome| matches!(outcome, Outcome::Served(_))),
        overlapped: overlapped(history),
        ambiguous: count(|outcome| matches!(outcome, Outcome::Ambiguous)),
        applied_ambiguous,
        splits: history.splits,
        collections: history.collections.len() as u64,
        steps,
    }
}

/// How many were in flight together with another one that they conflict with.
fn overlapped(history: &History) -> u64 {
    let mut ops = Vec::from_iter(&history.ops);
    ops.sort_by_key(|op| op.began);
    let mut overlapped = vec![false; ops.len()];
    for (at, op) in ops.iter().enumerate() {
        let end = op.ended.unwrap_or(op.began);
        for (later, other) in ops.iter().enumerate().skip(at + 1) {
            if other.began > end {
                break;
            }
            if conflict(&op.batch, &other.batch) {
                (overlapped[at], overlapped[later]) = (true, true);
            }
        }
    }
    overlapped.iter().filter(|&&overlapped| overlapped).count() as u64
}

fn conflict(a: &Batch, b: &Batch) -> bool {
    a.requests().iter().any(|one| {
        b.requests().iter().any(|other| {
            (one.is_write() || other.is_write())
                && clients::span_of(one).overlaps(&clients::span_of(other))
        })
    })
}

/// All lists that were read are prefixes of the longest one, and nothing is in one twice.
fn check_lists(history: &History) {
    for key in LISTS {
        let mut lists = Vec::new();
        for op in &history.ops {
            if let Outcome::Served(reply) = &op.outcome {
                lists.extend(clients::values_of(&op.batch, reply, &Key::from(key)));
            }
        }
        lists.sort_by_key(Value::len);
        for pair in lists.windows(2) {
            assert!(
                pair[1].starts_with(&pair[0]),
                "the list {key:?} was read as {:?} and as {:?}",
                pair[0],
                pair[1]
            );
        }
        if let Some(longest) = lists.last() {
            let mut items = Vec::from_iter(longest.split(|&byte| byte == b','));
            let len = items.len();
            items.sort_unstable();
            items.dedup();
            assert_eq!(
                items.len(),
                len,
                "the list {key:?} has an item twice: {longest:?}"
            );
        }
    }
}
