//! Write-through, the same money in memory or in flash, and the number of disks ("Flash as cache extension
//! for online transactional workloads", sections 6.6 and 6.7; the talk "Flash-based Database Cache", "More
//! DRAM vs. More Flash").

use mezzanine_engine::Design;

use super::answers::Answers;
use super::points::{Point, SIZES_GB};
use super::runs::Runs;
use super::verdict::{Ours, Part};

const PAIR: [Design; 2] = [Design::FaceGsc, Design::Lc];

pub(super) fn figure_11_points() -> Vec<Point> {
    let of = |design| SIZES_GB.map(|flash_gb| Point::PAPER.with(design, flash_gb));
    PAIR.into_iter().flat_map(of).flat_map(|back| [back.clone().through(), back]).collect()
}

pub(super) fn figure_11(runs: &Runs, answers: &mut Answers) {
    let back = |design| SIZES_GB.map(|flash_gb| runs.of(&Point::PAPER.with(design, flash_gb)).transactions);
    let through = |design| {
        SIZES_GB.map(|flash_gb| runs.of(&Point::PAPER.with(design, flash_gb).through()).transactions)
    };
    let ratios = through(PAIR[0]).into_iter().zip(through(PAIR[1])).map(|(face, lc)| face / lc);
    answers.set("through-ahead", Ours::Value(ratios.sum::<f64>() / SIZES_GB.len() as f64));
    let mut slower = Vec::new();
    let mut flat = Vec::new();
    for design in PAIR {
        let (back, through) = (back(design), through(design));
        for ((flash_gb, back), through) in SIZES_GB.into_iter().zip(back).zip(through) {
            let said = format!("{design}, {flash_gb} GB: {through:.1} a minute through, {back:.1} back");
            slower.push(Part { said, holds: through < back });
        }
        let (of_back, of_through) = (back[4] / back[0], through[4] / through[0]);
        let said =
            format!("{design} from 4 to 20 GB: {of_through:.2} times through, {of_back:.2} times back");
        flat.push(Part { said, holds: of_through < of_back });
    }
    answers.set("through-slower", Ours::Shape(slower));
    answers.set("through-flat", Ours::Shape(flat));
}

/// Steps of investment.
const STEPS: [u32; 5] = [1, 2, 3, 4, 5];

/// Each step is 200 MB of memory more; what the talk counts from is not said, here it is the base of 200 MB.
fn more_memory(bed: &Point, step: u32) -> Point {
    Point { memory_mb: bed.memory_mb + 200 * step, ..bed.clone() }
}

/// Each step is 2 GB of flash more.
fn more_flash(bed: &Point, step: u32) -> Point {
    bed.with(Design::FaceGsc, 2 * step)
}

fn steps(bed: &Point) -> Vec<Point> {
    STEPS.into_iter().flat_map(|step| [more_memory(bed, step), more_flash(bed, step)]).collect()
}

/// Transactions with more memory, with more flash, and the one over the other, at each step.
fn investments(runs: &Runs, bed: &Point) -> [[f64; 5]; 3] {
    let memory = STEPS.map(|step| runs.of(&more_memory(bed, step)).transactions);
    let flash = STEPS.map(|step| runs.of(&more_flash(bed, step)).transactions);
    let ratio = [0, 1, 2, 3, 4].map(|step| flash[step] / memory[step]);
    [memory, flash, ratio]
}

pub(super) fn figure_12_points() -> Vec<Point> {
    steps(&Point::PAPER)
}

pub(super) fn figure_12(runs: &Runs, answers: &mut Answers) {
    let [_, _, ratio] = investments(runs, &Point::PAPER);
    answers.set("flash-ahead", Ours::Value(ratio.into_iter().fold(f64::INFINITY, f64::min)));
}

pub(super) fn slides_table_5_points() -> Vec<Point> {
    steps(&Point::TALK)
}

pub(super) fn slides_table_5(runs: &Runs, answers: &mut Answers) {
    let rows = investments(runs, &Point::TALK);
    for (key, row) in ["more-memory", "more-flash", "flash-over-memory"].into_iter().zip(rows) {
        answers.set(key, Ours::Row(row.to_vec()));
    }
}

/// The numbers of disks that are tried.
const DISKS: [u32; 6] = [1, 2, 4, 8, 12, 16];

fn with_disks(design: Option<Design>, disks: u32) -> Point {
    design.map_or(Point::PAPER, |design| Point::PAPER.with(design, 16)).over(disks)
}

pub(super) fn figure_13_points() -> Vec<Point> {
    let systems = [None, Some(Design::FaceGsc), Some(Design::Lc)];
    systems.into_iter().flat_map(|system| DISKS.map(|disks| with_disks(system, disks))).collect()
}

pub(super) fn figure_13(runs: &Runs, answers: &mut Answers) {
    let row = |system| DISKS.map(|disks| runs.of(&with_disks(system, disks)).transactions);
    let (disks, face, lc) = (row(None), row(Some(Design::FaceGsc)), row(Some(Design::Lc)));
    let text = |row: [f64; 6]| row.map(|figure| format!("{figure:.0}")).join(", ");
    let grows = |row: [f64; 6]| row.windows(2).all(|pair| pair[1] > pair[0]);
    let parts = [("face-gsc", face), ("disks alone", disks)]
        .map(|(what, row)| Part { said: format!("{what}, a minute: {}", text(row)), holds: grows(row) });
    answers.set("face-grows", Ours::Shape(parts.to_vec()));
    // From 8 to 16 disks against from 4 to 8: twice the disks each.
    let (before, after) = (lc[3] / lc[2], lc[5] / lc[3]);
    let said = format!(
        "lc, a minute: {}; {before:.2} times from 4 to 8 disks, {after:.2} times from 8 to 16",
        text(lc)
    );
    answers.set("lc-slows", Ours::Shape(vec![Part { said, holds: after < before }]));
    answers.set("few-disks", Ours::Value((face[0] / lc[0]).max(face[1] / lc[1])));
}
