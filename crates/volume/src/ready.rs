//! Making a file ready for its first change since it was attached, and what has to be put right before it.

use mezzanine_engine::interleave::sync::Arc;
use mezzanine_engine::interleave::sync::atomic::Ordering;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{IdRange, StageIn, StageKind};

use crate::attach::empty_head;
use crate::condition::Route;
use crate::core::{Shared, TierHost, exclusive, lock};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::home::FileInner;
use crate::roster::Roster;
use crate::sidecar::SidecarState;

impl Shared {
    /// Makes a file ready for its first change since it was attached: what must be durable before it, is.
    pub(crate) fn make_ready(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        let _arming = lock(&file.arming);
        if file.ready.load(Ordering::Acquire) {
            return Ok(());
        }
        let missing = self.missing_files(host);
        if !missing.is_empty() {
            // From flash: the registry's is not to be waited for under a file's lock.
            let roster = Roster::read(&*host.flash);
            let names: Vec<String> = missing.iter().map(|number| roster.name(*number)).collect();
            let reason = format!(
                "the tier {} also holds pages of files that are not attached: {}",
                host.flash_name,
                names.join(", ")
            );
            return Err(VolumeError::new(VolumeErrorKind::FileNotAttached, "change", &file.name, reason)
                .advise("attach every file of the volume before changing one"));
        }
        if file.trim.load(Ordering::Acquire) && !planted::is(Bug::TailNotTrimmed) {
            self.trim(host, file)?;
            file.trim.store(false, Ordering::Release);
        }
        if !file.armed.load(Ordering::Acquire) {
            self.arm(host, file)?;
        }
        if file.armed.load(Ordering::Acquire) {
            file.ready.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// From `current` to `dirty`, by the steps in `home`.
    fn arm(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        // The tier knows the file durably before the sidecar says that its pages are there.
        host.changed();
        self.sync_tier(host)?;
        // Not while the volume is settled: whoever settles it must know which files are dirty.
        let Some(_inside) = host.enter(&self.condition) else { return Ok(()) };
        let guard = file.guard();
        if !guard.is_empty() {
            let failed = |error| VolumeError::from_device("guard the header of", &file.name, error);
            let mut head = empty_head(&guard);
            file.read_home(&mut head, 0, &self.counters).map_err(failed)?;
            file.head().bytes = head;
            self.write_sidecar(host, file, SidecarState::Current)?;
            // From now on readers put the head over what they read.
            file.set_guarded(true);
            file.write_plain(&guard, 0, &self.counters).map_err(failed)?;
            file.flush(&self.counters).map_err(failed)?;
        }
        file.dirty.store(true, Ordering::Release);
        self.mark(host, file, SidecarState::Dirty)?;
        file.armed.store(true, Ordering::Release);
        Ok(())
    }

    /// Before files leave the tier, or writes go past it: trims those that were not changed since a crash.
    pub(crate) fn trim_all(&self, host: &TierHost, files: &[Arc<FileInner>]) -> Result<(), VolumeError> {
        for file in files.iter().filter(|file| file.trim.load(Ordering::Acquire)) {
            let _arming = lock(&file.arming);
            self.trim(host, file)?;
            file.trim.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// After a crash: what lies past the end of the file is gone, in the tier and in the last page.
    pub(crate) fn trim(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        let _layout = exclusive(&file.layout);
        let end = file.blocks();
        let range = IdRange::blocks_from(u64::from(file.number), end);
        self.reshape(host, || Ok(host.tier.invalidate_range(&range).is_ok()))?;
        match self.zero_tail(host, file, file.len()) {
            // Nothing of it is served before it is written whole or cut off, and with that goes what it held
            // past the end.
            Err(error)
                if error.kind() == VolumeErrorKind::LostPage && !planted::is(Bug::LostTailEndsWriting) => {}
            trimmed => trimmed?,
        }
        host.changed();
        Ok(())
    }

    /// Makes what the last page holds beyond `len` zero. Under the file's exclusive layout lock.
    pub(crate) fn zero_tail(&self, host: &TierHost, file: &FileInner, len: u64) -> Result<(), VolumeError> {
        let inside = (len % file.page_size) as usize;
        if inside == 0 {
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
            match self.condition.route("write", &file.name)? {
                Route::Tier => {}
                Route::Disk => {
                    let start = block * file.page_size;
                    let keep = file.len().saturating_sub(start).min(file.page_size) as usize;
                    let failed = |error| VolumeError::from_device("write", &file.name, error).at(start);
                    return file.write_plain(&page[..keep], start, &self.counters).map_err(failed);
                }
            }
            let Some(inside) = host.enter(&self.condition) else { continue };
            let staged = host.tier.stage_in(&id, page, StageKind::Dirty, 0);
            drop(inside);
            match staged {
                StageIn::Staged { .. } => {
                    self.count_staged(host);
                    return Ok(());
                }
                // Admission has stopped: for good if a number of the tier comes to its end. Else somebody
                // settles the volume right now, or is about to.
                StageIn::Refused if !planted::is(Bug::UsedUpAwaited) && host.tier.used_up().is_some() => {
                    self.leave_used_up(host);
                }
                StageIn::Full | StageIn::Refused | StageIn::Dropped | StageIn::FirstSeen => {
                    self.work_or_wait(host, seen)?
                }
            }
        }
    }
}
