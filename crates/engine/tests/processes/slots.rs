//! What a host does for a design with a slot directory: no page goes to disk before flash has forgotten the
//! older one, and the tier is told when the disk is synced. A write that a process died at is not on disk:
//! syncs count again when its heir has settled it.

use std::os::unix::fs::FileExt;

use mezzanine_engine::planted::outside;
use mezzanine_engine::{Blank, Lookup, PageId, StageIn, StageKind, Tier};

use crate::files::{PAGE, page, version_of};
use crate::host::{Change, Worker};
use crate::ledger::{BLOCKS, Field, PROCESSES};

impl Worker<'_> {
    pub(crate) fn has_slots(&self) -> bool {
        self.tier.geometry().config().design.has_slots()
    }

    /// Whether what lies there on flash is blocks of slots.
    pub(crate) fn is_slots(&self, offset: u64) -> bool {
        let geometry = self.tier.geometry();
        self.has_slots() && offset < geometry.flash_bytes() - geometry.frames() * PAGE as u64
    }

    /// Writes a page to the tier and to disk, whichever is first, until both have it.
    pub(crate) fn write_both(&mut self, block: u64, version: u64, kind: StageKind) {
        self.is_writing(true);
        let disk_first = self.random(2) == 0;
        if disk_first {
            self.before_disk_write(block);
            self.to_disk(block, version);
            outside("slots: on disk, not staged in");
        }
        let refused = self.is_refused(block, version, kind);
        if !disk_first {
            outside("slots: staged in or refused, not on disk");
            self.to_disk(block, version);
        }
        if refused {
            outside("slots: on disk, not invalidated");
            while self.tier.invalidate(&self.id(block)).is_err() {
                self.job_or_wait();
            }
        }
        self.is_writing(false);
    }

    fn before_disk_write(&mut self, block: u64) {
        while self.tier.before_disk_write(&self.id(block)).is_err() {
            self.job_or_wait();
        }
    }

    /// Stages a page in, unless admission refuses it.
    fn is_refused(&mut self, block: u64, version: u64, kind: StageKind) -> bool {
        loop {
            match self.tier.stage_in(&self.id(block), &page(self.process, block, version), kind, version) {
                StageIn::Full => self.job_or_wait(),
                StageIn::Staged { also_disk: true } => return false,
                StageIn::Refused => return true,
                other => panic!("{other:?} of a dirty page"),
            }
        }
    }

    /// The heir, alone, writes the page that the dead one wrote last: the moment at which the new version is
    /// on disk alone shows whether flash has forgotten the older one.
    pub(crate) fn writes_again(&mut self, after: &str) {
        let intended = |block: &u64| self.files.ledger.get(self.process, *block, Field::Intended);
        let block = (0..BLOCKS).max_by_key(intended).unwrap();
        let version = self.intend(block..block + 1, Change::Write);
        self.is_writing(true);
        self.before_disk_write(block);
        self.to_disk(block, version);
        self.flash_is_right(after);
        if self.is_refused(block, version, StageKind::Dirty) {
            while self.tier.invalidate(&self.id(block)).is_err() {
                self.job_or_wait();
            }
        }
        self.is_writing(false);
        self.acknowledge(block..block + 1, version);
    }

    fn to_disk(&self, block: u64, version: u64) {
        let (disk, offset) = self.files.disk(&self.id(block));
        disk.write_all_at(&page(self.process, block, version), offset).unwrap();
    }

    /// States that a page of this process may be in the tier and not on disk, or that none is.
    pub(crate) fn is_writing(&self, writing: bool) {
        self.files.ledger.set(self.process, 0, Field::Writing, writing.into());
    }

    /// The kernel outlives every process here, so what was written is durable: if nobody was writing, alive
    /// or dead.
    pub(crate) fn sync_disk(&self) {
        let mark = self.tier.disk_mark();
        outside("slots: disk marked");
        if (0..PROCESSES).all(|process| self.files.ledger.get(process, 0, Field::Writing) == 0) {
            self.tier.disk_synced(mark);
            outside("slots: disk synced");
        }
    }

    /// Nobody is at work: every page that a recovery would find now is what disk has, whoever has died.
    fn flash_is_right(&self, after: &str) {
        let region = Blank::heap(self.tier.geometry().region_bytes());
        let mut files = self.files;
        let superblock = self.tier.published().unwrap();
        let recovered = Tier::recover(region, &superblock, self.owner, &mut files).unwrap().tier;
        let mut bytes = vec![0; PAGE];
        let mut found = 0;
        for id in
            (0..PROCESSES).flat_map(|process| (0..BLOCKS).map(move |block| PageId::volume(process, block)))
        {
            let Lookup::Flash(page) = recovered.lookup(&id, &mut bytes) else { continue };
            self.files.flash.read_exact_at(&mut bytes, page.offset).unwrap();
            assert!(
                recovered.verify(&page, &bytes),
                "{after}: {id:?}: its slot is valid, its home has another page"
            );
            let on_flash = version_of(&bytes, id.file(), id.block());
            let (disk, offset) = self.files.disk(&id);
            disk.read_exact_at(&mut bytes, offset).unwrap();
            let on_disk = version_of(&bytes, id.file(), id.block());
            assert_eq!(on_flash, on_disk, "{after}: {id:?} on flash and on disk");
            found += 1;
        }
        assert!(found > 0, "{after}: flash names no page at all");
    }
}
