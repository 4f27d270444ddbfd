//! Formatting a tier, and opening one that lies at rest.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use mezzanine_device::two_zones::{self, TwoZones};
use mezzanine_device::zones::{reset_active, write_pointer};
use mezzanine_device::{
    Device, DeviceError, DirectIo, FileDevice, OpenOptions, Request, Zones, prefer_huge_pages,
};
use mezzanine_engine::format::{
    FORMAT_VERSION_DRAINED, FormatError, Nonce, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, TierState,
    Writing, read_superblock, read_superblock_to_drain,
};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{
    Blank, ConfigError, Design, DrainCursor, Geometry, InTurn, PolicyParameters, ReadError, ReadFlash,
    Recovered, RecoveryError, SyncMode, Tier, TierConfig, TierZones, Workers, WriteFlash,
};
use mezzanine_ground::random::splitmix;

use crate::config::{VolumeConfig, provably_clean};
use crate::core::{TierHost, TierParts};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::host_metadata::Table;
use crate::path_table::PathTable;
use crate::recovery_threads::RecoveryThreads;
use crate::registry::{OpenReport, OpenedTier, write_superblock};
use crate::shared::plain::OWNER;
use crate::volume::Volume;

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

/// How a flash file is opened: locked against others, not through links, past the page cache where that is
/// possible.
fn flash_options() -> OpenOptions {
    OpenOptions {
        exclusive_lock: true,
        no_follow: true,
        direct: DirectIo::IfPossible,
        ..OpenOptions::read_write()
    }
}

/// Opens the flash file or block device at `path` as a volume opens it: locked, and not through a link.
///
/// # Errors
/// `Missing`, `Busy`, `ReadOnly`, or the failure.
pub fn open_flash(path: &Path) -> Result<Arc<dyn Device>, VolumeError> {
    let name = path.display().to_string();
    match FileDevice::open(path, &flash_options()) {
        Ok(device) => Ok(Arc::new(device)),
        Err(error) => {
            let error = VolumeError::from_device("open the tier on", name, error);
            Err(match error.kind() {
                VolumeErrorKind::Missing => error.advise(
                    "check the path and whether the flash device is mounted; files whose sidecars say 'dirty' need it",
                ),
                VolumeErrorKind::Busy => error.advise("only one process can use a tier; close the other one"),
                _ => error,
            })
        }
    }
}

/// Creates or opens the file at `path` for a tier of this configuration, with all of its blocks reserved, so
/// that a full file system is met now and not later.
///
/// # Errors
/// `NoSpace`, `Busy`, `InvalidConfig`, or the failure.
pub fn create_flash(path: &Path, config: &TierConfig) -> Result<Arc<dyn Device>, VolumeError> {
    create_flash_for(path, None, config)
}

/// As [`create_flash`], for those that the file at `owner` is for.
///
/// # Errors
/// As of [`create_flash`].
pub fn create_flash_for(
    path: &Path,
    owner: Option<&Path>,
    config: &TierConfig,
) -> Result<Arc<dyn Device>, VolumeError> {
    let name = path.display().to_string();
    let geometry = volume_geometry(config, "create", &name)?;
    let options =
        OpenOptions { create: true, len: Some(geometry.flash_bytes()), preallocate: true, ..flash_options() };
    let device =
        FileDevice::open(path, &options).map_err(|error| VolumeError::from_device("create", name, error))?;
    if let Some(owner) = owner {
        crate::give_to_owner_of(owner, device.file());
    }
    Ok(Arc::new(device))
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

impl Volume {
    /// Makes an empty tier on `flash`. Sidecars of files that used a tier there before refuse the new one.
    ///
    /// # Errors
    /// `Unrecognised` if the device holds something else and `OnlyCopy` if it holds a tier that was not
    /// drained, unless `force`; `InvalidConfig`; `NoSpace`; `Truncated` if the device is too small.
    pub fn format(flash: &dyn Device, config: &VolumeConfig, force: bool) -> Result<(), VolumeError> {
        format_tier(flash, config, force, &PathTable::default(), |first| first).map(|_| ())
    }
}

/// Makes an empty tier on `flash`, which names these files and whose first superblock is what `begin` makes
/// of that of a tier without a past. Returns the tier's identity.
pub(crate) fn format_tier(
    flash: &dyn Device,
    config: &VolumeConfig,
    force: bool,
    path_table: &PathTable,
    begin: impl FnOnce(Superblock) -> Superblock,
) -> Result<[u8; 16], VolumeError> {
    let name = flash.describe();
    let geometry = volume_geometry(&config.tier, "format", &name)?;
    let failed = |error| VolumeError::from_device("format", &name, error);
    let zones = flash.capabilities().zones;
    let needs_area = too_few_are_conventional(&geometry, zones.as_ref());
    let shown = if needs_area { Some(zones_with_area(&geometry, zones, &name)?) } else { zones };
    // Before its contents: of a device that begins with zones they may be ones, where nothing was written.
    check_zones(&geometry, shown.as_ref(), "format", &name)?;
    let found = match TwoZones::find(flash) {
        Err(error) if !force => {
            return Err(failed(error).advise("force formatting if what it holds may be lost"));
        }
        found => found,
    };
    if !force {
        match (&found, zones) {
            (Ok(Some(found)), _) => refuse_contents(found, &name)?,
            (_, Some(zones)) if zones.conventional == 0 => refuse_zones_written(flash, &name)?,
            _ => refuse_contents(flash, &name)?,
        }
    }
    let mut capabilities = flash.capabilities();
    if let Some(shown) = shown {
        capabilities.len = shown.count * shown.zone_len;
    }
    let needed = geometry.flash_bytes();
    if capabilities.len < needed {
        if !capabilities.can_resize {
            let reason = format!("it has {} bytes and the tier needs {needed}", capabilities.len);
            return Err(VolumeError::new(VolumeErrorKind::Truncated, "format", name, reason)
                .advise("give the tier fewer frames or a larger device"));
        }
        flash.set_len(needed).map_err(failed)?;
    }
    let (tier_uuid, database_uuid) = identities(config.identity_seed, &name)?;
    // No area of before is found in place of the tier, or of one that has just been begun.
    match found {
        Ok(Some(found)) => found.forget(),
        Ok(None) => Ok(()),
        Err(_) => two_zones::wipe(flash),
    }
    .map_err(failed)?;
    // What others have left in part counts among the zones that the device allows to be in use, also behind
    // the end of the tier, where a larger one may have been: or something else, which stays as it is. Those
    // of an area lie before what is shown behind it.
    let taken = zones.zip(shown).map_or(0, |(zones, shown)| (zones.count - shown.count) * zones.zone_len);
    reset_active(flash, needed + taken).map_err(failed)?;
    let area;
    let flash = if needs_area {
        let (all, used) = (geometry.conventional_bytes(), geometry.conventional_bytes_used());
        area = TwoZones::format(flash, all, used).map_err(failed)?;
        &area as &dyn Device
    } else {
        flash
    };
    // An old superblock is destroyed before a new one stands: at no moment can a mix of the two be read.
    let nothing = mezzanine_device::AlignedBuf::zeroed(SUPERBLOCK_BYTES);
    for offset in SUPERBLOCK_OFFSETS {
        flash.write_at(&nothing, offset).map_err(failed)?;
    }
    path_table.write(flash).map_err(failed)?;
    flash.flush().map_err(failed)?;
    let first = begin(Superblock::new(&geometry, tier_uuid, database_uuid));
    write_superblock(flash, &first, Writing::Unknown).map_err(failed)?;
    Ok(tier_uuid)
}

/// Whether what a tier writes over in place does not fit the conventional zones of its device: then it is
/// kept in two halves of sequential ones (`two_zones`).
fn too_few_are_conventional(geometry: &Geometry, zones: Option<&Zones>) -> bool {
    let there = zones.map(Zones::conventional_len);
    there.is_some_and(|there| geometry.zones().is_some() && geometry.conventional_bytes() > there)
}

/// The zones that the device of such a tier shows.
fn zones_with_area(geometry: &Geometry, zones: Option<Zones>, name: &str) -> Result<Zones, VolumeError> {
    let (needed, used) = (geometry.conventional_bytes(), geometry.conventional_bytes_used());
    let Some(zones) = zones else { unreachable!("only a device with zones has too few of a kind") };
    let refused = |reason: String| {
        let there = zones.conventional_len();
        let reason =
            format!("the tier needs {needed} bytes of conventional zones, and it has {there}; {reason}");
        VolumeError::new(VolumeErrorKind::InvalidConfig, "format", name, reason)
            .advise("give the tier fewer frames, or use another device")
    };
    let shown = two_zones::zones_with_area(&zones, needed, used).map_err(refused)?;
    let (left, all) = (shown.count * shown.zone_len, geometry.flash_bytes());
    if left < all && shown.zone_len == geometry.zones().map_or(0, |tier| tier.zone_bytes) {
        let reason = format!("kept in others they leave {left} bytes of the {all} that the tier takes");
        return Err(refused(reason));
    }
    Ok(shown)
}

/// The defaults for the largest queue that fits `bytes` bytes of a device with these zones, also if it has
/// too few conventional ones: then less is left for the queue. A tier that fits no size is refused when it is
/// formatted.
pub fn largest_on_zones(design: Design, page_size: u32, bytes: u64, zones: &Zones) -> TierConfig {
    let tier_zones = TierZones { zone_bytes: zones.zone_len, capacity_bytes: zones.zone_capacity };
    let largest = |bytes| TierConfig::for_zones_of(design, page_size, bytes, tier_zones);
    let of_all = largest(bytes);
    let shown = of_all.geometry().ok().filter(|geometry| too_few_are_conventional(geometry, Some(zones)));
    let shown = shown.and_then(|geometry| {
        let (needed, used) = (geometry.conventional_bytes(), geometry.conventional_bytes_used());
        // Halves for more than the smaller tier will need.
        two_zones::zones_with_area(zones, needed, used).ok()
    });
    match shown {
        Some(shown) => {
            let taken = (zones.count - shown.count) * zones.zone_len;
            largest(bytes.min(zones.count * zones.zone_len).saturating_sub(taken))
        }
        None => of_all,
    }
}

/// Refuses to format over the beginning of a device of sequential zones alone, which holds no area.
fn refuse_zones_written(flash: &dyn Device, name: &str) -> Result<(), VolumeError> {
    let zone = flash.zone_at(0).map_err(|error| VolumeError::from_device("format", name, error))?;
    if zone.written == 0 {
        return Ok(());
    }
    let reason = "it holds something that is not a tier: its first zone is written";
    Err(VolumeError::new(VolumeErrorKind::Unrecognised, "format", name, reason)
        .advise("check the path; force formatting only if its contents may be lost"))
}

/// What the device of a tier at rest is to be taken for: also one whose beginning is kept in two halves.
///
/// # Errors
/// `Io` if neither half can be used, or the failure.
pub(crate) fn shown(flash: Arc<dyn Device>, operation: &'static str) -> Result<Arc<dyn Device>, VolumeError> {
    let name = flash.describe();
    two_zones::shown(flash).map_err(|error| VolumeError::from_device(operation, name, error))
}

/// Refuses a tier that is not laid out for the zones of its device. One that is laid out for zones does
/// without any.
fn check_zones(
    geometry: &Geometry,
    zones: Option<&Zones>,
    operation: &'static str,
    name: &str,
) -> Result<(), VolumeError> {
    let Some(zones) = zones else { return Ok(()) };
    let (needed, there) = (geometry.conventional_bytes(), zones.conventional_len());
    let (reason, advice) = match geometry.zones() {
        Some(tier) if tier.zone_bytes != zones.zone_len || tier.capacity_bytes > zones.zone_capacity => (
            format!("its zones are of {} bytes, {} of them for use", zones.zone_len, zones.zone_capacity),
            "lay the tier out for these",
        ),
        Some(_) if needed > there => (
            format!("the tier needs {needed} bytes of conventional zones, and it has {there}"),
            "give the tier fewer frames, or use another device",
        ),
        Some(_) => return Ok(()),
        None => (
            format!("it is written in zones of {} bytes, and the tier is laid out for none", zones.zone_len),
            "lay the tier out for its zones, or use a device without",
        ),
    };
    Err(VolumeError::new(VolumeErrorKind::InvalidConfig, operation, name, reason).advise(advice))
}

/// What to do about superblocks that cannot be read: they may be whole, and name pages that are nowhere else.
const SEE_TO_IT: &str = "see to the device and try again; nothing was changed";

/// Whether the device has the places of both superblocks.
fn has_superblocks(flash: &dyn Device) -> bool {
    SUPERBLOCK_OFFSETS.iter().all(|offset| offset + SUPERBLOCK_BYTES as u64 <= flash.len())
}

/// Refuses to format over what is not recognised, and over pages that may be the only copies.
fn refuse_contents(flash: &dyn Device, name: &str) -> Result<(), VolumeError> {
    match read_superblock(&mut Reader(flash)) {
        Ok(superblock) if provably_clean(&superblock.config) || superblock.state == TierState::Drained => {
            Ok(())
        }
        Ok(_) => Err(VolumeError::new(
            VolumeErrorKind::OnlyCopy,
            "format",
            name,
            "it holds a tier with pages that may be nowhere else",
        )
        .advise("drain it first, or force formatting if those pages may be lost")),
        Err(FormatError::NewerFormat(version)) => Err(newer("format", name, version)),
        Err(FormatError::OlderFormat(version)) => Err(older("format", name, version)),
        Err(FormatError::Damaged(what)) => Err(VolumeError::new(
            VolumeErrorKind::Damaged,
            "format",
            name,
            format!("it holds a damaged tier ({what}), whose pages may be nowhere else"),
        )
        .advise("force formatting if they may be lost")),
        Err(error @ FormatError::Unreadable(_)) if has_superblocks(flash) => {
            Err(VolumeError::new(VolumeErrorKind::Io, "format", name, error.to_string()).advise(SEE_TO_IT))
        }
        Err(FormatError::Unreadable(_) | FormatError::Unrecognised) => {
            let mut head = vec![0; 64 * 1024];
            flash
                .read_at_or_zero(&mut head, 0)
                .map_err(|error| VolumeError::from_device("format", name, error))?;
            if head.iter().all(|&byte| byte == 0) {
                return Ok(());
            }
            Err(VolumeError::new(
                VolumeErrorKind::Unrecognised,
                "format",
                name,
                "it holds something that is not a tier",
            )
            .advise("check the path; force formatting only if its contents may be lost"))
        }
    }
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

/// Two fresh identities: of the tier, and of the database that it belongs to.
fn identities(seed: Option<u64>, name: &str) -> Result<([u8; 16], [u8; 16]), VolumeError> {
    Ok((drawn(seed, name)?, drawn(seed.map(|seed| seed ^ 2), name)?))
}

/// The nonce of the opening that begins. From a seed it differs from those of the tier's openings before.
fn nonce(config: &VolumeConfig, found: &Superblock, name: &str) -> Result<Nonce, VolumeError> {
    let seed = config.nonce_seed.or(config.identity_seed);
    drawn(seed.map(|seed| splitmix(splitmix(!seed) ^ found.generation)), name)
}

/// Sixteen bytes from a seed, or random ones.
fn drawn(seed: Option<u64>, name: &str) -> Result<[u8; 16], VolumeError> {
    let mut bytes = [0; 16];
    match seed {
        Some(seed) => {
            for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
                word.copy_from_slice(&splitmix(seed ^ index as u64).to_le_bytes());
            }
        }
        None => {
            let failed = |error| VolumeError::from_io("draw an identity for", name, error);
            let mut random = std::fs::File::open("/dev/urandom").map_err(failed)?;
            random.read_exact(&mut bytes).map_err(failed)?;
        }
    }
    Ok(bytes)
}
