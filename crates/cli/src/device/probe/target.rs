//! What is written to: a file that is made for it, or a block device that holds nothing.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use mezzanine_device::{AlignedBuf, Device, DeviceError, FileDevice, OpenOptions};
use rustix::fs::OFlags;

use super::super::refuse_zones;
use super::system::{Sources, System};
use crate::contents::contents;
use crate::failure::{Failure, chain};

/// Size of a write.
const CHUNK_BYTES: usize = 1 << 20;

/// What is probed, opened.
pub(super) struct Opened {
    pub(super) device: FileDevice,
    /// The same with O_DSYNC, where it can be had.
    pub(super) synchronous: Option<File>,
    pub(super) system: System,
}

/// Makes a file at a path where there is none. It has lost its name when this returns, so that nothing stays
/// behind however the probe ends.
pub(super) fn new_file(path: &Path, len: u64) -> Result<Opened, Failure> {
    let refused = |error: DeviceError| Failure::refused(path.display(), chain(&error));
    let options = OpenOptions {
        write: true,
        create_new: true,
        len: Some(len),
        preallocate: true,
        ..OpenOptions::default()
    };
    let device = FileDevice::open(path, &options).map_err(refused)?;
    let synchronous = synchronous(path, &device);
    fs::remove_file(path).map_err(|error| {
        Failure::refused(path.display(), format!("the file that was made for the probe stays there: {error}"))
            .next("remove it")
    })?;
    let system = Sources::of_the_kernel().file(device.file(), path);
    Ok(Opened { device, synchronous, system })
}

/// Opens a block device of which nobody else has any part, and which holds nothing where the probe writes and
/// wherever else it is looked.
pub(super) fn block_device(path: &Path, span_bytes: u64) -> Result<Opened, Failure> {
    let refused = |error: DeviceError| Failure::refused(path.display(), chain(&error));
    let options = OpenOptions { write: true, exclusive_lock: true, ..OpenOptions::default() };
    let device = FileDevice::open(path, &options).map_err(refused)?;
    refuse_zones(path, &device)?;
    let number = device.file().metadata().map(|metadata| metadata.rdev());
    let system = number.map(|number| Sources::of_the_kernel().block_device(number)).unwrap_or_default();
    if let Some(found) = contents(&device, span_bytes.min(device.len())).map_err(refused)? {
        return Err(Failure::refused(path.display(), format!("it holds data: {found}")).next(format!(
            "probe a device without; if nothing on it is needed, `blkdiscard {0}` or `dd if=/dev/zero of={0}` \
             removes all of it",
            path.display()
        )));
    }
    let synchronous = synchronous(path, &device);
    Ok(Opened { device, synchronous, system })
}

/// Whether a path names a block device. What exists and is none is refused.
pub(super) fn is_block_device(path: &Path) -> Result<bool, Failure> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(false) };
    let kind = metadata.file_type();
    if kind.is_block_device() {
        return Ok(true);
    }
    let (what, next) = if kind.is_dir() {
        ("it is a directory", "name a file in it that does not exist yet")
    } else if kind.is_file() {
        ("the file exists already, and a probe writes over all of it", "name a file that does not exist yet")
    } else {
        ("it is neither a file nor a block device", "name a file that does not exist yet, or a block device")
    };
    Err(Failure::refused(path.display(), what).next(next))
}

fn synchronous(path: &Path, device: &FileDevice) -> Option<File> {
    let direct = if device.is_direct() { OFlags::DIRECT } else { OFlags::empty() };
    let flags = (OFlags::DSYNC | direct).bits();
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(flags as i32).open(path).ok()?;
    let same =
        |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino(), a.rdev()) == (b.dev(), b.ino(), b.rdev());
    let (one, other) = (file.metadata().ok()?, device.file().metadata().ok()?);
    same(&one, &other).then_some(file)
}

/// Leaves a block device as it was found: with zeros where the probe has written.
pub(super) fn clear(device: &dyn Device, span_bytes: u64) -> Result<(), DeviceError> {
    let zeros = AlignedBuf::zeroed(CHUNK_BYTES);
    let mut offset = 0;
    while offset < span_bytes {
        let part = (span_bytes - offset).min(CHUNK_BYTES as u64);
        device.write_at(&zeros[..part as usize], offset)?;
        offset += part;
    }
    device.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::MemoryDevice;

    use super::*;

    const SPAN: u64 = 8 << 20;

    #[test]
    fn a_cleared_device_holds_nothing() {
        let device = MemoryDevice::new(96 << 20);
        device.write_at(&[1; 4096], SPAN - 4096).unwrap();
        clear(&device, SPAN).unwrap();
        assert_eq!(contents(&device, SPAN).unwrap(), None);
    }
}
