//! How fast a miniature is populated: its throttle is the cache's own, with the same periods; what that goes
//! by, and how many populations may begin, is decided here.
//!
//! *Misses.* The stage of the throttle depends on the misses of the last thousand reads. A sample has too few
//! reads in this time, so the miniature is told of the cache's own, moved by what it has had more or less
//! misses than the cache for a longer while.
//!
//! *Populations.* Of those that a stage allows, a miniature has a share like that of the fragments that are
//! in its sample. Longer periods would do the same, but scans would have gone by before somebody looks.

use crate::cache::Cache;
use crate::config::Stage;

use super::miniature::Counted;
use super::table::moved;

/// Reads of the sample over which its misses are compared with the cache's.
const READS_COMPARED: f64 = 4000.0;

/// Populations that a miniature may have left from before.
const SPARED_MAX: f64 = 2.0;

/// What is known of the pace of a miniature.
#[derive(Default)]
pub(super) struct Pace {
    /// Of the fragments, how many are in the sample.
    share: f64,
    /// What the cache and the miniature had counted when that was looked at last.
    cache: Counted,
    misses: u64,
    /// Reads of the cache, its misses, and those that it would have had as a larger miniature; what is long
    /// ago counts less.
    compared: [f64; 3],
    /// Reads and misses that the throttle was told of.
    told: (u64, f64),
    /// Populations that may begin, and when that was computed.
    allowed: f64,
    at: u64,
}

impl Pace {
    /// Of a miniature with this share of the fragments.
    pub(super) fn new(share: f64) -> Self {
        Self { share, ..Self::default() }
    }

    /// The first request comes.
    pub(super) fn begin(&mut self, cache: Counted, now: u64) {
        (self.cache, self.at) = (cache, now);
    }

    /// A miniature of everything needs no help.
    fn is_whole(&self) -> bool {
        self.share >= 1.0
    }

    /// Tells the throttle what the cache has counted since, as it would have been in a cache of the
    /// miniature's kind, which has had so many misses.
    pub(super) fn tell(&mut self, miniature: &Cache, cache: Counted, misses: u64) {
        let since = cache.since(&self.cache);
        if self.is_whole() || since.reads == 0 {
            return;
        }
        let sampled = (misses - self.misses) as f64 / self.share;
        (self.cache, self.misses) = (cache, misses);
        let (reads, real) = (since.reads as f64, since.misses as f64);
        for (sum, more) in self.compared.iter_mut().zip([reads, real, sampled]) {
            *sum += more;
        }
        let [all, theirs, ours] = self.compared;
        // The misses of the moment, as those of a longer while are to be moved.
        let scale = reads / all;
        let moved = moved(real, theirs * scale, ours.min(all) * scale, reads);
        self.told.0 += since.reads;
        self.told.1 += moved;
        miniature.tell_load(self.told.0, self.told.1 as u64);
        if all * self.share > READS_COMPARED {
            self.compared = self.compared.map(|sum| sum / 2.0);
        }
    }

    /// Time has passed, in which the stage allows so many populations.
    pub(super) fn allow(&mut self, stage: &Stage, now: u64) {
        let periods = now.saturating_sub(self.at) as f64 / (f64::from(stage.period_ms) * 1e6);
        let workers = f64::from(stage.workers) * self.share;
        self.allowed = (self.allowed + periods * workers).min((workers + 1.0).max(SPARED_MAX));
        self.at = now;
    }

    /// A population has begun.
    pub(super) fn begun(&mut self) {
        self.allowed -= 1.0;
    }

    /// Whether another one may.
    pub(super) fn may_begin(&self) -> bool {
        self.is_whole() || self.allowed >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGE: Stage = Stage { workers: 4, miss_percent: 15, free_percent: 0, period_ms: 100 };

    #[test]
    fn a_miniature_has_its_share_of_the_populations() {
        let mut pace = Pace::new(0.25);
        pace.begin(Counted::default(), 0);
        let mut begun = 0;
        for ms in 1..=100_000_u64 {
            pace.allow(&STAGE, ms * 1_000_000);
            while pace.may_begin() {
                pace.begun();
                begun += 1;
            }
        }
        // 4 in each of 1,000 periods, and a quarter of that.
        assert!((999..=1000).contains(&begun), "{begun}");
        pace.allow(&STAGE, 1_000_000_000_000);
        assert_eq!(pace.allowed, SPARED_MAX, "what was not used is not all left");
    }

    #[test]
    fn the_throttle_is_told_of_the_moment_and_of_the_difference() {
        let miniature = Cache::heap(crate::Config::new(8 << 20, &[8 << 20]).geometry().expect("a geometry"));
        let mut pace = Pace::new(0.5);
        pace.begin(Counted::default(), 0);
        let cache = |reads, misses| Counted { reads, misses, written: 0 };
        // Twice the misses of the cache, as it is half of the fragments.
        pace.tell(&miniature, cache(1000, 200), 200);
        assert_eq!(pace.told, (1000, 400.0));
        // The cache has just none; three quarters of the hits stay hits.
        pace.tell(&miniature, cache(1100, 200), 200);
        assert_eq!(pace.told.0, 1100);
        assert!((pace.told.1 - 400.0 - 100.0 * 200.0 / 900.0).abs() < 1e-6, "{:?}", pace.told);
    }
}
