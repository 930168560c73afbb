//! A store whose time, proposals and polls are in the hands of the test.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use spanlatch::Manager;
use spanlatch_replica::{
    Batch, Clock, Engine, Error, Latches, ManualSource, MemEngine, Proposal, Proposer, Reply,
    Request, Response, Store, StoreBuilder, Value,
};
use spanset::{Key, Span, Timestamp};

/// How far ahead of the scene's time a timestamp may be.
pub(crate) const MAX_AHEAD: Duration = Duration::from_nanos(1_000);

pub(crate) fn ts(wall: u64) -> Timestamp {
    Timestamp::new(wall, 0)
}

pub(crate) fn after(timestamp: Timestamp) -> Timestamp {
    timestamp.next().unwrap()
}

pub(crate) fn range(start: &'static str, end: &'static str) -> Span {
    Span::range(start, end).unwrap()
}

pub(crate) fn batch<const N: usize>(requests: [Request; N]) -> Batch {
    Vec::from(requests).into()
}

pub(crate) fn value(text: &'static str) -> Option<Value> {
    Some(Value::from_static(text.as_bytes()))
}

pub(crate) fn rows<const N: usize>(rows: [(&'static str, &'static str); N]) -> Vec<(Key, Value)> {
    rows.map(|(key, value)| (key.into(), value.into())).into()
}

/// The methods of an engine that a wrapper forwards to the engine in its field.
macro_rules! forward_marks {
    ($inner:ident) => {
        fn marks(&self) -> spanlatch_replica::Marks {
            self.$inner.marks()
        }

        fn raise_ceiling(&self, to: spanset::Timestamp) -> Result<(), EngineError> {
            self.$inner.raise_ceiling(to)
        }

        fn collect(
            &self,
            threshold: spanset::Timestamp,
        ) -> Result<spanlatch_replica::Collected, EngineError> {
            self.$inner.collect(threshold)
        }
    };
}

pub(crate) use forward_marks;

/// Keeps proposals until the test ends them.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Vec<Proposal>>>);

impl Proposer for Kept {
    fn propose(&self, proposal: Proposal) {
        self.0.lock().push(proposal);
    }

    fn shut_down(&self) {}
}

impl Kept {
    /// Takes out the oldest proposal.
    pub(crate) fn take(&self) -> Proposal {
        self.remove(0)
    }

    pub(crate) fn remove(&self, position: usize) -> Proposal {
        self.0.lock().remove(position)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

pub(crate) struct Scene<L = Manager> {
    pub(crate) store: Store<L>,
    pub(crate) kept: Kept,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) time: ManualSource,
}

/// A builder on a clock that stands at `time`.
pub(crate) fn builder(time: &ManualSource) -> StoreBuilder {
    Store::builder().clock(Clock::with_source(time.clone(), MAX_AHEAD))
}

impl Scene {
    /// A store split at `splits`, at time 100.
    pub(crate) fn new<const N: usize>(splits: [&'static str; N]) -> Self {
        Self::split(splits.map(Key::from).into())
    }

    pub(crate) fn split(splits: Vec<Key>) -> Self {
        Self::build(Arc::new(MemEngine::new()), splits, Manager::new)
    }
}

impl<L: Latches> Scene<L> {
    pub(crate) fn build(
        engine: Arc<dyn Engine>,
        splits: Vec<Key>,
        latches: impl Fn() -> L + Send + Sync + 'static,
    ) -> Self {
        let kept = Kept::default();
        let time = ManualSource::at(100);
        let store = builder(&time)
            .splits(splits)
            .engine(engine.clone())
            .build_proposing(Arc::new(kept.clone()), move |_| latches());
        Scene {
            store,
            kept,
            engine,
            time,
        }
    }

    /// Starts a batch and goes as far as it can.
    pub(crate) fn start(&self, batch: impl Into<Batch>) -> Running {
        let (store, batch) = (self.store.clone(), batch.into());
        Running::new(async move { store.send(batch).await })
    }

    /// Applies the oldest proposal.
    pub(crate) fn apply(&self) {
        self.apply_at(0);
    }

    /// Applies the proposal that is the so-maniest in the order of proposing.
    pub(crate) fn apply_at(&self, position: usize) {
        let mut proposal = self.kept.remove(position);
        self.engine.apply(vec![proposal.take_writes()]).unwrap();
        proposal.applied();
    }

    /// Serves a batch that nothing is in the way of.
    pub(crate) fn serve(&self, batch: impl Into<Batch>) -> Result<Reply, Error> {
        let mut running = self.start(batch);
        if running.is_waiting() {
            self.apply();
        }
        running.end()
    }

    pub(crate) fn get(&self, key: &'static str) -> Option<Value> {
        match &self.serve(Request::get(key)).unwrap().responses[..] {
            [Response::Value(value)] => value.clone(),
            other => panic!("{other:?}"),
        }
    }
}

type Served = Result<Reply, Error>;

/// A batch on its way. Polled only when the test says so.
pub(crate) struct Running<T = Served> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    result: Option<T>,
}

impl<T> Running<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        let mut running = Running {
            future: Box::pin(future),
            result: None,
        };
        running.poll();
        running
    }

    pub(crate) fn poll(&mut self) {
        if self.result.is_none()
            && let Poll::Ready(result) = self
                .future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
        {
            self.result = Some(result);
        }
    }

    /// Goes as far as it can, and says whether that was not to the end.
    pub(crate) fn is_waiting(&mut self) -> bool {
        self.poll();
        self.result.is_none()
    }

    /// What came of it, which must be there.
    pub(crate) fn end(mut self) -> T {
        self.poll();
        self.result.expect("it still waits")
    }
}
