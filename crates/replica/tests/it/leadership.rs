//! A store that is one of several replicas, and what it asks.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spanlatch::Manager;
use spanlatch_replica::{
    Batch, Engine, Error, Leadership, Leading, ManualSource, MemEngine, Request, Response, Store,
    Value, WriteBatch,
};
use spanset::{Key, Span, Timestamp};

use crate::scene::{Kept, Running, batch, builder, ts};

/// Answers when and as the test says.
#[derive(Debug, Default)]
struct Group {
    /// What was asked and not answered.
    asked: Mutex<Vec<Asked>>,
}

#[derive(Debug)]
struct Asked {
    /// The ceiling to be raised to; else whether it leads.
    ceiling: Option<Timestamp>,
    answer: futures::channel::oneshot::Sender<Result<(), Error>>,
}

impl Group {
    fn ask(&self, ceiling: Option<Timestamp>) -> Leading {
        let (answer, answered) = futures::channel::oneshot::channel();
        self.asked.lock().push(Asked { ceiling, answer });
        Box::pin(async { answered.await.expect("it is answered") })
    }

    /// Answers the oldest question, which has to be this.
    fn answer(&self, ceiling: Option<Timestamp>, answer: Result<(), Error>) {
        let asked = self.asked.lock().remove(0);
        assert_eq!(asked.ceiling, ceiling);
        let _ = asked.answer.send(answer);
    }

    fn is_asked(&self) -> bool {
        !self.asked.lock().is_empty()
    }
}

impl Leadership for Group {
    fn confirm(&self) -> Leading {
        self.ask(None)
    }

    fn raise_ceiling(&self, to: Timestamp) -> Leading {
        self.ask(Some(to))
    }
}

struct Scene {
    engine: Arc<MemEngine>,
    group: Arc<Group>,
    kept: Kept,
    store: Store,
}

impl Scene {
    /// A store at time 100, which may serve up to time 1000.
    fn new() -> Self {
        let engine = Arc::new(MemEngine::outliving_stores());
        engine.raise_ceiling(ts(50)).unwrap();
        let scene = Self::on(engine);
        // Something has to be served for the ceiling to be raised.
        let mut empty = scene.start(batch([]));
        scene.group.answer(None, Ok(()));
        assert!(empty.is_waiting());
        scene.group.answer(Some(ts(1100)), Ok(()));
        empty.end().unwrap();
        scene
    }

    fn on(engine: Arc<MemEngine>) -> Self {
        let (group, kept) = (Arc::new(Group::default()), Kept::default());
        let store = builder(&ManualSource::at(100))
            .engine(engine.clone())
            .ceiling_step(Duration::from_nanos(1000))
            .leadership(group.clone())
            .build_proposing(Arc::new(kept.clone()), |_| Manager::new());
        Self {
            engine,
            group,
            kept,
            store,
        }
    }

    fn start(&self, batch: Batch) -> Running {
        let store = self.store.clone();
        Running::new(async move { store.send(batch).await })
    }

    /// As if a leader had had it applied.
    fn apply(&self, at: u64, value: &'static str) {
        let writes = vec![(Key::from("a"), Some(Value::from(value)))];
        let timestamp = ts(at);
        self.engine
            .apply(vec![WriteBatch { timestamp, writes }])
            .unwrap();
    }
}

fn value_of(running: Running) -> Option<Value> {
    match running.end().unwrap().responses.remove(0) {
        Response::Value(value) => value,
        Response::Rows { mut rows, .. } => rows.pop().map(|(_, value)| value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_are_evaluated_when_it_is_confirmed_that_the_store_may() {
    for request in [
        Request::get("a"),
        Request::scan(Span::all()),
        Request::scan(Span::all()).limited(1),
    ] {
        let scene = Scene::new();
        let mut read = scene.start(batch([request]));
        assert!(read.is_waiting() && scene.group.is_asked());
        // What is confirmed to have been applied by then must be seen.
        scene.apply(10, "1");
        scene.group.answer(None, Ok(()));
        assert_eq!(value_of(read), Some("1".into()));
    }
}

#[test]
fn who_may_not_serve_says_so_and_holds_nothing() {
    for request in [
        Request::get("a"),
        Request::scan(Span::all()).limited(1),
        Request::conditional_put("a", Some("0".into()), "1"),
        Request::increment("a", 1),
        Request::delete_range(Span::all()),
    ] {
        let scene = Scene::new();
        let asked = scene.start(batch([request]));
        let leader = Some("there".into());
        scene.group.answer(None, Err(Error::NotLeader { leader }));
        let error = asked.end().unwrap_err();
        assert_eq!(error.to_string(), "this replica does not lead: there");
        assert!(scene.store.is_idle());
    }
}

#[test]
fn what_only_writes_is_proposed_without_asking() {
    let scene = Scene::new();
    let mut write = scene.start(batch([Request::put("a", "1"), Request::delete("b")]));
    assert!(write.is_waiting() && !scene.group.is_asked());
    scene.kept.take().applied();
    write.end().unwrap();
}

#[test]
fn nothing_is_proposed_or_answered_above_a_ceiling_that_is_not_raised() {
    let scene = Scene::new();
    let mut write = scene.start(batch([Request::put("a", "1")]).at(ts(1100)));
    assert!(write.is_waiting());
    assert_eq!(scene.kept.len(), 0);
    scene.group.answer(Some(ts(2100)), Ok(()));
    assert!(write.is_waiting());
    scene.kept.take().applied();
    write.end().unwrap();

    let mut read = scene.start(batch([Request::get("a")]).at(ts(1099)));
    scene.group.answer(None, Ok(()));
    assert!(!read.is_waiting(), "it is covered");
    assert!(!scene.group.is_asked());
}

#[test]
fn a_new_leader_begins_at_the_ceiling_of_the_last() {
    let engine = Arc::new(MemEngine::outliving_stores());
    engine.raise_ceiling(ts(5000)).unwrap();
    let scene = Scene::on(engine);
    let mut write = scene.start(batch([Request::put("a", "1")]).at(ts(7)));
    assert!(write.is_waiting());
    scene.group.answer(Some(ts(6000)), Ok(()));
    assert!(write.is_waiting());
    assert!(scene.kept.take().writes().timestamp > ts(5000));
}

#[test]
fn a_read_of_what_another_leader_has_collected_is_refused() {
    let scene = Scene::new();
    scene.apply(5, "5");
    scene.apply(20, "20");
    let read = scene.start(batch([Request::get("a")]).at(ts(10)));
    // It is confirmed, and is not polled until the next leader has had this applied here.
    scene.engine.collect(ts(30)).unwrap();
    scene.group.answer(None, Ok(()));
    let error = read.end().unwrap_err();
    assert!(matches!(error, Error::BelowThreshold { .. }), "{error}");
}

#[test]
fn such_a_store_does_not_collect_alone() {
    let scene = Scene::new();
    scene.apply(5, "5");
    scene.apply(20, "20");
    let error = scene.store.collect_garbage(ts(30)).unwrap_err();
    assert!(
        matches!(error, Error::Engine(ref e) if e.is_refusal()),
        "{error}"
    );
    assert_eq!(scene.store.versions(Span::all()).unwrap().count(), 2);
}
