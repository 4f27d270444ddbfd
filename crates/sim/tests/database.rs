//! A database on the engine, as shipped, through many power cuts.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;
mod troubles;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::database::{Scenario, World};
use mezzanine_sim::crash::{CUTS_PER_WORLD, Kind};
use replays::Replay;
use troubles::{all_troubles_were_met, troubles_of_a_database};

/// Seeds of worlds in which something was wrong once, and what; each replays its story only in the version
/// that it was found in.
const STORIES: [(u64, &str); 4] = [
    (
        700_051_163,
        "a drain waited for what an open group would get that was empty, and nobody had anything for it",
    ),
    (700_059_229, "the same in a checkpoint of sync mode drained"),
    (
        700_060_637,
        "not a bug of the tier: before the first checkpoint the world's control file said that the disk suffices, where only the \
          tier mends pages that stage-out has torn",
    ),
    (
        714_120_554,
        "pages written in place: what waited for a sync of the disk was listed again, until the list ran over: a drain left a page dirty, \
          and the tier was switched to through with it",
    ),
];

#[test]
fn worlds_that_were_wrong_once_are_right() {
    for (seed, story) in STORIES {
        let outcome = World::run(seed, CUTS_PER_WORLD);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
}

#[test]
fn many_power_cuts_lose_nothing() {
    let report = nothing_is_violated(Kind::Database, 20_000);
    let (cuts, coverage) = (report.cuts, &report.coverage);
    let more = [
        ("torn disk writes", coverage.torn_disk_writes),
        ("flash devices lost", coverage.flash_losses),
        ("disks compared", coverage.disks_compared),
        ("reads interrupted", coverage.reads_interrupted),
        ("records redone", coverage.records_redone),
        ("records lost", coverage.records_lost),
        ("drops", coverage.drops),
        ("loads", coverage.loads),
        ("pages pulled", coverage.pages_pulled),
        ("tiers refused", coverage.tiers_refused),
        ("resizes", coverage.resizes),
        ("switches", coverage.switches),
    ];
    all_troubles_were_met(&report, &[&troubles_of_a_database(coverage)[..], &more].concat());
    for (what, count) in [
        ("damaged tiers that were refused", coverage.damage_refused),
        ("damaged pages noticed", coverage.damage_refetched),
        ("damaged pages reported", coverage.damage_reported),
    ] {
        assert!(count >= cuts / 20_000, "only {count} {what} in {cuts} cuts");
    }
}

/// Tells the life of one world, or of the part of it that a violation names: `MEZZANINE_SEED=7
/// MEZZANINE_CUTS=12 MEZZANINE_WITHOUT=swaps MEZZANINE_ONLY=3:0-4!4.2,7: cargo test -p mezzanine-sim --test
/// database -- --ignored --nocapture`.
#[test]
#[ignore = "for a person who looks for the cause of a violation"]
fn replay_aloud() {
    let replay = Replay::from_environment();
    let outcome = World::on(replay.seed, &replay.terms).traced().live(replay.cuts);
    println!("{:?}", outcome.violation);
}

#[test]
fn a_seed_leads_the_same_life_each_time() {
    each_leads_the_same_life(World::run, 0..8);
}

#[test]
fn a_lying_flush_is_found_and_found_again() {
    let lying = |seed| World::of(Scenario { lying_flushes: true, ..Scenario::draw(seed) });
    let found: Vec<_> = (0..40).filter_map(|seed| lying(seed).live(CUTS_PER_WORLD).violation).collect();
    let count = found.len();
    assert!(count >= 10, "only {count} of 40 worlds with lying drives were seen to lose something");
    for violation in found.iter().take(5) {
        assert_eq!(lying(violation.seed).live(violation.cut + 1).violation.as_ref(), Some(violation));
    }
}
