//! The figures of a table: throughput and two percentiles.

use crate::sample::Sample;

/// What a table shows, one table each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Operations per second.
    OpsPerSec,
    /// Median latency, in microseconds.
    P50,
    /// Latency that 1 % of the operations exceed, in microseconds.
    P99,
}

impl Metric {
    /// In the order of their tables.
    pub const ALL: [Self; 3] = [Self::OpsPerSec, Self::P50, Self::P99];

    /// The heading of its table.
    pub fn label(self) -> &'static str {
        match self {
            Self::OpsPerSec => "ops/sec",
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }

    /// The metric of that name in the published table.
    pub(crate) fn from_published(name: &str) -> Option<Self> {
        match name {
            "ops_per_sec" => Some(Self::OpsPerSec),
            "p50_ms" => Some(Self::P50),
            "p99_ms" => Some(Self::P99),
            _ => None,
        }
    }

    /// The figure of a sample, in the metric's unit.
    pub fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::OpsPerSec => sample.ops_per_sec(),
            Self::P50 => sample.p50_us,
            Self::P99 => sample.p99_us,
        }
    }

    /// A figure with three significant digits and its unit: `19.9k`, `1.40ms`.
    pub fn show(self, figure: f64) -> String {
        let (scaled, unit) = match self {
            Self::OpsPerSec if figure >= 1e6 => (figure / 1e6, "M"),
            Self::OpsPerSec if figure >= 1e3 => (figure / 1e3, "k"),
            Self::OpsPerSec => (figure, ""),
            Self::P50 | Self::P99 if figure >= 1e6 => (figure / 1e6, "s"),
            Self::P50 | Self::P99 if figure >= 1e3 => (figure / 1e3, "ms"),
            Self::P50 | Self::P99 => (figure, "µs"),
        };
        let digits = if scaled >= 99.95 {
            0
        } else if scaled >= 9.995 {
            1
        } else {
            2
        };
        format!("{scaled:.digits$}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let ops = [
            0.5,
            37.54,
            98.4,
            422.0,
            999.9,
            1990.0,
            45_100.0,
            101_600.0,
            2_340_000.0,
        ];
        let shown = ops.map(|figure| Metric::OpsPerSec.show(figure));
        assert_eq!(
            shown,
            [
                "0.50", "37.5", "98.4", "422", "1000", "1.99k", "45.1k", "102k", "2.34M"
            ]
        );
        let latencies = [9.99, 9.999, 85.2, 1400.0, 99_960.0, 4_050_000.0];
        let shown = latencies.map(|figure| Metric::P99.show(figure));
        assert_eq!(
            shown,
            ["9.99µs", "10.0µs", "85.2µs", "1.40ms", "100ms", "4.05s"]
        );
    }
}
