//! Three nodes in one process, on a network that delays, reorders and loses messages, and is cut; nodes are stopped and
//! started again. What clients are told meanwhile is checked as if there were one store, and afterwards all nodes have the same.
//!
//! Time is that of a paused runtime, so that it costs nothing to wait. A seed chooses all of it but what openraft chooses by
//! itself: when a node stands for election.

pub(crate) mod content;
mod finder;
mod group;
mod network;
mod noting;
mod trouble;

use std::cell::Cell;
use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::future::{Either, join, join_all};
use spanlatch_kv::{Db, Options, Timer, TxnMetrics};
use spanset::Timestamp;
use tokio::runtime;
use tokio::time::sleep;

use self::finder::Finder;
use self::group::{Group, Kept};
use self::trouble::{Troubles, Witness};
use crate::linearizability::clients::CLIENTS;
use crate::{Choices, linearizability, serializability};

/// What was covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// How many groups there were.
    pub groups: u64,
    /// How often a node began to serve.
    pub leaderships: u64,
    /// How often a node was stopped.
    pub stops: u64,
    /// How often a link was cut, in one direction.
    pub cuts: u64,
    /// How many snapshots were installed.
    pub snapshots: u64,
    /// What single batches covered.
    pub batches: linearizability::Covered,
    /// What transactions covered.
    pub transactions: serializability::Covered,
}

impl Covered {
    /// Adds up.
    pub fn add(&mut self, more: Self) {
        self.groups += more.groups;
        self.leaderships += more.leaderships;
        self.stops += more.stops;
        self.cuts += more.cuts;
        self.snapshots += more.snapshots;
        self.batches.add(more.batches);
        self.transactions.add(more.transactions);
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            groups,
            leaderships,
            stops,
            cuts,
            snapshots,
            batches,
            transactions,
        } = self;
        write!(
            f,
            "{groups} groups, {leaderships} leaderships, {stops} stops, {cuts} links cut, {snapshots} snapshots installed; \
             {batches}; {transactions}"
        )
    }
}

/// Lets clients and trouble loose on a group, which `seed` chooses, and checks what they were told and what is left: batches,
/// or, for every third seed, transactions. Every thirtieth group is on a disk.
///
/// # Panics
///
/// If it was not as with one store, or all nodes do not have the same afterwards.
pub fn run(seed: u64, steps: usize) -> Covered {
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let (kept, steps) = match seed % 30 {
        // Here waiting costs.
        29 => (Kept::OnDisk, steps / 4),
        _ => (Kept::InMemory, steps),
    };
    runtime.expect("a runtime").block_on(async {
        let mut choices = Choices::random(seed);
        let mut group = Group::start(seed, kept, &mut choices).await;
        let finder = Finder::new(group.network.clone(), seed);
        let mut covered = Covered::default();
        let troubles = match seed % 3 {
            2 => {
                let (troubles, more) = transact(&mut group, finder, choices, steps).await;
                covered.transactions = more;
                troubles
            }
            _ => {
                let (troubles, more) = send(&mut group, finder, choices, steps).await;
                covered.batches = more;
                troubles
            }
        };
        covered.groups = 1;
        covered.leaderships = group.leaderships();
        covered.snapshots = group.applied.snapshots();
        covered.stops = troubles.stops;
        covered.cuts = troubles.cuts;
        covered
    })
}

/// Clients send batches.
async fn send(
    group: &mut Group,
    finder: Finder,
    mut choices: Choices<'static>,
    steps: usize,
) -> (Troubles, linearizability::Covered) {
    let clients = linearizability::clients::Clients::new(&finder, choices.below(1 << 30) as u64);
    let are_done = Cell::new(false);
    let load = async {
        join_all((0..CLIENTS).map(|number| {
            let mut client = clients.client(number);
            let mut pauses = Choices::random(number);
            async move {
                while client.sent() < steps / CLIENTS as usize {
                    client.step().await;
                    pause(&mut pauses).await;
                }
            }
        }))
        .await;
        are_done.set(true);
    };
    let troubles = trouble::make(group, &mut choices, &clients, &are_done);
    let ((), troubles) = join(load, troubles).await;
    group.heal().await;
    clients.look_at_everything().await;
    group.settle().await;
    group.check().await;
    let mut history = clients.into_history();
    history.applied = group.applied.batches();
    (troubles, linearizability::check(&history))
}

/// Clients run transactions.
async fn transact(
    group: &mut Group,
    finder: Finder,
    mut choices: Choices<'static>,
    steps: usize,
) -> (Troubles, serializability::Covered) {
    let metrics = TxnMetrics::default();
    let options = Options::default()
        .pauses(Duration::from_millis(1), Duration::from_millis(100))
        .timer(PausedTimer)
        .metrics(metrics.clone());
    let db = Db::with_options(finder, options);
    let clients = serializability::Clients::new(db, choices.below(1 << 30) as u64);
    let are_done = Cell::new(false);
    let load = async {
        join_all((0..CLIENTS).map(|number| {
            let mut choices = clients.choices(number);
            let clients = &clients;
            async move {
                for _ in 0..steps / (2 * CLIENTS as usize) {
                    let given_up = match choices.one_in(8) {
                        true => {
                            let after = choices.below(50) as u64;
                            Either::Left(sleep(Duration::from_millis(after)))
                        }
                        false => Either::Right(pending()),
                    };
                    clients.transact(&mut choices, given_up).await;
                    pause(&mut choices).await;
                }
            }
        }))
        .await;
        are_done.set(true);
    };
    let troubles = trouble::make(group, &mut choices, &NoWitness, &are_done);
    let ((), troubles) = join(load, troubles).await;
    group.heal().await;
    clients.look_at_everything().await;
    group.settle().await;
    group.check().await;
    let history = clients.into_history();
    (troubles, serializability::check(&history, &metrics))
}

async fn pause(choices: &mut Choices<'_>) {
    sleep(Duration::from_millis(choices.below(30) as u64)).await;
}

impl Witness for linearizability::clients::Clients<'_, Finder> {
    fn has_split(&self) {
        Self::has_split(self);
    }

    fn has_collected(&self, threshold: Timestamp) {
        Self::has_collected(self, threshold);
    }
}

struct NoWitness;

impl Witness for NoWitness {
    fn has_split(&self) {}

    fn has_collected(&self, _: Timestamp) {}
}

/// The time of the runtime.
#[derive(Debug)]
struct PausedTimer;

impl Timer for PausedTimer {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep(pause))
    }
}
