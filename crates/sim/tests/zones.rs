//! A database on a tier whose flash has zones, through many power cuts.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::database::World;
use mezzanine_sim::crash::{Kind, Terms, volume};
use replays::Replay;

#[test]
fn many_power_cuts_lose_nothing() {
    let report = nothing_is_violated(Kind::Zones, 20_000);
    let (cuts, coverage) = (report.cuts, &report.coverage);
    // A run that never got into trouble proves nothing.
    for (what, count) in [
        ("second chances", coverage.second_chances),
        ("rounds of the queue", coverage.wraps),
        ("pages staged out", coverage.stage_outs),
        ("metadata segments", coverage.segments),
        ("cuts inside recovery", coverage.cuts_inside_recovery),
        ("torn flash writes", coverage.torn_flash_writes),
        ("checkpoints", coverage.checkpoints),
        ("owners killed", coverage.owners_killed),
        ("drains", coverage.drains),
        ("errors that ended a process", coverage.errors_fatal),
        ("damaged tiers", coverage.damages),
    ] {
        assert!(count >= cuts / 1000, "only {count} {what} in {cuts} cuts");
    }
}

/// Of a volume, whose worlds have places as well that cannot be read.
#[test]
fn many_power_cuts_of_volumes_lose_nothing() {
    let report = nothing_is_violated(Kind::ZonedVolume, 20_000);
    let (cuts, coverage) = (report.cuts, &report.coverage);
    for (what, count) in [
        ("second chances", coverage.second_chances),
        ("rounds of the queue", coverage.wraps),
        ("pages staged out", coverage.stage_outs),
        ("cuts inside recovery", coverage.cuts_inside_recovery),
        ("torn flash writes", coverage.torn_flash_writes),
        ("devices replaced", coverage.replacements),
        ("errors that were planned", coverage.errors_planned),
        ("damaged tiers", coverage.damages),
    ] {
        assert!(count >= cuts / 1000, "only {count} {what} in {cuts} cuts");
    }
}

#[test]
fn a_seed_leads_one_life() {
    for kind in [Kind::Zones, Kind::ZonedVolume] {
        each_leads_the_same_life(|seed, cuts| kind.run(seed, cuts, &Terms::default()), 1..20);
    }
}

#[test]
#[ignore = "for a person who looks for the cause of a violation"]
fn replay_aloud() {
    let Replay { seed, cuts, terms } = Replay::from_environment();
    let outcome = World::on_zones(seed, &terms).traced().live(cuts);
    println!("{:?}", outcome.violation);
}

#[test]
#[ignore = "for a person who looks for the cause of a violation"]
fn replay_volume_aloud() {
    let Replay { seed, cuts, terms } = Replay::from_environment();
    let outcome = volume::World::on_zones(seed, &terms).traced().live(cuts);
    println!("{:?}", outcome.violation);
}
