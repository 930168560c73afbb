//! Three nodes as programs, over TCP on loopback, each on a disk of its own: killed, stopped for a while, cut off, slowed, and
//! without room on the disk. What clients are told meanwhile is checked as if there were one store, and afterwards all nodes have
//! the same.

mod group;
mod link;
mod running;
mod trouble;

use std::cell::Cell;
use std::fmt;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::{Either, join, join_all};
use spanlatch_kv::{Db, Options, TxnMetrics};
use spanlatch_replica::{Batch, Cause, Error, Reply, Request, Serve};
use spanlatch_replica_raft::Client;
use spanset::Timestamp;
use tokio::runtime;
use tokio::time::{sleep, timeout};

use self::group::{Group, IDS};
use self::trouble::Troubles;
use crate::linearizability::clients::{Asked, CLIENTS};
use crate::{Choices, linearizability, serializability};

/// What was covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// How many groups there were.
    pub groups: u64,
    /// How often a node was killed.
    pub kills: u64,
    /// How often a node was stopped for a while.
    pub pauses: u64,
    /// How often a way was cut, in one direction.
    pub cuts: u64,
    /// How often a disk was full.
    pub full: u64,
    /// How many writes nodes were away for that caught up by snapshots.
    pub missed: u64,
    /// What single batches covered.
    pub batches: linearizability::Covered,
    /// What transactions covered.
    pub transactions: serializability::Covered,
}

impl Covered {
    /// Adds up.
    pub fn add(&mut self, more: Self) {
        self.groups += more.groups;
        self.kills += more.kills;
        self.pauses += more.pauses;
        self.cuts += more.cuts;
        self.full += more.full;
        self.missed += more.missed;
        self.batches.add(more.batches);
        self.transactions.add(more.transactions);
    }
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            groups,
            kills,
            pauses,
            cuts,
            full,
            missed,
            batches,
            transactions,
        } = self;
        write!(
            f,
            "{groups} groups, {kills} kills, {pauses} pauses, {cuts} ways cut, {full} disks full, {missed} writes missed; \
             {batches}; {transactions}"
        )
    }
}

/// Builds the program of a node, as this one was built.
///
/// # Errors
///
/// What cargo says.
pub fn build() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = own.parent().ok_or("this program is in no folder")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments =
        "build --quiet --locked -p spanlatch-replica-raft --features node --bin spanlatch-node";
    let built = Command::new(cargo)
        .args(arguments.split_whitespace())
        .args(["--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    match built {
        Ok(status) if status.success() => Ok(folder.join("spanlatch-node")),
        other => Err(format!("the node is not built: {other:?}")),
    }
}

/// Lets clients and trouble loose on a group for a while, and checks what they were told and what is left: batches, or, for every
/// other seed, transactions. The seed chooses what happens, and not what comes of it: real programs have a time of their own.
///
/// # Panics
///
/// If it was not as with one store, or all nodes do not have the same afterwards; their folders are kept then.
pub fn run(program: &Path, seed: u64, load: Duration) -> Covered {
    on_a_group(program, seed, async |group: &mut Group| {
        let choices = Choices::random(seed);
        match seed % 2 {
            0 => send(group, choices, seed, load).await,
            _ => transact(group, choices, seed, load).await,
        }
    })
}

/// Has a node miss so many writes, and catch up while they go on, by a snapshot.
///
/// # Panics
///
/// As [`run`].
pub fn be_away(program: &Path, writes: usize) -> Covered {
    on_a_group(program, 0, async |group: &mut Group| {
        miss(group, writes).await
    })
}

fn on_a_group(
    program: &Path,
    seed: u64,
    run: impl AsyncFnOnce(&mut Group) -> Result<Covered, String>,
) -> Covered {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut choices = Choices::random(!seed);
        let group = Group::start(program.to_owned(), &mut choices).await;
        let mut group = group.unwrap_or_else(|error| panic!("{error}"));
        let ran = run(&mut group).await;
        ran.unwrap_or_else(|error| panic!("{error}\nthe folders are kept: {}", group.keep()))
    })
}

/// Clients send batches.
async fn send(
    group: &mut Group,
    mut choices: Choices<'static>,
    seed: u64,
    load: Duration,
) -> Result<Covered, String> {
    let remote = Remote::new(group);
    let clients = linearizability::clients::Clients::new(&remote, seed);
    let are_done = Cell::new(false);
    let began = Instant::now();
    let sending = async {
        join_all((0..CLIENTS).map(|number| {
            let mut client = clients.client(number);
            let mut pauses = Choices::random(number);
            async move {
                while began.elapsed() < load {
                    client.step().await;
                    pause(&mut pauses).await;
                }
            }
        }))
        .await;
        are_done.set(true);
    };
    let troubles = trouble::make(group, &mut choices, &are_done);
    let ((), troubles) = join(sending, troubles).await;
    let troubles = troubles?;
    group.heal().await?;
    clients.look_at_everything().await;
    group.settle().await?;
    group.check_idle().await?;
    let content = group.end().await?;
    let history = clients.into_history();
    Ok(Covered {
        batches: linearizability::check_with_versions(history, &content.versions),
        ..of(troubles)
    })
}

/// Clients run transactions.
async fn transact(
    group: &mut Group,
    mut choices: Choices<'static>,
    seed: u64,
    load: Duration,
) -> Result<Covered, String> {
    let metrics = TxnMetrics::default();
    let options = Options::default()
        .pauses(Duration::from_millis(1), Duration::from_millis(100))
        .metrics(metrics.clone());
    let db = Db::with_options(Remote::new(group), options);
    let clients = serializability::Clients::new(db, seed);
    let are_done = Cell::new(false);
    let began = Instant::now();
    let running = async {
        join_all((0..CLIENTS).map(|number| {
            let mut choices = clients.choices(number);
            let clients = &clients;
            async move {
                while began.elapsed() < load {
                    let given_up = match choices.one_in(8) {
                        true => {
                            let after = choices.below(100) as u64;
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
    let troubles = trouble::make(group, &mut choices, &are_done);
    let ((), troubles) = join(running, troubles).await;
    let troubles = troubles?;
    group.heal().await?;
    clients.look_at_everything().await;
    group.settle().await?;
    group.check_idle().await?;
    group.end().await?;
    let history = clients.into_history();
    Ok(Covered {
        transactions: serializability::check(&history, &metrics),
        ..of(troubles)
    })
}

/// A node misses writes, one of a key each, and catches up while they go on.
async fn miss(group: &mut Group, writes: usize) -> Result<Covered, String> {
    /// Few, so that they are not gathered to fewer entries than make a snapshot.
    const WRITERS: usize = 16;
    let client = group.client();
    group.settle().await?;
    let away = match group.leader().await {
        Some(1) => 2,
        _ => 1,
    };
    group.kill(away).await?;
    let next = AtomicUsize::new(0);
    let write_until = async |end: &dyn Fn(usize) -> bool| {
        join_all((0..WRITERS).map(async |_| {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if end(number) {
                    return;
                }
                let key = format!("key{}", number % 1_000);
                // Whoever leads stays, as a rule; if not, it is one write less.
                let _ = client
                    .send(Request::put(key, number.to_string()).into())
                    .await;
            }
        }))
        .await;
    };
    write_until(&|number| number >= writes).await;
    group.restart(away).await?;
    let has_caught_up = Cell::new(false);
    let watching = async {
        let before = status(group, leader(group).await?, "applied").await;
        while status(group, away, "applied").await < before {
            sleep(Duration::from_millis(20)).await;
        }
        has_caught_up.set(true);
        Ok::<_, String>(())
    };
    let ((), watched) = join(write_until(&|_| has_caught_up.get()), watching).await;
    watched?;
    // Nobody but an installed snapshot lets a node remove what it never had.
    let purged = status(group, away, "purged").await;
    if purged < Some(1_000) {
        return Err(format!(
            "node {away} has caught up without a snapshot: {purged:?}"
        ));
    }
    group.settle().await?;
    group.check_idle().await?;
    group.end().await?;
    Ok(Covered {
        groups: 1,
        kills: 1,
        missed: writes as u64,
        ..Covered::default()
    })
}

async fn leader(group: &Group) -> Result<u64, String> {
    for _ in 0..1_000 {
        if let Some(leader) = group.leader().await {
            return Ok(leader);
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err("nobody leads".to_owned())
}

/// An index out of a node's status.
async fn status(group: &Group, id: u64, name: &str) -> Option<u64> {
    let status = group.running.get(&id)?.status().await?;
    status[name].as_u64()
}

fn of(troubles: Troubles) -> Covered {
    let Troubles {
        kills,
        pauses,
        cuts,
        full,
    } = troubles;
    Covered {
        groups: 1,
        kills,
        pauses,
        cuts,
        full,
        ..Covered::default()
    }
}

async fn pause(choices: &mut Choices<'_>) {
    sleep(Duration::from_millis(choices.below(30) as u64)).await;
}

/// Several clients of a group, asked in turn: each has its own idea of who leads.
struct Remote {
    clients: Vec<Client>,
    next: AtomicUsize,
}

impl Remote {
    fn new(group: &Group) -> Self {
        Self {
            clients: IDS.iter().map(|_| group.client()).collect(),
            next: AtomicUsize::new(0),
        }
    }

    fn any(&self) -> &Client {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        &self.clients[next % self.clients.len()]
    }
}

impl Serve for Remote {
    async fn send(&self, batch: Batch) -> Result<Reply, Error> {
        self.any().send(batch).await
    }

    async fn now(&self) -> Result<Timestamp, Error> {
        self.any().now().await
    }
}

impl Asked for Remote {
    /// Counts in steps of a few milliseconds.
    async fn ask(&self, batch: Batch, patience: Option<usize>) -> Result<Reply, Error> {
        let Some(steps) = patience else {
            return self.send(batch).await;
        };
        let writes = batch.requests().iter().any(Request::is_write);
        let patience = Duration::from_millis(3 * steps as u64);
        match timeout(patience, self.send(batch)).await {
            Ok(served) => served,
            Err(_) if writes => Err(Error::Ambiguous(Cause::CallerGone)),
            Err(_) => Err(Error::Cancelled),
        }
    }
}
