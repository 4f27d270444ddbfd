//! Numbers of files near their end: no file ever gets the number of another one, however often a tier was
//! opened.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, durable, formatted, open, page, through};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::format::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, TierState};
use mezzanine_volume::{Volume, VolumeConfig, VolumeErrorKind};

/// The tier was left in order; from then on it was opened and left until its epochs had come to this one.
fn opened_often(flash: &MemoryDevice, epoch: u32) {
    for offset in SUPERBLOCK_OFFSETS {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        flash.read_at(&mut bytes, offset).unwrap();
        let found = Superblock::decode(&bytes).unwrap();
        assert_ne!(found.state, TierState::Open);
        let old = Superblock { epoch, epoch_sequence: found.end_sequence, ..found };
        flash.write_at(&old.encode(), offset).unwrap();
    }
    flash.flush().unwrap();
}

/// A tier with one file, opened 2^24 times. It was so once that the number of the next file was the epoch
/// times 256, which wraps: it was one that an earlier file had. Returns what became of attaching another
/// file.
fn another_file_after_many_openings(
    config: &VolumeConfig,
) -> (Arc<MemoryDevice>, Backing, Result<(), VolumeErrorKind>) {
    let (flash, known, new) = (formatted(config), Backing::new("known"), Backing::new("new"));
    let volume = open(&flash, config);
    let file = known.attach(&volume).unwrap();
    file.write_at(&page(3, 1), 3 * PAGE as u64).unwrap();
    drop(file);
    volume.close().unwrap();
    opened_often(&flash, (1 << 24) - 3);
    // The last times with the file, which has to know an opening that the tier remembers.
    for _ in 0..2 {
        let volume = open(&flash, config);
        known.attach(&volume).unwrap().write_at(&page(3, 1), 3 * PAGE as u64).unwrap();
        volume.close().unwrap();
    }
    let volume = open(&flash, config);
    known.attach(&volume).unwrap();
    let attached = new.attach(&volume).map(drop).map_err(|error| {
        assert!(error.to_string().contains("used up its numbers of files"), "{error}");
        assert!(error.to_string().contains("drain the tier and format it anew"), "{error}");
        error.kind()
    });
    drop(volume);
    (flash, known, attached)
}

#[test]
fn a_file_gets_no_number_that_another_one_has_had() {
    for config in [durable(), through()] {
        let (flash, known, attached) = another_file_after_many_openings(&config);
        assert_eq!(attached, Err(VolumeErrorKind::TooManyFiles));
        if config == through() {
            // It was left open, so it is empty and knows no file.
            continue;
        }
        // What the tier knows can still be attached, read, written and drained.
        let volume = open(&flash, &config);
        let file = known.attach(&volume).unwrap();
        let mut found = vec![0; PAGE];
        file.read_at(&mut found, 3 * PAGE as u64).unwrap();
        assert!(found == page(3, 1));
        file.write_at(&page(4, 2), 4 * PAGE as u64).unwrap();
        file.sync().unwrap();
        drop(file);
        volume.drain().unwrap();
        volume.close().unwrap();
        known.disk.read_at(&mut found, 4 * PAGE as u64).unwrap();
        assert!(found == page(4, 2));
        // Formatted anew it has numbers again.
        Volume::format(&*flash, &config, true).unwrap();
        let volume = open(&flash, &config);
        Backing::new("other").attach(&volume).unwrap();
    }
}

#[test]
fn the_last_numbers_are_given_out() {
    let config = durable();
    let (flash, first) = (formatted(&config), Backing::new("first"));
    let volume = open(&flash, &config);
    first.attach(&volume).unwrap();
    volume.close().unwrap();
    opened_often(&flash, (1 << 24) - 3);
    let volume = open(&flash, &config);
    first.attach(&volume).unwrap();
    Backing::new("second").attach(&volume).unwrap();
    volume.close().unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn numbers_that_wrap_are_noticed() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::FileNumbersWrap));
    let (_, _, attached) = another_file_after_many_openings(&durable());
    set(None);
    assert_eq!(attached, Ok(()), "FileNumbersWrap went unnoticed");
}
