//! Making a file ready for its first change since it was attached, and what has to be put right before it.

use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{IdRange, StageIn, StageKind};
use mezzanine_ground::interleave::sync::Arc;

use crate::agreed::read_agreed;
use crate::backing::FileInner;
use crate::core::{Local, TierHost, exclusive, lock};
use crate::error::{VolumeError, VolumeErrorKind, unsteady};
use crate::forget::or_forget;
use crate::health::Route;
use crate::path_table::PathTable;
use crate::shared::guards::empty_head;
use crate::shared::marks::Says;
use crate::sidecar::SidecarState;

/// No write.
pub(crate) const NOTHING: (u64, &[u8]) = (u64::MAX, &[]);

impl Local {
    /// Makes a file ready for its first change since it was attached: what must be durable before it, is.
    pub(crate) fn make_ready(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        let _arming = lock(&file.arming);
        if file.shared.marks.is_ready() {
            return Ok(());
        }
        // Or the sidecar would say an epoch that the superblock does not know.
        assert!(!self.is_unstarted(), "a file is changed only after the start");
        self.refuse_without_others(host, file)?;
        if file.shared.lengths.must_trim() && !planted::is(Bug::TailNotTrimmed) {
            self.trim(host, file)?;
            file.shared.lengths.set_trim(false);
        }
        if !file.shared.marks.is_dirty() {
            self.arm(host, file)?;
        }
        if file.shared.marks.is_dirty() {
            file.shared.marks.set_ready(true);
        }
        Ok(())
    }

    /// Refuses a change as long as a file that may have pages in the tier is not attached.
    pub(crate) fn refuse_without_others(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        let missing = self.missing_files(host);
        if missing.is_empty() {
            return Ok(());
        }
        // From flash: the registry's is not to be waited for under a file's lock.
        let path_table = PathTable::read(&*host.flash);
        let names: Vec<String> = missing.iter().map(|number| path_table.name(*number)).collect();
        let reason = format!(
            "the tier {} also holds pages of files that are not attached: {}",
            host.flash_name,
            names.join(", ")
        );
        Err(VolumeError::new(VolumeErrorKind::FileNotAttached, "change", &file.name, reason).advise(format!(
            "attach every file of the volume before changing one, {}",
            or_forget(&host.flash_name, &names)
        )))
    }

    /// From `current` to `dirty`, by the steps in `backing`.
    fn arm(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        // The tier knows the file durably before the sidecar says that its pages are there.
        host.changed();
        self.sync_tier(host)?;
        // Not while the volume is quiesced: whoever quiesces it must know which files are dirty.
        let Some(_inside) = host.enter(&self.health) else { return Ok(()) };
        let guard = file.shared.guards.guard();
        if !guard.is_empty() {
            let failed = |error| VolumeError::from_device("guard the header of", &file.name, error).at(0);
            let unread = |error| {
                failed(error).advise(
                    "nothing was changed, and reads of the file go on: see to the disk and try again; a file whose header cannot be read \
                     takes no changes",
                )
            };
            let mut head = empty_head(&guard);
            let read = |bytes: &mut [u8]| file.read_home(bytes, 0, self.counters());
            if !read_agreed(&mut head, read).map_err(unread)? {
                return Err(unsteady("guard the header of", &file.name));
            }
            file.shared.guards.set_head(head);
            // A write that failed while writes went to disk first may have left the disk longer than the
            // file, and a guard on a disk of another length than its sidecar says is of another moment (see
            // `identity`).
            let physical = file.len().max(file.physical_min());
            let other = file.shared.lengths.physical() != physical;
            if file.resizable && other && !planted::is(Bug::LongDiskGuarded) {
                file.resize(physical).and_then(|()| file.flush(self.counters())).map_err(failed)?;
            }
            self.write_sidecar(host, file, SidecarState::Current)?;
            // The tier may have pages of a file that is current, and stage-out that has begun to write the
            // first one as it is would put it over the guard.
            let apart = !planted::is(Bug::GuardBesideStageOut);
            let _gate = apart.then(|| exclusive(&host.disk_gate));
            let _moves = lock(&file.guard_moves);
            // From now on readers put the head over what they read.
            file.shared.guards.put_up(true);
            file.write_plain(&guard, 0, self.counters()).map_err(failed)?;
            file.flush(self.counters()).map_err(failed)?;
        }
        // Of what stage-out wrote while the file was current nobody has noted what was written over it since:
        // the guard, and everything that went to the disk directly.
        if !planted::is(Bug::NamedWhileCurrent) {
            file.shared.stage_out.batch(|batch| batch.forget(0, u64::MAX));
        }
        file.shared.marks.say(Says::PerhapsDirty);
        self.mark(host, file, SidecarState::Dirty)?;
        file.shared.marks.say(Says::Dirty);
        Ok(())
    }

    /// Before files leave the tier, or writes go past it: trims those that were not changed since a crash.
    pub(crate) fn trim_all(&self, host: &TierHost, files: &[Arc<FileInner>]) -> Result<(), VolumeError> {
        for file in files.iter().filter(|file| file.shared.lengths.must_trim()) {
            let _arming = lock(&file.arming);
            self.trim(host, file)?;
            file.shared.lengths.set_trim(false);
        }
        files.iter().try_for_each(|file| self.trim_tail(host, file, NOTHING))
    }

    /// After a crash: what lies past the end of the file is gone, in the tier and in the last page.
    pub(crate) fn trim(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        let _layout = exclusive(&file.layout);
        let end = file.blocks();
        let range = IdRange::blocks_from(u64::from(file.number), end);
        self.with_disk_jobs_out(host, || Ok(host.tier.invalidate_range(&range).is_ok()))?;
        match self.zero_tail(host, file, file.len()) {
            // Not now, and it keeps nobody from changing the rest of the file. Nothing of it is served before
            // the file grows, and then it is made zero first.
            Err(error) if error.is_of_unread_pages() && !planted::is(Bug::LostTailEndsWriting) => {
                file.shared.lengths.set_tail(!planted::is(Bug::TailForgotten));
            }
            trimmed => trimmed?,
        }
        host.changed();
        Ok(())
    }

    /// The last page, if it could not be read when the file was trimmed. If it still cannot, the bytes `over`
    /// it, at their offset, are a write that leaves nothing of it as it was.
    fn trim_tail(&self, host: &TierHost, file: &FileInner, over: (u64, &[u8])) -> Result<(), VolumeError> {
        if !file.shared.lengths.has_tail() {
            return Ok(());
        }
        let _layout = exclusive(&file.layout);
        // Another writer may have been faster: what the file has grown by since has no remains.
        if !file.shared.lengths.has_tail() {
            return Ok(());
        }
        match self.zero_tail(host, file, file.len()) {
            Err(error) if error.is_of_unread_pages() => self.replace_tail(host, file, over, error)?,
            trimmed => trimmed?,
        }
        host.changed();
        file.shared.lengths.set_tail(false);
        Ok(())
    }

    /// Writes the last page anew, with zeros behind the end, and has the file grow over that part of `over`.
    /// Else `error`, why it cannot be read. Under the file's exclusive layout lock.
    fn replace_tail(
        &self,
        host: &TierHost,
        file: &FileInner,
        (from, bytes): (u64, &[u8]),
        error: VolumeError,
    ) -> Result<(), VolumeError> {
        let len = file.len();
        let block = len / file.page_size;
        let start = block * file.page_size;
        let end = (from.saturating_add(bytes.len() as u64)).min(start + file.page_size);
        if from > start || end < len {
            return Err(error);
        }
        let part = &bytes[(start - from) as usize..(end - from) as usize];
        let mut page = vec![0; host.page_size()];
        page[..part.len()].copy_from_slice(part);
        // Before the file has the new length, or the old page could be served with it if this fails. Not so
        // what goes to disk: that must not lack what the page has by then.
        file.shared.lengths.grow_write_limit(end);
        self.stage_page(host, file, block, &page)?;
        file.shared.lengths.grow_len(end);
        Ok(())
    }

    /// Before a change lets the file end at `end`: what its last page holds past the present end would become
    /// part of the file. `over` is what is about to be written, and where. A write that goes well would leave
    /// nothing of that, but it may fail in another page, with the file longer already.
    ///
    /// # Errors
    /// As of a read, if the last page cannot be read and the change leaves anything of it.
    pub(crate) fn ready_to_grow(
        &self,
        file: &FileInner,
        end: u64,
        over: (u64, &[u8]),
    ) -> Result<(), VolumeError> {
        if !file.shared.lengths.has_tail() || end <= file.len() {
            return Ok(());
        }
        let Some(host) = self.tier_in_use() else { return Ok(()) };
        // The rest of the write may fail, and the file is longer then.
        let outgrown =
            planted::is(Bug::TailOutgrown) && over.0 <= file.len() / file.page_size * file.page_size;
        match self.trim_tail(&host, file, if outgrown { NOTHING } else { over }) {
            Err(error) if outgrown && error.is_of_unread_pages() => Ok(()),
            trimmed => trimmed,
        }
    }

    /// Makes what the last page holds beyond `len` zero. Under the file's exclusive layout lock.
    pub(crate) fn zero_tail(&self, host: &TierHost, file: &FileInner, len: u64) -> Result<(), VolumeError> {
        let inside = (len % file.page_size) as usize;
        // If the tier was given up meanwhile, its page may be old, and the disk ends where the file did.
        if inside == 0 || self.health.has_bypassed() {
            return Ok(());
        }
        let block = len / file.page_size;
        let mut page = vec![0; host.page_size()];
        self.read_page(host, file, block, &mut page)?;
        if page[inside..].iter().any(|&byte| byte != 0) {
            page[inside..].fill(0);
            self.stage_page(host, file, block, &page)?;
        }
        Ok(())
    }

    /// Gives a page to the tier, or to the disk if the tier is given up meanwhile. The caller excludes other
    /// writers of the page.
    pub(crate) fn stage_page(
        &self,
        host: &TierHost,
        file: &FileInner,
        block: u64,
        page: &[u8],
    ) -> Result<(), VolumeError> {
        let id = mezzanine_engine::PageId::volume(u64::from(file.number), block);
        loop {
            let seen = self.signal.progress();
            match self.health.route("write", &file.name)? {
                Route::Tier => {}
                Route::Disk => {
                    let start = block * file.page_size;
                    let keep = file.len().saturating_sub(start).min(file.page_size) as usize;
                    let failed = |error| VolumeError::from_device("write", &file.name, error).at(start);
                    return file.write_plain(&page[..keep], start, self.counters()).map_err(failed);
                }
            }
            let Some(inside) = host.enter(&self.health) else { continue };
            let staged = host.tier.stage_in(&id, page, StageKind::Dirty, 0);
            drop(inside);
            match staged {
                StageIn::Staged { .. } => {
                    self.count_staged(host);
                    return Ok(());
                }
                // Admission has stopped: for good if a number of the tier comes to its end. Else somebody
                // quiesces the volume right now, or is about to.
                StageIn::Refused if !planted::is(Bug::UsedUpAwaited) && host.tier.used_up().is_some() => {
                    self.leave_used_up(host);
                }
                StageIn::Full | StageIn::Refused | StageIn::Dropped | StageIn::FirstTouch => {
                    self.work_or_wait(host, seen)?
                }
            }
        }
    }
}
