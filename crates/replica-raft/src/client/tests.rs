//! Clients of nodes that lead, follow, hang, break and are not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use spanlatch_replica::{Batch, Cause, Error, Request, Serve};
use spanset::Timestamp;
use tokio::sync::{Notify, oneshot};

use super::{Client, ClientOptions};
use crate::fake::{Fake, Listening, accept, listen, nowhere, peers, reply, soon};
use crate::wire::{Call, MAX_FRAME};

/// As long as no test has to wait for it.
const LONG: Duration = Duration::from_secs(60);

fn read() -> Batch {
    Request::get("a").into()
}

fn write() -> Batch {
    Request::put("a", "1").into()
}

/// A client of nodes at these addresses, from node 1 on.
fn client<'a>(addresses: impl IntoIterator<Item = &'a String>, patience: Duration) -> Client {
    let options = ClientOptions::default().patience(patience);
    let options = options.pause(Duration::from_millis(1));
    Client::with_options(&peers(addresses), options)
}

fn of(nodes: &[&Listening], patience: Duration) -> Client {
    client(nodes.iter().map(|node| &node.address), patience)
}

/// Which node has served.
fn by(served: Result<spanlatch_replica::Reply, Error>) -> u64 {
    served.unwrap().timestamp.wall
}

#[tokio::test]
async fn a_hint_leads_to_the_leader_and_is_remembered() {
    let (second, third) = (Fake::following(2, None), Fake::leading(3));
    let (listening2, listening3) = (second.start().await, third.start().await);
    let first = Fake::following(1, Some(&listening3.address));
    let listening1 = first.start().await;
    let client = of(&[&listening1, &listening2, &listening3], LONG);
    for batch in [write(), read(), Batch::new()] {
        assert_eq!(by(client.send(batch).await), 3);
    }
    assert_eq!([&first, &second, &third].map(Fake::asked), [1, 0, 3]);
}

#[tokio::test]
async fn without_a_hint_or_with_a_wrong_one_all_are_asked() {
    for hint in [None, Some("127.0.0.1:1")] {
        let nodes = [
            Fake::following(1, hint),
            Fake::following(2, hint),
            Fake::leading(3),
        ];
        let listening = join_all(nodes.iter().map(Fake::start)).await;
        let client = of(&listening.iter().collect::<Vec<_>>(), LONG);
        assert_eq!(by(client.send(write()).await), 3);
        assert_eq!(nodes.map(|node| node.asked()), [1, 1, 1]);
    }
}

#[tokio::test]
async fn a_leader_that_changes_is_followed() {
    let leader = Arc::new(AtomicU64::new(1));
    let node = |id| {
        let leader = leader.clone();
        Fake::new(id, move |_| {
            let leads = leader.load(Ordering::SeqCst) == id;
            async move {
                match leads {
                    true => Ok(reply(id)),
                    false => Err(Error::NotLeader { leader: None }),
                }
            }
        })
    };
    let nodes = [node(1), node(2), node(3)];
    let listening = join_all(nodes.iter().map(Fake::start)).await;
    let client = of(&listening.iter().collect::<Vec<_>>(), LONG);
    for id in [1, 2, 2, 3, 1] {
        leader.store(id, Ordering::SeqCst);
        let other = client.clone();
        assert_eq!(by(client.send(write()).await), id);
        assert_eq!(by(other.send(read()).await), id);
    }
}

#[tokio::test]
async fn the_time_is_that_of_an_empty_batch() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = asked.clone();
    let node = Fake::new(1, move |batch| {
        told.lock().push(batch);
        async { Ok(reply(7)) }
    });
    let listening = node.start().await;
    let client = of(&[&listening], LONG);
    assert_eq!(client.now().await.unwrap(), Timestamp::new(7, 0));
    assert_eq!(*asked.lock(), [Batch::new()]);
}

#[tokio::test]
async fn who_is_not_reached_is_passed_over_also_by_what_writes() {
    let listening = Fake::leading(3).start().await;
    let addresses = [nowhere().await, nowhere().await, listening.address.clone()];
    let client = client(&addresses, LONG);
    assert_eq!(by(client.send(write()).await), 3);
    assert_eq!(by(client.send(read()).await), 3);
}

#[tokio::test]
async fn when_nobody_is_reached_nothing_is_ambiguous() {
    let addresses = [nowhere().await, nowhere().await];
    let client = client(&addresses, Duration::from_millis(50));
    for batch in [write(), read()] {
        let error = client.send(batch).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }
    let error = Client::new(&peers([])).send(write()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn when_nobody_leads_that_is_said_when_the_time_is_up() {
    let nodes = [Fake::following(1, None), Fake::following(2, None)];
    let listening = join_all(nodes.iter().map(Fake::start)).await;
    let client = of(
        &listening.iter().collect::<Vec<_>>(),
        Duration::from_secs(2),
    );
    let error = client.send(write()).await.unwrap_err();
    assert!(
        matches!(error, Error::NotLeader { leader: None }),
        "{error}"
    );
    assert!(
        nodes.iter().all(|node| node.asked() > 1),
        "they are asked again"
    );
}

#[tokio::test]
async fn who_shuts_down_is_passed_over() {
    let first = Fake::new(1, |_| async { Err(Error::ShuttingDown) });
    let (listening1, listening2) = (first.start().await, Fake::leading(2).start().await);
    assert_eq!(
        by(of(&[&listening1, &listening2], LONG).send(write()).await),
        2
    );
    let alone = of(&[&listening1], Duration::from_secs(2));
    let error = alone.send(write()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn what_would_fail_anywhere_fails_at_once() {
    let first = Fake::new(1, |_| async { Err(Error::TooManyRequests { limit: 5 }) });
    let second = Fake::leading(2);
    let (listening1, listening2) = (first.start().await, second.start().await);
    let client = of(&[&listening1, &listening2], LONG);
    let error = client.send(write()).await.unwrap_err();
    assert!(
        matches!(error, Error::TooManyRequests { limit: 5 }),
        "{error}"
    );
    assert_eq!((first.asked(), second.asked()), (1, 0));
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_ambiguous_and_not_sent_again() {
    // A call that panics ends its connection.
    let first = Fake::new(1, |_| async { panic!("as planned") });
    let second = Fake::leading(2);
    let (listening1, listening2) = (first.start().await, second.start().await);
    let both = write().with(Request::get("b"));
    for batch in [write(), both] {
        let client = of(&[&listening1, &listening2], LONG);
        let before = first.asked();
        let error = client.send(batch).await.unwrap_err();
        assert!(
            matches!(error, Error::Ambiguous(Cause::NoAnswer)),
            "{error}"
        );
        assert_eq!((first.asked() - before, second.asked()), (1, 0));
    }
}

#[tokio::test]
async fn a_read_whose_answer_is_lost_is_sent_to_another() {
    let first = Fake::new(1, |_| async { panic!("as planned") });
    let (listening1, listening2) = (first.start().await, Fake::leading(2).start().await);
    for batch in [read(), Batch::new()] {
        let client = of(&[&listening1, &listening2], LONG);
        assert_eq!(by(client.send(batch).await), 2);
    }
}

#[tokio::test]
async fn who_hangs_is_given_up_for_reads_and_leaves_writes_ambiguous() {
    let first = Fake::new(1, |_| std::future::pending());
    let second = Fake::leading(2);
    let (listening1, listening2) = (first.start().await, second.start().await);
    let client = of(&[&listening1, &listening2], Duration::from_secs(2));
    let error = client.send(write()).await.unwrap_err();
    assert!(
        matches!(error, Error::Ambiguous(Cause::NoAnswer)),
        "{error}"
    );
    assert_eq!((first.asked(), second.asked()), (1, 0));
    assert_eq!(by(client.send(read()).await), 2);
}

#[tokio::test]
async fn a_connection_that_breaks_under_a_read_is_made_again_without_anybody_noticing() {
    let (listener, address) = listen().await;
    let client = client([&address], LONG);
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.now().await }
    });
    let (mut incoming, outgoing) = accept(&listener, 1).await;
    incoming.next::<Call>().await.unwrap();
    // An empty batch is asked again.
    drop((incoming, outgoing, listener));
    let _listening = Fake::leading(1).start_at(&address).await;
    assert_eq!(first.await.unwrap().unwrap(), Timestamp::new(1, 0));
    assert_eq!(by(client.send(write()).await), 1);
}

#[tokio::test]
async fn many_batches_at_once_are_each_answered_by_their_own() {
    // Answers with the value that is to be written, later ones first.
    let node = Fake::new(1, |batch| {
        let wall = match &batch.requests()[0] {
            Request::Increment { by, .. } => by.unsigned_abs(),
            other => panic!("{other:?}"),
        };
        async move {
            for _ in wall..500 {
                tokio::task::yield_now().await;
            }
            Ok(reply(wall))
        }
    });
    let listening = node.start().await;
    let client = of(&[&listening], LONG);
    let batches = (0..500).map(|by| client.send(Request::increment("a", by).into()));
    let served = join_all(batches).await.into_iter().map(by);
    assert!(served.eq(0..500));
}

#[tokio::test]
async fn a_batch_that_is_dropped_is_cancelled_where_it_was_sent() {
    let begun = Arc::new(Notify::new());
    let (ended, ends) = oneshot::channel::<()>();
    let (told, ended) = (begun.clone(), Mutex::new(Some(ended)));
    let node = Fake::new(1, move |batch| {
        let ended = ended.lock().take();
        told.notify_one();
        async move {
            if batch.requests().is_empty() {
                return Ok(reply(1));
            }
            let _ended = ended;
            std::future::pending().await
        }
    });
    let listening = node.start().await;
    let client = of(&[&listening], LONG);
    let sent = tokio::spawn({
        let client = client.clone();
        async move { client.send(write()).await }
    });
    begun.notified().await;
    sent.abort();
    // Closed when it is dropped there, with the future that has it.
    assert!(soon(ends).await.is_err());
    assert_eq!(by(client.send(Batch::new()).await), 1);
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_refused_before_it_is_sent() {
    let node = Fake::leading(1);
    let listening = node.start().await;
    let client = of(&[&listening], LONG);
    let large = Request::put("a", vec![7; MAX_FRAME]);
    let error = client.send(large.into()).await.unwrap_err();
    assert!(
        matches!(error, Error::BatchTooLarge { size, max: MAX_FRAME } if size > MAX_FRAME),
        "{error}"
    );
    assert_eq!(node.asked(), 0);
    assert_eq!(by(client.send(write()).await), 1);
}

#[tokio::test]
async fn no_patience_is_too_long() {
    let listening = Fake::leading(1).start().await;
    let client = of(&[&listening], Duration::MAX);
    assert_eq!(by(client.send(write()).await), 1);
    assert_eq!(by(client.send(read()).await), 1);
}

#[tokio::test]
async fn who_has_not_answered_is_not_asked_first_again() {
    let first = Fake::new(1, |_| std::future::pending());
    let second = Fake::leading(2);
    let (listening1, listening2) = (first.start().await, second.start().await);
    let client = of(&[&listening1, &listening2], Duration::from_secs(1));
    assert!(client.send(write()).await.is_err());
    assert_eq!(by(client.send(write()).await), 2);
    assert_eq!((first.asked(), second.asked()), (1, 1));
}
