//! Whatever the design, the admission, the sync mode and the number of workers: a file of a volume is an
//! array of bytes.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, Model, config, every_configuration, formatted, open, random_operations};
use mezzanine_ground::random::Random;
use mezzanine_volume::{Admission, Design, TierConfig, VolumeConfig};

fn run(seed: u64, workers: usize, guarded: bool) {
    for (design, admission, sync_mode) in every_configuration() {
        run_with(&config(design, admission, sync_mode, workers), seed, guarded);
    }
}

fn run_with(config: &VolumeConfig, seed: u64, guarded: bool) {
    let TierConfig { design, admission, sync_mode, .. } = config.tier;
    let workers = config.workers;
    println!("seed {seed}, {design}, {admission}, {sync_mode}, {workers} workers");
    let flash = formatted(config);
    let backing = if guarded { Backing::guarded("a") } else { Backing::new("a") };
    let mut random = Random::new(seed);
    let mut model = Model::default();
    for round in 0..4 {
        let volume = open(&flash, config);
        let file = backing.attach(&volume).unwrap();
        model.check(&file);
        random_operations(&file, &mut model, &mut random, 400, 150);
        model.check(&file);
        match round {
            0 => volume.close().unwrap(),
            // Left without closing: a sync is enough to keep everything.
            1 => file.sync().unwrap(),
            2 => {
                volume.drain().unwrap();
                random_operations(&file, &mut model, &mut random, 50, 150);
                volume.close().unwrap();
            }
            _ => {
                let statistics = volume.statistics();
                volume.close_drained().unwrap();
                backing.disk.inspect(|disk| assert!(disk == model.bytes, "the disk is not current"));
                let tier = statistics.tier.unwrap();
                // A design that chooses fills up once, and then refuses what is cold. With clean pages alone
                // nobody has to work for it.
                let chooses = design.has_slots();
                let turned_away =
                    if chooses { tier.refused + tier.dropped_busy } else { 0 } + tier.clean_first_seen;
                assert!(tier.groups_staged_out + tier.left_clean + turned_away > 0, "the queue did not wrap");
            }
        }
    }
}

#[test]
fn without_workers() {
    for seed in [1, 2] {
        run(seed, 0, false);
    }
}

#[test]
fn with_two_workers() {
    run(3, 2, false);
}

#[test]
fn behind_a_guard() {
    run(4, 0, true);
}

#[test]
fn with_clean_pages_that_return() {
    for (design, admission, sync_mode) in every_configuration() {
        // A queue, pages in their places, and a design that chooses, too.
        let designs = [Design::FaceGsc, Design::Lc, Design::Tac];
        if admission == Admission::Dirty || !designs.contains(&design) {
            continue;
        }
        let mut config = config(design, admission, sync_mode, 0);
        (config.tier.returning_only, config.tier.remembered_pages) = (true, Some(64));
        run_with(&config, 5, false);
    }
}
