//! A client of a store on one thread: whoever is waited for, and the applier, are polled in turn.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanlatch_kv::{Db, Options, Timer, TxnMetrics};
use spanlatch_replica::{Applier, Store, StoreBuilder, Value};

/// Time that passes when somebody pauses, and not otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Paused {
    began: Instant,
    passed: Arc<Mutex<Duration>>,
}

impl Paused {
    pub(crate) fn passed(&self) -> Duration {
        *self.passed.lock()
    }
}

impl Timer for Paused {
    fn now(&self) -> Instant {
        self.began + self.passed()
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        *self.passed.lock() += pause;
        Box::pin(std::future::ready(()))
    }
}

pub(crate) struct Scene {
    pub(crate) db: Db,
    pub(crate) metrics: TxnMetrics,
    pub(crate) time: Paused,
    applier: Mutex<Applier>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of(Store::builder(), Options::default())
    }

    pub(crate) fn of(builder: StoreBuilder, options: Options) -> Self {
        let (store, applier) = builder.build();
        let time = Paused {
            began: Instant::now(),
            passed: Arc::default(),
        };
        let metrics = TxnMetrics::default();
        let options = options.timer(time.clone()).metrics(metrics.clone());
        Self {
            db: Db::with_options(store, options),
            metrics,
            time,
            applier: Mutex::new(applier),
        }
    }

    /// Runs to its end what only waits for the applier.
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            assert_ne!(self.applier.lock().step(), 0, "nothing to wait for");
        }
    }

    pub(crate) fn get(&self, key: &'static str) -> Option<Value> {
        self.run(self.db.get(key)).unwrap()
    }

    pub(crate) fn put(&self, key: &'static str, value: &'static str) {
        self.run(self.db.put(key, value)).unwrap();
    }
}

pub(crate) fn value(text: &'static str) -> Option<Value> {
    Some(Value::from_static(text.as_bytes()))
}
