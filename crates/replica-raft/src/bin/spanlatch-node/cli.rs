//! The command line of `spanlatch-node`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use percent_encoding::percent_decode_str;
use spanlatch_replica_raft::NodeId;
use spanset::Key;
use tracing_subscriber::filter::LevelFilter;

/// One node of a group that replicates a store of keys.
///
/// It ends on SIGTERM and on Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "spanlatch-node", version)]
pub(crate) struct Cli {
    /// Its number, one of those in --peers
    #[arg(long)]
    pub(crate) id: NodeId,
    /// All nodes of the group and where they are found, the same on every node and for ever: one, three, or another odd number
    #[arg(long, value_name = "ID=HOST:PORT,..", value_parser = peers)]
    pub(crate) peers: BTreeMap<NodeId, String>,
    /// Where it listens for nodes and clients [default: its own address in --peers]
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub(crate) listen: Option<String>,
    /// Where it keeps data
    #[arg(long, value_enum, default_value_t = EngineKind::Fjall)]
    pub(crate) engine: EngineKind,
    /// The folder that keeps the data on a disk; made if there is none
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Where /status, /metrics, /healthz and /latches are; port 0 takes a free one, which is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) http: SocketAddr,
    /// Keys at which to split the store into ranges; what is not plain is percent-encoded
    #[arg(long, value_name = "KEY,..", value_delimiter = ',', value_parser = key)]
    pub(crate) splits: Vec<Key>,
    /// The most requests in flight while it leads
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) max_in_flight: usize,
    /// How often a leader tells the others that it leads
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = humantime::parse_duration)]
    pub(crate) heartbeat: Duration,
    /// How patient to be with a leader that is not heard of any more: another leads after three to four times this
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    pub(crate) election_timeout: Duration,
    /// What to log to standard error; openraft's messages from `debug` on
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: LevelFilter,
}

/// Where a node keeps data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineKind {
    /// On a disk, in --data
    Fjall,
    /// In memory, for tests: a node that was stopped has forgotten what it voted for and acknowledged, so it must not start again
    Mem,
}

/// `1=host:port,2=host:port`, each number once.
fn peers(text: &str) -> Result<BTreeMap<NodeId, String>, String> {
    let mut peers = BTreeMap::new();
    for peer in text.split(',') {
        let parsed = peer.split_once('=');
        let parsed = parsed.and_then(|(id, at)| Some((id.parse().ok()?, at)));
        let (id, at) = parsed.ok_or_else(|| format!("{peer:?} is not ID=HOST:PORT"))?;
        let at = address(at)?;
        if at.ends_with(":0") {
            return Err(format!("{peer:?}: others cannot know which port 0 is"));
        }
        if let Some(other) = peers.iter().find_map(|(id, a)| (*a == at).then_some(id)) {
            return Err(format!("nodes {other} and {id} are both at {at}"));
        }
        if peers.insert(id, at).is_some() {
            return Err(format!("node {id} is there twice"));
        }
    }
    Ok(peers)
}

/// `host:port`.
fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => Err(format!("{text:?} is not HOST:PORT")),
    }
}

fn key(text: &str) -> Result<Key, String> {
    Ok(percent_decode_str(text).collect::<Vec<u8>>().into())
}

/// What is wrong with a command line, in one line: clap says it in several, with a usage below.
pub(crate) fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let wrong = ["\n\nUsage:", "\n\nFor more information"]
        .iter()
        .fold(&*text, |text, end| text.split(end).next().unwrap_or(text));
    wrong.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use spanlatch::Manager;
    use spanlatch_replica_raft::Config;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_times_are_those_of_the_library() {
        let cli = Cli::try_parse_from(["spanlatch-node", "--id", "1", "--peers", "1=a:1"]);
        let cli = cli.expect("no more is needed");
        assert_eq!(cli.heartbeat, Config::<Manager>::HEARTBEAT);
        assert_eq!(cli.election_timeout, Config::<Manager>::ELECTION_TIMEOUT);
    }

    #[test]
    fn peers_are_numbers_and_addresses_each_once() {
        let good = peers("1=127.0.0.1:7101,2=[::1]:7102,3=host:7103").expect("it is good");
        assert_eq!(good.len(), 3);
        assert_eq!(good[&2], "[::1]:7102");
        for (bad, named) in [
            ("", "\"\""),
            ("1", "\"1\""),
            ("one=a:1", "\"one=a:1\""),
            ("1=a:1,", "\"\""),
            ("1=a", "\"a\""),
            ("1=:80", "\":80\""),
            ("1=a:65536", "\"a:65536\""),
            ("1=a:0", "port 0"),
            ("1=a:1,1=b:1", "node 1 is there twice"),
            ("1=a:1,2=a:1", "both at a:1"),
        ] {
            let error = peers(bad).expect_err(bad);
            assert!(error.contains(named), "{bad:?}: {error}");
        }
    }
}
