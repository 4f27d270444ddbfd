//! Formatting a tier, and opening one that lies at rest.

mod flash_file;

mod format;

mod identities;

mod zones;

use std::sync::Arc;

use mezzanine_device::two_zones;
use mezzanine_device::zones::write_pointer;
use mezzanine_device::{Device, DeviceError, Request, prefer_huge_pages};
use mezzanine_engine::format::{
    FORMAT_VERSION_DRAINED, FormatError, Nonce, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, TierState,
    read_superblock, read_superblock_to_drain,
};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{
    Blank, ConfigError, DrainCursor, Geometry, InTurn, PolicyParameters, ReadError, ReadFlash, Recovered,
    RecoveryError, SyncMode, Tier, TierConfig, Workers, WriteFlash,
};

pub use self::flash_file::{create_flash, create_flash_for, open_flash};
pub(crate) use self::format::format_tier;
use self::identities::nonce;
use self::zones::check_zones;
pub use self::zones::largest_on_zones;
use crate::config::{VolumeConfig, provably_clean};
use crate::core::{TierHost, TierParts};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::host_metadata::Table;
use crate::path_table::PathTable;
use crate::recovery_threads::RecoveryThreads;
use crate::registry::{OpenReport, OpenedTier};
use crate::shared::plain::OWNER;

/// Reads and writes a device for the engine, outside of jobs.
pub(crate) struct Reader<'d>(pub(crate) &'d dyn Device);

impl ReadFlash for Reader<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(bytes, offset).map_err(|error| ReadError(error.to_string()))
    }

    fn read_many(&mut self, reads: &mut [(u64, Vec<u8>)]) -> Vec<Result<(), ReadError>> {
        let mut requests: Vec<Request<'_>> =
            reads.iter_mut().map(|(offset, buf)| Request::Read { offset: *offset, buf }).collect();
        let results = self.0.run(&mut requests);
        results.into_iter().map(|result| result.map_err(|error| ReadError(error.to_string()))).collect()
    }

    fn write_pointer(&mut self, offset: u64) -> Option<u64> {
        write_pointer(self.0, offset)
    }
}

impl WriteFlash for Reader<'_> {
    type Error = DeviceError;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write_at(bytes, offset)
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}

fn geometry_of(config: &TierConfig, operation: &'static str, subject: &str) -> Result<Geometry, VolumeError> {
    config.geometry().map_err(|error: ConfigError| {
        VolumeError::new(
            VolumeErrorKind::InvalidConfig,
            operation,
            subject,
            format!("{}: {}", error.parameter, error.reason),
        )
        .advise(error.advice.clone())
    })
}

/// The sizes of a tier that a volume is to use.
fn volume_geometry(
    config: &TierConfig,
    operation: &'static str,
    subject: &str,
) -> Result<Geometry, VolumeError> {
    check_sync_mode(config.sync_mode, operation, subject)?;
    geometry_of(config, operation, subject)
}

/// Refuses the sync mode that a volume cannot have.
pub(crate) fn check_sync_mode(
    sync_mode: SyncMode,
    operation: &'static str,
    subject: &str,
) -> Result<(), VolumeError> {
    if sync_mode == SyncMode::Drained {
        let reason = "sync mode drained is for databases that redo from their log after flash is lost, and a volume \
                      has no log";
        return Err(VolumeError::new(VolumeErrorKind::InvalidConfig, operation, subject, reason)
            .advise("use durable, or through if flash is not to be trusted"));
    }
    Ok(())
}

/// What the device of a tier at rest is to be taken for: also one whose beginning is kept in two halves.
///
/// # Errors
/// `Io` if neither half can be used, or the failure.
pub(crate) fn shown(flash: Arc<dyn Device>, operation: &'static str) -> Result<Arc<dyn Device>, VolumeError> {
    let name = flash.describe();
    two_zones::shown(flash).map_err(|error| VolumeError::from_device(operation, name, error))
}

/// Whether the device has the places of both superblocks.
fn has_superblocks(flash: &dyn Device) -> bool {
    SUPERBLOCK_OFFSETS.iter().all(|offset| offset + SUPERBLOCK_BYTES as u64 <= flash.len())
}

fn newer(operation: &'static str, name: &str, version: u32) -> VolumeError {
    let reason = format!("its format version {version} is newer than this build's");
    VolumeError::new(VolumeErrorKind::NewerFormat { version }, operation, name, reason)
        .advise("use the build that wrote it")
}

fn older(operation: &'static str, name: &str, version: u32) -> VolumeError {
    let kind = VolumeErrorKind::OlderFormat { version };
    if version >= FORMAT_VERSION_DRAINED {
        let reason = format!("its format version {version} is older than the only one that this build uses");
        return VolumeError::new(kind, operation, name, reason)
            .advise("drain it into its files with `mezz tier drain`, then format it anew");
    }
    let reason = format!("its format version {version} is older than the oldest one that this build reads");
    VolumeError::new(kind, operation, name, reason)
        .advise("drain it with the build that wrote it, then format it anew")
}

/// Reads and checks the superblock of a tier at rest; also one of an older version if the tier is opened to
/// be drained.
fn find_superblock(
    flash: &dyn Device,
    to_drain: bool,
    operation: &'static str,
) -> Result<Superblock, VolumeError> {
    let name = flash.describe();
    let flash_reader = &mut Reader(flash);
    let found = if to_drain {
        read_superblock_to_drain(flash_reader).map(|(superblock, _)| superblock)
    } else {
        read_superblock(flash_reader)
    };
    let superblock = found.map_err(|error| {
        let kind = match &error {
            FormatError::NewerFormat(version) => return newer(operation, &name, *version),
            FormatError::OlderFormat(version) => return older(operation, &name, *version),
            FormatError::Unrecognised => VolumeErrorKind::Unrecognised,
            FormatError::Damaged(_) => VolumeErrorKind::Damaged,
            FormatError::Unreadable(_) if !has_superblocks(flash) => VolumeErrorKind::Truncated,
            FormatError::Unreadable(_) => VolumeErrorKind::Io,
        };
        let advice = match kind {
            VolumeErrorKind::Unrecognised => "check the path, or format it as a tier",
            VolumeErrorKind::Truncated => "put the whole flash file back",
            VolumeErrorKind::Io => {
                "see to the device and try again; if neither superblock can be read any more, put back a copy of the same moment; nothing was changed"
            }
            _ => "put back an undamaged copy of the same moment; if no sidecar says 'dirty', format it anew",
        };
        VolumeError::new(kind, operation, &name, error.to_string()).advise(advice)
    })?;
    let geometry = geometry_of(&superblock.config, operation, &name)?;
    if flash.len() < geometry.flash_bytes() {
        let reason = format!("it has {} bytes and its tier {}", flash.len(), geometry.flash_bytes());
        return Err(VolumeError::new(VolumeErrorKind::Truncated, operation, name, reason)
            .advise("put the whole flash file back; nothing was changed"));
    }
    Ok(superblock)
}

/// The superblock as the tier is to be opened: the geometry from flash, the policies from the caller.
fn merged(found: &Superblock, config: &VolumeConfig, name: &str) -> Result<Superblock, VolumeError> {
    if !found.config.design.is_laid_out_like(config.tier.design) {
        let (old, new) = (found.config.design, config.tier.design);
        let reason =
            format!("it was formatted for design {old}, which lays pages out in another way than {new}");
        return Err(VolumeError::new(VolumeErrorKind::InvalidConfig, "open the tier on", name, reason)
            .advise(format!("open it with a design like {old}, or drain it and format it for {new}")));
    }
    // Parameters of the design are those that it was formatted with, unless others are asked for.
    let same = found.config.design == config.tier.design && config.tier.policy == PolicyParameters::default();
    let wanted = TierConfig {
        policy: if same { found.config.policy } else { config.tier.policy },
        design: config.tier.design,
        admission: config.tier.admission,
        returning_only: config.tier.returning_only,
        remembered_pages: config.tier.remembered_pages,
        sync_mode: config.tier.sync_mode,
        survivors_max: config.tier.survivors_max.min(found.config.group_pages - 1),
        keeps_unreferenced: config.tier.keeps_unreferenced,
        ..found.config.clone()
    };
    let was_clean = provably_clean(&found.config);
    if provably_clean(&wanted) && !was_clean && found.state != TierState::Drained {
        let reason = format!(
            "it may hold the only copy of pages, and sync mode {} with admission {} would not keep them",
            wanted.sync_mode, wanted.admission
        );
        return Err(VolumeError::new(VolumeErrorKind::OnlyCopy, "open the tier on", name, reason)
            .advise("open it as before, or drain it first"));
    }
    // Left without closing while it could hold no only copies: a page on disk may be newer than its copy
    // here. If it goes on as provably clean, recovery empties it by itself. A slot directory would say
    // which copies are right as long as nobody else has written the files since; but where writes go to
    // disk first anybody may.
    let left_open = was_clean && found.state == TierState::Open;
    let base = if left_open && (!provably_clean(&wanted) || wanted.design.has_slots()) {
        found.discarded()
    } else {
        found.clone()
    };
    Ok(Superblock { config: wanted, ..base })
}

/// Opens a tier at rest, with what `choose` makes of the configuration that it was used with last; one of an
/// older version of the format only `to_drain` it. Nothing on flash changes before it is started. The opening
/// has the nonce given, or a new one.
pub(crate) fn open_tier(
    flash: Arc<dyn Device>,
    to_drain: bool,
    choose: impl FnOnce(&TierConfig) -> VolumeConfig,
    given: Option<Nonce>,
) -> Result<(TierHost, OpenedTier), VolumeError> {
    const OPERATION: &str = "open the tier on";
    let name = flash.describe();
    let flash = shown(flash, OPERATION)?;
    let found = find_superblock(&*flash, to_drain, OPERATION)?;
    let config = &choose(&found.config);
    // What is read back must be durable: after a crash of the process that used it the last writes may still
    // be in the cache. Of a tier that was closed all was durable before its superblock said so; if that is
    // lost with the power, the one before it, a copy of which was durable, leads to the same pages. So there
    // is time until the next one is written, which flushes first where it has to.
    if found.state == TierState::Open && !planted::is(Bug::OpenedUnflushed) {
        flash.flush().map_err(|error| VolumeError::from_device(OPERATION, &name, error))?;
    }
    let superblock = merged(&found, config, &name)?;
    let geometry = volume_geometry(&superblock.config, OPERATION, &name)?;
    // It may be a copy of another device.
    check_zones(&geometry, flash.capabilities().zones.as_ref(), OPERATION, &name)?;
    let recover = |superblock: &Superblock| {
        let memory = Blank::heap(geometry.region_bytes());
        prefer_huge_pages(memory.memory());
        // Without workers the parts are replayed in turn, so that the same calls do the same.
        let workers: &dyn Workers =
            if config.workers == 0 { &InTurn(2) } else { &RecoveryThreads::of_machine() };
        Tier::recover_with(memory, superblock, OWNER, &mut Reader(&*flash), workers)
    };
    let drained = found.state == TierState::Drained && !planted::is(Bug::DrainedTierNeeded);
    let expendable = provably_clean(&found.config) || drained;
    let unread_too = expendable && !planted::is(Bug::UnreadExpendableRefused);
    let recovered = recover(&superblock);
    let discard = match &recovered {
        // Invariant 8: what is damaged, or cannot be read, can be had from disk.
        Err(RecoveryError::Damaged { .. }) => expendable,
        Err(RecoveryError::Read(_)) => unread_too,
        // Of a device that answers nothing no judgement is for good.
        _ => false,
    };
    let recovered = match discard {
        true => recover(&superblock.discarded()).map(|mut recovered| {
            recovered.report.discarded = true;
            recovered
        }),
        false => recovered,
    };
    let Recovered { tier, writes, superblock, mut report, host_metadata, .. } =
        recovered.map_err(|error| unrecovered(&name, error))?;
    let nonce = given.map_or_else(|| nonce(config, &found, &name), Ok)?;
    let superblock = superblock.with_nonce(nonce);
    let emptied = superblock.origin_epoch > found.origin_epoch;
    report.discarded |= emptied && superblock.config.design.has_slots();
    if provably_clean(&superblock.config) || found.state == TierState::Drained {
        mark_all_clean(&tier);
    }
    let mut table = Table::decode(&host_metadata).map_err(|what| {
        VolumeError::new(VolumeErrorKind::Damaged, OPERATION, &name, what)
            .advise("put back an undamaged copy of the same moment")
    })?;
    // Numbers of files must not return even if the tier was emptied and its table with it.
    table.skip_to(superblock.epoch);
    let report = OpenReport {
        files: table.entries.iter().map(|entry| entry.file).collect(),
        region_bytes: geometry.region_bytes(),
        recovery: report,
    };
    let end = superblock.epoch_sequence.number();
    let host = TierHost::new(TierParts {
        tier,
        superblock,
        workers: config.workers,
        table,
        flash: Arc::clone(&flash),
    });
    let path_table = PathTable::read_to_keep(&*flash).map_err(|error| unrecovered(&name, error))?;
    let opened = OpenedTier {
        found,
        end,
        writes,
        waiting: Vec::new(),
        forget: Vec::new(),
        path_table,
        path_table_unwritten: false,
        report,
    };
    Ok((host, opened))
}

/// Records on flash say what pages were when they entered; these are all on disk. Nothing may write them
/// there again: where writes go to disk first, that would go over newer ones.
fn mark_all_clean(tier: &Tier) {
    let mut cursor = DrainCursor::default();
    loop {
        let pages = tier.drain_batch(&mut cursor, 4096);
        if pages.is_empty() {
            return;
        }
        tier.mark_clean(&pages);
    }
}

fn unrecovered(name: &str, error: RecoveryError) -> VolumeError {
    const OPERATION: &str = "recover the tier on";
    match error {
        error @ (RecoveryError::Damaged { unread: Some(_), .. } | RecoveryError::Read(_)) => {
            VolumeError::new(VolumeErrorKind::Io, OPERATION, name, error.to_string())
                .advise("see to the device, or copy it whole to a good one; nothing was changed")
        }
        error @ RecoveryError::Silent(_) => {
            let advice = "see to the device and try again; nothing was changed, and nothing is known to be lost";
            VolumeError::new(VolumeErrorKind::Io, OPERATION, name, error.to_string()).advise(advice).silence()
        }
        RecoveryError::Damaged { what, offset, unread: None } => VolumeError::new(VolumeErrorKind::Damaged, OPERATION, name, what)
            .at(offset)
            .advise(
                "pages that were acknowledged are lost: restore the files from a backup and format the tier; if it was \
                 used in sync mode 'through', its files are whole without it",
            ),
        error @ (RecoveryError::Config(_) | RecoveryError::RegionTooSmall(_) | RecoveryError::UsedUp(_)) => {
            VolumeError::new(VolumeErrorKind::InvalidConfig, OPERATION, name, error.to_string())
        }
    }
}
