//! The volume and the engine, as shipped, through many power cuts.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::Kind;
use mezzanine_sim::crash::volume::World;
use replays::Replay;

/// In 117 power fails in groups that were written in place. Recovery read their pages in an order of its own
/// each time, and as many as it took to find one torn: a life of the seed had more requests or fewer.
#[test]
fn a_seed_leads_the_same_life_each_time() {
    each_leads_the_same_life(World::run, [117, 117, 117].into_iter().chain(0..8));
}

#[test]
fn many_power_cuts_lose_nothing() {
    let report = nothing_is_violated(Kind::Volume, 50_000);
    // A run that never got into trouble proves nothing.
    let (cuts, coverage) = (report.cuts, &report.coverage);
    let common = [
        ("second chances", coverage.second_chances),
        ("rounds of the queue", coverage.wraps),
        ("groups of several pages", coverage.groups_of_several_pages),
        ("pages staged out", coverage.stage_outs),
        ("metadata segments", coverage.segments),
        ("cuts inside recovery", coverage.cuts_inside_recovery),
        ("torn flash writes", coverage.torn_flash_writes),
        ("torn disk writes", coverage.torn_disk_writes),
        ("pages in doubt", coverage.pages_settled),
        ("flash devices lost", coverage.flash_losses),
        ("recoveries compared", coverage.recoveries_compared),
        ("disks compared", coverage.disks_compared),
        ("reads interrupted", coverage.reads_interrupted),
        ("jobs interrupted", coverage.jobs_interrupted),
        ("switches of the sync mode", coverage.switches),
        ("changes of the admission", coverage.admission_changes),
    ];
    // These are of few worlds, and a short run may have none of those.
    let rare = [
        ("damaged tiers", coverage.damages),
        ("errors that processes died of", coverage.errors_fatal),
        ("damaged pages noticed", coverage.damage_refetched),
        ("damaged pages reported", coverage.damage_reported),
        ("mixes of devices and files", coverage.mixes),
        ("mixes that were refused", coverage.mixes_refused),
        ("errors that processes outlived", coverage.errors_outlived),
        ("errors that nobody saw", coverage.errors_hidden),
    ];
    let common = common.into_iter().map(|(what, count)| (what, count, cuts / 1000));
    let rare = rare.into_iter().map(|(what, count)| (what, count, cuts / 4000));
    for (what, count, least) in common.chain(rare) {
        assert!(count >= least, "only {count} {what} in {cuts} cuts");
    }
}

/// Tells the life of one world, or of the part of it that a violation names: `MEZZANINE_SEED=7
/// MEZZANINE_CUTS=12 MEZZANINE_WITHOUT=guards,files MEZZANINE_ONLY=3:0-4!4.2,7: cargo test -p mezzanine-sim
/// --test crash -- --ignored --nocapture`.
#[test]
#[ignore = "for a person who looks for the cause of a violation"]
fn replay_aloud() {
    let replay = Replay::from_environment();
    let outcome = World::on(replay.seed, &replay.terms).traced().live(replay.cuts);
    println!("{:?}", outcome.violation);
}
