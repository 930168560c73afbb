//! Slow waits are counted once, warned about once, and forgotten on every way out.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use spanlatch::Manager;
use spanlatch_metrics::{Gauge, Histogram, LatchMetrics};
use tracing_subscriber::fmt::MakeWriter;

use crate::notation::spans;
use crate::wake::Task;

/// A manager whose time stands still unless it is moved.
struct Bench {
    manager: Manager,
    start: Instant,
    elapsed: Arc<AtomicU64>,
    slow: Gauge,
    wait: Histogram,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        let start = Instant::now();
        let elapsed = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&elapsed);
        let metrics = LatchMetrics::default();
        let (slow, wait) = (metrics.slow.gauge().clone(), metrics.wait.clone());
        let manager = Manager::builder()
            .metrics(metrics)
            .clock(move || start + Duration::from_secs(clock.load(Ordering::Relaxed)))
            .build();
        Bench {
            manager,
            start,
            elapsed,
            slow,
            wait,
            log: Log::default(),
        }
    }

    /// Moves the time on, and ticks; everything logged on the way is kept.
    fn pass(&self, seconds: u64) {
        let elapsed = self.elapsed.fetch_add(seconds, Ordering::Relaxed) + seconds;
        self.logged(|| self.manager.tick(self.start + Duration::from_secs(elapsed)));
    }

    fn logged<T>(&self, work: impl FnOnce() -> T) -> T {
        let subscriber = tracing_subscriber::fmt()
            .with_writer(self.log.clone())
            .with_ansi(false);
        tracing::subscriber::with_default(subscriber.finish(), work)
    }

    fn waiting(&self, text: &str) -> Task {
        let mut task = Task::new(self.manager.sequence(&spans(text)).unwrap());
        assert!(task.poll().is_pending());
        task
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

#[test]
fn a_wait_is_slow_once_it_is_longer_than_the_threshold_and_is_counted_once() {
    let bench = Bench::new();
    let guard = bench.manager.acquire(&spans("W a")).unwrap();
    let mut task = bench.waiting("R a");
    bench.pass(5);
    assert_eq!(bench.slow.value(), 0);
    bench.pass(1);
    assert_eq!(bench.slow.value(), 1);
    bench.pass(1);
    bench.pass(1);
    assert_eq!(bench.slow.value(), 1);
    drop(guard);
    assert_eq!(bench.slow.value(), 1, "until it has acquired");
    assert!(task.poll().is_ready());
    assert_eq!(bench.slow.value(), 0);
}

#[test]
fn the_wait_starts_when_the_request_first_parks() {
    let bench = Bench::new();
    let guard = bench.manager.acquire(&spans("W a")).unwrap();
    let mut task = Task::new(bench.manager.sequence(&spans("R a")).unwrap());
    bench.pass(100);
    assert!(task.poll().is_pending());
    bench.pass(5);
    assert_eq!(bench.slow.value(), 0);
    bench.pass(1);
    assert_eq!(bench.slow.value(), 1);
    drop((task, guard));
}

#[test]
fn a_wait_goes_on_from_one_holder_to_the_next() {
    let bench = Bench::new();
    let first = bench.manager.acquire(&spans("W a")).unwrap();
    let second = bench.manager.acquire(&spans("W b")).unwrap();
    let mut task = bench.waiting("R a; R b");
    bench.pass(3);
    drop(first);
    assert!(task.poll().is_pending());
    bench.pass(3);
    assert_eq!(bench.slow.value(), 1);
    drop(second);
    assert!(task.poll().is_ready());
    assert_eq!((bench.slow.value(), bench.wait.count()), (0, 1));
    assert_eq!(bench.wait.sum(), Duration::from_secs(6));
}

#[test]
fn cancellation_and_shutdown_lower_the_gauge() {
    let bench = Bench::new();
    let guard = bench.manager.acquire(&spans("W a")).unwrap();
    let cancelled = bench.waiting("R a");
    let mut shut_down = bench.waiting("R a");
    bench.pass(6);
    assert_eq!(bench.slow.value(), 2);
    drop(cancelled);
    assert_eq!(bench.slow.value(), 1);
    bench.manager.shut_down();
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let ended = std::pin::Pin::new(&mut shut_down.pending).poll(&mut context);
    assert!(matches!(ended, Poll::Ready(Err(_))));
    assert_eq!(bench.slow.value(), 0);
    assert_eq!(bench.wait.count(), 0, "neither of them acquired");
    drop(guard);
}

#[test]
fn a_request_that_does_not_wait_is_not_in_the_histogram() {
    let bench = Bench::new();
    drop(bench.manager.acquire(&spans("W a")).unwrap());
    assert_eq!(bench.wait.count(), 0);
}

#[test]
fn the_threshold_can_be_changed_and_has_a_least_value() {
    let bench = Bench::new();
    let guard = bench.manager.acquire(&spans("W a")).unwrap();
    let task = bench.waiting("R a");
    bench.manager.set_slow_threshold(Duration::from_secs(60));
    bench.pass(59);
    assert_eq!(bench.slow.value(), 0);
    bench.manager.set_slow_threshold(Duration::ZERO);
    bench.manager.tick(bench.start + Duration::from_millis(10));
    assert_eq!(bench.slow.value(), 0);
    bench.manager.tick(bench.start + Duration::from_millis(11));
    assert_eq!(bench.slow.value(), 1);
    drop((task, guard));
}

#[test]
fn a_warning_names_the_wait_and_the_head_of_its_blocking_chain() {
    let bench = Bench::new();
    bench.pass(1);
    let head = bench
        .manager
        .acquire(&spans("W [a,c); W x; W y; W z; R q"))
        .unwrap();
    let middle = bench.waiting("W [b,d)");
    bench.pass(2);
    let last = bench.waiting("R c@7; local W r");
    bench.pass(4);
    bench.pass(1);
    bench.pass(1);
    let lines = bench.log.lines();
    assert_eq!(lines.len(), 2, "one warning per wait: {lines:#?}");
    let warning = &lines[1];
    for part in [
        "WARN",
        "request=2",
        "waited=6s",
        r#"wants=read ["c"] at 0.000000007,0"#,
        "parked_on=1",
        "head=0",
        "head_held=8s",
        r#"head_latches=write ["a", "c"), write ["x"], write ["y"] and 2 more"#,
    ] {
        assert!(warning.contains(part), "{part} is not in {warning}");
    }
    drop((last, middle, head));
}

#[test]
fn many_slow_waits_are_all_counted_and_some_described() {
    let bench = Bench::new();
    let guard = bench.manager.acquire(&spans("W a")).unwrap();
    let tasks = Vec::from_iter((0..300).map(|_| bench.waiting("R a")));
    bench.pass(6);
    assert_eq!(bench.slow.value(), 300);
    let lines = bench.log.lines();
    assert_eq!(lines.len(), 11);
    assert!(lines[10].contains("more=290"), "{}", lines[10]);
    drop(tasks);
    assert_eq!(bench.slow.value(), 0);
    drop(guard);
}

#[test]
fn a_long_hold_is_logged_when_it_ends_at_most_once_a_second() {
    let bench = Bench::new();
    bench.pass(1);
    let hold = |text: &str| bench.manager.acquire(&spans(text)).unwrap();
    let (first, second, third) = (hold("W a"), hold("W b"), hold("W c"));
    bench.pass(2);
    let short = hold("W d");
    bench.pass(2);
    bench.logged(|| drop((first, second, short)));
    assert_eq!(bench.log.lines().len(), 1);
    assert!(
        bench.log.lines()[0].contains("held=4s"),
        "{:?}",
        bench.log.lines()
    );
    bench.pass(1);
    bench.logged(|| drop(third));
    assert_eq!(bench.log.lines().len(), 2);
}

/// Cannot be shown.
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("a label that panics")
    }
}

#[test]
fn a_label_that_panics_when_a_long_hold_is_logged_keeps_nobody_asleep() {
    let bench = Bench::new();
    bench.pass(1);
    let request = bench.manager.request(&spans("W a")).label(Unspeakable);
    let guard = request.acquire().unwrap();
    let mut task = bench.waiting("R a");
    bench.elapsed.fetch_add(9, Ordering::Relaxed);
    bench.manager.tick(bench.start + Duration::from_secs(5));
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        bench.logged(|| drop(guard));
    }));
    assert!(dropped.is_err());
    assert_eq!(task.wakes.count(), 1);
    assert!(task.poll().is_ready());
    bench.manager.verify();
}

#[test]
fn a_wait_whose_blocker_has_just_gone_is_warned_about_all_the_same() {
    let bench = Bench::new();
    let a = bench.manager.acquire(&spans("W a")).unwrap();
    let b = bench.manager.acquire(&spans("W b")).unwrap();
    let task = bench.waiting("R a; R b");
    drop(a);
    bench.pass(6);
    assert_eq!(bench.slow.value(), 1);
    let lines = bench.log.lines();
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].contains("parked_on=0") && !lines[0].contains("head="),
        "{}",
        lines[0]
    );
    drop((task, b));
}

#[test]
fn a_head_that_does_not_hold_is_not_said_to_hold() {
    let bench = Bench::new();
    bench.pass(1);
    let holder = bench.manager.acquire(&spans("W a")).unwrap();
    let unpolled = bench.manager.sequence(&spans("W [a,c)")).unwrap();
    let task = bench.waiting("R b");
    drop(holder);
    bench.pass(6);
    let lines = bench.log.lines();
    assert!(
        lines[0].contains("head=1") && !lines[0].contains("head_held"),
        "{}",
        lines[0]
    );
    drop((task, unpolled));
}

#[test]
fn a_blocking_chain_is_followed_through_those_that_were_never_polled() {
    let bench = Bench::new();
    bench.pass(1);
    let holder = (bench.manager.request(&spans("W a")).label("backup"))
        .acquire()
        .unwrap();
    let unpolled = bench.manager.sequence(&spans("W [a,c)")).unwrap();
    let pending = bench.manager.request(&spans("R b")).label("query");
    let mut task = Task::new(pending.sequence().unwrap());
    assert!(task.poll().is_pending());
    bench.pass(6);
    let lines = bench.log.lines();
    for part in [
        "label=query",
        "parked_on=1",
        "head=0",
        "head_label=backup",
        "head_held=6s",
    ] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    drop((task, unpolled, holder));
}

#[test]
fn only_what_was_held_counts_as_a_long_hold() {
    let bench = Bench::new();
    bench.pass(1);
    let holder = bench.manager.acquire(&spans("W a")).unwrap();
    let never_held = bench.manager.sequence(&spans("W a")).unwrap();
    let mut held_late = bench.manager.sequence(&spans("W a")).unwrap();
    bench.pass(9);
    bench.logged(|| drop(never_held));
    assert_eq!(bench.log.lines(), Vec::<String>::new());
    bench.logged(|| drop(holder));
    assert_eq!(bench.log.lines().len(), 1);
    bench.pass(2);
    assert!(held_late.is_ready());
    bench.logged(|| drop(held_late.wait().unwrap()));
    assert_eq!(bench.log.lines().len(), 1);
}

#[test]
fn the_monitor_thread_ticks_until_it_is_dropped() {
    let start = Instant::now();
    let metrics = LatchMetrics::default();
    let slow = metrics.slow.gauge().clone();
    let hours = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&hours);
    let manager = Manager::builder()
        .metrics(metrics)
        .clock(move || start + Duration::from_secs(3600 * clock.load(Ordering::Relaxed)))
        .build();
    let guard = manager.acquire(&spans("W a")).unwrap();
    let mut task = Task::new(manager.sequence(&spans("R a")).unwrap());
    assert!(task.poll().is_pending());
    let monitor = manager.monitor(Duration::ZERO).unwrap();
    hours.store(1, Ordering::Relaxed);
    while slow.value() == 0 {
        std::thread::yield_now();
    }
    drop(monitor);
    drop((task, guard));
    assert_eq!(slow.value(), 0);
}

#[test]
fn the_monitor_thread_ends_when_nobody_uses_the_manager() {
    let (ticked, ticks) = std::sync::mpsc::channel();
    let manager = Manager::builder()
        .clock(move || {
            // An error means that the test has seen enough.
            let _ = ticked.send(());
            Instant::now()
        })
        .build();
    let guard = manager.acquire(&spans("W a")).unwrap();
    let _monitor = manager.monitor(Duration::ZERO).unwrap();
    drop(manager);
    // A guard is reason enough to go on.
    assert!(ticks.iter().nth(3).is_some());
    drop(guard);
    // This thread's spare blocks refer to the manager; replace the references by another's.
    let other = Manager::new();
    drop(Vec::from_iter(
        (0..100).map(|_| other.acquire(&spans("R a")).unwrap()),
    ));
    // The thread ends, and with it the last use of the clock.
    while ticks.recv().is_ok() {}
    assert!(ticks.recv().is_err());
}

#[test]
fn a_wait_that_has_found_out_that_nothing_is_left_is_counted_and_not_described() {
    let bench = Bench::new();
    let guard = bench.manager.acquire(&spans("W a")).unwrap();
    let mut task = bench.waiting("W a");
    drop(guard);
    assert!(task.pending.is_ready());
    bench.pass(6);
    assert_eq!(bench.slow.value(), 1, "until it is polled");
    assert_eq!(bench.log.lines(), [""; 0]);
    assert!(task.poll().is_ready());
    assert_eq!(bench.slow.value(), 0);
}
