//! Reads of a slot directory bring another bit than lies there.
//!
//! A slot that is not valid may be that of a page that changes on disk without a word to flash. One that came
//! wrong in one opening counted as such, and lay on flash as it had been. The page was changed and synced,
//! and the next opening believed the slot: the page came back as it had been before.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::flipping::Flipping;
use common::one_file::{read, write};
use common::{Backing, PAGE, config, formatted, open, page};
use mezzanine_device::Device;
use mezzanine_device::memory::MemoryDevice;
use mezzanine_engine::PageId;
use mezzanine_engine::format::SLOT_BYTES;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Admission, Design, SyncMode, Volume, VolumeConfig};

const PAGES: u64 = 12;

fn with_slots() -> VolumeConfig {
    config(Design::Tac, Admission::Both, SyncMode::Through, 0)
}

/// A tier that has all pages of a file, and on flash a valid slot for each. With the slots' places.
fn left() -> (Arc<MemoryDevice>, Backing, Vec<u64>) {
    let config = with_slots();
    let (flash, backing) = (formatted(&config), Backing::new("a"));
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    (0..PAGES).for_each(|block| write(&file, block, 1));
    file.sync().unwrap();
    for _ in 0..4 {
        (0..PAGES).for_each(|block| assert_eq!(read(&file, block), Ok(page(block, 1))));
        file.sync().unwrap();
        while volume.step() {}
    }
    volume.close().unwrap();
    drop((file, volume));
    let [number] = open(&flash, &config).report().unwrap().files[..] else { panic!("one file") };
    let slot_of = |block| {
        let id = PageId::volume(number.into(), block);
        let is_there =
            |image: &[u8]| image.chunks(SLOT_BYTES).position(|slot| slot.starts_with(id.as_bytes()));
        flash.inspect(is_there).unwrap() as u64 * SLOT_BYTES as u64
    };
    let slots = (0..PAGES).map(slot_of).collect();
    (flash, backing, slots)
}

fn opened(flash: Arc<dyn Device>, backing: &Backing) -> (Volume, mezzanine_volume::VolumeFile) {
    let volume = Volume::open(flash, with_slots()).unwrap();
    let file = backing.attach(&volume).unwrap();
    (volume, file)
}

/// Whether a part of a page that is changed and synced is there at the next opening, for each page, though so
/// many reads of its slot brought another bit in the opening before.
fn are_newest(reads: u64) -> bool {
    (0..PAGES).all(|block| {
        let (flash, backing, slots) = left();
        let flipping = Flipping::at(&flash, slots[block as usize] + 3, reads);
        let (volume, file) = opened(flipping.clone(), &backing);
        assert!(flipping.struck() > 0);
        file.write_at(&[0xAB; 10], block * PAGE as u64 + 100).unwrap();
        file.sync().unwrap();
        volume.close().unwrap();
        drop((file, volume));
        let (_volume, file) = opened(flash, &backing);
        let mut newest = page(block, 1);
        newest[100..110].fill(0xAB);
        read(&file, block) == Ok(newest)
    })
}

#[test]
fn a_slot_that_one_read_brought_wrong_does_not_return_an_older_page() {
    assert!(are_newest(1));
}

/// It is made invalid on flash.
#[test]
fn a_slot_that_stays_wrong_does_not_return_an_older_page_when_it_is_right_again() {
    only_with(&[Bug::WrongSlotKept], || are_newest(u64::MAX));
}

/// Whether the tier has all pages, though one read of a slot brought another bit.
#[test]
fn a_slot_that_one_read_brings_wrong_is_read_again() {
    only_with(&[Bug::OneReadBelieved], || {
        let (flash, backing, slots) = left();
        let (volume, file) = opened(Flipping::at(&flash, slots[5], 1), &backing);
        assert!((0..PAGES).all(|block| read(&file, block) == Ok(page(block, 1))));
        volume.statistics().page_hits_flash == PAGES
    });
}
