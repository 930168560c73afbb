//! What is in nobody's way, what is moved, refused or stuck, and what is remembered.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanlatch::{Manager, OnPoison};
use spanlatch_metrics::ReplicaMetrics;
use spanlatch_replica::{
    Action, Batch, Cause, Collected, Engine, EngineError, Error, ManualSource, Marks, MemEngine,
    RangeId, Request, Response, Snapshot, Store, Version, WriteBatch,
};
use spanset::{Cursor, Key, Reader, Span, Timestamp};

use crate::scene::{Kept, Running, Scene, after, batch, builder, range, rows, ts, value};

fn rows_of(running: Running) -> Vec<(Key, spanlatch_replica::Value)> {
    match running.end().unwrap().responses.remove(0) {
        Response::Rows { rows, .. } => rows,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_limited_scan_waits_only_for_writes_of_what_it_covered() {
    let scene = Scene::new([]);
    scene.serve(Request::put("b", "1")).unwrap();
    let _beyond = scene.start(Request::put("y", "1"));
    let scan = || Request::scan(range("a", "z"));

    assert_eq!(rows_of(scene.start(scan().limited(1))), rows([("b", "1")]));
    assert!(scene.start(scan()).is_waiting(), "for the write beyond");
    let mut two = scene.start(scan().limited(2));
    assert!(two.is_waiting(), "it read up to the end");
    scene.apply();
    assert!(!two.is_waiting());
    assert_eq!(rows_of(two), rows([("b", "1"), ("y", "1")]));

    let _within = scene.start(Request::put("a", "0"));
    let mut first = scene.start(scan().limited(1));
    assert!(first.is_waiting());
    scene.apply();
    assert!(!first.is_waiting());
    assert_eq!(rows_of(first), rows([("a", "0")]), "evaluated again");
    assert!(scene.store.is_idle());
}

#[test]
fn an_optimistic_scan_protects_what_it_read() {
    let scene = Scene::new([]);
    scene.serve(Request::put("b", "1")).unwrap();
    let scan = Request::scan(Span::all()).limited(1);
    scene.serve(batch([scan]).at(ts(900))).unwrap();
    let put = |key: &'static str| scene.serve(batch([Request::put(key, "2")]).at(ts(500)));
    assert_eq!(put("a").unwrap().timestamp, after(ts(900)));
    assert_eq!(put("c").unwrap().timestamp, ts(500));
}

fn split(scene: &Scene, at: &'static str) -> Running<Result<RangeId, Error>> {
    let store = scene.store.clone();
    Running::new(async move { store.split(at).await })
}

#[test]
fn a_split_waits_for_those_it_concerns_and_they_for_it() {
    let scene = Scene::new(["m"]);
    let elsewhere = scene.start(Request::put("n", "1"));
    let before = scene.start(Request::put("a", "1"));
    let mut splitting = split(&scene, "f");
    assert!(splitting.is_waiting());
    let mut after_it = scene.start(Request::put("g", "1"));
    assert!(after_it.is_waiting());
    assert_eq!(scene.kept.len(), 2, "it has not been proposed");
    assert!(!scene.start(Request::get("z")).is_waiting());

    // "a", then the split and nothing else.
    scene.apply_at(1);
    assert!(!splitting.is_waiting());
    assert_eq!(splitting.end().unwrap(), RangeId(2));
    assert!(after_it.is_waiting());
    assert_eq!(scene.kept.len(), 2, "routed again, and proposed");
    let replicas = scene.store.replicas();
    assert_eq!(replicas[1].latches().counts().global_writes, 1);
    scene.apply();
    scene.apply();
    for running in [elsewhere, before, after_it] {
        running.end().unwrap();
    }
    let spans: Vec<_> = replicas.iter().map(|r| (r.id().0, r.span())).collect();
    let expected = [
        (0, Span::range("", "f").unwrap()),
        (2, range("f", "m")),
        (1, Span::starting_at("m")),
    ];
    assert_eq!(spans, expected);
    assert!(scene.store.is_idle());
}

#[test]
fn a_request_to_a_replica_that_was_split_meanwhile_fails_with_the_new_bounds() {
    let scene = Scene::new([]);
    let replica = scene.store.replica(RangeId(0)).unwrap();
    let _before = scene.start(Request::put("a", "1"));
    let mut splitting = split(&scene, "m");
    let send = |request: Request| {
        let replica = replica.clone();
        Running::new(async move { replica.send(request).await })
    };
    let (low, high) = (send(Request::get("b")), send(Request::get("x")));
    let limited = send(Request::scan(range("b", "x")).limited(1));
    scene.apply();
    assert!(!splitting.is_waiting());
    low.end().unwrap();
    let error = high.end().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"["x"] is not within range r0, which holds ["", "m")"#
    );
    assert_eq!(error.action(), Action::GoElsewhere);
    let error = limited.end().unwrap_err();
    assert!(matches!(error, Error::KeyOutsideRange { .. }), "{error}");
    let error = split(&scene, "m").end().unwrap_err();
    assert_eq!(error.to_string(), r#"range r1 begins at b"m" already"#);
    scene.store.shut_down();
    let error = split(&scene, "x").end().unwrap_err();
    assert!(matches!(error, Error::ShuttingDown), "{error}");
}

#[test]
fn both_sides_of_a_split_know_what_was_read() {
    let scene = Scene::new([]);
    scene
        .serve(batch([Request::scan(range("a", "z"))]).at(ts(900)))
        .unwrap();
    split(&scene, "m").end().unwrap();
    for key in ["b", "n"] {
        let put = scene
            .serve(batch([Request::put(key, "1")]).at(ts(500)))
            .unwrap();
        assert_eq!(put.timestamp, after(ts(900)));
    }
}

/// To be called once.
type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// An engine that does something before it takes a snapshot, and remembers marks, if it can.
#[derive(Default)]
struct Hooked {
    inner: MemEngine,
    before_snapshot: Hook,
    before_read: Arc<Hook>,
    ceiling: Mutex<Timestamp>,
    raised: Mutex<usize>,
    is_full: Mutex<bool>,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

impl Engine for Hooked {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        let hook = self.before_snapshot.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        Ok(Box::new(HookedReader {
            inner: self.inner.snapshot()?,
            before_read: self.before_read.clone(),
        }))
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.inner.apply(group)
    }

    fn marks(&self) -> Marks {
        Marks {
            ceiling: *self.ceiling.lock(),
            ..self.inner.marks()
        }
    }

    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError> {
        if *self.is_full.lock() {
            return Err(EngineError::new("no space left"));
        }
        *self.ceiling.lock() = to;
        *self.raised.lock() += 1;
        Ok(())
    }

    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError> {
        self.inner.collect(threshold)
    }
}

struct HookedReader {
    inner: Snapshot,
    before_read: Arc<Hook>,
}

impl Reader for HookedReader {
    type Value = Version;
    type Error = EngineError;

    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<Version>, EngineError> {
        self.inner.get(key, at)
    }

    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = Version, Error = EngineError> + '_> {
        let hook = self.before_read.lock().take();
        if let Some(hook) = hook {
            hook();
        }
        self.inner.cursor(at)
    }
}

#[test]
fn a_threshold_that_rises_before_the_snapshot_is_taken_is_noticed() {
    let engine = Arc::new(Hooked::default());
    let scene = Scene::build(engine.clone(), vec![], Manager::new);
    for at in [200, 300] {
        scene
            .serve(batch([Request::put("a", "1")]).at(ts(at)))
            .unwrap();
    }
    let collect = || {
        let store = scene.store.clone();
        *engine.before_snapshot.lock() = Some(Box::new(move || {
            assert_eq!(store.collect_garbage(ts(400)).unwrap().versions, 1);
        }));
    };
    collect();
    let error = scene
        .serve(batch([Request::get("a")]).at(ts(250)))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "timestamp 0.000000250,0 is below 0.000000400,0, from which on versions are kept"
    );
    assert!(scene.store.is_idle());

    let old = scene.serve(batch([Request::get("a")]).at(ts(399)));
    assert!(old.is_err());
    let get = scene.serve(batch([Request::get("a")]).at(ts(400))).unwrap();
    assert_eq!(get.responses, [Response::Value(value("1"))]);
    // A deletion that was collected can be seen no more, so nothing may be written below it.
    scene
        .serve(batch([Request::delete("b")]).at(ts(450)))
        .unwrap();
    let store = scene.store.clone();
    *engine.before_snapshot.lock() = Some(Box::new(move || {
        assert_eq!(store.collect_garbage(ts(500)).unwrap().versions, 1);
    }));
    let put = scene
        .serve(batch([Request::put("b", "1")]).at(ts(420)))
        .unwrap();
    assert_eq!(put.timestamp, after(ts(500)));
    let error = scene.store.collect_garbage(ts(5_000)).unwrap_err();
    assert!(matches!(error, Error::FutureTimestamp { .. }), "{error}");
}

#[test]
fn too_many_requests_are_refused_also_if_their_callers_have_gone() {
    let kept = Kept::default();
    let store = builder(&ManualSource::at(100))
        .max_in_flight(2)
        .build_proposing(Arc::new(kept.clone()), |_| Manager::new());
    let start = |request: Request| {
        let store = store.clone();
        Running::new(async move { store.send(request).await })
    };
    drop(start(Request::put("a", "1")));
    let waiting = start(Request::put("a", "2"));
    let error = start(Request::get("z")).end().unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 requests are in flight, and no more are admitted"
    );
    assert_eq!(error.action(), Action::Retry);
    assert_eq!(store.replicas()[0].latches().counts().requests, 2);

    drop(waiting);
    start(Request::get("z")).end().unwrap();
    let _full = start(Request::put("b", "1"));
    assert!(start(Request::get("z")).end().is_err());
    kept.take().applied();
    start(Request::get("z")).end().unwrap();
}

struct Stuck {
    store: Store,
    kept: Kept,
    metrics: ReplicaMetrics,
    began: Instant,
}

impl Stuck {
    fn new() -> Self {
        let (kept, metrics) = (Kept::default(), ReplicaMetrics::default());
        let store = builder(&ManualSource::at(100))
            .metrics(metrics.clone())
            .slow_proposal_threshold(Duration::from_secs(2))
            .stuck_proposal_threshold(Duration::from_secs(10))
            .build_proposing(Arc::new(kept.clone()), |_| Manager::new());
        let began = Instant::now();
        Self {
            store,
            kept,
            metrics,
            began,
        }
    }

    fn start(&self, batch: impl Into<Batch>) -> Running {
        let (store, batch) = (self.store.clone(), batch.into());
        Running::new(async move { store.send(batch).await })
    }

    fn tick(&self, seconds: u64) {
        self.store.tick(self.began + Duration::from_secs(seconds));
    }

    fn slow(&self) -> i64 {
        self.metrics.slow_raft.value()
    }
}

#[test]
fn a_slow_proposal_is_counted_until_it_ends_whatever_became_of_its_caller() {
    let scene = Stuck::new();
    let one = scene.start(Request::put("a", "1"));
    scene.tick(0);
    drop(scene.start(Request::put("b", "1")));
    scene.tick(1);
    assert_eq!(scene.slow(), 0);
    scene.tick(2);
    scene.tick(2);
    assert_eq!(scene.slow(), 1, "the other was first seen a second later");
    scene.tick(3);
    assert_eq!(scene.slow(), 2);
    scene.kept.take().applied();
    assert_eq!(scene.slow(), 1);
    one.end().unwrap();
    scene.kept.take().failed(Error::ShuttingDown);
    assert_eq!(scene.slow(), 0);
    assert_eq!(scene.metrics.proposals_pending.value(), 0);
}

#[test]
fn a_stuck_proposal_fails_its_caller_and_those_behind_it_and_keeps_its_latches() {
    let scene = Stuck::new();
    let mut put = scene.start(batch([Request::get("r"), Request::put("a", "1")]).at(ts(300)));
    let mut behind = scene.start(Request::get("a"));
    let patient = Batch::from(Request::get("a")).on_poison(OnPoison::Wait);
    let mut patient = scene.start(patient);
    let limited = Request::scan(Span::all()).limited(1);
    let mut optimist = scene.start(limited.clone());
    scene.tick(0);
    scene.tick(9);
    assert!(put.is_waiting() && behind.is_waiting() && optimist.is_waiting());
    scene.tick(10);
    let error = put.end().unwrap_err();
    assert!(matches!(error, Error::Ambiguous(Cause::Stuck)), "{error}");
    assert_eq!(error.action(), Action::FindOut);
    for waiting in [
        behind,
        optimist,
        scene.start(limited),
        scene.start(Request::put("a", "2")),
    ] {
        let error = waiting.end().unwrap_err();
        let text = r#"stuck behind write ["a"] at 0.000000300,0"#;
        assert_eq!(error.to_string(), text);
    }
    assert!(patient.is_waiting());
    assert!(!scene.start(Request::get("z")).is_waiting());
    assert_eq!(scene.slow(), 1);

    scene.kept.take().applied();
    assert!(!patient.is_waiting());
    assert_eq!(scene.slow(), 0);
    assert!(scene.store.is_idle());
    // What it read was recorded, although its caller had failed before.
    let _put = scene.start(batch([Request::put("r", "1")]).at(ts(200)));
    assert_eq!(scene.kept.take().writes().timestamp, after(ts(300)));
}

#[test]
fn nothing_is_served_above_the_ceiling_that_the_engine_remembers() {
    let engine = Arc::new(Hooked::default());
    let step = Duration::from_nanos(100);
    let time = ManualSource::at(100);
    let build = || {
        let kept = Kept::default();
        let store = builder(&time)
            .engine(engine.clone())
            .ceiling_step(step)
            .build_proposing(Arc::new(kept.clone()), |_| Manager::new());
        (store, kept)
    };
    let start = |store: &Store, batch: Batch| {
        let store = store.clone();
        Running::new(async move { store.send(batch).await })
    };
    let early = builder(&time)
        .engine(engine.clone())
        .ceiling_step(step)
        .release_reads_early()
        .build_proposing(Arc::new(Kept::default()), |_| Manager::new());
    let get = |store: &Store, at| start(store, batch([Request::get("a")]).at(ts(at))).end();
    let (store, kept) = build();
    let empty = start(&store, batch([])).end().unwrap();
    assert!(empty.timestamp < *engine.ceiling.lock());
    for at in [100, 150, 250, 251] {
        assert!(get(&store, at).unwrap().timestamp < *engine.ceiling.lock());
    }
    assert_eq!(*engine.raised.lock(), 2);
    store.tick(Instant::now());
    assert_eq!(*engine.raised.lock(), 2, "half of the step is left");
    get(&store, 310).unwrap();
    store.tick(Instant::now());
    assert_eq!(*engine.raised.lock(), 3, "in advance");

    *engine.is_full.lock() = true;
    let error = get(&store, 900).unwrap_err();
    assert_eq!(error.to_string(), "storage engine: no space left");
    let put = start(&store, batch([Request::put("b", "1")]).at(ts(900)));
    assert!(matches!(put.end(), Err(Error::Engine(_))));
    let limited = Request::scan(Span::all()).limited(1);
    let scan = start(&store, batch([limited]).at(ts(900)));
    assert!(matches!(scan.end(), Err(Error::Engine(_))));
    assert!(matches!(get(&early, 900), Err(Error::Engine(_))));
    assert_eq!(kept.len(), 0);
    assert!(store.is_idle() && early.is_idle());

    // A later store starts above all of it, although the time has not come so far.
    *engine.is_full.lock() = false;
    let ceiling = *engine.ceiling.lock();
    drop(store);
    let (store, kept) = build();
    let _put = start(&store, batch([Request::put("a", "1")]).at(ts(120)));
    assert_eq!(kept.take().writes().timestamp, after(ceiling));
}

#[test]
fn reads_that_are_released_early_hold_nothing_when_they_are_evaluated() {
    let time = ManualSource::at(100);
    let engine = Arc::new(Hooked::default());
    let kept = Kept::default();
    let store = builder(&time)
        .engine(engine.clone())
        .splits([Key::from("x")])
        .release_reads_early()
        .build_proposing(Arc::new(kept.clone()), |_| Manager::new());
    let start = |batch: Batch| {
        let store = store.clone();
        Running::new(async move { store.send(batch).await })
    };
    let scan = Request::scan(range("a", "z"));
    let idle = Arc::new(Mutex::new(None));
    let (seen, seen_store) = (idle.clone(), store.clone());
    *engine.before_read.lock() = Some(Box::new(move || {
        *seen.lock() = Some(seen_store.is_idle());
    }));
    start(batch([scan.clone()]).at(ts(900))).end().unwrap();
    assert_eq!(*idle.lock(), Some(true));
    let put = start(batch([Request::put("m", "1")]).at(ts(500)));
    assert_eq!(kept.take().writes().timestamp, after(ts(900)));
    assert!(matches!(put.end(), Err(Error::Ambiguous(Cause::Dropped))));

    // A scan with a limit, here over two ranges, records only what it covered.
    engine
        .apply(vec![WriteBatch {
            timestamp: ts(100),
            writes: vec![("b".into(), value("1"))],
        }])
        .unwrap();
    start(batch([scan.limited(1)]).at(ts(950))).end().unwrap();
    let _put = start(batch([Request::put("m", "1")]).at(ts(500)));
    assert_eq!(kept.take().writes().timestamp, after(ts(900)));
}
