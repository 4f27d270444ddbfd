//! An attachment that fails half-way, and what the next one finds.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Backing, PAGE, durable, formatted, open, page};
use mezzanine_device::Device;
use mezzanine_engine::planted::{Bug, set};
use mezzanine_volume::{SidecarStore, VolumeErrorKind};

/// What a file's table says of its length cuts through a page that stage-out has written whole since. The
/// attachment after the crash cuts the disk there, and cannot write the sidecar. Is the file taken at the
/// next one?
fn a_file_that_was_cut_is_taken_again(bug: Option<Bug>) -> bool {
    const END: usize = 9 * PAGE + PAGE / 2;
    let (flash, backing) = (formatted(&durable()), Backing::new("a"));
    {
        let volume = open(&flash, &durable());
        let file = backing.attach(&volume).unwrap();
        let bytes: Vec<u8> = (0..10).flat_map(|block| page(block, 1)).collect();
        file.write_at(&bytes[..END], 0).unwrap();
        file.sync().unwrap();
        // No sync from here on: groups become durable by themselves, and the pages go to disk.
        for block in 9..19 {
            file.write_at(&page(block, 2), block * PAGE as u64).unwrap();
        }
        let mut block = 19;
        let named = || {
            let sidecar = String::from_utf8(backing.sidecar.read().unwrap().unwrap()).unwrap();
            sidecar.contains("written 9:") || sidecar.contains(",9:")
        };
        while !named() {
            file.write_at(&page(block, 2), block * PAGE as u64).unwrap();
            block += 1;
        }
        // The page leaves the tier, and its sidecar is the same.
        let mut found = vec![0; PAGE];
        let disk_reads = || volume.statistics().disk_reads;
        loop {
            let before = disk_reads();
            file.read_at(&mut found, 9 * PAGE as u64).unwrap();
            if disk_reads() > before {
                break;
            }
            assert!(named(), "the sidecar names other pages by now");
            file.write_at(&page(10, block), 10 * PAGE as u64).unwrap();
            block += 1;
        }
    }
    let volume = open(&flash, &durable());
    *backing.sidecar.refuses.lock().unwrap() = true;
    assert!(backing.attach(&volume).is_err());
    assert_eq!(backing.disk.image().len(), END, "the disk was cut");
    *backing.sidecar.refuses.lock().unwrap() = false;
    drop(volume);
    let volume = open(&flash, &durable());
    set(bug);
    let attached = backing.attach(&volume);
    set(None);
    let Ok(file) = attached else {
        assert_eq!(attached.unwrap_err().kind(), VolumeErrorKind::ChangedFile);
        return false;
    };
    assert_eq!(file.len(), END as u64);
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
