//! What the queue is for does happen: pages are written in groups, referenced ones get second chances,
//! repeated writes spare the disk, a sync without changes costs nothing.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, PAGE, config, durable, formatted, open, page};
use mezzanine_device::Device;
use mezzanine_ground::random::Random;
use mezzanine_volume::{Admission, Design, SyncMode};

#[test]
fn groups_second_chances_and_fewer_disk_writes() {
    let flash = formatted(&durable());
    let backing = Backing::new("a");
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    let mut random = Random::new(1);
    let mut found = vec![0; PAGE];
    for step in 0..5000 {
        let block = random.magnitude(200);
        file.write_at(&page(block, step), block * PAGE as u64).unwrap();
        file.read_at(&mut found, random.magnitude(block + 1) * PAGE as u64).unwrap();
    }
    let statistics = volume.statistics();
    let tier = statistics.tier.unwrap();
    assert!(tier.pages_written > 3 * tier.groups_written, "groups hold several pages: {tier:?}");
    assert!(tier.second_chances > 100, "{tier:?}");
    assert!(statistics.flash_write_bytes_mean().unwrap() > 3.0 * PAGE as f64);
    assert!(statistics.write_reduction().unwrap() > 0.2, "{statistics:?}");
    assert!(statistics.hit_ratio().unwrap() > 0.5, "{statistics:?}");
}

#[test]
fn face_gr_gives_no_second_chances() {
    let config = config(Design::FaceGr, Admission::Both, SyncMode::Durable, 0);
    let volume = open(&formatted(&config), &config);
    let file = Backing::new("a").attach(&volume).unwrap();
    for step in 0..1000 {
        file.write_at(&page(step % 200, step), (step % 200) * PAGE as u64).unwrap();
        file.read_at(&mut vec![0; PAGE], (step % 200) * PAGE as u64).unwrap();
    }
    let tier = volume.statistics().tier.unwrap();
    assert!(tier.second_chances == 0 && tier.groups_staged_out > 0);
}

#[test]
fn a_sync_without_changes_does_no_io() {
    let flash = formatted(&durable());
    let volume = open(&flash, &durable());
    let (a, b) = (Backing::new("a"), Backing::new("b"));
    let files = [a.attach(&volume).unwrap(), b.attach(&volume).unwrap()];
    files[0].write_at(&page(0, 1), 0).unwrap();
    files[0].sync().unwrap();
    let before = (flash.power().operations(), a.disk.power().operations(), b.disk.power().operations());
    files.iter().for_each(|file| file.sync().unwrap());
    let after = (flash.power().operations(), a.disk.power().operations(), b.disk.power().operations());
    assert_eq!(before, after);
    assert_eq!(volume.statistics().syncs_without_io, 2);
    files[1].write_at(&page(0, 1), 0).unwrap();
    let flushes = volume.statistics().flash_flushes;
    // The first change of a file costs a sync of its own; from then on a sync is one flush.
    files.iter().for_each(|file| file.sync().unwrap());
    assert_eq!(volume.statistics().flash_flushes, flushes + 1);
    assert!(b.disk.len() == 0, "the disk is not touched");
}

#[test]
fn a_scan_reads_the_disk_in_large_requests() {
    let volume = open(&formatted(&durable()), &durable());
    let backing = Backing::new("a");
    backing.disk.write_at(&vec![3; 256 * PAGE], 0).unwrap();
    let file = backing.attach(&volume).unwrap();
    let mut found = vec![0; 256 * PAGE];
    file.read_at(&mut found, 0).unwrap();
    assert!(found.iter().all(|&byte| byte == 3));
    assert_eq!(volume.statistics().disk_reads, 1);
}

#[test]
fn reads_alone_fill_a_tier_that_has_no_workers() {
    for &design in Design::ALL {
        let mut config = config(design, Admission::Clean, SyncMode::Through, 0);
        config.tier.policy.write_back = false;
        let volume = open(&formatted(&config), &config);
        let backing = Backing::new("a");
        let file = backing.attach(&volume).unwrap();
        file.write_at(&vec![7; 80 * PAGE], 0).unwrap();
        let before = volume.statistics();
        for round in 0..8 {
            for block in 0..80 {
                file.read_at(&mut vec![0; PAGE], (block + round) % 80 * PAGE as u64).unwrap();
            }
        }
        let done = volume.statistics().since(&before);
        let tier = done.tier.unwrap();
        // Staging memory has room for 12 pages; nothing but reads can have written it to flash.
        assert!(tier.pages_written >= 24, "{design}: {} pages written", tier.pages_written);
        assert!(done.page_hits_flash >= 24, "{design}: {} pages found on flash", done.page_hits_flash);
    }
}
