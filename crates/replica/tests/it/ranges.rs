//! Batches over several ranges.

use spanlatch_replica::{ManualSource, Request, Response};
use spanset::{Key, Span};

use crate::scene::{Scene, after, batch, builder, range, rows, ts, value};

#[test]
fn a_range_is_sequenced_once_the_latches_of_all_lower_ones_are_held() {
    let scene = Scene::new(["g", "n"]);
    let mut low = scene.start(Request::put("a", "0"));
    // Given out of order, sequenced in order.
    let mut both = scene.start(batch([Request::put("z", "1"), Request::put("a", "1")]));
    let counts = |range: usize| scene.store.replicas()[range].latches().counts();
    assert_eq!(counts(0).requests, 2);
    assert_eq!(counts(1).requests, 0, "it has no keys there");
    assert_eq!(
        counts(2).requests,
        0,
        "not before it holds the first range's"
    );
    let mut high = scene.start(Request::put("z", "2"));
    assert_eq!(scene.kept.len(), 2, "so the later one is not held up");

    scene.apply();
    assert!(both.is_waiting());
    assert_eq!(counts(2).requests, 2);
    scene.apply();
    assert!(both.is_waiting());
    scene.apply();
    for put in [&mut low, &mut both, &mut high] {
        assert!(!put.is_waiting());
    }
    let (low, both, high) = (low.end(), both.end(), high.end());
    assert!(both.as_ref().unwrap().timestamp > low.unwrap().timestamp);
    assert!(both.unwrap().timestamp > high.unwrap().timestamp);
    assert_eq!(scene.get("a"), value("1"));
    assert_eq!(scene.get("z"), value("1"));
    assert!(scene.store.is_idle());
}

#[test]
fn one_timestamp_goes_above_what_was_read_and_written_in_every_range() {
    let scene = Scene::new(["m"]);
    scene.time.set(200);
    scene.serve(batch([Request::get("a")]).at(ts(140))).unwrap();
    scene.serve(batch([Request::get("z")]).at(ts(150))).unwrap();
    scene
        .serve(batch([Request::put("y", "0")]).at(ts(160)))
        .unwrap();
    let two = batch([Request::put("a", "1"), Request::put("z", "1")]).at(ts(120));
    assert_eq!(scene.serve(two).unwrap().timestamp, after(ts(150)));
    let three = batch([Request::put("b", "1"), Request::put("y", "1")]).at(ts(120));
    assert_eq!(scene.serve(three).unwrap().timestamp, after(ts(160)));
}

#[test]
fn nothing_of_a_batch_is_seen_before_all_of_it() {
    let scene = Scene::new(["m"]);
    let mut put = scene.start(batch([Request::put("a", "1"), Request::put("z", "1")]));
    let mut gets = ["a", "z"].map(|key| scene.start(Request::get(key)));
    assert!(put.is_waiting());
    assert_eq!(scene.kept.len(), 1, "one proposal for both ranges");
    assert!(gets.iter_mut().all(|get| get.is_waiting()));
    scene.apply();
    for get in gets {
        assert_eq!(get.end().unwrap().responses, [Response::Value(value("1"))]);
    }
}

#[test]
fn scans_go_on_over_boundaries_up_to_their_limit() {
    let scene = Scene::new(["c", "e"]);
    for key in ["a", "b", "c", "d", "f"] {
        scene
            .serve(batch([Request::put(key, key)]).at(ts(10)))
            .unwrap();
    }
    let answer = |request: Request| scene.serve(request).unwrap().responses.remove(0);
    assert_eq!(
        answer(Request::scan(Span::all())),
        Response::Rows {
            rows: rows([("a", "a"), ("b", "b"), ("c", "c"), ("d", "d"), ("f", "f")]),
            resume: None,
        }
    );
    assert_eq!(
        answer(Request::scan(range("b", "z")).limited(2)),
        Response::Rows {
            rows: rows([("b", "b"), ("c", "c")]),
            resume: Some(range("c\0", "z")),
        }
    );
    assert_eq!(
        answer(Request::reverse_scan(range("b", "z")).limited(3)),
        Response::Rows {
            rows: rows([("f", "f"), ("d", "d"), ("c", "c")]),
            resume: Some(range("b", "c")),
        }
    );
    assert_eq!(
        answer(Request::delete_range(range("b", "z")).limited(3)),
        Response::Deleted {
            keys: vec!["b".into(), "c".into(), "d".into()],
            resume: Some(range("d\0", "z")),
        }
    );
    assert_eq!(
        answer(Request::reverse_scan(Span::all())),
        Response::Rows {
            rows: rows([("f", "f"), ("a", "a")]),
            resume: None
        }
    );
}

#[test]
fn a_scan_over_ranges_protects_in_each_what_it_covered() {
    let scene = Scene::new(["c", "e"]);
    for key in ["a", "d", "f"] {
        scene
            .serve(batch([Request::put(key, key)]).at(ts(10)))
            .unwrap();
    }
    scene.time.set(200);
    let scan = Request::scan(Span::all()).limited(2);
    scene.serve(batch([scan]).at(ts(150))).unwrap();
    for (key, expected) in [
        ("b", after(ts(150))),
        ("d", after(ts(150))),
        ("d\0", ts(120)),
    ] {
        let put = scene.serve(batch([Request::put(key, "1")]).at(ts(120)));
        assert_eq!(put.unwrap().timestamp, expected, "{key}");
    }
    let put = scene.serve(batch([Request::put("f", "1")]).at(ts(120)));
    assert_eq!(
        put.unwrap().timestamp,
        ts(120),
        "a range it did not come to"
    );
}

#[test]
fn splits_may_come_in_any_order_and_more_than_once() {
    let (store, _applier) = builder(&ManualSource::at(1))
        .splits(["m", "", "c", "m"].map(Key::from))
        .build();
    let spans: Vec<Span> = store.replicas().iter().map(|r| r.span().clone()).collect();
    let expected = [
        Span::range("", "c").unwrap(),
        range("c", "m"),
        Span::starting_at("m"),
    ];
    assert_eq!(spans, expected);
}

#[test]
fn a_store_that_follows_another_starts_above_all_that_was_served() {
    let time = ManualSource::at(100);
    let (store, mut applier) = builder(&time).low_water(ts(500)).build();
    assert_eq!(store.clock().now(), after(ts(500)));
    let running = crate::scene::Running::new({
        let store = store.clone();
        async move { store.send(batch([Request::put("a", "1")]).at(ts(50))).await }
    });
    applier.step();
    assert_eq!(running.end().unwrap().timestamp, after(ts(500)));
}
