//! One run of a workload on a group of nodes, each a process on this machine.

pub mod node;
mod process;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use spanlatch_replica::Serve;
use spanlatch_replica_raft::{Client as Remote, ClientOptions, NodeId};
use tempfile::TempDir;

use crate::check::Acknowledged;
use crate::client::Client;
use crate::run::{Cores, Driven, PATIENCE, Place, Stop, Timing, drive, latching};
use crate::sample::Sample;
use crate::session::Side;
use crate::workload::Workload;

use node::{Ask, Content, Report};
use process::Process;

/// How often those are asked of whom something is awaited.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a node that is ending may take to say why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Which cores the processes of a run have.
#[derive(Debug)]
struct Shares {
    nodes: Vec<Cores>,
    load: Cores,
    are_shared: bool,
}

impl Shares {
    /// As many as `cores` for each node and for the load generator: of their own, if there are so many, or else the same.
    fn new(nodes: usize, cores: &Cores) -> Self {
        let each = cores.count();
        let (nodes, load, are_shared) = match Cores::first(each.saturating_mul(nodes + 1)) {
            Ok(all) => {
                let mut parts = all.split(each);
                let load = parts.pop().unwrap_or_else(|| cores.clone());
                (parts, load, false)
            }
            Err(_) => (vec![cores.clone(); nodes], cores.clone(), true),
        };
        Self {
            nodes,
            load,
            are_shared,
        }
    }
}

/// What has to be said of a row with so many nodes on these cores.
pub(crate) fn note(nodes: usize, cores: &Cores) -> String {
    let count = cores.count();
    match Shares::new(nodes, cores).are_shared {
        true => format!(
            "nodes={nodes}: the nodes and the load generator are processes that share the cores (cores={count})"
        ),
        false => format!(
            "nodes={nodes}: each node, and the load generator, is a process with cores of its own (cores={count})"
        ),
    }
}

/// What runs on which nodes.
pub(crate) struct Setup<'a> {
    pub(crate) nodes: usize,
    pub(crate) side: Side,
    pub(crate) workload: &'a Workload,
    pub(crate) place: &'a Place<'a>,
}

/// Runs a workload on a fresh group of nodes with this side's latches, and checks the nodes afterwards. As
/// [`run`](crate::run::run), but for what is checked: that the leader has no latches left, and that each node has exactly the
/// acknowledged versions.
///
/// # Errors
///
/// If a node or an operation fails, or the nodes are not as the acknowledgements say.
pub(crate) fn run(
    setup: &Setup<'_>,
    cores: &Cores,
    timing: Timing,
    stop: &Stop,
    mut elapsed: impl FnMut(Duration),
) -> Result<Option<Sample>> {
    let Setup {
        workload, place, ..
    } = *setup;
    let shares = Shares::new(setup.nodes, cores);
    let mut group = Group::start(setup, &shares)?;
    let Some(leader) = group.leader(stop)? else {
        return Ok(None);
    };
    let runtime = shares.load.builder().enable_all().build();
    let runtime = runtime.context("the worker threads cannot be started")?;
    let options = ClientOptions::default().patience(PATIENCE);
    let remote = Remote::with_options(&group.peers, options);
    // So that the way to the leader is there when time begins.
    runtime.block_on(remote.now())?;
    let client = || Client::new(place.client, remote.clone());
    let group = RefCell::new(group);
    let gauges = || group.borrow_mut().nodes[leader].ask::<Report>(Ask::Report);
    let elapsed = |since| {
        elapsed(since);
        // Without one, the others might go on.
        group.borrow_mut().failure().map_or(Ok(()), Err)
    };
    let driven = drive(&runtime, workload, client, timing, stop, gauges, elapsed);
    let Driven {
        acknowledged,
        latencies,
        begin,
        end,
    } = driven.map_err(|error| group.borrow_mut().explain(error))?;
    let mut group = group.into_inner();
    let checked = group.check(leader, acknowledged);
    checked.context("the self-check after the run failed")?;
    if stop.asked() {
        return Ok(None);
    }
    let gauges = [begin, end].map(|report| (report.reading, report.busy));
    let latching = latching(gauges, latencies.len(), timing.duration);
    Ok(Some(Sample::new(latencies, timing.duration, latching)))
}

/// The nodes of a run. They end with it.
struct Group {
    nodes: Vec<Process>,
    peers: BTreeMap<NodeId, String>,
    /// With a folder for the data of each.
    _data: Option<TempDir>,
}

impl Group {
    /// Starts them, and tells each where the others are.
    fn start(setup: &Setup<'_>, shares: &Shares) -> Result<Self> {
        let data = setup
            .place
            .storage
            .folder()
            .map(TempDir::new_in)
            .transpose();
        let data = data.context("cannot make a folder for the data")?;
        let mut nodes = Vec::new();
        let mut peers = BTreeMap::new();
        for (id, cores) in (1..).zip(&shares.nodes) {
            let mut node = Process::start(&process::Setup {
                id,
                side: setup.side,
                splits: setup.workload.flags().splits,
                cores,
                data: data.as_ref().map(|data| data.path().join(id.to_string())),
            })?;
            peers.insert(id, node.hear()?);
            nodes.push(node);
        }
        for node in &mut nodes {
            node.say(&peers)?;
        }
        Ok(Self {
            nodes,
            peers,
            _data: data,
        })
    }

    /// Waits until one serves and all know that it leads; `None` if it is stopped before.
    fn leader(&mut self, stop: &Stop) -> Result<Option<usize>> {
        let give_up = Instant::now() + PATIENCE;
        while !stop.asked() {
            let mut leaders = BTreeSet::new();
            for node in &mut self.nodes {
                leaders.insert(node.ask::<Report>(Ask::Report)?.leader);
            }
            if let (1, Some(&Some(leader))) = (leaders.len(), leaders.first()) {
                return Ok(self.peers.keys().position(|&id| id == leader));
            }
            if Instant::now() > give_up {
                bail!("the nodes have no leader within {PATIENCE:?}");
            }
            thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// Checks that no latches are left on the leader, and that each node has exactly the versions that were acknowledged. Nobody
    /// may be at work.
    fn check(&mut self, leader: usize, acknowledged: Vec<Acknowledged>) -> Result<()> {
        let Report { idle, last, .. } = self.nodes[leader].ask(Ask::Report)?;
        if !idle {
            bail!("latches are left over though no operation is in flight");
        }
        let expected = Content::acknowledged(acknowledged);
        let give_up = Instant::now() + PATIENCE;
        for node in &mut self.nodes {
            while node.ask::<Report>(Ask::Report)?.applied < last {
                if Instant::now() > give_up {
                    bail!("{node} has not applied entry {last:?} within {PATIENCE:?}");
                }
                thread::sleep(PAUSE);
            }
            let found = node.ask::<Content>(Ask::Content)?;
            if found != expected {
                bail!(
                    "{node} has {} versions, {} were acknowledged, and they are not the same",
                    found.versions,
                    expected.versions
                );
            }
        }
        Ok(())
    }

    /// Why one has ended, if one has.
    fn failure(&mut self) -> Option<anyhow::Error> {
        self.nodes.iter_mut().find_map(Process::failure)
    }

    /// Why an operation failed: because a node has, or for its own reasons.
    fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        let give_up = Instant::now() + LAST_WORDS;
        while Instant::now() < give_up {
            if let Some(failure) = self.failure() {
                return failure;
            }
            thread::sleep(PAUSE);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_only_where_there_are_too_few() -> Result<()> {
        let all = Cores::first(Cores::available())?;
        let shares = Shares::new(3, &all);
        assert!(shares.are_shared && shares.nodes.len() == 3);
        assert_eq!(shares.load.to_string(), all.to_string());
        assert!(note(3, &all).contains("share the cores"));
        // One node and its load have cores of their own on any machine that has two.
        if all.count() >= 2 {
            let shares = Shares::new(1, &Cores::first(1)?);
            assert!(!shares.are_shared);
            assert_ne!(shares.load.to_string(), shares.nodes[0].to_string());
        }
        Ok(())
    }
}
