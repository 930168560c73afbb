//! What is registered is exposed as valid OpenMetrics text, and what cannot be is refused.

use proptest::prelude::*;
use spanlatch_metrics::{
    Counter, Def, Gauge, Histogram, Kind, Outcome, Outcomes, RegisterError, Registry, Unit,
};

use crate::openmetrics::parse;

const SPLITS: Def = Def {
    name: "range.splits",
    help: "Ranges that were split",
    unit: Unit::Count,
    kind: Kind::Counter,
};

const CACHED: Def = Def {
    name: "cache.size",
    help: "What the cache holds",
    unit: Unit::Bytes,
    kind: Kind::Gauge,
};

const PAUSES: Def = Def {
    name: "pauses",
    help: "How long everything stood still",
    unit: Unit::Seconds,
    kind: Kind::Histogram,
};

#[test]
fn an_empty_registry_is_a_valid_exposition() {
    assert_eq!(Registry::new().to_string(), "# EOF\n");
}

#[test]
fn a_counter_is_exposed_with_help_type_and_suffix() {
    let mut registry = Registry::new();
    let counter = Counter::default();
    registry.register(SPLITS, "", counter.clone()).unwrap();
    counter.inc();
    counter.add(2);
    assert_eq!(
        registry.to_string(),
        "# HELP range_splits Ranges that were split.\n\
         # TYPE range_splits counter\n\
         range_splits_total 3\n\
         # EOF\n"
    );
}

#[test]
fn a_unit_ends_the_exposed_name() {
    let mut registry = Registry::new();
    let gauge = Gauge::default();
    registry.register(CACHED, "store-1", gauge.clone()).unwrap();
    let share = gauge.share();
    share.set(4096);
    assert_eq!(
        registry.to_string(),
        "# HELP cache_size_bytes What the cache holds.\n\
         # TYPE cache_size_bytes gauge\n\
         # UNIT cache_size_bytes bytes\n\
         cache_size_bytes{owner=\"store-1\"} 4096\n\
         # EOF\n"
    );
}

#[test]
fn owners_of_one_metric_stand_together_under_one_descriptor() {
    let mut registry = Registry::new();
    for owner in ["b", "a", ""] {
        let outcomes = Outcomes::default();
        outcomes.of(Outcome::Ambiguous).add(1 + owner.len() as u64);
        registry
            .register(spanlatch_metrics::catalogue::REQUESTS, owner, outcomes)
            .unwrap();
        registry
            .register(PAUSES, owner, Histogram::default())
            .unwrap();
    }
    let families = parse(&registry.to_string());
    assert_eq!(
        families.keys().collect::<Vec<_>>(),
        ["pauses_seconds", "requests"]
    );
    let requests = &families["requests"];
    assert_eq!(requests.samples.len(), 3 * Outcome::ALL.len());
    assert_eq!(
        requests.value("requests_total", &[("outcome", "ambiguous")]),
        1.0
    );
    assert_eq!(
        requests.value(
            "requests_total",
            &[("owner", "b"), ("outcome", "ambiguous")]
        ),
        2.0
    );
    assert_eq!(
        requests.value("requests_total", &[("owner", "b"), ("outcome", "success")]),
        0.0
    );
}

#[test]
fn an_owner_that_is_unregistered_is_no_longer_exposed_and_may_come_back() {
    let mut registry = Registry::new();
    for owner in ["a", "b"] {
        registry
            .register(SPLITS, owner, Counter::default())
            .unwrap();
    }
    registry.register(CACHED, "a", Gauge::default()).unwrap();
    registry.unregister("a");
    let families = parse(&registry.to_string());
    assert_eq!(families.keys().collect::<Vec<_>>(), ["range_splits"]);
    assert_eq!(families["range_splits"].samples.len(), 1);
    registry.register(SPLITS, "a", Counter::default()).unwrap();
}

#[test]
fn what_cannot_be_exposed_is_refused_with_the_reason() {
    let mut registry = Registry::new();
    let name = |name| Def { name, ..SPLITS };
    for bad in [
        "", ".", "a.", ".a", "a..b", "1a", "a_b", "a-b", "A", "a b", "é", "a.total", "bytes",
    ] {
        assert_eq!(
            registry.register(name(bad), "", Counter::default()),
            Err(RegisterError::Name(bad))
        );
    }
    let help = "two\nlines";
    assert_eq!(
        registry.register(Def { help, ..SPLITS }, "", Counter::default()),
        Err(RegisterError::Help {
            name: "range.splits",
            help
        })
    );
    assert_eq!(
        registry.register(SPLITS, "", Gauge::default()),
        Err(RegisterError::Kind {
            name: "range.splits",
            defined: Kind::Counter,
            given: Kind::Gauge
        })
    );
    let unit = Unit::Bytes;
    assert_eq!(
        registry.register(Def { unit, ..PAUSES }, "", Histogram::default()),
        Err(RegisterError::Unit {
            name: "pauses",
            unit
        })
    );
    assert_eq!(registry.to_string(), "# EOF\n", "nothing was registered");

    registry.register(SPLITS, "a", Counter::default()).unwrap();
    let before = registry.to_string();
    let error = registry
        .register(SPLITS, "a", Counter::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"owner "a" has registered a metric "range.splits" already"#
    );
    let help = "Something else";
    assert_eq!(
        registry.register(Def { help, ..SPLITS }, "b", Counter::default()),
        Err(RegisterError::Redefined("range.splits"))
    );
    assert_eq!(registry.to_string(), before);
}

proptest! {
    #[test]
    fn any_owner_can_be_read_back(owner in "(?s).{0,12}") {
        let mut registry = Registry::new();
        let counter = Counter::default();
        counter.add(5);
        registry.register(SPLITS, &owner, counter).unwrap();
        let families = parse(&registry.to_string());
        let labels = [("owner", owner.as_str())];
        let labels = if owner.is_empty() { &labels[..0] } else { &labels[..] };
        prop_assert_eq!(families["range_splits"].value("range_splits_total", labels), 5.0);
    }

    #[test]
    fn different_names_are_exposed_as_different_names(
        names in prop::collection::btree_set("[a-b]{1,2}(\\.[a-b1-2_-]{1,2}){0,2}", 1..12),
    ) {
        let mut registry = Registry::new();
        let mut registered = 0;
        for name in &names {
            // Definitions are made of constants; a test may leak a few.
            let def = Def { name: Box::leak(name.clone().into_boxed_str()), ..SPLITS };
            let refused = name.contains(['_', '-']);
            prop_assert_eq!(registry.register(def, "", Counter::default()).is_err(), refused);
            registered += usize::from(!refused);
        }
        prop_assert_eq!(parse(&registry.to_string()).len(), registered);
    }
}
