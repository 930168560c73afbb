//! The child: serves load on a folder, and tells about it.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use spanlatch_replica::{
    Batch, Clock, Error, FjallEngine, FjallError, Reply, Request, Response, Store, TimeSource,
};
use spanset::{Key, Span, Timestamp};

use super::recording::Recording;
use crate::Choices;

/// Bytes that an encoding may trip over, prefixes of one another.
pub(super) const KEYS: [&[u8]; 16] = [
    b"",
    b"\0",
    b"\0\0",
    b"\0\x01",
    b"\0\xff",
    b"\x01",
    b"a",
    b"a\0",
    b"a\0\0",
    b"a\0b",
    b"a\0\xff",
    b"a\x01",
    b"ab",
    b"b",
    b"\xff",
    b"\xff\xff",
];

/// How many batches of a worker a child serves at most.
const BATCHES: u64 = 400;
const WORKERS: u64 = 6;

/// How many batches a worker tries once one has failed, all of which must fail.
const IN_VAIN: usize = 5;

/// Time that begins somewhere: clocks are set back between two runs, and nothing may depend on them.
struct Restarted {
    from: u64,
    since: Instant,
}

impl TimeSource for Restarted {
    fn wall_nanos(&self) -> u64 {
        let elapsed = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.from.saturating_add(elapsed)
    }
}

/// Says one line, as one write.
fn say(line: &str) {
    // Nobody listens if the one who started this is gone, and then nothing matters.
    let _ = io::stdout()
        .lock()
        .write_all(format!("{line}\n").as_bytes());
}

/// Serves what `seed` chooses.
///
/// # Panics
///
/// If the folder cannot be opened.
pub fn serve(folder: &Path, seed: u64) {
    say(&std::process::id().to_string());
    let mut choices = Choices::random(seed);
    let engine = match open(folder) {
        Ok(engine) => engine,
        Err(error) => return say(&format!("fail open {error}")),
    };
    let source = Restarted {
        from: 1_000_000_000 * choices.below(100) as u64,
        since: Instant::now(),
    };
    let (store, applier) = Store::builder()
        .engine(Arc::new(Recording(engine)))
        .splits([Key::from_static(b"\0\x01"), Key::from_static(b"a\0b")])
        .clock(Clock::with_source(source, Duration::from_millis(500)))
        .ceiling_step(Duration::from_millis(20))
        .build();
    let applier = thread::spawn(move || applier.run());
    let latest = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let mut choices = Choices::random(seed ^ (worker + 1) << 32);
            let (store, latest) = (&store, &latest);
            scope.spawn(move || {
                let prefix = format!("{seed}.{worker}");
                work(store, &prefix, latest, &mut choices);
            });
        }
    });
    say(if store.is_idle() { "idle" } else { "busy" });
    drop(store);
    applier.join().expect("the applier does not panic");
}

fn open(folder: &Path) -> Result<FjallEngine, FjallError> {
    let mut tries = 0;
    loop {
        // Tables are written soon.
        match FjallEngine::open_with(folder, 64 << 10) {
            // Who starts this process has had the folder open, and may be starting another one at the same time, which
            // shares its files for a moment.
            Err(FjallError::InUse { .. }) if tries < 100 => {
                tries += 1;
                thread::sleep(Duration::from_millis(10));
            }
            opened => break opened,
        }
    }
}

fn work(store: &Store, prefix: &str, latest: &AtomicU64, choices: &mut Choices<'_>) {
    let mut failed = 0;
    for n in 0..BATCHES {
        let id = format!("{prefix}.{n}");
        let done = match choices.below(20) {
            0 if prefix.ends_with(".0") => collect(store, latest),
            0..=4 => read(store),
            _ => write(store, &id, latest, choices),
        };
        match done {
            // It waited for longer than versions are kept.
            Err(Error::BelowThreshold { .. }) => {}
            Ok(()) if failed > 0 => say(&format!("zombie {id}")),
            Ok(()) => {}
            Err(error) => {
                say(&format!("fail {id} {error}"));
                failed += 1;
                if failed > IN_VAIN {
                    break;
                }
            }
        }
    }
}

fn write(
    store: &Store,
    id: &str,
    latest: &AtomicU64,
    choices: &mut Choices<'_>,
) -> Result<(), Error> {
    let mut line = format!("try {id}");
    let mut batch = Batch::new();
    let mut keys = Vec::from(KEYS);
    for i in 0..=choices.below(4) {
        let key = keys.swap_remove(choices.below(keys.len()));
        // The first is there to be recognized.
        let deletes = i > 0 && choices.one_in(3);
        let key_named = super::ledger::name(key);
        batch = batch.with(if deletes {
            line.push_str(&format!(" {key_named}-"));
            Request::delete(key)
        } else {
            line.push_str(&format!(" {key_named}+"));
            let room = choices.of(&[1, 1, 1, 300, 12_000]);
            Request::put(key, format!("{id} {}", "x".repeat(choices.below(room))))
        });
    }
    say(&line);
    let Reply { timestamp, .. } = block_on(store.send(batch))?;
    say(&format!(
        "ack {id} {} {}",
        timestamp.wall, timestamp.logical
    ));
    latest.fetch_max(timestamp.wall, Ordering::Relaxed);
    Ok(())
}

fn read(store: &Store) -> Result<(), Error> {
    let reply = block_on(store.send(Request::scan(Span::all())))?;
    let Timestamp { wall, logical, .. } = reply.timestamp;
    let mut line = format!("read {wall} {logical}");
    for response in reply.responses {
        let Response::Rows { rows, .. } = response else {
            continue;
        };
        for (key, value) in rows {
            let id = super::ledger::id(&value).unwrap_or("?");
            line.push_str(&format!(" {}={id}", super::ledger::name(&key)));
        }
    }
    say(&line);
    Ok(())
}

fn collect(store: &Store, latest: &AtomicU64) -> Result<(), Error> {
    // Not all of the past.
    let wall = latest.load(Ordering::Relaxed).saturating_sub(5_000_000);
    say(&format!("collect {wall}"));
    store.collect_garbage(Timestamp::new(wall, 0)).map(drop)
}
