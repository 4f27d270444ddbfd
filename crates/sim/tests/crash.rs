//! The volume and the engine, as shipped, through many power cuts.

#![allow(clippy::unwrap_used)]

mod replays;

use mezzanine_sim::crash::{Kind, Options, World, Worlds, run};
use replays::Replay;

#[test]
fn many_power_cuts_lose_nothing() {
    let cuts: u64 = std::env::var("MEZZANINE_CUTS").ok().map_or(50_000, |cuts| cuts.parse().unwrap());
    let seed: u64 = std::env::var("MEZZANINE_SEED").ok().map_or(1, |seed| seed.parse().unwrap());
    let started = std::time::Instant::now();
    let mut options = Options { worlds: Worlds::Only(Kind::Volume), ..Options::new(seed, cuts) };
    options.threads = std::env::var("MEZZANINE_THREADS").ok().map_or(2, |threads| threads.parse().unwrap());
    let report = run(&options);
    let seconds = started.elapsed().as_secs_f64();
    println!("{} cuts in {seconds:.1} s, {:.0} cuts/s", report.cuts, report.cuts as f64 / seconds);
    println!("{} operations in {} worlds, {:?}", report.operations, report.worlds, report.coverage);
    for violation in &report.violations {
        println!("{violation}");
    }
    assert!(report.violations.is_empty());
    assert!(report.cuts >= cuts);
    // A run that never got into trouble proves nothing.
    let coverage = &report.coverage;
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
