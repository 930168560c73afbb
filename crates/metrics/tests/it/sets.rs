//! The sets export what the catalogue defines, all of it and nothing else.

use std::time::Duration;

use spanlatch_metrics::{
    Def, Gauge, Histogram, LatchMetrics, Outcome, RegisterError, Registry, ReplicaMetrics,
    ReplicationMetrics, Unit, catalogue,
};

use crate::openmetrics::parse;

#[test]
fn a_replica_and_its_node_export_the_whole_catalogue_as_it_is_defined() {
    let mut registry = Registry::new();
    ReplicaMetrics::default()
        .register(&mut registry, "store-1")
        .unwrap();
    ReplicationMetrics::default()
        .register(&mut registry, "store-1")
        .unwrap();
    registry
        .register(catalogue::REPLICATION_LAG, "node-2", Gauge::default())
        .unwrap();
    let families = parse(&registry.to_string());
    assert_eq!(families.len(), catalogue::ALL.len());
    for def in catalogue::ALL {
        let mut name = def.name.replace('.', "_");
        let mut unit = "";
        if def.unit == Unit::Seconds {
            name.push_str("_seconds");
            unit = "seconds";
        }
        let family = &families[&name];
        assert_eq!(family.kind, def.kind.to_string(), "{name}");
        assert_eq!(family.unit, unit, "{name}");
        assert_eq!(family.help, format!("{}.", def.help), "{name}");
    }
}

#[test]
fn the_readme_lists_the_whole_catalogue() {
    let readme = include_str!("../../README.md");
    for def in catalogue::ALL {
        let row = format!("| `{}` | {} |", def.name, def.kind);
        assert!(readme.contains(&row), "no row {row:?}");
    }
}

#[test]
fn latch_managers_of_one_owner_report_together() {
    let mut registry = Registry::new();
    let metrics = ReplicaMetrics::default();
    metrics.register(&mut registry, "store-1").unwrap();
    let (one, two) = (metrics.latch(), metrics.clone().latch());
    one.slow.inc();
    two.slow.inc();
    one.wait.observe(Duration::from_millis(1));
    two.wait.observe(Duration::from_millis(2));
    let owner = [("owner", "store-1")];
    let families = parse(&registry.to_string());
    let value = |family: &str, sample: &str| families[family].value(sample, &owner);
    assert_eq!(value("requests_slow_latch", "requests_slow_latch"), 2.0);
    assert_eq!(value("latch_wait_seconds", "latch_wait_seconds_count"), 2.0);
    assert_eq!(value("latch_wait_seconds", "latch_wait_seconds_sum"), 0.003);
}

#[test]
fn a_node_says_how_it_stands_in_its_group() {
    let mut registry = Registry::new();
    let metrics = ReplicationMetrics::default();
    metrics.register(&mut registry, "").unwrap();
    metrics.term.set(3);
    metrics.leads.set(1);
    metrics.last.set(20);
    metrics.applied.set(10);
    let families = parse(&registry.to_string());
    let value = |name: &str| families[name].value(name, &[]);
    assert_eq!(value("replication_term"), 3.0);
    assert_eq!(value("replication_leads"), 1.0);
    assert_eq!(value("replication_log_last"), 20.0);
    assert_eq!(value("replication_log_applied"), 10.0);
    drop(metrics);
    let families = parse(&registry.to_string());
    assert_eq!(
        families["replication_leads"].value("replication_leads", &[]),
        0.0
    );
}

#[test]
fn a_latch_manager_used_alone_exports_its_own_metrics() {
    let mut registry = Registry::new();
    let metrics = LatchMetrics::default();
    metrics.register(&mut registry, "").unwrap();
    metrics.slow.inc();
    let families = parse(&registry.to_string());
    assert_eq!(
        families["requests_slow_latch"].value("requests_slow_latch", &[]),
        1.0
    );
    assert_eq!(families.len(), 2);
}

#[test]
fn default_sets_do_not_share_anything() {
    let (a, b) = (ReplicaMetrics::default(), ReplicaMetrics::default());
    a.requests.of(Outcome::Success).inc();
    let share = a.slow_latch.share();
    share.inc();
    assert_eq!((a.requests.total(), b.requests.total()), (1, 0));
    assert_eq!((a.slow_latch.value(), b.slow_latch.value()), (1, 0));
}

#[test]
fn a_set_that_cannot_be_registered_changes_nothing() {
    let mut registry = Registry::new();
    let (in_use, redefined) = (
        catalogue::LATCH_WAIT,
        Def {
            help: "Something else",
            ..catalogue::PROPOSALS_PENDING
        },
    );
    registry
        .register(in_use, "store-1", Histogram::default())
        .unwrap();
    registry
        .register(redefined, "store-2", Gauge::default())
        .unwrap();
    let before = registry.to_string();

    let duplicate = |owner: &str| RegisterError::Duplicate {
        name: in_use.name,
        owner: owner.to_owned(),
    };
    assert_eq!(
        LatchMetrics::default().register(&mut registry, "store-1"),
        Err(duplicate("store-1"))
    );
    let replica = ReplicaMetrics::default();
    assert_eq!(
        replica.register(&mut registry, "store-1"),
        Err(duplicate("store-1"))
    );
    assert_eq!(
        replica.register(&mut registry, "store-3"),
        Err(RegisterError::Redefined(redefined.name))
    );
    assert_eq!(registry.to_string(), before);
}
