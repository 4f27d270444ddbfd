//! Flash, disks and sidecars of different moments: refused, or right.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::{Kind, Terms, World};
use replays::Replay;

#[test]
fn a_seed_leads_the_same_life_each_time() {
    let live = |seed, cuts| World::of_histories(seed, &Terms::default()).live(cuts);
    each_leads_the_same_life(live, 0..8);
}

#[test]
fn histories_that_do_not_belong_together_are_refused_or_right() {
    let report = nothing_is_violated(Kind::Histories, 10_000);
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
