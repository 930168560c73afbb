//! Nodes that call each other, and those who talk nonsense to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use openraft::raft::AppendEntriesRequest;
use spanlatch_replica::{Batch, Cause, Error, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};

use super::{BindError, Seats, Server};
use crate::fake::{Fake, accept, connect, listen, nowhere, reply, soon, term, vote, voted};
use crate::transport::{Ask, CallError, Message, Transport};
use crate::types::{NodeId, Vote};
use crate::wire::{Call, End, Hello, IN_FLIGHT, MAX_FRAME, Party, QUEUE, Said, frame};
use crate::{Tcp, wire};

/// The way from node 1 to a node.
fn to(node: NodeId, address: &str) -> Tcp {
    Tcp::new(1, &BTreeMap::from([(node, address.to_owned())]))
}

const CLIENT: Hello = Hello {
    from: Party::Client,
    to: 2,
};

/// A connection of a client to node 2, for what a client would not send.
async fn raw(address: &str) -> (wire::Incoming, mpsc::Sender<Bytes>) {
    let (incoming, outgoing, welcome) = connect(address, &CLIENT).await;
    assert_eq!(welcome, Ok(2));
    let (frames, queue) = mpsc::channel(QUEUE);
    tokio::spawn(outgoing.write(queue));
    (incoming, frames)
}

async fn assert_serves(address: &str) {
    let answer = to(2, address).call(2, vote(77)).await;
    assert_eq!(term(answer.unwrap()), 77);
}

#[tokio::test]
async fn many_calls_at_once_each_get_their_own_answer() {
    let node = Fake::leading(2).start().await;
    let tcp = to(2, &node.address);
    let calls = (0..5_000).map(|term| tcp.call(2, vote(term)));
    let answers = join_all(calls).await.into_iter().map(Result::unwrap);
    assert!(answers.map(term).eq(0..5_000));
}

#[tokio::test]
async fn answers_find_their_calls_in_whatever_order_they_come() {
    let (listener, address) = listen().await;
    let other = tokio::spawn(async move {
        let (mut incoming, outgoing) = accept(&listener, 2).await;
        let (frames, queue) = mpsc::channel(QUEUE);
        tokio::spawn(outgoing.write(queue));
        let mut calls = Vec::new();
        for _ in 0..3 {
            calls.push(incoming.next::<Call>().await.unwrap());
        }
        for (number, call) in calls.into_iter().rev() {
            let Call::Message(Message(Ask::Vote(request))) = call else {
                panic!("{call:?}");
            };
            let said = Said::Answer(Ok(voted(request.vote.leader_id.term)));
            frames.send(frame(number, &said).unwrap()).await.unwrap();
            // Again, and to a call that was never made: nobody minds.
            frames.send(frame(number, &said).unwrap()).await.unwrap();
            frames.send(frame(999, &said).unwrap()).await.unwrap();
        }
        incoming
    });
    let tcp = to(2, &address);
    let answers = join_all((5..8).map(|term| tcp.call(2, vote(term)))).await;
    assert!(
        answers
            .into_iter()
            .map(|answer| term(answer.unwrap()))
            .eq(5..8)
    );
    other.await.unwrap();
}

#[tokio::test]
async fn calls_on_a_connection_that_breaks_fail_and_later_ones_connect_again() {
    let node = Fake::leading(2).start().await;
    let address = node.address.clone();
    let tcp = to(2, &address);
    assert_eq!(term(tcp.call(2, vote(1)).await.unwrap()), 1);
    node.stop().await;
    let failed = soon(tcp.call(2, vote(2))).await.unwrap_err();
    assert!(
        matches!(failed, CallError::Unreachable { to: 2, .. }),
        "{failed}"
    );
    let _node = Fake::leading(2).start_at(&address).await;
    // As soon as the pause is over.
    let answer = loop {
        match tcp.call(2, vote(3)).await {
            Ok(answer) => break answer,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(term(answer), 3);
}

#[tokio::test]
async fn a_call_under_way_fails_when_the_connection_breaks() {
    let (listener, address) = listen().await;
    let tcp = to(2, &address);
    let call = tokio::spawn(tcp.call(2, vote(1)));
    let (mut incoming, outgoing) = accept(&listener, 2).await;
    incoming.next::<Call>().await.unwrap();
    drop((incoming, outgoing));
    let failed = soon(call).await.unwrap().unwrap_err();
    assert!(
        matches!(failed, CallError::Unreachable { to: 2, .. }),
        "{failed}"
    );
}

#[tokio::test]
async fn whoever_cannot_be_reached_is_not_reached() {
    let address = nowhere().await;
    let tcp = to(2, &address);
    for _ in 0..2 {
        let failed = tcp.call(2, vote(1)).await.unwrap_err().to_string();
        let expected = format!("node 2 is unreachable: {address}: ");
        assert!(failed.starts_with(&expected), "{failed}");
    }
    let stranger = tcp.call(3, vote(1)).await.unwrap_err();
    assert_eq!(
        stranger.to_string(),
        "node 3 is unreachable: it is not a peer"
    );
}

#[tokio::test]
async fn a_call_that_is_dropped_is_forgotten_and_the_next_is_answered() {
    let (listener, address) = listen().await;
    let tcp = to(2, &address);
    let dropped = tokio::spawn(tcp.call(2, vote(1)));
    let (mut incoming, outgoing) = accept(&listener, 2).await;
    let (first, _) = incoming.next::<Call>().await.unwrap();
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let call = tokio::spawn(tcp.call(2, vote(2)));
    let (second, _) = incoming.next::<Call>().await.unwrap();
    let (frames, queue) = mpsc::channel(QUEUE);
    tokio::spawn(outgoing.write(queue));
    for (number, term) in [(first, 1), (second, 2)] {
        let said = Said::Answer(Ok(voted(term)));
        frames.send(frame(number, &said).unwrap()).await.unwrap();
    }
    assert_eq!(term(call.await.unwrap().unwrap()), 2);
}

#[tokio::test]
async fn whoever_means_somebody_else_or_is_nobody_is_refused() {
    let node = Fake::leading(2).start().await;
    let node_of = |from, to| Hello {
        from: Party::Node(from),
        to,
    };
    let client_of = |to| Hello {
        from: Party::Client,
        to,
    };
    for (hello, refusal) in [
        (node_of(1, 3), "this is node 2, not node 3"),
        (client_of(1), "this is node 2, not node 1"),
        (node_of(4, 2), "node 4 is not a peer of node 2"),
        (node_of(2, 2), "this is node 2, too"),
    ] {
        let (mut incoming, _, welcome) = connect(&node.address, &hello).await;
        assert_eq!(welcome, Err(refusal.to_owned()));
        let end = incoming.next::<Said>().await.unwrap_err();
        assert!(matches!(end, End::Closed), "{end}");
    }
    let failed = to(3, &node.address).call(3, vote(1)).await.unwrap_err();
    let address = &node.address;
    let expected = format!("node 3 is unreachable: {address}: this is node 2, not node 3");
    assert_eq!(failed.to_string(), expected);
    assert_serves(&node.address).await;
}

#[tokio::test]
async fn whoever_speaks_another_version_is_told_on_both_sides() {
    let mut other = Vec::from(21_u32.to_be_bytes());
    other.extend(b"spanlatc\0\0\0\x09whatever");
    other[3] = other.len() as u8 - 4;
    // Of those who connect.
    let node = Fake::leading(2).start().await;
    let mut stream = TcpStream::connect(&node.address).await.unwrap();
    stream.write_all(&other).await.unwrap();
    let mut told = Vec::new();
    stream.read_to_end(&mut told).await.unwrap();
    let told = String::from_utf8_lossy(&told);
    assert!(
        told.contains("version 9 of the protocol, not version 1"),
        "{told:?}"
    );
    // Of those who are connected to.
    let (listener, address) = listen().await;
    let tcp = to(2, &address);
    let call = tokio::spawn(tcp.call(2, vote(1)));
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(&other).await.unwrap();
    let failed = call.await.unwrap().unwrap_err().to_string();
    assert!(
        failed.ends_with("version 9 of the protocol, not version 1"),
        "{failed}"
    );
}

#[tokio::test]
async fn nothing_large_is_read_of_whoever_has_not_said_who_it_is() {
    let node = Fake::leading(2).start().await;
    // Of a small one, it would be told that it is of another version.
    let mut stream = TcpStream::connect(&node.address).await.unwrap();
    stream.write_all(&2_000_u32.to_be_bytes()).await.unwrap();
    stream.write_all(b"spanlatc\0\0\0\x09").await.unwrap();
    let _ = stream.write_all(&[0; 2_000 - 12]).await;
    let mut told = Vec::new();
    let _ = soon(stream.read_to_end(&mut told)).await;
    assert_eq!(told, b"");
}

#[tokio::test(start_paused = true)]
async fn whoever_says_nothing_is_disconnected() {
    let node = Fake::leading(2).start().await;
    let mut stream = TcpStream::connect(&node.address).await.unwrap();
    let mut told = Vec::new();
    soon(stream.read_to_end(&mut told)).await.unwrap();
    assert_eq!(told, b"");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_not_sent_and_harms_nobody() {
    let node = Fake::leading(2).start().await;
    let tcp = to(2, &node.address);
    let sized = |size: usize| {
        let content = Bytes::from(vec![7; size]);
        Message(Ask::Snapshot(crate::transport::Piece {
            vote: Vote::new(1, 1),
            meta: crate::types::SnapshotMeta::default(),
            number: 0,
            content,
            is_last: false,
        }))
    };
    let failed = tcp.call(2, sized(MAX_FRAME)).await.unwrap_err();
    assert!(
        matches!(failed, CallError::TooLarge { size, max: MAX_FRAME } if size > MAX_FRAME),
        "{failed}"
    );
    let failed = tcp.call(2, sized(MAX_FRAME - 100)).await.unwrap_err();
    assert!(
        matches!(failed, CallError::Refused { to: 2, .. }),
        "it was sent: {failed}"
    );
    let entries = AppendEntriesRequest {
        vote: Vote::new(1, 1),
        prev_log_id: None,
        entries: Vec::new(),
        leader_commit: None,
    };
    let refused = tcp
        .call(2, Message(Ask::Append(entries)))
        .await
        .unwrap_err();
    assert_eq!(refused.to_string(), "node 2 refuses: not asked for a vote");
}

#[tokio::test]
async fn a_reply_that_is_too_large_is_told_as_such_unless_something_may_be_written() {
    let node = Fake::new(2, |_| async {
        let mut large = reply(1);
        large.responses = vec![Response::Value(Some(vec![7; MAX_FRAME].into()))];
        Ok(large)
    });
    let node = node.start().await;
    let (mut incoming, frames) = raw(&node.address).await;
    let call = |batch: Batch| frame(1, &Call::Batch(batch)).unwrap();
    frames.send(call(Request::get("a").into())).await.unwrap();
    let (_, said) = incoming.next::<Said>().await.unwrap();
    assert!(
        matches!(said, Said::Reply(Err(Error::ReplyTooLarge { size, max: MAX_FRAME })) if size > MAX_FRAME),
        "{said:?}"
    );
    let write = Batch::from(Request::get("a")).with(Request::put("a", "1"));
    frames.send(call(write)).await.unwrap();
    let (_, said) = incoming.next::<Said>().await.unwrap();
    let is_unknown = matches!(said, Said::Reply(Err(Error::Ambiguous(Cause::NoAnswer))));
    assert!(is_unknown, "{said:?}");
}

#[tokio::test]
async fn frames_that_are_too_large_or_make_no_sense_end_their_connection_and_no_other() {
    let node = Fake::leading(2).start().await;
    let tcp = to(2, &node.address);
    assert_eq!(term(tcp.call(2, vote(1)).await.unwrap()), 1);
    let hello = {
        let mut hello = Vec::from(*b"spanlatc\0\0\0\x01");
        hello.extend(postcard::to_stdvec(&CLIENT).unwrap());
        [&[0, 0, 0, hello.len() as u8][..], &hello].concat()
    };
    let after_hello = |nonsense: &[u8]| [&hello, nonsense].concat();
    let too_large = u32::try_from(MAX_FRAME + 1).unwrap().to_be_bytes();
    let message = frame(1, &Call::Message(vote(1))).unwrap();
    let message = [&[0, 0, 0, message.len() as u8][..], &message].concat();
    let batch = frame(1, &Call::Batch(Batch::new())).unwrap();
    let long = [&[0, 0, 0, batch.len() as u8 + 1][..], &batch, &[0]].concat();
    for (what, nonsense) in [
        ("a large greeting", Vec::from(2_000_u32.to_be_bytes())),
        ("a short greeting", vec![0, 0, 0, 3, 1, 2, 3]),
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (
            "another protocol in a frame",
            b"\0\0\0\x10abcdefghijklmnop".to_vec(),
        ),
        ("a large frame", after_hello(&too_large)),
        ("an empty frame", after_hello(&[0; 4])),
        (
            "an unreadable frame",
            after_hello(b"\0\0\0\x04\x01\xff\xff\xff"),
        ),
        ("a frame that is too long", after_hello(&long)),
        ("what only nodes say", after_hello(&message)),
    ] {
        let mut stream = TcpStream::connect(&node.address).await.unwrap();
        stream.write_all(&nonsense).await.unwrap();
        // It is closed, though we have not closed it; with a reset, if it has left something unread.
        let mut told = Vec::new();
        let _ = soon(stream.read_to_end(&mut told)).await;
        assert_eq!(term(tcp.call(2, vote(2)).await.unwrap()), 2, "after {what}");
    }
    assert_serves(&node.address).await;
}

#[tokio::test]
async fn a_frame_that_is_too_large_ends_the_connection_of_whoever_called_too() {
    let (listener, address) = listen().await;
    let tcp = to(2, &address);
    let call = tokio::spawn(tcp.call(2, vote(1)));
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut welcome = Vec::from(*b"spanlatc\0\0\0\x01");
    welcome.extend(postcard::to_stdvec(&wire::Welcome::Ok(2)).unwrap());
    stream
        .write_all(&[0, 0, 0, welcome.len() as u8])
        .await
        .unwrap();
    stream.write_all(&welcome).await.unwrap();
    let too_large = u32::try_from(MAX_FRAME + 1).unwrap();
    stream.write_all(&too_large.to_be_bytes()).await.unwrap();
    let failed = soon(call).await.unwrap().unwrap_err();
    assert!(
        matches!(failed, CallError::Unreachable { to: 2, .. }),
        "{failed}"
    );
}

/// Tells when it is dropped.
struct Dropped(Option<oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.take().map(|told| told.send(()));
    }
}

/// A node whose batches never end, and what tells of each that it has begun: by what it will be known that it is dropped.
fn endless() -> (
    Fake,
    mpsc::UnboundedReceiver<(Batch, oneshot::Receiver<()>)>,
) {
    let (begun, begins) = mpsc::unbounded_channel();
    let node = Fake::new(2, move |batch| {
        let (told, ends) = oneshot::channel();
        let dropped = Dropped(Some(told));
        begun.send((batch, ends)).unwrap();
        async move {
            let _dropped = dropped;
            std::future::pending().await
        }
    });
    (node, begins)
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_what_it_has_sent() {
    let (node, mut begins) = endless();
    let node = node.start().await;
    let (incoming, frames) = raw(&node.address).await;
    let batch = |key: &'static str| Batch::from(Request::put(key, "1"));
    for (number, key) in [(1, "a"), (2, "b")] {
        let frame = frame(number, &Call::Batch(batch(key))).unwrap();
        frames.send(frame).await.unwrap();
    }
    let [(first, first_ends), (second, second_ends)] =
        [begins.recv().await.unwrap(), begins.recv().await.unwrap()];
    assert_eq!((first, second), (batch("a"), batch("b")));
    drop((incoming, frames));
    soon(first_ends).await.unwrap();
    soon(second_ends).await.unwrap();
    assert_serves(&node.address).await;
}

#[tokio::test]
async fn a_batch_that_is_taken_back_is_cancelled_and_no_other() {
    let (node, mut begins) = endless();
    let node = node.start().await;
    let (_incoming, frames) = raw(&node.address).await;
    for number in [1, 2] {
        let frame = frame(number, &Call::Batch(Batch::new())).unwrap();
        frames.send(frame).await.unwrap();
    }
    let (_, ends) = begins.recv().await.unwrap();
    let (_, mut other) = begins.recv().await.unwrap();
    for number in [1, 1, 7] {
        let frame = frame(number, &Call::Forget).unwrap();
        frames.send(frame).await.unwrap();
    }
    soon(ends).await.unwrap();
    let third = frame(3, &Call::Batch(Batch::new())).unwrap();
    frames.send(third).await.unwrap();
    begins.recv().await.unwrap();
    assert!(other.try_recv().is_err(), "it goes on");
}

#[tokio::test]
async fn when_a_server_ends_so_does_all_that_it_serves() {
    let (node, mut begins) = endless();
    let server = Server::bind("127.0.0.1:0").await.unwrap();
    let address = server.address().to_string();
    let until = Arc::new(Notify::new());
    let ended = until.clone();
    let serving = tokio::spawn(async move { server.serve_by(node, ended.notified()).await });
    let (mut incoming, frames) = raw(&address).await;
    let call = frame(1, &Call::Batch(Batch::new())).unwrap();
    frames.send(call).await.unwrap();
    let (_, ends) = begins.recv().await.unwrap();
    until.notify_one();
    serving.await.unwrap();
    ends.await.unwrap();
    assert!(incoming.next::<Said>().await.is_err());
    Server::bind(&address).await.expect("it listens no more");
}

#[tokio::test]
async fn a_call_that_panics_ends_its_connection_and_no_other() {
    let node = Fake::new(2, |_| async { panic!("as planned") });
    let node = node.start().await;
    let (mut incoming, frames) = raw(&node.address).await;
    let call = frame(1, &Call::Batch(Batch::new())).unwrap();
    frames.send(call).await.unwrap();
    assert!(soon(incoming.next::<Said>()).await.is_err());
    assert_serves(&node.address).await;
}

#[tokio::test]
async fn of_a_connection_no_more_calls_are_under_way_than_allowed_and_all_are_answered() {
    const CALLS: u64 = 3_000;
    let under_way = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let full = Arc::new(Notify::new());
    let node = Fake::new(2, {
        let (under_way, most, full) = (under_way.clone(), most.clone(), full.clone());
        move |_| {
            let (under_way, most, full) = (under_way.clone(), most.clone(), full.clone());
            async move {
                let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                if now == IN_FLIGHT {
                    full.notify_one();
                }
                full.notified().await;
                full.notify_one();
                under_way.fetch_sub(1, Ordering::SeqCst);
                Ok(reply(1))
            }
        }
    });
    let node = node.start().await;
    let (mut incoming, frames) = raw(&node.address).await;
    let sending = tokio::spawn(async move {
        for number in 0..CALLS {
            let call = frame(number, &Call::Batch(Batch::new())).unwrap();
            frames.send(call).await.unwrap();
        }
        frames
    });
    let mut numbers = Vec::new();
    for _ in 0..CALLS {
        numbers.push(incoming.next::<Said>().await.unwrap().0);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..CALLS));
    assert_eq!(most.load(Ordering::SeqCst), IN_FLIGHT);
    sending.await.unwrap();
}

#[tokio::test]
async fn there_are_so_many_seats_and_who_leaves_makes_room() {
    let (node, seats) = (Fake::leading(2), Seats::new());
    let mut taken: Vec<_> = (0..super::CLIENTS)
        .map(|_| seats.take(&CLIENT, &node).unwrap())
        .collect();
    let refusal = seats.take(&CLIENT, &node).unwrap_err();
    assert_eq!(refusal, "node 2 has no room for another connection");
    let peer = Hello {
        from: Party::Node(1),
        to: 2,
    };
    let other = seats.take(&peer, &node);
    assert!(other.is_ok(), "nodes have seats of their own");
    taken.pop();
    assert!(seats.take(&CLIENT, &node).is_ok());
}

#[tokio::test]
async fn an_address_that_is_in_use_or_is_none_is_an_error_that_says_so() {
    let (_listener, address) = listen().await;
    let error = Server::bind(&address).await.unwrap_err();
    assert!(matches!(&error, BindError::InUse { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!("somebody listens at {address} already")
    );
    let error = Server::bind("nonsense").await.unwrap_err();
    assert!(matches!(&error, BindError::Unusable { .. }), "{error}");
}

#[tokio::test]
async fn a_dead_node_is_not_hammered() {
    let (listener, address) = listen().await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    tokio::spawn(async move {
        // Closes each connection without a word.
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let link = crate::link::Link::new(Party::Client, 2, address);
    let link = link.pausing(Duration::from_secs(3_600));
    for _ in 0..100 {
        assert!(link.send(&Call::Batch(Batch::new())).await.is_err());
    }
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
}
