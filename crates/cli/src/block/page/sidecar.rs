//! Where the few bytes lie that bind a volume to the page tier that may have its newest pages.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::Path;
use std::sync::Arc;

use mezzanine_device::FileDevice;
use mezzanine_volume::{PathSidecar, SidecarStore};
use sha2::{Digest as _, Sha256};

use super::super::folders;
use super::super::label::name_for_life;
use crate::failure::{Failure, chain};

/// In the folder of what has to survive a restart of the machine.
const FOLDER: &str = "sidecars";

/// The sidecar of a block device. Beside that, in /dev, it would not survive a restart of the machine, so it
/// lies in the folder of vouchers. It goes by the name that the system has for the device for life, and where
/// there is none, by its path.
///
/// It has no fingerprint: what writes to a block device leaves no trace. So what is cached of one in sync
/// mode `through` is cached anew after each detachment.
struct DeviceSidecar(PathSidecar);

impl SidecarStore for DeviceSidecar {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        self.0.read()
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.replace(bytes)
    }

    fn remove(&self) -> io::Result<()> {
        self.0.remove()
    }
}

/// Where the sidecar of a volume is kept that is opened as `path`.
pub(super) fn store(path: &Path, device: &FileDevice) -> Result<Arc<dyn SidecarStore>, Failure> {
    let Some(name) = name_of_device(path, device)? else {
        let sidecar = PathSidecar::of_device(device);
        return Ok(Arc::new(sidecar.map_err(|error| Failure::refused(path.display(), chain(&error)))?));
    };
    let folder = folders::state()?.join(FOLDER);
    if !folder.is_dir() {
        let made = DirBuilder::new().mode(0o700).create(&folder);
        // Its entry in the folder above survives as well.
        let synced = made.and_then(|()| fs::File::open(folder.parent().unwrap_or(&folder))?.sync_all());
        synced.map_err(|error| {
            Failure::refused(folder.display(), format!("cannot be made: {error}"))
                .next(format!("name another folder with the variable {}", folders::STATE_VARIABLE))
        })?;
    }
    Ok(Arc::new(DeviceSidecar(PathSidecar::beside(&folder.join(name)))))
}

/// What the sidecar of a block device is called; files have theirs beside them.
fn name_of_device(path: &Path, device: &FileDevice) -> Result<Option<String>, Failure> {
    let refused = |error: io::Error| Failure::refused(path.display(), chain(&error));
    let metadata = device.file().metadata().map_err(refused)?;
    if !metadata.file_type().is_block_device() {
        return Ok(None);
    }
    let name = match name_for_life(&metadata) {
        Some(name) => name,
        None => path.canonicalize().map_err(refused)?.display().to_string(),
    };
    Ok(Some(hex::encode(&Sha256::digest(name)[..16])))
}

/// Refuses a volume whose newest pages may be in a page tier to whoever uses it without that.
pub(in super::super) fn refuse_without_its_tier(path: &Path, device: &FileDevice) -> Result<(), Failure> {
    let sidecar = match (name_of_device(path, device)?, folders::state()) {
        (None, _) => PathSidecar::beside(path),
        (Some(name), Ok(folder)) => PathSidecar::beside(&folder.join(FOLDER).join(name)),
        // Without such a folder there never was one.
        (Some(_), Err(_)) => return Ok(()),
    };
    let Some(tier) = sidecar.needed_tier() else { return Ok(()) };
    let reason =
        format!("its newest pages may be on the cache device {tier}, which the page engine has written");
    Err(Failure::refused(path.display(), reason).next(format!(
        "`mezz block attach {tier}` serves it, and `mezz block detach` brings them back to it"
    )))
}
