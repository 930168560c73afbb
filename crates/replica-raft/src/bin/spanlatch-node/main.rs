//! One node of a group that replicates a store of keys.
//!
//! ```text
//! spanlatch-node --id 1 --peers 1=127.0.0.1:7101,2=127.0.0.1:7102,3=127.0.0.1:7103 --data data/1
//! ```
//!
//! Clients and other nodes talk to it where it listens; people and monitoring where its HTTP is. It ends on SIGTERM and on Ctrl-C.
//! There is no encryption and no authentication: for networks that nobody else has access to.
#![forbid(unsafe_code)]

mod cli;
mod http;
mod latches;
mod metrics;

use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use spanlatch_metrics::{RegisterError, ReplicaMetrics};
use spanlatch_replica::{FjallEngine, MemEngine, Records, Store};
use spanlatch_replica_raft::{BindError, Config, Node, Server, StartError, Tcp};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::{Cli, EngineKind, in_one_line};
use crate::http::Http;

/// How long what was proposed has to end, once the node is told to.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the threads have to end after that.
const GRACE: Duration = Duration::from_secs(1);

/// Why a node does not start, or did not go on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("--engine fjall needs a folder: --data FOLDER")]
    NoFolder,
    #[error("cannot use the data: {0}")]
    Data(#[source] spanlatch_replica::FjallError),
    #[error(transparent)]
    Listen(#[from] BindError),
    #[error("cannot serve HTTP at {address}: {error}")]
    Http {
        address: SocketAddr,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{}: {error}", data.display())]
    StartIn {
        data: PathBuf,
        #[source]
        error: StartError,
    },
    #[error("metrics: {0}")]
    Metrics(#[from] RegisterError),
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
    #[error("storage has failed: {0}")]
    Storage(String),
}

fn main() -> ExitCode {
    let complain = |line: String| {
        let _ = writeln!(io::stderr(), "{line}");
    };
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and the version are no mistakes.
        Err(asked) if !asked.use_stderr() => {
            let _ = asked.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            complain(in_one_line(&error));
            return ExitCode::from(2);
        }
    };
    log(cli.log);
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(format!("error: {failure}"));
            match failure {
                Failure::NoFolder => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Logs to standard error. While nodes are away, openraft has a lot to say that only who debugs wants to know.
fn log(level: LevelFilter) {
    let openraft = match level >= LevelFilter::DEBUG {
        true => level,
        false => LevelFilter::OFF,
    };
    let targets = Targets::new()
        .with_default(level)
        .with_target("openraft", openraft);
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(to_stderr.with_filter(targets))
        .init();
}

fn start(cli: Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(run(cli));
    runtime.shutdown_timeout(GRACE);
    ended
}

/// From the start of a node to its end.
async fn run(cli: Cli) -> Result<(), Failure> {
    // Before anything is there that must not be left behind.
    let asked = asked_to_end()?;
    let own = cli.peers.get(&cli.id);
    let own = own.ok_or_else(|| StartError::UnknownNode {
        id: cli.id,
        peers: cli.peers.keys().copied().collect(),
    })?;
    let server = Server::bind(cli.listen.as_ref().unwrap_or(own)).await?;
    let listener = bind_http(cli.http).await?;
    let address = server.address();
    let http_address = listener.local_addr()?;

    let metrics = ReplicaMetrics::default();
    let node = Node::start(config(&cli, metrics.clone())?).await;
    let node = node.map_err(|error| match &cli.data {
        Some(data) => Failure::StartIn {
            data: data.clone(),
            error,
        },
        None => error.into(),
    })?;
    let http = Http::new(node.clone(), &metrics)?;
    let (end, ended) = oneshot::channel();
    let serving = tokio::spawn(server.serve(node.clone(), async {
        let _ = ended.await;
    }));
    tokio::spawn(axum::serve(listener, http::router(http)).into_future());
    // Whoever does not read it has no use for it.
    let _ = writeln!(
        io::stdout(),
        "node {} listens at {address}, HTTP at http://{http_address}",
        cli.id
    );

    let outcome = tokio::select! {
        () = asked => Ok(()),
        stopped = node.stopped() => stopped.map_err(Failure::Storage),
    };
    // In this order, so that clients are told what became of their batches.
    node.shut_down(PATIENCE).await;
    let _ = end.send(());
    let _ = serving.await;
    outcome
}

/// What the node is made of.
fn config(cli: &Cli, metrics: ReplicaMetrics) -> Result<Config, Failure> {
    let engine: Arc<dyn Records> = match cli.engine {
        EngineKind::Mem => Arc::new(MemEngine::outliving_stores()),
        EngineKind::Fjall => {
            let folder = cli.data.as_ref().ok_or(Failure::NoFolder)?;
            Arc::new(FjallEngine::open(folder).map_err(Failure::Data)?)
        }
    };
    let transport = Arc::new(Tcp::new(cli.id, &cli.peers));
    let (splits, max_in_flight) = (cli.splits.clone(), cli.max_in_flight);
    let store = {
        let metrics = metrics.clone();
        move || {
            Store::builder()
                .metrics(metrics.clone())
                .splits(splits.iter().cloned())
                .max_in_flight(max_in_flight)
        }
    };
    let usual = Config::new(cli.id, cli.peers.clone(), engine, transport, metrics);
    Ok(Config {
        store: Arc::new(store),
        heartbeat: cli.heartbeat,
        election_timeout: cli.election_timeout,
        folder: match (cli.engine, &cli.data) {
            (EngineKind::Fjall, Some(folder)) => folder.clone(),
            _ => usual.folder,
        },
        ..usual
    })
}

async fn bind_http(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::Http { address, error })
}

/// From now on, until SIGTERM or Ctrl-C.
fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
