//! One read brings something else than lies there: of flash, when a volume is opened, or of a file's disk, at
//! its attachment.
//!
//! Of flash one bit in one read of a page made its group a torn one, and synced pages came back as they had
//! been before. Of a disk it had a good file refused, with the advice to format the tier that had its newest
//! pages. Where a crash had left a guard over the header, the file was attached as if it had none: its first
//! bytes were the guard's, and the sidecar with the only copy of the header was replaced.
//!
//! Of the paths of files, which are known by what one read brings and written anew, none was left; and beside
//! a superblock that a crash had torn there was no tier, by one read of the other one.

#![allow(clippy::unwrap_used)]

mod common;

use common::flipping::Flipping;
use common::one_file::{InUse, PAGES, WRITE_BACK, durable, go_round, in_use, read, write};
use common::{Backing, PAGE, formatted, open, page};
use mezzanine_device::memory::{Fault, Injection, MemoryDevice, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::format::SUPERBLOCK_OFFSETS;
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, Volume};

/// How the file was left.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    ByACrash,
    Closed,
    /// Drained, but for the guard over its header, which was not to be written over.
    UnderItsGuard,
}

fn strike(disk: &MemoryDevice, operation: Operation, after: u64, count: u64, fault: Fault) {
    disk.inject(Injection { operation, after, count, fault });
}

/// A file of which every page is of version 2.
fn left(design: Design, left: Left, backing: &Backing) -> std::sync::Arc<MemoryDevice> {
    let config = durable(design);
    let flash = formatted(&config);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    for version in [1, 2] {
        (0..PAGES).for_each(|block| write(&file, block, version));
        file.sync().unwrap();
        if version == 1 {
            go_round(&file, &volume, 2).unwrap();
        }
    }
    match left {
        Left::ByACrash => {}
        Left::Closed => volume.close().unwrap(),
        Left::UnderItsGuard => {
            volume.drain().unwrap();
            strike(&backing.disk, Operation::Write, 0, u64::MAX, Fault::Error(DeviceErrorKind::Io));
            _ = volume.close_drained();
            backing.disk.heal();
        }
    }
    drop((file, volume));
    flash.power_cut(1);
    backing.disk.power_cut(1);
    flash
}

/// Whether the file is attached with every page, and left with every page on disk, though one of the reads of
/// its disk brings one bit that is another. `None`: there are no more reads than so many.
fn is_attached(design: Design, how: Left, guarded: bool, after: u64) -> Option<bool> {
    let backing = if guarded { Backing::guarded("a") } else { Backing::new("a") };
    let flash = left(design, how, &backing);
    let volume = Volume::open(flash, durable(design)).unwrap();
    strike(&backing.disk, Operation::Read, after, 1, Fault::FlipBit);
    let attached = backing.attach(&volume);
    let struck = backing.disk.faults_struck_in(Operation::Read) > 0;
    backing.disk.heal();
    let Ok(file) = attached else { return Some(false) };
    let right = (0..PAGES).all(|block| read(&file, block) == Ok(page(block, 2)));
    volume.close_drained().unwrap();
    let on_disk = backing
        .disk
        .inspect(|disk| (0..PAGES).all(|block| disk[block as usize * PAGE..][..PAGE] == page(block, 2)));
    struck.then_some(right && on_disk)
}

fn are_attached(design: Design, how: Left, guarded: bool) -> bool {
    (0..).map_while(|after| is_attached(design, how, guarded, after)).all(|right| right)
}

#[test]
fn a_file_is_attached_though_a_read_of_its_disk_brings_something_else() {
    for design in WRITE_BACK {
        for how in [Left::ByACrash, Left::Closed, Left::UnderItsGuard] {
            for guarded in [false, true] {
                assert!(are_attached(design, how, guarded), "{design:?}, left {how:?}, guarded: {guarded}");
            }
        }
    }
}

/// Whether a volume is opened with every page though one of the reads of its flash device brings one bit that
/// is another. `None`: there are no more reads than so many.
fn is_opened(design: Design, how: Left, after: u64) -> Option<bool> {
    let backing = Backing::new("a");
    let flash = left(design, how, &backing);
    strike(&flash, Operation::Read, after, 1, Fault::FlipBit);
    let opened = Volume::open(flash.clone(), durable(design));
    let opened = opened.and_then(|volume| backing.attach(&volume).map(|file| (volume, file)));
    let struck = flash.faults_struck() > 0;
    flash.heal();
    let right =
        opened.is_ok_and(|(_volume, file)| (0..PAGES).all(|block| read(&file, block) == Ok(page(block, 2))));
    struck.then_some(right)
}

fn are_opened(design: Design, how: Left) -> bool {
    (0..).map_while(|after| is_opened(design, how, after)).all(|right| right)
}

#[test]
fn a_volume_is_opened_with_every_page_though_a_read_of_flash_brings_something_else() {
    for design in WRITE_BACK {
        for how in [Left::ByACrash, Left::Closed] {
            assert!(are_opened(design, how), "{design:?}, left {how:?}");
        }
    }
}

/// Whether the paths of both files of a tier are known after an opening in which one read of them brought
/// another bit.
fn paths_are_known() -> bool {
    let config = durable(Design::FaceGr);
    let InUse { flash, backing, volume, file } = in_use(&config);
    let other = Backing::new("b").attach(&volume).unwrap();
    write(&other, 1, 1);
    other.sync().unwrap();
    drop((file, other, volume));
    let before = open(&flash, &config).unattached();
    assert_eq!(before.len(), 2);
    let place = flash.inspect(|bytes| bytes.windows(8).position(|magic| magic == b"MEZZFILE")).unwrap();
    let flipping = Flipping::at(&flash, place as u64 + 20, 1);
    let volume = Volume::open(flipping.clone(), config.clone()).unwrap();
    assert_eq!(flipping.struck(), 1);
    let file = backing.attach(&volume).unwrap();
    // The opening starts with that, though the tier waits for the other file.
    assert!(file.write_at(&page(3, 3), 3 * PAGE as u64).is_err());
    drop((file, volume));
    open(&flash, &config).unattached() == before
}

#[test]
fn the_paths_of_files_are_known_though_one_read_brings_another_bit() {
    only_with(&[Bug::OneReadBelieved], paths_are_known);
}

/// A power cut has torn a copy of the superblock, as it may.
#[test]
fn a_volume_whose_other_superblock_is_torn_is_opened_though_one_read_brings_another_bit() {
    let config = durable(Design::FaceGr);
    let InUse { flash, volume, file, .. } = in_use(&config);
    drop((file, volume));
    flash.write_at(&[0xEE; 512], SUPERBLOCK_OFFSETS[1]).unwrap();
    only_with(&[Bug::OneReadBelieved], || {
        [0, 100].into_iter().all(|at| {
            let flipping = Flipping::at(&flash, SUPERBLOCK_OFFSETS[0] + at, 1);
            let opened = Volume::open(flipping.clone(), config.clone());
            assert_eq!(flipping.struck(), 1);
            opened.is_ok()
        })
    });
}

#[test]
fn a_file_is_attached_though_one_read_of_its_sidecar_brings_another_bit() {
    only_with(&[Bug::OneReadBelieved], || {
        let backing = Backing::new("a");
        let volume = open(&left(Design::FaceGr, Left::ByACrash, &backing), &durable(Design::FaceGr));
        *backing.sidecar.flips.lock().unwrap() = 1;
        let attached = backing.attach(&volume);
        assert_eq!(*backing.sidecar.flips.lock().unwrap(), 0);
        attached.is_ok_and(|file| (0..PAGES).all(|block| read(&file, block) == Ok(page(block, 2))))
    });
}

#[test]
fn what_one_read_brings_is_not_trusted() {
    only_with(&[Bug::OneReadBelieved], || are_opened(Design::FaceGr, Left::ByACrash));
    only_with(&[Bug::OneReadBelieved], || are_attached(Design::FaceGr, Left::ByACrash, false));
    // Where a guard stands, one such bit is taken for a rotten one now (`guard_damage.rs`).
}
