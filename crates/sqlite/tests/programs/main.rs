//! Programs drawn at random: several processes with connections to several databases, forks, kills, commits
//! that are killed on their way, transactions over databases on tiers and without, all journal and sync
//! modes, copies that are put back, and files of different moments put together. Each is run twice, without
//! us and with databases on tiers, and the answers are the same, or a refusal from a list.
//!
//! `MEZZANINE_PROGRAMS` asks for more programs than the default, `MEZZANINE_PROGRAMS_SEED` is the seed of the
//! first.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod program;
mod worker;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use program::Program;

const PROGRAMS: u64 = 12;
const STEPS: u64 = 150;
/// A rule that none of so many programs misses is none that they need.
#[cfg(feature = "planted")]
const PROGRAMS_MAX: u64 = 60;

#[test]
#[ignore = "is run by other tests in a process of its own"]
fn worker_process() {
    // Alone it has nothing to do.
    let Ok(without) = std::env::var("MEZZANINE_PROGRAMS_WORKER") else { return };
    #[cfg(feature = "planted")]
    mezzanine_engine::planted::set(
        mezzanine_engine::planted::Bug::ALL.iter().find(|bug| format!("{bug:?}") == without).copied(),
    );
    #[cfg(not(feature = "planted"))]
    assert!(without.is_empty(), "rules can be taken out with the feature `planted`");
    worker::serve();
}

/// Steps that were answered, of all programs.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// A step that nobody answers is a finding, and not the end of all testing.
fn end_if_nobody_answers() {
    std::thread::spawn(|| {
        let mut before = u64::MAX;
        loop {
            std::thread::sleep(Duration::from_secs(180));
            let now = ANSWERED.load(Ordering::Relaxed);
            if now == before {
                eprintln!(
                    "no step was answered for three minutes; the last program to begin is the newest line \"program\""
                );
                std::process::exit(1);
            }
            before = now;
        }
    });
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn programs_are_answered_as_without_a_tier() {
    let (programs, first) =
        (variable("MEZZANINE_PROGRAMS", PROGRAMS), variable("MEZZANINE_PROGRAMS_SEED", 1));
    let (mut steps, mut kills, mut commits, mut forks) = (0, 0, 0, 0);
    let (mut trials, mut refused, mut untold) = (0, 0, 0);
    let mut refusals = BTreeMap::new();
    end_if_nobody_answers();
    for seed in first..first + programs {
        let told = Program::new(seed, "").run(STEPS);
        steps += told.steps;
        kills += told.kills;
        commits += told.killed_commits;
        forks += told.forks;
        trials += told.trials;
        refused += told.trials_refused;
        untold += told.untold;
        for (words, count) in told.refusals {
            *refusals.entry(words).or_insert(0) += count;
        }
    }
    println!(
        "{programs} programs from seed {first}: {steps} steps, {kills} kills, {commits} of them in a commit, {forks} forks, \
         {trials} trials with files of different moments ({refused} refused, {untold} with an older file that was not told); refused openings: {refusals:?}"
    );
}

/// The programs must see what they are there to see.
#[cfg(feature = "planted")]
#[test]
fn rules_that_are_taken_out_are_missed() {
    use mezzanine_engine::planted::Bug;
    for bug in [Bug::ForkUnnoticed, Bug::PagesKeptBack, Bug::CopiesTakeOriginals, Bug::EpochNotRaised] {
        let missed = (1..=PROGRAMS_MAX).find(|seed| {
            let program = Program::new(*seed, &format!("{bug:?}"));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| program.run(STEPS))).is_err()
        });
        println!("{bug:?}: {missed:?}");
        assert!(missed.is_some(), "{bug:?}");
    }
}
