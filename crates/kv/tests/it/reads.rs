//! What an attempt sees: one moment of the store, and its own writes on top.

use std::collections::BTreeMap;

use proptest::prelude::*;
use spanlatch_kv::Error;
use spanlatch_replica::{Request, Value};
use spanset::{Key, Span};

use crate::scene::{Scene, value};

#[test]
fn all_reads_of_an_attempt_see_one_moment() {
    let scene = Scene::new();
    scene.put("a", "1");
    let txn = scene.db.begin();
    let attempt = txn.attempt();
    assert_eq!(scene.run(attempt.get("a")).unwrap(), value("1"));
    scene.put("a", "2");
    scene.put("b", "2");
    assert_eq!(scene.run(attempt.get("a")).unwrap(), value("1"));
    assert_eq!(scene.run(attempt.get("b")).unwrap(), None);
    let rows = scene.run(attempt.scan(Span::all(), Request::UNLIMITED));
    assert_eq!(rows.unwrap(), [("a".into(), "1".into())]);
}

#[test]
fn an_attempt_that_only_reads_commits_whatever_others_write() {
    let scene = Scene::new();
    scene.put("a", "1");
    let mut txn = scene.db.begin();
    scene.run(txn.attempt().get("a")).unwrap();
    scene.put("a", "2");
    scene.run(txn.commit()).unwrap();
}

#[test]
fn nothing_is_seen_by_others_before_the_commit_and_all_of_it_after() {
    let scene = Scene::new();
    let mut txn = scene.db.begin();
    txn.attempt().put("a", "1").unwrap();
    txn.attempt().put("b", "1").unwrap();
    assert_eq!(scene.get("a"), None);
    scene.run(txn.commit()).unwrap();
    assert_eq!((scene.get("a"), scene.get("b")), (value("1"), value("1")));
}

fn key(k: u8) -> Key {
    Key::copy_from_slice(&[b'a' + k])
}

fn any_span() -> impl Strategy<Value = Span> {
    (0u8..6, 0u8..7).prop_map(|(start, end)| {
        Span::range(key(start), key(end)).unwrap_or_else(|_| Span::starting_at(key(start)))
    })
}

proptest! {
    #[test]
    fn scans_and_gets_see_own_writes_in_place_of_the_stored(
        stored in prop::collection::btree_set(0u8..6, 0..6),
        own in prop::collection::btree_map(0u8..6, any::<bool>(), 0..6),
        splits in prop::collection::vec(0u8..6, 0..3),
        span in any_span(),
        limit in prop_oneof![0usize..5, Just(Request::UNLIMITED)],
    ) {
        let builder = spanlatch_replica::Store::builder().splits(splits.into_iter().map(key));
        let scene = Scene::of(builder, Default::default());
        let mut expected = BTreeMap::<Key, Value>::new();
        for k in stored {
            scene.run(scene.db.put(key(k), "stored")).unwrap();
            expected.insert(key(k), "stored".into());
        }
        let txn = scene.db.begin();
        let attempt = txn.attempt();
        for (k, deletes) in own {
            if deletes {
                attempt.delete(key(k)).unwrap();
                expected.remove(&key(k));
            } else {
                attempt.put(key(k), "own").unwrap();
                expected.insert(key(k), "own".into());
            }
        }
        let within = |k: &Key| span.contains_key(k);
        let mut rows: Vec<_> = expected.clone().into_iter().filter(|(k, _)| within(k)).collect();
        let up = scene.run(attempt.scan(span.clone(), limit)).unwrap();
        prop_assert_eq!(&up, &rows[..limit.min(rows.len())]);
        rows.reverse();
        let down = scene.run(attempt.reverse_scan(span.clone(), limit)).unwrap();
        prop_assert_eq!(&down, &rows[..limit.min(rows.len())]);
        let keys = || (0..6).map(key);
        let all = scene.run(attempt.get_all(keys())).unwrap();
        for (k, value) in keys().zip(all) {
            prop_assert_eq!(value.as_ref(), expected.get(&k));
            let one = scene.run(attempt.get(k.clone())).unwrap();
            prop_assert_eq!(one.as_ref(), expected.get(&k));
        }
    }
}

#[test]
fn an_attempt_conflicts_with_a_change_of_any_of_its_reads_and_of_no_other_key() {
    let reads: [(&str, &[u8], &[u8]); 3] = [
        ("get", b"b", b"ac"),
        ("scan", b"bcd", b"ae"),
        ("limited", b"bc", b"ade"),
    ];
    for (name, conflicting, others) in reads {
        for (keys, conflicts) in [(conflicting, true), (others, false)] {
            for &changed in keys {
                let scene = Scene::new();
                scene.put("c", "1");
                let mut txn = scene.db.begin();
                let attempt = txn.attempt();
                let span = Span::range("b", "e").unwrap();
                scene
                    .run(async {
                        match name {
                            "get" => attempt.get("b").await.map(|_| ()),
                            "scan" => attempt.scan(span, Request::UNLIMITED).await.map(|_| ()),
                            _ => attempt.scan(span, 1).await.map(|_| ()),
                        }
                    })
                    .unwrap();
                attempt.put("z", "1").unwrap();
                let changed = Key::copy_from_slice(&[changed]);
                scene.run(scene.db.delete(changed.clone())).unwrap();
                let committed = scene.run(txn.commit());
                let retry = matches!(committed, Err(Error::Retry { .. }));
                assert_eq!(retry, conflicts, "{name} {changed:?}");
                assert_eq!(scene.get("z").is_none(), conflicts);
            }
        }
    }
}
