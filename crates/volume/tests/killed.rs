//! What was handed over outlives a killed process, and costs no flush.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, Model, PAGE, durable, every_configuration, formatted, open, page, random_operations};
use mezzanine_ground::random::Random;
use mezzanine_volume::SyncMode;

#[test]
fn what_was_handed_over_outlives_the_process() {
    for (design, admission, sync_mode) in every_configuration() {
        let config = common::config(design, admission, sync_mode, 0);
        let flash = formatted(&config);
        let files = [Backing::new("a"), Backing::guarded("b")];
        let mut models = [Model::default(), Model::default()];
        let mut random = Random::new(23);
        for _ in 0..6 {
            let volume = open(&flash, &config);
            let handles: Vec<_> = files.iter().map(|file| file.attach(&volume).unwrap()).collect();
            for (handle, model) in handles.iter().zip(&models) {
                model.check(handle);
            }
            for _ in 0..3 {
                for (handle, model) in handles.iter().zip(&mut models) {
                    random_operations(handle, model, &mut random, 25, 80);
                }
                handles.iter().for_each(|handle| handle.hand_over().unwrap());
            }
            // The process ends here, and its devices have what they were given.
        }
    }
}

#[test]
fn handing_over_flushes_nothing() {
    let flash = formatted(&durable());
    let file = Backing::new("a");
    let volume = open(&flash, &durable());
    let handle = file.attach(&volume).unwrap();
    handle.write_at(&page(0, 1), 0).unwrap();
    handle.sync().unwrap();
    assert_eq!(flash.unflushed(), 0);
    // Again and again it would be flushed some time, because staging memory is needed.
    handle.write_at(&page(0, 2), 0).unwrap();
    handle.hand_over().unwrap();
    let written = flash.unflushed();
    assert!(written > 0, "it was flushed, or not written");
    // Once is enough.
    handle.hand_over().unwrap();
    assert_eq!(flash.unflushed(), written);
    handle.sync().unwrap();
    assert_eq!(flash.unflushed(), 0);
}

/// Where disk has everything first there is nothing to be done.
#[test]
fn a_tier_of_clean_pages_has_nothing_to_hand_over() {
    let config = common::through();
    assert_eq!(config.tier.sync_mode, SyncMode::Through);
    let flash = formatted(&config);
    let file = Backing::new("a");
    let volume = open(&flash, &config);
    let handle = file.attach(&volume).unwrap();
    handle.write_at(&page(3, 1), 3 * PAGE as u64).unwrap();
    let before = flash.unflushed();
    handle.hand_over().unwrap();
    assert_eq!(flash.unflushed(), before);
    file.disk.inspect(|disk| assert!(disk[3 * PAGE..] == page(3, 1)));
}
