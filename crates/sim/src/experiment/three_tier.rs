//! BL, LPD and NFA under shapes of the paper's buffer traces ("Towards an Efficient Flash-Based Mid-Tier
//! Cache", section 4).

use mezzanine_ssd::three_tier::{Approach, Costs, FlashConfig, Outcome, Times, TopTier};

use super::answers::Answers;
use super::comparisons::Comparisons;
use super::published::Source;
use super::verdict::{Ours, Part};
use crate::three_tier::{BufferTrace, Compared};

/// Where the paper compares three.
const LPD: Approach = Approach::Lpd { d: Approach::PUBLISHED_D };
pub(super) const THREE: [Approach; 3] = [Approach::Bl, LPD, Approach::Nfa];
/// Pages dropped with each replacement that are tried under TPC-C (Figure 8), from the least to the most; the
/// paper prints the first and the last.
const DROPS: [u32; 10] = [0, 64, 256, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

/// A database's size in pages, and no run.
pub(super) fn table_1(_: &Source, answers: &mut Answers) {
    for trace in BufferTrace::ALL {
        let tiers = [TopTier::PUBLISHED_FRAMES, FlashConfig::default().logical_pages()];
        let share = |pages: u32| 100.0 * f64::from(pages) / f64::from(trace.database_pages());
        answers.set(key(trace), Ours::Row(tiers.map(share).to_vec()));
    }
}

fn key(trace: BufferTrace) -> &'static str {
    ["tpcc", "tpch", "tpce"][trace as usize]
}

/// The approaches that are run under a trace, at once: all figures share them.
pub(super) fn approaches(trace: BufferTrace) -> Vec<Approach> {
    let drops = DROPS.into_iter().map(|d| Approach::Lpd { d }).filter(|approach| *approach != LPD);
    let more = drops.filter(|_| trace == BufferTrace::Tpcc);
    THREE.into_iter().chain(more).collect()
}

fn of(compared: &Compared, approach: Approach) -> &Outcome {
    let found = compared.outcomes.iter().find(|outcome| outcome.approach == approach);
    found.unwrap_or_else(|| panic!("{approach} is not among the approaches that are run"))
}

fn times(outcome: &Outcome) -> Times {
    Costs::PUBLISHED.times(&outcome.counts)
}

fn per_second(outcome: &Outcome) -> f64 {
    times(outcome).per_second(outcome.counts.requests())
}

/// Name, and one of the approaches' outcomes beside another's, of every trace.
fn pairs(
    comparisons: &Comparisons,
    one: Approach,
    other: Approach,
) -> Vec<(&'static str, &Outcome, &Outcome)> {
    let pair = |trace: BufferTrace| {
        let compared = comparisons.of(trace);
        (trace.name(), of(compared, one), of(compared, other))
    };
    BufferTrace::ALL.into_iter().map(pair).collect()
}

pub(super) fn figure_5(comparisons: &Comparisons, answers: &mut Answers) {
    let ratio = |one: &Outcome, other: &Outcome| per_second(one) / per_second(other);
    let tpcc = comparisons.of(BufferTrace::Tpcc);
    let nfa = of(tpcc, Approach::Nfa);
    answers.set("nfa-over-lpd-tpcc", Ours::Value(ratio(nfa, of(tpcc, LPD))));
    answers.set("nfa-over-bl-tpcc", Ours::Value(ratio(nfa, of(tpcc, Approach::Bl))));
    let ratios =
        pairs(comparisons, Approach::Nfa, Approach::Bl).into_iter().map(|(_, nfa, bl)| ratio(nfa, bl));
    answers.set("nfa-over-bl", Ours::spread(ratios));
    for (key, one, other) in [("lpd-ahead", LPD, Approach::Bl), ("nfa-ahead", Approach::Nfa, LPD)] {
        let part = |(trace, ahead, behind): (&str, &Outcome, &Outcome)| Part {
            said: format!(
                "{trace}: {one} {:.1} a second, {other} {:.1}",
                per_second(ahead),
                per_second(behind)
            ),
            holds: per_second(ahead) > per_second(behind),
        };
        answers.set(key, Ours::Shape(pairs(comparisons, one, other).into_iter().map(part).collect()));
    }
}

/// "Slightly", and "not significantly", are up to a tenth here.
const SLIGHTLY: f64 = 1.1;

pub(super) fn figure_6(comparisons: &Comparisons, answers: &mut Answers) {
    let (mut collection, mut caching, mut disk) = (Vec::new(), Vec::new(), Vec::new());
    for approach in [LPD, Approach::Nfa] {
        for (trace, ours, bl) in pairs(comparisons, approach, Approach::Bl) {
            let [ours, bl] = [times(ours), times(bl)];
            let compare = |parts: &mut Vec<Part>, ours: f64, bl: f64, holds: &dyn Fn(f64) -> bool| {
                let said = format!("{trace}: {approach} {:.0} s, BL {:.0} s", ours / 1e3, bl / 1e3);
                parts.push(Part { said, holds: holds(ours / bl) });
            };
            compare(&mut collection, ours.collection_ms, bl.collection_ms, &|ratio| ratio < 1.0);
            compare(&mut caching, ours.caching_ms, bl.caching_ms, &|ratio| ratio < SLIGHTLY);
            compare(&mut disk, ours.disk_ms, bl.disk_ms, &|ratio| ratio > 1.0 && ratio < SLIGHTLY);
        }
    }
    answers.set("collection", Ours::Shape(collection));
    answers.set("caching", Ours::Shape(caching));
    answers.set("disk", Ours::Shape(disk));
}

/// Blocks of those that were collected of which so many pages were moved, in per cent.
fn share_moved(outcome: &Outcome, pages: std::ops::RangeInclusive<usize>) -> f64 {
    let by_moved = &outcome.collected.by_moved;
    let all: u64 = by_moved.iter().sum();
    100.0 * by_moved[pages].iter().sum::<u64>() as f64 / all.max(1) as f64
}

/// Half of the blocks that were collected had at most so many pages moved.
fn median_moved(outcome: &Outcome) -> usize {
    let by_moved = &outcome.collected.by_moved;
    let all: u64 = by_moved.iter().sum();
    let mut up_to = 0;
    let reaches = |blocks: &u64| {
        up_to += blocks;
        2 * up_to >= all
    };
    by_moved.iter().position(reaches).unwrap_or(0)
}

pub(super) fn figure_7(comparisons: &Comparisons, answers: &mut Answers) {
    let tpcc = comparisons.of(BufferTrace::Tpcc);
    let [bl, lpd, nfa] = THREE.map(|approach| of(tpcc, approach));
    let near_full = share_moved(bl, 120..=127);
    let said = format!("{near_full:.1} % of BL's have 120 to 127, half of them {} or more", median_moved(bl));
    answers.set("bl-near-full", Ours::Shape(vec![Part { said, holds: near_full > 50.0 }]));
    let (of_lpd, of_bl) = (median_moved(lpd), median_moved(bl));
    let said = format!("half of LPD's have at most {of_lpd}, half of BL's at most {of_bl}");
    answers.set("lpd-lower", Ours::Shape(vec![Part { said, holds: of_lpd < of_bl }]));
    answers.set("nfa-below-96", Ours::Value(share_moved(nfa, 0..=95)));
    let (sparse, below) = (share_moved(nfa, 96..=127), share_moved(nfa, 64..=95));
    let said = format!("{sparse:.1} % of NFA's have 96 to 127, {below:.1} % have 64 to 95");
    answers.set("nfa-sparse", Ours::Shape(vec![Part { said, holds: sparse < below / 2.0 }]));
}

pub(super) fn figure_8(comparisons: &Comparisons, answers: &mut Answers) {
    let tpcc = comparisons.of(BufferTrace::Tpcc);
    let nfa = of(tpcc, Approach::Nfa);
    let relative = |d: u32| {
        let counts = &of(tpcc, Approach::Lpd { d }).counts;
        let collections = counts.collections as f64 / nfa.counts.collections as f64;
        (collections, counts.hit_ratio() / nfa.counts.hit_ratio())
    };
    answers.set("nfa-hits", Ours::Value(100.0 * nfa.counts.hit_ratio()));
    let (collections, hits) = relative(DROPS[0]);
    answers.set("none-dropped-hits", Ours::Value(100.0 * (hits - 1.0)));
    answers.set("none-dropped-collections", Ours::Value(collections));
    let (collections, hits) = relative(DROPS[DROPS.len() - 1]);
    answers.set("all-dropped-collections", Ours::Value(collections));
    answers.set("all-dropped-hits", Ours::Value(hits));
    let part = |d: u32| {
        let (collections, hits) = relative(d);
        let said = format!("d = {d}: {collections:.2} times the collections, {hits:.3} times the hits");
        Part { said, holds: collections >= 1.0 || hits <= 1.0 }
    };
    answers.set("no-better-d", Ours::Shape(DROPS.map(part).to_vec()));
}

/// Wear is uniform if its standard deviation is at most this part of the mean.
const UNIFORM: f64 = 0.2;

pub(super) fn figure_9(comparisons: &Comparisons, answers: &mut Answers) {
    let tpcc = comparisons.of(BufferTrace::Tpcc);
    let part = |approach: Approach| {
        let erases = &of(tpcc, approach).erases;
        let mean = erases.iter().map(|erases| f64::from(*erases)).sum::<f64>() / erases.len() as f64;
        let squares = erases.iter().map(|erases| (f64::from(*erases) - mean).powi(2)).sum::<f64>();
        let deviation = (squares / erases.len() as f64).sqrt();
        let (least, most) = (erases.iter().min().unwrap_or(&0), erases.iter().max().unwrap_or(&0));
        let said = format!(
            "{approach}: {least} to {most} erases, {mean:.1} on average, standard deviation {deviation:.1}"
        );
        Part { said, holds: deviation <= UNIFORM * mean }
    };
    answers.set("uniform", Ours::Shape(THREE.map(part).to_vec()));
}
