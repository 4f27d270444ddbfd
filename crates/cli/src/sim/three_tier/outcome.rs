//! What came of three-tier caches: as JSON, and as a table.

use mezzanine_report::{Table, facts, number};
use mezzanine_sim::three_tier::Compared;
use mezzanine_ssd::three_tier::{self, Approach, Collected, Costs, Counts, FlashConfig, Times};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Outcome {
    /// What the references come from.
    pub(super) source: String,
    /// Share of the reads that changed their page as well.
    also_written: f64,
    pub(super) references: u64,
    pub(super) distinct_pages: u64,
    /// What the buffer pool asked each middle tier for.
    pub(super) requests: u64,
    top_frames: u32,
    pub(super) blocks: u32,
    pub(super) block_pages: u32,
    low_watermark: u32,
    high_watermark: u32,
    pub(super) logical_pages: u32,
    costs: Costs,
    pub(super) approaches: Vec<Row>,
}

/// An approach.
#[derive(Serialize)]
pub(super) struct Row {
    pub(super) approach: &'static str,
    /// Pages dropped with each replacement; null for all but lpd.
    pub(super) drops: Option<u32>,
    pub(super) hit_ratio: f64,
    pub(super) requests_per_second: f64,
    pub(super) times: Times,
    counts: Counts,
    /// Blocks collected, by pages that were valid or were moved.
    pub(super) collected: Collected,
    pub(super) erases_by_block: Vec<u32>,
}

impl Row {
    fn new(outcome: &three_tier::Outcome) -> Self {
        let times = Costs::PUBLISHED.times(&outcome.counts);
        let (approach, drops) = match outcome.approach {
            Approach::Bl => ("bl", None),
            Approach::Lpd { d } => ("lpd", Some(d)),
            Approach::Nfa => ("nfa", None),
        };
        Self {
            approach,
            drops,
            hit_ratio: outcome.counts.hit_ratio(),
            requests_per_second: times.per_second(outcome.counts.requests()),
            times,
            counts: outcome.counts,
            collected: outcome.collected.clone(),
            erases_by_block: outcome.erases.clone(),
        }
    }

    pub(super) fn name(&self) -> String {
        self.drops.map_or_else(|| self.approach.to_owned(), |d| format!("lpd, d = {d}"))
    }

    pub(super) fn collections(&self) -> u64 {
        self.counts.collections
    }

    /// Pages moved in a collection, on average.
    fn moved(&self) -> f64 {
        self.counts.collection.programs as f64 / self.counts.collections.max(1) as f64
    }
}

impl Outcome {
    pub(super) fn new(
        source: String,
        top_frames: u32,
        also_written: f64,
        flash: FlashConfig,
        compared: &Compared,
    ) -> Self {
        Self {
            source,
            also_written,
            references: compared.references,
            distinct_pages: compared.distinct_pages,
            requests: compared.requests,
            top_frames,
            blocks: flash.blocks,
            block_pages: flash.pages_per_block,
            low_watermark: flash.low_watermark,
            high_watermark: flash.high_watermark,
            logical_pages: flash.logical_pages(),
            costs: Costs::PUBLISHED,
            approaches: compared.outcomes.iter().map(Row::new).collect(),
        }
    }

    pub(super) fn table(&self) -> Table {
        let mut table = Table::new([
            "approach",
            "requests/s",
            "hits, %",
            "collections",
            "pages moved in one",
            "collection, s",
            "caching, s",
            "disk, s",
            "disk accesses",
            "erases of a block",
        ]);
        for row in &self.approaches {
            let seconds = |ms: f64| number(ms / 1e3, 1);
            let (least, most) = (
                row.erases_by_block.iter().min().unwrap_or(&0),
                row.erases_by_block.iter().max().unwrap_or(&0),
            );
            table.row([
                row.name(),
                number(row.requests_per_second, 1),
                number(100.0 * row.hit_ratio, 2),
                number(row.collections() as f64, 0),
                number(row.moved(), 1),
                seconds(row.times.collection_ms),
                seconds(row.times.caching_ms),
                seconds(row.times.disk_ms),
                number(row.counts.disk_accesses() as f64, 0),
                format!("{least} to {most}"),
            ]);
        }
        table
    }

    /// The flash, and what was asked of it.
    pub(super) fn conditions(&self) -> Vec<(&'static str, String)> {
        let count = |value: u64| number(value as f64, 0);
        vec![
            ("references", format!("{} to {} pages", count(self.references), count(self.distinct_pages))),
            ("from", self.source.clone()),
            ("buffer pool", format!("{} frames", count(self.top_frames.into()))),
            ("requests", format!("{} of each cache on flash", count(self.requests))),
            (
                "flash",
                format!(
                    "{} blocks of {} pages; collection from {} to {} free blocks, so {} logical pages",
                    count(self.blocks.into()),
                    count(self.block_pages.into()),
                    self.low_watermark,
                    self.high_watermark,
                    count(self.logical_pages.into())
                ),
            ),
        ]
    }

    pub(super) fn text(&self) -> String {
        format!("{}\n{}", facts(&self.conditions()), self.table().render())
    }
}
