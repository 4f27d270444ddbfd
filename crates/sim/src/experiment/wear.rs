//! Wear of the flash drive by what is written to it ("Flash as cache extension for online transactional
//! workloads"): by the size of writes (section 2.2, Table 2), and by the cache (section 6.7.1, Table 7).

use std::collections::VecDeque;

use mezzanine_device::model::{OperationKind, Timing};
use mezzanine_engine::Design;
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Condition, Counters, Ssd, SsdConfig};

use super::answers::Answers;
use super::points::{Inside, Point};
use super::published::Source;
use super::runs::Runs;
use super::verdict::Ours;
use super::worn::{LARGE_BYTES, Layout, PAGES_PER_BLOCK, QUEUE_DEPTH, UNIT_BYTES, WORN};

/// Bytes of flash of the drives of Table 2.
const FLASH_BYTES: u64 = 1 << 30;
/// Times that the capacity is written before counting begins, and while it goes on.
const PASSES: [f64; 2] = [4.0, 3.0];
/// Bytes written to a drive that was filled in order, if what comes before its wear is at rest is counted as
/// well. Fitted to LC on the S3500 in Table 7.
const BYTES_BEGUN: f64 = 300e9;

/// Where writes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Places {
    /// Anywhere, at multiples of their size.
    Random,
    /// One after the other, and from the beginning again.
    Around,
}

/// Units programmed for whatever reason, for one that the host wrote, to a drive that was filled in order.
/// `passes`: times that the capacity is written before counting begins, and while it goes on.
fn amplification(config: SsdConfig, bytes: u64, places: Places, passes: [f64; 2]) -> f64 {
    let drive = Ssd::new(config).expect("the drives can be");
    let mut state = drive.idle();
    drive.prepare(&mut state, Condition::Filled, 1);
    let (mut random, mut now, mut queue) = (Random::new(1), 0, VecDeque::new());
    let of_drive = drive.capacity() / bytes;
    let mut write = |state: &mut [u64], passes: f64| -> Counters {
        for number in 0..(passes * of_drive as f64) as u64 {
            let place = match places {
                Places::Random => random.below(of_drive),
                Places::Around => number % of_drive,
            };
            if queue.len() == QUEUE_DEPTH {
                now = queue.pop_front().map_or(now, |done: u64| done.max(now));
            }
            let operation = drive.operation(OperationKind::Write, place * bytes, bytes);
            let ticket = drive.submit(state, now, operation).expect("room for an operation").ticket;
            queue.push_back(ticket.completion().unwrap_or(now));
        }
        drive.counters(state)
    };
    let (before, after) = (write(&mut state, passes[0]), write(&mut state, passes[1]));
    let of = |count: fn(&Counters) -> u64| (count(&after) - count(&before)) as f64;
    of(|c| c.units_programmed + c.units_moved + c.units_of_map + c.units_padded) / of(|c| c.units_written)
}

pub(super) fn table_2(_: &Source, answers: &mut Answers) {
    for worn in WORN {
        let mut set = |what: &str, ours: f64| answers.set(&format!("{}-{what}", worn.key), Ours::Value(ours));
        let of = |layout: Layout, share: f64, bytes: u64, places: Places| {
            amplification(worn.of_flash(layout, FLASH_BYTES, PAGES_PER_BLOCK, share), bytes, places, PASSES)
        };
        let small = of(Layout::Spread, worn.share, UNIT_BYTES, Places::Random);
        let large = of(Layout::Spread, worn.share, LARGE_BYTES, Places::Random);
        set("small", small);
        set("small-as-sold", of(Layout::Spread, worn.share_as_sold(), UNIT_BYTES, Places::Random));
        set("large", large);
        set("large-own-block", of(Layout::OneBlock, worn.share, LARGE_BYTES, Places::Random));
        set("large-around", of(Layout::Spread, worn.share, LARGE_BYTES, Places::Around));
        set("small-over-large", small / large);
    }
}

const PAIR: [Design; 2] = [Design::FaceGsc, Design::Lc];

fn of_table_7(key: &'static str, design: Design, inside: Inside) -> Point {
    Point { inside: Some(inside), ..Point::PAPER.with(design, 10).on(key) }
}

pub(super) fn table_7_points() -> Vec<Point> {
    let of = |key| PAIR.map(|design| Inside::ALL.map(|inside| of_table_7(key, design, inside)));
    WORN.iter().flat_map(|worn| of(worn.key).into_iter().flatten()).collect()
}

pub(super) fn table_7(runs: &Runs, answers: &mut Answers) {
    for worn in WORN {
        let of = |inside| {
            PAIR.map(|design| {
                let measured = runs.of(&of_table_7(worn.key, design, inside));
                measured.write_amplification.expect("something was written to a drive from the inside")
            })
        };
        for (inside, suffix) in Inside::ALL.into_iter().zip(["", "-filled"]) {
            for (ours, cache) in of(inside).into_iter().zip(["face", "lc"]) {
                answers.set(&format!("{}-{cache}{suffix}", worn.key), Ours::Value(ours));
            }
        }
        let [face, lc] = of(Inside::All);
        answers.set(&format!("{}-wear", worn.key), Ours::Value(lc / face));
        let config = worn.of_flash(Layout::Spread, FLASH_BYTES, PAGES_PER_BLOCK, worn.share);
        let begun = amplification(config, UNIT_BYTES, Places::Random, [0.0, worn.passes(BYTES_BEGUN)]);
        answers.set(&format!("{}-lc-begun", worn.key), Ours::Value(begun));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::num::NonZero;

    use super::super::kept::Kept;
    use super::super::{Bed, Measured, Published, SCALE_MAX, find};
    use super::*;

    /// Less flash than in Table 2, and blocks of 64 KiB.
    const PAGES: u32 = 8;
    const BYTES: u64 = 128 << 20;

    #[test]
    fn the_share_of_the_flash_is_that_of_small_writes() {
        for (worn, published) in WORN.iter().zip([5.15, 3.04]) {
            let config = worn.of_flash(Layout::Spread, FLASH_BYTES, PAGES_PER_BLOCK, worn.share);
            let found = amplification(config, UNIT_BYTES, Places::Random, PASSES);
            assert!((found / published - 1.0).abs() < 0.02, "{}: {found}", worn.key);
        }
    }

    /// What decides is whether a write leaves erase blocks behind that hold nothing else.
    #[test]
    fn large_writes_cost_nothing_where_they_have_blocks_of_their_own_and_much_where_they_share() {
        let worn = WORN[0];
        let of = |layout: Layout, places| {
            amplification(worn.of_flash(layout, BYTES, PAGES, worn.share), LARGE_BYTES, places, PASSES)
        };
        let around = of(Layout::Spread, Places::Around);
        assert!(around < 1.02, "writes that go round leave whole blocks: {around}");
        let own = of(Layout::OneBlock, Places::Random);
        assert!(own < 1.02, "a write that is an erase block leaves nothing to move: {own}");
        let spread = of(Layout::Spread, Places::Random);
        assert!(spread > 1.2, "parts of other writes are moved: {spread}");
    }

    /// The queue goes round, LC writes pages where they lie: a cache that fills its drive.
    #[test]
    fn a_queue_wears_flash_less_than_pages_in_place() {
        let bed = Bed { scale: SCALE_MAX, seconds: 1.0, ..Bed::default() };
        let points = PAIR.map(|design| of_table_7(WORN[0].key, design, Inside::All));
        let mut runs = Runs::new(bed);
        runs.run(points.to_vec(), NonZero::<usize>::MIN, &|| {}).unwrap();
        let [face, lc] = points.map(|point| runs.of(&point).write_amplification.unwrap());
        assert!(face < 1.05, "a queue leaves whole blocks: {face}");
        assert!(lc > 3.0, "pages in place leave blocks that are partly valid: {lc}");
    }

    #[test]
    fn kept_points_have_the_wear_and_answer_every_statement() {
        let path = std::env::temp_dir().join(format!("mezzanine-wear-{}", std::process::id()));
        let (bed, points) = (Bed::default(), table_7_points());
        let kept = Kept::open(&path).unwrap();
        for point in &points {
            let amplification = if *point == points[0] { 2.5 } else { 1.25 };
            let measured = Measured { write_amplification: Some(amplification), ..Measured::default() };
            kept.add(&bed, point, &measured).unwrap();
        }
        let mut runs = Runs::kept(bed, &path).unwrap();
        let experiment = find("face.table7").unwrap();
        assert_eq!(experiment.points_missing(&mut runs), 0);
        let report = experiment.run(&Published::shipped(), &mut runs, NonZero::<usize>::MIN, &|| {}).unwrap();
        assert_eq!(report.statements.len(), 12);
        assert_eq!(report.statements[0].ours, Ours::Value(2.5));
        std::fs::remove_file(&path).unwrap();
    }
}
