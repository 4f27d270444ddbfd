//! The queue shrinks and grows again while it goes round.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{SyncMode, TierConfig};

use crate::pages::PAGE;
use crate::schedules::{check, finds};
use crate::world::{FILLER, Off, Setup, Thread, World, tiny};

/// Frames that come and go.
const FRAMES: u64 = 8;

fn resize(world: &World, frames: i64) -> Result<(), Off> {
    let Some(now) = world.volume().resize_progress() else { return Err(Off) };
    let wanted = now.bytes.saturating_add_signed(frames * PAGE as i64).min(now.bytes_max);
    world.done(world.volume().resize(wanted)).map(|_| ())
}

const RESIZE: Thread = |world| {
    let frames = FRAMES as i64;
    resize(world, -frames)?;
    for block in 0..16 {
        world.write((0, block % 4))?;
    }
    resize(world, frames)?;
    for block in 0..8 {
        world.write((0, block % 4))?;
    }
    world.sync(0)
};

const OTHERS: Thread = |world| {
    for block in 0..8 {
        world.write((FILLER, block))?;
        world.read((0, block % 4))?;
    }
    world.sync(FILLER)
};

fn resized(setup: Setup) {
    let smallest = tiny(SyncMode::Durable);
    let frames = smallest.frames + FRAMES;
    let world = World::new(Setup { tier: TierConfig { frames, ..smallest }, ..setup });
    for block in 0..4 {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world.run(&[RESIZE, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| resized(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| resized(Setup::new(3)));
}

#[test]
fn points_in_the_engine() {
    check(|| resized(Setup::new(0).finely()));
}

#[test]
fn pages_released_before_their_disk_writes_are_synced_are_noticed() {
    finds(Bug::ReuseBeforeDiskSync, || resized(Setup::new(2)), 4000);
}

/// Found here: the tier was told of no room to grow, and after it had shrunk the next opening looked for
/// metadata elsewhere.
#[test]
fn room_that_is_forgotten_is_noticed() {
    finds(Bug::RoomForgotten, || resized(Setup::new(2)), 100);
}
