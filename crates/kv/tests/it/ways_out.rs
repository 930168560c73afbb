//! Closures that panic, futures that are dropped at each of their polls, and handles that outlive what they belong to.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use futures::executor::block_on;
use futures::future::join_all;
use parking_lot::Mutex;
use spanlatch_kv::{Db, Error, Options, Reason, TxnMetrics};
use spanlatch_replica::{Proposal, Proposer, Store, Value};

use crate::scene::Scene;

#[test]
fn a_closure_that_panics_leaves_nothing_behind() {
    let scene = Scene::new();
    let run = || {
        scene.run(scene.db.txn(async |txn| {
            txn.put("a", "1")?;
            assert!(txn.get("b").await?.is_some(), "as planned");
            Ok::<_, Error>(())
        }))
    };
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    assert!(scene.db.store().is_idle());
    assert_eq!(scene.get("a"), None);
    assert_eq!(scene.metrics.aborts.value(), 1);
}

/// Keeps proposals until it is told to apply them.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Proposal>>>);

impl Proposer for Kept {
    fn propose(&self, proposal: Proposal) {
        self.0.lock().push(proposal);
    }

    fn shut_down(&self) {}
}

impl Kept {
    fn apply(&self, store: &spanlatch_replica::MemEngine) {
        use spanlatch_replica::Engine;
        for mut proposal in std::mem::take(&mut *self.0.lock()) {
            store.apply(vec![proposal.take_writes()]).unwrap();
            proposal.applied();
        }
    }
}

#[test]
fn a_future_that_is_dropped_at_any_poll_leaves_all_or_nothing() {
    let mut ends = Vec::new();
    for polls in 0.. {
        let engine = Arc::new(spanlatch_replica::MemEngine::new());
        let kept = Kept::default();
        let store = Store::builder()
            .engine(engine.clone())
            .splits(["m".into()])
            .build_proposing(Arc::new(kept.clone()), |_| spanlatch::Manager::new());
        let db = Db::new(store.clone());
        let wait = |work: &mut dyn FnMut() -> bool| {
            while !work() {
                kept.apply(&engine);
            }
        };
        // Somebody holds what is read, and then what is written, so that each wait is seen.
        let mut held = pin!(db.put("a", "0"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(held.as_mut().poll(&mut context).is_pending());
        let completed = {
            let mut txn = pin!(db.txn(async |txn| {
                let before = txn.get("a").await?;
                txn.put("b", "1")?;
                txn.put("z", "1")?;
                Ok::<_, Error>(before)
            }));
            let mut completed = false;
            for _ in 0..polls {
                if txn.as_mut().poll(&mut context).is_ready() {
                    completed = true;
                    break;
                }
                kept.apply(&engine);
            }
            completed
        };
        wait(&mut || held.as_mut().poll(&mut context).is_ready());
        kept.apply(&engine);
        assert!(store.is_idle(), "dropped after {polls} polls");
        let get = |key: &'static str| block_on(db.get(key)).unwrap();
        assert_eq!(get("b"), get("z"), "dropped after {polls} polls");
        ends.push(get("b").is_some());
        if completed {
            break;
        }
    }
    assert_eq!(ends.last(), Some(&true));
    assert!(ends.len() > 2, "each wait is seen: {ends:?}");
    assert!(
        ends.is_sorted(),
        "from some poll on it is proposed: {ends:?}"
    );
}

#[test]
fn what_a_dropped_run_has_written_is_not_committed_by_the_next() {
    let scene = Scene::new();
    let mut txn = scene.db.begin();
    {
        let mut dropped = pin!(txn.exec(async |attempt| {
            attempt.put("a", "1")?;
            std::future::pending::<()>().await;
            Ok::<_, Error>(())
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(dropped.as_mut().poll(&mut context).is_pending());
    }
    scene
        .run(txn.exec(async |attempt| attempt.put("b", "1")))
        .unwrap();
    assert_eq!(scene.get("a"), None);
    assert!(scene.get("b").is_some());
    let again = scene.run(txn.exec(async |attempt| attempt.put("c", "1")));
    assert!(matches!(again, Err(Error::Over(_))), "it is committed");
}

#[test]
fn handles_outlive_their_transaction_and_clients_their_store() {
    let scene = Scene::new();
    let kept = Mutex::new(None);
    scene
        .run(scene.db.txn(async |txn| {
            txn.put("a", "1")?;
            *kept.lock() = Some(txn);
            Ok::<_, Error>(())
        }))
        .unwrap();
    let attempt = kept.into_inner().unwrap();
    assert!(matches!(attempt.put("a", "2"), Err(Error::Over(_))));
    assert!(matches!(scene.run(attempt.get("a")), Err(Error::Over(_))));
    scene.db.store().shut_down();
    assert!(matches!(scene.run(scene.db.get("a")), Err(Error::Store(_))));
    let txn = scene.run(scene.db.txn(async |txn| txn.get("a").await));
    assert!(matches!(txn, Err(Error::Store(_))));
}

#[test]
fn a_commit_whose_end_is_not_known_is_not_tried_again() {
    let kept = Kept::default();
    let store =
        Store::builder().build_proposing(Arc::new(kept.clone()), |_| spanlatch::Manager::new());
    let metrics = TxnMetrics::default();
    let db = Db::with_options(store, Options::default().metrics(metrics.clone()));
    let mut txn = pin!(db.txn(async |txn| txn.put("a", "1")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(txn.as_mut().poll(&mut context).is_pending());
    drop(kept.0.lock().pop());
    let Poll::Ready(ended) = txn.as_mut().poll(&mut context) else {
        panic!("it was told");
    };
    assert!(matches!(ended, Err(Error::Ambiguous(_))), "{ended:?}");
    assert_eq!(metrics.attempts.value(), 1);
    assert_eq!((metrics.commits.value(), metrics.aborts.value()), (0, 1));
}

#[test]
fn sixty_four_tasks_on_one_key_all_get_their_turn() {
    const TASKS: usize = 64;
    const EACH: u64 = 5;
    let (store, applier) = Store::new();
    let applier = thread::spawn(move || applier.run());
    let metrics = TxnMetrics::default();
    let db = Db::with_options(
        store,
        Options::default()
            .max_attempts(10_000)
            .metrics(metrics.clone()),
    );
    let increments = async || {
        for _ in 0..EACH {
            let done = db.txn(async |txn| {
                let before = txn.get("hot").await?;
                let before =
                    before.map_or(0, |v: Value| u64::from_be_bytes(v[..].try_into().unwrap()));
                txn.put("hot", Vec::from((before + 1).to_be_bytes()))
            });
            done.await.unwrap();
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| block_on(join_all((0..TASKS / 2).map(|_| increments()))));
        }
    });
    let total = TASKS as u64 * EACH;
    assert_eq!(
        block_on(db.get("hot")).unwrap(),
        Some(Vec::from(total.to_be_bytes()).into())
    );
    assert_eq!(metrics.commits.value(), total);
    let retries = metrics.attempts.value() - total;
    assert_eq!(metrics.retries(Reason::Changed).value(), retries);
    // Each failed attempt was overtaken by a commit: nobody makes others fail and then fails, too.
    assert!(retries <= total * TASKS as u64, "{retries}");
    drop(db);
    applier.join().unwrap();
}

#[test]
fn while_others_transfer_every_scan_sees_the_same_total() {
    const ACCOUNTS: u64 = 6;
    let (store, applier) = Store::builder().splits(["2".into(), "4".into()]).build();
    let applier = thread::spawn(move || applier.run());
    let db = Db::new(store.clone());
    for account in 0..ACCOUNTS {
        block_on(db.put(account.to_string(), "100")).unwrap();
    }
    let number = |value: Option<Value>| -> i64 {
        std::str::from_utf8(&value.unwrap())
            .unwrap()
            .parse()
            .unwrap()
    };
    thread::scope(|scope| {
        for teller in 1..3u64 {
            let db = &db;
            scope.spawn(move || {
                for i in 0..150 {
                    let (from, to) = (i % ACCOUNTS, (i * 5 + teller) % ACCOUNTS);
                    let moved = block_on(db.txn(async |txn| {
                        let has = number(txn.get(from.to_string()).await?);
                        txn.put(from.to_string(), (has - 7).to_string())?;
                        let has = number(txn.get(to.to_string()).await?);
                        txn.put(to.to_string(), (has + 7).to_string())
                    }));
                    moved.unwrap();
                }
            });
        }
        scope.spawn(|| {
            for at in ["1", "3", "5"] {
                block_on(store.split(at)).unwrap();
                store.collect_garbage(store.clock().now()).unwrap();
            }
        });
        for _ in 0..60 {
            let rows = block_on(db.txn(async |txn| {
                txn.scan(spanset::Span::all(), spanlatch_replica::Request::UNLIMITED)
                    .await
            }));
            let total: i64 = rows
                .unwrap()
                .into_iter()
                .map(|(_, value)| number(Some(value)))
                .sum();
            assert_eq!(total, 100 * ACCOUNTS as i64);
        }
    });
    drop((db, store));
    applier.join().unwrap();
}

#[test]
fn of_two_failures_at_once_the_more_severe_counts() {
    let builder = Store::builder().max_in_flight(2);
    let scene = Scene::of(builder, Options::default().max_attempts(1));
    let ended = scene.run(scene.db.txn(async |txn| {
        let mut context = Context::from_waker(Waker::noop());
        let mut put = pin!(scene.db.put("a", "2"));
        assert!(put.as_mut().poll(&mut context).is_pending());
        txn.get("b").await?;
        // It waits for the write, and so long the store is busy.
        let mut old = pin!(txn.get("a"));
        assert!(old.as_mut().poll(&mut context).is_pending());
        let busy = txn.get("c").await;
        assert!(
            matches!(
                busy,
                Err(Error::Retry {
                    reason: Reason::Busy,
                    ..
                })
            ),
            "{busy:?}"
        );
        // Before it goes on, what it is to read is collected.
        let now = scene.db.store().clock().now();
        scene.db.store().collect_garbage(now).unwrap();
        scene.run(put).unwrap();
        let aborted = old.await;
        assert!(matches!(
            aborted,
            Err(Error::Retry {
                reason: Reason::Aborted,
                ..
            })
        ));
        txn.put("e", "1")
    }));
    let Err(Error::GaveUp { last, .. }) = ended else {
        panic!("{ended:?}");
    };
    let is_aborted = matches!(
        *last,
        Error::Retry {
            reason: Reason::Aborted,
            ..
        }
    );
    assert!(is_aborted, "{last:?}");
}
