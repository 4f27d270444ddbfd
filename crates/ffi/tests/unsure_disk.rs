//! A page that flash does not give back and that disk has, as in `lost_on_disk`; but the disk does not give
//! it back at once either.
//!
//! One read of the disk that failed, or brought another bit, said that the page was lost. When the tier was
//! given up then, because its device could not be written, the page's place on disk, with the newest version
//! in it, was overwritten by what no server takes for a page.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use machine::{
    Machine, Relations, checkpoint, flash_offset, give_memory, id, nothing, on_disk, page, start, write,
};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Failure, LogPosition, PageId, SyncMode};
use mezzanine_ffi::host::{DiskRead, Host, Server};
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::startup::Adoption;

/// The block that flash does not give back.
const SPOILT: u32 = 5;
const BLOCKS: u32 = 256;

/// What becomes of a read of the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Fails,
    /// It brings another bit.
    Flips,
}

/// The next so many reads of the disk go so.
type Faults = Arc<Mutex<(Option<Fault>, u64)>>;

struct Faulty {
    relations: Relations,
    faults: Faults,
    reads: Arc<AtomicU64>,
}

impl Server for Faulty {
    fn write_pages(&self, pages: &[(PageId, &[u8])]) -> Vec<PageId> {
        self.relations.write_pages(pages)
    }

    fn read_page(&self, id: &PageId, page: &mut [u8]) -> DiskRead {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let read = self.relations.read_page(id, page);
        let mut faults = self.faults.lock().unwrap();
        let (Some(fault), 1..) = *faults else { return read };
        faults.1 -= 1;
        match fault {
            Fault::Fails => DiskRead::Failed,
            Fault::Flips => {
                page[100] ^= 1;
                read
            }
        }
    }

    fn sync_pages(&self) -> bool {
        self.relations.sync_pages()
    }

    fn may_work(&self) -> bool {
        true
    }

    fn wait(&self, seen: u64) {
        self.relations.wait(seen);
    }

    fn progressed(&self) {}

    fn mark_control_file(&self, dirty: bool) -> Result<(), Refusal> {
        self.relations.mark_control_file(dirty)
    }

    fn log_position(&self) -> LogPosition {
        self.relations.log_position()
    }

    fn log_reaches(&self, log: LogPosition) -> Result<bool, Refusal> {
        self.relations.log_reaches(log)
    }
}

struct Unsure {
    machine: Machine,
    host: Host,
    faults: Faults,
    reads: Arc<AtomicU64>,
}

impl Unsure {
    /// What `operation` brings while the next `count` reads of the disk go wrong.
    fn beside<T>(&self, fault: Fault, count: u64, operation: impl FnOnce(&Host) -> T) -> T {
        *self.faults.lock().unwrap() = (Some(fault), count);
        let reads = self.reads.load(Ordering::SeqCst);
        let outcome = operation(&self.host);
        assert!(self.reads.load(Ordering::SeqCst) > reads, "disk was not read");
        *self.faults.lock().unwrap() = (None, 0);
        outcome
    }

    fn is_whole_on_disk(&self) -> bool {
        on_disk(&self.machine, SPOILT) == page(2)
    }
}

/// A server after a crash: version 2 of [`SPOILT`] is on disk and nowhere else, and its record knows of no
/// drain. With `known`, stage-out has come to it and taken it for lost.
fn after_a_crash(mode: SyncMode, known: bool) -> Unsure {
    let machine = Machine::new(mode);
    let (host, _) = machine.start(10).unwrap();
    (0..BLOCKS).for_each(|block| _ = write(&host, block, 2));
    host.drain_all().unwrap();
    checkpoint(&host, 20);
    (BLOCKS..BLOCKS + 100).for_each(|block| _ = write(&host, block, 2));
    host.sync().unwrap();
    drop(host);
    let (faults, reads) = <(Faults, Arc<AtomicU64>)>::default();
    let relations = Relations(Arc::clone(&machine.disk));
    let server = Box::new(Faulty { relations, faults: Arc::clone(&faults), reads: Arc::clone(&reads) });
    let mut host = Host::open(machine.settings(), None, server).unwrap();
    host.lock_device().unwrap();
    give_memory(&mut host);
    assert_eq!(host.start(&start(20)).unwrap().adoption, Adoption::Adopted);
    assert!(host.holds_dirty(&id(SPOILT)), "the record knows of no drain");
    let flash = fs::OpenOptions::new().write(true).open(machine.root.join("flash")).unwrap();
    flash.write_all_at(&[0xEE; 512], flash_offset(&host, SPOILT) + 1024).unwrap();
    if known {
        let more = (1000..9000).find(|&block| {
            write(&host, block, 1);
            !host.tier().lost().is_empty()
        });
        assert!(more.is_some() && host.tier().lost() == [id(SPOILT)], "stage-out has not come to the block");
    }
    Unsure { machine, host, faults, reads }
}

/// `holds` says whether all is right beside so many faults of the disk; and not so with either rule taken
/// out.
fn whatever_one_read_brings(holds: impl Fn(Fault, u64) -> bool) {
    only_with(&[Bug::DiskReadOnce], || holds(Fault::Flips, 1));
    only_with(&[Bug::DiskErrorIsNo], || holds(Fault::Fails, 2));
    assert!(holds(Fault::Fails, 1));
}

/// The flash device that has lost a page is the one that cannot be written next.
#[test]
fn a_tier_that_is_given_up_leaves_a_page_on_disk_that_is_not_read_at_once() {
    whatever_one_read_brings(|fault, count| {
        let unsure = after_a_crash(SyncMode::Durable, true);
        unsure.host.tier().report_failure(Failure::FlashWrite);
        let given_up = unsure.beside(fault, count, Host::give_up);
        if count > 1 {
            // The server restarts, from what is durable.
            assert!(given_up.is_err() || on_disk(&unsure.machine, SPOILT) == nothing(), "{given_up:?}");
        } else {
            given_up.unwrap();
        }
        unsure.is_whole_on_disk()
    });
}

/// In mode `drained` the tier was given up for such a read.
#[test]
fn a_page_is_not_called_lost_for_one_read_of_the_disk() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        whatever_one_read_brings(|fault, count| {
            let unsure = after_a_crash(mode, false);
            let found = unsure.beside(fault, count, |host| host.read(&id(SPOILT), &mut page(0)));
            let expected = if count > 1 { Found::Unknown } else { Found::OnDisk };
            found == expected
                && unsure.host.tier().failure().is_none()
                && unsure.host.read(&id(SPOILT), &mut page(0)) == Found::OnDisk
        });
    }
}

/// A write past the tier puts nothing in the place of the page before it is known to be lost.
#[test]
fn a_write_past_the_tier_overwrites_no_page_that_disk_may_have() {
    for known in [false, true] {
        only_with(&[Bug::DiskErrorIsNo], || {
            let unsure = after_a_crash(SyncMode::Durable, known);
            let overwritten = unsure.beside(Fault::Fails, u64::MAX, |host| host.overwrite(&id(SPOILT)));
            let held = overwritten.is_err() && unsure.is_whole_on_disk();
            held && unsure.host.overwrite(&id(SPOILT)).is_ok() && unsure.is_whole_on_disk()
        });
    }
}

/// Nor is it given up by name while nobody knows that.
#[test]
fn no_page_that_disk_may_have_is_given_up() {
    only_with(&[Bug::DiskErrorIsNo], || {
        let unsure = after_a_crash(SyncMode::Durable, false);
        let given_up = unsure.beside(Fault::Fails, u64::MAX, |host| host.give_up_page(&id(SPOILT)));
        let held = given_up.is_err_and(|refusal| refusal.is_of_lost_pages()) && unsure.is_whole_on_disk();
        held && unsure.host.give_up_page(&id(SPOILT)).is_err() && unsure.is_whole_on_disk()
    });
}

/// A drain fails with an error of the disk at most, and tells nobody to restore anything.
#[test]
fn a_drain_calls_no_page_lost_for_one_read_of_the_disk() {
    whatever_one_read_brings(|fault, count| {
        let unsure = after_a_crash(SyncMode::Durable, false);
        let drained = unsure.beside(fault, count, Host::drain_all);
        let said = match &drained {
            Ok(()) => count == 1,
            Err(refusal) => {
                count > 1
                    && refusal.hint.contains("nothing is known to be lost")
                    && !refusal.hint.contains("backup")
            }
        };
        said && unsure.host.drain_all().is_ok() && unsure.host.tier().failure().is_none()
    });
}
