//! How much of the engine's work a batch asks for, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spanlatch::Manager;
use spanlatch_replica::{Engine, EngineError, MemEngine, Request, Snapshot, Version, WriteBatch};
use spanset::{Cursor, End, Key, Reader, Span, Timestamp};

use crate::scene::Scene;
use crate::scene::forward_marks;

/// How often each kind of work was done.
#[derive(Debug, Default)]
struct Counts {
    snapshots: AtomicUsize,
    gets: AtomicUsize,
    moves: AtomicUsize,
}

impl Counts {
    /// Snapshots, gets and moves of cursors since the last look.
    fn take(&self) -> [usize; 3] {
        [&self.snapshots, &self.gets, &self.moves].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
struct Counting {
    inner: MemEngine,
    counts: Arc<Counts>,
}

struct CountingReader<R> {
    inner: R,
    counts: Arc<Counts>,
}

impl Engine for Counting {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.counts.snapshots.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(CountingReader {
            inner: self.inner.snapshot()?,
            counts: self.counts.clone(),
        }))
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.inner.apply(group)
    }

    forward_marks!(inner);
}

impl Reader for CountingReader<Snapshot> {
    type Value = Version;
    type Error = EngineError;

    fn get(&self, key: &Key, at: Option<Timestamp>) -> Result<Option<Version>, EngineError> {
        self.counts.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key, at)
    }

    fn cursor(
        &self,
        at: Option<Timestamp>,
    ) -> Box<dyn Cursor<Value = Version, Error = EngineError> + '_> {
        Box::new(CountingReader {
            inner: self.inner.cursor(at),
            counts: self.counts.clone(),
        })
    }
}

impl<C: Cursor> Cursor for CountingReader<C> {
    type Value = C::Value;
    type Error = C::Error;

    fn seek(&mut self, key: &Key) -> Result<(), C::Error> {
        self.counts.moves.fetch_add(1, Ordering::Relaxed);
        self.inner.seek(key)
    }

    fn seek_back(&mut self, end: End<'_>) -> Result<(), C::Error> {
        self.counts.moves.fetch_add(1, Ordering::Relaxed);
        self.inner.seek_back(end)
    }

    fn next(&mut self) -> Result<(), C::Error> {
        self.counts.moves.fetch_add(1, Ordering::Relaxed);
        self.inner.next()
    }

    fn prev(&mut self) -> Result<(), C::Error> {
        self.counts.moves.fetch_add(1, Ordering::Relaxed);
        self.inner.prev()
    }

    fn item(&self) -> Option<(&Key, &C::Value)> {
        self.inner.item()
    }
}

#[test]
fn a_batch_takes_one_snapshot_and_looks_each_key_up_once() {
    const KEYS: usize = 128;
    let engine = Counting::default();
    let counts = engine.counts.clone();
    let scene = Scene::build(Arc::new(engine), vec![], Manager::new);
    let keys = || (0..KEYS).map(|i| Key::from(format!("{i:04}")));
    let serve = |requests: Vec<Request>| {
        scene.serve(requests).unwrap();
        counts.take()
    };
    let once = [1, KEYS, 0];
    assert_eq!(
        serve(keys().map(|key| Request::put(key, "1")).collect()),
        once
    );
    assert_eq!(serve(keys().map(Request::get).collect()), once);
    let conditional = |key| Request::conditional_put(key, Some("1".into()), "2");
    assert_eq!(serve(keys().map(conditional).collect()), once);
    let both = |key: Key| [Request::put(key.clone(), "3"), Request::get(key)];
    assert_eq!(
        serve(keys().flat_map(both).collect()),
        once,
        "own writes are at hand"
    );
    assert_eq!(serve(vec![Request::scan(Span::all())]), [1, 0, KEYS + 1]);
    let limited = Request::reverse_scan(Span::all()).limited(5);
    assert_eq!(serve(vec![limited]), [1, 0, 6]);
    assert_eq!(serve(keys().map(Request::delete).collect()), once);
    assert_eq!(serve(vec![]), [0, 0, 0]);
}
