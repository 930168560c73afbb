//! A node that runs as a program of its own, and does not outlive this one.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Starts what it is told, says its number, and kills it when there is nothing to read any more: so it ends with whoever has
/// started this, in whatever way that ends. A file that is too large is an error for it, and not its end.
const GUARD: &str = r#"
    trap "" XFSZ
    exec 3<&0
    "$@" <&- &
    node=$!
    echo $node
    (read -r _ <&3; kill -KILL $node) 2>/dev/null &
    guard=$!
    wait $node
    code=$?
    kill $guard 2>/dev/null
    exit $code
"#;

/// How long something may take that takes a moment, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that runs.
pub(super) struct Running {
    guard: Child,
    _held: ChildStdin,
    pid: String,
    http: String,
    said: JoinHandle<String>,
}

/// How a node has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code.
    pub(super) code: Option<i32>,
    /// What it has said on its standard error.
    pub(super) said: String,
}

impl Running {
    /// Starts a node, and waits until it listens.
    pub(super) async fn start(program: &Path, arguments: &[String]) -> Result<Self, String> {
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a shell: {error}"))?;
        let held = guard.stdin.take().ok_or("no standard input")?;
        let mut lines = BufReader::new(guard.stdout.take().ok_or("no output")?).lines();
        let mut stderr = guard.stderr.take().ok_or("no standard error")?;
        let said = tokio::spawn(async move {
            let mut said = String::new();
            let _ = stderr.read_to_string(&mut said).await;
            said
        });
        let pid = line(&mut lines).await?.unwrap_or_default();
        let first = line(&mut lines).await?;
        let Some((_, http)) = first.as_deref().and_then(|line| line.split_once("http://")) else {
            drop(held);
            return Err(format!(
                "a node does not start: {}",
                said.await.unwrap_or_default()
            ));
        };
        Ok(Self {
            guard,
            _held: held,
            pid,
            http: http.to_owned(),
            said,
        })
    }

    /// Sends it a signal.
    pub(super) async fn signal(&self, name: &str) {
        // It may have ended.
        let kill = Command::new("kill").args([name, &self.pid]).output();
        let _ = kill.await;
    }

    /// Lets it write nothing more to files.
    pub(super) async fn fill_disk(&self) -> Result<(), String> {
        let limit = Command::new("prlimit")
            .args(["--fsize=1", "--pid", &self.pid])
            .status();
        match limit.await {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("prlimit: {other:?}")),
        }
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> Result<bool, String> {
        let status = self.guard.try_wait().map_err(|error| error.to_string())?;
        Ok(status.is_some())
    }

    /// Waits until it has ended.
    pub(super) async fn ended(mut self) -> Result<Ended, String> {
        let status = timeout(PATIENCE, self.guard.wait()).await;
        let status = status.map_err(|_| format!("node {} does not end", self.pid))?;
        let code = status.map_err(|error| error.to_string())?.code();
        let said = self.said.await.map_err(|error| error.to_string())?;
        Ok(Ended { code, said })
    }

    /// What is at a path of its HTTP, if it answers.
    pub(super) async fn get(&self, path: &str) -> Option<String> {
        let ask = async {
            let mut stream = TcpStream::connect(&self.http).await.ok()?;
            let host = &self.http;
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.ok()?;
            Some(text.split_once("\r\n\r\n")?.1.to_owned())
        };
        timeout(Duration::from_millis(500), ask).await.ok()?
    }

    /// What it says of itself, if it does.
    pub(super) async fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.get("/status").await?).ok()
    }
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<Option<String>, String> {
    let line = timeout(PATIENCE, lines.next_line()).await;
    line.map_err(|_| "a node says nothing for a minute".to_owned())?
        .map_err(|error| error.to_string())
}
