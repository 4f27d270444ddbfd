//! Latencies, as they are told.

use std::time::Duration;

use mezzanine_workload::Histogram;
use serde::Serialize;

/// What is known of a latency. Percentiles are the upper ends of the buckets of [`Histogram`], at most 3 %
/// too large, and never beyond the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    /// How many were measured; the rest is 0 without any.
    pub count: u64,
    /// Microseconds, as all that follow.
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub p99_99_us: f64,
    pub max_us: f64,
}

impl Latency {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let us = |latency: Duration| latency.as_nanos() as f64 / 1e3;
        let at = |share: f64| us(histogram.quantile(share));
        Self {
            count: histogram.count(),
            mean_us: us(histogram.mean()),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: us(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut histogram = Histogram::default();
        assert_eq!(Latency::of(&histogram), Latency::default());
        (1..=10_000).for_each(|us| histogram.record(Duration::from_micros(us)));
        let latency = Latency::of(&histogram);
        for (obtained, exact) in [
            (latency.mean_us, 5_000.5),
            (latency.p50_us, 5_000.0),
            (latency.p99_us, 9_900.0),
            (latency.p99_99_us, 9_999.0),
        ] {
            assert!((obtained / exact - 1.0).abs() < 0.032, "{obtained} for {exact}");
        }
        assert_eq!((latency.count, latency.max_us), (10_000, 10_000.0));
    }
}
