//! What is written to: a file that is made for it, or a block device that holds nothing.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use mezzanine_device::{AlignedBuf, Device, DeviceError, FileDevice, OpenOptions};
use mezzanine_ground::random::Random;
use rustix::fs::OFlags;

use super::super::refuse_zones;
use super::system::{Sources, System};
use crate::failure::{Failure, chain};

/// Read of both ends of a block device: partition tables, file systems, and the labels of volumes and arrays
/// lie there.
const END_BYTES: u64 = 16 << 20;
/// Size of a read.
const CHUNK_BYTES: usize = 1 << 20;
/// Places that are looked at in between.
const SAMPLES: u64 = 1024;
const SAMPLE_BYTES: u64 = 4096;

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

/// The first thing that is found on a device: where, and what it looks like. None if there are zeros alone in
/// the first `span_bytes`, at both ends, and at places drawn evenly in between.
fn contents(device: &dyn Device, span_bytes: u64) -> Result<Option<String>, DeviceError> {
    let len = device.len();
    let head = span_bytes.max(END_BYTES).min(len);
    let tail = len.saturating_sub(END_BYTES).max(head);
    let mut buffer = AlignedBuf::zeroed(CHUNK_BYTES);
    if let Some(at) = first_byte(device, &mut buffer, 0, head)? {
        return Ok(Some(name(device, at)?));
    }
    if let Some(at) = first_byte(device, &mut buffer, tail, len)? {
        return Ok(Some(format!("bytes other than zero at offset {at}, near its end")));
    }
    let places = (tail - head) / SAMPLE_BYTES;
    let mut random = Random::new(len);
    for _ in 0..SAMPLES.min(places) {
        let place = head + random.below(places) * SAMPLE_BYTES;
        if let Some(at) = first_byte(device, &mut buffer, place, place + SAMPLE_BYTES)? {
            return Ok(Some(format!("bytes other than zero at offset {at}")));
        }
    }
    Ok(None)
}

/// Where the first byte lies that is not zero.
fn first_byte(
    device: &dyn Device,
    buffer: &mut AlignedBuf,
    from: u64,
    to: u64,
) -> Result<Option<u64>, DeviceError> {
    let mut offset = from;
    while offset < to {
        let part = (to - offset).min(buffer.len() as u64) as usize;
        let chunk = &mut buffer[..part];
        device.read_at(chunk, offset)?;
        if let Some(at) = chunk.iter().position(|byte| *byte != 0) {
            return Ok(Some(offset + at as u64));
        }
        offset += part as u64;
    }
    Ok(None)
}

/// What begins on the device, by the marks of those that are met most.
fn name(device: &dyn Device, at: u64) -> Result<String, DeviceError> {
    const MARKS: [(usize, &[u8], &str); 9] = [
        (512, b"EFI PART", "a partition table (GPT)"),
        (1080, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
        (0, b"XFSB", "an XFS file system"),
        (65_600, b"_BHRfS_M", "a btrfs file system"),
        (0, b"LUKS", "an encrypted volume (LUKS)"),
        (536, b"LVM2", "a physical volume of LVM"),
        (4086, b"SWAPSPACE2", "swap space"),
        (4096, b"\xfc\x4e\x2b\xa9", "a part of an array (md)"),
        (510, b"\x55\xaa", "a partition table or a boot sector"),
    ];
    let mut head = AlignedBuf::zeroed(128 << 10);
    device.read_at_or_zero(&mut head, 0)?;
    let mark = MARKS.iter().find(|(offset, mark, _)| head[*offset..].starts_with(mark));
    Ok(match mark {
        Some((.., what)) => (*what).to_owned(),
        None => format!("bytes other than zero at offset {at}"),
    })
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

    const LEN: u64 = 96 << 20;
    const SPAN: u64 = 8 << 20;

    fn found(at: u64, bytes: &[u8]) -> Option<String> {
        let device = MemoryDevice::new(LEN);
        device.write_at(bytes, at).unwrap();
        contents(&device, SPAN).unwrap()
    }

    #[test]
    fn zeros_are_no_data() {
        assert_eq!(contents(&MemoryDevice::new(LEN), SPAN).unwrap(), None);
        assert_eq!(contents(&MemoryDevice::new(4096), 4096).unwrap(), None);
    }

    #[test]
    fn what_a_device_holds_is_found_and_named() {
        let cases: [(u64, &[u8], &str); 8] = [
            (510, b"\x55\xaa", "boot sector"),
            (512, b"EFI PART", "GPT"),
            (1080, b"\x53\xef", "ext4"),
            (4086, b"SWAPSPACE2", "swap"),
            (536, b"LVM2", "LVM"),
            (SPAN - 1, b"x", "offset 8388607"),
            (LEN - 1, b"x", "near its end"),
            (LEN - (1 << 20), b"EFI PART", "near its end"),
        ];
        for (at, bytes, wanted) in cases {
            let found = found(at, bytes).unwrap();
            assert!(found.contains(wanted), "{wanted}: {found}");
        }
        // Where only samples are read, data of any size to speak of is met.
        assert!(found(40 << 20, &[7; 1 << 20]).is_some());
    }

    #[test]
    fn a_cleared_device_holds_nothing() {
        let device = MemoryDevice::new(LEN);
        device.write_at(&[1; 4096], SPAN - 4096).unwrap();
        clear(&device, SPAN).unwrap();
        assert_eq!(contents(&device, SPAN).unwrap(), None);
    }
}
