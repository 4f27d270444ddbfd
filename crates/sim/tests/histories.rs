//! Flash, disks and sidecars of different moments: refused, or right.

#![allow(clippy::unwrap_used)]

mod replays;

use mezzanine_sim::crash::{Kind, Options, World, Worlds, run};
use replays::Replay;

#[test]
fn histories_that_do_not_belong_together_are_refused_or_right() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let cuts = number("MEZZANINE_CUTS", 10_000);
    let started = std::time::Instant::now();
    let mut options =
        Options { worlds: Worlds::Only(Kind::Histories), ..Options::new(number("MEZZANINE_SEED", 1), cuts) };
    options.threads = number("MEZZANINE_THREADS", 2) as usize;
    let report = run(&options);
    let seconds = started.elapsed().as_secs_f64();
    println!("{} cuts in {seconds:.1} s, {:.0} cuts/s", report.cuts, report.cuts as f64 / seconds);
    println!("{} operations in {} worlds, {:?}", report.operations, report.worlds, report.coverage);
    for violation in &report.violations {
        println!("{violation}");
    }
    assert!(report.violations.is_empty());
    assert_eq!(report.worlds_histories, report.worlds);
    // A run in which everything was refused, or nothing, proves nothing.
    let c = &report.coverage;
    let accepted = c.mixes - c.mixes_refused;
    let reached = [c.mixes_refused, accepted, c.mixes_lived_on, c.rollbacks, c.openings_without_a_file];
    assert!(reached.iter().all(|&count| count * 1000 > report.cuts), "{reached:?}");
}

/// As in `crash.rs`: `MEZZANINE_SEED=7 MEZZANINE_CUTS=12 cargo test -p mezzanine-sim --test histories --
/// --ignored --nocapture`.
#[test]
#[ignore = "for a person who looks for the cause of a violation"]
fn replay_aloud() {
    let replay = Replay::from_environment();
    let outcome = World::of_histories(replay.seed, &replay.terms).traced().live(replay.cuts);
    println!("{:?}", outcome.violation);
}
