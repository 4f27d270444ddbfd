//! The start of an opening. Until something is to be changed, nothing has: opening a tier, attaching files
//! that it knows and that need nothing done, reading them and closing writes nothing and syncs nothing.
//!
//! What the start makes durable, in this order (see `identity`): metadata that recovery wants on flash, the
//! superblock with the new epoch, the path table, and of each file attached by then its sidecar, with the new
//! epoch; then the table says the epoch too. It comes before
//! - the first change of a file, and whatever else changes the tier or what stands beside a file;
//! - the attachment of a file that the tier does not know, or one that needs something put right on disk;
//! - clean pages: when as many as fill a group were read from disk, they are worth the writes.
//!
//! A start that fails on the way is gone on with by the next one who needs it. If it is the flash device that
//! fails, the tier is given up.

use std::path::Path;

use mezzanine_engine::planted::{self, Bug};

use crate::backing::FileInner;
use crate::core::{Local, TierHost, lock, try_lock};
use crate::error::VolumeError;
use crate::health::{Mode, Route};
use crate::registry::{OpenedTier, Registry};
use crate::shared::marks::Says;
use crate::sidecar::SidecarState;

/// Pages untaken from here on: a start failed, and another one is not tried for such pages.
const IN_VAIN: u64 = 1 << 32;

impl Local {
    /// Before a change, and before the lock that it holds from its beginning to its end: has the opening
    /// start.
    pub(crate) fn ensure_started(&self) -> Result<(), VolumeError> {
        if !self.is_unstarted() {
            return Ok(());
        }
        self.start_for_change(&mut lock(&self.registry))
    }

    /// As [`Self::ensure_started`], for those that have the registry in hand. The tier may be given up
    /// afterwards.
    pub(crate) fn start_for_change(&self, registry: &mut Registry) -> Result<(), VolumeError> {
        let (Some(host), Some(opened)) = (self.tier_in_use(), registry.tier.as_mut()) else { return Ok(()) };
        // Closing changes the mode with the registry in hand: what comes later finds it here.
        if !self.is_unstarted() || self.may_not_start(&host)? {
            return Ok(());
        }
        match opened.start_on_flash(&host) {
            Ok(()) => self.start(registry),
            Err(error) => self.go_without(&host, error),
        }
    }

    /// Whether the tier is not in use any more.
    ///
    /// # Errors
    /// That of a change, where there may be none: an opening that is closed, or of which nobody knows what is
    /// durable, must not write to flash or a sidecar either.
    fn may_not_start(&self, host: &TierHost) -> Result<bool, VolumeError> {
        if planted::is(Bug::StartedWhenClosed) {
            return Ok(false);
        }
        Ok(self.health.route("change", &host.flash_name)? == Route::Disk)
    }

    /// The device cannot be written, and a change is to be made: the tier is given up in order, as after a
    /// failure in use. Its superblock may be believed again, so until the end the sidecars go on with the
    /// epoch that they have.
    fn go_without(&self, host: &TierHost, error: VolumeError) -> Result<(), VolumeError> {
        if !self.missing_files(host).is_empty() {
            return Err(error);
        }
        let reason = error.to_string();
        if host.provably_clean() {
            // Nothing has to go to disk. If a sidecar cannot say so the change is refused, and nothing else.
            self.all_files().iter().try_for_each(|file| {
                self.replace_sidecar(file, || self.detached_sidecar(host, file, &reason))
            })?;
            host.tier.stop_admission();
            self.health.change(&[Mode::Normal], Mode::Bypass, &reason);
        } else {
            self.give_up_tier(host, &reason);
        }
        self.signal.made_progress();
        if self.health.mode() != Mode::Bypass {
            return Err(error);
        }
        self.has_started();
        Ok(())
    }

    /// Before a read: has the opening start if enough pages were read from disk that the tier may take. A
    /// failure is for those to meet who change something: reads go on as before.
    pub(crate) fn start_if_worthwhile(&self) {
        if !self.is_unstarted() {
            return;
        }
        let Some(host) = self.tier_in_use() else { return };
        let group = host.tier.geometry().group_pages();
        if !(group..IN_VAIN).contains(&host.shared.service.untaken()) {
            return;
        }
        // Not where somebody attaches or closes just now: a reader does not wait for that.
        let Some(mut registry) = try_lock(&self.registry) else { return };
        if self.health.mode() != Mode::Normal {
            return;
        }
        // Of a start for reads no change comes that has the second copy of the superblock made durable.
        let flush = || if planted::is(Bug::ReadStartUnflushed) { Ok(()) } else { host.flash.flush() };
        if self.start(&mut registry).is_err() || flush().is_err() {
            host.shared.service.set_untaken(IN_VAIN);
        }
    }

    /// Has the opening start, or goes on with a start that failed on the way.
    pub(crate) fn start(&self, registry: &mut Registry) -> Result<(), VolumeError> {
        if !self.is_unstarted() {
            return Ok(());
        }
        let (Some(host), Some(opened)) = (self.tier_in_use(), registry.tier.as_mut()) else { return Ok(()) };
        if self.may_not_start(&host)? {
            return Ok(());
        }
        opened.start_on_flash(&host)?;
        while let Some(file) = opened.waiting.last() {
            self.take_up(&host, file)?;
            opened.waiting.pop();
        }
        self.completed(registry, &host)?;
        self.has_started();
        Ok(())
    }

    /// A file that the tier knows is used in the new epoch: its sidecar says so durably, and then the table.
    pub(crate) fn take_up(&self, host: &TierHost, file: &FileInner) -> Result<(), VolumeError> {
        file.shared.marks.set_mark(0);
        if file.shared.marks.may_be_dirty() {
            self.write_sidecar(host, file, SidecarState::Dirty)?;
            file.shared.marks.say(Says::Dirty);
        } else if !host.provably_clean() {
            self.replace_sidecar(file, || self.plain_sidecar(host, file))?;
        }
        if let Some(entry) = host.table().table.get_mut(file.number) {
            (entry.epoch, entry.mark, entry.length) = (host.epoch, 0, file.len());
        }
        Ok(())
    }
}

impl OpenedTier {
    /// What of the start is on flash: the new epoch, and which files the tier knows by which paths.
    fn start_on_flash(&mut self, host: &TierHost) -> Result<(), VolumeError> {
        self.begin_epoch(host)?;
        for file in &self.waiting {
            self.path_table_unwritten |= self.path_table.set(file.number, &file.path);
        }
        self.write_path_table(host)
    }

    /// Has the tier know a file by this path.
    pub(crate) fn name_file(&mut self, host: &TierHost, number: u32, path: &Path) -> Result<(), VolumeError> {
        self.path_table_unwritten |= self.path_table.set(number, path);
        self.write_path_table(host)
    }

    /// Writes by which paths the tier knows its files, if flash says otherwise. The next flush makes it
    /// durable.
    pub(crate) fn write_path_table(&mut self, host: &TierHost) -> Result<(), VolumeError> {
        if self.path_table_unwritten {
            let failed = |error| VolumeError::from_device("attach a file to", &host.flash_name, error);
            self.path_table.write(&*host.flash).map_err(failed)?;
            self.path_table_unwritten = false;
        }
        Ok(())
    }
}
