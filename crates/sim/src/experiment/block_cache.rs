//! FaCE against a block-level cache ("Flash as cache extension for online transactional workloads", section
//! 6.5).
//!
//! Bcache itself is not here. In place of its LRU stands what the paper holds against it: a cache below the
//! database, which takes a page when it is read or written and never hears of clean pages that leave the
//! pool, writes back, and replaces the least recently used. In place of its FIFO stands a FIFO written in
//! place, which is offered pages when they leave the pool. Bcache's B-tree, its buckets, which are filled in
//! sequence, and its sequential bypass are left out.

use std::iter;

use mezzanine_engine::Design;

use super::answers::Answers;
use super::points::{Measured, Point, SIZES_GB};
use super::runs::Runs;
use super::verdict::{Ours, Part};

/// What stands for Bcache with LRU, and with FIFO.
const BLOCK_CACHES: [Design; 2] = [Design::Exadata, Design::Fifo];

fn sizes(design: Design) -> [Point; 5] {
    SIZES_GB.map(|flash_gb| Point::PAPER.with(design, flash_gb))
}

pub(super) fn points() -> Vec<Point> {
    iter::once(Design::FaceGsc).chain(BLOCK_CACHES).flat_map(sizes).collect()
}

/// Figures of a design at every size.
fn row(runs: &Runs, design: Design, figure: fn(&Measured) -> f64) -> [f64; 5] {
    sizes(design).map(|point| figure(runs.of(&point)))
}

/// Figures of face-gsc and of the block cache with LRU, size by size.
fn pairs(runs: &Runs, figure: fn(&Measured) -> f64) -> impl Iterator<Item = (f64, f64)> {
    row(runs, Design::FaceGsc, figure).into_iter().zip(row(runs, BLOCK_CACHES[0], figure))
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    figures.sum::<f64>() / SIZES_GB.len() as f64
}

pub(super) fn figure_9(runs: &Runs, answers: &mut Answers) {
    let transactions = |design| row(runs, design, |run| run.transactions);
    let ratios = |block| {
        let pairs = transactions(Design::FaceGsc).into_iter().zip(transactions(block));
        pairs.map(|(face, block)| face / block)
    };
    answers
        .set("ahead-20gb", Ours::Value(ratios(BLOCK_CACHES[0]).next_back().expect("there are five sizes")));
    let least = BLOCK_CACHES.into_iter().flat_map(ratios).fold(f64::INFINITY, f64::min);
    answers.set("ahead", Ours::Value(least));
    let hits = pairs(runs, |run| run.hits).map(|(face, block)| face - block);
    answers.set("hits", Ours::Value(mean(hits)));
}

/// Busy all the time, as iostat rounds it.
const BUSY: f64 = 99.0;

pub(super) fn figure_10(runs: &Runs, answers: &mut Answers) {
    let rates = pairs(runs, |run| run.flash_pages_per_second).map(|(face, block)| face / block);
    answers.set("rate", Ours::Value(mean(rates)));
    let busy = || pairs(runs, |run| run.flash_busy);
    answers.set("face-busy", Ours::Value(busy().map(|(face, _)| face).fold(0.0, f64::max)));
    let parts = busy().zip(SIZES_GB).map(|((face, block), flash_gb)| Part {
        said: format!("{flash_gb} GB: the block cache is busy {block:.1} % of the time, face-gsc {face:.1}"),
        holds: block > face,
    });
    let most = busy().map(|(_, block)| block).fold(0.0, f64::max);
    let maxed = Part { said: format!("the block cache is busy {most:.1} % at most"), holds: most >= BUSY };
    answers.set("bcache-busier", Ours::Shape(parts.chain([maxed]).collect()));
}

fn at_10_gb(design: Design) -> Point {
    Point::PAPER.with(design, 10)
}

/// What Table 6 compares, by the keys of its rows.
const TABLE_6: [(&str, Design); 4] = [
    ("face", Design::FaceGsc),
    ("lc", Design::Lc),
    ("bcache-lru", BLOCK_CACHES[0]),
    ("bcache-fifo", BLOCK_CACHES[1]),
];

pub(super) fn table_6_points() -> Vec<Point> {
    TABLE_6.map(|(_, design)| at_10_gb(design)).to_vec()
}

pub(super) fn table_6(runs: &Runs, answers: &mut Answers) {
    let rows = TABLE_6.map(|(key, design)| (key, *runs.of(&at_10_gb(design))));
    for (key, run) in rows {
        answers.set(&format!("size-{key}"), Ours::Value(run.flash_write_kib));
        answers.set(&format!("sequential-{key}"), Ours::Value(run.flash_sequential));
    }
    let [face, lc, lru, fifo] = rows.map(|(_, run)| run);
    let next = [lc, lru, fifo].map(|run| run.flash_write_kib).into_iter().fold(0.0, f64::max);
    answers.set("size-ratio", Ours::Value(face.flash_write_kib / next));
    let block = [lru, fifo].map(|run| run.flash_sequential);
    let (least, most) = (block[0].min(block[1]), block[0].max(block[1]));
    let part = |said: String, holds| Part { said, holds };
    let [face, lc] = [face, lc].map(|run| run.flash_sequential);
    let parts = vec![
        part(format!("face-gsc {face:.1} %, the block caches {most:.1} % at most"), face > most),
        part(format!("lc {lc:.1} %, the block caches {least:.1} % at least"), lc < least),
    ];
    answers.set("order", Ours::Shape(parts));
}
