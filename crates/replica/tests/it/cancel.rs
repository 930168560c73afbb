//! Every way out but the good one: cancelled, failed, lost, shut down.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::channel::oneshot;
use spanlatch_metrics::Outcome;
use spanlatch_replica::{
    Applier, Batch, Engine, EngineError, Error, ManualSource, MemEngine, Request, Response,
    Snapshot, Store, WriteBatch,
};

use crate::scene::{Running, Scene, after, batch, builder, forward_marks, ts, value};

/// Starts a batch that ends early when the sender is used.
fn start_until(scene: &Scene, batch: Batch) -> (oneshot::Sender<()>, Running) {
    let (cancel, cancelled) = oneshot::channel::<()>();
    let store = scene.store.clone();
    let running = Running::new(async move {
        let cancelled = async move {
            // A sender that is dropped cancels nothing.
            if cancelled.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        store.send_until(cancelled, batch).await
    });
    (cancel, running)
}

#[test]
fn dropped_while_it_waits_it_leaves_the_line_and_nothing_else() {
    let scene = Scene::new([]);
    let first = scene.start(Request::put("a", "1"));
    let second = scene.start(batch([Request::put("a", "2"), Request::put("b", "2")]));
    let mut third = scene.start(Request::put("b", "3"));
    assert!(third.is_waiting());
    drop(second);
    third.poll();
    assert_eq!(scene.kept.len(), 2, "the third no longer waits");
    scene.apply();
    scene.apply();
    first.end().unwrap();
    third.end().unwrap();
    assert_eq!(scene.get("a"), value("1"));
    assert_eq!(scene.get("b"), value("3"));
    assert!(scene.store.is_idle());
}

#[test]
fn cancelled_while_it_waits_it_says_so_and_applies_nothing() {
    let scene = Scene::new([]);
    let _first = scene.start(Request::put("a", "1"));
    let (cancel, second) = start_until(&scene, Request::put("a", "2").into());
    cancel.send(()).unwrap();
    assert!(matches!(second.end(), Err(Error::Cancelled)));
    scene.apply();
    assert_eq!(scene.get("a"), value("1"));
    assert!(scene.store.is_idle());
}

#[test]
fn cancelled_as_it_gets_its_latches_it_proposes_nothing() {
    let scene = Scene::new([]);
    let store = scene.store.clone();
    let put =
        Running::new(async move { store.send_until(ready(()), Request::put("a", "1")).await });
    assert!(matches!(put.end(), Err(Error::Cancelled)));
    assert_eq!(scene.kept.len(), 0);
    assert!(scene.store.is_idle());
}

#[test]
fn cancelled_after_proposing_it_is_ambiguous_and_its_latches_stay() {
    let scene = Scene::new([]);
    let (cancel, put) = start_until(&scene, Request::put("a", "1").into());
    cancel.send(()).unwrap();
    assert!(matches!(put.end(), Err(Error::Ambiguous(_))));
    let mut get = scene.start(Request::get("a"));
    assert!(get.is_waiting());
    scene.apply();
    assert_eq!(get.end().unwrap().responses, [Response::Value(value("1"))]);
    assert!(scene.store.is_idle());
}

#[test]
fn dropped_after_proposing_its_latches_stay_until_it_is_applied() {
    let scene = Scene::new([]);
    drop(scene.start(Request::put("a", "1")));
    let mut get = scene.start(Request::get("a"));
    assert!(get.is_waiting());
    scene.apply();
    assert_eq!(get.end().unwrap().responses, [Response::Value(value("1"))]);
}

#[test]
fn dropped_after_proposing_its_reads_are_protected_all_the_same() {
    let scene = Scene::new([]);
    scene.time.set(200);
    drop(scene.start(batch([Request::get("a"), Request::put("b", "1")]).at(ts(150))));
    scene.apply();
    let put = scene.serve(batch([Request::put("a", "1")]).at(ts(120)));
    assert_eq!(put.unwrap().timestamp, after(ts(150)));
}

#[test]
fn a_proposal_that_fails_fails_its_caller_and_applies_nothing() {
    let scene = Scene::new([]);
    let put = scene.start(Request::put("a", "1"));
    let mut get = scene.start(Request::get("a"));
    assert!(get.is_waiting());
    let full = EngineError::new("disk full");
    scene.kept.take().failed(Error::Engine(full));
    assert_eq!(
        put.end().unwrap_err().to_string(),
        "storage engine: disk full"
    );
    assert_eq!(get.end().unwrap().responses, [Response::Value(None)]);
    assert!(scene.store.is_idle());
    let count = |outcome| scene.store.metrics().requests.of(outcome).value();
    assert_eq!(count(Outcome::Failed), 1);
}

#[test]
fn a_proposal_that_is_lost_is_ambiguous() {
    let scene = Scene::new([]);
    let put = scene.start(Request::put("a", "1"));
    drop(scene.kept.take());
    assert!(matches!(put.end(), Err(Error::Ambiguous(_))));
    assert!(scene.store.is_idle());
    assert_eq!(scene.store.metrics().proposals_pending.value(), 0);
}

fn step(applier: &mut Applier) -> Poll<()> {
    Pin::new(applier).poll(&mut Context::from_waker(Waker::noop()))
}

fn start(store: &Store, request: Request) -> Running {
    let store = store.clone();
    Running::new(async move { store.send(request).await })
}

#[test]
fn all_that_is_proposed_between_two_polls_is_one_group() {
    let (store, mut applier) = Store::new();
    let put = start(&store, Request::put("a", "1"));
    let other = start(&store, Request::put("b", "1"));
    assert_eq!(applier.step(), 2);
    assert_eq!(applier.step(), 0);
    put.end().unwrap();
    other.end().unwrap();
}

#[test]
fn the_applier_ends_when_the_last_handle_is_gone_and_all_is_applied() {
    let engine = Arc::new(MemEngine::new());
    let (store, mut applier) = Store::builder().engine(engine.clone()).build();
    assert!(step(&mut applier).is_pending());
    drop(start(&store, Request::put("a", "1")));
    drop(store);
    assert!(step(&mut applier).is_pending(), "it applies");
    assert!(step(&mut applier).is_ready());
    let version = engine.snapshot().unwrap().get(&"a".into(), None).unwrap();
    assert_eq!(version.and_then(|version| version.value), value("1"));
}

#[test]
fn an_applier_that_runs_on_a_thread_ends_with_its_store() {
    let (store, applier) = Store::new();
    let thread = std::thread::spawn(move || applier.run());
    for _ in 0..100 {
        futures::executor::block_on(store.send(Request::increment("n", 1))).unwrap();
    }
    drop(store);
    thread.join().unwrap();
}

#[test]
fn an_applier_that_goes_away_fails_what_it_has_not_applied() {
    let (store, applier) = Store::new();
    let before = start(&store, Request::put("a", "1"));
    drop(applier);
    let after = start(&store, Request::put("a", "2"));
    for put in [before, after] {
        assert!(matches!(put.end(), Err(Error::ShuttingDown)));
    }
    assert!(store.is_idle());
}

#[test]
fn a_shut_down_ends_waits_and_still_applies_what_is_proposed() {
    let (store, mut applier) = Store::new();
    let proposed = start(&store, Request::put("a", "1"));
    let waiting = start(&store, Request::put("a", "2"));
    store.shut_down();
    assert!(matches!(waiting.end(), Err(Error::ShuttingDown)));
    let late = start(&store, Request::get("b"));
    assert!(matches!(late.end(), Err(Error::ShuttingDown)));
    assert!(step(&mut applier).is_pending(), "it applies");
    assert!(step(&mut applier).is_ready());
    proposed.end().unwrap();
    assert!(store.is_idle());
}

/// Applies and then says, or screams, that it failed.
#[derive(Debug)]
struct Broken {
    inner: MemEngine,
    screams: fn(),
}

impl Engine for Broken {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.inner.snapshot()
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.inner.apply(group)?;
        (self.screams)();
        Err(EngineError::new("wire cut"))
    }

    forward_marks!(inner);
}

/// Applies nothing, and says so.
#[derive(Debug, Default)]
struct Full {
    inner: MemEngine,
}

impl Engine for Full {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.inner.snapshot()
    }

    fn apply(&self, _: Vec<WriteBatch>) -> Result<(), EngineError> {
        Err(EngineError::refused("no space left"))
    }

    forward_marks!(inner);
}

#[test]
fn an_engine_that_refuses_to_apply_fails_the_callers() {
    let time = ManualSource::at(100);
    let (store, mut applier) = builder(&time).engine(Arc::new(Full::default())).build();
    let puts = ["a", "b"].map(|key| start(&store, Request::put(key, "1")));
    assert_eq!(applier.step(), 2);
    for put in puts {
        let error = put.end().unwrap_err();
        assert!(matches!(error, Error::Engine(_)), "{error}");
    }
    assert!(store.is_idle());
}

#[test]
fn an_engine_that_fails_to_apply_leaves_ambiguous_results() {
    for screams in [(|| ()) as fn(), || panic!("as planned")] {
        let inner = MemEngine::new();
        let engine = Arc::new(Broken { inner, screams });
        let time = ManualSource::at(100);
        let (store, mut applier) = builder(&time).engine(engine).build();
        let puts = ["a", "b"].map(|key| start(&store, Request::put(key, "1")));
        let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| applier.step()));
        drop(stepped);
        for put in puts {
            assert!(matches!(put.end(), Err(Error::Ambiguous(_))));
        }
        assert!(store.is_idle());
    }
}
