//! Histograms put each duration into the right bucket.

use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use spanlatch_metrics::{Histogram, Registry, catalogue};

use crate::openmetrics::{Family, parse};

fn exposed(histogram: &Histogram) -> Family {
    let mut registry = Registry::new();
    registry
        .register(catalogue::LATCH_WAIT, "", histogram.clone())
        .unwrap();
    parse(&registry.to_string())
        .remove("latch_wait_seconds")
        .unwrap()
}

/// How many durations the exposition puts at or below `bound`.
fn at_most(family: &Family, bound: &str) -> f64 {
    family.value("latch_wait_seconds_bucket", &[("le", bound)])
}

#[test]
fn a_bound_belongs_to_its_bucket_and_a_nanosecond_more_does_not() {
    let histogram = Histogram::default();
    histogram.observe(Duration::from_millis(250));
    histogram.observe(Duration::from_nanos(250_000_001));
    let family = exposed(&histogram);
    assert_eq!(at_most(&family, "0.1"), 0.0);
    assert_eq!(at_most(&family, "0.25"), 1.0);
    assert_eq!(at_most(&family, "0.5"), 2.0);
}

#[test]
fn the_extremes_are_counted() {
    let histogram = Histogram::default();
    histogram.observe(Duration::ZERO);
    histogram.observe(Duration::from_secs(101));
    let family = exposed(&histogram);
    assert_eq!(at_most(&family, "0.000001"), 1.0);
    assert_eq!(at_most(&family, "100.0"), 1.0);
    assert_eq!(at_most(&family, "+Inf"), 2.0);
    assert_eq!(
        (histogram.count(), histogram.sum()),
        (2, Duration::from_secs(101))
    );
}

#[test]
fn durations_recorded_by_several_threads_are_all_counted() {
    let histogram = Histogram::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|i| histogram.observe(Duration::from_micros(i))));
        }
    });
    assert_eq!(histogram.count(), 4_000);
    assert_eq!(histogram.sum(), Duration::from_micros(4 * 499_500));
}

proptest! {
    #[test]
    fn every_bucket_counts_what_is_at_or_below_its_bound(
        nanos in prop::collection::vec((0..40u32, 0..1_000u64).prop_map(|(e, n)| (1u64 << e) + n), 0..50),
    ) {
        let histogram = Histogram::default();
        for &n in &nanos {
            histogram.observe(Duration::from_nanos(n));
        }
        let family = exposed(&histogram);
        for (name, labels, value) in &family.samples {
            if name == "latch_wait_seconds_bucket" {
                let bound: f64 = labels["le"].replace("+Inf", "inf").parse().unwrap();
                let expected = nanos.iter().filter(|&&n| n as f64 <= (bound * 1e9).round()).count();
                prop_assert_eq!(*value, expected as f64, "le = {}", labels["le"]);
            }
        }
        prop_assert_eq!(histogram.count(), nanos.len() as u64);
        prop_assert_eq!(histogram.sum(), Duration::from_nanos(nanos.iter().sum()));
    }
}
