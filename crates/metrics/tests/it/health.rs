//! The health check alerts on what is above its threshold, for each owner, and on nothing else.

use spanlatch_metrics::health::{Alert, Health, Reading, Untrackable};
use spanlatch_metrics::{
    Counter, Def, Gauge, Kind, LatchMetrics, Outcome, Outcomes, Registry, ReplicaMetrics, Unit,
    catalogue,
};

const ERRORS: Def = Def {
    name: "errors",
    help: "Things that went wrong",
    unit: Unit::Count,
    kind: Kind::Counter,
};

fn lines(alerts: &[Alert]) -> Vec<String> {
    alerts.iter().map(Alert::to_string).collect()
}

#[test]
fn slow_latches_and_slow_proposals_are_tracked_unasked() {
    let mut registry = Registry::new();
    let metrics = ReplicaMetrics::default();
    metrics.register(&mut registry, "store-1").unwrap();
    let mut health = Health::default();
    assert_eq!(health.check(&registry), []);

    let latch = metrics.latch();
    latch.slow.inc();
    let raft = metrics.slow_raft.share();
    raft.add(2);
    assert_eq!(
        lines(&health.check(&registry)),
        [
            "store-1: requests.slow.latch is 1, above 0",
            "store-1: requests.slow.raft is 2, above 0",
        ]
    );
    latch.slow.dec();
    drop(raft);
    assert_eq!(health.check(&registry), []);
}

#[test]
fn a_gauge_alerts_at_every_look_above_its_minimum_and_not_at_it() {
    let mut registry = Registry::new();
    let gauge = Gauge::default();
    registry
        .register(catalogue::PROPOSALS_PENDING, "a", gauge.clone())
        .unwrap();
    let mut health = Health::new();
    health.track(catalogue::PROPOSALS_PENDING, 3).unwrap();
    let share = gauge.share();
    for (value, alerts) in [(3, 0), (4, 1), (4, 1), (-1, 0)] {
        share.set(value);
        assert_eq!(health.check(&registry).len(), alerts, "at {value}");
    }
}

#[test]
fn replicas_that_share_a_gauge_alert_as_one_and_one_that_goes_away_takes_its_share() {
    let mut registry = Registry::new();
    let metrics = ReplicaMetrics::default();
    metrics.register(&mut registry, "store-1").unwrap();
    let (one, two) = (metrics.latch(), metrics.latch());
    one.slow.inc();
    two.slow.add(2);
    let mut health = Health::default();
    assert_eq!(health.check(&registry)[0].reading, Reading::Value(3));
    drop(one);
    assert_eq!(health.check(&registry)[0].reading, Reading::Value(2));
    drop(two);
    assert_eq!(health.check(&registry), []);
}

#[test]
fn the_first_look_at_a_counter_reports_no_rise() {
    let mut registry = Registry::new();
    let counter = Counter::default();
    registry.register(ERRORS, "a", counter.clone()).unwrap();
    let mut health = Health::new();
    health.track(ERRORS, 0).unwrap();
    counter.add(100);
    assert_eq!(health.check(&registry), []);
    assert_eq!(health.check(&registry), []);
    counter.add(2);
    assert_eq!(
        lines(&health.check(&registry)),
        ["a: errors rose by 2 since the last look, more than 0"]
    );
    assert_eq!(health.check(&registry), []);
}

#[test]
fn a_counter_alerts_when_it_rises_by_more_than_its_minimum_between_two_looks() {
    let mut registry = Registry::new();
    let outcomes = Outcomes::default();
    registry
        .register(catalogue::REQUESTS, "a", outcomes.clone())
        .unwrap();
    let mut health = Health::new();
    health.track(catalogue::REQUESTS, 2).unwrap();
    assert_eq!(health.check(&registry), []);
    outcomes.of(Outcome::Success).add(1);
    outcomes.of(Outcome::Failed).add(1);
    assert_eq!(health.check(&registry), []);
    outcomes.of(Outcome::Success).add(2);
    outcomes.of(Outcome::Failed).add(1);
    assert_eq!(health.check(&registry)[0].reading, Reading::Rise(3));
}

#[test]
fn a_counter_that_starts_again_is_looked_at_for_the_first_time() {
    let mut registry = Registry::new();
    let mut health = Health::new();
    health.track(ERRORS, 0).unwrap();
    let register = |registry: &mut Registry, stands: u64| {
        let counter = Counter::default();
        counter.add(stands);
        registry.register(ERRORS, "a", counter).unwrap();
    };
    register(&mut registry, 10);
    assert_eq!(health.check(&registry), []);
    // Away for a look, and back higher.
    registry.unregister("a");
    assert_eq!(health.check(&registry), []);
    register(&mut registry, 20);
    assert_eq!(health.check(&registry), []);
    // Replaced between two looks by one that stands lower.
    registry.unregister("a");
    register(&mut registry, 5);
    assert_eq!(health.check(&registry), []);
}

#[test]
fn alerts_are_sorted_by_owner_then_by_metric() {
    let mut registry = Registry::new();
    let mut health = Health::default();
    health.track(ERRORS, 0).unwrap();
    let mut kept = Vec::new();
    for owner in ["c", "", "b", "a"] {
        let counter = Counter::default();
        registry.register(ERRORS, owner, counter.clone()).unwrap();
        let latch = LatchMetrics::default();
        latch.register(&mut registry, owner).unwrap();
        kept.push((counter, latch));
    }
    assert_eq!(health.check(&registry), []);
    for (counter, latch) in &kept {
        counter.inc();
        latch.slow.inc();
    }
    let alerts = health.check(&registry);
    let order: Vec<_> = alerts
        .iter()
        .map(|a| (a.owner.as_str(), a.metric))
        .collect();
    let expected: Vec<_> = ["", "a", "b", "c"]
        .iter()
        .flat_map(|&owner| [(owner, "errors"), (owner, "requests.slow.latch")])
        .collect();
    assert_eq!(order, expected);
}

#[test]
fn a_histogram_cannot_be_tracked() {
    let mut health = Health::new();
    let error = health.track(catalogue::LATCH_WAIT, 0).unwrap_err();
    assert_eq!(
        error,
        Untrackable {
            name: "latch.wait",
            kind: Kind::Histogram
        }
    );
    assert_eq!(
        error.to_string(),
        r#"histogram "latch.wait" cannot be tracked: it has no single value"#
    );
}
