//! A disk refuses some changes, while its file is cut off, discarded and written anew and somebody quiesces
//! the volume. Whoever is told tries again and goes on with the file as far as he is let.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, SyncMode};

use crate::replaces::replace;
use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World, draw};

/// Pages of the file.
const END: u64 = 5;

const CUT: Thread = |world| {
    for first in [2, 1] {
        _ = world.truncate(0, first);
        // It has been told that nothing was done, or that not all was.
        _ = world.truncate(0, first);
        _ = world.write((0, END - 1));
        world.read_run((0, 0), END)?;
        _ = world.sync(0);
    }
    Ok(())
};

/// Another discard would make up for one that was left half done.
const DISCARD: Thread = |world| {
    for _ in 0..1 + draw(2) {
        _ = world.discard(0, 1, 4);
        _ = world.write((0, 2));
        world.read_run((0, 0), END)?;
        _ = world.sync(0);
        // Until it is on disk alone.
        _ = world.push_more(2 * world.frames());
    }
    Ok(())
};

const DRAIN: Thread = |world| {
    for _ in 0..3 {
        _ = world.quiesce(|volume| volume.drain());
    }
    Ok(())
};

const SWITCH: Thread = |world| {
    for mode in [SyncMode::Through, SyncMode::Durable] {
        _ = world.quiesce(|volume| volume.set_sync_mode(mode));
    }
    Ok(())
};

const REPLACE: Thread = |world| {
    _ = replace(world, 9);
    Ok(())
};

const CLOSE: Thread = |world| {
    _ = world.write((FILLER, 0));
    world.close(|volume| volume.close())
};

const STOP: Thread = |world| {
    _ = world.stop_admission();
    _ = world.quiesce(|volume| volume.resume_admission());
    Ok(())
};

/// Has what was there before go on its way.
const OTHERS: Thread = |world| {
    for block in 1..8 {
        _ = world.write((FILLER, block));
    }
    _ = world.sync(FILLER);
    Ok(())
};

/// The pages are on disk, some of them in the tier as well.
fn begin(setup: Setup) -> World {
    let world = World::new(setup);
    for block in 0..END {
        world.write((0, block)).unwrap();
    }
    world.push_out();
    world.write((0, END - 2)).unwrap();
    world.disk_fails(0);
    world
}

/// The first file has a guard, and its disk is written past the tier now and then.
fn guarded() -> Setup {
    Setup::new(2).given_up().guarded()
}

fn cut(setup: Setup) {
    begin(setup).run(&[CUT, DRAIN, OTHERS]);
}

fn discarded(setup: Setup) {
    begin(setup).run(&[DISCARD, DRAIN]);
}

#[test]
fn a_cut_beside_a_drain() {
    check(|| cut(Setup::new(2)));
}

#[test]
fn a_cut_and_no_runners() {
    check(|| cut(Setup::new(0)));
}

#[test]
fn a_cut_beside_a_switch() {
    check(|| begin(guarded()).run(&[CUT, SWITCH, OTHERS]));
}

#[test]
fn a_cut_beside_a_stop() {
    check(|| begin(guarded()).run(&[CUT, STOP, OTHERS]));
}

#[test]
fn a_cut_beside_a_replacement() {
    check(|| begin(guarded()).run(&[CUT, REPLACE, OTHERS]));
}

#[test]
fn a_cut_beside_a_close() {
    check(|| begin(guarded()).run(&[CUT, CLOSE, OTHERS]));
}

#[test]
fn a_cut_beside_a_tier_that_is_given_up() {
    check(|| {
        let world = begin(guarded());
        world.flash_fails();
        world.run(&[CUT, DRAIN, OTHERS]);
    });
}

#[test]
fn a_cut_of_a_file_with_a_guard() {
    check(|| cut(Setup::new(2).guarded()));
}

#[test]
fn a_cut_where_pages_are_written_in_place() {
    check(|| cut(Setup::of(Design::Fifo, SyncMode::Durable, 2)));
}

#[test]
fn a_cut_of_a_file_that_is_written_first() {
    check(|| cut(Setup::of(Design::FaceGsc, SyncMode::Through, 2).given_up()));
}

#[test]
fn a_discard_beside_a_drain() {
    check(|| discarded(Setup::new(2)));
}

#[test]
fn a_discard_beside_a_stop() {
    check(|| begin(guarded()).run(&[DISCARD, STOP]));
}

#[test]
fn a_discard_beside_a_replacement() {
    check(|| begin(guarded()).run(&[DISCARD, REPLACE]));
}

#[test]
fn a_discard_beside_a_switch() {
    check(|| begin(guarded()).run(&[DISCARD, SWITCH]));
}

#[test]
fn a_discard_beside_a_tier_that_is_given_up() {
    check(|| {
        let world = begin(guarded());
        world.flash_fails();
        world.run(&[DISCARD, DRAIN]);
    });
}

#[test]
fn a_discard_where_pages_are_written_in_place() {
    check(|| discarded(Setup::of(Design::Lru, SyncMode::Durable, 2)));
}

#[test]
fn a_discard_of_a_file_that_is_written_first() {
    check(|| discarded(Setup::of(Design::FaceGsc, SyncMode::Through, 2).given_up()));
}

#[test]
fn points_in_the_engine() {
    check(|| cut(Setup::new(0).finely()));
}

#[test]
fn a_cut_that_is_half_done_and_forgotten_by_a_drain_is_noticed() {
    finds(Bug::SettledOverRefusal, || cut(Setup::new(2)), 10_000);
}

#[test]
fn a_discard_that_is_half_done_and_forgotten_by_a_drain_is_noticed() {
    finds(Bug::SettledOverRefusal, || discarded(Setup::new(2)), 10_000);
}
