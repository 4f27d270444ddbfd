//! SQLite's C interface as far as a VFS needs it.
//!
//! These are SQLite's own documented structures (`sqlite3.h`, "OS Interface Objects"), which it never changes
//! but only appends to. They are written down here, and not taken from a binding crate, so that one VFS
//! serves two builds that must not meet: rusqlite with its bundled SQLite, and an extension loaded into a
//! SQLite that is already there. Nothing here names a symbol of SQLite; every call goes through
//! [`Api`](crate::ffi::Api).

#![allow(non_snake_case, reason = "the fields carry SQLite's names")]

use std::ffi::{c_char, c_int, c_void};

pub(crate) const OK: c_int = 0;
pub(crate) const ERROR: c_int = 1;
pub(crate) const BUSY: c_int = 5;
pub(crate) const READONLY: c_int = 8;
pub(crate) const IOERR: c_int = 10;
pub(crate) const NOTFOUND: c_int = 12;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANTOPEN: c_int = 14;
pub(crate) const MISUSE: c_int = 21;
pub(crate) const WARNING: c_int = 28;
pub(crate) const OK_LOAD_PERMANENTLY: c_int = 256;
pub(crate) const IOERR_READ: c_int = IOERR | (1 << 8);
pub(crate) const IOERR_SHORT_READ: c_int = IOERR | (2 << 8);
pub(crate) const IOERR_WRITE: c_int = IOERR | (3 << 8);
pub(crate) const IOERR_FSYNC: c_int = IOERR | (4 << 8);
pub(crate) const IOERR_TRUNCATE: c_int = IOERR | (6 << 8);
pub(crate) const IOERR_FSTAT: c_int = IOERR | (7 << 8);
pub(crate) const IOERR_DELETE: c_int = IOERR | (10 << 8);
pub(crate) const IOERR_NOMEM: c_int = IOERR | (12 << 8);
pub(crate) const IOERR_LOCK: c_int = IOERR | (15 << 8);
pub(crate) const IOERR_SHMMAP: c_int = IOERR | (21 << 8);
pub(crate) const READONLY_DBMOVED: c_int = READONLY | (4 << 8);

pub(crate) const OPEN_READONLY: c_int = 0x1;
pub(crate) const OPEN_READWRITE: c_int = 0x2;
pub(crate) const OPEN_CREATE: c_int = 0x4;
pub(crate) const OPEN_EXCLUSIVE: c_int = 0x10;
pub(crate) const OPEN_URI: c_int = 0x40;
pub(crate) const OPEN_MAIN_DB: c_int = 0x100;
pub(crate) const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub(crate) const OPEN_SUPER_JOURNAL: c_int = 0x4000;
pub(crate) const OPEN_WAL: c_int = 0x80000;

// A compile-time assertion alone uses these, which Rust 1.85 does not count as a use.
#[allow(dead_code)]
pub(crate) const LOCK_NONE: c_int = 0;
#[allow(dead_code)]
pub(crate) const LOCK_SHARED: c_int = 1;
#[allow(dead_code)]
pub(crate) const LOCK_RESERVED: c_int = 2;
#[allow(dead_code)]
pub(crate) const LOCK_PENDING: c_int = 3;
#[allow(dead_code)]
pub(crate) const LOCK_EXCLUSIVE: c_int = 4;

pub(crate) const SHM_UNLOCK: c_int = 1;
pub(crate) const SHM_EXCLUSIVE: c_int = 8;
/// Number of lock slots of a WAL-index.
pub(crate) const SHM_SLOTS: usize = 8;

pub(crate) const FCNTL_LOCKSTATE: c_int = 1;
pub(crate) const FCNTL_LAST_ERRNO: c_int = 4;
pub(crate) const FCNTL_SIZE_HINT: c_int = 5;
pub(crate) const FCNTL_CHUNK_SIZE: c_int = 6;
pub(crate) const FCNTL_PERSIST_WAL: c_int = 10;
pub(crate) const FCNTL_VFSNAME: c_int = 12;
pub(crate) const FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub(crate) const FCNTL_PRAGMA: c_int = 14;
pub(crate) const FCNTL_TEMPFILENAME: c_int = 16;
pub(crate) const FCNTL_HAS_MOVED: c_int = 20;
pub(crate) const FCNTL_SYNC: c_int = 21;
pub(crate) const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub(crate) const FCNTL_EXTERNAL_READER: c_int = 40;

pub(crate) const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;

/// `sqlite3_file`: the head of every open file.
#[repr(C)]
pub(crate) struct File {
    pub(crate) pMethods: *const IoMethods,
}

/// `sqlite3_io_methods`, up to version 2 (shared memory); version 3 adds memory-mapped pages, which a tier
/// cannot offer.
#[repr(C)]
pub(crate) struct IoMethods {
    pub(crate) iVersion: c_int,
    pub(crate) xClose: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub(crate) xRead: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
    pub(crate) xWrite: Option<unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int>,
    pub(crate) xTruncate: Option<unsafe extern "C" fn(*mut File, i64) -> c_int>,
    pub(crate) xSync: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) xFileSize: Option<unsafe extern "C" fn(*mut File, *mut i64) -> c_int>,
    pub(crate) xLock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) xUnlock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) xCheckReservedLock: Option<unsafe extern "C" fn(*mut File, *mut c_int) -> c_int>,
    pub(crate) xFileControl: Option<unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int>,
    pub(crate) xSectorSize: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub(crate) xDeviceCharacteristics: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub(crate) xShmMap:
        Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub(crate) xShmLock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub(crate) xShmBarrier: Option<unsafe extern "C" fn(*mut File)>,
    pub(crate) xShmUnmap: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub(crate) xFetch: Option<unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub(crate) xUnfetch: Option<unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int>,
}

impl IoMethods {
    /// No method at all, version 1.
    pub(crate) const NONE: Self = Self {
        iVersion: 1,
        xClose: None,
        xRead: None,
        xWrite: None,
        xTruncate: None,
        xSync: None,
        xFileSize: None,
        xLock: None,
        xUnlock: None,
        xCheckReservedLock: None,
        xFileControl: None,
        xSectorSize: None,
        xDeviceCharacteristics: None,
        xShmMap: None,
        xShmLock: None,
        xShmBarrier: None,
        xShmUnmap: None,
        xFetch: None,
        xUnfetch: None,
    };
}

pub(crate) type Symbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 3. What ours does not do itself it passes on to the VFS below it.
#[repr(C)]
pub(crate) struct Vfs {
    pub(crate) iVersion: c_int,
    pub(crate) szOsFile: c_int,
    pub(crate) mxPathname: c_int,
    pub(crate) pNext: *mut Vfs,
    pub(crate) zName: *const c_char,
    pub(crate) pAppData: *mut c_void,
    pub(crate) xOpen:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int>,
    pub(crate) xDelete: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int>,
    pub(crate) xAccess: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub(crate) xFullPathname:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub(crate) xDlOpen: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub(crate) xDlError: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub(crate) xDlSym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol>,
    pub(crate) xDlClose: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub(crate) xRandomness: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub(crate) xSleep: Option<unsafe extern "C" fn(*mut Vfs, c_int) -> c_int>,
    pub(crate) xCurrentTime: Option<unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int>,
    pub(crate) xGetLastError: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub(crate) xCurrentTimeInt64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
    pub(crate) xSetSystemCall: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, Symbol) -> c_int>,
    pub(crate) xGetSystemCall: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> Symbol>,
    pub(crate) xNextSystemCall: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *const c_char>,
}

/// Places of the functions that we use in `sqlite3_api_routines`, the table that SQLite hands to a loaded
/// extension. The table only grows at its end, so these numbers hold for every SQLite since
/// [`OLDEST_VERSION`].
pub(crate) mod routine {
    pub(crate) const LIBVERSION_NUMBER: usize = 67;
    pub(crate) const MALLOC: usize = 68;
    pub(crate) const VFS_FIND: usize = 141;
    pub(crate) const VFS_REGISTER: usize = 142;
    pub(crate) const VFS_UNREGISTER: usize = 143;
    pub(crate) const LOG: usize = 167;
    pub(crate) const URI_PARAMETER: usize = 189;
}

/// The oldest SQLite that is accepted: it has every function and structure in this form. The oldest that the
/// VFS has been run with is 3.40.
pub(crate) const OLDEST_VERSION: c_int = 3_031_000;

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Vfs>() == 168);
    assert!(size_of::<IoMethods>() == 152);
};

#[cfg(all(test, feature = "rusqlite"))]
mod tests {
    use super::{File, IoMethods, Vfs};
    use rusqlite::ffi::{sqlite3_file, sqlite3_io_methods, sqlite3_vfs};
    use std::mem::offset_of;

    macro_rules! same_places {
        ($ours:ty, $theirs:ty: $($field:ident),*) => {
            assert_eq!(size_of::<$ours>(), size_of::<$theirs>());
            $(assert_eq!(offset_of!($ours, $field), offset_of!($theirs, $field), stringify!($field));)*
        };
    }

    #[test]
    fn structures_are_those_of_sqlite() {
        same_places!(File, sqlite3_file: pMethods);
        same_places!(IoMethods, sqlite3_io_methods: iVersion, xClose, xRead, xWrite, xTruncate, xSync, xFileSize,
            xLock, xUnlock, xCheckReservedLock, xFileControl, xSectorSize, xDeviceCharacteristics, xShmMap, xShmLock,
            xShmBarrier, xShmUnmap, xFetch, xUnfetch);
        same_places!(Vfs, sqlite3_vfs: iVersion, szOsFile, mxPathname, pNext, zName, pAppData, xOpen, xDelete, xAccess,
            xFullPathname, xDlOpen, xDlError, xDlSym, xDlClose, xRandomness, xSleep, xCurrentTime, xGetLastError,
            xCurrentTimeInt64, xSetSystemCall, xGetSystemCall, xNextSystemCall);
    }

    #[test]
    fn numbers_are_those_of_sqlite() {
        use rusqlite::ffi as theirs;
        assert_eq!(super::CANTOPEN, theirs::SQLITE_CANTOPEN);
        assert_eq!(super::IOERR_SHORT_READ, theirs::SQLITE_IOERR_SHORT_READ);
        assert_eq!(super::IOERR_SHMMAP, theirs::SQLITE_IOERR_SHMMAP);
        assert_eq!(super::READONLY_DBMOVED, theirs::SQLITE_READONLY_DBMOVED);
        assert_eq!(super::IOERR_NOMEM, theirs::SQLITE_IOERR_NOMEM);
        assert_eq!(super::IOERR_LOCK, theirs::SQLITE_IOERR_LOCK);
        assert_eq!(super::OPEN_WAL, theirs::SQLITE_OPEN_WAL);
        assert_eq!(super::OPEN_SUPER_JOURNAL, theirs::SQLITE_OPEN_SUPER_JOURNAL);
        assert_eq!(super::OPEN_MAIN_JOURNAL, theirs::SQLITE_OPEN_MAIN_JOURNAL);
        assert_eq!(super::FCNTL_PRAGMA, theirs::SQLITE_FCNTL_PRAGMA);
        assert_eq!(super::FCNTL_CHUNK_SIZE, theirs::SQLITE_FCNTL_CHUNK_SIZE);
        assert_eq!(super::FCNTL_TEMPFILENAME, theirs::SQLITE_FCNTL_TEMPFILENAME);
        assert_eq!(super::FCNTL_COMMIT_PHASETWO, theirs::SQLITE_FCNTL_COMMIT_PHASETWO);
        assert_eq!(super::FCNTL_SYNC, theirs::SQLITE_FCNTL_SYNC);
        assert_eq!(super::FCNTL_HAS_MOVED, theirs::SQLITE_FCNTL_HAS_MOVED);
        assert_eq!(super::FCNTL_EXTERNAL_READER, theirs::SQLITE_FCNTL_EXTERNAL_READER);
        assert_eq!(super::FCNTL_POWERSAFE_OVERWRITE, theirs::SQLITE_FCNTL_POWERSAFE_OVERWRITE);
        assert_eq!(super::IOCAP_POWERSAFE_OVERWRITE, theirs::SQLITE_IOCAP_POWERSAFE_OVERWRITE);
        assert_eq!(super::SHM_EXCLUSIVE, theirs::SQLITE_SHM_EXCLUSIVE);
        assert_eq!(super::SHM_SLOTS as i32, theirs::SQLITE_SHM_NLOCK);
    }
}
