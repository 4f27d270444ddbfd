//! Everything that brings the tier and the disk to one state: failures, drains, closing.
//!
//! Whoever quiesces changes the mode first, so that writers and syncs wait and jobs stop; waits until nobody
//! is inside of a change any more; and then has the tier to itself but for readers.

use std::sync::Arc;

use mezzanine_device::{AlignedBuf, Request};
use mezzanine_engine::format::{Superblock, TierState};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{DirtyPage, DrainCursor, Failure, NoRoom, SyncState};
use mezzanine_ground::interleave::rest;

use crate::backing::FileInner;
use crate::core::{FRUITLESS_MAX, Local, TierHost, exclusive, lock, shared};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::forget::or_forget;
use crate::health::Mode;
use crate::path_table::PathTable;
use crate::registry::Registry;
use crate::reread::{Reread, Unread};
use crate::shared::marks::Says;
use crate::sidecar::{Sidecar, SidecarState};
use crate::statistics::count;

/// Pages that a drain reads from flash as one batch.
const DRAIN_PAGES: usize = 256;

/// Where the newest version of a page that counts as dirty is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newest {
    /// It was read.
    Bytes,
    /// It could not be read, and stage-out has brought it to disk.
    OnDisk,
    /// The page is lost, or cannot be had just now.
    Nowhere,
}

/// Whether a sidecar could not be written for want of the permission.
fn is_read_only(error: &VolumeError) -> bool {
    error.kind() == VolumeErrorKind::ReadOnly && !planted::is(Bug::ReadOnlyCloseFails)
}

/// Pages that are newer than their disk copies; about so many where the tier is not quiesced.
pub(crate) fn dirty_pages(host: &TierHost) -> u64 {
    let mut cursor = DrainCursor::default();
    let batch = || host.tier.drain_batch(&mut cursor, DRAIN_PAGES).len() as u64;
    std::iter::repeat_with(batch).take_while(|pages| *pages > 0).sum()
}

impl Local {
    /// Acts on a failure that the tier has latched (invariant 11).
    pub(crate) fn handle_failure(&self, host: &TierHost) {
        let Some(failure) = host.tier.failure() else { return };
        let still = || !host.is_retired();
        let cause = lock(&host.cause).clone().unwrap_or_default();
        let reason = if cause.is_empty() { failure.to_string() } else { format!("{failure}: {cause}") };
        match failure {
            Failure::FlashWrite | Failure::FlashSync if host.disk_first() => {
                host.tier.stop_admission();
                self.health.change_while(still, &[Mode::Normal], Mode::Bypass, &reason);
            }
            Failure::FlashWrite if !planted::is(Bug::FlashWriteEndsWriting) => {
                self.give_up_tier(host, &reason);
            }
            Failure::FlashRead { .. } => {
                let reason = match host.tier.stuck_page() {
                    Some((id, _)) => {
                        let name =
                            self.file(id.file() as u32).map_or_else(String::new, |file| file.name.clone());
                        let offset = id.block().saturating_mul(host.page_size() as u64);
                        format!("{reason}; it is the page at offset {offset} of {name}")
                    }
                    None => reason,
                };
                self.health.change_while(still, &[Mode::Normal], Mode::ReadOnly, &reason);
            }
            Failure::FlashWrite | Failure::FlashSync | Failure::DiskWrite | Failure::DiskSync => {
                self.health.change_while(still, &[Mode::Normal], Mode::ReadOnly, &reason);
            }
        }
        self.signal.made_progress();
    }

    /// Refuses changes from now on: what is durable on disk is no longer known, or a file was left half
    /// changed. Also while somebody quiesces the volume, who waits for that change: he leaves it read-only
    /// then.
    pub(crate) fn refuse_changes(&self, error: &VolumeError) {
        let from = match planted::is(Bug::SettledOverRefusal) {
            true => &[Mode::Normal, Mode::Bypass][..],
            false => &[Mode::Normal, Mode::Quiescing, Mode::Bypass],
        };
        self.health.change(from, Mode::ReadOnly, &error.to_string());
        self.signal.made_progress();
    }

    /// The tier takes no more pages, for one of its numbers comes to its end: it is given up in order, though
    /// its device is well.
    pub(crate) fn leave_used_up(&self, host: &TierHost) {
        let Some(why) = host.tier.used_up() else { return };
        self.give_up_tier(host, &why.to_string());
        self.signal.made_progress();
    }

    /// The flash device cannot be written: everything dirty goes to disk, the files are detached from the
    /// tier durably, and the volume goes on without it. Writers and syncs wait meanwhile, so nothing is
    /// acknowledged before it holds.
    pub(crate) fn give_up_tier(&self, host: &TierHost, reason: &str) {
        let still = || !host.is_retired();
        if !self.health.change_while(still, &[Mode::Normal], Mode::Quiescing, reason) {
            return;
        }
        host.wait_outside();
        host.tier.stop_admission();
        let gate = exclusive(&host.disk_gate);
        if self.health.mode() != Mode::Quiescing {
            // A change that was waited for has left its file half changed. No sidecar may call that current.
            return;
        }
        let given_up = self.distrust_clean(host).and_then(|()| self.drain_pages(host)).and_then(|()| {
            self.all_files().iter().try_for_each(|file| {
                self.leave_tier(host, file, || {
                    // The head is in its place. With a guard in the sidecar a file that is shorter than it
                    // would be taken for one that the guard has stretched, and be truncated at
                    // the next attachment.
                    self.replace_sidecar(file, || self.detached_sidecar(host, file, reason))
                })
            })
        });
        drop(gate);
        match given_up {
            Ok(()) => self.health.change(&[Mode::Quiescing], Mode::Bypass, reason),
            Err(error) => {
                let reason = format!("{reason}; then the tier's pages could not be saved: {error}");
                self.health.change(&[Mode::Quiescing], Mode::ReadOnly, &reason)
            }
        };
    }

    /// Before pages that have no durable copy on flash go to disk: has the sidecars say durably that clean
    /// pages in the tier may be older than the disk now. If the power fails before the tier is given up
    /// altogether, they would answer for a while, and then the disk.
    fn distrust_clean(&self, host: &TierHost) -> Result<(), VolumeError> {
        let end = host.tier.rear().number();
        self.all_files().iter().filter(|file| file.shared.marks.may_be_dirty()).try_for_each(|file| {
            file.shared.marks.distrust(end);
            // Newer versions than the tier will find go to disk from memory.
            file.shared.stage_out.batch(|batch| batch.forget(0, u64::MAX));
            self.write_sidecar(host, file, SidecarState::Dirty)
        })
    }

    /// Writes every dirty page of the tier to disk and syncs. The caller has the tier to itself, and has made
    /// it durable if it can: after a crash on the way, what disk then holds in part or too new is covered
    /// by the tier's copy.
    ///
    /// # Errors
    /// `LostPage` if pages cannot be read, or that of a device that answers nothing or of a disk that does
    /// not say whether it has them, when all others are on disk and synced: no file of theirs may be called
    /// current.
    pub(crate) fn drain_pages(&self, host: &TierHost) -> Result<(), VolumeError> {
        self.drain_pages_while(host, &mut |_| true).map(drop)
    }

    /// As [`Self::drain_pages`], until `go_on`, which is told how many pages were had, says no: then what was
    /// begun is on disk and synced. Whether all was.
    fn drain_pages_while(
        &self,
        host: &TierHost,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, VolumeError> {
        let mut cursor = DrainCursor::default();
        let mut drained: Vec<DirtyPage> = Vec::new();
        let mut lost = None;
        let complete = loop {
            let mut pages = host.tier.drain_batch(&mut cursor, DRAIN_PAGES);
            if pages.is_empty() {
                break true;
            }
            pages.sort_unstable_by_key(|page| page.id);
            let (bytes, found) = self.read_dirty(host, &pages, &mut lost);
            let numbered: Vec<(u32, u64, &[u8])> = pages
                .iter()
                .zip(bytes.chunks_exact(host.page_size()))
                .zip(&found)
                .filter(|(_, found)| **found == Newest::Bytes)
                .map(|((page, bytes), _)| (page.id.file() as u32, page.id.block(), bytes))
                .collect();
            for file in numbered.chunk_by(|a, b| a.0 == b.0) {
                let of_file: Vec<(u64, &[u8])> =
                    file.iter().map(|(_, block, bytes)| (*block, *bytes)).collect();
                self.write_home(file[0].0, &of_file)?;
            }
            let had = pages.into_iter().zip(found).filter(|(_, found)| *found != Newest::Nowhere);
            drained.extend(had.map(|(page, _)| page));
            if !go_on(drained.len() as u64) {
                break false;
            }
        };
        if !planted::is(Bug::DrainMarksUnsynced) {
            self.sync_staged_out(host)?;
        }
        host.tier.mark_clean(&drained);
        match lost {
            Some(error) if !planted::is(Bug::LostCountsAsDrained) => Err(error),
            _ => Ok(complete),
        }
    }

    /// The bytes of dirty pages, from staging memory or flash, and where each could be had. `lost` becomes
    /// the error of the first that could not.
    fn read_dirty(
        &self,
        host: &TierHost,
        pages: &[DirtyPage],
        lost: &mut Option<VolumeError>,
    ) -> (AlignedBuf, Vec<Newest>) {
        let size = host.page_size();
        let mut bytes = AlignedBuf::zeroed(pages.len() * size);
        let staged: Vec<bool> = pages
            .iter()
            .zip(bytes.chunks_exact_mut(size))
            .map(|(page, out)| host.tier.read_staged(&page.flash, out))
            .collect();
        let mut requests = Vec::new();
        for ((page, buf), staged) in pages.iter().zip(bytes.chunks_exact_mut(size)).zip(&staged) {
            if !staged {
                requests.push(Request::Read { offset: page.flash.offset, buf });
            }
        }
        count(&self.counters().flash_reads, requests.len() as u64);
        let results = if requests.is_empty() { Vec::new() } else { host.flash.run(&mut requests) };
        let mut results = results.into_iter();
        let mut found = Vec::with_capacity(pages.len());
        for ((page, buf), staged) in pages.iter().zip(bytes.chunks_exact_mut(size)).zip(staged) {
            let read = if staged { Ok(()) } else { results.next().unwrap_or(Ok(())) };
            // Once the device was found to answer nothing it is not asked again and again.
            let silent = lost.as_ref().is_some_and(VolumeError::is_silence);
            let unread = match read {
                _ if staged => None,
                Err(cause) if silent => Some(Unread { cause: Some(cause), silent }),
                read => match self.reread(host, &page.flash, buf, read) {
                    Reread::Whole => None,
                    Reread::Gone => Some(Unread::default()),
                    Reread::Unread(unread) => Some(unread),
                },
            };
            let mut newest = match () {
                () if unread.is_none() => Newest::Bytes,
                () if host.tier.on_disk(&page.id, &page.flash) => Newest::OnDisk,
                () => Newest::Nowhere,
            };
            // A page of a file that is no more need not be had, nor one past the end, which a crash has left
            // there.
            let start = page.id.block().saturating_mul(size as u64);
            let is_in = |file: &Arc<FileInner>| {
                start < file.shared.lengths.write_limit() || planted::is(Bug::PastEndDrained)
            };
            let file = self.file(page.id.file() as u32);
            if let Some(file) = file.filter(|file| newest == Newest::Nowhere && is_in(file)) {
                // What disk has, as far as only it knows, goes there once more, so that the sync covers it.
                let unread = unread.unwrap_or_default();
                match self.read_from_disk(host, &file, page.id.block(), &page.flash, unread, buf) {
                    Ok(()) => newest = Newest::Bytes,
                    Err(error) => _ = lost.get_or_insert(error),
                }
            }
            found.push(newest);
        }
        (bytes, found)
    }

    /// A file whose pages are all on disk leaves the tier, by the steps in `backing`; `last` replaces or
    /// removes its sidecar.
    fn leave_tier(
        &self,
        host: &TierHost,
        file: &FileInner,
        last: impl FnOnce() -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        self.declare_current(host, file)?;
        self.restore_head(file)?;
        last()
    }

    /// The first half: the disk is whole but for the guard, and the sidecar says so.
    pub(crate) fn declare_current(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        if !file.shared.marks.may_be_dirty() {
            return Ok(());
        }
        let failed = |error| VolumeError::from_device("detach", &file.name, error);
        let physical = file.len().max(file.physical_min());
        if file.resizable && file.shared.lengths.physical() != physical {
            file.resize(physical).map_err(failed)?;
            file.flush(self.counters()).map_err(failed)?;
        }
        // The disk may be written directly from now on.
        file.shared.stage_out.batch(|batch| batch.forget(0, u64::MAX));
        self.mark(host, file, SidecarState::Current)?;
        file.shared.marks.say(Says::Current);
        file.shared.marks.set_ready(false);
        Ok(())
    }

    /// The second half: the head takes its place again.
    pub(crate) fn restore_head(&self, file: &FileInner) -> Result<(), VolumeError> {
        if !file.is_guarded() {
            return Ok(());
        }
        let failed = |error| VolumeError::from_device("restore the header of", &file.name, error);
        let len = file.len();
        let head = file.shared.guards.head();
        let keep = head.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        let _moves = lock(&file.guard_moves);
        file.write_plain(&head[..keep], 0, self.counters()).map_err(failed)?;
        if file.resizable && file.shared.lengths.physical() != len {
            file.resize(len).map_err(failed)?;
        }
        file.flush(self.counters()).map_err(failed)?;
        file.shared.guards.put_up(false);
        Ok(())
    }

    /// Syncs what was written to the disk of a file directly. A failure ends all changes (invariant 11).
    pub(crate) fn flush_direct(&self, file: &FileInner) -> Result<(), VolumeError> {
        if !file.may_be_unsynced() {
            return Ok(());
        }
        let _busy = self.pacing.busy();
        let host = self.tier_in_use();
        let mark = host.as_ref().map(|host| host.tier.disk_mark());
        file.flush(self.counters())
            .map_err(|error| VolumeError::from_device("sync", &file.name, error))
            .inspect_err(|error| self.refuse_changes(error))?;
        // A page is given to the tier when its write to the disk is counted. So with no file behind now,
        // everything before the mark is covered.
        if let Some((host, mark)) =
            host.zip(mark).filter(|_| !self.all_files().iter().any(|file| file.is_unsynced()))
        {
            host.tier.disk_synced(mark);
        }
        // The system reports a failed sync to one of those that wait; another must not take its own for good.
        if self.health.mode() == Mode::ReadOnly {
            return Err(self.health.read_only("sync", &file.name));
        }
        Ok(())
    }

    /// See [`crate::VolumeFile::sync`].
    pub(crate) fn sync_file(&self, file: &FileInner) -> Result<bool, VolumeError> {
        count(&self.counters().syncs, 1);
        // What it waits for must not be taken out of use meanwhile.
        let _changing = shared(&self.changing);
        self.health.route("sync", &file.name)?;
        let mut worked = false;
        if let Some(host) = self.tier_in_use().filter(|host| !host.disk_first()) {
            worked = self.sync_tier(&host)?;
        }
        if file.may_be_unsynced() {
            worked = true;
            self.flush_direct(file)?;
        }
        if !worked {
            count(&self.counters().syncs_without_io, 1);
        }
        Ok(worked)
    }

    /// See [`crate::VolumeFile::hand_over`].
    pub(crate) fn hand_over(&self, file: &FileInner) -> Result<(), VolumeError> {
        let _changing = shared(&self.changing);
        self.health.route("hand over", &file.name)?;
        if self.is_unstarted() {
            // Nothing was changed.
            return Ok(());
        }
        // What goes to disk first is there when it is written.
        match self.tier_in_use().filter(|host| !host.disk_first()) {
            Some(host) => self.hand_over_tier(&host),
            None => Ok(()),
        }
    }

    /// Begins to quiesce the volume: no changes, no jobs, no disk writes of the tier under way. False if
    /// there is no tier in use, also if it has failed just now: then everything was brought to disk from
    /// memory.
    pub(crate) fn begin_quiescing(
        &self,
        host: &TierHost,
        operation: &'static str,
    ) -> Result<bool, VolumeError> {
        loop {
            if self.health.route(operation, &host.flash_name)? == crate::health::Route::Disk {
                return Ok(false);
            }
            if self.health.change(&[Mode::Normal], Mode::Quiescing, operation) {
                break;
            }
        }
        // Readers that wait for a job go on without.
        self.signal.made_progress();
        host.wait_outside();
        host.tier.stop_admission();
        // Whatever is written to disk from now on has a durable copy on flash, in case the disk tears it.
        let synced = self.sync_alone(host, operation);
        host.tier.begin_drain();
        if let Err(error) =
            synced.and_then(|()| self.work_alone(host, operation, || host.tier.stage_out_idle()))
        {
            self.stop_quiescing(host);
            planted::outside("quiescing has failed");
            self.handle_failure(host);
            if !planted::is(Bug::GivingUpUnawaited) {
                // Another thread may have been faster and be giving the tier up: the caller goes by what
                // becomes of that.
                self.health.wait_quiesced();
            }
            let given_up = self.health.mode() == Mode::Bypass && !planted::is(Bug::GivenUpFailsDrain);
            return if given_up { Ok(false) } else { Err(error) };
        }
        Ok(true)
    }

    /// After what the volume was quiesced for: it goes on if that is done, or was not begun because a page
    /// could not be read; else it is read-only.
    pub(crate) fn end_quiescing<T>(&self, outcome: &Result<T, VolumeError>) {
        match outcome {
            Err(error) if !error.is_of_unread_pages() || planted::is(Bug::LostEndsWriting) => {
                self.health.change(&[Mode::Quiescing], Mode::ReadOnly, &error.to_string())
            }
            _ => self.health.change(&[Mode::Quiescing], Mode::Normal, ""),
        };
    }

    /// Lets writers and jobs go on as before.
    pub(crate) fn stop_quiescing(&self, host: &TierHost) {
        host.tier.end_drain();
        host.resume_admission();
        self.health.change(&[Mode::Quiescing], Mode::Normal, "");
        self.signal.made_progress();
    }

    /// Carries out jobs while the volume is being quiesced, and waits for those that others have begun
    /// before, until `done`.
    fn work_alone(
        &self,
        host: &TierHost,
        operation: &'static str,
        done: impl Fn() -> bool,
    ) -> Result<(), VolumeError> {
        let mut fruitless = 0;
        loop {
            // Noted before looking: whatever happens after this is noticed below.
            let seen = self.signal.progress();
            // Not before the failure: that of the last job would be nobody's then, since who carries jobs out
            // here does not act on it.
            if planted::is(Bug::LastFailureMissed) && done() {
                return Ok(());
            }
            if let Some(failure) = host.tier.failure() {
                let cause = lock(&host.cause).clone().unwrap_or_default();
                let reason = format!("{failure}: {cause}");
                return Err(VolumeError::new(VolumeErrorKind::Io, operation, &host.flash_name, reason));
            }
            if done() {
                return Ok(());
            }
            if self.health.mode() == Mode::ReadOnly {
                // A change that was waited for has failed.
                return Err(self.health.read_only(operation, &host.flash_name));
            }
            fruitless += 1;
            if self.run_one(host, Mode::Quiescing) {
                fruitless = 0;
                self.signal.made_progress();
            } else if host.shared.jobs.are_running() {
                self.signal.wait_for_progress(seen);
            } else if fruitless <= FRUITLESS_MAX {
                rest();
            } else {
                let reason =
                    "the tier is not at rest and has no job to offer; this is a defect of the software";
                return Err(VolumeError::new(VolumeErrorKind::Io, operation, &host.flash_name, reason));
            }
        }
    }

    /// Makes everything in the tier durable while the volume is being quiesced, and waits until no job is
    /// under way.
    pub(crate) fn sync_alone(&self, host: &TierHost, operation: &'static str) -> Result<(), VolumeError> {
        self.work_alone(host, operation, || match self.begin_sync(host) {
            // A job may have appended something since the last look, so only a sync with nothing to do is the
            // last.
            Ok(ticket) => {
                host.tier.sync_state(&ticket) == SyncState::Durable && !host.shared.jobs.are_running()
            }
            Err(NoRoom) => {
                // Only stage-out makes room.
                host.tier.end_drain();
                false
            }
        })
    }

    pub(crate) fn refuse_incomplete(
        &self,
        registry: &Registry,
        operation: &'static str,
    ) -> Result<(), VolumeError> {
        let (Some(host), Some(opened)) = (self.host(), &registry.tier) else { return Ok(()) };
        let missing = self.missing_files(&host);
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = missing.iter().map(|number| opened.path_table.name(*number)).collect();
        let reason = format!("it holds pages of files that are not attached: {}", names.join(", "));
        Err(VolumeError::new(VolumeErrorKind::FileNotAttached, operation, &host.flash_name, reason).advise(
            format!("attach every file of the volume first, {}", or_forget(&host.flash_name, &names)),
        ))
    }

    /// See [`crate::Volume::drain_while`].
    pub(crate) fn drain(&self, mut go_on: impl FnMut(u64, u64) -> bool) -> Result<bool, VolumeError> {
        let mut complete = true;
        let mut registry = lock(&self.registry);
        // Also where the tier was given up: after a failed sync of the disk nothing is acknowledged any more.
        self.health.route("drain", "the volume")?;
        if let Some(host) = self.tier_in_use() {
            self.refuse_incomplete(&registry, "drain")?;
            self.start_for_change(&mut registry)?;
            let host = &*host;
            if self.begin_quiescing(host, "drain")? {
                let gate = exclusive(&host.disk_gate);
                let total = dirty_pages(host);
                let drained = self.drain_pages_while(host, &mut |done| go_on(done, total));
                drop(gate);
                host.tier.end_drain();
                host.resume_admission();
                self.end_quiescing(&drained);
                self.signal.made_progress();
                complete = drained?;
            }
        }
        self.all_files().iter().try_for_each(|file| self.flush_direct(file))?;
        Ok(complete)
    }

    /// See [`crate::Volume::close`] and [`crate::Volume::close_drained`].
    pub(crate) fn close(&self, drained: bool) -> Result<(), VolumeError> {
        let mut registry = lock(&self.registry);
        // A change that is under way comes to its end first: one that had gone to disk and not to the tier
        // yet would leave an older copy in a tier that is believed, and nothing is to be written once
        // this has returned.
        let _changing = (!planted::is(Bug::ClosedOverWriters)).then(|| exclusive(&self.changing));
        let outcome = self.close_in_order(&mut registry, drained);
        let reason = "it was closed";
        self.health.change(
            &[Mode::Normal, Mode::Quiescing, Mode::Bypass, Mode::ReadOnly],
            Mode::Closed,
            reason,
        );
        self.signal.made_progress();
        outcome
    }

    fn close_in_order(&self, registry: &mut Registry, drained: bool) -> Result<(), VolumeError> {
        let operation = if drained { "drain and close" } else { "close" };
        if drained {
            self.refuse_incomplete(registry, operation)?;
        }
        if self.health.mode() == Mode::ReadOnly {
            return Err(self.health.read_only(operation, "the volume"));
        }
        let begun = self.tier_in_use().is_some_and(|host| host.has_begun());
        if begun || drained {
            // It may have started by half.
            self.start_for_change(registry)?;
        } else if self.is_unstarted() {
            return self.all_files().iter().try_for_each(|file| self.flush_direct(file));
        }
        let host = match self.tier_in_use() {
            Some(host) if self.begin_quiescing(&host, operation)? => host,
            _ => return self.all_files().iter().try_for_each(|file| self.flush_direct(file)),
        };
        let files = self.all_files();
        files.iter().try_for_each(|file| self.flush_direct(file))?;
        if !drained {
            return self.leave_warm(&host, &files);
        }
        self.leave_drained(&host, &files).inspect_err(|error| {
            if error.is_of_unread_pages() && !planted::is(Bug::LostLeftOpen) {
                // Nothing of it was given up: closed in order, it needs no more of its device than its pages.
                // The first error is the one to report.
                let _ = self.leave_warm(&host, &files);
            }
        })
    }

    /// Closes the tier with its pages in it.
    fn leave_warm(&self, host: &TierHost, files: &[Arc<FileInner>]) -> Result<(), VolumeError> {
        self.sync_alone(host, "close")?;
        if host.provably_clean() {
            // Only a tier that was closed is believed, and then each file that its table knows has a sidecar
            // with its number.
            let named = files
                .iter()
                .try_for_each(|file| self.replace_sidecar(file, || self.plain_sidecar(host, file)));
            match named {
                // Beside a file that is only read, in a folder that cannot be written: the next opening finds
                // the tier as after a crash, and nothing in it is needed.
                Err(error) if is_read_only(&error) => return Ok(()),
                named => named?,
            }
        }
        // A copy of the flash device from before the last sync is told from this one by the groups that it
        // lacks.
        files
            .iter()
            .filter(|file| file.shared.marks.may_be_dirty())
            .try_for_each(|file| self.write_sidecar(host, file, SidecarState::Dirty))?;
        // A tier is drained if no file needs it: one whose sidecar says `dirty` does, also if its pages
        // happen to be on disk.
        let dirty = files.iter().any(|file| file.shared.marks.may_be_dirty());
        let needed = dirty || !self.missing_files(host).is_empty();
        host.put_superblock("close the tier on", |superblock| {
            let closed = host.tier.closed(superblock);
            let kept = needed && !planted::is(Bug::DrainedForDirtyFiles);
            if kept { Superblock { state: TierState::Closed, ..closed } } else { closed }
        })?;
        for file in files.iter().filter(|file| !file.shared.marks.may_be_dirty()) {
            // Making it ready for changes may have failed when its guard stood there already.
            self.restore_head(file)?;
            let failed = |error| VolumeError::from_io("close", &file.name, error);
            let known = match file.shared.marks.is_foreign() {
                true => None,
                false => file.sidecar.fingerprint().map_err(failed)?,
            };
            let fingerprint = known.unwrap_or_default();
            self.replace_sidecar(file, || Sidecar { fingerprint, ..self.plain_sidecar(host, file) })?;
        }
        Ok(())
    }

    /// Writes everything to disk and lets all files go; the tier is left empty, and knows none.
    fn leave_drained(&self, host: &TierHost, files: &[Arc<FileInner>]) -> Result<(), VolumeError> {
        {
            let _gate = exclusive(&host.disk_gate);
            self.drain_pages(host)?;
        }
        files.iter().try_for_each(|file| self.declare_current(host, file))?;
        // Every sidecar says `current` before the tier forgets, and is removed only afterwards: a crash
        // between leaves either a tier that nobody needs, or files that need none.
        let emptied = |old: &Superblock| Superblock { state: TierState::Drained, ..old.discarded() };
        host.put_superblock("close the tier on", emptied)?;
        for file in files {
            self.restore_head(file)?;
            if let Some(place) = self.place_of_sidecar(file, &self.plain_sidecar(host, file))? {
                let failed =
                    |error| VolumeError::from_io("remove the sidecar", file.sidecar.describe(), error);
                place.remove().map_err(failed)?;
            }
        }
        if !planted::is(Bug::DrainedPathTableKept) {
            // Nor is it to ask for files of long ago before it takes another one (see `parted`). Nothing is
            // lost if its device cannot keep that.
            let _ = PathTable::default().write(&*host.flash).and_then(|()| host.flash.flush());
        }
        Ok(())
    }
}
