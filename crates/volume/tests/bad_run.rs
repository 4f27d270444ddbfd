//! Flash fails in one page of several that are read at once: it is that page which is read from elsewhere, or
//! lost, and no other.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Backing, PAGE, durable, formatted, open, page};
use mezzanine_device::memory::{Bad, MemoryDevice};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{Volume, VolumeErrorKind, VolumeFile};

const PAGES: u64 = 8;
/// Its copy on flash cannot be read.
const BAD: u64 = 2;

/// A file whose first pages lie on flash, side by side in groups, one of them in a bad place.
fn with_a_bad_page(drained: bool) -> (Volume, VolumeFile) {
    let (flash, backing): (Arc<MemoryDevice>, _) = (formatted(&durable()), Backing::new("a"));
    let volume = open(&flash, &durable());
    let file = backing.attach(&volume).unwrap();
    for block in 0..PAGES + 20 {
        file.write_at(&page(block, 1), block * PAGE as u64).unwrap();
    }
    file.sync().unwrap();
    if drained {
        volume.drain().unwrap();
    }
    let bytes = page(BAD, 1);
    let offset = flash.inspect(|flash| flash.chunks(PAGE).position(|chunk| chunk == bytes)).unwrap();
    flash.spoil((offset * PAGE) as u64, 512, Bad::Unreadable);
    (volume, file)
}

fn read(file: &VolumeFile, from: u64, to: u64) -> Result<(), u64> {
    let mut found = vec![0; (to - from) as usize * PAGE];
    match file.read_at(&mut found, from * PAGE as u64) {
        Ok(()) => {
            let expected: Vec<u8> = (from..to).flat_map(|block| page(block, 1)).collect();
            assert!(found == expected);
            Ok(())
        }
        Err(error) => {
            assert_eq!(error.kind(), VolumeErrorKind::LostPage);
            Err(error.offset().unwrap() / PAGE as u64)
        }
    }
}

/// Clean pages: how many of them were taken for damaged.
fn clean_pages_damaged(bug: Option<Bug>) -> u64 {
    let (volume, file) = with_a_bad_page(true);
    set(bug);
    let read = read(&file, 0, PAGES);
    set(None);
    assert_eq!(read, Ok(()), "disk has them all");
    volume.statistics().pages_damaged
}

/// A run that failed was marked as read, and what was in the buffer was compared with the checksums: the
/// clean neighbours of the bad page were forgotten, and the first dirty one was reported as lost.
#[test]
fn a_bad_clean_page_costs_none_of_its_neighbours() {
    assert_eq!(clean_pages_damaged(None), 1);
    assert!(clean_pages_damaged(Some(Bug::RunFailsItsPages)) > 1, "the planted fault went unnoticed");
}

#[test]
fn a_bad_dirty_page_is_the_one_that_is_reported() {
    let (_volume, file) = with_a_bad_page(false);
    assert_eq!(read(&file, 0, PAGES), Err(BAD));
    assert_eq!(read(&file, 0, BAD), Ok(()));
    assert_eq!(read(&file, BAD + 1, PAGES), Ok(()));
    set(Some(Bug::RunFailsItsPages));
    let reported = read(&file, 0, PAGES);
    set(None);
    assert_ne!(reported, Err(BAD), "the planted fault went unnoticed");
}
