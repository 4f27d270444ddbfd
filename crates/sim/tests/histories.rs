//! Flash, disks and sidecars of different moments: refused, or right.

#![allow(clippy::unwrap_used)]

mod cuts;
mod replays;

use cuts::{each_leads_the_same_life, nothing_is_violated};
use mezzanine_sim::crash::volume::World;
use mezzanine_sim::crash::{Kind, Terms};
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

/// Seed, cuts, what is left out, what alone happens, and what it was: of version 0.1.0 before its release. As
/// in `regressions.rs`, a seed replays its story exactly in the version that it was found in.
const STORIES: [(u64, u64, &str, &str, &str); 6] = [
    (
        714_063_245,
        1,
        "guards,fingerprints,holes,ages",
        "3:,5:,67:17+21-22+29-30+32-34+38-39+41-46+48-50+52+67",
        "a disk that had been cut since, beside an older sidecar and flash, was accepted: the only page that both its sidecar names and the \
          table's length leaves was the one that this length cuts through, which was not compared; synced bytes were zeros",
    ),
    (
        714_107_763,
        15,
        "guards,ages",
        "3:0+6!10.4,4:0!0.1,5:,6:2!41.1,8:0,9:,10:5-9+11+15-16,11:,12:3-5+9-10+19-20!20.8,13:,24:,25:,30:,31:",
        "not a bug of the volume: the power failed in a discard; the life went on with a file from before it, whose flash knew nothing of it, \
          and that flash was put together with the file of the other life, in which the discard had come to its end: the world took that \
          life for a past of the flash",
    ),
    (
        714_052_136,
        1,
        "guards,holes,files,ahead",
        "65:5,68:,69:",
        "not a bug of the volume: a file without its sidecar was accepted in sync mode through, and the world went on with it in durable",
    ),
    (714_112_288, 1, "guards,ahead,holes", "8:7+14,9:,10:!6.2,13:,14:", "the same"),
    LATER_GUARD,
    (
        271_828_213_083,
        8,
        "guards",
        "0:8+11+108+111+151+158,1:,5:,6:,7:,8:,9:4,36:,39:,40:!104.3,42:,44:,45:",
        "a tier in sync mode through went on with older files that were current, and still knew them by the numbers that their newer copies had; \
         closed, opened as durable and killed, it refused the file as older than itself",
    ),
];

const LATER_GUARD: (u64, u64, &str, &str, &str) = (
    88_117_741_949,
    3,
    "fingerprints,ahead",
    "36:,38:,39:39+92,42:5+7+15,44:,45:36+43!48.29,49:,54:1-2!4.18,59:225+233+239,68:13+18+23,70:",
    "a disk of a later opening than its sidecar and flash, whose guard differs in one byte of the file's number, which that flash did not \
     know: it was taken for a rotten one, and the disk for the current one that the sidecar speaks of, and cut to the length there",
);

/// What the checker lets pass of disks beside a sidecar of another moment is not that.
#[cfg(feature = "planted")]
#[test]
fn a_disk_that_is_cut_for_a_sidecar_of_another_moment_is_a_violation() {
    use mezzanine_engine::planted::{Bug, set};
    let (seed, cuts, without, only, _) = LATER_GUARD;
    let without = without.split(',').map(|name| name.parse().unwrap()).collect();
    let terms = Terms { without, only: Some(only.parse().unwrap()), ..Terms::default() };
    set(Some(Bug::GuardedLengthUncompared));
    let outcome = World::of_histories(seed, &terms).live(cuts);
    set(None);
    let violation = outcome.violation.unwrap();
    assert!(violation.text.contains("has 32768 bytes, which it should not"), "{violation:?}");
}

#[test]
fn worlds_of_histories_that_were_wrong_once_are_right() {
    for (seed, cuts, without, only, story) in STORIES {
        let without = without.split(',').map(|name| name.parse().unwrap()).collect();
        let terms = Terms { without, only: Some(only.parse().unwrap()), ..Terms::default() };
        let outcome = World::of_histories(seed, &terms).live(cuts);
        assert!(outcome.violation.is_none(), "{story}:\n{:?}", outcome.violation);
    }
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
