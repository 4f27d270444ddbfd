//! For every rule of the engine that a test can take out: the crash world goes red when it is out, and is green when it is
//! in. A world that finds nothing proves nothing.

use mezzanine_engine::planted::{Bug, set};
use mezzanine_sim::crash::{CUTS_PER_WORLD, Violation, World};

/// Cuts after which a fault must have shown. The slowest needs a fifth.
const CUTS_MAX: u64 = 100_000;

/// Faults that this world cannot show, and why. `tests/planted.rs` of the engine and of the volume find them.
const ELSEWHERE: [(Bug, &str); 5] = [
    (
        Bug::ReadUnconfirmed,
        "the page's checksum is compared as well and tells an overwritten frame from its page",
    ),
    (
        Bug::SecondChanceUnchecked,
        "another thread would have to come between two steps of one call of the engine",
    ),
    (Bug::IdentityUnchecked, "the world does not swap devices"),
    (Bug::DeadOwnersJobsLost, "the world has one process"),
    (Bug::SinceNotInherited, "a volume has no checkpoints"),
];

/// Looks for a violation with `bug` switched on, in worlds from `seed` on. Returns the cuts that it took.
fn cuts_to_find(bug: Option<Bug>, seed: u64, cuts_max: u64) -> (u64, Option<Violation>) {
    set(bug);
    let mut cuts = 0;
    let mut world = seed;
    let mut found = None;
    while cuts < cuts_max && found.is_none() {
        let outcome = World::run(world, CUTS_PER_WORLD);
        cuts += outcome.cuts.max(1);
        world += 1;
        found = outcome.violation;
    }
    set(None);
    (cuts, found)
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        if let Some((_, why)) = ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == bug) {
            println!("{bug:?} (invariant {}): not here, {why}", bug.invariant());
            continue;
        }
        let (cuts, found) = cuts_to_find(Some(bug), 1, CUTS_MAX);
        match found {
            Some(violation) => {
                let text: String = violation.text.chars().take(100).collect();
                println!(
                    "{bug:?} (invariant {}): {cuts} cuts, {} {text}",
                    bug.invariant(),
                    violation.invariant.name()
                );
            }
            None => {
                println!("{bug:?} (invariant {}): not found in {cuts} cuts", bug.invariant());
                missed.push(bug);
            }
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

#[test]
fn without_a_planted_bug_nothing_is_found() {
    let (cuts, found) = cuts_to_find(None, 1, 20_000);
    assert!(found.is_none(), "{}", found.map_or_else(String::new, |violation| violation.to_string()));
    assert!(cuts >= 20_000);
}
