//! Latencies: counts in buckets whose width is below 2 % of what they hold.

use serde::Serialize;

/// Buckets of each power of two, as bits: 64 of them.
const SUB_BITS: u32 = 6;
const SUBS: usize = 1 << SUB_BITS;

/// Counts of times in ns.
#[derive(Clone)]
pub(super) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

/// What is known of a latency. Percentiles are the upper ends of their buckets, at most 1.6 % too large, and never beyond the largest.
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

impl Histogram {
    pub(super) fn new() -> Self {
        Self { buckets: vec![0; (64 - SUB_BITS as usize + 1) * SUBS], count: 0, sum: 0, max: 0 }
    }

    pub(super) fn record(&mut self, ns: u64) {
        self.buckets[bucket(ns)] += 1;
        self.count += 1;
        self.sum += ns;
        self.max = self.max.max(ns);
    }

    pub(super) fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.max) = (0, 0, 0);
    }

    pub(super) fn latency(&self) -> Latency {
        if self.count == 0 {
            return Latency::default();
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |share: f64| us(self.percentile(share));
        Latency {
            count: self.count,
            mean_us: us(self.sum) / self.count as f64,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: us(self.max),
        }
    }

    /// The time that this share of all does not exceed.
    fn percentile(&self, share: f64) -> u64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return highest(bucket).min(self.max);
            }
        }
        self.max
    }
}

/// Below 64 each number has a bucket; above, each power of two has 64.
fn bucket(ns: u64) -> usize {
    if ns < SUBS as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    (shift as usize + 1) * SUBS + (ns >> shift) as usize - SUBS
}

/// The largest number of a bucket.
fn highest(bucket: usize) -> u64 {
    if bucket < SUBS {
        return bucket as u64;
    }
    let (shift, sub) = (bucket / SUBS - 1, (bucket % SUBS) as u64);
    let lowest = (SUBS as u64 + sub) << shift;
    lowest + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_follow_each_other() {
        for bits in 0..63 {
            for ns in [1u64 << bits, (1 << bits) + (1 << bits) / 3, (2 << bits) - 1] {
                let top = highest(bucket(ns));
                assert!(top >= ns && top as f64 <= ns as f64 * 1.016 + 1.0, "{ns}: {top}");
                assert_eq!(bucket(top), bucket(ns));
                assert_eq!(bucket(top + 1), bucket(ns) + 1);
            }
        }
    }

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut histogram = Histogram::new();
        for us in 1..=10_000u64 {
            histogram.record(us * 1_000);
        }
        let latency = histogram.latency();
        for (obtained, exact) in [
            (latency.mean_us, 5_000.5),
            (latency.p50_us, 5_000.0),
            (latency.p99_us, 9_900.0),
            (latency.p99_99_us, 9_999.0),
        ] {
            assert!((obtained / exact - 1.0).abs() < 0.017, "{obtained} for {exact}");
        }
        assert_eq!((latency.count, latency.max_us), (10_000, 10_000.0));
        histogram.clear();
        assert_eq!(histogram.latency(), Latency::default());
    }
}
