//! The log directory of an open database, by descriptor. A folder may be moved under an open database, and
//! another one made in its place: what has the path by then is that of whoever uses the database there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};

use crate::database_file::FileId;
use crate::logs::absent_is_fine;

/// For people; and it tells who has entered the directory last.
pub(crate) const README: &str = "README";

/// The log directory that was entered, wherever it is by now.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    handle: File,
    id: FileId,
    /// The README of this entry, if there was room for one.
    readme: Option<Entry>,
}

/// A file as it was made: an inode may be that of another file later, and then it has changed since.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    inode: u64,
    changed: (i64, i64),
}

impl OpenDirectory {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let options = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let handle = OpenOptions::new().read(true).custom_flags(options).open(path)?;
        let id = FileId::from(&handle.metadata()?);
        let mut opened = Self { handle, id, readme: None };
        opened.readme = opened.found_readme();
        Ok(opened)
    }

    fn found_readme(&self) -> Option<Entry> {
        let found = rustix::fs::statat(&self.handle, README, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "not on every machine")]
        Some(Entry {
            inode: found.st_ino as u64,
            changed: (found.st_ctime as i64, found.st_ctime_nsec as i64),
        })
    }

    /// Whether it is what has this path.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|found| FileId::from(&found) == self.id)
    }

    /// Whether a log in it holds nothing: it is not there, it is empty, or its header was overwritten with
    /// zeros (PERSIST).
    pub(crate) fn is_cold(&self, log: &str) -> io::Result<bool> {
        let mut first = [0];
        match rustix::fs::openat(&self.handle, log, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(log) => Ok(File::from(log).read(&mut first)? == 0 || first[0] == 0),
            Err(rustix::io::Errno::NOENT) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what has this name; that there is none is no error.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        absent_is_fine(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()).map_err(io::Error::from))
    }

    /// A new file, for those that the database is for.
    pub(crate) fn make(&self, database: &Path, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?);
        mezzanine_volume::give_to_owner_of(database, &file);
        Ok(file)
    }

    /// A symbolic link that says this. It is whose the database is, if this process may give it away.
    pub(crate) fn link(&self, database: &Path, target: &str, name: &str) -> io::Result<()> {
        rustix::fs::symlinkat(target, &self.handle, name)?;
        if let Ok(owner) = std::fs::metadata(database) {
            let (user, group) =
                (rustix::fs::Uid::from_raw(owner.uid()), rustix::fs::Gid::from_raw(owner.gid()));
            // Whoever can replace the link can read it, whose it is.
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let _ = rustix::fs::chownat(&self.handle, name, Some(user), Some(group), flags);
        }
        Ok(())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    /// The directory that it is in.
    fn parent(&self, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.handle, "..", flags, Mode::empty())?))
    }

    /// What is in the directory that it is in is there after a crash.
    pub(crate) fn sync_parent(&self) -> io::Result<()> {
        self.parent(OFlags::RDONLY)?.sync_all()
    }

    /// Removes the directory called `name` with these files, if it is this one and goes with the file `id`,
    /// which was called `database` beside it; durably, if it was `durable`.
    ///
    /// As long as that file stands there, nobody else has entered the directory: they would have its lock.
    /// Where another one does, they may have, and have left a README.
    pub(crate) fn remove_all(
        &self,
        (database, name): (&Path, &Path),
        id: FileId,
        files: &[&str],
        durable: bool,
    ) -> io::Result<()> {
        let parent = match self.parent(if durable { OFlags::RDONLY } else { OFlags::PATH }) {
            // Somebody has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            parent => parent?,
        };
        let is = |name: &Path, flags, id: FileId| {
            rustix::fs::statat(&parent, name, flags).is_ok_and(|found| id_of(&found) == id)
        };
        let entered_last = || self.readme.is_some() && self.found_readme() == self.readme;
        let goes_with = is(database, AtFlags::empty(), id) || entered_last();
        if !is(name, AtFlags::SYMLINK_NOFOLLOW, self.id) || !goes_with {
            return Ok(());
        }
        files.iter().try_for_each(|file| self.remove(file))?;
        let removed = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(io::Error::from);
        absent_is_fine(removed)?;
        if durable { parent.sync_all() } else { Ok(()) }
    }
}

#[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "not on every machine")]
fn id_of(found: &Stat) -> FileId {
    FileId::of_numbers(found.st_dev as u64, found.st_ino as u64)
}
