//! Latencies in logarithmic buckets: constant memory, 3 % resolution.

/// Buckets per power of two.
const STEPS: usize = 32;
const STEPS_BITS: u32 = STEPS.trailing_zeros();

/// Counts of latencies in ns.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { buckets: vec![0; STEPS * (65 - STEPS_BITS as usize)], count: 0, sum: 0, max: 0 }
    }

    pub(super) fn record(&mut self, ns: u64) {
        self.buckets[bucket_of(ns)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.max = self.max.max(ns);
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// The latency in ns that this share of all latencies does not exceed, to the resolution of the buckets.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(index).min(self.max);
            }
        }
        self.max
    }
}

/// Values below `STEPS` have a bucket each; above, every power of two has `STEPS`.
fn bucket_of(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEPS_BITS;
    (shift as usize + 1) * STEPS + (ns >> shift) as usize - STEPS
}

/// The largest value of a bucket.
fn upper_end(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let (shift, step) = (index / STEPS - 1, index % STEPS);
    let low = ((STEPS + step) as u64) << shift;
    low + ((1_u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_value_in_order() {
        let mut before = 0;
        for ns in (0..10_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX / 2, u64::MAX]) {
            let bucket = bucket_of(ns);
            assert!(bucket >= before, "{ns}");
            assert!(upper_end(bucket) >= ns, "{ns}");
            assert!(upper_end(bucket) - ns <= ns / STEPS as u64, "{ns}");
            before = bucket;
        }
        assert!(bucket_of(u64::MAX) < Histogram::new().buckets.len());
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.record(value * 1000));
        for (share, expected) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = histogram.quantile(share) as f64;
            assert!((found / expected - 1.0).abs() < 0.04, "{share}: {found}");
        }
        assert_eq!(histogram.max(), 1_000_000);
        assert!((histogram.mean() - 500_500.0).abs() < 1.0);
    }
}
