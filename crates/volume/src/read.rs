//! Reading: from staging memory, from flash, or from disk, whichever holds the newest version (invariant 2).

use std::sync::atomic::Ordering;

use mezzanine_device::Request;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{FlashPage, Lookup, PageId, StageIn, StageKind, Token};

use crate::core::{Shared, TierHost};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::home::FileInner;
use crate::statistics::count;

/// Pages that are read as one batch of device requests.
const BATCH_PAGES: usize = 256;

/// Where a page of a batch comes from.
#[derive(Clone, Copy)]
enum Source {
    /// It was copied out of staging memory.
    Memory,
    Flash(FlashPage),
    Disk(Token),
}

/// A run of pages that one device request covers: pages `first..end` of the batch from `offset` of the device.
struct Run {
    first: usize,
    end: usize,
    offset: u64,
    from_flash: bool,
}

impl Shared {
    /// Fills `buf` from `offset`; all of it lies below the end of the file. The caller holds the layout lock, with `host` in
    /// it.
    pub(crate) fn read_range(
        &self,
        host: Option<&TierHost>,
        file: &FileInner,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<(), VolumeError> {
        let Some(host) = host.filter(|_| !self.condition.has_bypassed()) else {
            let failed = |error| VolumeError::from_device("read", &file.name, error).at(offset);
            let _busy = self.pacing.busy();
            return file.read_home(buf, offset, &self.counters).map_err(failed);
        };
        let page = host.page_size();
        let mut at = 0;
        while at < buf.len() {
            let position = offset + at as u64;
            let (block, inside) = (position / page as u64, (position % page as u64) as usize);
            let left = buf.len() - at;
            if inside > 0 || left < page {
                let part = left.min(page - inside);
                let mut whole = vec![0; page];
                self.read_page(host, file, block, &mut whole)?;
                buf[at..at + part].copy_from_slice(&whole[inside..inside + part]);
                at += part;
                continue;
            }
            let pages = (left / page).min(BATCH_PAGES);
            let part = &mut buf[at..at + pages * page];
            if pages == 1 {
                self.read_page(host, file, block, part)?;
            } else {
                self.read_batch(host, file, block, part)?;
            }
            at += pages * page;
        }
        Ok(())
    }

    /// Fills `out` with the newest version of a page.
    pub(crate) fn read_page(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        out: &mut [u8],
    ) -> Result<(), VolumeError> {
        let id = PageId::volume(u64::from(file.number), block);
        let counters = &self.counters;
        let mut read_under: Option<Token> = None;
        loop {
            match host.tier.lookup(&id, out) {
                Lookup::Memory => {
                    count(&counters.page_hits_memory, 1);
                    return Ok(());
                }
                Lookup::Flash(page) => {
                    count(&counters.flash_reads, 1);
                    let read = host.flash.read_at(out, page.offset);
                    if self.check_flash_page(host, file, block, &page, out, read)? {
                        return Ok(());
                    }
                    read_under = None;
                }
                // What was read from disk is right if the page has not changed since the miss before the read.
                Lookup::Miss(token) if read_under == Some(token) => {
                    self.make_room(host);
                    return Ok(());
                }
                Lookup::Miss(token) => {
                    let offset = block * file.page_size;
                    let failed = |error| VolumeError::from_device("read", &file.name, error).at(offset);
                    let busy = self.pacing.busy();
                    file.read_home(out, offset, counters).map_err(failed)?;
                    drop(busy);
                    count(&counters.page_misses, 1);
                    if self.offer(host, &id, out, token) {
                        return Ok(());
                    }
                    read_under = Some(token);
                }
            }
        }
    }

    /// Judges a page that was read from flash: true if it is right, false if it must be looked up again.
    fn check_flash_page(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        page: &FlashPage,
        bytes: &[u8],
        read: Result<(), mezzanine_device::DeviceError>,
    ) -> Result<bool, VolumeError> {
        let good = read.is_ok() && host.tier.verify(page, bytes);
        if !host.tier.confirm(page) {
            // The frame was given to another page while it was read.
            return Ok(false);
        }
        if good {
            count(&self.counters.page_hits_flash, 1);
            return Ok(true);
        }
        count(&self.counters.pages_damaged, 1);
        if !page.dirty || planted::is(Bug::DirtyForgotten) {
            // Invariant 11: disk has the same bytes.
            host.tier.forget_clean(&PageId::volume(u64::from(file.number), block), page);
            return Ok(false);
        }
        // The page may have been written again since the lookup; then this copy does not matter.
        let id = PageId::volume(u64::from(file.number), block);
        let mut newest = vec![0; host.page_size()];
        match host.tier.lookup(&id, &mut newest) {
            Lookup::Flash(now) if now == *page => Err(self.lost_page(host, file, block, page, read.err())),
            _ => Ok(false),
        }
    }

    /// The error of a page whose only copy cannot be read.
    pub(crate) fn lost_page(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        page: &FlashPage,
        cause: Option<mezzanine_device::DeviceError>,
    ) -> VolumeError {
        let what = if cause.is_some() { "cannot be read" } else { "is damaged" };
        let reason = format!(
            "the newest version of this page is at byte {} of {} and {what}",
            page.offset, host.flash_name
        );
        let error = VolumeError::new(VolumeErrorKind::LostPage, "read", &file.name, reason)
            .at(block * file.page_size)
            .advise("restore the file from a backup, or write this page anew if its contents are known");
        match cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }

    /// Offers a page that was read from disk. True if the tier took it, or will the next time, and so vouches that it had not changed since the
    /// miss; false says nothing.
    fn offer(&self, host: &TierHost, id: &PageId, page: &[u8], token: Token) -> bool {
        if !host.takes_clean || host.is_incomplete() {
            return false;
        }
        // While a write is on its way to disk, a page read before it must not answer those who have read the newer one
        // there: the tier hears of the write only when it is done.
        let Some(page_lock) = self.try_lock_page(id) else { return false };
        let Some(inside) = host.enter(&self.condition) else { return false };
        let staged = host.tier.stage_in(id, page, StageKind::Clean(Some(token)), 0);
        drop((inside, page_lock));
        if matches!(staged, StageIn::Staged { .. }) {
            self.count_staged(host);
            return true;
        }
        self.push_resize(host);
        staged == StageIn::FirstSeen
    }

    /// A clean page was dropped: it may have found no room, and nobody would make some where nothing is written. Workers are woken when a group is full,
    /// and where pages are written in place it cannot become full while the pages that leave wait for it to be durable.
    fn make_room(&self, host: &TierHost) {
        if !host.takes_clean {
            return;
        }
        if host.workers == 0 {
            self.run_job(host);
        } else {
            self.signal.offer_work();
        }
    }

    /// Fills `buf`, a whole number of pages from `block` on, with one batch of requests to each device.
    fn read_batch(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        buf: &mut [u8],
    ) -> Result<(), VolumeError> {
        let size = host.page_size();
        let id = |index: usize| PageId::volume(u64::from(file.number), block + index as u64);
        let sources: Vec<Source> = buf
            .chunks_exact_mut(size)
            .enumerate()
            .map(|(index, page)| match host.tier.lookup(&id(index), page) {
                Lookup::Memory => Source::Memory,
                Lookup::Flash(page) => Source::Flash(page),
                Lookup::Miss(token) => Source::Disk(token),
            })
            .collect();
        let flash_results = self.read_runs(host, file, block, buf, &sources)?;
        let mut results = flash_results.into_iter();
        let mut dropped = false;
        for (index, source) in sources.iter().enumerate() {
            let page = &mut buf[index * size..(index + 1) * size];
            let right = match source {
                Source::Memory => {
                    count(&self.counters.page_hits_memory, 1);
                    true
                }
                Source::Flash(flash) => {
                    let read = results.next().unwrap_or(Ok(()));
                    self.check_flash_page(host, file, block + index as u64, flash, page, read)?
                }
                Source::Disk(token) => {
                    file.unmask(page, (block + index as u64) * file.page_size);
                    count(&self.counters.page_misses, 1);
                    let taken = self.offer(host, &id(index), page, *token);
                    dropped |= !taken;
                    taken || self.is_unchanged(host, &id(index), page, *token)
                }
            };
            if !right {
                self.read_page(host, file, block + index as u64, page)?;
            }
        }
        if dropped {
            // Not before: what leaves the tier for it would make the pages that follow look changed.
            self.make_room(host);
        }
        Ok(())
    }

    /// Whether a page that was read from disk is still right: it has not changed since the miss. If staging memory holds
    /// a newer one, `page` is that.
    fn is_unchanged(&self, host: &TierHost, id: &PageId, page: &mut [u8], token: Token) -> bool {
        match host.tier.lookup(id, page) {
            Lookup::Memory => true,
            Lookup::Miss(now) => now == token,
            Lookup::Flash(_) => false,
        }
    }

    /// Reads what is on flash and on disk. Failed reads of flash are returned, one result per flash page in order,
    /// because a clean page can still be had from disk.
    fn read_runs(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        buf: &mut [u8],
        sources: &[Source],
    ) -> Result<Vec<Result<(), mezzanine_device::DeviceError>>, VolumeError> {
        let size = host.page_size();
        let runs = runs_of(sources, block, size as u64);
        let physical = file.physical.load(Ordering::Acquire);
        let (mut flash, mut disk) = (Vec::new(), Vec::new());
        let mut flash_pages = Vec::new();
        let mut rest = buf;
        let mut consumed = 0;
        for run in &runs {
            let (_, after) = rest.split_at_mut((run.first - consumed) * size);
            let (mine, after) = after.split_at_mut((run.end - run.first) * size);
            (rest, consumed) = (after, run.end);
            if run.from_flash {
                flash_pages.push(run.end - run.first);
                flash.push(Request::Read { offset: run.offset, buf: mine });
                continue;
            }
            let available = physical.saturating_sub(run.offset).min(mine.len() as u64) as usize;
            let (bytes, beyond) = mine.split_at_mut(available);
            beyond.fill(0);
            if !bytes.is_empty() {
                count(&self.counters.disk_bytes_read, bytes.len() as u64);
                disk.push(Request::Read { offset: run.offset, buf: bytes });
            }
        }
        count(&self.counters.flash_reads, flash.len() as u64);
        count(&self.counters.disk_reads, disk.len() as u64);
        if !disk.is_empty() {
            let failed =
                |error| VolumeError::from_device("read", &file.name, error).at(block * file.page_size);
            let _busy = self.pacing.busy();
            file.backing.run(&mut disk).into_iter().collect::<Result<(), _>>().map_err(failed)?;
        }
        let results = if flash.is_empty() { Vec::new() } else { host.flash.run(&mut flash) };
        let mut by_page = Vec::with_capacity(sources.len());
        for (result, pages) in results.into_iter().zip(flash_pages) {
            // A run that failed as a whole is read again page by page.
            match result {
                Ok(()) => by_page.extend((0..pages).map(|_| Ok(()))),
                Err(error) if pages == 1 => by_page.push(Err(error)),
                Err(_) => by_page.extend((0..pages).map(|_| Ok(()))),
            }
        }
        Ok(by_page)
    }
}

/// Pages that lie side by side on their device become one request.
fn runs_of(sources: &[Source], block: u64, size: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let (offset, from_flash) = match source {
            Source::Memory => continue,
            Source::Flash(page) => (page.offset, true),
            Source::Disk(_) => ((block + index as u64) * size, false),
        };
        if let Some(run) = runs.last_mut() {
            let next = run.offset + (run.end - run.first) as u64 * size;
            if run.end == index && run.from_flash == from_flash && next == offset {
                run.end += 1;
                continue;
            }
        }
        runs.push(Run { first: index, end: index + 1, offset, from_flash });
    }
    runs
}
