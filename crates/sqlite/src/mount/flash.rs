//! The flash file of a tier: opened or made for a database, and replaced by another one.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use mezzanine_device::Device;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{PathSidecar, ReplaceOptions, TierConfig, Volume, VolumeConfig, VolumeErrorKind};

use super::{Mount, canonical, lock, name_of};
use crate::database_file::ProcessLock;
use crate::error::{Error, ErrorKind};
use crate::flash_file::{
    Made, MadeFile, holds_tier, is_fresh, make_file, open_existing, refuse_place_of_database,
};
use crate::lineage::Origin;
use crate::params::Params;

/// Moves the tier of `mount`, which is in use, to another flash file. `tier` tells its parameters from those
/// of the present one. A file that does not exist, or is empty, is made.
pub(crate) fn replace_flash(
    mount: &Arc<Mount>,
    flash: &Path,
    force: bool,
    tier: impl FnOnce(TierConfig) -> Result<TierConfig, Error>,
) -> Result<(), Error> {
    let mut registry = lock();
    let present = mount.volume.tier_config().ok_or_else(|| {
        let reason = "the volume was opened without a tier";
        Error::new(ErrorKind::NoFlash, "replace the flash of", mount.flash(), reason)
    })?;
    let flash = &*std::path::absolute(flash).map_err(|source| Error::io("use", flash.display(), source))?;
    refuse_place_of_database(flash, |file| registry.databases.contains_key(&file))?;
    let mut options = ReplaceOptions { force, ..ReplaceOptions::new(tier(present)?) };
    let made = if is_fresh(flash) { make_file(flash, &mount.name(), &options.tier)? } else { None };
    let (device, made) = made_or_found(made, flash)?;
    // Only what nobody can need is formatted by that word alone; of a tier the volume knows.
    options.force &= !holds_tier(&*device) || planted::is(Bug::ForceFormatsTiers);
    if let Err(error) = mount.volume.replace_flash(device, &options) {
        if let Some(made) = made {
            made.remove();
        }
        if force && error.kind() == VolumeErrorKind::OnlyCopy {
            let reason = "it holds a tier with pages that may be nowhere else, and force=yes formats none";
            let error = Error::new(ErrorKind::Volume(error.kind()), "use", flash.display(), reason);
            return Err(error
                .advise("drain it, or format it with mezz tier format --force if those pages may be lost"));
        }
        return Err(error.into());
    }
    let name = name_of(flash);
    mount.names().push(name.clone());
    if mount.owned {
        registry.by_flash.insert(name, Arc::clone(mount));
    }
    Ok(())
}

/// Removes the flash file that an opening has made which was refused, unless the database has come to need
/// it. It is in use until then, so nobody else has anything in it.
pub(super) fn remove_unused_flash(made: &MadeFile, database: &Path) {
    if PathSidecar::beside(database).needed_tier().is_none() && !planted::is(Bug::UnusedFlashLeft) {
        made.remove();
    }
}

/// The device of the flash file that was made just now, and that file; or of the one that is there. Another
/// process may have made it meanwhile: then it is that one's, or free by now.
fn made_or_found(made: Option<Made>, flash: &Path) -> Result<(Arc<dyn Device>, Option<MadeFile>), Error> {
    match made {
        Some((device, made)) => Ok((device, Some(made))),
        None => Ok((open_existing(flash)?, None)),
    }
}

/// Opens the tier on a flash file; a file that does not exist, or is empty, becomes one if its size is given.
/// Says which file was made.
pub(super) fn open_flash(
    flash: &Path,
    database: &Path,
    params: &Params,
    lock: &ProcessLock,
) -> Result<(Mount, Option<MadeFile>), Error> {
    let made = if is_fresh(flash) { make_flash(flash, database, params, lock)? } else { None };
    let (device, made) = made_or_found(made, flash)?;
    // Its shape is what it is, its policies are what the URI wants.
    let mut page_size = DEFAULT_PAGE_SIZE;
    let volume = Volume::open_as_found(device, |found| {
        page_size = found.page_size;
        VolumeConfig::new(with_wishes(found.clone(), params))
    });
    let volume = volume.inspect_err(|_| made.iter().for_each(MadeFile::remove))?;
    let name =
        canonical(flash).map_err(|source| Error::io("open the flash file", flash.display(), source))?;
    let mount = Mount {
        origin: Origin::here(),
        volume: Arc::new(volume),
        names: Mutex::new(vec![name]),
        page_size,
        disk: None,
        owned: true,
        drained_at_close: AtomicBool::new(false),
        others_sought: AtomicBool::new(false),
        since: SystemTime::now(),
        waited_in_vain: Mutex::default(),
        told: AtomicBool::new(false),
    };
    Ok((mount, made))
}

/// A new flash file with an empty tier whose pages are as large as those of the database; `None` if another
/// process has made one meanwhile.
fn make_flash(
    flash: &Path,
    database: &Path,
    params: &Params,
    lock: &ProcessLock,
) -> Result<Option<Made>, Error> {
    let Some(bytes) = params.flash_bytes else {
        return Err(Error::new(
            ErrorKind::NoFlash,
            "open the flash file",
            flash.display(),
            "it does not exist",
        )
        .advise("check the path, or add flash_size=1GiB to the URI to have it made"));
    };
    // A new tier in the place of the one that is needed would only hide what is wrong.
    if let Some(needed) = PathSidecar::beside(database).needed_tier() {
        let reason = format!(
            "it does not exist, and the newest pages of {} are in the tier that was {needed}",
            database.display()
        );
        return Err(Error::new(ErrorKind::NoFlash, "open the flash file", flash.display(), reason)
            .advise("put that flash file back, or name the path where it is now"));
    }
    let page_size = params.page_size.or_else(|| page_size_of(&*lock.file())).unwrap_or(DEFAULT_PAGE_SIZE);
    let mut tier = sized(page_size, bytes, params.flash_bytes_max)?;
    // What lies beside the pages differs where they are written in place, and such a tier keeps its size.
    if let Some(design) = params.design.filter(|design| design.writes_in_place()) {
        tier = TierConfig::for_flash_bytes_of(design, page_size, bytes);
    }
    make_file(flash, database, &with_wishes(tier, params))
}

/// A tier that takes `bytes` bytes of flash, and can grow to `most`.
pub(crate) fn sized(page_size: u32, bytes: u64, most: Option<u64>) -> Result<TierConfig, Error> {
    if let Some(least) = TierConfig::flash_bytes_min(page_size).filter(|least| bytes < *least) {
        let reason = format!(
            "a tier of pages of {page_size} bytes needs at least {least} bytes; give flash_size={least} or more"
        );
        return Err(Error::new(ErrorKind::BadParameter, "use", format!("flash_size={bytes}"), reason));
    }
    let fitted = TierConfig::for_flash_bytes(page_size, bytes);
    match most {
        Some(most) if most < bytes => {
            let given = format!("flash_max_size={most}");
            let reason = format!("the tier is to have {bytes} bytes at once; give at least as many");
            Err(Error::new(ErrorKind::BadParameter, "use", given, reason))
        }
        Some(most) => Ok(fitted.with_room_in(most)),
        None => Ok(fitted),
    }
}

/// SQLite's own default.
const DEFAULT_PAGE_SIZE: u32 = 4096;

pub(crate) fn with_wishes(mut tier: TierConfig, params: &Params) -> TierConfig {
    tier.design = params.design.unwrap_or(tier.design);
    tier.admission = params.admission.unwrap_or(tier.admission);
    tier.returning_only = params.returning_only.unwrap_or(tier.returning_only);
    // What the flash file says of it goes with what it says of the other.
    let remembered = tier.remembered_pages.filter(|_| tier.returning_only);
    tier.remembered_pages = params.remembered_pages.or(remembered);
    tier.sync_mode = params.sync_mode.unwrap_or(tier.sync_mode);
    tier
}

/// The page size in the header of an existing database, if it is one that a tier can have.
fn page_size_of(database: &dyn Device) -> Option<u32> {
    let mut header = [0; 100];
    database.read_at(&mut header, 0).ok()?;
    crate::database::header_page_size(&header).filter(|size| (4096..=32_768).contains(size))
}
