//! What sizing has found.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cache::Cache;

use super::Sizing;
use super::miniature::{Counted, Miniature};

/// A day in nanoseconds.
const DAY_NS: f64 = 86_400e9;

/// A cache's own miniature tells how far estimates are off once it is as full as the cache, or nearly so.
const FILLED_LEAST: f64 = 0.9;

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
        let mut miniatures = self.lock();
        // Under the lock: the window is moved on under it, to no later time than this.
        let now = cache.control().planner.now.get();
        miniatures.move_on(cache, now, self.window_ns);
        let windows = miniatures.windows.as_ref().expect("the first request or table begins a window");
        let since = &windows[0];
        let (seconds, counted) = ((now - since.at) as f64 / 1e9, super::counted(cache).since(&since.cache));
        let per_day = |bytes: f64| (now > since.at).then(|| bytes * DAY_NS / (now - since.at) as f64);
        let ratio =
            |misses: f64| (counted.reads > 0).then(|| (1.0 - misses / counted.reads as f64).clamp(0.0, 1.0));
        let pairs = || miniatures.all.iter().zip(&since.miniatures);
        let room = u64::from(cache.geometry().slots_limit());
        let own = pairs().find(|(miniature, _)| {
            let point = &miniature.scale.point;
            point.fragment_bytes == cache.geometry().config().fragment_bytes
                && point.cache_bytes / point.fragment_bytes == room
        });
        let used = cache.statistics().slots_used as f64 / room as f64;
        let own = own.filter(|(miniature, _)| miniature.filled() >= FILLED_LEAST * used);
        let own = own.map(|(miniature, since)| Estimate::of(miniature, since));
        let row = |(miniature, since): (&Miniature, &Counted)| {
            let (scale, mut estimate) = (&miniature.scale, Estimate::of(miniature, since));
            if let Some(own) = &own {
                estimate.correct(own, &counted);
            }
            SizingRow {
                cache_bytes: scale.point.cache_bytes,
                fragment_bytes: scale.point.fragment_bytes,
                hit_ratio: ratio(estimate.misses),
                written_per_day: per_day(estimate.written),
                sample_share: scale.sample.share(),
                sample_slots: scale.sampled.into(),
                filled: miniature.filled(),
            }
        };
        let rows = pairs().map(row).collect();
        SizingTable {
            seconds,
            reads: counted.reads,
            hit_ratio: ratio(counted.misses as f64),
            written_per_day: per_day(counted.written as f64),
            memory_bytes: self.memory_bytes,
            unnoted: self.unnoted.load(std::sync::atomic::Ordering::Relaxed),
            rows,
        }
    }
}

/// What a cache of a miniature's kind would have counted.
struct Estimate {
    misses: f64,
    written: f64,
}

impl Estimate {
    fn of(miniature: &Miniature, since: &Counted) -> Self {
        let (counted, share) = (miniature.counted().since(since), miniature.scale.sample.share());
        Self { misses: counted.misses as f64 / share, written: counted.written as f64 / share }
    }

    /// The miniature of the cache itself, of which it is known what is right, is off by so much.
    fn correct(&mut self, own: &Self, right: &Counted) {
        self.misses = moved(self.misses, own.misses, right.misses as f64, right.reads as f64);
        if own.written > 0.0 {
            self.written *= right.written as f64 / own.written;
        }
    }
}

/// So many misses, of as many reads, moved as `from` is to be moved to `to`. Down: as large a part of the
/// misses stay misses. Up: as large a part of the hits stay hits. So they stay between none and all.
pub(super) fn moved(misses: f64, from: f64, to: f64, reads: f64) -> f64 {
    let moved = if to <= from {
        misses * to / from.max(1.0)
    } else {
        reads - (reads - misses) * (reads - to) / (reads - from).max(1.0)
    };
    moved.clamp(0.0, reads)
}

impl Counted {
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            misses: self.misses - before.misses,
            written: self.written - before.written,
        }
    }
}

/// Bytes with the largest unit of which there is one at least.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(UNITS.len() as u32 - 1);
    let value = bytes as f64 / (1_u64 << (10 * unit)) as f64;
    let digits = if value.fract() == 0.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit as usize])
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{:.1}", 100.0 * ratio))
}

fn gigabytes(bytes: Option<f64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| format!("{:.1}", bytes / 1e9))
}

/// The table as people read it: the cache as it is first.
impl fmt::Display for SizingTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["cache", "fragment", "hits %", "written GB/day", "sampled %", "filled %"];
        let line = |f: &mut fmt::Formatter<'_>, cells: [&str; 6]| {
            let [cache, fragment, hits, written, sampled, filled] = cells;
            writeln!(f, "{cache:>10}{fragment:>10}{hits:>9}{written:>16}{sampled:>11}{filled:>10}")
        };
        line(f, heads)?;
        line(f, ["as it is", "", &percent(self.hit_ratio), &gigabytes(self.written_per_day), "", ""])?;
        for row in &self.rows {
            let (cache, fragment) = (size(row.cache_bytes), size(row.fragment_bytes));
            let (hits, written) = (percent(row.hit_ratio), gigabytes(row.written_per_day));
            let sampled = format!("{:.2}", 100.0 * row.sample_share);
            let filled = format!("{:.0}", 100.0 * row.filled);
            line(f, [&cache, &fragment, &hits, &written, &sampled, &filled])?;
        }
        Ok(())
    }
}
