//! A page that flash does not give back and that disk has, as in `lost_on_disk`; but the disk does not give
//! it back at once either.
//!
//! One read of the disk that failed, or brought another bit, was enough for a reader or a drain to call the
//! page lost. Whoever gave it up then, as he was told, destroyed its newest version.

#![allow(clippy::unwrap_used)]

mod common;

use common::bad_places::spoil;
use common::one_file::{InUse, WRITE_BACK, durable, in_use, read, write};
use common::{Backing, PAGE, open, page};
use mezzanine_device::DeviceErrorKind;
use mezzanine_device::memory::{Bad, Fault, Injection, Operation};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_volume::{Design, VolumeErrorKind, VolumeState};

const AT: u64 = 5;
const OFFSET: u64 = AT * PAGE as u64;
const FAILS: Fault = Fault::Error(DeviceErrorKind::Io);

/// The record says that flash alone has the page, flash does not give it back, and disk has this very
/// version.
fn after_a_crash(design: Design) -> InUse {
    let config = durable(design);
    let InUse { flash, backing, volume, file } = in_use(&config);
    volume.drain().unwrap();
    drop((file, volume));
    flash.power_cut(1);
    backing.disk.power_cut(1);
    assert_eq!(spoil(&flash, &page(AT, 1), Bad::Unreadable), 1);
    let volume = open(&flash, &config);
    let file = backing.attach(&volume).unwrap();
    // So that the file is ready for changes.
    write(&file, 20, 1);
    file.sync().unwrap();
    InUse { flash, backing, volume, file }
}

/// What `operation` brings while the next `count` reads of the disk go wrong.
fn beside<T>(backing: &Backing, fault: Fault, count: u64, operation: impl FnOnce() -> T) -> T {
    let struck = backing.disk.faults_struck();
    backing.disk.inject(Injection { operation: Operation::Read, after: 0, count, fault });
    let outcome = operation();
    assert!(backing.disk.faults_struck() > struck, "disk was not read");
    backing.disk.heal();
    outcome
}

/// Does a reader have the page, or hear of an error of the disk, and is it not given up?
fn a_reader_loses_nothing(design: Design, fault: Fault, count: u64) -> bool {
    let InUse { backing, volume, file, .. } = after_a_crash(design);
    let all_fail = fault == FAILS && count > 1;
    let expected = if all_fail { Err(VolumeErrorKind::Io) } else { Ok(page(AT, 1)) };
    let found = beside(&backing, fault, count, || read(&file, AT));
    let given_up = beside(&backing, fault, count, || file.give_up(OFFSET).map_err(|error| error.kind()));
    let not_given_up = if all_fail { VolumeErrorKind::Io } else { VolumeErrorKind::NotLost };
    found == expected
        && given_up == Err(not_given_up)
        && volume.state() == VolumeState::Ok
        && read(&file, AT) == Ok(page(AT, 1))
        && volume.close_drained().is_ok()
        && backing.disk.inspect(|disk| disk[OFFSET as usize..][..PAGE] == page(AT, 1))
}

#[test]
fn a_page_is_not_called_lost_for_one_read_of_the_disk() {
    for design in WRITE_BACK {
        for (fault, count) in [(FAILS, 1), (FAILS, 2), (Fault::FlipBit, 1)] {
            assert!(a_reader_loses_nothing(design, fault, count), "{design:?}, {fault:?} of {count}");
        }
    }
    only_with(&[Bug::DiskReadOnce], || a_reader_loses_nothing(Design::FaceGr, Fault::FlipBit, 1));
    only_with(&[Bug::DiskErrorIsNo], || a_reader_loses_nothing(Design::FaceGr, FAILS, 2));
}

/// Does a drain go well, or end with an error of the disk that leaves everything as it was?
fn a_drain_loses_nothing(design: Design, fault: Fault, count: u64) -> bool {
    let InUse { backing, volume, file, .. } = after_a_crash(design);
    let all_fail = fault == FAILS && count > 1;
    let drained = beside(&backing, fault, count, || volume.drain().map_err(|error| error.kind()));
    if drained != if all_fail { Err(VolumeErrorKind::Io) } else { Ok(()) } {
        return false;
    }
    // Other pages are written and synced as before.
    assert_eq!(volume.state(), VolumeState::Ok, "{design:?}");
    write(&file, 21, 1);
    file.sync().unwrap();
    volume.drain().is_ok() && read(&file, AT) == Ok(page(AT, 1)) && volume.lost_pages().is_empty()
}

#[test]
fn a_drain_calls_no_page_lost_for_one_read_of_the_disk() {
    for design in WRITE_BACK {
        for (fault, count) in [(FAILS, 1), (FAILS, 2), (Fault::FlipBit, 1)] {
            assert!(a_drain_loses_nothing(design, fault, count), "{design:?}, {fault:?} of {count}");
        }
    }
    only_with(&[Bug::DiskReadOnce], || a_drain_loses_nothing(Design::FaceGr, Fault::FlipBit, 1));
    only_with(&[Bug::DiskErrorIsNo], || a_drain_loses_nothing(Design::FaceGr, FAILS, 2));
}

/// A tier that is to be closed drained stays one that needs its device, and is closed in order.
#[test]
fn a_tier_is_closed_in_order_beside_a_disk_that_cannot_be_read() {
    let InUse { flash, backing, volume, file } = after_a_crash(Design::FaceGr);
    let closed = beside(&backing, FAILS, u64::MAX, || volume.close_drained().map_err(|error| error.kind()));
    assert_eq!(closed, Err(VolumeErrorKind::Io));
    drop((file, volume));
    let volume = open(&flash, &durable(Design::FaceGr));
    let file = backing.attach(&volume).unwrap();
    assert_eq!(read(&file, AT), Ok(page(AT, 1)));
    volume.close_drained().unwrap();
}
