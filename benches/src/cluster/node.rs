//! A node of a run, from within: what the program `spanlatch-bench-node` does.
//!
//! It says where it listens, as a line of JSON; is told in the same way where all nodes listen; and then answers what it is
//! asked. It ends when nobody can ask any more.

use std::collections::BTreeMap;
use std::future::pending;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use spanlatch::Manager;
use spanlatch_replica::{EngineError, FjallEngine, Latches, MemEngine, Records, Store, Versions};
use spanlatch_replica_raft::{Config, Node, NodeId, Server, Status, Tcp};
use spanset::{Span, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::check::Acknowledged;
use crate::instrument::{Instrumented, Meter, Reading};
use crate::predecessor::Predecessor;
use crate::run::{Cores, busy};
use crate::session::Side;
use crate::workload::{Flags, Workload};

/// How long the first node waits before it stands for election: it leads soon after it has started.
const FIRST: Duration = Duration::from_millis(500);
/// How long the others wait: on a machine that is as busy as can be, a leader that is late has not gone.
const OTHERS: Duration = Duration::from_secs(5);

/// A node of a benchmark's group. Who starts it talks to it by its standard input and output.
#[derive(Debug, Parser)]
#[command(name = "spanlatch-bench-node", version)]
pub struct Cli {
    /// Its number
    #[arg(long)]
    id: NodeId,
    /// Whose latches it has
    #[arg(long, value_enum)]
    side: Side,
    /// Pre-split points of the store
    #[arg(long)]
    splits: u32,
    /// The cores of its worker threads, by number
    #[arg(long)]
    cores: Cores,
    /// The folder that keeps its data on a disk; without it, they are in memory
    #[arg(long)]
    data: Option<PathBuf>,
}

/// What a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// For a [`Report`].
    Report,
    /// For its [`Content`].
    Content,
}

/// How a node is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Who leads, as far as it knows; itself only once it serves.
    pub(crate) leader: Option<NodeId>,
    /// Whether it serves, and nobody holds latches or waits for any.
    pub(crate) idle: bool,
    /// The last entry of its log.
    pub(crate) last: Option<u64>,
    /// The last entry that it has applied.
    pub(crate) applied: Option<u64>,
    /// What the meter on its latches shows.
    pub(crate) reading: Reading,
    /// How long its worker threads have been busy, all together.
    pub(crate) busy: Duration,
}

/// Which versions there are: how many, and a digest of their keys and timestamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub(crate) versions: usize,
    digest: Vec<u8>,
}

impl Content {
    /// That of an engine which has exactly what was acknowledged. O(n log n).
    pub(crate) fn acknowledged(mut writes: Vec<Acknowledged>) -> Self {
        // In the order of an engine. A batch that writes a key twice makes one version of it.
        writes.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        writes.dedup();
        let mut content = Summed::default();
        for (key, at) in writes {
            content.add(&key, at);
        }
        content.into()
    }

    /// That of an engine. O(n).
    fn of(engine: &dyn Records) -> Result<Self, EngineError> {
        let mut content = Summed::default();
        for version in Versions::new(engine.snapshot()?, Span::all()) {
            let (key, version) = version?;
            content.add(&key, version.timestamp);
        }
        Ok(content.into())
    }
}

#[derive(Default)]
struct Summed {
    versions: usize,
    digest: Sha1,
}

impl Summed {
    fn add(&mut self, key: &[u8], at: Timestamp) {
        self.versions += 1;
        self.digest.update(key.len().to_be_bytes());
        self.digest.update(key);
        self.digest.update(at.wall.to_be_bytes());
        self.digest.update(at.logical.to_be_bytes());
    }
}

impl From<Summed> for Content {
    fn from(summed: Summed) -> Self {
        Self {
            versions: summed.versions,
            digest: summed.digest.finalize().to_vec(),
        }
    }
}

impl Cli {
    /// Is a node until nobody can ask any more.
    ///
    /// # Errors
    ///
    /// If it cannot start, or its storage fails.
    pub fn run(self) -> Result<()> {
        match self.side {
            Side::Old => self.run_with(Predecessor::new),
            Side::New => self.run_with(Manager::new),
        }
    }

    fn run_with<L: Latches>(self, latches: fn() -> L) -> Result<()> {
        let runtime = self.cores.builder().enable_all().build();
        let runtime = runtime.context("the worker threads cannot be started")?;
        let (hear, heard) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                if hear.send(line).is_err() {
                    break;
                }
            }
        });
        let ended = runtime.block_on(self.serve(latches, heard));
        // Nobody needs its data any more.
        runtime.shutdown_background();
        ended
    }

    async fn serve<L: Latches>(
        self,
        latches: fn() -> L,
        mut heard: mpsc::UnboundedReceiver<String>,
    ) -> Result<()> {
        let server = Server::bind("127.0.0.1:0").await?;
        say(&server.address().to_string())?;
        let Some(line) = heard.recv().await else {
            return Ok(());
        };
        let peers: BTreeMap<NodeId, String> = serde_json::from_str(&line)?;

        let engine: Arc<dyn Records> = match &self.data {
            Some(folder) => Arc::new(FjallEngine::open(folder)?),
            None => Arc::new(MemEngine::outliving_stores()),
        };
        let splits = Workload::new(Flags {
            splits: self.splits,
            ..Flags::default()
        })?
        .split_points();
        let meter = Arc::new(Meter::new());
        let metered = meter.clone();
        let transport = Arc::new(Tcp::new(self.id, &peers));
        let mut config = Config::with_latches(
            self.id,
            peers,
            engine.clone(),
            transport,
            move || Store::builder().splits(splits.iter().cloned()),
            move |_| Instrumented::new(latches(), metered.clone()),
        );
        config.election_timeout = if self.id == 1 { FIRST } else { OTHERS };
        let node = Node::start(config).await?;
        tokio::spawn(server.serve(node.clone(), pending()));

        loop {
            tokio::select! {
                stopped = node.stopped() => {
                    return stopped.map_err(|failure| anyhow!("storage has failed: {failure}"));
                }
                line = heard.recv() => {
                    let Some(line) = line else {
                        return Ok(());
                    };
                    match serde_json::from_str(&line)? {
                        Ask::Report => say(&report(&node, &meter, &self.cores))?,
                        Ask::Content => say(&Content::of(&*engine)?)?,
                    }
                }
            }
        }
    }
}

fn report<L: Latches>(node: &Node<L>, meter: &Meter, cores: &Cores) -> Report {
    let store = node.store();
    let Status {
        id,
        leader,
        last,
        applied,
        ..
    } = node.status();
    Report {
        leader: leader.filter(|&leader| leader != id || store.is_some()),
        idle: store.is_some_and(|store| store.is_idle()),
        last,
        applied,
        reading: meter.read(),
        busy: busy(&Handle::current().metrics(), cores.count()),
    }
}

/// To whoever has started this process.
fn say(what: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(what)? + "\n";
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    Ok(stdout.flush()?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use spanlatch_replica::{Batch, Request};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_an_engine_has_is_what_was_acknowledged_and_anything_else_is_noticed() -> Result<()> {
        let engine = Arc::new(MemEngine::new());
        let (store, applier) = Store::builder().engine(engine.clone()).build();
        let applying = thread::spawn(move || applier.run());
        let mut writes = Vec::new();
        for key in [*b"bbbbbbbb", *b"aaaaaaaa", *b"aaaaaaaa"] {
            let batch = Batch::from(Request::put(key.to_vec(), "value"));
            let reply = futures::executor::block_on(store.send(batch))?;
            writes.push((key, reply.timestamp));
        }
        store.shut_down();
        drop(store);
        applying
            .join()
            .map_err(|_| anyhow!("the applier panicked"))?;

        let found = Content::of(&*engine)?;
        let differs = |change: fn(&mut Vec<Acknowledged>)| {
            let mut writes = writes.clone();
            change(&mut writes);
            Content::acknowledged(writes) != found
        };
        assert!(!differs(|_| ()));
        assert!(!differs(|writes| writes.push(writes[0])));
        assert!(differs(|writes| writes.truncate(2)));
        assert!(differs(|writes| writes.push((*b"cccccccc", Timestamp::MAX))));
        assert!(differs(|writes| writes[0].1 = Timestamp::MAX));
        assert!(differs(|writes| writes[0].0 = *b"cccccccc"));
        Ok(())
    }
}
