//! An attachment that fails half-way, and what the next one finds.

#![allow(clippy::unwrap_used)]

mod common;

use common::one_file::{self, WRITE_BACK, read, write};
use common::{Backing, PAGE, a_named_page_with_the_end_in_it, durable, formatted, open, page};
use mezzanine_device::memory::{Fault, Injection, Operation};
use mezzanine_device::{Device, DeviceErrorKind};
use mezzanine_engine::planted::{Bug, only_with, set};
use mezzanine_volume::{Design, VolumeErrorKind, VolumeState};

/// What a file's table says of its length cuts through a page that stage-out has written whole since. The
/// attachment after the crash cuts the disk there, and cannot write the sidecar. Is the file taken at the
/// next one?
fn a_file_that_was_cut_is_taken_again(bug: Option<Bug>) -> bool {
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    let end = a_named_page_with_the_end_in_it(&flash, &backing);
    set(bug);
    // It fails before the cut, if that is told to the sidecar first, and then behind it.
    for after in 0..2 {
        if backing.disk.image().len() == end {
            break;
        }
        let volume = open(&flash, &durable());
        *backing.sidecar.refuses_after.lock().unwrap() = Some(after);
        assert!(backing.attach(&volume).is_err());
    }
    assert_eq!(backing.disk.image().len(), end, "the disk was cut");
    *backing.sidecar.refuses_after.lock().unwrap() = None;
    let volume = open(&flash, &durable());
    let attached = backing.attach(&volume);
    set(None);
    let Ok(file) = attached else {
        assert_eq!(attached.unwrap_err().kind(), VolumeErrorKind::ChangedFile);
        return false;
    };
    assert_eq!(file.len(), end as u64);
    (0..9).all(|block| {
        let mut found = vec![0; PAGE];
        file.read_at(&mut found, block * PAGE as u64).unwrap();
        found == page(block, 1)
    })
}

#[test]
fn a_file_whose_disk_was_cut_by_an_attachment_that_failed_is_taken() {
    assert!(a_file_that_was_cut_is_taken_again(None));
    assert!(
        !a_file_that_was_cut_is_taken_again(Some(Bug::CutPageCompared)),
        "the planted fault went unnoticed"
    );
}

/// The first sidecar of a file reports a failure and is in place all the same. Another file is attached in
/// that opening. Can both be used in the next, whichever comes first?
fn both_files_are_taken(bug: Option<Bug>, failed_first: bool) -> bool {
    let flash = formatted(&durable());
    let (failed, other) = (Backing::new("a"), Backing::new("b"));
    failed.disk.write_at(&page(1, 1), 0).unwrap();
    {
        let volume = open(&flash, &durable());
        *failed.sidecar.fails.lock().unwrap() = true;
        set(bug);
        assert!(failed.attach(&volume).is_err());
        set(None);
        let file = other.attach(&volume).unwrap();
        file.write_at(&page(2, 1), 0).unwrap();
        file.sync().unwrap();
        volume.close().unwrap();
    }
    *failed.sidecar.fails.lock().unwrap() = false;
    let volume = open(&flash, &durable());
    let order = if failed_first { [(&failed, 1), (&other, 2)] } else { [(&other, 2), (&failed, 1)] };
    order.into_iter().all(|(backing, number)| {
        let Ok(file) = backing.attach(&volume) else { return false };
        let mut found = vec![0; PAGE];
        file.read_at(&mut found, 0).unwrap();
        found == page(number, 1)
    })
}

#[test]
fn a_file_that_could_not_be_attached_does_not_share_its_number() {
    for failed_first in [false, true] {
        assert!(both_files_are_taken(None, failed_first));
        assert!(
            !both_files_are_taken(Some(Bug::FailedNumberReused), failed_first),
            "the planted fault went unnoticed"
        );
    }
}

/// The sidecar's replacement reports a failure in an attachment, or when the opening starts, and is in place
/// all the same. Is the file taken when it is attached again, and when the start is gone on with?
fn a_file_is_taken_again(design: Design, guarded: bool, closed: bool, other_first: bool) -> bool {
    let config = one_file::durable(design);
    let flash = formatted(&config);
    let backing = if guarded { Backing::guarded("a") } else { Backing::new("a") };
    let other = Backing::new("b");
    let volume = open(&flash, &config);
    let files = [backing.attach(&volume).unwrap(), other.attach(&volume).unwrap()];
    for file in &files {
        (0..12).for_each(|block| write(file, block, 1));
        file.sync().unwrap();
    }
    if closed {
        volume.close().unwrap();
    }
    drop((files, volume));
    let volume = open(&flash, &config);
    let fails = |fails| *backing.sidecar.fails.lock().unwrap() = fails;
    let [file, other] = if other_first {
        let other = other.attach(&volume).unwrap();
        // Refused, and the opening has started.
        assert!(other.write_at(&page(3, 2), 3 * PAGE as u64).is_err());
        fails(true);
        assert!(backing.attach(&volume).is_err());
        fails(false);
        let Ok(file) = backing.attach(&volume) else { return false };
        [file, other]
    } else {
        let file = backing.attach(&volume).unwrap();
        fails(true);
        assert!(file.write_at(&page(3, 2), 3 * PAGE as u64).is_err());
        fails(false);
        let other = other.attach(&volume).unwrap();
        if !closed {
            // The process dies before it is.
            drop((file, other, volume));
            let volume = open(&flash, &config);
            let Ok(file) = backing.attach(&volume) else { return false };
            return read(&file, 3) == Ok(page(3, 1));
        }
        [file, other]
    };
    [file, other].iter().all(|file| {
        (0..12).all(|block| read(file, block) == Ok(page(block, 1))) && {
            write(file, 3, 2);
            file.sync().is_ok() && read(file, 3) == Ok(page(3, 2))
        }
    })
}

#[test]
fn an_attachment_that_failed_goes_well_when_it_is_repeated_in_the_same_volume() {
    only_with(&[Bug::FailedAttachmentRefused], || {
        WRITE_BACK.into_iter().all(|design| {
            let ways = (0..8).map(|way| (way & 1 > 0, way & 2 > 0, way & 4 > 0));
            ways.into_iter().all(|(guarded, closed, other_first)| {
                a_file_is_taken_again(design, guarded, closed, other_first)
            })
        })
    });
}

/// A file whose former pages the tier is to forget, in a queue that is full, so that others must go to disk
/// first, and that fails. The volume takes no changes then. The file is attached all the same: it was in the
/// volume, and who attached it again was told that it is there already. Also tells whether that happened.
fn a_file_is_attached_beside_a_disk_that_fails(rounds: u64) -> (bool, bool) {
    let config = one_file::durable(Design::FaceGsc);
    let (flash, a, b) = (formatted(&config), Backing::new("a"), Backing::new("b"));
    (0..12).for_each(|block| a.disk.write_at(&page(block, 1), block * PAGE as u64).unwrap());
    {
        let volume = open(&flash, &config);
        let [file, other] = [&a, &b].map(|backing| backing.attach(&volume).unwrap());
        one_file::go_round(&other, &volume, 2).unwrap();
        // Clean pages of a file that is current.
        assert!((0..12).all(|block| read(&file, block) == Ok(page(block, 1))));
        (0..rounds).for_each(|block| write(&other, block, 5));
        other.sync().unwrap();
    }
    let volume = open(&flash, &config);
    let other = b.attach(&volume).unwrap();
    let fault = Fault::Error(DeviceErrorKind::Io);
    b.disk.inject(Injection { operation: Operation::Write, after: 0, count: u64::MAX, fault });
    let attached = a.attach(&volume);
    let struck = b.disk.faults_struck() > 0;
    let Ok(file) = attached else { return (volume.file(&a.path).is_none(), struck) };
    if struck {
        assert!(matches!(volume.state(), VolumeState::ReadOnly { .. }));
        assert_eq!(a.attach(&volume).unwrap_err().kind(), VolumeErrorKind::ReadOnly);
    }
    let mut right = (0..12).all(|block| read(&file, block) == Ok(page(block, 1)));
    drop((file, other, volume));
    b.disk.heal();
    let volume = open(&flash, &config);
    let [file, other] = [&a, &b].map(|backing| backing.attach(&volume).unwrap());
    right &= (0..12).all(|block| read(&file, block) == Ok(page(block, 1)));
    right &= (0..rounds).all(|block| read(&other, block) == Ok(page(block, 5)));
    one_file::go_round(&other, &volume, 2).unwrap();
    (right && (0..12).all(|block| read(&file, block) == Ok(page(block, 1))), struck)
}

#[test]
fn an_attachment_that_cannot_have_former_pages_forgotten_goes_well() {
    only_with(&[Bug::UnforgottenRefused], || {
        let found: Vec<_> = (1..30).map(a_file_is_attached_beside_a_disk_that_fails).collect();
        assert!(found.iter().any(|(_, struck)| *struck), "no disk was struck");
        found.iter().all(|(right, _)| *right)
    });
}
