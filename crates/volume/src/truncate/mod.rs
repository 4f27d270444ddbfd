//! Truncating and extending a file, and discarding ranges of it.
//!
//! What is cut off must not come back (invariant 6), neither from the tier nor from the disk, at no crash
//! between:
//! - *Shortening, durable:* first the tier forgets the pages and learns the new length, both in one group;
//!   then a sync; then the disk file is truncated and synced. A crash before the sync leaves the old file,
//!   after it the next attachment truncates the disk file. Only then may the file grow again.
//! - *Discarding, durable:* first the pages that the tier holds become zero there, durably; then the sidecar
//!   says what is being discarded; then the disk range is zeroed and synced; then the tier forgets the pages;
//!   then a sync; then the sidecar says so no longer. A crash leaves each page old or zero, and so it stays:
//!   a page that the disk tore is zeroed at the next attachment, and clean copies that flash still names are
//!   not believed there.
//! - Where writes go to disk first, the tier is provably clean or counts for nothing after a crash: a crash
//!   empties it, so only the order of what is visible matters.

use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{IdRange, Lookup, PageId};

use crate::backing::FileInner;
use crate::config::GUARD_BYTES_MAX;
use crate::core::{Local, TierHost, exclusive, shared};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::health::Route;
use crate::host_metadata::LENGTH_END;
use crate::ready::NOTHING;
use crate::sidecar::SidecarState;

const RESIZE: &str = "set the length of";

impl Local {
    /// See [`crate::VolumeFile::set_len`].
    pub(crate) fn set_len(&self, file: &FileInner, len: u64) -> Result<(), VolumeError> {
        if !file.resizable && len != file.len() {
            let reason = format!("it is a device of {} bytes", file.len());
            return Err(VolumeError::new(VolumeErrorKind::Io, RESIZE, &file.name, reason));
        }
        if len >= LENGTH_END {
            let reason = format!("{len} bytes are more than a file of a volume can have, {}", LENGTH_END - 1);
            return Err(VolumeError::new(VolumeErrorKind::Io, RESIZE, &file.name, reason));
        }
        self.ensure_started()?;
        let _changing = shared(&self.changing);
        self.prepare(file, RESIZE)?;
        self.ready_to_grow(file, len, NOTHING)?;
        let layout = exclusive(&file.layout);
        let old = file.len();
        if len == old {
            return Ok(());
        }
        match (self.health.route(RESIZE, &file.name)?, layout.as_deref()) {
            (Route::Tier, Some(host)) if !host.disk_first() => {
                if len < old {
                    return self.truncate_durable(host, file, len);
                }
                file.shared.lengths.set(len);
                host.changed();
                Ok(())
            }
            (Route::Tier, Some(host)) => {
                if len < old {
                    // The page that the new end falls into as well: its tail changes on disk.
                    let range = IdRange::blocks_from(u64::from(file.number), len / file.page_size);
                    self.with_room(host, || host.tier.invalidate_range(&range))?;
                }
                self.resize_disk(file, len)
            }
            _ => self.resize_disk(file, len),
        }
    }

    fn resize_disk(&self, file: &FileInner, len: u64) -> Result<(), VolumeError> {
        let failed = |error| VolumeError::from_device(RESIZE, &file.name, error);
        let shorter = len < file.len();
        file.resize(len).map_err(failed)?;
        file.shared.lengths.set(len);
        if shorter {
            self.flush_direct(file)?;
        }
        Ok(())
    }

    fn truncate_durable(&self, host: &TierHost, file: &FileInner, len: u64) -> Result<(), VolumeError> {
        self.zero_tail(host, file, len)?;
        let first = len.div_ceil(file.page_size);
        let range = IdRange::blocks_from(u64::from(file.number), first);
        self.with_disk_jobs_out(host, || {
            let mut state = host.table();
            let mut table = state.table.clone();
            if let Some(entry) = table.get_mut(file.number) {
                entry.length = len;
            }
            let room = host.tier.truncate(&range, &table.encode()).is_ok();
            if room {
                state.told.clone_from(&table);
                state.table = table;
                file.shared.lengths.truncating(len);
            }
            Ok(room)
        })?;
        host.changed();
        // From here on the disk is to be truncated as well, before anybody goes on.
        self.sync_tier(host).inspect_err(|error| self.refuse_half_done(error))?;
        self.truncate_disk(host, file, len)
    }

    /// The tier has forgotten, durably, what lies past `len`: now the disk does.
    fn truncate_disk(&self, host: &TierHost, file: &FileInner, len: u64) -> Result<(), VolumeError> {
        let failed = |error| VolumeError::from_device(RESIZE, &file.name, error);
        if file.is_guarded() && len < GUARD_BYTES_MAX as u64 {
            file.shared.guards.zero_past(len);
            self.note(host, file, RESIZE, || {})?;
        }
        let gate = exclusive(&host.disk_gate);
        file.shared.lengths.set(len);
        let physical = len.max(file.physical_min());
        if file.shared.lengths.physical() <= physical {
            return Ok(());
        }
        let truncated = file.resize(physical).and_then(|()| file.flush(self.counters())).map_err(failed);
        // While the gate is held: who waits for it is not to go on with a disk that is half truncated.
        truncated.inspect_err(|error| self.refuse_changes(error))?;
        file.shared.stage_out.batch(|batch| batch.forget(len / file.page_size, u64::MAX));
        drop(gate);
        // Before the file grows again: an older one may have other bytes there than zeros.
        if !planted::is(Bug::CutUnmarked) {
            self.note(host, file, RESIZE, || {})?;
        }
        Ok(())
    }

    /// See [`crate::VolumeFile::discard`].
    pub(crate) fn discard(&self, file: &FileInner, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.ensure_started()?;
        let _changing = shared(&self.changing);
        self.prepare(file, "discard")?;
        let layout = exclusive(&file.layout);
        let end = offset.saturating_add(len).min(file.len());
        if offset >= end {
            return Ok(());
        }
        match (self.health.route("discard", &file.name)?, layout.as_deref()) {
            (Route::Tier, Some(host)) if !host.disk_first() => self.discard_durable(host, file, offset, end),
            (route, host) => {
                let failed = |error| VolumeError::from_device("discard", &file.name, error);
                let zeroed = file.zero(offset, end, self.counters()).map_err(failed);
                if let (Route::Tier, Some(host)) = (route, host) {
                    let first = offset / file.page_size;
                    let blocks = end.div_ceil(file.page_size) - first;
                    let range = IdRange::blocks(u64::from(file.number), first, blocks);
                    self.with_room(host, || host.tier.invalidate_range(&range))?;
                }
                zeroed?;
                self.flush_direct(file)
            }
        }
    }

    fn discard_durable(
        &self,
        host: &TierHost,
        file: &FileInner,
        offset: u64,
        end: u64,
    ) -> Result<(), VolumeError> {
        let size = file.page_size;
        // Whole pages are given up; parts of pages, and the first page while a guard stands in it, are
        // written as zeros.
        let mut first = offset.div_ceil(size);
        if file.is_guarded() {
            first = first.max(1);
        }
        let last = if end == file.len() { end.div_ceil(size) } else { end / size };
        let (inner, outer) = (first * size, last * size);
        self.write_zeros(host, file, offset, end.min(inner))?;
        if last <= first {
            self.write_zeros(host, file, inner.max(offset), end)?;
        } else {
            self.write_zeros(host, file, outer, end)?;
            let range = IdRange::blocks(u64::from(file.number), first, last - first);
            let failed = |error| VolumeError::from_device("discard", &file.name, error);
            self.zero_held(host, file, first, last)?;
            let noted = self.note_discarding(host, file, Some((first, last)))?;
            let forgotten = noted
                && self
                    .with_disk_jobs_out(host, || {
                        // Again at each attempt: a disk job may have written to the range meanwhile.
                        if !planted::is(Bug::SyncedBatchRemembered) {
                            file.shared.stage_out.batch(|batch| batch.forget(first, last));
                        }
                        let zeroed = file
                            .zero(inner, outer, self.counters())
                            .and_then(|()| file.flush(self.counters()));
                        zeroed.map_err(failed).inspect_err(|error| self.refuse_changes(error))?;
                        Ok(host.tier.invalidate_range(&range).is_ok())
                    })
                    .inspect_err(|error| self.refuse_half_done(error))?;
            if !forgotten {
                file.shared.marks.discard(None);
                file.zero(inner, outer, self.counters()).map_err(failed)?;
                return self.flush_direct(file);
            }
        }
        host.changed();
        let discarding = file.shared.marks.discarding().is_some();
        let synced = self.sync_tier(host);
        if discarding {
            // What is written there while the sidecar says so is zero after the next attachment.
            synced.inspect_err(|error| self.refuse_half_done(error))?;
        } else {
            synced?;
        }
        if !planted::is(Bug::DiscardUnflushed) {
            // If the tier was given up meanwhile, zeros went to disk.
            self.flush_direct(file)?;
        }
        // Before anything new is written there, or a crash would zero that.
        if discarding {
            self.note_discarding(host, file, None)?;
        }
        Ok(())
    }

    /// Between the steps of a change, for whatever reason it ends there: nobody goes on with the file as it
    /// is.
    fn refuse_half_done(&self, error: &VolumeError) {
        // Of a disk that fails they were refused before: see the others.
        if !planted::is(Bug::SettledOverRefusal) {
            self.refuse_changes(error);
        }
    }

    /// Has the sidecar say what is being discarded. False if the tier was given up: then nothing is.
    fn note_discarding(
        &self,
        host: &TierHost,
        file: &FileInner,
        pages: Option<(u64, u64)>,
    ) -> Result<bool, VolumeError> {
        let noted = self.note(host, file, "discard", || {
            file.shared.marks.discard(pages);
            if let Some((first, end)) = pages {
                file.shared.stage_out.batch(|batch| batch.forget(first, end));
            }
        })?;
        if !noted {
            file.shared.marks.discard(None);
        }
        Ok(noted)
    }

    /// Makes a change that stands in the sidecar, and replaces that, with the next mark. False if the tier
    /// was given up meanwhile: then the sidecar says so, and a file that is dirty again would never be
    /// believed. If the sidecar cannot be replaced the volume is read-only, before anybody quiesces it.
    fn note(
        &self,
        host: &TierHost,
        file: &FileInner,
        operation: &'static str,
        change: impl FnOnce(),
    ) -> Result<bool, VolumeError> {
        loop {
            if self.health.route(operation, &file.name)? == Route::Disk {
                return Ok(false);
            }
            let Some(_inside) = host.enter(&self.health) else { continue };
            change();
            let noted = match planted::is(Bug::DiscardUnmarked) && operation != RESIZE {
                true => self.write_sidecar(host, file, SidecarState::Dirty),
                false => self.mark(host, file, SidecarState::Dirty),
            };
            return noted.inspect_err(|error| self.refuse_changes(error)).map(|()| true);
        }
    }

    /// Makes the pages of a range that the tier holds zero there, durably. A clean page would otherwise
    /// outlive a crash between the zeroing of the disk and the tombstone, be read, and turn to zeros when
    /// its frame leaves.
    fn zero_held(&self, host: &TierHost, file: &FileInner, first: u64, last: u64) -> Result<(), VolumeError> {
        let zeros = vec![0; host.page_size()];
        let mut page = vec![0; host.page_size()];
        for block in first..last {
            let id = PageId::volume(u64::from(file.number), block);
            if !matches!(host.tier.lookup(&id, &mut page), Lookup::Miss(_)) {
                self.stage_page(host, file, block, &zeros)?;
                host.changed();
            }
        }
        self.sync_tier(host).map(|_| ())
    }

    /// Zeros a range that lies in one or two pages, through the tier.
    fn write_zeros(
        &self,
        host: &TierHost,
        file: &FileInner,
        offset: u64,
        end: u64,
    ) -> Result<(), VolumeError> {
        let mut at = offset;
        while at < end {
            let block = at / file.page_size;
            let part = (end - at).min(file.page_size - at % file.page_size);
            let inside = (at % file.page_size) as usize;
            let mut page = vec![0; host.page_size()];
            self.read_page(host, file, block, &mut page)?;
            page[inside..inside + part as usize].fill(0);
            self.stage_page(host, file, block, &page)?;
            at += part;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
