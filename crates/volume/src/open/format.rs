//! Formatting a tier.

use mezzanine_device::Device;
use mezzanine_device::two_zones::{self, TwoZones};
use mezzanine_device::zones::reset_active;
use mezzanine_engine::format::{
    FormatError, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, TierState, Writing, read_superblock,
};

use super::identities::identities;
use super::zones::{check_zones, refuse_zones_written, too_few_are_conventional, zones_with_area};
use super::{Reader, has_superblocks, newer, older, volume_geometry};
use crate::config::{VolumeConfig, provably_clean};
use crate::error::{VolumeError, VolumeErrorKind};
use crate::path_table::PathTable;
use crate::registry::write_superblock;
use crate::volume::Volume;

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

/// What to do about superblocks that cannot be read: they may be whole, and name pages that are nowhere else.
const SEE_TO_IT: &str = "see to the device and try again; nothing was changed";

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
