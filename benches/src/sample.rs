//! What one run of a workload measured.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Operations that ended while it was measured.
    pub ops: u64,
    /// How long was measured.
    pub seconds: f64,
    /// Median latency of those operations.
    pub p50_us: f64,
    /// 99th percentile of their latency.
    pub p99_us: f64,
    /// 99.9th percentile of their latency.
    pub p999_us: f64,
    /// The largest of their latencies.
    pub max_us: f64,
    /// How the run used its latches.
    pub latching: Latching,
    /// The distribution of latencies: upper bounds in microseconds, ascending, and how many
    /// operations lie in each bucket. Bounds grow by an eighth of an octave.
    pub latencies: Vec<(f64, u64)>,
}

/// How a run used its latches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latching {
    /// Acquisitions that could not be granted at once, per operation.
    pub waits_per_op: f64,
    /// Mean number of latches held at a time.
    pub held: f64,
    /// The share of the workers' busy time that went into acquiring, polling and releasing, 0 to 1.
    pub cpu_share: f64,
}

impl Sample {
    /// The sample of a run of `duration` in which operations took so many nanoseconds. O(n).
    pub fn new(
        nanos: impl IntoIterator<Item = u64>,
        duration: Duration,
        latching: Latching,
    ) -> Self {
        let mut latencies = Histogram::new(3).expect("a histogram can keep three digits");
        for nanos in nanos {
            // Cannot fail: the histogram grows as needed.
            latencies += nanos;
        }
        let micros = |nanos: u64| nanos as f64 / 1e3;
        Self {
            ops: latencies.len(),
            seconds: duration.as_secs_f64(),
            p50_us: micros(latencies.value_at_quantile(0.5)),
            p99_us: micros(latencies.value_at_quantile(0.99)),
            p999_us: micros(latencies.value_at_quantile(0.999)),
            max_us: micros(latencies.max()),
            latching,
            latencies: buckets(&latencies),
        }
    }

    /// Throughput.
    pub fn ops_per_sec(&self) -> f64 {
        self.ops as f64 / self.seconds
    }
}

/// Latencies in buckets whose upper bounds are powers of 2^(1/8) µs.
fn buckets(latencies: &Histogram<u64>) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    for step in latencies.iter_recorded() {
        let micros = (step.value_iterated_to() as f64 / 1e3).max(1e-3);
        let bound = ((micros.log2() * 8.0).ceil() / 8.0).exp2();
        match buckets.last_mut() {
            Some((last, count)) if *last == bound => *count += step.count_at_value(),
            _ => buckets.push((bound, step.count_at_value())),
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_counts_every_latency_once() {
        let nanos = (1..=10_000).map(|micros| micros * 1000);
        let sample = Sample::new(nanos, Duration::from_secs(2), Latching::default());
        assert_eq!(sample.ops, 10_000);
        assert_eq!(sample.ops_per_sec(), 5_000.0);
        assert!(
            (sample.p50_us / 5_000.0 - 1.0).abs() < 1e-3,
            "{}",
            sample.p50_us
        );
        assert!(
            (sample.p99_us / 9_900.0 - 1.0).abs() < 1e-3,
            "{}",
            sample.p99_us
        );
        assert!(
            (sample.max_us / 10_000.0 - 1.0).abs() < 1e-3,
            "{}",
            sample.max_us
        );
        assert_eq!(
            sample.latencies.iter().map(|(_, count)| count).sum::<u64>(),
            10_000
        );
        assert!(sample.latencies.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn a_run_without_operations_is_a_sample_of_zero() {
        let sample = Sample::new([], Duration::from_secs(1), Latching::default());
        assert_eq!(
            (sample.ops, sample.ops_per_sec(), sample.p99_us),
            (0, 0.0, 0.0)
        );
        assert_eq!(sample.latencies, []);
    }
}
