//! A server written in C, by the host that ships, through many power cuts.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

mod replays;

use mezzanine_sim::crash::{CUTS_PER_WORLD, Coverage, Violation};
use mezzanine_sim::server::World;
use replays::Replay;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap())
}

/// Runs `worlds` worlds from `seed` on with two threads. Returns cuts, violations and what was reached.
fn run(seed: u64, worlds: u64) -> (u64, Vec<Violation>, Coverage) {
    let next = AtomicU64::new(0);
    let total = Mutex::new((0, Vec::new(), Coverage::default()));
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= worlds {
            return;
        }
        let outcome = World::run(seed + number, CUTS_PER_WORLD);
        let mut total = total.lock().unwrap();
        total.0 += outcome.cuts;
        total.1.extend(outcome.violation);
        total.2.add(&outcome.coverage);
    };
    std::thread::scope(|scope| {
        for _ in 0..from_environment("MEZZANINE_THREADS", 2) {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn many_power_cuts_lose_nothing() {
    let cuts = from_environment("MEZZANINE_CUTS", 10_000);
    let started = std::time::Instant::now();
    let (cuts, mut violations, coverage) =
        run(from_environment("MEZZANINE_SEED", 1), cuts.div_ceil(CUTS_PER_WORLD));
    let seconds = started.elapsed().as_secs_f64();
    println!("{cuts} cuts in {seconds:.1} s, {:.0} a second\n{coverage:#?}", cuts as f64 / seconds);
    violations.sort_by_key(|violation| violation.seed);
    for violation in &violations {
        println!("{violation}");
    }
    assert!(violations.is_empty(), "{} violations, the first: {}", violations.len(), violations[0]);
    let Coverage { cuts_inside_recovery, cuts_in_use, kills, closes, wraps, checkpoints, .. } = coverage;
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
        ("damages refused", coverage.damage_refused),
        ("errors", coverage.errors_fatal),
    ] {
        assert!(reached > cuts / 1000, "only {reached} {what}");
    }
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
fn a_world_is_always_the_same() {
    let [first, again] = [(); 2].map(|()| World::run(7, 16));
    assert_eq!(
        (first.cuts, first.operations, first.coverage),
        (again.cuts, again.operations, again.coverage)
    );
}

/// Rules that the start of a server stands on, each found by this world.
#[cfg(feature = "planted")]
#[test]
fn rules_that_are_taken_out_are_missed() {
    use mezzanine_engine::planted::{Bug, set};
    for bug in [Bug::UsedMemoryKept, Bug::ControlFileBeforeMarker] {
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
