//! Who serves, and what.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spanlatch_replica::{Cause, Error, MemEngine};
use spanlatch_replica_raft::{Config, Node, StartError, Tcp};
use tokio::time::{Instant, sleep, timeout};

use crate::group::{Group, IDS, get, put};

#[tokio::test(start_paused = true)]
async fn what_a_leader_acknowledges_all_nodes_come_to_have() {
    let group = Group::start().await;
    let leader = group.leader().await;
    put(&group.nodes[&leader], "a", "1").await.unwrap();
    assert_eq!(
        get(&group.nodes[&leader], "a").await.unwrap().as_deref(),
        Some("1")
    );
    group.caught_up(leader).await;
    for id in IDS {
        assert_eq!(group.content(id), group.content(leader));
    }
    assert!(group.content(1).contains("\"a\""), "{}", group.content(1));
}

#[tokio::test(start_paused = true)]
async fn others_name_the_leader() {
    let group = Group::start().await;
    let leader = group.leader().await;
    put(&group.nodes[&leader], "a", "1").await.unwrap();
    group.caught_up(leader).await;
    for id in IDS.into_iter().filter(|&id| id != leader) {
        let Err(Error::NotLeader {
            leader: Some(named),
        }) = get(&group.nodes[&id], "a").await
        else {
            panic!("node {id} serves");
        };
        assert_eq!(*named, format!("node{leader}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_serves_no_reads_and_another_takes_over() {
    let group = Group::start().await;
    let old = group.leader().await;
    put(&group.nodes[&old], "a", "1").await.unwrap();
    group.network.isolate(old);
    let others: Vec<_> = IDS.into_iter().filter(|&id| id != old).collect();
    // It does not know, and may believe to lead; but it asks.
    let read = get(&group.nodes[&old], "a").await;
    assert!(matches!(read, Err(Error::NotLeader { .. })), "{read:?}");
    let new = group.leader_of(&others).await;
    put(&group.nodes[&new], "a", "2").await.unwrap();
    let stuck = put(&group.nodes[&old], "a", "3");
    // What it proposes it cannot end.
    let stuck = timeout(Duration::from_secs(10), stuck).await;
    assert!(stuck.is_err(), "{stuck:?}");
    group.network.heal();
    sleep(Duration::from_secs(5)).await;
    let leader = group.leader().await;
    assert_eq!(
        get(&group.nodes[&leader], "a").await.unwrap().as_deref(),
        Some("2")
    );
    group.caught_up(leader).await;
    for id in IDS {
        assert_eq!(group.content(id), group.content(leader));
        let metrics = &group.metrics[&id];
        assert_eq!(
            (metrics.proposals_pending.value(), metrics.slow_raft.value()),
            (0, 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_in_flight_when_a_leadership_ended_is_ambiguous() {
    let group = Group::start().await;
    let old = group.leader().await;
    put(&group.nodes[&old], "a", "1").await.unwrap();
    group.network.isolate(old);
    let node = group.nodes[&old].clone();
    let put = tokio::spawn(async move { put(&node, "a", "2").await });
    let others: Vec<_> = IDS.into_iter().filter(|&id| id != old).collect();
    group.leader_of(&others).await;
    group.network.heal();
    let end = put.await.unwrap();
    assert!(
        matches!(end, Err(Error::Ambiguous(Cause::LeadershipOver))),
        "{end:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_has_nothing_under_way_ends_at_once() {
    let group = Group::start().await;
    let leader = group.leader().await;
    put(&group.nodes[&leader], "a", "1").await.unwrap();
    let (asked, patience) = (Instant::now(), Duration::from_secs(3600));
    group.nodes[&leader].shut_down(patience).await;
    assert!(asked.elapsed() < patience, "{:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_new_group_elects_one_leader_and_keeps_it() {
    let group = Group::start().await;
    let leader = group.leader().await;
    let term = group.nodes[&leader].status().term;
    sleep(Duration::from_secs(30)).await;
    for id in IDS {
        let status = group.nodes[&id].status();
        assert_eq!(
            (status.leader, status.term),
            (Some(leader), term),
            "node {id}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_is_founded_without_the_first_of_its_nodes() {
    let mut group = Group::start().await;
    group.stop(1).await;
    put(&group.nodes[&group.leader_of(&[2, 3]).await], "a", "1")
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn however_much_was_in_flight_all_of_it_ends_with_the_leadership() {
    let group = Group::start_with(|config| {
        config.snapshot_every = 20;
        config.keep_entries = 0;
    })
    .await;
    let old = group.leader().await;
    put(&group.nodes[&old], "a", "0").await.unwrap();
    group.network.isolate(old);
    let mut puts = Vec::new();
    // More commands than may be in flight, so that some are never sent.
    for count in 0..1_200 {
        let node = group.nodes[&old].clone();
        puts.push(tokio::spawn(async move {
            put(&node, "b", &count.to_string()).await
        }));
        puts.push(tokio::spawn({
            let node = group.nodes[&old].clone();
            async move { put(&node, &format!("c{count}"), "1").await }
        }));
        sleep(Duration::from_millis(3)).await;
    }
    let others: Vec<_> = IDS.into_iter().filter(|&id| id != old).collect();
    let new = group.leader_of(&others).await;
    // The old one gets a snapshot, and never hears of what was in its log.
    for count in 0..2_000 {
        put(&group.nodes[&new], "a", &count.to_string())
            .await
            .unwrap();
    }
    group.network.heal();
    for put in puts {
        let end = put.await.unwrap();
        assert!(
            matches!(end, Err(Error::Ambiguous(_) | Error::NotLeader { .. })),
            "{end:?}"
        );
    }
    let metrics = &group.metrics[&old];
    assert_eq!(metrics.proposals_pending.value(), 0);
    assert_eq!(metrics.slow_raft.value(), 0);
}

#[tokio::test]
async fn an_engine_that_forgets_its_marks_is_refused() {
    let engine = Arc::new(MemEngine::new());
    let peers = BTreeMap::from([(1, "nowhere".to_owned())]);
    let transport = Arc::new(Tcp::new(1, &peers));
    let config = Config::new(1, peers, engine, transport, Default::default());
    let error = Node::start(config).await.unwrap_err();
    assert!(matches!(error, StartError::Forgetful(_)), "{error}");
}
