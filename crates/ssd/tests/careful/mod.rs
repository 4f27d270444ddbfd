//! A host that takes care: each of its pages has two places, which it writes in turn with a checksum over
//! contents, place and version; a version is acknowledged when a flush is; and a log on another drive says
//! which version of each page was acknowledged last.
#![allow(dead_code, clippy::unwrap_used)] // Each test uses a part.

use std::collections::BTreeMap;

use mezzanine_device::model::OperationKind;
use mezzanine_ground::random::Random;
use mezzanine_ssd::SsdConfig;
use mezzanine_ssd::power::Version;

use crate::lives::{Broken, Life, Trust};

/// What became of a page.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// The version that was acknowledged last; 0 = none.
    acknowledged: Version,
    /// Which of its places has that.
    place: u32,
}

/// What a power cut has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Costs {
    pub(crate) cuts: u64,
    /// Drives that do not start.
    pub(crate) dead: u64,
    /// Places whose damage a checksum, or the drive, has noticed, and whose page is in its other place.
    pub(crate) made_good: u64,
    /// Pages that were acknowledged and are not there, and damage says so.
    pub(crate) missed_by_damage: u64,
    /// Pages that were acknowledged and are not there, which the log alone says.
    pub(crate) missed_by_log: u64,
}

/// Drives of these kinds of which each has its power cut so often, unless it dies before.
pub(crate) fn careful(seeds: u64, config: impl Fn(&mut Random) -> SsdConfig) -> Costs {
    let mut costs = Costs::default();
    for seed in 0..seeds {
        let mut life = Life::new(seed, Trust::InFlushes, &config);
        let mut pages = vec![Page::default(); life.ssd.config().logical_units() as usize / 2];
        for _ in 0..10 {
            costs.cuts += 1;
            let under_way = work(&mut life, &mut pages);
            let at = life.now + life.random.magnitude(4_000_000);
            for (page, done) in under_way {
                if done.is_some_and(|done| done <= at) {
                    (pages[page.0].acknowledged, pages[page.0].place) = page.1;
                }
            }
            match life.cut_at(at, 0.0) {
                Ok(_) => {}
                Err(Broken::Dead(_)) => {
                    costs.dead += 1;
                    break;
                }
                Err(Broken::Books(what)) => panic!("seed {seed}: {what}"),
            }
            look(&mut life, &mut pages, &mut costs);
        }
    }
    costs
}

/// A version of a page and its place.
type Written = (usize, (Version, u32));

/// Writes pages until somewhere in the work the power fails. Returns what was not acknowledged yet, with when
/// the flush is complete that was to keep it.
fn work(life: &mut Life, pages: &mut [Page]) -> Vec<(Written, Option<u64>)> {
    for _ in 0..life.random.between(1, 60) {
        let under_way = write(life, pages);
        let done = life.submit(OperationKind::Flush, 0, 0, false, 0);
        life.now = done;
        for (page, (version, place)) in under_way {
            pages[page] = Page { acknowledged: version, place };
        }
    }
    let under_way = write(life, pages);
    let flushed = life.random.chance(1, 2).then(|| life.submit(OperationKind::Flush, 0, 0, false, 0));
    under_way.into_iter().map(|written| (written, flushed)).collect()
}

/// Writes some pages, each to the place that does not have its newest version.
fn write(life: &mut Life, pages: &[Page]) -> BTreeMap<usize, (Version, u32)> {
    let mut under_way = BTreeMap::new();
    for _ in 0..life.random.between(1, 8) {
        let page = life.random.below(pages.len() as u64) as usize;
        let place = 1 - pages[page].place;
        life.now += life.random.magnitude(100_000);
        life.submit(OperationKind::Write, 2 * page as u32 + place, 1, false, 0);
        under_way.insert(page, (life.version(), place));
    }
    under_way
}

/// Reads all pages as their owner does after a start, and goes on with what is there.
fn look(life: &mut Life, pages: &mut [Page], costs: &mut Costs) {
    for (number, page) in pages.iter_mut().enumerate() {
        let places = [0, 1].map(|place| life.read(2 * number as u32 + place).unwrap());
        let (newest, place) = (0..2)
            .filter(|place| places[*place as usize].passes_checksum())
            .map(|place| (places[place as usize].version().unwrap_or(0), place))
            .max()
            .unwrap_or((0, page.place));
        let is_damaged = places.iter().any(|contents| !contents.passes_checksum());
        if newest >= page.acknowledged {
            costs.made_good += u64::from(is_damaged);
        } else if is_damaged {
            costs.missed_by_damage += 1;
        } else {
            costs.missed_by_log += 1;
        }
        *page = Page { acknowledged: newest, place };
    }
}
