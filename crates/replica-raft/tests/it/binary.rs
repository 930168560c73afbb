//! The program `spanlatch-node`, as its users start it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use spanlatch_replica::{Batch, Request, Response, Serve};
use spanlatch_replica_raft::{Client, ClientOptions, NodeId};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

/// A program that is killed if its test forgets it.
struct Running {
    child: Child,
    http: String,
}

impl Running {
    /// Starts it, and waits until it says where it listens.
    fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut running = Self {
            child,
            http: String::new(),
        };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let (_, http) = line
            .trim_end()
            .split_once("HTTP at http://")
            .unwrap_or_else(|| panic!("it says {line:?}"));
        running.http = http.to_owned();
        Ok(running)
    }

    /// What is at a path of its HTTP: the status, and the body.
    fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(&self.http)?;
        let host = &self.http;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        Ok((code.expect("a status"), body.expect("a body")))
    }

    fn json(&self, path: &str) -> io::Result<Value> {
        Ok(serde_json::from_str(&self.get(path)?.1)?)
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("there is a kill").success());
    }

    fn ends(&mut self) -> io::Result<ExitStatus> {
        eventually(|| !matches!(self.child.try_wait(), Ok(None)));
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanlatch-node"));
    command.args(arguments);
    command
}

/// Addresses at which nobody listened a moment ago.
fn peers(count: NodeId) -> BTreeMap<NodeId, String> {
    // All at a time, so that they differ.
    let ports = Vec::from_iter((1..=count).map(|id| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        (id, listener)
    }));
    let address = |(id, listener): &(NodeId, TcpListener)| {
        let address = listener.local_addr().expect("it is bound");
        (*id, address.to_string())
    };
    ports.iter().map(address).collect()
}

fn spelled(peers: &BTreeMap<NodeId, String>) -> String {
    let peers = peers.iter().map(|(id, address)| format!("{id}={address}"));
    Vec::from_iter(peers).join(",")
}

fn node(id: NodeId, peers: &BTreeMap<NodeId, String>, data: &Path) -> Command {
    let data = data.join(id.to_string());
    let (id, peers) = (id.to_string(), spelled(peers));
    let mut command = program(&["--id", &id, "--peers", &peers, "--data"]);
    command.arg(data);
    command
}

fn refusal(mut command: Command) -> (Option<i32>, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&stdout), "");
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    (status.code(), stderr)
}

#[test]
fn a_bad_command_line_is_one_line_that_names_what_is_wrong() {
    for (arguments, named) in [
        (&["--id", "1"][..], "--peers"),
        (&["--id", "one", "--peers", "1=a:1"], "one"),
        (&["--id", "1", "--peers", "1=a"], "\"a\""),
        (&["--id", "1", "--peers", "1=a:1", "--http", "x"], "'x'"),
        (&["--id", "1", "--peers", "1=a:1", "--engine", "x"], "'x'"),
        (&["--id", "1", "--peers", "1=127.0.0.1:1"], "--data"),
    ] {
        let (code, line) = refusal(program(arguments));
        assert_eq!(code, Some(2), "{line}");
        assert!(line.contains(named), "{arguments:?}: {line}");
    }
}

#[test]
fn what_cannot_be_started_is_one_line_that_names_it() {
    let data = TempDir::new().unwrap();
    let one = peers(1);
    let refused = |command, named: &str| {
        let (code, line) = refusal(command);
        assert_eq!(code, Some(1), "{line}");
        assert!(line.contains(named), "{line} does not name {named}");
    };
    refused(node(4, &one, data.path()), "node 4");
    refused(node(1, &peers(2), data.path()), "not 2");

    let mut running = Running::start(node(1, &one, data.path())).unwrap();
    refused(node(1, &one, data.path()), &one[&1]);
    let mut elsewhere = node(1, &one, data.path());
    elsewhere.args(["--listen", "127.0.0.1:0"]);
    refused(elsewhere, "in use");
    let mut same_http = node(1, &peers(1), data.path());
    same_http.args(["--http", &running.http]);
    refused(same_http, &running.http);
    running.signal("-TERM");
    assert_eq!(running.ends().unwrap().code(), Some(0));

    let folder = data.path().join("1");
    let of = |id: &str, peers: &BTreeMap<NodeId, String>| {
        let mut command = program(&["--id", id, "--peers", &spelled(peers), "--data"]);
        command.arg(&folder);
        command
    };
    refused(of("2", &peers(3)), "node 1");
    refused(of("1", &peers(3)), "[1, 2, 3]");
    std::fs::write(data.path().join("something"), "else").unwrap();
    let mut not_ours = program(&["--id", "1", "--peers", &spelled(&one), "--data"]);
    not_ours.arg(data.path());
    refused(not_ours, "FORMAT");
}

#[test]
fn sigterm_and_ctrl_c_end_a_node_well() {
    for signal in ["-TERM", "-INT"] {
        let address = peers(1);
        let arguments = [
            "--id",
            "1",
            "--peers",
            &spelled(&address),
            "--engine",
            "mem",
        ];
        let mut running = Running::start(program(&arguments)).unwrap();
        running.signal(signal);
        assert_eq!(running.ends().unwrap().code(), Some(0), "{signal}");
        assert!(TcpStream::connect(&address[&1]).is_err());
    }
}

#[test]
fn a_node_whose_disk_is_full_ends_and_says_why() {
    let data = TempDir::new().unwrap();
    let peers = peers(1);
    let limited = "trap '' XFSZ; exec \"$@\"";
    let node = node(1, &peers, data.path());
    let mut command = Command::new("sh");
    command.args(["-c", limited, "sh"]).arg(node.get_program());
    command.args(node.get_args()).stderr(Stdio::piped());
    let mut running = Running::start(command).unwrap();
    let stderr = running.child.stderr.take().unwrap();
    // From here on, writes beyond the first MiB of a file fail.
    let pid = running.child.id().to_string();
    let limit = Command::new("prlimit")
        .args(["--fsize=1048576", "--pid", &pid])
        .status();
    assert!(limit.unwrap().success());
    runtime().block_on(async {
        let options = ClientOptions::default().patience(Duration::from_secs(60));
        let client = Client::with_options(&peers, options);
        let value = vec![0; 128 << 10];
        for key in 0..32 {
            let put = Request::put(format!("{key}"), value.clone());
            if client.send(Batch::from(put)).await.is_err() {
                return;
            }
        }
        panic!("all is written");
    });
    assert_eq!(running.ends().unwrap().code(), Some(1));
    let said = io::read_to_string(stderr).unwrap();
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: storage has failed: "), "{said}");
    assert!(last.contains("File too large"), "{said}");
}

/// For a client.
fn runtime() -> Runtime {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("there is room for a thread")
}

/// Asks until it is so.
fn eventually(mut is_so: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("it is not so");
}

/// Who leads and serves, as those say who run.
fn leader(nodes: &BTreeMap<NodeId, Running>) -> NodeId {
    let mut leader = None;
    eventually(|| {
        let serves = |(&id, node): (&NodeId, &Running)| {
            let status = node.json("/status").ok()?;
            (status["serves"] == Value::Bool(true)).then_some(id)
        };
        leader = nodes.iter().find_map(serves);
        leader.is_some()
    });
    leader.expect("found")
}

#[test]
fn three_nodes_serve_while_one_is_killed_and_comes_back() {
    let data = TempDir::new().unwrap();
    let peers = peers(3);
    let start = |id| Running::start(node(id, &peers, data.path())).unwrap();
    let mut nodes = BTreeMap::from_iter(peers.keys().map(|&id| (id, start(id))));
    let runtime = runtime();
    let options = ClientOptions::default().patience(Duration::from_secs(60));
    let client = Client::with_options(&peers, options);
    let send = |request| runtime.block_on(client.send(Batch::from(request))).unwrap();
    let value = |key: &'static str| match &send(Request::get(key)).responses[..] {
        [Response::Value(value)] => value.clone(),
        other => panic!("{other:?}"),
    };
    send(Request::put("a", "1"));

    let first = leader(&nodes);
    let (code, told) = nodes[&first].get("/latches").unwrap();
    assert!(code == 200 && told.contains("\"ranges\""), "{told}");
    let (code, told) = nodes[&first].get("/healthz").unwrap();
    assert_eq!((code, &*told), (200, "{\"alerts\":[]}"));
    let (code, told) = nodes[&first].get("/metrics").unwrap();
    assert!(code == 200 && told.ends_with("# EOF\n"), "{told}");
    assert!(told.contains("replication_leads 1\n"), "{told}");
    assert!(
        told.contains("requests_total{outcome=\"success\"} 1\n"),
        "{told}"
    );

    let mut killed = nodes.remove(&first).unwrap();
    killed.signal("-KILL");
    assert_eq!(killed.ends().unwrap().code(), None);
    assert_eq!(value("a").as_deref(), Some(&b"1"[..]));
    send(Request::put("b", "2"));
    let second = leader(&nodes);
    let follower = nodes
        .iter()
        .find_map(|(&id, node)| (id != second).then_some(node));
    let (code, told) = follower.unwrap().get("/latches").unwrap();
    assert!(code == 421 && told.contains(&peers[&second]), "{told}");

    nodes.insert(first, start(first));
    eventually(|| {
        let logs = nodes.values().map(|node| {
            let status = node.json("/status").expect("it answers");
            (status["last"].clone(), status["applied"].clone())
        });
        let logs = BTreeSet::from_iter(logs.map(|log| format!("{log:?}")));
        logs.len() == 1
    });
    assert_eq!(value("b").as_deref(), Some(&b"2"[..]));

    // Without most of the nodes there is nobody who leads, and the one that is left says so.
    let mut left = nodes.remove(&first).unwrap();
    for node in nodes.values() {
        node.signal("-TERM");
    }
    for node in nodes.values_mut() {
        assert_eq!(node.ends().unwrap().code(), Some(0));
    }
    eventually(|| left.get("/healthz").unwrap().0 == 503);
    left.signal("-TERM");
    assert_eq!(left.ends().unwrap().code(), Some(0));
}
