//! Asynchronous write-through: copies of writes that overlap, one after the other and side by side.

use mezzanine_fragment::planted::Bug;

use crate::schedules::{check, finds};
use crate::world::{BLOCKS, Thread, World};

/// A fragment in the cache, and memory for so many blocks.
fn cached(copies: u64) -> World {
    let world = World::new(1, 1, copies);
    world.populate(0);
    world
}

const READ: Thread = |world| {
    for _ in 0..3 {
        world.read(0, 0, BLOCKS);
    }
};

/// One writer: what comes later waits for the copy of what came before.
fn rewritten() {
    let write: Thread = |world| {
        for _ in 0..3 {
            world.write(0, 0, 2);
        }
        world.write(0, 1, 2);
    };
    cached(16).run(2, &[write, READ]);
}

/// A copy waits to be written when the same blocks are written again.
fn overtaken() {
    let world = cached(16);
    world.write(0, 0, 2);
    let write: Thread = |world| world.write(0, 0, 2);
    world.run(2, &[write]);
}

/// Two writers, whose writes the backing device has at a time.
fn beside() {
    let low: Thread = |world| {
        world.write(0, 0, 2);
        world.write(0, 0, 1);
    };
    let high: Thread = |world| {
        world.write(0, 1, 2);
        world.write(0, 1, 1);
    };
    cached(16).run(2, &[low, high, READ]);
}

const LONG: Thread = |world| world.write(0, 0, 3);
const SHORT: Thread = |world| {
    world.write(0, 1, 1);
    world.write(0, 2, 1);
};

/// Memory for one block: of the longer write there is no copy.
fn without_memory() {
    cached(1).run(2, &[LONG, SHORT, READ]);
}

/// One flight: of the write that comes second nobody knows which blocks it touches.
fn without_flights() {
    let world = World::with_flights(1, 1, 16, 1);
    world.populate(0);
    world.run(2, &[LONG, SHORT, READ]);
}

fn discarded() {
    let write: Thread = |world| {
        world.write(0, 0, 2);
        world.write(0, 1, 2);
    };
    let discard: Thread = |world| world.discard(0, 1, 1);
    cached(16).run(2, &[write, discard, READ]);
}

/// Readers beside a write of what is valid: one may see it before it has ended, and the others then have to.
fn kept() {
    let write: Thread = |world| world.write(0, 0, 2);
    cached(16).run(1, &[write, READ, READ]);
}

/// The fragment comes in while it is read from the backing device, and is written to.
fn kept_beside_a_miss() {
    let world = World::new(1, 1, 16);
    world.read(0, 0, 1);
    // Its fragment is read, and is to be written.
    while !world.work() {}
    let miss: Thread = |world| world.read(0, 0, 2);
    let fill_and_write: Thread = |world| {
        world.populate_begun(0);
        world.write(0, 0, 2);
    };
    let read: Thread = |world| (0..6).for_each(|_| world.read(0, 0, 2));
    world.run(1, &[miss, fill_and_write, read]);
}

#[test]
fn blocks_that_are_read_while_they_are_written() {
    check(kept);
    check(kept_beside_a_miss);
}

#[test]
fn a_copy_that_does_not_wait_for_the_answer_is_noticed() {
    finds(Bug::CopyBeforeAnswer, kept, 5000);
}

#[test]
fn blocks_that_are_kept_past_the_answer_are_noticed() {
    finds(Bug::KeptPastAnswer, kept, 5000);
}

#[test]
fn a_read_that_the_cache_is_not_told_of_is_noticed() {
    finds(Bug::BackingReadUnseen, kept_beside_a_miss, 20_000);
}

#[test]
fn blocks_that_are_written_again() {
    check(rewritten);
}

#[test]
fn a_copy_beside_an_earlier_one() {
    check(overtaken);
}

#[test]
fn two_overlapping_writes() {
    check(beside);
}

#[test]
fn writes_without_memory_for_a_copy() {
    check(without_memory);
}

#[test]
fn writes_without_flights() {
    check(without_flights);
}

#[test]
fn a_discard_of_what_is_written() {
    check(discarded);
}

#[test]
fn blocks_that_stay_valid_while_they_are_written_are_noticed() {
    finds(Bug::ValidWhileWritten, without_memory, 1000);
    finds(Bug::DiscardKeepsBlocks, discarded, 1000);
}

#[test]
fn a_copy_that_was_superseded_is_noticed() {
    finds(Bug::SupersededWriteValidates, rewritten, 2000);
}

#[test]
fn copies_that_overtake_one_another_are_noticed() {
    finds(Bug::CopiesOvertake, overtaken, 5000);
}

#[test]
fn writes_at_a_time_that_make_blocks_valid_are_noticed() {
    finds(Bug::ConcurrentWriteValidates, beside, 5000);
}

#[test]
fn a_write_that_nobody_tracks_is_noticed() {
    finds(Bug::UntrackedWriteForgotten, without_flights, 5000);
}

#[test]
fn a_write_without_a_copy_that_is_forgotten_is_noticed() {
    finds(Bug::UncopiedWriteForgotten, without_memory, 5000);
}

#[test]
fn memory_that_is_reused_while_it_is_written_is_noticed() {
    finds(Bug::CopyReleasedEarly, rewritten, 5000);
}
