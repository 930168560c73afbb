//! The retry loop: what is tried again, how often, and what it says in the end.

use std::error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spanlatch_kv::{Attempt, Error, GaveUp, Options, Reason};
use spanlatch_replica::Store;

use crate::scene::{Scene, value};

/// Reads "a", lets another write it, and writes "b": never commits while `meddles`.
async fn meddled(scene: &Scene, txn: &Attempt, meddles: bool) -> Result<(), Error> {
    txn.get("a").await?;
    if meddles {
        scene.put("a", "other");
    }
    txn.put("b", "mine")
}

#[test]
fn what_others_have_changed_is_tried_again_until_it_commits() {
    let scene = Scene::new();
    let attempts = Mutex::new(Vec::new());
    let done = scene.run(scene.db.txn(async |txn| {
        attempts.lock().push(txn.id());
        let made = attempts.lock().len();
        meddled(&scene, &txn, made < 3).await?;
        Ok::<_, Error>(made)
    }));
    assert_eq!(done.unwrap(), 3);
    assert_eq!(scene.get("b"), value("mine"));
    let attempts = attempts.into_inner();
    assert!(attempts.iter().all(|id| id.txn == attempts[0].txn));
    assert!(attempts.iter().map(|id| id.attempt).eq(1..=3));
    assert_eq!(scene.metrics.attempts.value(), 3);
    assert_eq!(scene.metrics.retries(Reason::Changed).value(), 2);
    assert_eq!(scene.metrics.commits.value(), 1);
    assert_eq!(scene.metrics.committed_after.count(), 1);
    assert_eq!(scene.metrics.paused.count(), 2);
    assert_eq!(scene.metrics.aborts.value(), 0);
}

#[test]
fn the_last_error_says_how_often_and_why() {
    let scene = Scene::of(Store::builder(), Options::default().max_attempts(4));
    let failed = scene.run(scene.db.txn(async |txn| meddled(&scene, &txn, true).await));
    let error = failed.unwrap_err();
    assert_eq!(
        error.to_string(),
        "gave up after 4 attempts (no more are allowed)"
    );
    let Error::GaveUp {
        attempts: 4, last, ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert!(matches!(
        **last,
        Error::Retry {
            reason: Reason::Changed,
            ..
        }
    ));
    assert!(error.retries().is_none());
    assert_eq!(scene.get("b"), None);
    assert_eq!(scene.metrics.aborts.value(), 1);
    assert_eq!(scene.metrics.aborted_after.count(), 1);

    // No deadline is too far away.
    let options = Options::default().max_attempts(2).deadline(Duration::MAX);
    let scene = Scene::of(Store::builder(), options);
    let failed = scene.run(scene.db.txn(async |txn| meddled(&scene, &txn, true).await));
    assert!(matches!(failed, Err(Error::GaveUp { attempts: 2, .. })));

    let seconds = Duration::from_secs;
    let options = Options::default()
        .deadline(seconds(10))
        .pauses(seconds(2), seconds(2));
    let scene = Scene::of(Store::builder(), options);
    let failed = scene.run(scene.db.txn(async |txn| meddled(&scene, &txn, true).await));
    let Err(Error::GaveUp {
        attempts,
        why: GaveUp::Deadline,
        ..
    }) = failed
    else {
        panic!("{failed:?}");
    };
    assert!(
        (6..=10).contains(&attempts),
        "pauses of 1 to 2 s: {attempts}"
    );
    assert!(scene.time.passed() < seconds(10));
}

#[test]
fn a_closure_that_swallows_a_retryable_error_does_not_commit() {
    let scene = Scene::of(Store::builder().max_in_flight(1), Options::default());
    let runs = AtomicU32::new(0);
    let done = scene.run(scene.db.txn(async |txn| {
        if runs.fetch_add(1, Ordering::Relaxed) == 0 {
            txn.put("swallowed", "1")?;
            // One request is in flight, and waits for the applier: the store is busy.
            let put = std::pin::pin!(scene.db.put("c", "1"));
            let mut put = put;
            let waker = std::task::Waker::noop();
            let poll = put
                .as_mut()
                .poll(&mut std::task::Context::from_waker(waker));
            assert!(poll.is_pending());
            let error = txn.get("a").await.unwrap_err();
            assert_eq!(error.retries(), Some(txn.id()));
            scene.run(put).unwrap();
            assert!(txn.put("d", "1").is_err(), "the attempt has failed");
        } else {
            txn.put("b", "1")?;
        }
        Ok::<_, Error>(())
    }));
    done.unwrap();
    assert_eq!(runs.into_inner(), 2);
    assert_eq!(scene.get("swallowed"), None);
    assert_eq!(scene.get("b"), value("1"));
    assert_eq!(scene.metrics.retries(Reason::Busy).value(), 1);
}

#[test]
fn a_transaction_whose_closure_borrows_can_be_spawned() {
    fn spawned<T>(future: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
        future
    }
    async fn put<S: spanlatch_replica::Serve>(
        db: &spanlatch_kv::Db<S>,
        rows: &[(&'static str, &'static str)],
    ) -> Result<(), Error> {
        db.txn(async |txn| {
            for (key, value) in rows {
                txn.put(*key, *value)?;
            }
            Ok(())
        })
        .await
    }
    let scene = Scene::new();
    scene.run(spawned(put(&scene.db, &[("a", "1")]))).unwrap();
    assert_eq!(scene.get("a"), value("1"));
}

type Boxed = Box<dyn error::Error + Send + Sync>;

#[test]
fn an_error_of_ones_own_ends_the_transaction_unless_the_attempt_has_failed() {
    let scene = Scene::new();
    let failed = scene.run(scene.db.txn(async |txn| {
        txn.put("a", "1")?;
        Err::<(), Boxed>("enough".into())
    }));
    assert_eq!(failed.unwrap_err().to_string(), "enough");
    assert_eq!(scene.get("a"), None);
    assert_eq!(scene.metrics.attempts.value(), 1);
}

#[test]
fn a_retryable_error_of_another_transaction_is_not_retried_here() {
    let scene = Scene::new();
    scene.put("a", "1");
    let foreign = || {
        let mut other = scene.db.begin();
        let attempt = other.attempt();
        scene
            .run(async { meddled(&scene, &attempt, true).await })
            .unwrap();
        scene.run(other.commit()).unwrap_err()
    };
    let failed = scene.run(scene.db.txn(async |_| Err::<(), Error>(foreign())));
    assert!(matches!(failed, Err(Error::Retry { .. })));
    assert_eq!(scene.metrics.attempts.value(), 1);
}

#[test]
fn an_error_of_an_earlier_attempt_is_neither_retried_nor_returned_raw() {
    let scene = Scene::new();
    let kept = Mutex::new(None);
    let mut txn = scene.db.begin();
    let attempt = txn.attempt();
    scene
        .run(async { meddled(&scene, &attempt, true).await })
        .unwrap();
    *kept.lock() = Some(scene.run(txn.commit()).unwrap_err());
    txn.restart();
    let failed = scene.run(txn.exec(async |_| Err::<(), Error>(kept.lock().take().unwrap())));
    let error = failed.unwrap_err();
    assert!(matches!(error, Error::Earlier(_)), "{error:?}");
    assert!(error.retries().is_none());
    assert_eq!(scene.metrics.attempts.value(), 1);
}

#[test]
fn handles_of_an_attempt_that_is_over_are_refused() {
    let scene = Scene::new();
    let mut txn = scene.db.begin();
    let old = txn.attempt();
    old.put("a", "1").unwrap();
    txn.restart();
    let new = txn.attempt();
    assert!(matches!(old.put("a", "2"), Err(Error::Over(id)) if id == old.id()));
    assert!(matches!(scene.run(old.get("a")), Err(Error::Over(_))));
    old.rollback();
    new.put("b", "1").unwrap();
    scene.run(txn.commit()).unwrap();
    assert_eq!((scene.get("a"), scene.get("b")), (None, value("1")));

    assert!(matches!(new.delete("b"), Err(Error::Over(_))));
    assert!(matches!(scene.run(txn.commit()), Err(Error::Over(_))));
    txn.rollback();
    txn.rollback();
    assert_eq!(scene.get("b"), value("1"), "what is committed stays");
}

#[test]
fn a_closure_that_rolls_back_does_not_commit() {
    let scene = Scene::new();
    let ended = scene.run(scene.db.txn(async |txn| {
        txn.put("a", "1")?;
        txn.rollback();
        txn.rollback();
        Ok::<_, Error>(())
    }));
    assert!(matches!(ended, Err(Error::Over(_))));
    assert_eq!(scene.get("a"), None);
}

#[test]
fn an_attempt_whose_moment_was_collected_is_aborted() {
    let scene = Scene::of(Store::builder(), Options::default().max_attempts(1));
    scene.put("a", "1");
    let failed = scene.run(scene.db.txn(async |txn| {
        txn.get("a").await?;
        scene.put("a", "2");
        scene.put("a", "3");
        let now = scene.db.store().clock().now();
        scene.db.store().collect_garbage(now).unwrap();
        assert!(txn.get("b").await.is_err());
        txn.put("c", "1").map(|_| ())
    }));
    let Err(Error::GaveUp { last, .. }) = failed else {
        panic!("{failed:?}");
    };
    assert!(matches!(
        *last,
        Error::Retry {
            reason: Reason::Aborted,
            ..
        }
    ));
}

#[test]
fn what_the_store_refuses_is_not_tried_again() {
    let scene = Scene::of(Store::builder().max_value_bytes(3), Options::default());
    let failed = scene.run(scene.db.txn(async |txn| txn.put("a", "long")));
    assert!(matches!(failed, Err(Error::Store(_))), "{failed:?}");
    assert_eq!(scene.metrics.attempts.value(), 1);
    scene.db.store().shut_down();
    let failed = scene.run(scene.db.txn(async |txn| txn.get("a").await));
    assert!(matches!(failed, Err(Error::Store(_))), "{failed:?}");
}
