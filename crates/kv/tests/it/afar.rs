//! A store that is elsewhere: asking it for the time takes some, and may fail, as may all else.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures::executor::block_on;
use futures::future::join;
use parking_lot::Mutex;
use spanlatch_kv::{Db, Error, Options, Reason, TxnMetrics};
use spanlatch_replica::{self as replica, Applier, Batch, Cause, Reply, Serve, Store};
use spanset::Timestamp;

/// A way to a store on which things go wrong as planned: each entry is of one question, `None` if it goes well.
#[derive(Clone)]
struct Afar {
    store: Store,
    applier: Arc<Mutex<Applier>>,
    troubles: Arc<Mutex<VecDeque<Option<replica::Error>>>>,
}

impl Afar {
    async fn trouble(&self) -> Result<(), replica::Error> {
        let trouble = self.troubles.lock().pop_front().flatten();
        let mut polled = false;
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            match std::mem::replace(&mut polled, true) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        trouble.map_or(Ok(()), Err)
    }
}

impl Serve for Afar {
    async fn send(&self, batch: Batch) -> Result<Reply, replica::Error> {
        self.trouble().await?;
        let mut sent = pin!(self.store.send(batch));
        std::future::poll_fn(|context| {
            let polled = sent.as_mut().poll(context);
            self.applier.lock().step();
            polled
        })
        .await
    }

    async fn now(&self) -> Result<Timestamp, replica::Error> {
        self.trouble().await?;
        Serve::now(&self.store).await
    }
}

fn afar(troubles: impl IntoIterator<Item = Option<replica::Error>>) -> (Db<Afar>, TxnMetrics) {
    let (store, applier) = Store::new();
    let metrics = TxnMetrics::default();
    let afar = Afar {
        store,
        applier: Arc::new(Mutex::new(applier)),
        troubles: Arc::new(Mutex::new(troubles.into_iter().collect())),
    };
    let options = Options::default().metrics(metrics.clone());
    (Db::with_options(afar, options), metrics)
}

fn nobody_serves() -> [replica::Error; 2] {
    [
        replica::Error::NotLeader { leader: None },
        replica::Error::Unreachable {
            reason: "connection refused".into(),
        },
    ]
}

async fn increment(db: &Db<Afar>) -> Result<(), Error> {
    db.txn(async |txn| {
        let before = txn.get("a").await?.map_or(0, |value| value[0]);
        txn.put("a", vec![before + 1])
    })
    .await
}

#[test]
fn wherever_nobody_was_found_who_serves_the_attempt_is_made_again() {
    for trouble in nobody_serves() {
        // The time, the read, the commit.
        for before in 0..3 {
            let troubles = vec![None; before]
                .into_iter()
                .chain([Some(trouble.clone())]);
            let (db, metrics) = afar(troubles);
            block_on(increment(&db)).unwrap();
            assert_eq!(block_on(db.get("a")).unwrap(), Some(vec![1].into()));
            assert_eq!(metrics.attempts.value(), 2, "{trouble} after {before}");
            assert_eq!(metrics.retries(Reason::Busy).value(), 1);
        }
    }
}

#[test]
fn an_operation_is_tried_again_where_nobody_was_found_who_serves() {
    for trouble in nobody_serves() {
        let (db, _) = afar([Some(trouble.clone()), None, Some(trouble)]);
        block_on(db.put("a", "1")).unwrap();
        assert_eq!(block_on(db.get("a")).unwrap(), Some("1".into()));
    }
}

#[test]
fn a_commit_without_an_answer_is_ambiguous_and_not_sent_again() {
    let lost = replica::Error::Ambiguous(Cause::NoAnswer);
    let (db, metrics) = afar([None, None, Some(lost)]);
    let ended = block_on(increment(&db));
    assert!(matches!(ended, Err(Error::Ambiguous(_))), "{ended:?}");
    assert_eq!(metrics.attempts.value(), 1);
    assert_eq!(block_on(db.get("a")).unwrap(), None);
}

#[test]
fn reads_that_begin_at_once_see_one_moment() {
    let (db, _) = afar([]);
    block_on(async {
        db.put("a", "1").await.unwrap();
        db.put("b", "1").await.unwrap();
        let txn = db.begin();
        let attempt = txn.attempt();
        let mut first = pin!(attempt.get("a"));
        let mut second = pin!(attempt.get("b"));
        // Both have asked what time it is, and not been told.
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        let first = first.await;
        db.put("b", "2").await.unwrap();
        let second = second.await;
        assert_eq!(
            (first.unwrap(), second.unwrap()),
            (Some("1".into()), Some("1".into()))
        );
        let (a, b) = join(attempt.get("a"), attempt.get("b")).await;
        assert_eq!(
            (a.unwrap(), b.unwrap()),
            (Some("1".into()), Some("1".into()))
        );
    });
}
