//! Keeps every other process away from a database file.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::ffi;
use crate::mount::Wish;

/// SQLite's own lock bytes of a database file: PENDING, RESERVED and 510 of SHARED from this offset on
/// (`os.h`).
const LOCK_BYTES: (i64, i64) = (0x4000_0000, 512);

/// The lock bytes of a database, locked as an exclusive locker of SQLite does it. The lock belongs to an
/// *open file description*, so it stays when other descriptors of the file are closed, and counts against
/// SQLite's own VFS in this process, too.
pub(crate) struct ProcessLock {
    file: File,
    writable: bool,
}

/// What became of an attempt to lock a database.
pub(crate) enum Acquired {
    Locked(ProcessLock),
    HeldElsewhere,
}

impl ProcessLock {
    /// Opens the database at `path`, which is made if `wish` says so, and locks it: for this process alone if
    /// it can be written, else together with other readers.
    pub(crate) fn acquire(path: &Path, wish: Wish) -> Result<Acquired, Error> {
        let failed = |source| Error::io("open", path.display(), source);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(wish.create).create_new(wish.create && wish.exclusive);
        let (file, writable) = match options.open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(failed(error)),
            Err(error) => match OpenOptions::new().read(true).open(path) {
                Ok(file) => (file, false),
                Err(_) => return Err(failed(error)),
            },
        };
        let kind = if writable { libc::F_WRLCK } else { libc::F_RDLCK };
        let Err(error) = ffi::set_lock(&file, kind, LOCK_BYTES) else {
            return Ok(Acquired::Locked(Self { file, writable }));
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(Acquired::HeldElsewhere),
            _ => Err(Error::io("lock", path.display(), error)),
        }
    }

    /// Whether the database can be written.
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that was forked and has not yet replaced itself by
        // another program.
        let _ = ffi::set_lock(&self.file, libc::F_UNLCK, LOCK_BYTES);
    }
}
