//! Gauges add up over their owners, and an owner that goes away takes its share.

use std::thread;

use proptest::prelude::*;
use spanlatch_metrics::{Gauge, GaugeShare};

#[test]
fn two_owners_of_a_gauge_add_up() {
    let gauge = Gauge::default();
    let (a, b) = (gauge.share(), gauge.share());
    a.add(2);
    b.inc();
    assert_eq!((a.value(), b.value(), gauge.value()), (2, 1, 3));
    a.dec();
    assert_eq!((a.value(), b.value(), gauge.value()), (1, 1, 2));
    b.set(7);
    assert_eq!((a.value(), b.value(), gauge.value()), (1, 7, 8));
}

#[test]
fn an_owner_that_goes_away_takes_its_share_and_no_more() {
    let gauge = Gauge::default();
    let (a, b) = (gauge.share(), gauge.share());
    a.add(2);
    b.add(3);
    drop(a);
    assert_eq!(gauge.value(), 3);
    drop(b);
    assert_eq!(gauge.value(), 0);
}

#[test]
fn a_share_knows_its_gauge() {
    let gauge = Gauge::default();
    let share = gauge.share();
    share.gauge().share().inc();
    share.inc();
    assert_eq!(
        gauge.value(),
        1,
        "the share that went away at once took its one along"
    );
}

#[test]
fn shares_changed_by_several_threads_lose_nothing() {
    let gauge = Gauge::default();
    let stays = gauge.share();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let leaves = gauge.share();
                for _ in 0..1_000 {
                    leaves.inc();
                    stays.inc();
                }
            });
        }
    });
    assert_eq!((stays.value(), gauge.value()), (4_000, 4_000));
}

#[derive(Clone, Debug)]
enum Step {
    Join,
    Leave(usize),
    Add(usize, i64),
    Set(usize, i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Join),
        1 => (0..8usize).prop_map(Step::Leave),
        4 => (0..8usize, -3..4i64).prop_map(|(i, n)| Step::Add(i, n)),
        2 => (0..8usize, -3..4i64).prop_map(|(i, n)| Step::Set(i, n)),
    ]
}

proptest! {
    #[test]
    fn a_gauge_is_the_sum_of_its_living_shares(steps in prop::collection::vec(step(), 1..60)) {
        let gauge = Gauge::default();
        let mut shares: Vec<(GaugeShare, i64)> = Vec::new();
        for step in steps {
            let among = shares.len().max(1);
            match step {
                Step::Join => shares.push((gauge.share(), 0)),
                Step::Leave(i) if !shares.is_empty() => drop(shares.swap_remove(i % among)),
                Step::Add(i, n) => if let Some((share, held)) = shares.get_mut(i % among) {
                    share.add(n);
                    *held += n;
                },
                Step::Set(i, n) => if let Some((share, held)) = shares.get_mut(i % among) {
                    share.set(n);
                    *held = n;
                },
                Step::Leave(_) => {}
            }
            for (share, held) in &shares {
                prop_assert_eq!(share.value(), *held);
            }
            prop_assert_eq!(gauge.value(), shares.iter().map(|(_, held)| held).sum::<i64>());
        }
    }
}
