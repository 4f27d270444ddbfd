//! The flash device is replaced by another one while files are written, synced and read.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{ReplaceOptions, SyncMode};

use crate::schedules::{check, finds};
use crate::world::{FILLER, Setup, Thread, World, tiny};

const REPLACE: Thread = |world| {
    let tier = tiny(SyncMode::Durable);
    let options = ReplaceOptions { identity_seed: Some(9), ..ReplaceOptions::new(tier.clone()) };
    world.replace(&tier, |volume, next| volume.replace_flash(next, &options))
};

const WRITE: Thread = |world| {
    for block in 0..3 {
        world.write((0, block))?;
        world.read((0, block))?;
    }
    world.sync(0)?;
    world.write((0, 1))?;
    world.read_run((0, 0), 3)
};

const OTHERS: Thread = |world| {
    for block in 0..4 {
        world.read((0, block % 3))?;
        world.write((FILLER, block))?;
    }
    world.sync(FILLER)
};

fn replaced<const RUNNERS: usize>() {
    let world = World::new(Setup::new(RUNNERS).past_the_tier().guarded());
    for block in 0..3 {
        world.write((0, block)).unwrap();
    }
    world.push_on();
    world.run(&[REPLACE, WRITE, OTHERS]);
}

#[test]
fn two_runners() {
    check(replaced::<2>);
}

#[test]
fn three_runners() {
    check(replaced::<3>);
}

#[test]
fn a_device_that_is_replaced_with_its_pages_in_it_is_noticed() {
    finds(Bug::ReplacedUndrained, replaced::<2>, 1000);
}
