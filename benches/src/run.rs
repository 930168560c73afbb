//! One run of a workload on a fresh store.

use std::fmt;
use std::future::poll_fn;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use core_affinity::CoreId;
use spanlatch_replica::{Latches, Serve, Store};
use tokio::runtime::{Builder, Runtime, RuntimeMetrics};
use tokio::task::JoinHandle;

use crate::check::{Acknowledged, check};
use crate::client::{Client, ClientKind};
use crate::instrument::{Instrumented, Meter, Reading};
use crate::sample::{Latching, Sample};
use crate::storage::Storage;
use crate::workload::{Generator, Operation, Workload};

/// How long operations may go on after the end: the largest batches take a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The machine's cores that one worker thread each is pinned to.
#[derive(Clone, Debug)]
pub struct Cores(Vec<CoreId>);

impl Cores {
    /// How many cores this process may use.
    pub fn available() -> usize {
        core_affinity::get_core_ids().map_or(0, |cores| cores.len())
    }

    /// The first `count` cores.
    ///
    /// # Errors
    ///
    /// If `count` is 0, or there are fewer.
    pub fn first(count: usize) -> Result<Self> {
        let mut cores =
            core_affinity::get_core_ids().context("the cores of this machine cannot be listed")?;
        let available = cores.len();
        if count == 0 {
            bail!("--cores must be at least 1");
        }
        if count > available {
            bail!("--cores {count} is more than the {available} that this machine has");
        }
        cores.truncate(count);
        Ok(Self(cores))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// These, so many at a time.
    pub(crate) fn split(&self, each: usize) -> Vec<Self> {
        self.0
            .chunks(each)
            .map(|part| Self(part.to_vec()))
            .collect()
    }

    /// An executor with a worker thread on each core.
    pub(crate) fn builder(&self) -> Builder {
        let cores = self.0.clone();
        let started = AtomicUsize::new(0);
        let pin = move || {
            if let Some(core) = cores.get(started.fetch_add(1, Ordering::Relaxed)) {
                core_affinity::set_for_current(*core);
            }
        };
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(self.0.len()).on_thread_start(pin);
        builder
    }
}

/// Their numbers, as they are parsed: `0,1`.
impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(|core| core.id.to_string()).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for Cores {
    type Err = ParseIntError;

    fn from_str(numbers: &str) -> Result<Self, ParseIntError> {
        let cores = numbers.split(',').map(|number| {
            let id = number.parse()?;
            Ok(CoreId { id })
        });
        cores.collect::<Result<_, _>>().map(Self)
    }
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Before anything is measured.
    pub warm_up: Duration,
    /// While it is measured.
    pub duration: Duration,
}

impl Timing {
    /// Both together.
    pub fn total(self) -> Duration {
        self.warm_up + self.duration
    }
}

/// Asks runs to end early, from a signal handler or another thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks. Returns whether somebody had asked before.
    pub fn ask(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    /// Whether somebody has asked.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a run keeps its versions in, and what its workers talk to.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Where the engine is.
    pub storage: &'a Storage,
    /// What the workers talk to.
    pub client: ClientKind,
}

/// Runs a workload on a fresh store with these latches, on a new engine, and checks the store afterwards. Returns `None`
/// if it was stopped. `elapsed` is called now and then with the time since the start, the last time
/// when the time is over.
///
/// # Errors
///
/// If an operation fails, or the store is not as its acknowledgements say.
pub fn run<L: Latches>(
    workload: &Workload,
    latches: impl Fn() -> L + Send + Sync + 'static,
    place: &Place<'_>,
    cores: &Cores,
    timing: Timing,
    stop: &Stop,
    mut elapsed: impl FnMut(Duration),
) -> Result<Option<Sample>> {
    // Its folder is removed when all that uses it is gone.
    let opened = place.storage.open()?;
    let runtime = cores.builder().build();
    let runtime = runtime.context("the worker threads cannot be started")?;
    let meter = Arc::new(Meter::new());
    let metered = Arc::clone(&meter);
    let (store, applier) = Store::builder()
        .splits(workload.split_points())
        .engine(opened.engine.clone())
        .build_latched(move |_| Instrumented::new(latches(), Arc::clone(&metered)));
    let applier = opened.start(applier, &runtime);

    let client = || Client::new(place.client, store.clone());
    let gauges = || Ok((meter.read(), busy(&runtime.metrics(), cores.count())));
    let elapsed = |since| {
        elapsed(since);
        Ok(())
    };
    let driven = drive(&runtime, workload, client, timing, stop, gauges, elapsed)?;
    check(&store, driven.acknowledged).context("the self-check after the run failed")?;
    drop(store);
    runtime.block_on(applier).context("the applier panicked")?;
    if stop.asked() {
        return Ok(None);
    }
    let gauges = [driven.begin, driven.end];
    let latching = latching(gauges, driven.latencies.len(), timing.duration);
    Ok(Some(Sample::new(
        driven.latencies,
        timing.duration,
        latching,
    )))
}

/// What the workers did, and what gauges showed when the window began and when it ended.
pub(crate) struct Driven<G> {
    /// All writes.
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Of the operations that ended in the window, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    pub(crate) begin: G,
    pub(crate) end: G,
}

/// Has the workers of a workload operate until the time is over, and waits for them. If `elapsed` fails, that ends it.
pub(crate) fn drive<S: Serve, G>(
    runtime: &Runtime,
    workload: &Workload,
    client: impl Fn() -> Client<S>,
    timing: Timing,
    stop: &Stop,
    mut gauges: impl FnMut() -> Result<G>,
    mut elapsed: impl FnMut(Duration) -> Result<()>,
) -> Result<Driven<G>> {
    let start = Instant::now();
    let window = Window {
        begin: start + timing.warm_up,
        end: start + timing.total(),
    };
    let workers: Vec<JoinHandle<Result<Record>>> = workload
        .generators()
        .into_iter()
        .map(|generator| runtime.spawn(work(client(), generator, window, stop.clone())))
        .collect();
    // Before the time is over only after a failure.
    let has_failed = || workers.iter().any(JoinHandle::is_finished);

    let mut wait_until = |until: Instant| -> Result<G> {
        while let Some(left) = until.checked_duration_since(Instant::now())
            && !stop.asked()
            && !has_failed()
        {
            thread::sleep(left.min(Duration::from_millis(100)));
            elapsed(start.elapsed())?;
        }
        let reading = gauges()?;
        // Even if the time was over before the loop began.
        elapsed(start.elapsed())?;
        Ok(reading)
    };
    let begin = wait_until(window.begin)?;
    let end = wait_until(window.end)?;

    let patience = window.end + PATIENCE;
    while workers.iter().any(|worker| !worker.is_finished()) {
        if Instant::now() > patience {
            bail!("operations are still in flight {PATIENCE:?} after the end: something is stuck");
        }
        thread::sleep(Duration::from_millis(1));
    }
    let mut acknowledged = Vec::new();
    let mut latencies = Vec::new();
    for worker in workers {
        let record = runtime.block_on(worker).context("a worker panicked")??;
        acknowledged.extend(record.acknowledged);
        latencies.extend(record.latencies);
    }
    Ok(Driven {
        acknowledged,
        latencies,
        begin,
        end,
    })
}

/// When operations count: those that end in it.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Instant,
    end: Instant,
}

/// What one worker did.
#[derive(Debug, Default)]
struct Record {
    /// Of the operations that ended in the window, in nanoseconds.
    latencies: Vec<u64>,
    /// Of all its writes.
    acknowledged: Vec<Acknowledged>,
}

/// One worker: an operation at a time until the window ends.
async fn work<S: Serve>(
    client: Client<S>,
    mut generator: Generator,
    window: Window,
    stop: Stop,
) -> Result<Record> {
    let mut record = Record::default();
    loop {
        let operation = generator.next_operation();
        let start = Instant::now();
        if start >= window.end || stop.asked() {
            return Ok(record);
        }
        arrive().await;
        let at = client.operate(&operation).await?;
        let end = Instant::now();
        if (window.begin..window.end).contains(&end) {
            record.latencies.push((end - start).as_nanos() as u64);
        }
        if let Operation::Write(rows) = operation {
            let acknowledged = rows.iter().map(|row| Ok((row.key[..].try_into()?, at)));
            for write in acknowledged {
                let write: Result<Acknowledged> = write;
                record.acknowledged.push(write?);
            }
        }
    }
}

/// A request arrives at the back of a run queue, as one that comes over the network does. Without it,
/// a worker whose operations never wait would keep its core to itself.
async fn arrive() {
    let mut arrived = false;
    poll_fn(|context| {
        if arrived {
            return Poll::Ready(());
        }
        arrived = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How long the worker threads have been busy, all together.
pub(crate) fn busy(metrics: &RuntimeMetrics, workers: usize) -> Duration {
    (0..workers)
        .map(|worker| metrics.worker_total_busy_duration(worker))
        .sum()
}

/// What meter and threads say about the window.
pub(crate) fn latching(
    [begin, end]: [(Reading, Duration); 2],
    ops: usize,
    window: Duration,
) -> Latching {
    let spent = end.0.since(begin.0);
    let busy = end.1.saturating_sub(begin.1);
    let ratio = |of: f64, to: f64| if to > 0.0 { of / to } else { 0.0 };
    Latching {
        waits_per_op: ratio(spent.waits as f64, ops as f64),
        // The mean number held is the time for which latches were held, per time (Little 1961).
        held: ratio(spent.held.as_secs_f64(), window.as_secs_f64()),
        cpu_share: ratio(spent.latching.as_secs_f64(), busy.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use spanlatch::Manager;

    use super::*;
    use crate::predecessor::Predecessor;
    use crate::storage::EngineKind;
    use crate::workload::Flags;

    const IN_MEMORY: Place<'_> = Place {
        storage: &Storage::Mem,
        client: ClientKind::Store,
    };

    #[test]
    fn transactions_run_and_the_store_passes_its_check() -> Result<()> {
        let flags = Flags {
            read_percent: 50,
            span_percent: 10,
            batch: 3,
            cycle_length: 20,
            splits: 2,
            concurrency: 8,
            ..Flags::default()
        };
        let place = Place {
            client: ClientKind::Txn,
            ..IN_MEMORY
        };
        run_for(&Workload::new(flags)?, Manager::new, place, 50)?;
        Ok(())
    }

    /// Runs until so many operations are measured: on a busy machine, for longer.
    fn run_for<L: Latches>(
        workload: &Workload,
        latches: fn() -> L,
        place: Place<'_>,
        least_ops: u64,
    ) -> Result<Sample> {
        let (cores, stop) = (Cores::first(1)?, Stop::default());
        let mut timing = Timing {
            warm_up: Duration::from_millis(5),
            duration: Duration::from_millis(50),
        };
        loop {
            let sample = run(workload, latches, &place, &cores, timing, &stop, |_| ())?;
            let sample = sample.context("not stopped")?;
            if sample.ops >= least_ops {
                return Ok(sample);
            }
            timing.duration *= 2;
        }
    }

    fn run_both(flags: Flags, least_ops: u64) -> Result<[Sample; 2]> {
        let workload = Workload::new(flags)?;
        Ok([
            run_for(&workload, Predecessor::new, IN_MEMORY, least_ops)?,
            run_for(&workload, Manager::new, IN_MEMORY, least_ops)?,
        ])
    }

    #[test]
    fn few_keys_make_operations_wait_and_the_store_passes_its_check() -> Result<()> {
        // Every operation writes every key: any two conflict, and all have so many spans that each
        // is measured. With more than twice as many as there are workers, most begin in the window.
        let flags = Flags {
            cycle_length: 16,
            batch: 16,
            ..Flags::default()
        };
        let least_ops = 2 * u64::from(flags.concurrency) + 1;
        for sample in run_both(flags, least_ops)? {
            assert!(sample.latching.waits_per_op > 0.0);
            assert!(sample.latching.held > 0.0);
            assert!(sample.latching.cpu_share > 0.0);
            assert!(sample.p50_us <= sample.p99_us && sample.p99_us <= sample.max_us);
        }
        Ok(())
    }

    #[test]
    fn even_a_run_that_is_over_at_once_says_how_far_it_is() -> Result<()> {
        let workload = Workload::new(Flags::default())?;
        let (cores, stop) = (Cores::first(1)?, Stop::default());
        let at_once = Timing {
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
        };
        let mut last = None;
        run(
            &workload,
            Manager::new,
            &IN_MEMORY,
            &cores,
            at_once,
            &stop,
            |elapsed| {
                last = Some(elapsed);
            },
        )?;
        assert!(last.is_some_and(|last| last > Duration::ZERO), "{last:?}");
        Ok(())
    }

    #[test]
    fn scans_batches_and_splits_run_and_the_store_passes_its_check() -> Result<()> {
        let flags = Flags {
            read_percent: 30,
            span_percent: 30,
            batch: 8,
            splits: 10,
            ..Flags::default()
        };
        run_both(flags, 1).map(drop)
    }

    #[test]
    fn a_run_on_a_disk_passes_its_check_and_leaves_nothing_behind() -> Result<()> {
        let flags = Flags {
            read_percent: 30,
            span_percent: 10,
            batch: 4,
            cycle_length: 16,
            concurrency: 8,
            splits: 3,
            ..Flags::default()
        };
        let storage = Storage::new(EngineKind::Fjall)?;
        let place = Place {
            storage: &storage,
            ..IN_MEMORY
        };
        run_for(&Workload::new(flags)?, Manager::new, place, 1)?;
        let folder = storage.folder().context("it is on a disk")?.to_owned();
        assert_eq!(std::fs::read_dir(&folder)?.count(), 0);
        drop(storage);
        assert!(!folder.exists());
        Ok(())
    }

    #[test]
    fn a_batch_larger_than_the_cycle_writes_keys_twice_and_passes() -> Result<()> {
        let flags = Flags {
            cycle_length: 3,
            batch: 8,
            concurrency: 4,
            ..Flags::default()
        };
        run_both(flags, 1).map(drop)
    }

    #[test]
    fn a_run_that_is_stopped_gives_no_sample() -> Result<()> {
        let stop = Stop::default();
        assert!(!stop.ask());
        let workload = Workload::new(Flags::default())?;
        let hour = Timing {
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(3600),
        };
        assert_eq!(
            run(
                &workload,
                Manager::new,
                &IN_MEMORY,
                &Cores::first(1)?,
                hour,
                &stop,
                |_| ()
            )?,
            None
        );
        Ok(())
    }

    #[test]
    fn cores_are_named_by_their_numbers() -> Result<()> {
        let all = Cores::first(Cores::available())?;
        assert_eq!(all.to_string().parse::<Cores>()?.0, all.0);
        let parts = all.split(1);
        assert_eq!(parts.len(), all.count());
        assert!("".parse::<Cores>().is_err() && "0,".parse::<Cores>().is_err());
        Ok(())
    }

    #[test]
    fn more_cores_than_there_are_is_an_error_that_says_how_many_there_are() {
        let available = Cores::available();
        let error = Cores::first(available + 1)
            .map(|_| ())
            .expect_err("too many")
            .to_string();
        assert!(
            error.contains(&format!("{}", available + 1))
                && error.contains(&format!("the {available} "))
        );
        assert!(Cores::first(0).is_err());
        assert_eq!(
            Cores::first(available).map(|cores| cores.count()).ok(),
            Some(available)
        );
    }
}
