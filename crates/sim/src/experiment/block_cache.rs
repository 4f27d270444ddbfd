//! FaCE against a block-level cache ("Flash as cache extension for online transactional workloads", section 6.5).
//!
//! Bcache itself is not here. In its place stands what the paper holds against it: a cache below the database, which takes a page when it is read or
//! written and never hears of clean pages that leave the pool, writes back, and replaces the least recently used. Its B-tree, its
//! buckets and its sequential bypass are left out.

use mezzanine_engine::Design;

use super::answers::Answers;
use super::points::{Measured, Point, SIZES_GB};
use super::runs::Runs;
use super::verdict::{Ours, Part};

/// What stands for Bcache.
const BLOCK_CACHE: Design = Design::Exadata;

fn sizes(design: Design) -> [Point; 5] {
    SIZES_GB.map(|flash_gb| Point::PAPER.with(design, flash_gb))
}

pub(super) fn points() -> Vec<Point> {
    [Design::FaceGsc, BLOCK_CACHE].into_iter().flat_map(sizes).collect()
}

/// Figures of face-gsc and of the block cache at every size.
fn both(runs: &Runs, figure: fn(&Measured) -> f64) -> [[f64; 5]; 2] {
    [Design::FaceGsc, BLOCK_CACHE].map(|design| sizes(design).map(|point| figure(runs.of(&point))))
}

fn mean(figures: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = figures.len() as f64;
    figures.sum::<f64>() / count
}

pub(super) fn figure_9(runs: &Runs, answers: &mut Answers) {
    let [face, block] = both(runs, |run| run.transactions);
    let ratios: Vec<f64> = face.iter().zip(block).map(|(face, block)| face / block).collect();
    answers.set("ahead-20gb", Ours::Value(ratios[4]));
    answers.set("ahead", Ours::Value(ratios.into_iter().fold(f64::INFINITY, f64::min)));
    let [face, block] = both(runs, |run| run.hits);
    answers.set("hits", Ours::Value(mean(face.iter().zip(block).map(|(face, block)| face - block))));
}

pub(super) fn figure_10(runs: &Runs, answers: &mut Answers) {
    let [face, block] = both(runs, |run| run.flash_pages_per_second);
    answers.set("rate", Ours::Value(mean(face.iter().zip(block).map(|(face, block)| face / block))));
    let [face, block] = both(runs, |run| run.flash_busy);
    answers.set("face-busy", Ours::Value(face.into_iter().fold(0.0, f64::max)));
    let parts = face.iter().zip(block).zip(SIZES_GB).map(|((face, block), flash_gb)| Part {
        said: format!("{flash_gb} GB: the block cache is busy {block:.1} % of the time, face-gsc {face:.1}"),
        holds: block > *face,
    });
    answers.set("bcache-busier", Ours::Shape(parts.collect()));
}

fn at_10_gb(design: Design) -> Point {
    Point::PAPER.with(design, 10)
}

pub(super) fn table_6_points() -> Vec<Point> {
    [Design::FaceGsc, Design::Lc, BLOCK_CACHE].map(at_10_gb).to_vec()
}

pub(super) fn table_6(runs: &Runs, answers: &mut Answers) {
    let [face, lc, block] =
        [Design::FaceGsc, Design::Lc, BLOCK_CACHE].map(|design| *runs.of(&at_10_gb(design)));
    answers.set("size-face", Ours::Value(face.flash_write_kib));
    answers.set("size-lc", Ours::Value(lc.flash_write_kib));
    answers.set("sequential-face", Ours::Value(face.flash_sequential));
    answers.set("sequential-lc", Ours::Value(lc.flash_sequential));
    let next = lc.flash_write_kib.max(block.flash_write_kib);
    answers.set("size-ratio", Ours::Value(face.flash_write_kib / next));
}
