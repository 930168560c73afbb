//! Nodes that were away, and come back.

use std::time::Duration;

use futures_util::future::join_all;
use spanlatch_replica::Request;
use spanset::{Key, Timestamp};
use tokio::time::sleep;

use crate::group::{Group, IDS, get, put};

/// Writes to so many keys at once, twice.
async fn write_many(group: &Group, keys: u32, round: u32) {
    let leader = &group.nodes[&group.leader().await];
    let puts = (0..keys).map(|key| {
        let put = Request::put(
            Key::from(key.to_be_bytes().to_vec()),
            round.to_be_bytes().to_vec(),
        );
        leader.send(put)
    });
    for put in join_all(puts).await {
        put.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_for_100_000_writes_catches_up_by_a_snapshot_while_others_write() {
    let mut group = Group::start_with(|config| {
        config.snapshot_every = 50;
        config.keep_entries = 10;
    })
    .await;
    put(&group.nodes[&group.leader().await], "a", "1")
        .await
        .unwrap();
    let leader = group.leader().await;
    let away = IDS.into_iter().find(|&id| id != leader).unwrap();
    group.stop(away).await;
    for round in 0..200 {
        write_many(&group, 500, round).await;
    }
    let removed = group.nodes[&leader].status().purged;
    assert!(removed > Some(50), "{removed:?}");

    group.restart(away).await;
    let mut round = 200;
    while group.nodes[&away].status().applied < removed {
        write_many(&group, 500, round).await;
        round += 1;
    }
    // It never had these as log entries.
    assert!(group.nodes[&away].status().purged >= removed);
    group.caught_up(leader).await;
    for id in IDS {
        assert!(
            group.content(id) == group.content(leader),
            "node {id} differs"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_collected_meanwhile_does_not_come_back_with_a_node() {
    let mut group = Group::start_with(|config| {
        config.snapshot_every = 20;
        config.keep_entries = 0;
    })
    .await;
    let leader = group.leader().await;
    put(&group.nodes[&leader], "deleted", "1").await.unwrap();
    group.caught_up(leader).await;
    let away = IDS.into_iter().find(|&id| id != leader).unwrap();
    group.stop(away).await;
    let node = &group.nodes[&leader];
    let deleted = node
        .send(Request::delete(Key::from("deleted")))
        .await
        .unwrap();
    for round in 0..40 {
        write_many(&group, 3, round).await;
    }
    let threshold = Timestamp::new(deleted.timestamp.wall + 1, 0);
    node.collect_garbage(threshold).await.unwrap();
    for round in 40..80 {
        write_many(&group, 3, round).await;
    }
    group.restart(away).await;
    group.caught_up(leader).await;
    for id in IDS {
        assert!(
            group.content(id) == group.content(leader),
            "node {id} differs"
        );
    }
    assert!(
        !group.content(away).contains("deleted"),
        "{}",
        group.content(away)
    );
}

#[tokio::test(start_paused = true)]
async fn all_nodes_restart_with_what_they_had() {
    let mut group = Group::start().await;
    for round in 0..3 {
        let leader = group.leader().await;
        let written = round.to_string();
        put(&group.nodes[&leader], "a", &written).await.unwrap();
        for id in IDS {
            group.stop(id).await;
        }
        for id in IDS {
            group.restart(id).await;
        }
        let leader = group.leader().await;
        assert_eq!(
            get(&group.nodes[&leader], "a").await.unwrap(),
            Some(written)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_writes_above_all_that_was_read_before() {
    let group = Group::start().await;
    let old = group.leader().await;
    let read = group.nodes[&old]
        .send(Request::get(Key::from("a")))
        .await
        .unwrap();
    group.network.isolate(old);
    let others: Vec<_> = IDS.into_iter().filter(|&id| id != old).collect();
    let new = group.leader_of(&others).await;
    let written = put(&group.nodes[&new], "a", "1").await.unwrap();
    assert!(written.timestamp > read.timestamp);
    // Even if it is told to write earlier.
    let batch = spanlatch_replica::Batch::from(Request::put(Key::from("b"), "1"));
    let early = group.nodes[&new]
        .send(batch.at(Timestamp::new(1, 0)))
        .await
        .unwrap();
    assert!(early.timestamp > read.timestamp);
    group.network.heal();
    sleep(Duration::from_secs(5)).await;
}
