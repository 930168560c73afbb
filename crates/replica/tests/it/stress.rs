//! Threads with many tasks each, on a store whose applier has a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use futures::executor::block_on;
use futures::future::join_all;
use parking_lot::Mutex;
use spanlatch_replica::{
    Applier, Batch, Engine, EngineError, MemEngine, Request, Response, Snapshot, Store, WriteBatch,
};
use spanset::{Key, Span, Timestamp};

use crate::history::History;
use crate::scene::forward_marks;

/// A small generator of numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn key(&mut self) -> Key {
        const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
        let position = usize::try_from(self.below(6)).unwrap();
        Key::from_static(KEYS[position].as_bytes())
    }

    fn span(&mut self) -> Span {
        let (a, b) = (self.key(), self.key());
        Span::range(a.clone(), b).unwrap_or_else(|_| Span::starting_at(a))
    }
}

const THREADS: u64 = 3;
const TASKS: u64 = 8;

/// Runs a client on each of [`TASKS`] tasks of each of [`THREADS`] threads, to the end.
fn run(store: &Store, applier: Applier, client: impl AsyncFn(&Store, Numbers) + Sync) {
    let applier = thread::spawn(move || applier.run());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                let tasks = (0..TASKS).map(|task| client(store, Numbers(thread * TASKS + task)));
                block_on(join_all(tasks));
            });
        }
    });
    assert!(store.is_idle());
    store.shut_down();
    applier.join().unwrap();
}

fn splits() -> [Key; 2] {
    ["c", "e"].map(Key::from)
}

#[test]
fn no_increment_is_lost_and_each_leaves_one_version() {
    const BATCHES: u64 = 60;
    let (store, applier) = Store::builder().splits(splits()).build();
    // For each key, when it was acknowledged to have reached which sum.
    let acknowledged = Mutex::new(BTreeMap::<Key, BTreeMap<Timestamp, i64>>::new());
    run(&store, applier, async |store, mut numbers| {
        for _ in 0..BATCHES {
            let first = numbers.key();
            let mut keys = vec![first.clone()];
            let second = numbers.key();
            if second != first {
                keys.push(second);
            }
            let requests = keys.iter().cloned().map(|key| Request::increment(key, 1));
            let reply = store.send(requests.collect::<Batch>()).await.unwrap();
            let mut acknowledged = acknowledged.lock();
            for (key, response) in keys.into_iter().zip(reply.responses) {
                let Response::Incremented(sum) = response else {
                    panic!("{response:?}");
                };
                let sums = acknowledged.entry(key).or_default();
                assert_eq!(
                    sums.insert(reply.timestamp, sum),
                    None,
                    "one timestamp twice"
                );
            }
        }
    });
    let acknowledged = acknowledged.into_inner();
    for sums in acknowledged.values() {
        assert!(sums.values().copied().eq(1..=sums.len() as i64));
    }
    let mut versions = BTreeMap::<Key, BTreeMap<Timestamp, i64>>::new();
    for version in store.versions(Span::all()).unwrap() {
        let (key, version) = version.unwrap();
        let sum = i64::from_be_bytes(version.value.unwrap()[..].try_into().unwrap());
        versions
            .entry(key)
            .or_default()
            .insert(version.timestamp, sum);
    }
    assert_eq!(versions, acknowledged);
}

/// Notes what it applies, in order.
#[derive(Debug, Default)]
struct Noting {
    inner: MemEngine,
    history: Arc<Mutex<History>>,
}

impl Engine for Noting {
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.inner.snapshot()
    }

    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        for writes in &group {
            self.history.lock().applied(writes.clone());
        }
        self.inner.apply(group)
    }

    forward_marks!(inner);
}

#[test]
fn batches_of_all_kinds_are_as_one_after_the_other() {
    const BATCHES: u64 = 25;
    let engine = Noting::default();
    let history = engine.history.clone();
    let (store, applier) = Store::builder()
        .splits(splits())
        .engine(Arc::new(engine))
        .build();
    run(&store, applier, async |store, mut numbers| {
        for _ in 0..BATCHES {
            let count = 1 + numbers.below(3);
            let mut batch = Batch::new();
            for _ in 0..count {
                let limit = 1 + usize::try_from(numbers.below(3)).unwrap();
                batch.push(match numbers.below(10) {
                    0 | 1 => Request::get(numbers.key()),
                    2..=4 => Request::put(numbers.key(), numbers.key()),
                    5 | 6 => Request::increment(numbers.key(), 1),
                    7 => Request::delete_range(numbers.span()).limited(limit),
                    8 => Request::reverse_scan(numbers.span()).limited(limit),
                    _ => Request::scan(numbers.span()),
                });
            }
            if numbers.below(4) == 0 {
                let now = store.clock().now();
                batch = batch.at(Timestamp::new(now.wall - numbers.below(200_000), 0));
            }
            let started = history.lock().len();
            // Increments of what is no integer fail.
            if let Ok(reply) = store.send(batch.clone()).await {
                history.lock().served(batch, started, reply);
            }
        }
    });
    let history = history.lock();
    assert!(history.len() > 100);
    history.check(&store);
}
