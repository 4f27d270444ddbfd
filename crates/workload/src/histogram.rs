//! A histogram of latencies.

use std::time::Duration;

/// Decimal digits of a latency that are told apart: quantiles are off by less than 1 %.
const DIGITS: u8 = 2;
/// In nanoseconds, more than an hour; longer latencies count as that in quantiles.
const LONGEST: u64 = 1 << 42;

/// Latencies in the buckets of an HdrHistogram. Count, mean and maximum are exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Of nanoseconds.
    buckets: hdrhistogram::Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = hdrhistogram::Histogram::new_with_bounds(1, LONGEST, DIGITS);
        Self { buckets: buckets.expect("the bounds are apart"), sum_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets.saturating_record(ns);
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds what another histogram counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.add(&other.buckets).expect("all have the same bounds");
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The mean; zero when nothing was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos((self.sum_ns / u128::from(self.count().max(1))) as u64)
    }

    /// The largest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// The latency that a share `quantile` (0 to 1) of all stayed within, rounded up to the end of its bucket
    /// but never beyond the largest; zero when nothing was recorded.
    ///
    /// # Panics
    /// If `quantile` is not between 0 and 1.
    pub fn quantile(&self, quantile: f64) -> Duration {
        assert!((0.0..=1.0).contains(&quantile), "quantile {quantile} is not between 0 and 1");
        Duration::from_nanos(self.buckets.value_at_quantile(quantile).min(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_less_than_a_hundredth_too_large() {
        let mut histogram = Histogram::default();
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (quantile, exact) in [(0.5, 5_000.0), (0.9, 9_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = histogram.quantile(quantile).as_secs_f64() * 1e6;
            assert!(found >= exact * 0.999_999 && found < exact * 1.01, "{quantile}: {found}");
        }
        assert_eq!(histogram.max(), Duration::from_micros(10_000));
        assert_eq!(histogram.mean(), Duration::from_nanos(5_000_500));
    }

    #[test]
    fn latencies_beyond_all_bounds_are_counted() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::ZERO);
        assert_eq!((histogram.count(), histogram.quantile(1.0)), (1, Duration::ZERO));
        histogram.record(Duration::MAX);
        assert_eq!((histogram.count(), histogram.max()), (2, Duration::from_nanos(u64::MAX)));
        assert!(histogram.quantile(1.0) >= Duration::from_nanos(LONGEST));
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut one, mut two, mut both) = (Histogram::default(), Histogram::default(), Histogram::default());
        for ns in [5, 500, 50_000] {
            one.record(Duration::from_nanos(ns));
            two.record(Duration::from_nanos(3 * ns));
            both.record(Duration::from_nanos(ns));
            both.record(Duration::from_nanos(3 * ns));
        }
        one.merge(&two);
        assert_eq!(one, both);
        assert_eq!((one.count(), one.mean(), one.max()), (both.count(), both.mean(), both.max()));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
