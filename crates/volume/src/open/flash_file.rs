//! Flash files: made, and opened as a volume opens them.

use std::path::Path;
use std::sync::Arc;

use mezzanine_device::{Device, DirectIo, FileDevice, OpenOptions};
use mezzanine_engine::TierConfig;

use super::volume_geometry;
use crate::error::{VolumeError, VolumeErrorKind};

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
