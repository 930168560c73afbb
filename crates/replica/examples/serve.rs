//! A small HTTP server on a store, with its metrics, its health and a live picture of its latches.
//!
//! ```text
//! cargo run -p spanlatch-replica --example serve -- --listen 127.0.0.1:7070
//! curl -X PUT --data-binary red http://127.0.0.1:7070/keys/fruit%2Fapple
//! curl http://127.0.0.1:7070/keys/fruit%2Fapple
//! curl 'http://127.0.0.1:7070/keys?start=fruit&limit=10'
//! ```
//!
//! Open `http://127.0.0.1:7070/latches` to see who waits for whom. With `--apply by-hand` nothing that is written
//! is applied before somebody asks for it (`curl -X POST http://127.0.0.1:7070/apply`, or the button on that page), so
//! that there is something to see.
//!
//! With `--features fjall` there is `--data FOLDER`, which keeps the data on the disk.
//!
//! It ends on Ctrl-C, on SIGTERM, and when its standard input ends, unless that is a terminal: so it does not outlive
//! who started it. There is no encryption and no authentication; it binds to loopback unless told otherwise.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "whoever starts it learns the address")]

#[path = "serve/failure.rs"]
mod failure;
#[path = "serve/keys.rs"]
mod keys;
#[path = "serve/latches.rs"]
mod latches;
#[path = "serve/server.rs"]
mod server;
#[cfg(test)]
#[path = "serve/tests.rs"]
mod tests;

use std::io::{self, IsTerminal, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use spanlatch_metrics::{Registry, ReplicaMetrics};
use spanlatch_replica::Store;
use spanset::Key;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::server::{Limits, Server};

/// How often the store is told the time.
const TICK: Duration = Duration::from_millis(500);

/// How long those who are being served have to end, once the server is told to.
const GRACE: Duration = Duration::from_secs(5);

/// A small HTTP server on a store of keys.
///
/// It ends on Ctrl-C, on SIGTERM, and when its standard input ends, unless that is a terminal.
#[derive(Debug, Parser)]
struct Cli {
    /// Where to listen; port 0 takes a free one, which is printed
    #[arg(long, default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Keys at which to split the store into ranges, percent-encoded
    #[arg(long, value_delimiter = ',', value_parser = keys::decode)]
    splits: Vec<Key>,
    /// The folder that keeps the data; without it, they are in memory
    #[cfg(feature = "fjall")]
    #[arg(long)]
    data: Option<std::path::PathBuf>,
    /// When what is proposed is applied
    #[arg(long, value_enum, default_value_t = Apply::AtOnce)]
    apply: Apply,
    /// What to log to standard error: `debug` shows each request, its stages and how long they took
    #[arg(long, default_value = "warn")]
    log: LevelFilter,
    #[command(flatten)]
    limits: Limits,
}

/// When what is proposed is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Apply {
    /// By a thread, as soon as it is proposed
    AtOnce,
    /// When somebody posts to /apply, as if replication were as slow as that
    ByHand,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(cli.log)
        // Every tick is a span that warnings can be in; only who debugs wants to know how long it took.
        .with_span_events(match cli.log >= LevelFilter::DEBUG {
            true => FmtSpan::CLOSE,
            false => FmtSpan::NONE,
        })
        .init();
    let metrics = ReplicaMetrics::default();
    let mut registry = Registry::new();
    metrics.register(&mut registry, "")?;
    let builder = Store::builder()
        .splits(cli.splits)
        .metrics(metrics)
        .max_value_bytes(cli.limits.max_value_bytes)
        .max_in_flight(cli.limits.max_in_flight);
    #[cfg(feature = "fjall")]
    let builder = match cli.data {
        Some(folder) => builder.engine(Arc::new(spanlatch_replica::FjallEngine::open(folder)?)),
        None => builder,
    };
    let (store, applier) = builder.build();
    let (by_hand, applying) = match cli.apply {
        Apply::ByHand => (Some(applier), None),
        Apply::AtOnce => (None, Some(thread::spawn(move || applier.run()))),
    };
    let server = Arc::new(Server::new(store, registry, cli.limits, by_hand));
    let ticking = thread::spawn({
        let server = server.clone();
        move || {
            while !server.has_ended() {
                server.store.tick(Instant::now());
                thread::sleep(TICK);
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the threads that serve")?;
    runtime.block_on(serve(cli.listen, server))?;
    // So that nobody has the store any more, and its folder is closed.
    runtime.shutdown_timeout(GRACE);
    for thread in applying.into_iter().chain([ticking]) {
        thread
            .join()
            .ok()
            .context("a thread of the server panicked")?;
    }
    Ok(())
}

/// Serves until somebody says that it is enough, and then until all are served, or [`GRACE`] is over.
async fn serve(listen: SocketAddr, server: Arc<Server>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    println!("listening on http://{}", listener.local_addr()?);
    let ended = Arc::new(Notify::new());
    let end = {
        let (server, ended) = (server.clone(), ended.clone());
        async move {
            enough().await;
            server.end();
            ended.notify_one();
        }
    };
    let serving = axum::serve(listener, server::router(server)).with_graceful_shutdown(end);
    let too_late = async {
        ended.notified().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = serving => served.context("cannot serve"),
        () = too_late => Ok(()),
    }
}

/// Until Ctrl-C, SIGTERM or the end of the standard input.
async fn enough() {
    let input_ended = Arc::new(Notify::new());
    // To read from a terminal would stop a server that runs in the background.
    if !io::stdin().is_terminal() {
        let input_ended = input_ended.clone();
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            while input.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {}
            input_ended.notify_one();
        });
    }
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
        () = input_ended.notified() => {}
    }
}
