//! A histogram of latencies.

use std::time::Duration;

/// Each power of two is cut into this many buckets, so a quantile is off by at most 1/32 of its value.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Up to 2^42 ns, more than an hour; longer latencies count as that.
const BUCKETS: usize = ((42 - STEP_BITS as usize) + 1) * STEPS as usize;

/// Latencies in buckets whose width grows with the value, as in HdrHistogram. Mean and maximum are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds what another histogram counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero when nothing was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos((self.sum_ns / u128::from(self.count.max(1))) as u64)
    }

    /// The largest.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// The latency that a share `quantile` (0 to 1) of all stayed within; zero when nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> Duration {
        assert!((0.0..=1.0).contains(&quantile), "quantile {quantile} is not between 0 and 1");
        let rank = ((quantile * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(upper_bound(index).min(self.max_ns));
            }
        }
        self.max()
    }
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    // The value is shifted until its highest six bits are left: 32 to 63.
    let shift = ns.ilog2() - STEP_BITS;
    ((u64::from(shift) * STEPS + (ns >> shift)) as usize).min(BUCKETS - 1)
}

/// The largest value that falls into the bucket.
fn upper_bound(index: usize) -> u64 {
    let index = index as u64;
    if index < STEPS {
        return index;
    }
    let shift = index / STEPS - 1;
    ((index - shift * STEPS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(upper_bound(index)), index);
            assert_eq!(bucket(upper_bound(index) + 1), index + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_a_thirtysecond() {
        let mut histogram = Histogram::default();
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (quantile, exact) in [(0.5, 5_000.0), (0.9, 9_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = histogram.quantile(quantile).as_secs_f64() * 1e6;
            assert!(found >= exact * 0.999 && found <= exact * (1.0 + 1.0 / 32.0), "{quantile}: {found}");
        }
        assert_eq!(histogram.max(), Duration::from_micros(10_000));
        assert_eq!(histogram.mean(), Duration::from_nanos(5_000_500));
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
        assert_eq!(one.buckets, both.buckets);
        assert_eq!((one.count(), one.mean(), one.max()), (both.count(), both.mean(), both.max()));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }
}
