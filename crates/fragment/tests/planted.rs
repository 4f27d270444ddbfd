//! Every fault that can be planted is noticed: by the model, or by the test that is named for it.
#![allow(clippy::unwrap_used, missing_docs)]

use host::{Host, carry_out, small};
use mezzanine_fragment::planted::{Bug, set};
use mezzanine_fragment::{DeviceError, Source};
use noticed::all_are_noticed;

mod host;

mod world;

#[path = "world/noticed.rs"]
mod noticed;

/// Noticed below: it takes a read, a failure and another write of the same block within the time of the read.
const BY_HAND: Bug = Bug::FailureUnseenByReaders;
/// Noticed elsewhere: by `foreign`, which has two caches, and by `failures`, `budget`, `yielding` and `map`,
/// as nothing is stale for them.
const ELSEWHERE: [Bug; 5] =
    [Bug::ForeignTaken, Bug::RefusedSlotFree, Bug::BudgetUncharged, Bug::NeverYields, Bug::HeldForGood];

/// These invariants are those of the map, whose faults `crash` notices.
const OF_MAP: std::ops::RangeInclusive<u32> = 10..=13;

const STEPS: u64 = 6000;
/// Seeds within which each is noticed; the last to be noticed needs 38.
const SEEDS_MAX: u64 = 400;

#[test]
fn every_fault_is_noticed() {
    let here = |bug: &Bug| *bug != BY_HAND && !ELSEWHERE.contains(bug) && !OF_MAP.contains(&bug.invariant());
    all_are_noticed(Bug::ALL.iter().copied().filter(here), SEEDS_MAX, |seed| world::run(seed, STEPS));
}

/// A block is read from the cache device while that has a write of it which fails, and another write makes it
/// valid again before the reader asks. Whether he is told.
fn reader_is_told(backing_fails: bool) -> bool {
    let mut config = small(1, &[1]);
    // Little memory for copies: they do not wait for the backing device.
    config.copy_bytes = 4096;
    let mut host = Host::new(&config);
    host.populate(0, 0);
    let mut pieces = Vec::new();
    host.cache.read(0, 0, 4096, &mut pieces).unwrap();
    assert_ne!(pieces[0].source, Source::Backing);
    let token = host.cache.write_begin(0, 0, &[1; 4096]).unwrap();
    let mut flash = host.flash.clone();
    let mut job = host.copy();
    carry_out(&mut job, &host.backing, &mut flash);
    let result = |fails| if fails { Err(DeviceError) } else { Ok(()) };
    host.cache.done(job, result(!backing_fails));
    host.cache.write_end(token, result(backing_fails));
    // The reader has what was written there, and nobody else ever has.
    host.write(0, 0, &[2; 4096]);
    host.work();
    assert!(host.cache.location(0, 0).is_some());
    !host.cache.confirm(&pieces[0])
}

#[test]
fn a_reader_is_told_of_a_write_that_has_failed_meanwhile() {
    for backing_fails in [true, false] {
        assert!(reader_is_told(backing_fails));
        set(Some(BY_HAND));
        let told = reader_is_told(backing_fails);
        set(None);
        assert!(!told, "the planted fault went unnoticed");
    }
}
