//! What attaching, draining and closing need, one caller at a time: the tier's superblock, and whether the
//! new epoch is durable yet.

use std::sync::Arc;

use mezzanine_device::zones::finish_all_but;
use mezzanine_device::{Device, DeviceError, DeviceErrorKind};
use mezzanine_engine::RecoveryReport;
use mezzanine_engine::format::{Superblock, SuperblockError, TierState, Writing, put_superblock};
use mezzanine_engine::planted::{self, Bug};

use crate::backing::FileInner;
use crate::core::TierHost;
use crate::error::VolumeError;
use crate::open::Reader;
use crate::path_table::PathTable;

/// Behind the volume's registry lock.
pub(crate) struct Registry {
    pub(crate) tier: Option<OpenedTier>,
    /// Number of the next file of a volume without a tier.
    pub(crate) next_number: u32,
}

/// A tier at rest that was opened.
pub(crate) struct OpenedTier {
    /// As it was found on flash.
    pub(crate) found: Superblock,
    /// The sequence number after the last group that was found.
    pub(crate) end: u64,
    /// Metadata that recovery wants written before the superblock.
    pub(crate) writes: Vec<(u64, Vec<u8>)>,
    /// Files that are attached and that neither their sidecars nor the tier know to be, until it starts (see
    /// `start`).
    pub(crate) waiting: Vec<Arc<FileInner>>,
    /// Files whose pages in the tier are not to be believed, and were not yet invalidated.
    pub(crate) forget: Vec<u32>,
    pub(crate) path_table: PathTable,
    /// Flash has an older one.
    pub(crate) path_table_unwritten: bool,
    pub(crate) report: OpenReport,
}

/// What opening a tier found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// What recovery did.
    pub recovery: RecoveryReport,
    /// Numbers of the files that the tier knew.
    pub files: Vec<u32>,
    /// Bytes of memory that the tier takes.
    pub region_bytes: usize,
}

impl OpenedTier {
    pub(crate) fn was_closed(&self) -> bool {
        self.found.state != TierState::Open
    }

    /// Makes the new epoch durable (invariant 7): once, before anything depends on it. Until then opening a
    /// tier has changed nothing on it.
    pub(crate) fn begin_epoch(&mut self, host: &TierHost) -> Result<(), VolumeError> {
        if host.has_begun() {
            return Ok(());
        }
        let flash = &*host.flash;
        let failed = |error| VolumeError::from_device("open the tier on", flash.describe(), error);
        // Before anything is written: of zones that crashes have left in part there may be as many as the
        // device allows.
        if !planted::is(Bug::LeftZonesUnfinished) {
            let end = host.tier.geometry().flash_bytes();
            finish_all_but(flash, host.tier.zone_gone_on_in(), end).map_err(failed)?;
        }
        if !self.writes.is_empty() {
            // The superblock that they follow from may be in the device's cache alone.
            flash.flush().map_err(failed)?;
        }
        for (offset, bytes) in &self.writes {
            flash.write_at(bytes, *offset).map_err(failed)?;
        }
        if !self.writes.is_empty() {
            flash.flush().map_err(failed)?;
        }
        if !planted::is(Bug::EpochUnwritten) {
            host.write_first_superblock().map_err(failed)?;
        }
        host.shared.service.has_durable_epoch();
        Ok(())
    }
}

/// Makes a superblock durable; with [`Writing::InPassing`] one copy of it.
pub(crate) fn write_superblock(
    flash: &dyn Device,
    superblock: &Superblock,
    writing: Writing,
) -> Result<(), DeviceError> {
    put_superblock(&mut Reader(flash), superblock, writing).map_err(|error| match error {
        SuperblockError::Unreadable(error) => {
            let next = if writing == Writing::Known {
                "they were written anew and cannot be read either, so the tier cannot be opened again: drain it, or replace the device, while it is in use"
            } else {
                "nothing was written over them: see to the device and try again"
            };
            DeviceError::new(DeviceErrorKind::Io, "read either superblock of", flash.describe())
                .advise(format!("{error}; {next}"))
        }
        SuperblockError::Failed(error) => error,
    })
}
