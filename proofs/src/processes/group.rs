//! Three nodes, each a program, and the ways between them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use spanlatch_replica::FjallEngine;
use spanlatch_replica_raft::{Client, ClientOptions, NodeId};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::link::Link;
use super::running::{Ended, Running};
use crate::Choices;
use crate::cluster::content::Content;

/// The nodes of a group.
pub(super) const IDS: [NodeId; 3] = [1, 2, 3];

/// A client, among those who send.
const CLIENT: NodeId = 0;

/// How long a group may take until it is as it should be, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// What is to be zero when nobody asks for anything.
const GAUGES: [&str; 3] = [
    "proposals_pending",
    "requests_slow_latch",
    "requests_slow_raft",
];

/// A group, and all that its nodes leave behind.
pub(super) struct Group {
    program: PathBuf,
    folder: TempDir,
    /// Where each node listens: the links lead there.
    listens: BTreeMap<NodeId, String>,
    /// From whom to whom.
    links: BTreeMap<(NodeId, NodeId), Link>,
    pub(super) running: BTreeMap<NodeId, Running>,
    /// Those that are stopped by a signal.
    pub(super) paused: BTreeSet<NodeId>,
}

impl Group {
    /// Starts a group of nodes that are this program.
    pub(super) async fn start(program: PathBuf, choices: &mut Choices<'_>) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("spanlatch-nodes-")
            .tempdir();
        let mut listens = BTreeMap::new();
        for id in IDS {
            listens.insert(id, free_address(choices)?);
        }
        let mut links = BTreeMap::new();
        for from in [CLIENT, 1, 2, 3] {
            for to in IDS.into_iter().filter(|&to| to != from) {
                let link = Link::to(listens[&to].clone()).await;
                links.insert((from, to), link.map_err(|error| error.to_string())?);
            }
        }
        let mut group = Self {
            program,
            folder: folder.map_err(|error| error.to_string())?,
            listens,
            links,
            running: BTreeMap::new(),
            paused: BTreeSet::new(),
        };
        for id in IDS {
            group.restart(id).await?;
        }
        Ok(group)
    }

    /// Keeps the folders, and says where.
    pub(super) fn keep(self) -> String {
        self.folder.keep().display().to_string()
    }

    /// Where `from` finds each node.
    fn peers(&self, from: NodeId) -> BTreeMap<NodeId, String> {
        let peer = |to| match self.links.get(&(from, to)) {
            Some(link) => (to, link.address.to_string()),
            None => (to, self.listens[&to].clone()),
        };
        IDS.into_iter().map(peer).collect()
    }

    /// A client that is not patient.
    pub(super) fn client(&self) -> Client {
        let options = ClientOptions::default()
            .patience(Duration::from_millis(1_500))
            .pause(Duration::from_millis(20));
        Client::with_options(&self.peers(CLIENT), options)
    }

    fn data(&self, id: NodeId) -> PathBuf {
        self.folder.path().join(id.to_string())
    }

    /// Starts a node on what it has.
    pub(super) async fn restart(&mut self, id: NodeId) -> Result<(), String> {
        let peers = self.peers(id);
        let peers = peers.iter().map(|(id, address)| format!("{id}={address}"));
        let arguments = [
            "--id".to_owned(),
            id.to_string(),
            "--peers".to_owned(),
            Vec::from_iter(peers).join(","),
            "--listen".to_owned(),
            self.listens[&id].clone(),
            "--data".to_owned(),
            self.data(id).display().to_string(),
            "--splits".to_owned(),
            "c,n".to_owned(),
            "--heartbeat".to_owned(),
            "100ms".to_owned(),
            "--election-timeout".to_owned(),
            "300ms".to_owned(),
        ];
        let node = Running::start(&self.program, &arguments).await?;
        self.running.insert(id, node);
        Ok(())
    }

    /// That no node has ended by itself.
    pub(super) async fn check_alive(&mut self) -> Result<(), String> {
        for id in IDS {
            let Some(node) = self.running.get_mut(&id) else {
                continue;
            };
            if node.has_ended()?
                && let Some(node) = self.running.remove(&id)
            {
                let ended = node.ended().await?;
                return Err(format!("node {id} has ended by itself: {ended:?}"));
            }
        }
        Ok(())
    }

    /// Kills a node.
    pub(super) async fn kill(&mut self, id: NodeId) -> Result<(), String> {
        self.paused.remove(&id);
        let Some(node) = self.running.remove(&id) else {
            return Ok(());
        };
        node.signal("-KILL").await;
        node.ended().await.map(drop)
    }

    /// Lets a node write nothing more, and waits until it has ended, which it does when it has something to write. Returns whether it
    /// had, before the clients were done.
    pub(super) async fn fill_disk(
        &mut self,
        id: NodeId,
        are_done: &Cell<bool>,
    ) -> Result<bool, String> {
        /// How long nobody may have had anything to write.
        const QUIET: Duration = Duration::from_secs(15);
        let Some(mut node) = self.running.remove(&id) else {
            return Ok(false);
        };
        node.fill_disk().await?;
        let since = Instant::now();
        while !are_done.get() && !node.has_ended()? {
            sleep(Duration::from_millis(20)).await;
        }
        if !node.has_ended()? && since.elapsed() < QUIET {
            node.signal("-KILL").await;
            return node.ended().await.map(|_| false);
        }
        let Ended { code, said } = node.ended().await?;
        let told = Vec::from_iter(said.lines().filter(|line| line.starts_with("error: ")));
        match (code, &told[..]) {
            (Some(1), [line]) if line.contains("storage has failed") => Ok(true),
            _ => Err(format!(
                "a node without room ends with {code:?} and says {said}"
            )),
        }
    }

    pub(super) async fn pause(&mut self, id: NodeId) {
        if let Some(node) = self.running.get(&id) {
            node.signal("-STOP").await;
            self.paused.insert(id);
        }
    }

    pub(super) async fn resume(&mut self, id: NodeId) {
        if self.paused.remove(&id)
            && let Some(node) = self.running.get(&id)
        {
            node.signal("-CONT").await;
        }
    }

    /// The ways between two parties of whom one is `of`, and whether that is where they begin.
    pub(super) fn links_of(&self, of: NodeId) -> impl Iterator<Item = (&Link, bool)> {
        let between_nodes = self.links.iter().filter(|((from, _), _)| *from != CLIENT);
        between_nodes.filter_map(move |((from, to), link)| {
            (*from == of || *to == of).then_some((link, *from == of))
        })
    }

    /// All ways.
    pub(super) fn links(&self) -> Vec<&Link> {
        self.links.values().collect()
    }

    /// Who serves, or thinks so, of those that answer.
    pub(super) async fn leader(&self) -> Option<NodeId> {
        for (&id, node) in &self.running {
            if !self.paused.contains(&id)
                && node
                    .status()
                    .await
                    .is_some_and(|status| status["serves"] == true)
            {
                return Some(id);
            }
        }
        None
    }

    /// Ends all trouble, and waits until all nodes have the same log and have applied all of it.
    pub(super) async fn heal(&mut self) -> Result<(), String> {
        for link in self.links.values() {
            link.heal();
        }
        for id in IDS {
            self.resume(id).await;
            if !self.running.contains_key(&id) {
                self.restart(id).await?;
            }
        }
        self.settle().await
    }

    /// Waits until all nodes have the same log and have applied all of it.
    pub(super) async fn settle(&self) -> Result<(), String> {
        let mut seen = Vec::new();
        let settled = async {
            loop {
                seen.clear();
                for node in self.running.values() {
                    seen.extend(node.status().await);
                }
                if seen.len() == IDS.len() && is_settled(&seen) {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let in_time = timeout(PATIENCE, settled).await;
        in_time.map_err(|_| format!("after {PATIENCE:?} without trouble: {seen:#?}"))
    }

    /// That nothing is in flight, and no latch is held.
    pub(super) async fn check_idle(&self) -> Result<(), String> {
        for (id, node) in &self.running {
            let metrics = node.get("/metrics").await.ok_or("no metrics")?;
            for gauge in GAUGES {
                let found = metrics.lines().find(|line| line.starts_with(gauge));
                match found.and_then(|line| line.rsplit(' ').next()) {
                    Some("0") => {}
                    _ => return Err(format!("node {id}: {found:?} for {gauge}")),
                }
            }
            let latches = node.get("/latches").await.ok_or("no latches")?;
            let latches: Value = serde_json::from_str(&latches).map_err(|e| e.to_string())?;
            for range in latches["ranges"].as_array().into_iter().flatten() {
                if range["holding"] != 0 || range["waiting"] != 0 {
                    return Err(format!("node {id} has latches left: {range}"));
                }
            }
        }
        Ok(())
    }

    /// Ends all nodes as they should end, and returns what each has.
    async fn contents(&mut self) -> Result<Vec<Content>, String> {
        let leader = self.leader().await;
        let mut order = Vec::from(IDS);
        // So that nothing is committed after it has gone.
        order.sort_by_key(|&id| Some(id) != leader);
        for id in &order {
            let node = self.running.remove(id).ok_or("it does not run")?;
            node.signal("-TERM").await;
            let Ended { code, said } = node.ended().await?;
            if code != Some(0) {
                return Err(format!("node {id} ends with {code:?}: {said}"));
            }
        }
        let content = |id| {
            let engine = FjallEngine::open(self.data(id));
            let engine = engine.map_err(|error| error.to_string())?;
            Content::read(&engine).map_err(|error| error.to_string())
        };
        IDS.into_iter().map(content).collect()
    }

    /// Ends the group, and returns what is there.
    ///
    /// # Panics
    ///
    /// If two nodes differ.
    pub(super) async fn end(&mut self) -> Result<Content, String> {
        let mut tries = 0;
        let contents = loop {
            let contents = self.contents().await?;
            let is_same = contents
                .iter()
                .all(|content| content.marks == contents[0].marks);
            tries += 1;
            // The last may have had the ceiling raised when the first had ended.
            if is_same || tries == 3 {
                break contents;
            }
            self.heal().await?;
        };
        for (other, id) in contents.iter().zip(IDS) {
            contents[0].compare(other, &format!("nodes 1 and {id}"));
        }
        contents.into_iter().next().ok_or("no nodes".to_owned())
    }
}

fn is_settled(seen: &[Value]) -> bool {
    let last = &seen[0]["last"];
    let same = |status: &Value| status["last"] == *last && status["applied"] == *last;
    seen.iter()
        .filter(|status| status["serves"] == true)
        .count()
        == 1
        && seen.iter().all(same)
}

/// An address at which nobody listens, and where nobody is by chance: below what systems choose for those who connect.
fn free_address(choices: &mut Choices<'_>) -> Result<String, String> {
    for _ in 0..100 {
        let salt = std::process::id() as usize * 7;
        let port = 10_000 + (choices.below(20_000) + salt) % 20_000;
        let address = format!("127.0.0.1:{port}");
        if TcpListener::bind(&address).is_ok() {
            return Ok(address);
        }
    }
    Err("no address is free".to_owned())
}
