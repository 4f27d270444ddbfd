//! A slot directory on flash, current at every moment (design `tac`): pages are rewritten, offered, evicted
//! and dropped, and their homes given to others, while they are read, the disk is synced and the power may
//! fail.
//!
//! Checked beside what the other models check, whenever the disk changes and at moments between: of whatever
//! part of the writes since the last flush flash keeps, each page that a recovery finds there is whole, and
//! the version that disk has, durably.

use mezzanine_engine::planted::Bug;
use mezzanine_engine::{Blank, Design, IdRange, Lookup, PageId, PolicyParameters, StageIn, StageKind, Tier};
use mezzanine_ground::interleave::{explore, point};

use crate::schedules::{check, finds};
use crate::world::{Durable, OWNER, PAGE, Thread, World, page_of, tiny_of, version_of};

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

/// A tier whose homes are all taken but those that are kept coming: a page comes in if it is hotter than the
/// coldest, which leaves.
fn full() -> World {
    let mut config = tiny_of(Design::Tac, 1);
    // A page is as hot as it was often asked for.
    config.policy = PolicyParameters {
        extent_pages: Some(1),
        random_weight: Some(1),
        ageing_period: Some(0),
        ..PolicyParameters::default()
    };
    let world = World::new(&config);
    for block in 0.. {
        world.fill(&id(block));
        while world.work(OWNER) {}
        if world.tier.holds(&id(block)).is_none() {
            break;
        }
    }
    world
}

impl World {
    /// Reads a page and offers it if it came from disk. The host keeps it locked, so that nobody writes it
    /// meanwhile.
    fn fill(&self, id: &PageId) {
        let _locked = self.page_lock(id).read().unwrap();
        if let (version, Some(token)) = self.read_or_miss(id) {
            self.offer(id, version, Some(token));
        }
    }

    fn read_unwritten(&self, id: &PageId) {
        let _locked = self.page_lock(id).read().unwrap();
        self.read(id);
    }

    /// Writes the next version of a page to the tier, and then to disk, as it says.
    fn write_tier_first(&self, id: &PageId) {
        let _locked = self.page_lock(id).write().unwrap();
        let writing = self.disk_lock.read().unwrap();
        let version = self.issue(id);
        let also_disk = StageIn::Staged { also_disk: true };
        let staged = self.stage(id, version);
        assert!([also_disk, StageIn::Refused].contains(&staged), "{staged:?} of a dirty page");
        self.to_disk(id, version);
        drop(writing);
        if staged == StageIn::Refused {
            self.invalidate(id);
        }
        self.taken(id, version);
    }

    /// The other way round, so that the disk has it whatever becomes of the tier.
    fn write_disk_first(&self, id: &PageId) {
        let _locked = self.page_lock(id).write().unwrap();
        let writing = self.disk_lock.read().unwrap();
        while self.tier.before_disk_write(id).is_err() {
            self.work_or_wait(OWNER);
        }
        let version = self.issue(id);
        self.to_disk(id, version);
        drop(writing);
        point();
        if self.stage(id, version) == StageIn::Refused {
            self.invalidate(id);
        }
        self.taken(id, version);
    }

    /// Drops the pages of a file that no other thread uses. The disk has forgotten them durably when it is
    /// synced.
    fn drop_file(&self, range: &IdRange) {
        let _writing = self.disk_lock.read().unwrap();
        while self.tier.invalidate_range(range).is_err() {
            self.work_or_wait(OWNER);
        }
        self.disk.lock().unwrap().now.retain(|id, _| !range.contains(id));
        for (_, known) in self.known.lock().unwrap().iter_mut().filter(|(id, _)| range.contains(id)) {
            (known.gone, known.seen) = (known.issued, 0);
        }
    }

    fn stage(&self, id: &PageId, version: u64) -> StageIn {
        loop {
            match self.tier.stage_in(id, &page_of(id, version), StageKind::Dirty, 0) {
                StageIn::Full => self.work_or_wait(OWNER),
                staged => return staged,
            }
        }
    }

    fn invalidate(&self, id: &PageId) {
        while self.tier.invalidate(id).is_err() {
            self.work_or_wait(OWNER);
        }
    }

    fn to_disk(&self, id: &PageId, version: u64) {
        point();
        self.disk.lock().unwrap().now.insert(*id, version);
        self.power_may_fail();
    }

    /// Of what flash has not flushed nothing is there afterwards; or everything, or every other write.
    fn power_may_fail(&self) {
        self.is_right_after(|_| false);
        let keeps: [fn(usize) -> bool; 3] = [|_| true, |n| n % 2 == 0, |n| n % 2 == 1];
        let unflushed = self.flash.lock().unwrap().unflushed.len();
        if unflushed > 0 {
            self.is_right_after(keeps[unflushed % keeps.len()]);
        }
    }

    /// Recovers from what flash would have now, and compares each page that it names with disk.
    fn is_right_after(&self, keep: fn(usize) -> bool) {
        let before = explore(false);
        let left = {
            let flash = self.flash.lock().unwrap();
            let mut left = flash.durable.clone();
            for (_, (offset, bytes)) in flash.unflushed.iter().enumerate().filter(|(n, _)| keep(*n)) {
                left[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            left
        };
        let superblock = self.superblock.lock().unwrap().clone();
        let region = Blank::heap(self.tier.geometry().region_bytes());
        let recovered = Tier::recover(region, &superblock, OWNER, &mut Durable(&left)).unwrap();
        recovered.tier.check();
        let disk = self.disk.lock().unwrap();
        for (id, known) in self.promised(None) {
            let Lookup::Flash(found) = recovered.tier.lookup(&id, &mut vec![0; PAGE]) else { continue };
            let bytes = &left[found.offset as usize..][..PAGE];
            assert!(
                recovered.tier.verify(&found, bytes),
                "{id:?}: its slot is valid, its home has another page"
            );
            let version = version_of(&id, bytes);
            let on_disk = [&disk.now, &disk.synced].map(|disk| disk.get(&id).copied().unwrap_or(0));
            // What was dropped may be there until a sync says that it is not.
            let dropped = on_disk[0] == 0 && (1..=known.gone).contains(&version);
            assert!(
                on_disk == [version, version] || dropped,
                "{id:?}: version {version} on flash, {} on disk, {} of them durably",
                on_disk[0],
                on_disk[1]
            );
        }
        explore(before);
    }
}

/// Asks for pages until they are hot enough to come in, and has them written.
const FILL: Thread = |world| {
    for block in 100..105 {
        for _ in 0..2 {
            world.fill(&id(block));
        }
        while world.work(OWNER) {}
    }
};

/// The coldest, which leave for them.
const READ: Thread = |world| {
    for block in 0..4 {
        world.read_unwritten(&id(block));
    }
};

const WRITE: Thread = |world| {
    for block in [0, 2, 0] {
        world.write_tier_first(&id(block));
    }
};

const WRITE_PAST: Thread = |world| {
    for block in [1, 3, 1] {
        world.write_disk_first(&id(block));
    }
};

const SYNC: Thread = |world| {
    for _ in 0..3 {
        world.sync_disk();
        world.power_may_fail();
    }
};

const CUT: Thread = |world| {
    for _ in 0..4 {
        point();
        world.power_may_fail();
    }
};

const DROP: Thread = |world| {
    let file = PageId::volume(9, 0);
    for _ in 0..2 {
        world.write_tier_first(&file);
        world.drop_file(&IdRange { start: file, count: 4, shift: 0 });
        world.fill(&file);
        world.fill(&file);
        while world.work(OWNER) {}
        world.power_may_fail();
    }
    world.write_disk_first(&file);
};

fn rewritten() {
    full().run(1, &[WRITE, WRITE_PAST, SYNC, CUT]);
}

fn given_to_others() {
    full().run(1, &[FILL, READ]);
}

fn dropped() {
    full().run(1, &[DROP, FILL, SYNC, CUT]);
}

#[test]
fn pages_that_are_rewritten() {
    check(rewritten);
}

#[test]
fn slots_that_are_given_to_other_pages() {
    check(given_to_others);
}

#[test]
fn pages_that_are_dropped() {
    check(dropped);
}

#[test]
fn a_slot_that_stays_valid_is_noticed() {
    finds(Bug::SlotLeftValid, rewritten, 100);
}

#[test]
fn a_page_that_goes_to_disk_too_early_is_noticed() {
    finds(Bug::SlotInvalidUnflushed, rewritten, 100);
}

#[test]
fn a_slot_that_is_valid_before_the_disk_is_synced_is_noticed() {
    finds(Bug::SlotBeforeDiskSync, rewritten, 100);
}

#[test]
fn a_slot_that_is_valid_while_its_page_is_replaced_is_noticed() {
    finds(Bug::SlotValidWhileReplaced, rewritten, 100);
}

#[test]
fn a_home_that_is_given_to_others_too_early_is_noticed() {
    finds(Bug::HomeReusedEarly, dropped, 1000);
}

#[test]
fn a_read_that_is_not_confirmed_is_noticed() {
    finds(Bug::ReadUnconfirmed, given_to_others, 2000);
}
