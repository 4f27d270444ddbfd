//! Making flash files.
//!
//! A file becomes a tier under another name, and gets its own in one step that replaces nothing: whoever dies
//! in between leaves no file that is neither a tier nor empty, and of two processes that make the same one,
//! one does. Both formatting and use lock the file, so an unfinished one that is not locked is nobody's.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mezzanine_device::{Device, FileDevice, OpenOptions};
use mezzanine_engine::format::{SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS};
use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{TierConfig, Volume, VolumeConfig};

use crate::database_file::{Acquired, FileId, ProcessLock};
use crate::error::{Error, ErrorKind};
use crate::mount::Wish;
use crate::{ffi, logs};

/// Stands between the name of a flash file and the process that makes it.
const UNFINISHED: &str = ".formatting-";
const ATTEMPTS: u32 = 3;

/// Whether there is nothing yet in the place of a flash file. A block device says that it has no bytes, too;
/// it is formatted by hand, if at all.
pub(crate) fn is_fresh(flash: &Path) -> bool {
    fs::metadata(flash).map_or(true, |found| found.is_file() && found.len() == 0)
}

/// A flash file with an empty tier, in the place of an empty file or of none, for those that `owner` is for;
/// `None` if somebody else has made one meanwhile.
pub(crate) fn make_file(flash: &Path, owner: &Path, tier: &TierConfig) -> Result<Option<Made>, Error> {
    let failed = |source| Error::io("make the flash file", flash.display(), source);
    if fs::symlink_metadata(flash).is_ok_and(|found| found.is_symlink()) {
        // It is not followed when the tier is opened either, and that says so.
        mezzanine_volume::open_flash(flash)?;
    }
    // The way there may be by links.
    let flash = &*fs::canonicalize(flash).unwrap_or_else(|_| flash.to_owned());
    // An empty file may be a database that somebody is about to fill.
    let looked_at = flash.exists() && !planted::is(Bug::EmptyDatabaseReplaced);
    let _alone = if looked_at { keep_sqlite_out(flash)? } else { None };
    let mut attempt = 0;
    loop {
        attempt += 1;
        remove_unfinished(flash);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let own = format!("{UNFINISHED}{}-{}", std::process::id(), since.as_nanos());
        let unfinished = with_suffix(flash, &own);
        // Locked until it has its name.
        let formatted = format_flash(&unfinished, owner, tier);
        let made = FileId::of(&unfinished);
        let named = formatted.and_then(|device| give_name(&unfinished, flash).map(|named| (named, device)));
        if !matches!(named, Ok((true, _))) {
            let _ = fs::remove_file(&unfinished);
        }
        match (named, made) {
            (Ok((true, device)), Some(id)) => {
                logs::sync_parent(flash).map_err(failed)?;
                // It is opened by its own name, which messages tell.
                drop(device);
                let made = MadeFile { path: flash.to_owned(), id };
                return Ok(Some((mezzanine_volume::open_flash(flash)?, made)));
            }
            (Ok(_), _) => return Ok(None),
            // Whoever makes the same file may have taken this one for one that was left, before it was
            // locked.
            (Err(error), _)
                if attempt < ATTEMPTS
                    && (error.kind() == ErrorKind::Busy || error.errno() == libc::ENOENT) => {}
            (Err(error), _) => return Err(error),
        }
    }
}

/// A flash file that was just made, open.
pub(crate) type Made = (Arc<dyn Device>, MadeFile);

/// A flash file that this process has made.
pub(crate) struct MadeFile {
    path: PathBuf,
    id: FileId,
}

impl MadeFile {
    /// Removes it after an error, which says more than one about the removal would; not what else has its
    /// name by now.
    pub(crate) fn remove(&self) {
        if FileId::of(&self.path) == Some(self.id) || planted::is(Bug::RemovedByName) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses a flash file in a place where SQLite or a tier looks for something of a database that is there: it
/// would be taken for a log, and what is acknowledged would go with it. `is_open` knows the files of
/// databases in use, also of those that are still empty.
pub(crate) fn refuse_place_of_database(flash: &Path, is_open: impl Fn(FileId) -> bool) -> Result<(), Error> {
    let reason = match FileId::of(flash).is_some_and(is_open) {
        true => Some("it is a database that is open here".to_owned()),
        false => place_beside_database(flash),
    };
    let Some(reason) = reason.filter(|_| !planted::is(Bug::FlashInPlaceOfLog)) else { return Ok(()) };
    Err(Error::new(ErrorKind::BadParameter, "use", flash.display(), reason)
        .advise("give the flash file a name of its own, which is that of no part of a database"))
}

/// What has this name, if it is that of something beside a database.
fn place_beside_database(flash: &Path) -> Option<String> {
    let name = flash.file_name()?;
    let folder = flash.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).ok()?;
    if let Some(database) = logs::database_of(&folder) {
        if logs::directory(&database) == folder && database.is_file() {
            return Some(format!("it is in the log directory of {}", database.display()));
        }
    }
    let stem_of = |suffix: &str| name.as_bytes().strip_suffix(suffix.as_bytes());
    PARTS.iter().find_map(|(suffix, what)| {
        let database = folder.join(std::ffi::OsStr::from_bytes(stem_of(suffix)?));
        database.is_file().then(|| format!("it has the name of the {what} of {}", database.display()))
    })
}

/// What the files beside a database are called, by what follows its name.
const PARTS: [(&str, &str); 4] = [
    ("-wal", "write-ahead log"),
    ("-journal", "rollback journal"),
    ("-shm", "shared memory"),
    (".mezzanine", "sidecar"),
];

/// A flash file that is there. One with something of a database in it is refused before it is opened: see
/// [`crate::database_file`] for what it costs to close it.
pub(crate) fn open_existing(flash: &Path) -> Result<Arc<dyn Device>, Error> {
    if fs::metadata(flash).is_ok_and(|found| found.is_file()) && !planted::is(Bug::DatabaseTakenForFlash) {
        refuse_database(flash)?;
    }
    Ok(mezzanine_volume::open_flash(flash)?)
}

fn refuse_database(flash: &Path) -> Result<(), Error> {
    let refuse = |what: &str| {
        let reason = format!("it {what}, and is no flash file");
        let advice = "name another file; one that nobody needs any more has to be removed first";
        Err(Error::new(ErrorKind::BadParameter, "use", flash.display(), reason).advise(advice))
    };
    let Some(lock) = keep_sqlite_out(flash)? else { return Ok(()) };
    // What cannot be read is met again.
    let head: [u8; 64] = lock.file().head().unwrap_or([0; 64]);
    match IN_USE.iter().find(|(begin, _)| head.starts_with(begin)) {
        Some((_, what)) => refuse(what),
        None => Ok(()),
    }
}

/// The lock of whoever has a database alone, in case this is one. None on a file system without locks, where
/// nobody has any; what else is wrong is met again.
fn keep_sqlite_out(flash: &Path) -> Result<Option<ProcessLock>, Error> {
    let wish = Wish { writable: false, create: false, exclusive: false };
    match ProcessLock::acquire(flash, wish) {
        Ok(Acquired::Locked(lock)) => Ok(Some(lock)),
        Err(_) => Ok(None),
        Ok(Acquired::HeldElsewhere) => {
            let reason = "it is in use by an SQLite, or another process opens it just now";
            let error = Error::new(ErrorKind::Busy, "use", flash.display(), reason);
            Err(error.advise("try again; if it is a database, name another file"))
        }
    }
}

/// How files begin that have something of a database in them ("Database File Format", sections 1.3, 3 and
/// 4.1).
const IN_USE: [(&[u8], &str); 6] = [
    (b"SQLite format 3\0", "holds a database"),
    (b"Mezzanine: the newest pages of this database", "holds a database, whose newest pages are in a tier"),
    (&[0x37, 0x7f, 0x06, 0x82], "holds a write-ahead log"),
    (&[0x37, 0x7f, 0x06, 0x83], "holds a write-ahead log"),
    (&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7], "holds a rollback journal"),
    (b"mezzanine sidecar ", "is the sidecar of a database"),
];

/// Whether there is a tier, whole or not.
pub(crate) fn holds_tier(flash: &dyn Device) -> bool {
    is_tier(|begin, offset| flash.read_at(begin, offset).is_ok())
}

/// As [`holds_tier`], of a file that is not open.
pub(crate) fn is_flash_file(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| is_tier(|begin, offset| file.read_exact_at(begin, offset).is_ok()))
}

fn is_tier(read: impl Fn(&mut [u8], u64) -> bool) -> bool {
    SUPERBLOCK_OFFSETS.iter().any(|offset| {
        let mut begin = [0; SUPERBLOCK_MAGIC.len()];
        read(&mut begin, *offset) && begin == SUPERBLOCK_MAGIC
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn format_flash(path: &Path, owner: &Path, tier: &TierConfig) -> Result<Arc<dyn Device>, Error> {
    let device = mezzanine_volume::create_flash_for(path, Some(owner), tier)?;
    Volume::format(&*device, &VolumeConfig::new(tier.clone()), false)?;
    Ok(device)
}

/// Has the file stand in its place. False if there is something by now.
fn give_name(unfinished: &Path, flash: &Path) -> Result<bool, Error> {
    let failed = |source| Error::io("make the flash file", flash.display(), source);
    if planted::is(Bug::FlashReplaced) {
        return fs::rename(unfinished, flash).map(|()| true).map_err(failed);
    }
    // An empty file is replaced while it is locked: whoever else does so finds another file afterwards.
    let options = OpenOptions { write: true, exclusive_lock: true, ..OpenOptions::default() };
    match fs::metadata(flash) {
        Ok(found) => {
            let empty = FileDevice::open(flash, &options);
            let empty =
                empty.map_err(|source| Error::device("make the flash file", flash.display(), source))?;
            let locked = FileId::from(&empty.file().metadata().map_err(failed)?);
            if !is_fresh(flash) || FileId::from(&found) != locked || FileId::of(flash) != Some(locked) {
                return Ok(false);
            }
            fs::rename(unfinished, flash).map(|()| true).map_err(failed)
        }
        Err(_) => match ffi::rename_to_new(unfinished, flash) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(failed(error)),
        },
    }
}

/// Removes what processes left that died while they made this file.
fn remove_unfinished(flash: &Path) {
    let Some(name) = flash.file_name() else { return };
    let begin = with_suffix(Path::new(name), UNFINISHED);
    let directory = flash.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // What cannot be seen or removed is in nobody's way.
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_one = entry.file_name().as_encoded_bytes().starts_with(begin.as_os_str().as_encoded_bytes());
        if is_one && File::open(entry.path()).is_ok_and(|file| ffi::lock_file(&file)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use mezzanine_engine::planted::only_with;

    use super::*;

    #[test]
    fn what_took_the_name_of_a_file_that_was_made_is_not_removed() {
        only_with(&[Bug::RemovedByName], || {
            let path = std::env::temp_dir().join(format!("mezzanine-{}-made.mezz", std::process::id()));
            let tier = TierConfig::for_flash_bytes(4096, 640 * 1024);
            let (device, made) = make_file(&path, Path::new("/"), &tier).unwrap().unwrap();
            drop(device);
            // Without a break, so that no new file can have its number.
            let moved = path.with_extension("moved");
            fs::rename(&path, &moved).unwrap();
            fs::write(&path, "another one's").unwrap();
            made.remove();
            let kept = path.exists();
            fs::rename(&moved, &path).unwrap();
            made.remove();
            assert!(!path.exists());
            kept
        });
    }
}
