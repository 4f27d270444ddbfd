//! The budget of bytes written to the cache device (invariant 15).
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::VecDeque;

use host::{BLOCK, Host, MS, small};
use mezzanine_fragment::{Config, DeviceError, Job, MapConfig, Next, ReadKind, Statistics};
use mezzanine_ground::random::Random;

mod host;

const FRAGMENT: u64 = 128 << 10;
const HOUR: u64 = 3_600_000 * MS;

fn with_budget(bytes: u64) -> Config {
    Config { write_budget: bytes, ..small(4, &[8]) }
}

/// Bytes written in the last 24 hours.
#[derive(Default)]
struct Day(VecDeque<(u64, u64)>);

impl Day {
    fn write(&mut self, now: u64, bytes: u64) -> u64 {
        self.0.push_back((now, bytes));
        while self.0.front().is_some_and(|&(at, _)| at + 24 * HOUR <= now) {
            self.0.pop_front();
        }
        self.0.iter().map(|&(_, bytes)| bytes).sum()
    }
}

/// Reads and writes all over for ten days: what was written in any 24 hours at most, and all together.
fn ten_days(seed: u64, budget: u64) -> (u64, Statistics) {
    let mut host = Host::new(&with_budget(budget));
    let (mut random, mut day, mut most) = (Random::new(seed), Day::default(), 0);
    while host.now < 240 * HOUR {
        host.now += random.below(200_000) * MS;
        let offset = random.below(8 * 32) * BLOCK;
        if random.chance(1, 2) {
            host.write(0, offset, &[1; BLOCK as usize]);
        } else {
            host.read(0, offset, BLOCK);
        }
        while let Next::Job(mut job) = host.cache.next_job(host.now) {
            let written = match &job {
                Job::WriteBlocks(write) => write.writes().map(|(_, bytes)| bytes.len() as u64).sum(),
                Job::WriteFragment(write) => write.data().len() as u64,
                _ => 0,
            };
            most = most.max(if written > 0 { day.write(host.now, written) } else { 0 });
            let fails = random.chance(1, 20);
            host::carry_out(&mut job, &host.backing, &mut host.flash);
            host.cache.done(job, if fails { Err(DeviceError) } else { Ok(()) });
        }
    }
    host.cache.check();
    (most, host.statistics())
}

#[test]
fn a_day_never_has_more_than_its_budget_and_uses_it() {
    let budget = 16 * FRAGMENT;
    for seed in 0..4 {
        let (most, statistics) = ten_days(seed, budget);
        let refused = statistics.bypass_write_budget > 0 && statistics.bypass_population_budget > 0;
        assert!(refused, "{statistics:?}");
        let all = statistics.cache_bytes_written();
        assert!(most <= budget, "{most} of {budget} in a day");
        // Three quarters a day, and a quarter once.
        assert!(all >= 7 * budget, "{all} of {budget} a day in ten days");
    }
}

#[cfg(feature = "planted")]
#[test]
fn a_budget_that_is_not_charged_is_noticed() {
    use mezzanine_fragment::planted::{Bug, set};
    set(Some(Bug::BudgetUncharged));
    let (most, _) = ten_days(0, 16 * FRAGMENT);
    set(None);
    assert!(most > 16 * FRAGMENT, "it went unnoticed: {most} bytes in a day");
}

#[test]
fn what_is_refused_goes_past_the_cache_and_is_counted() {
    let mut host = Host::new(&with_budget(4 * FRAGMENT));
    host.populate(0, 0);
    // A quarter at once is one fragment.
    assert!(host.cache.write_budget_left().unwrap() < BLOCK);
    assert_eq!(host.kind(0, FRAGMENT, BLOCK), ReadKind::Miss);
    host.write(0, 0, &[1; BLOCK as usize]);
    assert_eq!(host.work(), [0, 0, 0]);
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Miss, "the block is a hole now");
    let statistics = host.statistics();
    assert_eq!((statistics.bypass_write_budget, statistics.populations_begun), (1, 1));
    assert!(statistics.bypass_population_budget >= 1);
    // Three fragments come in over a day.
    host.now += 8 * HOUR;
    assert_eq!(host.work(), [0, 1, 1]);
    host.cache.set_write_budget(0).unwrap();
    assert_eq!(host.cache.write_budget_left(), None);
    host.write(0, 0, &[2; BLOCK as usize]);
    assert_eq!(host.work()[0], 1);
    assert_eq!(host.kind(0, 0, BLOCK), ReadKind::Hit);
    let refused = host.cache.set_write_budget(FRAGMENT).unwrap_err().to_string();
    assert!(refused.contains("write_budget") && refused.contains("524288"), "{refused}");
}

/// A copy that was made while there was something left, and is to be written when there is not.
#[test]
fn a_copy_that_cannot_be_afforded_any_more_is_not_written() {
    let mut host = Host::new(&Config { write_budget: 8 * FRAGMENT, ..small(4, &[8]) });
    host.populate(0, 0);
    // Of two fragments one is left, but for what came in: 33 blocks are more than that.
    host.cache.set_write_budget(4 * FRAGMENT).unwrap();
    let tokens: Vec<_> =
        (0..33).map(|block| host.cache.write_begin(0, block % 32 * BLOCK, &[1; 4096]).unwrap()).collect();
    assert_eq!(host.statistics().bypass_write_budget, 0, "they are charged when they are written");
    host.backing[0][..FRAGMENT as usize].fill(1);
    tokens.into_iter().for_each(|token| host.cache.write_end(token, Ok(())));
    let left = host.cache.write_budget_left().unwrap() / BLOCK;
    host.cache.set_write_budget(4 * FRAGMENT).unwrap();
    let written = host.work()[0] as u64;
    assert!(written <= left && written >= 31, "{written} blocks of {left}");
}

/// The map is written in any case, and what comes after has to do without.
#[test]
fn the_map_is_charged_and_never_refused() {
    let mut config = with_budget(4 * FRAGMENT);
    config.data_offset = 4096;
    config.cache_bytes += 4096;
    let (cache_id, volume_numbers) = ([9; 16], vec![1]);
    config.map =
        Some(MapConfig { cache_id, epoch: 1, volume_numbers, offset: 0, settle_ms: 4, waits_per_mille: 10 });
    let mut host = Host::new(&config);
    host.populate(0, 0);
    for _ in 0..20 {
        host.now += MS;
        host.work();
    }
    assert_eq!(host.cache.write_budget_left(), Some(0));
    host.write(0, 0, &[1; BLOCK as usize]);
    let statistics = host.statistics();
    assert!(statistics.map_blocks_written >= 2 && statistics.settled == 1, "{statistics:?}");
}
