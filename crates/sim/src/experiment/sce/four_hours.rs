//! Four hours with 30 GiB, which have no room for everything (sections 4.3, 4.5 and 4.6 of the SCE paper).

use super::super::answers::Answers;
use super::super::verdict::{Ours, Part};
use super::bed::{BlockPoint, BlockRuns, FLASHCACHE, SCE};
use super::eight_hours::{RAMPED, when};
use crate::timed::block::{BlockCache, BlockInterval, Order, SceSetup, Writes};

/// flashcache, bcache, EnhanceIO: the order of the paper's tables.
const RIVALS: [BlockCache; 3] =
    [FLASHCACHE, BlockCache::Bcache(Writes::Through), BlockCache::EnhanceIo(Writes::Through)];
/// The same, written back.
const WRITTEN_BACK: [BlockCache; 3] = [
    BlockCache::Flashcache(Order::Fifo, Writes::Back),
    BlockCache::Bcache(Writes::Back),
    BlockCache::EnhanceIo(Writes::Back),
];
const OF_SCE: BlockPoint = BlockPoint::small(SCE);
const OF_FLASHCACHE: BlockPoint = BlockPoint::small(FLASHCACHE);
const NOTHING: BlockPoint = BlockPoint::large(BlockCache::Nothing);
const ALL_FLASH: BlockPoint = BlockPoint::large(BlockCache::AllFlash);

/// SCE with other fragments.
const fn of_fragments(fragment_bytes: u64) -> BlockPoint {
    BlockPoint::small(BlockCache::Sce(SceSetup { fragment_bytes, ..SceSetup::PUBLISHED }))
}

const SMALL_FRAGMENTS: BlockPoint = of_fragments(128 << 10);
const LARGE_FRAGMENTS: BlockPoint = of_fragments(8 << 20);
const AROUND: BlockPoint =
    BlockPoint::small(BlockCache::Sce(SceSetup { writes_through: false, ..SceSetup::PUBLISHED }));

fn all() -> Vec<BlockPoint> {
    std::iter::once(SCE).chain(RIVALS).map(BlockPoint::small).collect()
}

pub(in crate::experiment) fn figure_8_points() -> Vec<BlockPoint> {
    all()
}

pub(in crate::experiment) fn figure_9_points() -> Vec<BlockPoint> {
    all().into_iter().chain([NOTHING, ALL_FLASH, BlockPoint::large(FLASHCACHE)]).collect()
}

pub(in crate::experiment) fn figure_10_points() -> Vec<BlockPoint> {
    all().into_iter().chain(WRITTEN_BACK.map(BlockPoint::small)).collect()
}

pub(in crate::experiment) fn figure_11_points() -> Vec<BlockPoint> {
    vec![OF_SCE, AROUND, SMALL_FRAGMENTS, LARGE_FRAGMENTS]
}

pub(in crate::experiment) fn figure_12_points() -> Vec<BlockPoint> {
    all().into_iter().flat_map(|point| [point, BlockPoint::large(point.cache)]).collect()
}

fn transactions(runs: &BlockRuns, point: BlockPoint) -> f64 {
    runs.last_hour(point).transactions_per_second
}

pub(in crate::experiment) fn figure_8(runs: &BlockRuns, answers: &mut Answers) {
    let ratio = |cache| {
        let whole = &runs.of(BlockPoint::small(cache)).whole;
        Ours::Value(whole.cache_read_mib / whole.cache_written_mib)
    };
    answers.set("sce", ratio(SCE));
    answers.set("flashcache", ratio(FLASHCACHE));
    answers.set("enhanceio", ratio(BlockCache::EnhanceIo(Writes::Through)));
    answers.set("bcache", ratio(BlockCache::Bcache(Writes::Through)));
}

pub(in crate::experiment) fn figure_9(runs: &BlockRuns, answers: &mut Answers) {
    let small = |cache| runs.last_hour(BlockPoint::small(cache));
    let sce = small(SCE);
    let over = RIVALS.map(|cache| sce.transactions_per_second / small(cache).transactions_per_second);
    answers.set("over-others", Ours::Row(over.to_vec()));
    let nothing = transactions(runs, NOTHING);
    answers.set("gain-flashcache", Ours::Value(transactions(runs, OF_FLASHCACHE) / nothing));
    answers.set("gain-sce", Ours::Value(sce.transactions_per_second / nothing));
    let hits = all().into_iter().map(|point| runs.last_hour(point).read_hit_percent);
    answers.set("hits", Ours::Row(hits.collect()));
    answers.set("response", Ours::Value(sce.transaction_ms / runs.last_hour(ALL_FLASH).transaction_ms));
    let large = runs.last_hour(BlockPoint::large(FLASHCACHE)).transaction_ms;
    answers.set("response-flashcache", Ours::Value(small(FLASHCACHE).transaction_ms / large));
}

pub(in crate::experiment) fn figure_10(runs: &BlockRuns, answers: &mut Answers) {
    let small = |cache| runs.last_hour(BlockPoint::small(cache));
    let (through, back) = (RIVALS.map(small), WRITTEN_BACK.map(small));
    let gain = |rival: usize| back[rival].transactions_per_second / through[rival].transactions_per_second;
    answers.set("gains", Ours::Row([0, 1, 2].map(gain).to_vec()));
    let best = back.iter().map(|last| last.transactions_per_second).fold(0.0, f64::max);
    answers.set("sce", Ours::Value(small(SCE).transactions_per_second / best));
    let hits = |rival: usize, is_higher: bool| {
        let [then, now] = [&through, &back].map(|last| last[rival].read_hit_percent);
        let said = format!("{}: {then:.1} % through, {now:.1} % back", RIVALS[rival].name());
        Part { said, holds: (now > then) == is_higher }
    };
    answers.set("hits", Ours::Shape(vec![hits(0, true), hits(1, false), hits(2, true)]));
    let response = |rival: usize| {
        let [then, now] = [&through, &back].map(|last| last[rival].transaction_ms);
        let said = format!("{}: {then:.0} ms through, {now:.0} ms back", RIVALS[rival].name());
        Part { said, holds: now < then }
    };
    answers.set("response", Ours::Shape([0, 1, 2].map(response).to_vec()));
}

pub(in crate::experiment) fn figure_11(runs: &BlockRuns, answers: &mut Answers) {
    let ramp = |point| when(&runs.of(point).series, RAMPED * transactions(runs, point));
    let last = |point| runs.last_hour(point);
    let [base, around, small, large] = [OF_SCE, AROUND, SMALL_FRAGMENTS, LARGE_FRAGMENTS].map(last);
    answers.set("ramp-128kib", Ours::Value(ramp(SMALL_FRAGMENTS) / ramp(OF_SCE)));
    answers.set("hits-128kib", Ours::Value(small.read_hit_percent - base.read_hit_percent));
    let written = |point| runs.of(point).whole.cache_written_mib;
    answers.set("written-8mib", Ours::Value(written(LARGE_FRAGMENTS) / written(OF_SCE)));
    let ratio = large.transactions_per_second / around.transactions_per_second;
    answers.set("transactions-8mib", Ours::Value(ratio));
    let less = |what: &str, figure: fn(&BlockInterval) -> f64| Part {
        said: format!("{what} {:.1} around, {:.1} through", figure(&around), figure(&base)),
        holds: figure(&around) < figure(&base),
    };
    let parts = vec![
        less("hits in per cent:", |interval| interval.read_hit_percent),
        less("transactions a second:", |interval| interval.transactions_per_second),
    ];
    answers.set("hits-around", Ours::Shape(parts));
}

/// KiB written to the card for a transaction.
fn written(runs: &BlockRuns, point: BlockPoint) -> f64 {
    let whole = &runs.of(point).whole;
    1024.0 * whole.cache_written_mib / (whole.transactions_per_second * whole.end)
}

pub(in crate::experiment) fn figure_12(runs: &BlockRuns, answers: &mut Answers) {
    let over = |of: fn(BlockCache) -> BlockPoint, cache| {
        Ours::Value(written(runs, of(SCE)) / written(runs, of(cache)))
    };
    answers.set("200gib", over(BlockPoint::large, FLASHCACHE));
    answers.set("30gib", over(BlockPoint::small, BlockCache::Bcache(Writes::Through)));
    let part = |point: BlockPoint| {
        let (small, large) = (written(runs, point), written(runs, BlockPoint::large(point.cache)));
        let said = format!("{}: {small:.0} KiB with 30 GiB, {large:.0} with 200", point.cache.name());
        Part { said, holds: small > large }
    };
    answers.set("more", Ours::Shape(all().into_iter().map(part).collect()));
}
