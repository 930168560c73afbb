//! One range: what waits for what, which timestamps come out, and what is refused.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanlatch::{Guard, Manager, OnPoison};
use spanlatch_metrics::{Outcome, ReplicaMetrics};
use spanlatch_replica::{
    Batch, Engine, EngineError, Error, Latches, ManualSource, MemEngine, Optimist, RangeId,
    Request, Response, Snapshot, Waiting, WriteBatch,
};
use spanset::{Key, Span, SpanSet};

use crate::scene::{
    Kept, Running, Scene, after, batch, builder, forward_marks, range, rows, ts, value,
};

#[test]
fn a_read_waits_for_an_earlier_write_until_it_is_applied() {
    let scene = Scene::new([]);
    let mut put = scene.start(Request::put("a", "1"));
    let mut get = scene.start(Request::get("a"));
    assert!(put.is_waiting() && get.is_waiting());
    scene.apply();
    assert!(!get.is_waiting(), "before the writer has responded");
    assert_eq!(get.end().unwrap().responses, [Response::Value(value("1"))]);
    assert_eq!(put.end().unwrap().responses, [Response::Written]);
    assert!(scene.store.is_idle());
}

#[test]
fn a_read_below_an_earlier_write_does_not_wait() {
    let scene = Scene::new([]);
    let mut put = scene.start(Request::put("a", "1"));
    let get = scene.start(batch([Request::get("a")]).at(ts(50)));
    assert_eq!(get.end().unwrap().responses, [Response::Value(None)]);
    assert!(put.is_waiting());
    scene.apply();
}

#[test]
fn a_write_waits_for_an_earlier_write_and_goes_above_it() {
    let scene = Scene::new([]);
    scene.time.set(200);
    let first = scene.start(batch([Request::put("a", "1")]).at(ts(150)));
    let mut second = scene.start(batch([Request::put("a", "2")]).at(ts(120)));
    assert_eq!(scene.kept.len(), 1);
    scene.apply();
    assert!(second.is_waiting());
    assert_eq!(scene.kept.len(), 1);
    scene.apply();
    assert_eq!(first.end().unwrap().timestamp, ts(150));
    assert_eq!(second.end().unwrap().timestamp, after(ts(150)));
    assert_eq!(scene.get("a"), value("2"));
}

#[test]
fn writes_of_different_keys_do_not_wait_for_one_another() {
    let scene = Scene::new([]);
    let _a = scene.start(Request::put("a", "1"));
    let _b = scene.start(Request::put("b", "1"));
    assert_eq!(scene.kept.len(), 2);
}

#[test]
fn a_read_raises_the_timestamp_of_a_later_write() {
    let scene = Scene::new([]);
    scene.time.set(200);
    let read = batch([Request::get("a"), Request::scan(range("c", "e"))]).at(ts(150));
    scene.serve(read).unwrap();
    for key in ["a", "c", "d"] {
        let put = scene.serve(batch([Request::put(key, "1")]).at(ts(120)));
        assert_eq!(put.unwrap().timestamp, after(ts(150)), "{key}");
    }
    for key in ["b", "e"] {
        let put = scene.serve(batch([Request::put(key, "1")]).at(ts(120)));
        assert_eq!(put.unwrap().timestamp, ts(120), "{key}");
    }
}

#[test]
fn a_read_of_a_batch_that_writes_elsewhere_raises_later_writes_too() {
    let scene = Scene::new([]);
    scene.time.set(200);
    let mixed = batch([Request::get("a"), Request::put("z", "1")]).at(ts(150));
    scene.serve(mixed).unwrap();
    let put = scene.serve(batch([Request::put("a", "1")]).at(ts(120)));
    assert_eq!(put.unwrap().timestamp, after(ts(150)));
}

#[test]
fn reads_and_writes_of_one_batch_move_together() {
    let scene = Scene::new([]);
    scene.time.set(200);
    scene
        .serve(batch([Request::put("b", "late")]).at(ts(140)))
        .unwrap();
    scene.serve(batch([Request::get("a")]).at(ts(150))).unwrap();
    let both = batch([Request::get("b"), Request::put("a", "1")]).at(ts(120));
    let reply = scene.serve(both).unwrap();
    assert_eq!(reply.timestamp, after(ts(150)));
    assert_eq!(
        reply.responses,
        [Response::Value(value("late")), Response::Written]
    );
}

#[test]
fn a_conditional_put_that_fails_protects_what_it_read() {
    let scene = Scene::new([]);
    scene.time.set(200);
    let requests = [
        Request::increment("n", 1),
        Request::conditional_put("a", value("x"), "y"),
        Request::increment("m", 1),
    ];
    let error = scene.serve(batch(requests).at(ts(150))).unwrap_err();
    assert!(
        matches!(&error, Error::ConditionFailed { index: 1, key, actual: None } if key == "a"),
        "{error}"
    );
    assert_eq!(scene.kept.len(), 0, "nothing was proposed");
    assert!(scene.store.is_idle());
    for (key, expected) in [("a", after(ts(150))), ("n", after(ts(150))), ("m", ts(120))] {
        let put = scene.serve(batch([Request::put(key, "1")]).at(ts(120)));
        assert_eq!(put.unwrap().timestamp, expected, "{key}");
    }
}

#[test]
fn a_limited_scan_protects_what_it_covered_and_no_more() {
    let scene = Scene::new([]);
    for key in ["b", "d", "f"] {
        scene
            .serve(batch([Request::put(key, "1")]).at(ts(10)))
            .unwrap();
    }
    scene.time.set(300);
    let scan = |request: Request, at| {
        let reply = scene.serve(batch([request.limited(2)]).at(ts(at))).unwrap();
        reply.responses
    };
    let up = scan(Request::scan(range("a", "z")), 150);
    let resume = Some(range("d\0", "z"));
    assert_eq!(
        up,
        [Response::Rows {
            rows: rows([("b", "1"), ("d", "1")]),
            resume
        }]
    );
    for (key, expected) in [("a", after(ts(150))), ("d", after(ts(150))), ("e", ts(120))] {
        let put = scene.serve(batch([Request::put(key, "2")]).at(ts(120)));
        assert_eq!(put.unwrap().timestamp, expected, "{key}");
    }

    let down = scan(Request::reverse_scan(range("a", "z")), 250);
    let resume = Some(range("a", "e"));
    assert_eq!(
        down,
        [Response::Rows {
            rows: rows([("f", "1"), ("e", "2")]),
            resume
        }]
    );
    for (key, expected) in [
        ("e", after(ts(250))),
        ("y", after(ts(250))),
        ("dz", ts(220)),
    ] {
        let put = scene.serve(batch([Request::put(key, "3")]).at(ts(220)));
        assert_eq!(put.unwrap().timestamp, expected, "{key}");
    }
}

#[test]
fn scans_return_what_is_left_of_their_span() {
    let scene = Scene::new([]);
    for key in ["a", "b", "c"] {
        scene.serve(Request::put(key, key)).unwrap();
    }
    scene.serve(Request::delete("b")).unwrap();
    let mut seen = Vec::new();
    let mut rest = Some(Span::all());
    while let Some(span) = rest {
        let reply = scene.serve(Request::reverse_scan(span).limited(1)).unwrap();
        match reply.responses.into_iter().next().unwrap() {
            Response::Rows { rows, resume } => {
                seen.extend(rows);
                rest = resume;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, rows([("c", "c"), ("a", "a")]));
}

#[test]
fn a_batch_sees_its_own_writes_and_the_last_one_stays() {
    let scene = Scene::new([]);
    scene
        .serve(batch([Request::put("a", "old"), Request::put("b", "old")]))
        .unwrap();
    let reply = scene
        .serve(batch([
            Request::put("a", "1"),
            Request::get("a"),
            Request::delete("b"),
            Request::put("c", "1"),
            Request::scan(Span::all()),
            Request::conditional_put("a", value("1"), "2"),
            Request::delete_range(range("b", "d")),
            Request::reverse_scan(Span::all()),
        ]))
        .unwrap();
    assert_eq!(
        reply.responses,
        [
            Response::Written,
            Response::Value(value("1")),
            Response::Written,
            Response::Written,
            Response::Rows {
                rows: rows([("a", "1"), ("c", "1")]),
                resume: None
            },
            Response::Written,
            Response::Deleted {
                keys: vec!["c".into()],
                resume: None
            },
            Response::Rows {
                rows: rows([("a", "2")]),
                resume: None
            },
        ]
    );
    let versions: Vec<_> = scene
        .store
        .versions(Span::all())
        .unwrap()
        .map(|version| version.unwrap())
        .filter(|(_, version)| version.timestamp == reply.timestamp)
        .map(|(key, version)| (key, version.value))
        .collect();
    let expected: [(Key, _); 3] = [
        ("a".into(), value("2")),
        ("b".into(), None),
        ("c".into(), None),
    ];
    assert_eq!(versions, expected);
}

#[test]
fn integers_are_counted_and_other_values_refused() {
    let scene = Scene::new([]);
    let sums = scene
        .serve(batch([
            Request::increment("n", 5),
            Request::increment("n", -7),
        ]))
        .unwrap();
    assert_eq!(
        sums.responses,
        [Response::Incremented(5), Response::Incremented(-2)]
    );
    let error = scene.serve(Request::increment("n", i64::MIN)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::IncrementOverflow {
                actual: -2,
                by: i64::MIN,
                ..
            }
        ),
        "{error}"
    );
    scene.serve(Request::put("s", "seven b")).unwrap();
    let error = scene.serve(Request::increment("s", 1)).unwrap_err();
    assert!(
        matches!(&error, Error::NotAnInteger { actual, .. } if actual == "seven b"),
        "{error}"
    );
}

#[test]
fn a_batch_without_effects_proposes_nothing_and_protects_what_it_read() {
    let scene = Scene::new([]);
    scene.time.set(200);
    let nothing = batch([Request::delete_range(range("a", "c"))]).at(ts(150));
    let reply = scene.start(nothing).end().unwrap();
    assert_eq!(
        reply.responses,
        [Response::Deleted {
            keys: vec![],
            resume: None
        }]
    );
    let put = scene.serve(batch([Request::put("b", "1")]).at(ts(120)));
    assert_eq!(put.unwrap().timestamp, after(ts(150)));
}

#[test]
fn a_range_deletion_goes_above_versions_that_it_would_miss() {
    let scene = Scene::new([]);
    scene.time.set(200);
    scene
        .serve(batch([Request::put("b", "1")]).at(ts(150)))
        .unwrap();
    let reply = scene
        .serve(batch([Request::delete_range(range("a", "c"))]).at(ts(120)))
        .unwrap();
    assert_eq!(reply.timestamp, after(ts(150)));
    assert_eq!(
        reply.responses,
        [Response::Deleted {
            keys: vec!["b".into()],
            resume: None
        }]
    );
}

#[test]
fn the_clock_has_reached_a_pushed_timestamp_before_it_is_acknowledged() {
    let scene = Scene::new([]);
    let ahead = ts(100 + 900);
    scene.serve(batch([Request::get("a")]).at(ahead)).unwrap();
    let put = scene
        .serve(batch([Request::put("a", "1")]).at(ts(100)))
        .unwrap();
    assert_eq!(put.timestamp, after(ahead));
    let get = scene.serve(Request::get("a")).unwrap();
    assert!(get.timestamp > put.timestamp);
    assert_eq!(get.responses, [Response::Value(value("1"))]);
}

#[test]
fn bad_input_is_refused_before_anything_is_latched() {
    let time = spanlatch_replica::ManualSource::at(100);
    let (store, _applier) = crate::scene::builder(&time)
        .splits(["m".into()])
        .max_value_bytes(3)
        .build();
    let refused = |batch: Batch| {
        let store = store.clone();
        let error = Running::new(async move { store.send(batch).await }).end();
        error.unwrap_err()
    };

    let error = refused(batch([Request::get("a")]).at(ts(1_101)));
    assert_eq!(
        error.to_string(),
        "timestamp 0.000001101,0 is more than 1µs ahead of the clock at 0.000000100,0"
    );
    let error = refused(batch([Request::get("a"), Request::put("b", "long")]));
    assert_eq!(
        error.to_string(),
        "the value for b\"b\" has 4 bytes, more than 3"
    );
    let error = refused(batch([Request::get("a"), Request::delete(vec![0; 32_001])]));
    assert_eq!(
        error.to_string(),
        "the key that request 1 writes has 32001 bytes, more than 32000"
    );
    let nothing = Request::scan(Span::all()).limited(0);
    let error = refused(batch([Request::get("a"), nothing]));
    assert_eq!(error.to_string(), "request 1 has the limit 0");
    let error = store.replica(RangeId(2)).unwrap_err();
    assert_eq!(error.to_string(), "there is no range r2");
    let replica = store.replica(RangeId(1)).unwrap();
    let outside = futures::executor::block_on(replica.send(Request::get("a")));
    assert_eq!(
        outside.unwrap_err().to_string(),
        "[\"a\"] is not within range r1, which holds [\"m\", ..)"
    );
    assert!(store.is_idle());
    assert_eq!(store.metrics().requests.of(Outcome::Refused).value(), 5);
    assert_eq!(store.metrics().request_duration.count(), 5);
    assert_eq!(store.metrics().proposals.value(), 0);
    assert_eq!(store.versions(Span::all()).unwrap().count(), 0);
}

#[test]
fn an_empty_batch_latches_nothing() {
    let scene = Scene::new([]);
    scene.store.replicas()[0].latches().shut_down();
    let reply = scene.start(Batch::new()).end().unwrap();
    assert_eq!(reply.responses, []);
}

#[test]
fn each_batch_reads_the_descriptor_of_its_range() {
    let scene = Scene::new([]);
    let _put = scene.start(Request::put("a", "1"));
    let counts = scene.store.replicas()[0].latches().counts();
    assert_eq!((counts.local_reads, counts.global_writes), (1, 1));
}

#[test]
fn a_replica_serves_its_own_range() {
    let scene = Scene::new(["m"]);
    let replica = scene.store.replica(RangeId(1)).unwrap();
    assert_eq!(replica.span(), Span::starting_at("m"));
    let get = futures::executor::block_on(replica.send(Request::get("n")));
    assert_eq!(get.unwrap().responses, [Response::Value(None)]);
}

#[test]
fn a_store_that_is_told_the_time_counts_slow_waits_in_every_range() {
    let (metrics, kept) = (ReplicaMetrics::default(), Kept::default());
    let began = Instant::now();
    let latched = metrics.clone();
    let store = builder(&ManualSource::at(100))
        .splits([Key::from("m")])
        .metrics(metrics.clone())
        .build_proposing(Arc::new(kept.clone()), move |_| {
            Manager::builder()
                .metrics(latched.latch())
                .slow_threshold(Duration::from_secs(3))
                .clock(move || began)
                .build()
        });
    let start = |request: Request| {
        let store = store.clone();
        Running::new(async move { store.send(request).await })
    };
    let mut puts = ["a", "z"].map(|key| start(Request::put(key, "1")));
    let [mut low, mut high] = ["a", "z"].map(|key| start(Request::get(key)));
    let slow = || metrics.slow_latch.value();

    store.tick(began + Duration::from_secs(3));
    assert_eq!(slow(), 0, "as long as the threshold is not longer");
    store.tick(began + Duration::from_secs(4));
    assert_eq!(slow(), 2);
    kept.take().applied();
    assert!(!low.is_waiting() && high.is_waiting());
    assert_eq!(slow(), 1);
    kept.take().applied();
    assert!(!high.is_waiting());
    assert_eq!(slow(), 0);
    assert!(puts.iter_mut().all(|put| !put.is_waiting()));
}

#[test]
fn every_end_is_counted() {
    let scene = Scene::new([]);
    let count = |outcome| scene.store.metrics().requests.of(outcome).value();
    scene.serve(Request::put("a", "1")).unwrap();
    scene
        .serve(Request::conditional_put("a", None, "2"))
        .unwrap_err();
    let put = scene.start(Request::put("a", "2"));
    assert_eq!(scene.store.metrics().proposals_pending.value(), 1);
    drop(scene.start(Request::get("a")));
    drop(put);
    scene.apply();
    assert_eq!(scene.store.metrics().proposals_pending.value(), 0);
    assert_eq!(scene.store.metrics().proposals.value(), 2);
    assert_eq!(count(Outcome::Success), 1);
    assert_eq!(count(Outcome::Failed), 1);
    assert_eq!(count(Outcome::Cancelled), 1);
    assert_eq!(count(Outcome::Ambiguous), 1);
    assert_eq!(scene.store.metrics().request_duration.count(), 4);
}

/// Panics when it is read, once.
#[derive(Debug, Default)]
struct Panicking {
    inner: MemEngine,
    armed: AtomicBool,
}

impl Engine for Panicking {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        assert!(!self.armed.swap(false, Ordering::Relaxed), "as planned");
        self.inner.snapshot()
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.inner.apply(group)
    }

    forward_marks!(inner);
}

#[test]
fn a_panic_in_evaluation_releases_the_latches() {
    let engine = Arc::new(Panicking::default());
    let scene = Scene::build(engine.clone(), vec![], Manager::new);
    engine.armed.store(true, Ordering::Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(|| scene.start(Request::put("a", "1"))));
    assert!(panicked.is_err());
    assert!(scene.store.is_idle());
    assert_eq!(scene.get("a"), None);
}

/// Latches that do something just after they are released, once.
struct Hooked {
    manager: Manager,
    hook: Hook,
}

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

struct HookedGuard<G = Guard> {
    guard: Option<G>,
    hook: Hook,
}

struct HookedOptimist {
    optimist: Box<dyn Optimist<Guard>>,
    hook: Hook,
}

impl Optimist<HookedGuard> for HookedOptimist {
    fn check(self: Box<Self>, read: &SpanSet) -> Result<Box<dyn Any + Send>, Waiting<HookedGuard>> {
        let hook = self.hook;
        match self.optimist.check(read) {
            Ok(validated) => Ok(Box::new(HookedGuard {
                guard: Some(validated),
                hook,
            })),
            Err(waiting) => Err(Box::pin(async move {
                let guard = Some(waiting.await?);
                Ok(HookedGuard { guard, hook })
            })),
        }
    }
}

impl<G> Drop for HookedGuard<G> {
    fn drop(&mut self) {
        drop(self.guard.take());
        let hook = self.hook.lock().take();
        if let Some(hook) = hook {
            hook();
        }
    }
}

impl Latches for Hooked {
    type Guard = HookedGuard;

    fn acquire(
        &self,
        spans: &SpanSet,
        on_poison: OnPoison,
    ) -> impl Future<Output = Result<HookedGuard, Error>> + Send + 'static {
        let guard = Latches::acquire(&self.manager, spans, on_poison);
        let hook = self.hook.clone();
        async move {
            let guard = Some(guard.await?);
            Ok(HookedGuard { guard, hook })
        }
    }

    fn acquire_optimistically(
        &self,
        spans: &SpanSet,
        on_poison: OnPoison,
    ) -> Result<Option<Box<dyn Optimist<HookedGuard>>>, Error> {
        let optimist = self.manager.acquire_optimistically(spans, on_poison)?;
        let hook = self.hook.clone();
        Ok(optimist.map(|optimist| Box::new(HookedOptimist { optimist, hook }) as Box<_>))
    }

    fn is_idle(&self) -> bool {
        Latches::is_idle(&self.manager)
    }

    fn shut_down(&self) {
        self.manager.shut_down();
    }
}

#[test]
fn reads_are_recorded_before_the_latches_are_released() {
    for read in [
        batch([Request::get("a")]),
        batch([Request::scan(range("a", "b")).limited(1)]),
        batch([Request::conditional_put("a", value("x"), "y")]),
        batch([Request::get("a"), Request::put("z", "1")]),
    ] {
        let hook = Hook::default();
        let hooked = hook.clone();
        let scene = Scene::build(Arc::new(MemEngine::new()), vec![], move || Hooked {
            manager: Manager::new(),
            hook: hooked.clone(),
        });
        scene.time.set(200);
        let (store, kept) = (scene.store.clone(), scene.kept.clone());
        let written = Arc::new(Mutex::new(None));
        let result = written.clone();
        *hook.lock() = Some(Box::new(move || {
            let put = batch([Request::put("a", "1")]).at(ts(120));
            drop(Running::new(async move { store.send(put).await }));
            *result.lock() = Some(kept.take().writes().timestamp);
        }));
        let reading = scene.start(read.at(ts(150)));
        if scene.kept.len() == 1 {
            scene.apply();
        }
        drop(reading);
        assert_eq!(*written.lock(), Some(after(ts(150))));
    }
}
