//! A server written in C, by the host that ships, through many power cuts.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::server::World;
use mezzanine_sim::crash::{Coverage, Kind};
use replays::Replay;

#[test]
fn many_power_cuts_lose_nothing() {
    let report = nothing_is_violated(Kind::Server, 10_000);
    let (cuts, coverage) = (report.cuts, &report.coverage);
    let Coverage { cuts_inside_recovery, cuts_in_use, kills, closes, wraps, checkpoints, .. } = *coverage;
    for (what, reached) in [
        ("cuts inside a recovery", cuts_inside_recovery),
        ("cuts in use", cuts_in_use),
        ("kills", kills),
        ("shutdowns", closes),
        ("queues that have come round", wraps),
        ("checkpoints", checkpoints),
        ("stage-outs", coverage.stage_outs),
        ("second chances", coverage.second_chances),
        ("tiers emptied", coverage.tiers_emptied),
        ("tiers refused", coverage.tiers_refused),
        ("damages", coverage.damages),
        ("damages reported", coverage.damage_reported),
        ("errors that ended a server", coverage.errors_fatal),
        ("tiers given up by a server that goes on", coverage.errors_outlived),
    ] {
        assert!(reached > cuts / 1000, "only {reached} {what}");
    }
    let Coverage { directories_put_back, directories_refused, .. } = *coverage;
    assert!(directories_put_back > cuts / 1000, "only {directories_put_back} older directories");
    assert!(directories_refused > cuts / 3000, "only {directories_refused} older directories refused");
    // What is damaged is mostly done without, or costs pages: one or two of a thousand cuts come to a
    // refusal.
    let refused = coverage.damage_refused;
    assert!(refused > cuts / 3000, "only {refused} damages refused");
}

/// Tells the life of one world, as the test of the same name in `database.rs`.
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

/// Power failed in the last write of flash before a session's first operation, where the server goes on
/// without its tier, and came back when the next cut was planned: the tier had failed, and no device seemed
/// to have.
#[test]
fn power_that_has_failed_unnoticed_stays_off() {
    let outcome = World::run(5405, 64);
    assert_eq!(outcome.violation, None);
}

/// Rules that the start of a server stands on, and what it does without a page or a tier, each found by this
/// world.
#[cfg(feature = "planted")]
#[test]
fn rules_that_are_taken_out_are_missed() {
    use mezzanine_engine::planted::{Bug, set};
    use mezzanine_sim::crash::CUTS_PER_WORLD;
    for bug in [
        Bug::UsedMemoryKept,
        Bug::ControlFileBeforeMarker,
        Bug::DiskNotCompared,
        Bug::GivenUpUnmarked,
        Bug::PendingSessionForgotten,
        Bug::SessionUnannounced,
    ] {
        set(Some(bug));
        let mut cuts = 0;
        let found = (1..600).find_map(|seed| {
            let outcome = World::run(seed, CUTS_PER_WORLD);
            cuts += outcome.cuts.max(1);
            outcome.violation
        });
        set(None);
        let violation = found.unwrap_or_else(|| panic!("{bug:?} was not found in {cuts} cuts"));
        println!("{bug:?}: {cuts} cuts, {violation}");
    }
}
