//! A database on a tier whose flash has zones, through many power cuts.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;
mod troubles;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::database::World;
use mezzanine_sim::crash::{Kind, Terms, volume};
use replays::Replay;
use troubles::{all_troubles_were_met, troubles_of_a_database};

#[test]
fn many_power_cuts_lose_nothing() {
    let report = nothing_is_violated(Kind::Zones, 20_000);
    all_troubles_were_met(&report, &troubles_of_a_database(&report.coverage));
}

/// Of a volume, whose worlds have places as well that cannot be read.
#[test]
fn many_power_cuts_of_volumes_lose_nothing() {
    let report = nothing_is_violated(Kind::ZonedVolume, 20_000);
    let coverage = &report.coverage;
    let more =
        [("devices replaced", coverage.replacements), ("errors that were planned", coverage.errors_planned)];
    all_troubles_were_met(&report, &more);
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
