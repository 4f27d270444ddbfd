//! Jobs of one tier that are carried out by several runners, half a job at a time, beside the operations of a
//! life.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::volume::World;
use mezzanine_sim::crash::{Feature, Kind, Terms};
use replays::Replay;

fn life(seed: u64) -> World {
    World::of_runners(seed, &Terms::default())
}

#[test]
fn jobs_that_overlap_lose_nothing() {
    let report = nothing_is_violated(Kind::Runners, 5_000);
    assert_eq!(report.worlds_runners, report.worlds);
    // A run in which one of them does it all proves nothing.
    let c = &report.coverage;
    assert!(c.turns > 20 * report.cuts, "only {} turns", c.turns);
    let reached = [c.reads_beside, c.stage_outs, c.switches, c.admission_changes, c.replacements, c.closes];
    assert!(reached.iter().all(|&count| count * 100 > report.cuts), "{reached:?}");
}

#[test]
fn a_seed_leads_the_same_life_each_time() {
    each_leads_the_same_life(|seed, cuts| life(seed).live(cuts), 0..12);
}

#[test]
fn without_its_runners_it_is_the_world_of_a_volume() {
    let terms = Terms { without: vec![Feature::Runners], ..Terms::default() };
    for seed in 0..4 {
        let [alone, plain] = [World::of_runners(seed, &terms), World::new(seed)].map(|world| world.live(8));
        assert_eq!(
            (alone.operations, alone.cuts, alone.coverage),
            (plain.operations, plain.cuts, plain.coverage)
        );
    }
}

/// As in `crash.rs`: `MEZZANINE_SEED=7 MEZZANINE_CUTS=12 cargo test -p mezzanine-sim --test runners --
/// --ignored --nocapture`.
#[test]
#[ignore = "for a person who looks for the cause of a violation"]
fn replay_aloud() {
    let replay = Replay::from_environment();
    let outcome = World::of_runners(replay.seed, &replay.terms).traced().live(replay.cuts);
    println!("{:?}", outcome.violation);
}
