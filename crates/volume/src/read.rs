//! Reading: from staging memory, from flash, or from disk, whichever holds the newest version (invariant 2).

use mezzanine_device::{DeviceError, Request, Run, runs};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{FlashPage, Lookup, NoRoom, PageId, StageIn, StageKind, SyncState, Token};

use crate::backing::{FileInner, OnDisk};
use crate::config::GUARD_BYTES_MAX;
use crate::core::{Local, TierHost};
use crate::error::VolumeError;
use crate::health::Mode;
use crate::reread::{Reread, Unread};
use crate::statistics::count;

/// Pages that are read as one batch of device requests.
const BATCH_PAGES: usize = 256;

/// How often disk is read before it counts as having another version of a page than the newest. One read may
/// fail, or bring another bit, and whoever is told that a page is lost gives it up.
const DISK_READS: u32 = 2;

/// Where a page of a batch comes from.
#[derive(Clone, Copy)]
enum Source {
    /// It was copied out of staging memory.
    Memory,
    Flash(FlashPage),
    Disk(Token),
}

/// The device of a run of pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Flash,
    Disk,
}

/// What became of the runs of a batch.
struct Runs {
    /// One result per page on flash, in order: a clean page that cannot be read there can still be had from
    /// disk.
    flash: Vec<Result<(), DeviceError>>,
    /// Whether all pages on disk were read.
    disk: bool,
}

impl Local {
    /// Fills `buf` from `offset`; all of it lies below the end of the file. The caller holds the layout lock,
    /// with `host` in it.
    pub(crate) fn read_range(
        &self,
        host: Option<&TierHost>,
        file: &FileInner,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<(), VolumeError> {
        let Some(host) = host.filter(|_| !self.health.has_bypassed()) else {
            let failed = |error| unread_disk(file, offset, error);
            let _busy = self.pacing.busy();
            return file.read_home(buf, offset, self.counters()).map_err(failed);
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
        let counters = self.counters();
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
                // What was read from disk is right if the page has not changed since the miss before the
                // read.
                Lookup::Miss(token) if read_under == Some(token) => {
                    self.make_room(host);
                    return Ok(());
                }
                Lookup::Miss(token) => {
                    let offset = block * file.page_size;
                    let failed = |error| unread_disk(file, offset, error);
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
        bytes: &mut [u8],
        read: Result<(), DeviceError>,
    ) -> Result<bool, VolumeError> {
        let unread = match self.reread(host, page, bytes, read) {
            Reread::Whole => {
                count(&self.counters().page_hits_flash, 1);
                return Ok(true);
            }
            Reread::Gone => return Ok(false),
            Reread::Unread(unread) => unread,
        };
        if !unread.silent {
            count(&self.counters().pages_damaged, 1);
        }
        let id = PageId::volume(u64::from(file.number), block);
        if !page.dirty || host.tier.on_disk(&id, page) || planted::is(Bug::DirtyForgotten) {
            // Invariant 11: disk has the same bytes. Of a device that answers nothing no frame is called bad.
            if !unread.silent || planted::is(Bug::SilentFramesBad) {
                self.bury_clean(host, &id, page);
            }
            host.tier.invalidate_clean(&id, page);
            return Ok(false);
        }
        // The page may have been written again since the lookup; then this copy does not matter.
        let mut newest = vec![0; host.page_size()];
        let mut is_newest =
            || matches!(host.tier.lookup(&id, &mut newest), Lookup::Flash(now) if now == *page);
        if !is_newest() {
            return Ok(false);
        }
        match self.read_from_disk(host, file, block, page, unread, bytes) {
            Ok(()) => {
                count(&self.counters().page_misses, 1);
                Ok(true)
            }
            // A newer version may be on its way to disk just now.
            Err(error) => {
                if is_newest() {
                    Err(error)
                } else {
                    Ok(false)
                }
            }
        }
    }

    /// Fills `out` with a page that flash does not give back, if disk has this very version of it. See
    /// [`mezzanine_engine::Tier::disk_has`].
    ///
    /// # Errors
    /// `LostPage` if it has not, and flash answers; else `Io`, and nothing is said of the page.
    pub(crate) fn read_from_disk(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        page: &FlashPage,
        unread: Unread,
        out: &mut [u8],
    ) -> Result<(), VolumeError> {
        let start = block.saturating_mul(file.page_size);
        let mut failed = None;
        for _ in 0..if planted::is(Bug::DiskReadOnce) { 1 } else { DISK_READS } {
            match file.read_home(out, start, self.counters()) {
                Ok(()) if host.tier.disk_has(page, out) => return Ok(()),
                Ok(()) => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed.filter(|_| !unread.silent && !planted::is(Bug::DiskErrorIsNo)) {
            Some(error) => Err(VolumeError::unknown_on_disk(&file.name, error).at(start)),
            None => Err(self.unread_page(host, file, block, page, unread)),
        }
    }

    /// Before disk answers for a clean page that flash does not give back: makes it durable that the tier has
    /// it no more. Its record may say that it is dirty, and a crash would find a page that can be had
    /// from nowhere. Where that cannot be done now, disk answers all the same.
    ///
    /// Nobody waits here until the volume is quiesced: the caller has the file's layout in hand, and a tier
    /// that takes the place of this one waits for that.
    fn bury_clean(&self, host: &TierHost, id: &PageId, page: &FlashPage) {
        let mut buried = false;
        let mut ticket = None;
        while !host.provably_clean() && !host.is_held() && host.tier.failure().is_none() {
            let seen = self.signal.progress();
            let Some(inside) = host.enter(&self.health) else {
                if planted::is(Bug::BurialWaits) && self.health.mode() == Mode::Quiescing {
                    self.health.wait_quiesced();
                    continue;
                }
                return;
            };
            if !buried {
                match host.tier.bury_clean(id, page) {
                    Ok(true) => {
                        host.changed();
                        buried = true;
                    }
                    Ok(false) => return,
                    Err(NoRoom) => {}
                }
            }
            if buried && ticket.is_none() {
                ticket = self.begin_sync(host).ok();
                self.signal.offer_work();
            }
            drop(inside);
            // A sync that fails is one of all who wait for it, and then there is no more flash to find
            // anything on.
            if ticket.as_ref().is_some_and(|ticket| host.tier.sync_state(ticket) == SyncState::Durable)
                || self.work_or_wait(host, seen).is_err()
            {
                return;
            }
        }
        self.handle_failure(host);
    }

    /// Offers a page that was read from disk. True if the tier took it, or will the next time, and so vouches
    /// that it had not changed since the miss; false says nothing.
    fn offer(&self, host: &TierHost, id: &PageId, page: &[u8], token: Token) -> bool {
        if !host.takes_clean || host.is_held() {
            if host.takes_clean {
                host.shared.service.count_untaken();
            }
            return false;
        }
        // While a write is on its way to disk, a page read before it must not answer those who have read the
        // newer one there: the tier hears of the write only when it is done.
        let Some(page_lock) = self.try_lock_page(id) else { return false };
        let Some(inside) = host.enter(&self.health) else { return false };
        let staged = host.tier.stage_in(id, page, StageKind::Clean(Some(token)), 0);
        drop((inside, page_lock));
        if matches!(staged, StageIn::Staged { .. }) {
            self.count_staged(host);
            return true;
        }
        self.push_resize(host);
        staged == StageIn::FirstTouch
    }

    /// A clean page was dropped: it may have found no room, and nobody would make some where nothing is
    /// written. Workers are woken when a group is full, and where pages are written in place it cannot
    /// become full while the pages that leave wait for it to be durable.
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
        let mut sources = Vec::with_capacity(buf.len() / size);
        let pages = buf.chunks_exact_mut(size).enumerate().map(|(index, page)| (id(index), page));
        host.tier.lookup_each(pages, |found| {
            sources.push(match found {
                Lookup::Memory => Source::Memory,
                Lookup::Flash(page) => Source::Flash(page),
                Lookup::Miss(token) => Source::Disk(token),
            });
        });
        let noted = file.on_disk();
        let found = self.read_runs(host, file, block, buf, &sources, &noted)?;
        let mut results = found.flash.into_iter();
        let mut dropped = false;
        for (index, source) in sources.iter().enumerate() {
            let page = &mut buf[index * size..(index + 1) * size];
            let right = match source {
                Source::Memory => {
                    count(&self.counters().page_hits_memory, 1);
                    true
                }
                Source::Flash(flash) => {
                    let read = results.next().unwrap_or(Ok(()));
                    self.check_flash_page(host, file, block + index as u64, flash, page, read)?
                }
                Source::Disk(token) => {
                    // Only what was read while nothing changed there may be offered.
                    let offset = (block + index as u64) * file.page_size;
                    found.disk && file.unmask(page, offset, &noted) && {
                        count(&self.counters().page_misses, 1);
                        let taken = self.offer(host, &id(index), page, *token);
                        dropped |= !taken;
                        taken || self.is_unchanged(host, &id(index), page, *token)
                    }
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

    /// Whether a page that was read from disk is still right: it has not changed since the miss. If staging
    /// memory holds a newer one, `page` is that.
    fn is_unchanged(&self, host: &TierHost, id: &PageId, page: &mut [u8], token: Token) -> bool {
        match host.tier.lookup(id, page) {
            Lookup::Memory => true,
            Lookup::Miss(now) => now == token,
            Lookup::Flash(_) => false,
        }
    }

    /// Reads what is on flash and on disk.
    fn read_runs(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        buf: &mut [u8],
        sources: &[Source],
        noted: &OnDisk,
    ) -> Result<Runs, VolumeError> {
        let size = host.page_size();
        let runs = runs_of(sources, block, size as u64);
        let (mut flash, mut disk) = (Vec::new(), Vec::new());
        let mut rest = &mut *buf;
        let mut consumed = 0;
        for run in &runs {
            let (_, after) = rest.split_at_mut((run.first - consumed) * size);
            let (mine, after) = after.split_at_mut(run.pieces() * size);
            (rest, consumed) = (after, run.end);
            if run.source == On::Flash {
                flash.push(Request::Read { offset: run.offset, buf: mine });
                continue;
            }
            let available = noted.physical.saturating_sub(run.offset).min(mine.len() as u64) as usize;
            let (bytes, beyond) = mine.split_at_mut(available);
            beyond.fill(0);
            if !bytes.is_empty() {
                count(&self.counters().disk_bytes_read, bytes.len() as u64);
                disk.push(Request::Read { offset: run.offset, buf: bytes });
            }
        }
        let read_from_disk = self.read_disk_runs(file, &mut disk, noted)?;
        count(&self.counters().flash_reads, flash.len() as u64);
        let results = if flash.is_empty() { Vec::new() } else { host.flash.run(&mut flash) };
        let mut by_page = Vec::with_capacity(sources.len());
        for (run, result) in runs.iter().filter(|run| run.source == On::Flash).zip(results) {
            let pages = &mut buf[run.first * size..run.end * size];
            self.judge_run(host, run, result, pages, &mut by_page);
        }
        Ok(Runs { flash: by_page, disk: read_from_disk })
    }

    /// Reads runs of pages from disk. False if the file was shortened meanwhile, so that what could not be
    /// read is to be looked at again.
    fn read_disk_runs(
        &self,
        file: &FileInner,
        disk: &mut [Request<'_>],
        noted: &OnDisk,
    ) -> Result<bool, VolumeError> {
        if disk.is_empty() {
            return Ok(true);
        }
        count(&self.counters().disk_reads, disk.len() as u64);
        let busy = self.pacing.busy();
        let results = file.backing.run(disk);
        drop(busy);
        for (request, result) in disk.iter().zip(results) {
            let Err(error) = result else { continue };
            if file.is_shorter_than(noted) {
                return Ok(false);
            }
            let offset = request.range().map_or(0, |(offset, _)| offset);
            return Err(unread_disk(file, offset, error));
        }
        Ok(true)
    }

    /// The results of the pages of a run that was read from flash. One that failed as a whole is read again
    /// page by page: most of its pages are as good as ever, and the others are judged each by itself.
    fn judge_run(
        &self,
        host: &TierHost,
        run: &Run<On>,
        result: Result<(), DeviceError>,
        pages: &mut [u8],
        by_page: &mut Vec<Result<(), DeviceError>>,
    ) {
        let size = host.page_size();
        match result {
            Err(error) if run.pieces() == 1 => by_page.push(Err(error)),
            Err(_) if !planted::is(Bug::RunFailsItsPages) => {
                for (index, page) in pages.chunks_exact_mut(size).enumerate() {
                    count(&self.counters().flash_reads, 1);
                    by_page.push(host.flash.read_at(page, run.offset + (index * size) as u64));
                }
            }
            Ok(()) | Err(_) => by_page.extend(pages.chunks_exact(size).map(|_| Ok(()))),
        }
    }
}

/// Pages that lie side by side on their device become one request.
fn runs_of(sources: &[Source], block: u64, size: u64) -> Vec<Run<On>> {
    let places = sources.iter().enumerate().map(|(index, source)| match source {
        Source::Memory => None,
        Source::Flash(page) => Some((On::Flash, page.offset)),
        Source::Disk(_) => Some((On::Disk, (block + index as u64) * size)),
    });
    runs(places, size)
}

/// The error of a read of a file's disk. Under a guard the disk's own bytes are not needed, and what is
/// written there may heal the place.
fn unread_disk(file: &FileInner, offset: u64, error: DeviceError) -> VolumeError {
    let failed = VolumeError::from_device("read", &file.name, error).at(offset);
    if !file.is_guarded() || offset >= GUARD_BYTES_MAX as u64 || planted::is(Bug::UnreadGuardUnnamed) {
        return failed;
    }
    failed.advise(
        "its first bytes are in its sidecar: if the place stays unreadable, drain and close the tier, which writes them there",
    )
}
