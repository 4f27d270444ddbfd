//! FaCE against LC ("Flash as cache extension for online transactional workloads", section 6.4), and the
//! paper's claims as a whole.

use mezzanine_engine::Design;

use super::answers::Answers;
use super::points::{Measured, Point, SIZES_GB};
use super::runs::Runs;
use super::verdict::{Ours, Part};

const DESIGNS: [Design; 3] = [Design::FaceBasic, Design::FaceGsc, Design::Lc];
const DRIVES: [&str; 4] = ["samsung-850-evo", "samsung-840-pro", "intel-dc-s3500", "intel-p3700"];

/// One figure of a design at every size, 840 Pro.
fn row(runs: &Runs, design: Design, figure: fn(&Measured) -> f64) -> [f64; 5] {
    row_on(runs, design, "samsung-840-pro", figure)
}

fn row_on(runs: &Runs, design: Design, drive: &'static str, figure: fn(&Measured) -> f64) -> [f64; 5] {
    SIZES_GB.map(|flash_gb| figure(runs.of(&Point::PAPER.with(design, flash_gb).on(drive))))
}

fn transactions(run: &Measured) -> f64 {
    run.transactions
}

fn pairs(a: [f64; 5], b: [f64; 5]) -> impl Iterator<Item = (f64, f64)> {
    a.into_iter().zip(b)
}

/// A row in words.
fn text(row: &[f64]) -> String {
    row.iter().map(|figure| format!("{figure:.1}")).collect::<Vec<_>>().join(", ")
}

/// No figure is below the one before it.
fn grows(row: &[f64]) -> bool {
    row.windows(2).all(|pair| pair[1] >= pair[0])
}

/// By how much the last figure is above the first.
fn growth(row: &[f64]) -> f64 {
    row[row.len() - 1] / row[0]
}

/// A figure that changes by no more than this part of it is flat.
const FLAT: f64 = 0.15;

pub(super) fn figure_6_points() -> Vec<Point> {
    let sizes = |design| SIZES_GB.map(|flash_gb| Point::PAPER.with(design, flash_gb));
    DESIGNS.into_iter().flat_map(sizes).collect()
}

pub(super) fn figure_6(runs: &Runs, answers: &mut Answers) {
    let hits = |design| row(runs, design, |run| run.hits);
    let saved = |design| row(runs, design, |run| run.writes_saved);
    let behind = |design| {
        pairs(hits(Design::Lc), hits(design)).map(|(lc, face)| lc - face).fold(f64::NEG_INFINITY, f64::max)
    };
    answers.set("hits-gsc", Ours::Value(behind(Design::FaceGsc)));
    answers.set("hits-basic", Ours::Value(behind(Design::FaceBasic)));
    let more = pairs(saved(Design::Lc), saved(Design::FaceGsc)).map(|(lc, face)| lc - face);
    answers.set("writes-saved", Ours::spread(more));
    let mut parts = Vec::new();
    for design in DESIGNS {
        for (what, row) in [("hits", hits(design)), ("writes saved", saved(design))] {
            parts.push(Part { said: format!("{design}, {what} in %: {}", text(&row)), holds: grows(&row) });
        }
    }
    let [gsc, basic] = [Design::FaceGsc, Design::FaceBasic].map(|design| [hits(design), saved(design)]);
    for (what, (gsc, basic)) in ["hits", "writes saved"].into_iter().zip(gsc.into_iter().zip(basic)) {
        let raised = pairs(gsc, basic).all(|(gsc, basic)| gsc >= basic);
        parts.push(Part { said: format!("second chances raise {what}"), holds: raised });
    }
    answers.set("growth", Ours::Shape(parts));
}

pub(super) fn figure_7_points() -> Vec<Point> {
    let ten = [Design::FaceGsc, Design::Lc].map(|design| Point::PAPER.with(design, 10));
    figure_6_points().into_iter().chain(ten).collect()
}

pub(super) fn figure_7(runs: &Runs, answers: &mut Answers) {
    let busy = |design| row(runs, design, |run| run.flash_busy);
    let rate = |design| row(runs, design, |run| run.flash_pages_per_second);
    let lc = busy(Design::Lc);
    answers.set("lc-busy", Ours::Value(lc.iter().sum::<f64>() / lc.len() as f64));
    answers.set("lc-saturated", Ours::Value(lc.into_iter().fold(0.0, f64::max)));
    let mut less_busy = Vec::new();
    for design in [Design::FaceBasic, Design::FaceGsc] {
        let face = busy(design);
        let said = format!("{design} is busy {} % of the time, lc {}", text(&face), text(&lc));
        less_busy.push(Part { said, holds: pairs(face, lc).all(|(face, lc)| face < lc) });
        let said = format!("{design} is the busier the larger the flash");
        less_busy.push(Part { said, holds: grows(&face) });
    }
    answers.set("face-less-busy", Ours::Shape(less_busy));
    let at_10 = |design| runs.of(&Point::PAPER.with(design, 10)).flash_pages_per_second;
    answers.set("rate", Ours::Value(at_10(Design::FaceGsc) / at_10(Design::Lc)));
    let (face, lc) = (rate(Design::FaceGsc), rate(Design::Lc));
    let parts = vec![
        Part { said: format!("lc, pages a second: {}", text(&lc)), holds: growth(&lc) <= 1.0 + FLAT },
        Part {
            said: format!("face-gsc, pages a second: {}", text(&face)),
            holds: growth(&face) > 1.0 + FLAT,
        },
    ];
    answers.set("lc-flat", Ours::Shape(parts));
}

pub(super) fn figure_8_points() -> Vec<Point> {
    let mut points = vec![Point::PAPER];
    for drive in DRIVES {
        points.push(Point::PAPER.all_flash().on(drive));
        points.extend(figure_6_points().into_iter().map(|point| point.on(drive)));
    }
    points
}

pub(super) fn figure_8(runs: &Runs, answers: &mut Answers) {
    let disks = runs.of(&Point::PAPER).transactions;
    let on = |drive, design| row_on(runs, design, drive, transactions);
    let evo = "samsung-850-evo";
    let all_flash = runs.of(&Point::PAPER.all_flash().on(evo)).transactions;
    answers.set("evo-all-flash", Ours::Value(all_flash / disks));
    let near = |row: [f64; 5]| {
        row.map(|of_lc| Part {
            said: format!("lc {of_lc:.1} a minute, all on flash {all_flash:.1}"),
            holds: (of_lc / all_flash - 1.0).abs() <= FLAT,
        })
    };
    answers.set("evo-lc", Ours::Shape(near(on(evo, Design::Lc)).to_vec()));
    let face = [Design::FaceBasic, Design::FaceGsc].map(|design| on(evo, design));
    let least = face.into_iter().flatten().fold(f64::INFINITY, f64::min);
    answers.set("evo-face", Ours::Value(least / all_flash));
    let pro = on("samsung-840-pro", Design::Lc);
    let flat = Part {
        said: format!("lc, transactions a minute: {}", text(&pro)),
        holds: growth(&pro) <= 1.0 + FLAT,
    };
    answers.set("pro-lc-flat", Ours::Shape(vec![flat]));
    let over_lc = |drive, design| pairs(on(drive, design), on(drive, Design::Lc)).map(|(face, lc)| face / lc);
    let least = over_lc("samsung-840-pro", Design::FaceGsc).fold(f64::INFINITY, f64::min);
    answers.set("pro-ahead", Ours::Value(least));
    let s3500 = over_lc("intel-dc-s3500", Design::FaceGsc).last();
    answers.set("s3500-ahead", Ours::Value(s3500.expect("there are five sizes")));
    let [gsc, basic] = [Design::FaceGsc, Design::FaceBasic].map(|design| on("samsung-840-pro", design)[4]);
    answers.set("second-chances", Ours::Value(gsc / basic));
    let widens = DRIVES.map(|drive| {
        let ratios = pairs(on(drive, Design::FaceGsc), on(drive, Design::FaceBasic));
        let ratios: Vec<f64> = ratios.map(|(gsc, basic)| gsc / basic).collect();
        let texts: Vec<_> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        Part { said: format!("{drive}, times: {}", texts.join(", ")), holds: grows(&ratios) }
    });
    answers.set("gap-widens", Ours::Shape(widens.to_vec()));
    let most = over_lc("intel-p3700", Design::FaceGsc).map(|ratio| 1.0 / ratio).fold(0.0, f64::max);
    answers.set("p3700-lc", Ours::Value(most));
}

pub(super) fn headline(runs: &Runs, answers: &mut Answers) {
    let face = [Design::FaceBasic, Design::FaceGsc];
    let all = |figure: fn(&Measured) -> f64| {
        Ours::spread(face.into_iter().flat_map(|design| row(runs, design, figure)))
    };
    answers.set("hits", all(|run| run.hits));
    answers.set("writes-saved", all(|run| run.writes_saved));
    answers.set("busy", all(|run| run.flash_busy));
    let disks = runs.of(&Point::PAPER).transactions;
    let most = |row: &mut dyn Iterator<Item = f64>| row.fold(0.0, f64::max);
    let gain = most(&mut row(runs, Design::FaceGsc, transactions).into_iter().map(|face| face / disks));
    answers.set("gain", Ours::Value(gain));
    let over_lc = most(&mut DRIVES.into_iter().flat_map(|drive| {
        pairs(
            row_on(runs, Design::FaceGsc, drive, transactions),
            row_on(runs, Design::Lc, drive, transactions),
        )
        .map(|(face, lc)| face / lc)
    }));
    answers.set("over-lc", Ours::Value(over_lc));
}
