//! Cache devices and backing devices: opened, told apart, refused.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mezzanine_cached::{Attachment, Backing, Fingerprint, read_superblocks};
use mezzanine_device::{Device, DeviceErrorKind, FileDevice, OpenOptions};
use mezzanine_fragment::format::{FormatError, Superblocks, VOLUME_NAME_BYTES_MAX};
use mezzanine_fragment::{BLOCK_BYTES, Geometry};

use super::label::label;
use super::page;
use crate::contents::contents;
use crate::failure::{Failure, chain};
use crate::machine::memory_available;
use crate::output;
use crate::size::Size;

/// A backing device as it is named on the command line: `PATH`, or `NAME=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// Reads `PATH` or `NAME=PATH`; a volume without a name is called as its file.
pub(super) fn named(text: &str) -> Result<Named, String> {
    let (name, path) = match text.split_once('=') {
        // A path may have an equals sign, and begins with one of these then.
        Some((name, path)) if !name.contains('/') && !name.is_empty() => {
            (name.to_owned(), PathBuf::from(path))
        }
        _ => {
            let path = PathBuf::from(text);
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            (name.ok_or("it names no file; give PATH or NAME=PATH")?, path)
        }
    };
    let good = !name.is_empty() && name.len() <= VOLUME_NAME_BYTES_MAX && !name.contains(char::is_control);
    if !good {
        return Err(format!("a volume's name has 1 to {VOLUME_NAME_BYTES_MAX} bytes; give NAME=PATH"));
    }
    Ok(Named { name, path })
}

/// Two backing devices of one name, or one twice.
pub(super) fn refuse_twice(all: &[Named]) -> Result<(), Failure> {
    for (at, one) in all.iter().enumerate() {
        let before = &all[..at];
        if before.iter().any(|other| other.name == one.name) {
            return Err(Failure::usage(&one.name, "two volumes have this name").next("give NAME=PATH"));
        }
        if before.iter().any(|other| same(&other.path, &one.path)) {
            return Err(Failure::usage(one.path.display(), "it is named twice").next("name each device once"));
        }
    }
    Ok(())
}

/// Whether two paths lead to one file or device.
pub(super) fn same(one: &Path, other: &Path) -> bool {
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) if one.rdev() != 0 || other.rdev() != 0 => one.rdev() == other.rdev(),
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Opens a volume's own device, for nobody else at the same time. One whose newest pages may be on a cache
/// device of the page engine is refused.
pub(super) fn backing(path: &Path) -> Result<Arc<FileDevice>, Failure> {
    let device = backing_of_any_state(path)?;
    page::refuse_without_its_tier(path, &device)?;
    Ok(device)
}

/// The same of any.
pub(super) fn backing_of_any_state(path: &Path) -> Result<Arc<FileDevice>, Failure> {
    let options = OpenOptions { exclusive_lock: true, ..OpenOptions::read_write() };
    let device = FileDevice::open(path, &options).map_err(|error| {
        let failure = Failure::refused(path.display(), chain(&error));
        match error.kind() {
            DeviceErrorKind::NotFound => failure.next("name the volume's own device or file"),
            DeviceErrorKind::Busy => failure.next("detach, unmount or stop what uses it"),
            _ => failure.next("check that this user may read and write it"),
        }
    })?;
    refuse_zones(path, &device)?;
    if device.len() < BLOCK_BYTES {
        return Err(Failure::refused(path.display(), format!("it has {} bytes", device.len()))
            .next("give the file a length first: truncate --size 1G FILE"));
    }
    Ok(Arc::new(device))
}

/// What a backing device is known by now, when it is not in use.
pub(super) fn known_by(path: &Path, device: &FileDevice) -> Result<Backing, Failure> {
    let refused = |error: &dyn std::error::Error| {
        Failure::refused(path.display(), chain(error)).next("check the device: its ends cannot be read")
    };
    let fingerprint = Fingerprint::of(device).map_err(|error| refused(&error))?;
    let metadata = device.file().metadata().map_err(|error| refused(&error))?;
    // What writes to a block device leaves no trace.
    let changed_ns = if metadata.is_file() {
        let ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        u64::try_from(ns).unwrap_or(u64::MAX)
    } else {
        0
    };
    Ok(Backing { fingerprint, attachment: Attachment::Detached, changed_ns, label: label(&metadata) })
}

/// Opens a cache device that exists, for nobody else at the same time.
pub(super) fn cache(path: &Path, write: bool) -> Result<FileDevice, Failure> {
    cache_with(path, &OpenOptions { write, exclusive_lock: true, ..OpenOptions::default() })
}

/// The same in a certain way.
pub(super) fn cache_with(path: &Path, options: &OpenOptions) -> Result<FileDevice, Failure> {
    let device = FileDevice::open(path, options).map_err(|error| {
        let failure = Failure::refused(path.display(), chain(&error));
        match error.kind() {
            DeviceErrorKind::NotFound => failure.next(
                "check the path; `mezz block create` makes a cache, and `mezz block attach --without-cache` serves the \
                 volumes without one",
            ),
            DeviceErrorKind::Busy => failure.next("`mezz block list` shows the caches that are attached"),
            _ => failure.next("check that this user may read and write it"),
        }
    })?;
    refuse_zones(path, &device)?;
    Ok(device)
}

fn refuse_zones(path: &Path, device: &FileDevice) -> Result<(), Failure> {
    if device.capabilities().zones.is_none() {
        return Ok(());
    }
    Err(Failure::refused(path.display(), "it has to be written in zones")
        .next("use a device that can be written anywhere"))
}

/// The superblock of a cache device, which is as long as the cache needs.
pub(super) fn superblocks(path: &Path, device: &dyn Device) -> Result<Superblocks, Failure> {
    let found = superblocks_whatever_its_length(path, device)?;
    let (len, used) = (device.len(), found.newest.layout.end_of(found.newest.slots_limit));
    if len < used {
        let reason = format!("it is smaller than its cache: it has {len} bytes, and the cache uses {used}");
        return Err(Failure::refused(path.display(), reason).next(
            "name the right device, or give it its length back; `mezz block resize` makes the cache smaller, and `mezz block \
             create --force` makes a new one: the volumes themselves have everything",
        ));
    }
    Ok(found)
}

/// The superblock of a cache device.
pub(super) fn superblocks_whatever_its_length(
    path: &Path,
    device: &dyn Device,
) -> Result<Superblocks, Failure> {
    read_superblocks(device).map_err(|error| {
        let failure = match &error {
            FormatError::Unrecognised => {
                let held = contents(device, BLOCK_BYTES).ok().flatten();
                let holds = held.map_or("it is empty".to_owned(), |what| format!("it holds {what}"));
                Failure::refused(path.display(), format!("it is no cache device of Mezzanine: {holds}"))
            }
            error => Failure::refused(path.display(), error),
        };
        match error {
            FormatError::Unrecognised => {
                failure.next("name the cache device, or make one with `mezz block create`")
            }
            FormatError::NewerFormat(_) => failure.next(
                "use the mezz that has made it, or a newer one; `mezz block create --force` makes a new cache there",
            ),
            _ => failure.next(
                "`mezz block create --force` makes a new cache there; the volumes themselves have everything",
            ),
        }
    })
}

/// Says what the cache takes of memory, and refuses what there is not.
pub(super) fn memory(geometry: &Geometry) -> Result<u64, Failure> {
    memory_for(
        geometry.region_bytes() as u64,
        "use larger fragments (`mezz block create --fragment 2MiB`) or a smaller cache",
    )
}

/// The same of so many bytes, with what to do where there are less.
pub(super) fn memory_for(needed: u64, next: &str) -> Result<u64, Failure> {
    if let Some(available) = memory_available().filter(|available| needed > *available) {
        let reason = format!("the cache takes {}, and {} are free", Size(needed), Size(available));
        return Err(Failure::refused("memory", reason).next(next));
    }
    Ok(needed)
}

/// Sixteen random bytes.
pub(super) fn random_id() -> Result<[u8; 16], Failure> {
    let mut id = [0; 16];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut id));
    read.map_err(|error| Failure::refused("/dev/urandom", error).next("mount /dev"))?;
    Ok(id)
}

/// Says something once for each of these.
pub(super) fn note_each(texts: impl IntoIterator<Item = String>) {
    texts.into_iter().for_each(|text| output::note(&text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_called_as_its_file_or_as_it_is_said() {
        let of = |text| named(text).map(|one| (one.name, one.path.display().to_string()));
        let pair = |name: &str, path: &str| Ok((name.to_owned(), path.to_owned()));
        assert_eq!(of("/dev/sdb"), pair("sdb", "/dev/sdb"));
        assert_eq!(of("data=/dev/sdb"), pair("data", "/dev/sdb"));
        assert_eq!(of("./a=b"), pair("a=b", "./a=b"));
        assert_eq!(of("=b"), pair("=b", "=b"));
        for text in ["", "/", "..", &format!("{}=x", "n".repeat(65))] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
