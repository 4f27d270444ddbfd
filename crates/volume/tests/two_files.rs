//! Two files share a tier: neither sees the other's pages, and neither is changed while the other is missing.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, Model, PAGE, durable, every_configuration, formatted, open, page, random_operations};
use mezzanine_ground::random::Random;
use mezzanine_volume::{VolumeConfig, VolumeErrorKind};

#[test]
fn each_keeps_its_own_pages_over_restarts() {
    for (design, admission, sync_mode) in every_configuration() {
        let config = common::config(design, admission, sync_mode, 0);
        let flash = formatted(&config);
        let files = [Backing::new("a"), Backing::guarded("b")];
        let mut models = [Model::default(), Model::default()];
        let mut random = Random::new(11);
        for round in 0..4 {
            let volume = open(&flash, &config);
            let handles: Vec<_> = files.iter().map(|file| file.attach(&volume).unwrap()).collect();
            for _ in 0..10 {
                for (handle, model) in handles.iter().zip(&mut models) {
                    random_operations(handle, model, &mut random, 20, 80);
                }
            }
            for (handle, model) in handles.iter().zip(&models) {
                model.check(handle);
            }
            if round % 2 == 0 {
                volume.close().unwrap();
            } else {
                // One sync makes everything of both durable where flash is part of the database.
                handles.iter().for_each(|handle| handle.sync().unwrap());
            }
        }
        let volume = open(&flash, &config);
        files.iter().for_each(|file| drop(file.attach(&volume).unwrap()));
        volume.close_drained().unwrap();
        for (file, model) in files.iter().zip(&models) {
            file.disk.inspect(|disk| assert!(disk == model.bytes));
        }
    }
}

#[test]
fn nothing_changes_while_a_file_of_the_tier_is_missing() {
    let flash = formatted(&durable());
    let (a, b) = (Backing::new("a"), Backing::new("b"));
    let volume = open(&flash, &durable());
    for backing in [&a, &b] {
        backing.attach(&volume).unwrap().write_at(&page(1, 1), PAGE as u64).unwrap();
    }
    volume.close().unwrap();
    let volume = open(&flash, &durable());
    let file = a.attach(&volume).unwrap();
    let mut found = vec![0; PAGE];
    file.read_at(&mut found, PAGE as u64).unwrap();
    assert!(found == page(1, 1), "reading is possible");
    let error = file.write_at(&page(1, 2), PAGE as u64).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::FileNotAttached);
    assert!(error.to_string().contains("/b"), "it must name the missing file: {error}");
    let error = volume.close_drained().unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::FileNotAttached);
    assert!(error.to_string().contains("/b"), "it must name the missing file: {error}");
    let volume = open(&flash, &durable());
    let file = a.attach(&volume).unwrap();
    b.attach(&volume).unwrap();
    file.write_at(&page(1, 2), PAGE as u64).unwrap();
    volume.close_drained().unwrap();
}

#[test]
fn a_twelfth_file_is_refused() {
    let config: VolumeConfig = durable();
    let volume = open(&formatted(&config), &config);
    for n in 0..11 {
        Backing::new(&format!("file {n}")).attach(&volume).unwrap();
    }
    let error = Backing::new("file 11").attach(&volume).unwrap_err();
    assert_eq!(error.kind(), VolumeErrorKind::TooManyFiles);
}
