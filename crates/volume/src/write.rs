//! Writing: a page written is a dirty page that leaves its writer's memory.

use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{Lookup, PageId};

use crate::backing::FileInner;
use crate::core::{Local, TierHost, shared};
use crate::error::VolumeError;
use crate::health::Route;
use crate::host_metadata::LENGTH_END;
use crate::statistics::count;

/// Pages whose writers are excluded together.
const BATCH_PAGES: u64 = 64;

impl Local {
    /// Writes `buf` at `offset`, to wherever the volume's health says.
    pub(crate) fn write_range(&self, file: &FileInner, buf: &[u8], offset: u64) -> Result<(), VolumeError> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end < LENGTH_END);
        let Some(end) = end else {
            let reason = "the range ends past the largest possible file";
            return Err(VolumeError::new(crate::VolumeErrorKind::Io, "write", &file.name, reason).at(offset));
        };
        if !file.resizable && end > file.len() {
            let reason = format!("the device ends at byte {}", file.len());
            return Err(VolumeError::new(crate::VolumeErrorKind::Io, "write", &file.name, reason).at(offset));
        }
        self.ensure_started()?;
        let _changing = shared(&self.changing);
        self.prepare(file, "write")?;
        self.ready_to_grow(file, end, (offset, buf))?;
        let layout = shared(&file.layout);
        match (self.health.route("write", &file.name)?, layout.as_deref()) {
            (Route::Tier, Some(host)) if host.disk_first() => self.write_through(host, file, buf, offset),
            (Route::Tier, Some(host)) => host.writing(|| {
                // The length first: what is staged in past the end would not be written to disk.
                file.shared.lengths.grow(end);
                self.write_back(host, file, buf, offset)
            }),
            _ => self.write_past_tier(file, buf, offset),
        }
    }

    /// There is no tier. Writers of a page exclude each other all the same: one that began while there was a
    /// tier may be about to write the whole page of which it changes a part, as it was when it looked.
    fn write_past_tier(&self, file: &FileInner, buf: &[u8], offset: u64) -> Result<(), VolumeError> {
        let size = file.page_size;
        for (position, part) in pieces(buf, offset, size, BATCH_PAGES) {
            let alone = !planted::is(Bug::GivenUpUnlocked);
            let count_of = pages(part.len() as u64, position, size);
            let _pages = alone.then(|| self.lock_pages(file, position / size, count_of));
            self.write_plain_part(file, part, position)?;
        }
        Ok(())
    }

    /// Writes to disk alone. The caller excludes other writers of the pages.
    fn write_plain_part(&self, file: &FileInner, part: &[u8], position: u64) -> Result<(), VolumeError> {
        let failed = |error| VolumeError::from_device("write", &file.name, error).at(position);
        file.write_plain(part, position, self.counters()).map_err(failed)?;
        count(&self.counters().page_writes, pages(part.len() as u64, position, file.page_size));
        file.shared.lengths.grow(position + part.len() as u64);
        Ok(())
    }

    /// See [`crate::VolumeFile::may_change`].
    pub(crate) fn may_change(&self, file: &FileInner) -> Result<(), VolumeError> {
        // A database asks at each transaction. Those that were attached when it was made ready still are.
        if file.shared.marks.is_ready() {
            return Ok(());
        }
        self.ensure_started()?;
        let _changing = shared(&self.changing);
        match (self.health.route("write", &file.name)?, self.host()) {
            (Route::Tier, Some(host)) => self.refuse_without_others(&host, file),
            _ => Ok(()),
        }
    }

    /// Waits until the file may be changed, by whichever way.
    pub(crate) fn prepare(&self, file: &FileInner, operation: &'static str) -> Result<(), VolumeError> {
        loop {
            let route = self.health.route(operation, &file.name)?;
            if route == Route::Disk || file.shared.marks.is_ready() {
                return Ok(());
            }
            let Some(host) = self.host() else { return Ok(()) };
            self.make_ready(&host, file)?;
        }
    }

    /// Sync mode `durable`: the pages go to the tier.
    fn write_back(
        &self,
        host: &TierHost,
        file: &FileInner,
        buf: &[u8],
        offset: u64,
    ) -> Result<(), VolumeError> {
        let size = file.page_size;
        for (position, part) in pieces(buf, offset, size, BATCH_PAGES) {
            planted::outside("write: pages not locked");
            let _pages = self.lock_pages(file, position / size, pages(part.len() as u64, position, size));
            // The tier may have been given up since, and others have written past it: then it has old pages.
            let route = self.health.route("write", &file.name)?;
            if route == Route::Disk && !planted::is(Bug::GivenUpPageBelieved) {
                self.write_plain_part(file, part, position)?;
            } else {
                self.write_back_locked(host, file, part, position)?;
            }
        }
        Ok(())
    }

    fn write_back_locked(
        &self,
        host: &TierHost,
        file: &FileInner,
        buf: &[u8],
        offset: u64,
    ) -> Result<(), VolumeError> {
        let size = file.page_size;
        for (position, part) in pieces(buf, offset, size, 1) {
            let (block, inside) = (position / size, (position % size) as usize);
            if part.len() as u64 == size {
                self.stage_page(host, file, block, part)?;
            } else {
                let mut page = vec![0; size as usize];
                // A part from the page's beginning to the end of the file is all that there is of it; also
                // where the page is lost.
                let is_all = inside == 0 && position + part.len() as u64 >= file.len();
                if !is_all || planted::is(Bug::LostTailEndsWriting) {
                    self.read_page(host, file, block, &mut page)?;
                }
                page[inside..inside + part.len()].copy_from_slice(part);
                self.stage_page(host, file, block, &page)?;
            }
            count(&self.counters().page_writes, 1);
        }
        Ok(())
    }

    /// Where the tier is provably clean the disk is written first, so that a failure of either device leaves
    /// disk right (sync mode `through`, and writes that admission does not take).
    fn write_through(
        &self,
        host: &TierHost,
        file: &FileInner,
        buf: &[u8],
        offset: u64,
    ) -> Result<(), VolumeError> {
        let size = file.page_size;
        for (position, part) in pieces(buf, offset, size, BATCH_PAGES) {
            let _pages = self.lock_pages(file, position / size, pages(part.len() as u64, position, size));
            let first = position / size;
            for block in first..first + pages(part.len() as u64, position, size) {
                let id = PageId::volume(u64::from(file.number), block);
                self.with_room(host, || host.tier.before_disk_write(&id))?;
            }
            let busy = self.pacing.busy();
            let written = file.write_plain(part, position, self.counters());
            drop(busy);
            if written.is_ok() {
                file.shared.lengths.grow(position + part.len() as u64);
            }
            self.follow_disk(host, file, part, position, written.is_ok())?;
            written.map_err(|error| {
                let error = VolumeError::from_device("write", &file.name, error).at(position);
                if planted::is(Bug::OwnWriteEndsWriting) {
                    self.refuse_changes(&error);
                }
                error
            })?;
        }
        Ok(())
    }

    /// After a disk write: the tier gets whole pages and those that it holds already; any other copy is
    /// forgotten, and all of them if the write failed, for then disk holds what nobody knows.
    fn follow_disk(
        &self,
        host: &TierHost,
        file: &FileInner,
        buf: &[u8],
        offset: u64,
        written: bool,
    ) -> Result<(), VolumeError> {
        let size = file.page_size;
        for (position, part) in pieces(buf, offset, size, 1) {
            let (block, inside) = (position / size, (position % size) as usize);
            let id = PageId::volume(u64::from(file.number), block);
            count(&self.counters().page_writes, 1);
            count(&self.counters().disk_pages_written, 1);
            if !written || !host.takes_writes {
                self.invalidate_page(host, &id)?;
            } else if part.len() as u64 == size {
                self.stage_written(host, &id, part)?;
            } else if let Some(mut page) = self.held_page(host, &id) {
                page[inside..inside + part.len()].copy_from_slice(part);
                self.stage_written(host, &id, &page)?;
            } else {
                self.invalidate_page(host, &id)?;
            }
        }
        Ok(())
    }

    /// The page as the tier holds it, whole and right.
    fn held_page(&self, host: &TierHost, id: &PageId) -> Option<Vec<u8>> {
        let mut page = vec![0; host.page_size()];
        match host.tier.lookup(id, &mut page) {
            Lookup::Memory => Some(page),
            Lookup::Flash(found) => {
                let read = host.flash.read_at(&mut page, found.offset);
                let right = read.is_ok() && host.tier.verify(&found, &page) && host.tier.confirm(&found);
                right.then_some(page)
            }
            Lookup::Miss(_) => None,
        }
    }

    /// Stages in a page that is on disk already.
    fn stage_written(&self, host: &TierHost, id: &PageId, page: &[u8]) -> Result<(), VolumeError> {
        use mezzanine_engine::{StageIn, StageKind};
        loop {
            let seen = self.signal.progress();
            if self.health.route("write", &host.flash_name)? == Route::Disk {
                // The tier was given up; nobody will look there again.
                return Ok(());
            }
            let Some(inside) = host.enter(&self.health) else { continue };
            let staged = host.tier.stage_in(id, page, StageKind::Dirty, 0);
            drop(inside);
            match staged {
                StageIn::Staged { .. } => {
                    self.count_staged(host);
                    return Ok(());
                }
                StageIn::Full => self.work_or_wait(host, seen)?,
                StageIn::Refused | StageIn::Dropped | StageIn::FirstTouch => {
                    return self.invalidate_page(host, id);
                }
            }
        }
    }
}

/// Splits what is written at `offset` where pages of `size` bytes end, `count` pages to a piece at most: the
/// position and the bytes of each piece.
fn pieces(buf: &[u8], offset: u64, size: u64, count: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let end = offset + buf.len() as u64;
    let mut rest = buf;
    std::iter::from_fn(move || {
        let position = end - rest.len() as u64;
        let piece_end = (position / size + count).saturating_mul(size).min(end);
        let (part, after) = rest.split_at((piece_end - position) as usize);
        rest = after;
        (!part.is_empty()).then_some((position, part))
    })
}

/// Pages that a range touches.
fn pages(len: u64, offset: u64, size: u64) -> u64 {
    if len == 0 { 0 } else { (offset + len - 1) / size - offset / size + 1 }
}
