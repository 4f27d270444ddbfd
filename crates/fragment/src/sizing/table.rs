//! What sizing has found.

use serde::{Deserialize, Serialize};

use crate::cache::Cache;

use super::Sizing;
use super::miniature::{Counted, Miniature};

/// A day in nanoseconds.
const DAY_NS: f64 = 86_400e9;

/// How a cache does, and how it would do at other sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingTable {
    /// Seconds that the counts are of.
    pub seconds: f64,
    /// Reads in this time.
    pub reads: u64,
    /// What the cache itself has counted: the share of the reads that needed no backing device. Null without
    /// reads.
    pub hit_ratio: Option<f64>,
    /// Bytes that it has written to the cache device, as if it had gone on for a day; without its map. Null
    /// without time.
    pub written_per_day: Option<f64>,
    /// Bytes of memory that the miniatures take.
    pub memory_bytes: u64,
    /// Requests that were not noted since the miniatures were in use.
    pub unnoted: u64,
    /// The sizes, in the order in which they were asked for.
    pub rows: Vec<SizingRow>,
}

/// How a cache of some size would do: estimates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizingRow {
    /// Room for fragments, in bytes.
    pub cache_bytes: u64,
    /// Bytes of a fragment.
    pub fragment_bytes: u64,
    /// Share of the reads that would need no backing device. Null without reads.
    pub hit_ratio: Option<f64>,
    /// Bytes that would be written to the cache device in a day. Null without time.
    pub written_per_day: Option<f64>,
    /// Share of the fragments that is in the sample, and how many of them its miniature has room for.
    pub sample_share: f64,
    /// The same, in fragments.
    pub sample_slots: u64,
    /// Share of the room that is in use: as long as it rises the hit ratio may, too.
    pub filled: f64,
}

impl Cache {
    /// How the cache does, and how it would do at other sizes, if it is fed to a [`Sizing`]. In between there
    /// may be reads that are counted by one and not yet by the other.
    pub fn sizing_table(&self) -> Option<SizingTable> {
        self.sizing().map(|sizing| sizing.table(self))
    }
}

impl Sizing {
    fn table(&self, cache: &Cache) -> SizingTable {
        let now = cache.control().planner.now.get();
        let mut miniatures = self.lock();
        miniatures.move_on(cache, now, self.window_ns);
        let windows = miniatures.windows.as_ref().expect("the first request or table begins a window");
        let since = &windows[0];
        let (seconds, counted) = ((now - since.at) as f64 / 1e9, super::counted(cache).since(&since.cache));
        let per_day = |bytes: f64| (now > since.at).then(|| bytes * DAY_NS / (now - since.at) as f64);
        let ratio = |misses: f64| {
            (counted.reads > 0).then(|| (1.0 - misses / counted.reads as f64).clamp(0.0, 1.0))
        };
        let row = |(miniature, since): (&Miniature, &Counted)| {
            let (scale, sampled) = (&miniature.scale, miniature.counted().since(since));
            let share = scale.sample.share();
            SizingRow {
                cache_bytes: scale.point.cache_bytes,
                fragment_bytes: scale.point.fragment_bytes,
                hit_ratio: ratio(sampled.misses as f64 / share),
                written_per_day: per_day(sampled.written as f64 / share),
                sample_share: share,
                sample_slots: scale.sampled.into(),
                filled: miniature.used() as f64 / f64::from(scale.sampled),
            }
        };
        SizingTable {
            seconds,
            reads: counted.reads,
            hit_ratio: ratio(counted.misses as f64),
            written_per_day: per_day(counted.written as f64),
            memory_bytes: self.memory_bytes,
            unnoted: self.unnoted.load(std::sync::atomic::Ordering::Relaxed),
            rows: miniatures.all.iter().zip(&since.miniatures).map(row).collect(),
        }
    }
}

impl Counted {
    fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            misses: self.misses - before.misses,
            written: self.written - before.written,
        }
    }
}
