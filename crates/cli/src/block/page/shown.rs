//! What an attached page engine says of itself.

use std::collections::BTreeMap;

use mezzanine_engine::SyncMode;
use mezzanine_report::{facts, number};
use serde::{Deserialize, Serialize};

use super::{Pages, health};
use crate::size::Size;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in super::super) struct PageReport {
    pub(in super::super) path: String,
    /// through or durable; none if there is no tier any more.
    pub(in super::super) mode: String,
    pub(in super::super) page_bytes: u64,
    pub(in super::super) frames: u64,
    pub(in super::super) cache_bytes: u64,
    pub(in super::super) memory_bytes: u64,
    /// working, bypassed (its tier was given up, the volumes' own devices have everything) or read_only.
    pub(in super::super) health: String,
    /// Why it is not working.
    pub(in super::super) reason: Option<String>,
    /// With what it began when it was attached.
    pub(in super::super) begins: String,
    /// Pages that the cache device alone has in their newest version.
    pub(in super::super) pages_newer: u64,
    /// Pages that no read brings.
    pub(in super::super) pages_lost: u64,
    /// Share of the pages read that needed no volume's own device; null before the first.
    pub(in super::super) hit_ratio: Option<f64>,
    /// Share of the pages written that did not go to a volume's own device, or have not yet; null before the
    /// first.
    pub(in super::super) write_reduction: Option<f64>,
    /// Everything that is counted, by name; the tier's own counters begin with `tier_`.
    pub(in super::super) counters: BTreeMap<String, u64>,
}

impl PageReport {
    pub(in super::super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}

impl Pages {
    pub(in super::super) fn report(&self) -> PageReport {
        let statistics = self.volume.statistics();
        let (word, reason) = health(self.volume.state());
        let own = statistics.named().into_iter().map(|(name, count)| (name.to_owned(), count));
        let tier = statistics.tier.map(|tier| tier.named()).unwrap_or_default();
        let tier = tier.into_iter().map(|(name, count)| (format!("tier_{name}"), count));
        let config = self.volume.tier_config();
        PageReport {
            path: self.path.display().to_string(),
            mode: self.volume.sync_mode().map_or("none", SyncMode::name).to_owned(),
            page_bytes: config.as_ref().map_or(0, |config| config.page_size.into()),
            frames: config.as_ref().map_or(0, |config| config.frames),
            cache_bytes: self.flash_bytes,
            memory_bytes: self.memory_bytes,
            health: word.to_owned(),
            reason,
            begins: self.begins.clone(),
            pages_newer: self.volume.newer_than_disk(),
            pages_lost: statistics.lost_pages,
            hit_ratio: statistics.hit_ratio(),
            write_reduction: statistics.write_reduction(),
            counters: own.chain(tier).collect(),
        }
    }
}

/// Counters and states as Prometheus has them: names with their kinds and values.
pub(in super::super) fn counters_for_prometheus(report: &PageReport) -> Vec<(String, &'static str, f64)> {
    let counters =
        report.counters.iter().map(|(name, count)| (format!("page_{name}_total"), "counter", *count as f64));
    let states = [
        ("page_pages_newer", report.pages_newer),
        ("page_pages_lost", report.pages_lost),
        ("page_memory_bytes", report.memory_bytes),
        ("page_is_working", u64::from(report.health == "working")),
    ];
    let states = states.into_iter().map(|(name, value)| (name.to_owned(), "gauge", value as f64));
    counters.chain(states).collect()
}

/// As people read it.
pub(in super::super) fn text(page: &PageReport) -> String {
    let count = |name: &str| number(page.counter(name) as f64, 0);
    let percent =
        |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0));
    let health = match &page.reason {
        Some(reason) => format!("{}: {reason}", page.health),
        None => page.health.clone(),
    };
    let where_newest = match page.mode.as_str() {
        "durable" => format!(
            "{} pages ({}) on the cache device alone",
            number(page.pages_newer as f64, 0),
            Size(page.pages_newer * page.page_bytes)
        ),
        _ => "everything on the volumes' own devices".to_owned(),
    };
    let mut lines = vec![
        ("cache", format!("{}, {}, page engine, mode {}", page.path, Size(page.cache_bytes), page.mode)),
        ("health", health),
        ("began with", page.begins.clone()),
        ("newest", where_newest),
        ("pages", format!("{} frames of {} KiB", number(page.frames as f64, 0), page.page_bytes >> 10)),
        ("memory", Size(page.memory_bytes).to_string()),
        (
            "reads",
            format!(
                "{}; {} of their pages from the cache ({} memory, {} flash, {} missed)",
                count("reads"),
                percent(page.hit_ratio),
                count("page_hits_memory"),
                count("page_hits_flash"),
                count("page_misses")
            ),
        ),
        (
            "writes",
            format!(
                "{} of {} pages; {} pages to the volumes' own devices",
                count("writes"),
                count("page_writes"),
                count("disk_pages_written")
            ),
        ),
        (
            "flushes",
            format!(
                "{} asked for; {} of the cache device, {} of the volumes' own devices",
                count("syncs"),
                count("flash_flushes"),
                count("disk_flushes")
            ),
        ),
        (
            "leaving",
            format!(
                "{} pages have left the cache; {} got a second chance; {} writes waited for room",
                count("tier_left_clean"),
                count("tier_second_chances"),
                count("tier_stalls")
            ),
        ),
        ("written to the cache device", Size(page.counter("flash_bytes_written")).to_string()),
    ];
    if page.pages_lost > 0 {
        lines.push((
            "lost",
            format!("{} pages cannot be read (`mezz tier verify` names them, detached)", page.pages_lost),
        ));
    }
    facts(&lines)
}
