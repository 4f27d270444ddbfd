//! Eight hours with 200 GiB, which have room for everything (sections 2 and 4.2 of the SCE paper).

use super::super::answers::Answers;
use super::super::verdict::Ours;
use super::bed::{BlockPoint, BlockRuns, FLASHCACHE, SCE};
use super::footprints::over_sce;
use crate::timed::block::{BlockCache, BlockInterval, Writes, map_bytes};

const NOTHING: BlockPoint = BlockPoint::large(BlockCache::Nothing);
const ALL_FLASH: BlockPoint = BlockPoint::large(BlockCache::AllFlash);
const OF_SCE: BlockPoint = BlockPoint::large(SCE);
const OF_FLASHCACHE: BlockPoint = BlockPoint::large(FLASHCACHE);
const OF_BCACHE: BlockPoint = BlockPoint::large(BlockCache::Bcache(Writes::Through));
const OF_ENHANCEIO: BlockPoint = BlockPoint::large(BlockCache::EnhanceIo(Writes::Through));
/// flashcache, bcache, EnhanceIO: the order of the paper's tables.
const RIVALS: [BlockPoint; 3] = [OF_FLASHCACHE, OF_BCACHE, OF_ENHANCEIO];

pub(in crate::experiment) fn table_1_points() -> Vec<BlockPoint> {
    [NOTHING, ALL_FLASH].into_iter().chain(RIVALS).collect()
}

pub(in crate::experiment) fn figure_2_points() -> Vec<BlockPoint> {
    table_1_points()
}

pub(in crate::experiment) fn headline_points() -> Vec<BlockPoint> {
    vec![OF_SCE, OF_FLASHCACHE]
}

pub(in crate::experiment) fn figure_7_points() -> Vec<BlockPoint> {
    [ALL_FLASH, OF_SCE].into_iter().chain(RIVALS).collect()
}

/// Transactions a second in the last hour.
fn transactions(runs: &BlockRuns, point: BlockPoint) -> f64 {
    runs.last_hour(point).transactions_per_second
}

fn hits(runs: &BlockRuns, point: BlockPoint) -> f64 {
    runs.last_hour(point).read_hit_percent
}

fn response(runs: &BlockRuns, point: BlockPoint) -> f64 {
    runs.last_hour(point).transaction_ms
}

/// How far the first interval with so many transactions a second is, as part of the run; all of it without
/// one.
pub(super) fn when(series: &[BlockInterval], transactions: f64) -> f64 {
    let found = series.iter().position(|interval| interval.transactions_per_second >= transactions);
    found.map_or(1.0, |number| (number + 1) as f64 / series.len() as f64)
}

/// A run is at what it comes to where it has so much of the last hour.
pub(super) const RAMPED: f64 = 0.95;

pub(in crate::experiment) fn table_1(runs: &BlockRuns, answers: &mut Answers) {
    let points = table_1_points();
    answers.set("transactions", Ours::Row(points.iter().map(|point| transactions(runs, *point)).collect()));
    answers.set("hits", Ours::Row(RIVALS.map(|point| hits(runs, point)).to_vec()));
    let mib = |point: BlockPoint| {
        let bytes = map_bytes(point.cache, point.cache_gib << 30).expect("rivals have maps");
        bytes as f64 / f64::from(1 << 20)
    };
    answers.set("memory", Ours::Row(RIVALS.map(mib).to_vec()));
}

pub(in crate::experiment) fn figure_2(runs: &BlockRuns, answers: &mut Answers) {
    let over = |point, other| transactions(runs, point) / transactions(runs, other);
    answers.set("flashcache", Ours::Value(over(OF_FLASHCACHE, NOTHING)));
    answers.set("others", Ours::spread([OF_BCACHE, OF_ENHANCEIO].map(|point| over(point, NOTHING))));
    answers.set("all-flash", Ours::Value(100.0 * over(OF_FLASHCACHE, ALL_FLASH)));
    let better = hits(runs, OF_BCACHE).max(hits(runs, OF_ENHANCEIO));
    answers.set("hits", Ours::Value(hits(runs, OF_FLASHCACHE) - better));
}

/// Hours until a run has come to so many transactions a second.
fn hours_until(runs: &BlockRuns, point: BlockPoint, transactions: f64) -> f64 {
    when(&runs.of(point).series, transactions) * point.hours()
}

/// The most transactions a second of an hour, or of what there is of one, at flashcache's end: its last hour.
fn best_of_flashcache(runs: &BlockRuns) -> f64 {
    transactions(runs, OF_FLASHCACHE)
}

pub(in crate::experiment) fn headline(runs: &BlockRuns, answers: &mut Answers) {
    let ratio =
        |figure: fn(&BlockRuns, BlockPoint) -> f64| figure(runs, OF_SCE) / figure(runs, OF_FLASHCACHE);
    answers.set("throughput", Ours::Value(ratio(transactions)));
    answers.set("latency", Ours::Value(ratio(response)));
    let best = RAMPED * best_of_flashcache(runs);
    let warm_up = hours_until(runs, OF_FLASHCACHE, best) / hours_until(runs, OF_SCE, best);
    answers.set("warm-up", Ours::Value(warm_up));
    answers.set("memory", Ours::Value(1.0 / over_sce(BlockCache::EnhanceIo(Writes::Through))));
}

pub(in crate::experiment) fn figure_7(runs: &BlockRuns, answers: &mut Answers) {
    let sce = transactions(runs, OF_SCE);
    let others = [OF_BCACHE, OF_ENHANCEIO];
    answers.set("over-flashcache", Ours::Value(sce / transactions(runs, OF_FLASHCACHE)));
    answers.set("over-others", Ours::spread(others.map(|point| sce / transactions(runs, point))));
    answers.set("of-all-flash", Ours::Value(sce / transactions(runs, ALL_FLASH)));
    answers.set("passes", Ours::Value(60.0 * hours_until(runs, OF_SCE, best_of_flashcache(runs))));
    let ramp = |point| hours_until(runs, point, RAMPED * transactions(runs, point));
    answers.set("ramp", Ours::Value(ramp(OF_SCE)));
    answers.set("ramp-flashcache", Ours::Value(ramp(OF_FLASHCACHE)));
    answers.set("hits", Ours::Value(hits(runs, OF_SCE)));
    answers.set("hits-others", Ours::spread(RIVALS.map(|point| hits(runs, point))));
    let over = |point| response(runs, point) / response(runs, ALL_FLASH);
    answers.set("response", Ours::Value(over(OF_SCE)));
    answers.set("response-flashcache", Ours::Value(over(OF_FLASHCACHE)));
    answers.set("response-others", Ours::spread(others.map(over)));
}
