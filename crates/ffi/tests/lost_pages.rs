//! Pages are lost in sync mode `durable`: what needs them is refused, and nothing else is.
//!
//! A refusal for the sake of lost pages used to pass for one of a device that has failed. So one bad sector
//! turned base backups, forced checkpoints, writes past the tier of that very page and every ordinary stop
//! into a panic of the whole server, again after each restart.

#![allow(clippy::unwrap_used, missing_docs)]

mod machine;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use machine::{
    Machine, Relations, checkpoint, flash_offset, id, nothing, offer, on_disk, page, read, start, write,
};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Failure, IdRange, LogPosition, Lookup, PageId, SyncMode};
use mezzanine_ffi::host::{DiskRead, FlashIo, Host, Server};
use mezzanine_ffi::message::Refusal;
use mezzanine_ffi::pages::Found;
use mezzanine_ffi::startup::Adoption;

/// The block that is lost.
const LOST: u32 = 5;
const BLOCKS: u32 = 256;

/// What the server was asked to do on disk, and where flash is damaged during one read.
#[derive(Default)]
struct Watched {
    /// Per page, whether what was written is no page that a server accepts; `None`: a sync.
    disk: Mutex<Vec<Option<(PageId, bool)>>>,
    flash: PathBuf,
    /// Where the next read finds damage; 0: nowhere.
    damaged: AtomicU64,
}

struct Watching(Relations, Arc<Watched>);

impl Watching {
    /// Turns the damage on or off.
    fn turn(&self, offset: u64) {
        let flash = fs::OpenOptions::new().read(true).write(true).open(&self.1.flash).unwrap();
        let mut byte = [0];
        flash.read_exact_at(&mut byte, offset).unwrap();
        flash.write_all_at(&[!byte[0]], offset).unwrap();
    }
}

impl Server for Watching {
    fn write_pages(&self, pages: &[(PageId, &[u8])]) -> Vec<PageId> {
        self.1.disk.lock().unwrap().extend(pages.iter().map(|(id, bytes)| Some((*id, *bytes == nothing()))));
        self.0.write_pages(pages)
    }

    fn read_page(&self, id: &PageId, page: &mut [u8]) -> DiskRead {
        self.0.read_page(id, page)
    }

    fn sync_pages(&self) -> bool {
        self.1.disk.lock().unwrap().push(None);
        self.0.sync_pages()
    }

    fn may_work(&self) -> bool {
        true
    }

    fn wait(&self, seen: u64) {
        self.0.wait(seen);
    }

    fn progressed(&self) {}

    fn mark_control_file(&self, dirty: bool) -> Result<(), Refusal> {
        self.0.mark_control_file(dirty)
    }

    fn log_position(&self) -> LogPosition {
        self.0.log_position()
    }

    fn log_reaches(&self, log: LogPosition) -> Result<bool, Refusal> {
        self.0.log_reaches(log)
    }

    fn flash_begins(&self, io: FlashIo) {
        let offset = self.1.damaged.load(Ordering::SeqCst);
        if io == FlashIo::Read && offset != 0 {
            self.turn(offset);
        }
    }

    fn flash_ended(&self, io: FlashIo) {
        if io == FlashIo::Read {
            let offset = self.1.damaged.swap(0, Ordering::SeqCst);
            if offset != 0 {
                self.turn(offset);
            }
        }
    }
}

/// Starts the server and tells of what it does on disk.
fn watched(machine: &Machine) -> (Host, Arc<Watched>) {
    let watched = Arc::new(Watched { flash: machine.root.join("flash"), ..Watched::default() });
    let server = Watching(Relations(Arc::clone(&machine.disk)), Arc::clone(&watched));
    let mut host = Host::open(machine.settings(), None, Box::new(server)).unwrap();
    host.lock_device().unwrap();
    machine::give_memory(&mut host);
    host.start(&start(10)).unwrap();
    (host, watched)
}

/// A server whose blocks have version 1 on disk and version 2 in the tier alone, but for [`LOST`]: that one
/// is lost.
fn with_a_lost_page(machine: &Machine) -> (Host, Arc<Watched>) {
    let (host, watched) = watched(machine);
    for version in 1..3 {
        host.drain_all().unwrap();
        for block in 0..BLOCKS {
            write(&host, block, version);
        }
    }
    host.sync().unwrap();
    let flash = fs::OpenOptions::new().write(true).open(machine.root.join("flash")).unwrap();
    flash.write_all_at(&[0xEE; 512], flash_offset(&host, LOST) + 1024).unwrap();
    let more = (1000..9000).find(|&block| {
        write(&host, block, 1);
        !host.tier().lost().is_empty()
    });
    assert!(more.is_some(), "stage-out has not come to the block");
    assert_eq!(host.tier().lost(), [id(LOST)]);
    (host, watched)
}

fn is_lost(host: &Host) -> bool {
    host.read(&id(LOST), &mut page(0)) == Found::Lost
}

/// Whether everybody else goes on: every other block is as it was written last, and checkpoints complete.
fn goes_on(host: &Host, machine: &Machine) -> bool {
    checkpoint(host, 20);
    host.tier().failure().is_none()
        && (0..BLOCKS).filter(|&block| block != LOST).all(|block| read(host, machine, block) == Some(2))
}

/// Base backups, forced checkpoints, syncs of a relation and drains are refused because of the page, as what
/// they are, and write everything else.
#[test]
fn what_needs_the_page_on_disk_is_refused_for_that() {
    only_with(&[Bug::LostCountsAsDrained], || {
        let machine = Machine::new(SyncMode::Durable);
        let (host, _) = with_a_lost_page(&machine);
        let fork = |first, count| IdRange::fork_blocks(5, 1663, 1000, 0, first, count);
        let refused = [
            host.drain_all(),
            host.checkpoint_written(true),
            host.flush_range(&fork(0, u64::MAX)),
            host.drain_unless(None, &|| false).map(|_| ()),
        ];
        host.flush_range(&fork(LOST + 1, u64::MAX)).unwrap();
        let told = refused.iter().all(|refused| refused.as_ref().is_err_and(Refusal::is_of_lost_pages));
        assert_eq!(on_disk(&machine, LOST), page(1), "nobody says that this is the newest version");
        (0..BLOCKS).filter(|&block| block != LOST).all(|block| on_disk(&machine, block) == page(2))
            && told
            && is_lost(&host)
            && goes_on(&host, &machine)
    });
}

/// An ordinary stop, which drains, ended in a panic, and so did the next one.
#[test]
fn a_server_with_a_lost_page_stops_in_order_and_starts() {
    only_with(&[Bug::LostEndsServer], || {
        let machine = Machine::new(SyncMode::Durable);
        let (mut host, _) = with_a_lost_page(&machine);
        for _ in 0..2 {
            let Ok(closed) = host.close(true) else { return false };
            assert!(!closed.current && closed.lost.is_some_and(|refusal| refusal.is_of_lost_pages()));
            assert!(*machine.disk.marked.lock().unwrap(), "the files alone are out of date");
            drop(host);
            let started = machine.start(10).unwrap();
            assert_eq!(started.1.adoption, Adoption::Adopted);
            host = started.0;
            assert!(is_lost(&host));
        }
        // What heals it makes the next stop one that drains.
        assert!(goes_on(&host, &machine));
        write(&host, LOST, 3);
        let closed = host.close(true).unwrap();
        closed.current && closed.lost.is_none() && on_disk(&machine, LOST) == page(3)
    });
}

/// The very write that heals the page was a panic. It is none, and a crash before it is durable finds no
/// older version.
#[test]
fn a_write_past_the_tier_heals_a_lost_page() {
    let heals = |crash: bool| {
        let machine = Machine::new(SyncMode::Durable);
        let (host, watched) = with_a_lost_page(&machine);
        watched.disk.lock().unwrap().clear();
        if host.overwrite(&id(LOST)).is_err() {
            return false;
        }
        let disk = watched.disk.lock().unwrap().clone();
        let marked = disk.ends_with(&[Some((id(LOST), true)), None]);
        if crash {
            host.sync().unwrap();
            drop(host);
            let (host, _) = machine.start(10).unwrap();
            let found = host.read(&id(LOST), &mut page(0));
            return marked && found == Found::OnDisk && on_disk(&machine, LOST) == nothing();
        }
        machine.disk.pages.lock().unwrap().insert(*id(LOST).as_bytes(), page(3));
        host.drain_all().unwrap();
        read(&host, &machine, LOST) == Some(3) && goes_on(&host, &machine)
    };
    for bug in [Bug::LostEndsServer, Bug::LostForgotten] {
        only_with(&[bug], || heals(true));
    }
    only_with(&[Bug::LostEndsServer], || heals(false));
}

/// Its owner goes on without it: reads find what no server accepts, over a crash as well, everything else is
/// right, and files can be made current again. A second time, it is not lost any more.
#[test]
fn a_lost_page_is_given_up_by_name() {
    let given_up = |crash: bool| {
        let machine = Machine::new(SyncMode::Durable);
        let (host, watched) = with_a_lost_page(&machine);
        watched.disk.lock().unwrap().clear();
        host.give_up_page(&id(LOST)).unwrap();
        let marked = watched.disk.lock().unwrap().ends_with(&[Some((id(LOST), true)), None]);
        assert!(host.give_up_page(&id(LOST)).is_err_and(|refusal| !refusal.is_of_lost_pages()));
        let (mut host, mut drained) = (host, true);
        if crash {
            drop(host);
            host = machine.start(10).unwrap().0;
        } else {
            drained = host.tier().lost().is_empty() && host.drain_all().is_ok();
        }
        let found = host.read(&id(LOST), &mut page(0));
        marked
            && found == Found::OnDisk
            && on_disk(&machine, LOST) == nothing()
            && drained
            && goes_on(&host, &machine)
            && host.close(true).unwrap().current
    };
    only_with(&[Bug::GivenUpUnsynced, Bug::LostForgotten], || given_up(true));
    only_with(&[Bug::LostForgotten], || given_up(false));
}

/// What can be had from anywhere is not given up, and nothing is changed: a page that is read, from memory or
/// flash, one that disk alone has, one that it has as well, and any in the other sync modes.
#[test]
fn a_page_that_is_not_lost_is_not_given_up() {
    let refused = |mode: SyncMode| {
        let machine = Machine::new(mode);
        let (host, _) = watched(&machine);
        for block in 0..BLOCKS {
            write(&host, block, 1);
        }
        host.drain_all().unwrap();
        for block in 0..BLOCKS / 2 {
            write(&host, block, 2);
        }
        machine.disk.pages.lock().unwrap().insert(*id(9999).as_bytes(), page(7));
        let all_refused = [0, LOST, BLOCKS - 1, 9999].into_iter().all(|block| {
            host.give_up_page(&id(block)).is_err_and(|refusal| {
                !refusal.is_of_lost_pages() && !refusal.hint.is_empty() && host.tier().failure().is_none()
            })
        });
        all_refused
            && read(&host, &machine, LOST) == Some(2)
            && read(&host, &machine, BLOCKS - 1) == Some(1)
            && on_disk(&machine, 9999) == page(7)
    };
    only_with(&[Bug::GivenUpUnasked], || refused(SyncMode::Durable));
    assert!(refused(SyncMode::Drained));
    assert!(refused(SyncMode::Through));
}

/// A page that disk has in this very version, though its record on flash knows nothing of it, is not lost.
#[test]
fn a_page_that_disk_has_is_not_given_up() {
    only_with(&[Bug::GivenUpUnasked, Bug::DiskNotCompared], || {
        let machine = Machine::new(SyncMode::Durable);
        let (host, _) = with_a_lost_page(&machine);
        machine.disk.pages.lock().unwrap().insert(*id(LOST).as_bytes(), page(2));
        host.give_up_page(&id(LOST)).is_err() && on_disk(&machine, LOST) == page(2)
    });
}

/// Of a tier that cannot be written any more everything is saved but the page, whose older version on disk
/// nobody may take for it.
#[test]
fn a_tier_with_a_lost_page_is_given_up_when_it_cannot_be_written() {
    let saved = || {
        let machine = Machine::new(SyncMode::Durable);
        let (host, _) = with_a_lost_page(&machine);
        let dirty = host.tier().valid_and_dirty().1;
        host.tier().report_failure(Failure::FlashWrite);
        let saved = host.give_up();
        if saved.is_err() {
            return false;
        }
        assert_eq!(saved.unwrap(), dirty - 1);
        drop(host);
        let (host, started) = machine.start(10).unwrap();
        assert_eq!(started.adoption, Adoption::Formatted);
        assert!(
            (0..BLOCKS).filter(|&block| block != LOST).all(|block| read(&host, &machine, block) == Some(2))
        );
        on_disk(&machine, LOST) == nothing()
    };
    only_with(&[Bug::LostEndsServer], saved);
    only_with(&[Bug::LostForgotten], saved);
}

/// While a tier is given up, a read goes well only when it is repeated. That was the end of the server.
#[test]
fn a_page_that_is_saved_is_read_twice() {
    only_with(&[Bug::SavedAtOnce], || {
        let machine = Machine::new(SyncMode::Durable);
        let (host, watched) = watched(&machine);
        write(&host, LOST, 1);
        host.sync().unwrap();
        // Staging memory is needed for others, which are clean.
        for block in 1000..1000 + 2 * BLOCKS * 16 {
            if matches!(host.tier().lookup(&id(LOST), &mut page(0)), Lookup::Flash(_)) {
                break;
            }
            offer(&host, &id(block), &page(1), 1);
            while host.work() {}
        }
        watched.damaged.store(flash_offset(&host, LOST) + 100, Ordering::SeqCst);
        host.tier().report_failure(Failure::FlashWrite);
        let saved = host.give_up();
        assert_eq!(watched.damaged.load(Ordering::SeqCst), 0, "the page was not read");
        saved == Ok(1) && on_disk(&machine, LOST) == page(1)
    });
}
