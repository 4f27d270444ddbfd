//! Pages that flash does not give back, whose records say that only flash has them, and that disk has all the
//! same: stage-out or a drain had written them before a crash.
//!
//! A server's host never looked. Reads and drains were refused for the sake of such a page, and when the tier
//! was given up because its device could not be written, its place on disk, with the newest version in it,
//! was overwritten by what no server takes for a page.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::fs;
use std::os::unix::fs::FileExt;

use machine::{Machine, checkpoint, flash_offset, id, nothing, on_disk, page, read, write};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Failure, SyncMode};
use mezzanine_ffi::host::Host;
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::startup::Adoption;

/// The block that flash does not give back.
const SPOILT: u32 = 5;
const BLOCKS: u32 = 256;

/// A server after a crash before which everything was drained, with version 2 of [`SPOILT`] on disk, and
/// nowhere else; or only version 1 there, if something `newer` than what was drained was written.
fn after_a_crash(mode: SyncMode, newer: bool) -> (Machine, Host) {
    let machine = Machine::new(mode);
    let (host, _) = machine.start(10).unwrap();
    for block in 0..BLOCKS {
        write(&host, block, if newer { 1 } else { 2 });
    }
    host.drain_all().unwrap();
    if newer {
        write(&host, SPOILT, 2);
    }
    checkpoint(&host, 20);
    for block in BLOCKS..BLOCKS + 100 {
        write(&host, block, 2);
    }
    host.sync().unwrap();
    drop(host);
    let (host, started) = machine.start(20).unwrap();
    assert_eq!(started.adoption, Adoption::Adopted);
    assert!(host.holds_dirty(&id(SPOILT)), "the record knows of no drain");
    let flash = fs::OpenOptions::new().write(true).open(machine.root.join("flash")).unwrap();
    flash.write_all_at(&[0xEE; 512], flash_offset(&host, SPOILT) + 1024).unwrap();
    (machine, host)
}

/// Writes others until stage-out has come to the page and taken it for lost.
fn until_it_is_lost(host: &Host) {
    let more = (1000..9000).find(|&block| {
        write(host, block, 1);
        !host.tier().lost().is_empty()
    });
    assert!(more.is_some(), "stage-out has not come to the block");
    assert_eq!(host.tier().lost(), [id(SPOILT)]);
}

/// In mode `drained` such a read made the server restart from its log, with an empty tier.
#[test]
fn a_read_finds_the_page_on_disk() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        only_with(&[Bug::DiskNotCompared], || {
            let (_machine, host) = after_a_crash(mode, false);
            host.read(&id(SPOILT), &mut page(0)) == Found::OnDisk && host.tier().failure().is_none()
        });
    }
    let (machine, host) = after_a_crash(SyncMode::Durable, false);
    until_it_is_lost(&host);
    assert_eq!(read(&host, &machine, SPOILT), Some(2));
}

#[test]
fn an_older_version_on_disk_does_not_answer() {
    let (machine, host) = after_a_crash(SyncMode::Durable, true);
    assert_eq!(on_disk(&machine, SPOILT), page(1));
    assert_eq!(host.read(&id(SPOILT), &mut page(0)), Found::Lost);
    until_it_is_lost(&host);
    assert!(host.drain_all().is_err_and(|refusal| refusal.is_of_lost_pages()));
    host.tier().report_failure(Failure::FlashWrite);
    host.give_up().unwrap();
    assert_eq!(on_disk(&machine, SPOILT), nothing());
}

/// Base backups and ordinary stops need the page on disk, where it is.
#[test]
fn a_drain_finds_the_page_on_disk() {
    drain_finds_the_page_on_disk(true);
}

/// A drain takes no page for lost, so it has to look for those that it has missed, too.
#[test]
fn a_drain_finds_a_page_on_disk_that_nobody_has_taken_for_lost() {
    drain_finds_the_page_on_disk(false);
    let (_machine, host) = after_a_crash(SyncMode::Durable, true);
    let refusal = host.drain_all().unwrap_err();
    assert!(refusal.message.starts_with("1 pages that only"), "{}", refusal.message);
    assert!(host.tier().lost().is_empty());
}

fn drain_finds_the_page_on_disk(known: bool) {
    only_with(&[Bug::DiskNotCompared], || {
        let (machine, host) = after_a_crash(SyncMode::Durable, false);
        if known {
            until_it_is_lost(&host);
        }
        let syncs = machine.syncs();
        if host.drain_unless(None, &|| false).is_err() || host.checkpoint_written(true).is_err() {
            return false;
        }
        assert!(machine.syncs() > syncs, "disk was not synced");
        assert!(host.tier().lost().is_empty() && !host.holds_dirty(&id(SPOILT)));
        assert_eq!(read(&host, &machine, SPOILT), Some(2));
        let closed = host.close(true).unwrap();
        closed.current && closed.lost.is_none() && on_disk(&machine, SPOILT) == page(2)
    });
}

/// A write past the tier puts nothing in the place of the page before it.
#[test]
fn a_write_past_the_tier_leaves_the_page_on_disk() {
    only_with(&[Bug::DiskNotCompared], || {
        [true, false].into_iter().all(|known| {
            let (machine, host) = after_a_crash(SyncMode::Durable, false);
            if known {
                until_it_is_lost(&host);
            }
            host.overwrite(&id(SPOILT)).unwrap();
            assert!(!host.holds(&id(SPOILT)));
            on_disk(&machine, SPOILT) == page(2)
        })
    });
}

/// The flash device that loses a page is the one that cannot be written next.
#[test]
fn a_tier_that_is_given_up_leaves_the_page_on_disk() {
    only_with(&[Bug::DiskNotCompared], || {
        [true, false].into_iter().all(|known| {
            let (machine, host) = after_a_crash(SyncMode::Durable, false);
            if known {
                until_it_is_lost(&host);
            }
            host.tier().report_failure(Failure::FlashWrite);
            host.give_up().unwrap();
            assert_ne!(on_disk(&machine, 6), nothing());
            on_disk(&machine, SPOILT) == page(2)
        })
    });
}
