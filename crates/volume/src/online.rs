//! Changing the way that writes take while files stay attached and readers go on: the sync mode, and whether
//! the tier takes pages at all.
//!
//! Writes go to the tier alone (sync mode `durable`), or to disk first (`through`, and while admission has
//! stopped). Nobody writes while that changes. A crash finds one of two:
//! - *To disk first.* Everything dirty goes to disk; the sidecars say `current`; the tier's table has their
//!   marks; the superblock is written, if the mode changes; the heads take their places. From the second step
//!   on the tier counts for nothing after a crash: files that are current are attached to a tier that was not
//!   closed as new ones.
//! - *To the tier alone.* Files that are not attached are forgotten. The disk is synced, and so is what the
//!   tier forgot; the sidecars have the files' numbers, which a durable tier knows; the superblock is
//!   written. Files are then made ready for their first change as ever.

use std::sync::Arc;

use mezzanine_engine::{IdRange, SyncMode};

use crate::backing::FileInner;
use crate::core::{Local, TierHost, exclusive, lock};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::open::check_sync_mode;
use crate::registry::{OpenedTier, Registry};

const SWITCH: &str = "switch the sync mode of the tier on";
const ADMIT: &str = "change the admission of the tier on";

impl Local {
    /// See [`crate::Volume::set_sync_mode`].
    pub(crate) fn set_sync_mode(&self, mode: SyncMode) -> Result<(), VolumeError> {
        let mut registry = lock(&self.registry);
        let _changing = exclusive(&self.changing);
        let host = self.tier_for(SWITCH)?;
        check_sync_mode(mode, SWITCH, &host.flash_name)?;
        let design = host.tier.geometry().config().design;
        if mode != SyncMode::Through && design.has_slots() {
            let reason = format!("design {design} keeps disk as new as flash, and mode {mode} does not");
            return Err(VolumeError::new(VolumeErrorKind::InvalidConfig, SWITCH, &host.flash_name, reason)
                .advise("leave it in through, or drain the tier and format it for another design"));
        }
        if host.tier.sync_mode() == mode {
            return Ok(());
        }
        self.start_for_change(&mut registry)?;
        let host = self.tier_for(SWITCH).map(|_| host)?;
        if let Some(opened) = registry.tier.as_mut() {
            self.forget_unattached(&host, opened)?;
        }
        self.quiesced(&host, &registry, SWITCH, |files| {
            let superblock = || host.put_superblock(SWITCH, |superblock| superblock.with_sync_mode(mode));
            if mode == SyncMode::Through {
                self.to_disk_first(&host, files, superblock)?;
            } else {
                self.to_tier_alone(&host, files, superblock)?;
            }
            host.tier.set_sync_mode(mode);
            Ok(())
        })
    }

    /// Has a tier of clean pages forget the files that are not attached: there may be none with their numbers
    /// any more, and a tier that can hold only copies waits for every file that it knows.
    fn forget_unattached(&self, host: &TierHost, opened: &mut OpenedTier) -> Result<(), VolumeError> {
        if !host.provably_clean() {
            return Ok(());
        }
        let known: Vec<u32> = host.table().table.entries.iter().map(|entry| entry.file).collect();
        for number in known.into_iter().filter(|number| self.file(*number).is_none()) {
            host.table().table.remove(number);
            opened.path_table.paths.remove(&number);
            self.with_room(host, || host.tier.invalidate_range(&IdRange::blocks_from(u64::from(number), 0)))?;
        }
        Ok(())
    }

    /// See [`crate::Volume::stop_admission`] and [`crate::Volume::resume_admission`].
    pub(crate) fn set_admission(&self, on: bool) -> Result<(), VolumeError> {
        let mut registry = lock(&self.registry);
        let _changing = exclusive(&self.changing);
        let host = self.tier_for(ADMIT)?;
        if host.shared.service.admits() == on {
            return Ok(());
        }
        self.refuse_incomplete(&registry, ADMIT)?;
        self.start_for_change(&mut registry)?;
        self.quiesced(&host, &registry, ADMIT, |files| {
            if on {
                self.to_tier_alone(&host, files, || Ok(()))?;
            } else {
                self.to_disk_first(&host, files, || Ok(()))?;
            }
            host.shared.service.admit(on);
            Ok(())
        })
    }

    /// Carries out `change` while nobody writes and no job runs. If it fails, the volume is read-only, for a
    /// file may have left the tier by half; but not if a page is lost, for then none has.
    fn quiesced(
        &self,
        host: &TierHost,
        registry: &Registry,
        operation: &'static str,
        change: impl FnOnce(&[Arc<FileInner>]) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        self.refuse_incomplete(registry, operation)?;
        let files = self.all_files();
        self.trim_all(host, &files)?;
        if !self.begin_quiescing(host, operation)? {
            // The tier was given up just now.
            return self.tier_for(operation).map(|_| ());
        }
        let changed = change(&files);
        if changed.is_ok() {
            for file in &files {
                file.shared.marks.set_ready(host.disk_first());
            }
        }
        host.tier.end_drain();
        host.resume_admission();
        self.end_quiescing(&changed);
        self.signal.made_progress();
        changed
    }

    fn to_disk_first(
        &self,
        host: &TierHost,
        files: &[Arc<FileInner>],
        superblock: impl FnOnce() -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        {
            let _gate = exclusive(&host.disk_gate);
            self.drain_pages(host)?;
        }
        files.iter().try_for_each(|file| self.declare_current(host, file))?;
        // Nothing may be written to flash for long from now on: an older file, with a sidecar that says
        // `dirty`, must not be taken for this one.
        self.sync_alone(host, "leave")?;
        superblock()?;
        files.iter().try_for_each(|file| {
            self.restore_head(file)?;
            self.replace_sidecar(file, || self.plain_sidecar(host, file))
        })
    }

    fn to_tier_alone(
        &self,
        host: &TierHost,
        files: &[Arc<FileInner>],
        superblock: impl FnOnce() -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        files.iter().try_for_each(|file| {
            self.flush_direct(file)?;
            self.replace_sidecar(file, || self.plain_sidecar(host, file))
        })?;
        superblock()
    }
}
