//! The flash device fails while the server runs (invariant 11).
//!
//! The engine latches the failure: it takes no pages and offers no jobs from then on. One process of the
//! server then gives the tier up, [`Host::give_up`], alone, before anybody writes past it:
//! 1. After a failed write, what is newer in the tier than on disk is written to disk and synced: pages that
//!    are on their way are still in staging memory, and what was flushed before can be read. The server goes
//!    on without the tier. Pages that were lost before, and of which disk has not this very version, cannot
//!    be saved: their places on disk get what no server takes for a page, so that their older versions are
//!    never read. Where a device does not say just now whether a page is lost, nothing is overwritten and the
//!    server restarts.
//! 2. After a failed sync, and when a page cannot be read that only flash has, nothing more is built on the
//!    device. In sync mode `drained` the database restarts from its log, for which the disk suffices; in
//!    `durable` from what is durable on flash.
//! 3. When the disk suffices, the control file says so first, and then the marker that the tier was given up:
//!    the next start makes it anew, whatever the device holds by then. A crash before that finds a tier that
//!    knows the control file's redo point and has, with the log, everything.
//!
//! Where the tier never holds only copies there is nothing to save, and what is found in it later needs no
//! marker: a queue that was left open is not believed, and slots are from after the redo pointer that the
//! control file names, so that redo brings their pages up to date, or they are not believed either.

use std::collections::BTreeSet;

use mezzanine_device::AlignedBuf;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{DirtyPage, DrainCursor, Failure, PageId, SyncMode};

use crate::host::Host;
use crate::marker::Marker;
use crate::message::Refusal;
use crate::pages::DiskHas;
use crate::reread::{Reread, Unread};

/// Pages that are read and written as one batch.
pub(crate) const BATCH: usize = 256;

/// Where the newest version of a dirty page is.
enum Newest {
    /// It was read.
    Bytes,
    /// Disk has it, or the page has left the tier.
    Elsewhere,
    /// It is lost.
    Nowhere(String),
}

impl Host {
    /// Gives the tier up after a failure; nobody else writes to disk or past the tier meanwhile. Returns how
    /// many pages were written to disk.
    ///
    /// # Errors
    /// If the server must restart. What to do about it is in the hint.
    pub fn give_up(&self) -> Result<u64, Refusal> {
        let tier = self.tier();
        let Some(failure) = tier.failure() else { return Ok(0) };
        tier.stop_admission();
        if self.is_provably_clean() {
            return Ok(0);
        }
        let saved = match failure {
            Failure::FlashWrite => self.save_dirty(),
            Failure::FlashSync if tier.valid_and_dirty().1 == 0 => Ok(0),
            _ => Err(self.failed(failure)),
        };
        match saved {
            Ok(pages) => {
                self.server.mark_control_file(false)?;
                if !planted::is(Bug::GivenUpUnmarked) {
                    self.forsake(&self.superblock().tier_uuid)?;
                }
                Ok(pages)
            }
            Err(refusal) => Err(self.restarts(refusal)?),
        }
    }

    /// What the server restarts from, and what to do.
    fn restarts(&self, refusal: Refusal) -> Result<Refusal, Refusal> {
        let disk_suffices = self.tier().sync_mode() == SyncMode::Drained;
        let flash_failed = !matches!(self.tier().failure(), Some(Failure::DiskWrite | Failure::DiskSync));
        if disk_suffices && flash_failed {
            self.forsake(&self.superblock().tier_uuid)?;
            return Ok(refusal
                .detail("No page was lost: the server restarts from its log, with an empty tier, or without if the device cannot be used.")
                .hint("Check the flash device and the kernel's log. Name another one in mezzanine.flash_path and restart the server."));
        }
        if flash_failed {
            return Ok(refusal
                .detail("The flash tier is part of the database: the server restarts from what is durable there.")
                .hint("If it does not start again, check the flash device and the kernel's log; copy what can be read of it to another one and name that in mezzanine.flash_path, or restore a backup."));
        }
        Ok(refusal)
    }

    /// Has the marker say that nobody needs the tier of this name any more.
    pub(crate) fn forsake(&self, tier_uuid: &[u8; 16]) -> Result<(), Refusal> {
        // Processes that find the same page unreadable would write the same temporary file.
        let _alone = self.lock_superblock();
        Marker::new(tier_uuid, self.flash_path(), false).of_given_up().write(&*self.marker)
    }

    /// Writes every page that is newer than its disk copy to disk, and syncs.
    fn save_dirty(&self) -> Result<u64, Refusal> {
        let tier = self.tier();
        // Nothing is taken any more, so no page is written anew from here on.
        let lost: BTreeSet<PageId> = match planted::is(Bug::LostEndsServer) {
            true => BTreeSet::new(),
            false => tier.lost().into_iter().collect(),
        };
        let mut given_up = Vec::new();
        let mut cursor = DrainCursor::default();
        let mut saved = Vec::new();
        loop {
            let mut pages = tier.drain_batch(&mut cursor, BATCH);
            if pages.is_empty() {
                break;
            }
            pages.sort_unstable_by_key(|page| page.id);
            let mut bytes = AlignedBuf::zeroed(pages.len() * self.geometry.page_size());
            let mut writes = Vec::new();
            for (page, bytes) in pages.iter().zip(bytes.chunks_exact_mut(self.geometry.page_size())) {
                match self.read_newest(page, bytes)? {
                    Newest::Bytes => writes.push((page.id, &*bytes)),
                    Newest::Elsewhere => {}
                    Newest::Nowhere(_) if lost.contains(&page.id) => given_up.push(page.id),
                    Newest::Nowhere(why) => {
                        return Err(self.unsaved(&format!("a page that only it has {why}")));
                    }
                }
            }
            if !self.server.write_pages(&writes).is_empty() {
                return Err(self.unsaved("a page could not be written to disk"));
            }
            saved.append(&mut pages);
        }
        if !self.server.sync_pages() {
            return Err(self.unsaved("a sync of the disk failed"));
        }
        self.give_up_lost(&given_up).map_err(|refusal| self.unsaved(&refusal.message))?;
        tier.mark_clean(&saved);
        if !given_up.is_empty() {
            self.server.flash_failed(&format!(
                "{} pages were lost before: in their files are now pages that no server accepts; restore them from a backup",
                given_up.len()
            ));
        }
        Ok((saved.len() - given_up.len()) as u64)
    }

    /// Reads a dirty page, from staging memory, from flash, or from its place on disk.
    ///
    /// # Errors
    /// If a device does not say whether it has the page.
    fn read_newest(&self, page: &DirtyPage, bytes: &mut [u8]) -> Result<Newest, Refusal> {
        let unread = match self.read_only_copy(page, bytes) {
            Ok(true) => return Ok(Newest::Bytes),
            Ok(false) => return Ok(Newest::Elsewhere),
            Err(unread) => unread,
        };
        match self.disk_has(&page.id, &page.flash, bytes) {
            // What disk has, as far as only it knows, goes there once more.
            DiskHas::Newest => Ok(Newest::Bytes),
            DiskHas::Other if unread.silent => Err(self.unsaved("it answers no read just now")),
            DiskHas::Other => Ok(Newest::Nowhere(unread.why)),
            DiskHas::Unknown => {
                Err(self.unsaved("disk may have a page that flash does not give back, and cannot be read"))
            }
        }
    }

    /// Reads a dirty page from staging memory or from flash; false if it has left the tier meanwhile, or
    /// cannot be read and the tier knows that disk has it. Else why it cannot be read.
    pub(crate) fn read_only_copy(&self, page: &DirtyPage, bytes: &mut [u8]) -> Result<bool, Unread> {
        let tier = self.tier();
        if tier.read_staged(&page.flash, bytes) {
            return Ok(true);
        }
        match self.read_frame(&page.flash, bytes) {
            Reread::Whole => Ok(true),
            Reread::Gone => Ok(false),
            Reread::Unread(_) if tier.on_disk(&page.id, &page.flash) => Ok(false),
            Reread::Unread(unread) => Err(unread),
        }
    }

    fn unsaved(&self, why: &str) -> Refusal {
        Refusal::new(format!(
            "the flash tier on \"{}\" cannot be written, and its pages could not be saved: {why}",
            self.flash_path().display()
        ))
    }
}
