//! What to cache ("Flash as cache extension for online transactional workloads", section 6.3).

use mezzanine_engine::{Admission, Design};

use super::answers::Answers;
use super::points::{Measured, Point, SIZES_GB};
use super::runs::Runs;
use super::verdict::{Ours, Part};

const ADMISSIONS: [Admission; 3] = [Admission::Both, Admission::Dirty, Admission::Clean];

fn point(design: Design, admission: Admission, flash_gb: u32) -> Point {
    Point::PAPER.with(design, flash_gb).admitting(admission)
}

fn grid(designs: &[Design], admissions: &[Admission]) -> Vec<Point> {
    let mut points = Vec::new();
    for &design in designs {
        for &admission in admissions {
            points.extend(SIZES_GB.map(|flash_gb| point(design, admission, flash_gb)));
        }
    }
    points
}

pub(super) fn figure_5_points() -> Vec<Point> {
    grid(&[Design::FaceBasic, Design::Lc], &ADMISSIONS)
}

pub(super) fn figure_5(runs: &Runs, answers: &mut Answers) {
    for design in [Design::FaceBasic, Design::Lc] {
        let mut parts = Vec::new();
        for flash_gb in SIZES_GB {
            let of = |admission| *runs.of(&point(design, admission, flash_gb));
            let [both, dirty, clean] = ADMISSIONS.map(of);
            let mut order = |what: &str, figure: fn(&Measured) -> f64| {
                let (both, dirty, clean) = (figure(&both), figure(&dirty), figure(&clean));
                let mut part = |first: &str, ahead: f64, second: &str, behind: f64| {
                    let said = format!("{flash_gb} GB, {what}: {first} {ahead:.1}, {second} {behind:.1}");
                    parts.push(Part { said, holds: ahead >= behind });
                };
                part("both", both, "the better of dirty and clean", dirty.max(clean));
                part("dirty", dirty, "clean", clean);
            };
            order("transactions a minute", |run| run.transactions);
            order("hits in %", |run| run.hits);
        }
        answers.set(&format!("order-{design}"), Ours::Shape(parts));
    }
    answers.set("crossover", Ours::Value(crossover(runs)));
}

/// The size from which on face-basic is faster than lc, between two sizes by a straight line; below the least
/// size 0, above the largest infinite.
fn crossover(runs: &Runs) -> f64 {
    let ahead = SIZES_GB.map(|flash_gb| {
        let of = |design| runs.of(&point(design, Admission::Both, flash_gb)).transactions;
        of(Design::FaceBasic) - of(Design::Lc)
    });
    let Some(last_behind) = ahead.iter().rposition(|ahead| *ahead <= 0.0) else { return 0.0 };
    let Some(after) = ahead.get(last_behind + 1) else { return f64::INFINITY };
    let before = ahead[last_behind];
    let sizes = SIZES_GB.map(f64::from);
    sizes[last_behind] + (sizes[last_behind + 1] - sizes[last_behind]) * before / (before - after)
}

pub(super) fn table_4_points() -> Vec<Point> {
    grid(&[Design::FaceBasic], &[Admission::Both, Admission::Dirty])
}

pub(super) fn table_4(runs: &Runs, answers: &mut Answers) {
    for (key, admission) in [("both", Admission::Both), ("dirty", Admission::Dirty)] {
        let saved = |flash_gb| runs.of(&point(Design::FaceBasic, admission, flash_gb)).writes_saved;
        answers.set(key, Ours::Row(SIZES_GB.map(saved).to_vec()));
    }
}

/// Table 5's databases by their warehouses.
const DATABASES: [(&str, u32); 3] =
    [("database-108gb", 1000), ("database-57gb", 500), ("database-21gb", 200)];

fn sized(warehouses: u32, flash_gb: u32) -> Point {
    Point { warehouses, ..Point::PAPER.with(Design::FaceGsc, flash_gb) }
}

pub(super) fn table_5_points() -> Vec<Point> {
    let of = |(_, warehouses)| SIZES_GB.map(|flash_gb| sized(warehouses, flash_gb));
    DATABASES.into_iter().flat_map(of).collect()
}

pub(super) fn table_5(runs: &Runs, answers: &mut Answers) {
    for (key, warehouses) in DATABASES {
        let old = |flash_gb| runs.of(&sized(warehouses, flash_gb)).old_versions;
        answers.set(key, Ours::Row(SIZES_GB.map(old).to_vec()));
    }
}
