//! From empty, in front of one slow volume: who is at full speed when.
//!
//! The volume takes 2.5 ms for an operation and 150 MB/s, one at a time; the cache device 80 us, 32 at a
//! time. What bounds the guest beside its devices is one number, the time of its processor for a request, by
//! which the rate of dm-cache at its end is what was measured. All caches have it.

use super::super::answers::Answers;
use super::super::published::Source;
use super::super::verdict::{Ours, Part};
use crate::timed::block::{BlockCache, BlockOutcome, BlockSetup, SceSetup, Writes, run_blocks};

/// 1 s / 20,812, the rate of dm-cache at its end, in microseconds.
const GUEST_US: f64 = 1e6 / 20_812.0;

/// The race of a cache, with so large a share of writes.
pub(super) fn setup(cache: BlockCache, write_share: f64) -> BlockSetup {
    BlockSetup { cache, write_share, cpu_us: GUEST_US, ..BlockSetup::default() }
}

fn run(cache: BlockCache, write_share: f64) -> BlockOutcome {
    run_blocks(&setup(cache, write_share)).expect("the race can be run")
}

/// Requests a second in the first intervals, of 100 in the last.
fn shares(outcome: &BlockOutcome, intervals: usize) -> Ours {
    let last = outcome.series.last().expect("there are six").iops;
    Ours::Row(outcome.series.iter().take(intervals).map(|interval| 100.0 * interval.iops / last).collect())
}

/// Seconds until so large a share of the rate of the last interval, in intervals of a second.
pub(super) fn seconds_until(cache: BlockCache, share: f64) -> f64 {
    let setup = BlockSetup { interval_seconds: 1.0, ..setup(cache, 0.0) };
    let outcome = run_blocks(&setup).expect("the race can be run");
    let last = outcome.last(0.2).iops;
    let found = outcome.series.iter().find(|interval| interval.iops >= share * last);
    found.expect("the last is").end
}

pub(in crate::experiment) fn race(_: &Source, answers: &mut Answers) {
    let nothing = run(BlockCache::Nothing, 0.0).whole.iops;
    let warm_up = BlockCache::Sce(SceSetup::WARM_UP);
    let [dm_cache, bcache, sce] =
        [BlockCache::DmCache, BlockCache::Bcache(Writes::Through), warm_up].map(|cache| run(cache, 0.0));
    answers.set("dm-cache", shares(&dm_cache, 4));
    answers.set("bcache", shares(&bcache, 6));
    let first = |outcome: &BlockOutcome| outcome.series[0].iops;
    let slow = |outcome: &BlockOutcome| Part {
        said: format!("{}: {:.0} a second, the volume alone {nothing:.0}", outcome.cache, first(outcome)),
        holds: first(outcome) < 3.0 * nothing,
    };
    let faster = Part {
        said: format!("the fragment cache: {:.0} a second", first(&sce)),
        holds: first(&sce) > first(&dm_cache).max(first(&bcache)),
    };
    answers.set("first", Ours::Shape(vec![slow(&dm_cache), slow(&bcache), faster]));
    // Every write is one of the volume, and it does nothing else in the end.
    let bound = nothing / 0.3;
    // Caches that bring in each miss are full after minutes, as misses wait behind writes.
    let mixed = |cache| {
        let setup = BlockSetup { seconds: 240.0, ..setup(cache, 0.3) };
        run_blocks(&setup).expect("the race can be run").last(0.25).iops / bound
    };
    answers.set(
        "writes",
        Ours::Row([BlockCache::DmCache, BlockCache::Bcache(Writes::Through)].map(mixed).to_vec()),
    );
    answers.set("goal-writes", Ours::Value(mixed(warm_up)));
    answers.set("goal", Ours::Value(seconds_until(warm_up, 0.9)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 90 % of its rate is wanted of the fragment cache within 10 s.
    #[test]
    fn the_fragment_cache_is_warm_within_ten_seconds() {
        let warm_up = seconds_until(BlockCache::Sce(SceSetup::WARM_UP), 0.9);
        let published = seconds_until(BlockCache::Sce(SceSetup::PUBLISHED), 0.9);
        assert!(warm_up <= published && published <= 10.0, "{warm_up} s; stages as published: {published} s");
        for rival in [BlockCache::DmCache, BlockCache::Bcache(Writes::Through)] {
            let seconds = seconds_until(rival, 0.9);
            assert!(seconds > 10.0, "{}: {seconds} s", rival.name());
        }
    }

    /// With 30 % of writes 98 % of the bound is wanted: reads of what is being written come from the cache
    /// device, and a second write of a block waits for the first.
    #[test]
    fn writes_cost_no_more_than_the_volume_takes_for_them() {
        let bound = run(BlockCache::Nothing, 0.0).whole.iops / 0.3;
        let share = run(BlockCache::Sce(SceSetup::WARM_UP), 0.3).last(0.5).iops / bound;
        println!("{share} of {bound}");
        assert!((0.98..=1.02).contains(&share), "{share} of {bound}");
    }
}
