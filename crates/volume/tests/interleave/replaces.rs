//! The flash device is replaced by another one while files are written, synced and read, also one that fails
//! meanwhile.

use mezzanine_engine::planted::Bug;
use mezzanine_volume::{Design, ReplaceOptions, SyncMode};

use crate::schedules::{check, finds};
use crate::threads::{OTHERS, WRITE, begin};
use crate::world::{Off, Setup, Thread, World};

/// By one of the same kind.
pub(crate) fn replace(world: &World, identity_seed: u64) -> Result<(), Off> {
    let tier = world.tier();
    let options = ReplaceOptions { identity_seed: Some(identity_seed), ..ReplaceOptions::new(tier.clone()) };
    world.replace(&tier, |volume, next| volume.replace_flash(next, &options))
}

pub(crate) const REPLACE: Thread = |world| {
    replace(world, 9)?;
    world.write((0, 5))?;
    world.sync(0)
};

fn replaced(setup: Setup) {
    begin(setup.past_the_tier().guarded()).run(&[REPLACE, WRITE, OTHERS]);
}

fn failing(setup: Setup) -> World {
    let world = begin(setup.given_up().guarded());
    world.flash_fails();
    world
}

fn after_a_failure(setup: Setup) {
    failing(setup).run(&[REPLACE, WRITE, OTHERS]);
}

#[test]
fn two_runners() {
    check(|| replaced(Setup::new(2)));
}

#[test]
fn three_runners() {
    check(|| replaced(Setup::new(3)));
}

#[test]
fn pages_that_are_written_in_place() {
    check(|| replaced(Setup::of(Design::Cac, SyncMode::Durable, 2)));
}

#[test]
fn a_device_that_fails() {
    check(|| after_a_failure(Setup::new(2)));
}

#[test]
fn a_device_that_fails_and_three_runners() {
    check(|| after_a_failure(Setup::new(3)));
}

#[test]
fn a_device_of_clean_pages_that_fails() {
    check(|| after_a_failure(Setup::of(Design::FaceGsc, SyncMode::Through, 2)));
}

#[test]
fn a_device_that_fails_where_pages_are_written_in_place() {
    check(|| after_a_failure(Setup::of(Design::Fifo, SyncMode::Durable, 2)));
}

#[test]
fn points_in_the_engine() {
    check(|| after_a_failure(Setup::new(0).finely()));
}

#[test]
fn a_device_that_is_replaced_with_its_pages_in_it_is_noticed() {
    finds(Bug::ReplacedUndrained, || replaced(Setup::new(2)), 1000);
}
