//! Log files: files of the base VFS under another name, whose syncs may be timed.

use std::ffi::{CString, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Weak};

use mezzanine_engine::planted::{self, Bug};

use super::{Slot, range};
use crate::abi::{self, File, IoMethods};
use crate::database::Database;
use crate::error::{Error, ErrorKind};
use crate::ffi::{Core, base_open, log_name};
use crate::lineage::Origin;
use crate::report::guarded;
use crate::timing::{RealSync, Unsynced};
use crate::{logs, mount, record};

/// Bytes that SQLite writes over the head of a rollback journal that has ended and stays (`zeroJournalHdr` in
/// `pager.c`); the head of a new one is longer.
const JOURNAL_END: usize = 28;

/// Ends the name of a super-journal in a journal, and begins the headers of journals ("Database File Format",
/// section 3).
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// No path is longer.
const SUPER_NAME_MAX: i64 = libc::PATH_MAX as i64;

struct OpenLog {
    core: &'static Core,
    origin: Origin,
    path: PathBuf,
    /// The base VFS keeps a pointer to the name.
    _name: CString,
    /// The base VFS's file; words, for its alignment.
    base: Box<[u64]>,
    unsynced: Unsynced,
    /// Whose it is. Weak, so that a log that SQLite has not closed yet keeps no tier open.
    database: Option<Weak<Database>>,
    /// A write-ahead log: recordings have its commits.
    is_wal: bool,
    /// Whoever finds it after a crash knows whose it is.
    begun: bool,
    /// It is new, and may not be in its directory after a crash; the base VFS does not know.
    made: bool,
}

static METHODS: IoMethods = IoMethods {
    xClose: Some(log_close),
    xRead: Some(log_read),
    xWrite: Some(log_write),
    xTruncate: Some(log_truncate),
    xSync: Some(log_sync),
    xFileSize: Some(log_file_size),
    xLock: Some(log_lock),
    xUnlock: Some(log_unlock),
    xCheckReservedLock: Some(log_check_reserved_lock),
    xFileControl: Some(log_file_control),
    xSectorSize: Some(log_sector_size),
    xDeviceCharacteristics: Some(log_device_characteristics),
    ..IoMethods::NONE
};

/// SQLite's code of an error: that of a full disk, or else this.
fn full_or(error: &Error, code: c_int) -> c_int {
    if matches!(error.errno(), libc::ENOSPC | libc::EDQUOT) { abi::FULL } else { code }
}

/// # Safety
/// As for `xOpen`.
pub(in crate::ffi) unsafe fn open_log(
    core: &'static Core,
    path: &Path,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let database = mount::database_of_log(path);
    if let Err(error) = mount::refuse_inherited_log(path) {
        return core.fail(&error, abi::CANTOPEN);
    }
    if let Some(database) = database.as_ref().filter(|_| flags & abi::OPEN_CREATE != 0) {
        if let Err(error) = database.provide_log_directory() {
            return core.fail(&error, full_or(&error, abi::CANTOPEN));
        }
    }
    if let Some(Err(error)) = database.as_ref().map(|database| database.refuse_logs_elsewhere()) {
        return core.fail(&error, abi::CANTOPEN);
    }
    let place = mount::place_of_log(path);
    let name = log_name(&place);
    // SAFETY: the base VFS is never freed.
    let bytes = usize::try_from(unsafe { (*core.base).szOsFile }).unwrap_or(0);
    let mut base = vec![0_u64; bytes.div_ceil(8).max(1)].into_boxed_slice();
    let inner = base.as_mut_ptr().cast::<File>();
    // A new log is durable in its directory with what says whose it is, at its first write. The base VFS
    // would sync the directory once more for a file that it may have made.
    let is_synced = |database: &Arc<Database>| database.is_log_directory_synced_at_next_write();
    let may_make = flags & (abi::OPEN_CREATE | abi::OPEN_EXCLUSIVE) == abi::OPEN_CREATE;
    let synced = database.as_ref().filter(|database| may_make && is_synced(database));
    let made = synced.is_some_and(|database| logs::make(database.path(), &place));
    let is_there = made || synced.is_some() && place.is_file();
    let flags = if is_there { flags & !abi::OPEN_CREATE } else { flags };
    // Without URI parameters there is nothing to look for behind the name.
    // SAFETY: `inner` has the size that the base VFS asks for, and with `name` stays until `log_close`.
    let code = unsafe { base_open(core, name.as_ptr(), inner, flags & !abi::OPEN_URI, out) };
    if code != abi::OK {
        // SAFETY: a file that could not be opened but has methods is to be closed.
        unsafe { close_base(inner) };
        return code;
    }
    let database = database.as_ref().map(Arc::downgrade);
    let is_wal = flags & abi::OPEN_WAL != 0;
    let (origin, unsynced) = (Origin::here(), Unsynced::default());
    let begun = false;
    let state =
        OpenLog { core, origin, path: place, _name: name, base, unsynced, database, is_wal, begun, made };
    let slot = Slot { head: File { pMethods: &METHODS }, state: Box::into_raw(Box::new(state)) };
    // SAFETY: contract 2, and `szOsFile` is at least the size of a slot.
    unsafe { file.cast::<Slot<OpenLog>>().write(slot) };
    // SAFETY: the file was just opened.
    let promises = unsafe { log_device_characteristics(file) };
    if promises & abi::IOCAP_POWERSAFE_OVERWRITE == 0 {
        mount::withdraw_powersafe(path);
    }
    abi::OK
}

/// # Safety
/// `inner` is a file of the base VFS, opened or zeroed.
unsafe fn close_base(inner: *mut File) -> c_int {
    // SAFETY: by the caller.
    let methods = unsafe { (*inner).pMethods };
    // SAFETY: null or the base VFS's static table.
    match unsafe { methods.as_ref() }.and_then(|methods| methods.xClose) {
        // SAFETY: by the caller.
        Some(close) => unsafe { close(inner) },
        None => abi::OK,
    }
}

/// The state of a log file.
///
/// # Safety
/// `file` has [`METHODS`] and is not closed; nobody else uses it while the result lives (contract 3).
unsafe fn log<'a>(file: *mut File) -> &'a mut OpenLog {
    // SAFETY: by the caller.
    let slot = unsafe { &*file.cast::<Slot<OpenLog>>() };
    // SAFETY: `open_log` put it there and `log_close` alone takes it away.
    unsafe { &mut *slot.state }
}

impl OpenLog {
    /// Tells a recording of a commit, when the frame that makes it is about to be written.
    fn note_commit(&self, data: *const c_void, amount: c_int) {
        let Some(database) = self.database.as_ref().filter(|_| self.is_wal) else { return };
        let Ok(amount) = usize::try_from(amount) else { return };
        // SAFETY: contract 4.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), amount) };
        if record::is_commit_frame(bytes) {
            if let Some(database) = database.upgrade() {
                database.committed();
            }
        }
    }

    /// Before a rollback journal is begun, or begun anew.
    fn journal_begins(&self) -> Result<(), Error> {
        self.database.as_ref().and_then(Weak::upgrade).map_or(Ok(()), |database| database.journal_begins())
    }

    /// Before the first write.
    fn begin(&mut self) -> Result<(), Error> {
        if !self.begun {
            if let Some(database) = self.database.as_ref().and_then(Weak::upgrade) {
                if !database.log_begins()? && self.made {
                    database.keep_log_directory()?;
                }
            }
            self.begun = true;
        }
        Ok(())
    }

    /// Before the log loses something that may still be needed for pages that were written: it ends, or
    /// begins anew.
    fn hand_over(&self) -> Result<(), Error> {
        self.database.as_ref().and_then(Weak::upgrade).map_or(Ok(()), |database| database.hand_over())
    }

    /// Whether these bytes complete the name of a super-journal that names databases without a tier as well
    /// (see [`logs::is_super_journal_ours`]). SQLite writes the name, its length, a sum of it, and then these
    /// by themselves (`writeSuperJournal` in `pager.c`).
    fn names_others(&mut self, data: *const c_void, amount: c_int, offset: i64) -> Result<bool, Error> {
        if amount as usize != JOURNAL_MAGIC.len() || planted::is(Bug::SuperJournalBelieved) {
            return Ok(false);
        }
        // SAFETY: contract 4.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), JOURNAL_MAGIC.len()) };
        if bytes != JOURNAL_MAGIC {
            return Ok(false);
        }
        let mut len = [0; 4];
        self.read_base(&mut len, offset - 8)?;
        let len = i64::from(u32::from_be_bytes(len));
        if !(1..=SUPER_NAME_MAX).contains(&len) {
            return Ok(false);
        }
        let mut name = vec![0; len as usize];
        self.read_base(&mut name, offset - 8 - len)?;
        let name = Path::new(OsStr::from_bytes(&name));
        logs::is_super_journal_ours(name, |journal| mount::database_of_log(journal).is_some())
            .map(|ours| !ours)
            .map_err(|source| Error::io("read the super-journal", name.display(), source))
    }

    fn read_base(&mut self, bytes: &mut [u8], offset: i64) -> Result<(), Error> {
        let inner = self.inner();
        // SAFETY: the base file is open.
        let methods = unsafe { (*inner).pMethods };
        // SAFETY: the table of an open file is static.
        let read = unsafe { (*methods).xRead };
        let len = bytes.len() as c_int;
        // SAFETY: the buffer is as long as is said.
        let code = read
            .map_or(abi::IOERR_READ, |read| unsafe { read(inner, bytes.as_mut_ptr().cast(), len, offset) });
        if code == abi::OK {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            "read the log",
            self.path.display(),
            format!("SQLite's own VFS answers {code}"),
        ))
    }

    fn write_base(&mut self, bytes: &[u8], offset: i64) -> c_int {
        let inner = self.inner();
        // SAFETY: the base file is open.
        let methods = unsafe { (*inner).pMethods };
        // SAFETY: the table of an open file is static.
        let write = unsafe { (*methods).xWrite };
        let len = bytes.len() as c_int;
        // SAFETY: the buffer is as long as is said.
        write.map_or(abi::IOERR_WRITE, |write| unsafe { write(inner, bytes.as_ptr().cast(), len, offset) })
    }

    fn inner(&mut self) -> *mut File {
        self.base.as_mut_ptr().cast()
    }
}

unsafe extern "C" fn log_close(file: *mut File) -> c_int {
    // SAFETY: a method of this file.
    let state: *mut OpenLog = unsafe { log(file) };
    // SAFETY: contract 2: the slot is still ours.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: contract 3: this was the last call for this file, so the state is ours alone.
    let mut state = unsafe { Box::from_raw(state) };
    // SAFETY: the base file was opened and is closed only here.
    unsafe { close_base(state.inner()) }
}

/// Callbacks that the base VFS answers, after something of ours has been done to the state.
macro_rules! log_methods {
    ($($name:ident = $method:ident($($arg:ident: $type:ty),*), else $otherwise:expr, first $note:expr;)*) => {$(
        unsafe extern "C" fn $name(file: *mut File, $($arg: $type),*) -> c_int {
            // SAFETY: a method of this file.
            let state = unsafe { log(file) };
            let early = guarded($otherwise, || {
                if !state.origin.is_here() {
                    return state.core.fail(&state.origin.refuse("use", state.path.display()), $otherwise);
                }
                let note: fn(&mut OpenLog, $($type),*) -> c_int = $note;
                note(state, $($arg),*)
            });
            if early != CONTINUE {
                return early;
            }
            let inner = state.inner();
            // SAFETY: the base file is open.
            let methods = unsafe { (*inner).pMethods };
            // SAFETY: the table of an open file is static.
            match unsafe { (*methods).$method } {
                // SAFETY: the arguments are passed on.
                Some(method) => unsafe { method(inner, $($arg),*) },
                None => $otherwise,
            }
        }
    )*};
}

/// Not a code of SQLite: the base VFS is still to be asked.
const CONTINUE: c_int = -1;

log_methods! {
    log_read = xRead(out: *mut c_void, amount: c_int, offset: i64), else abi::IOERR_READ, first |_, _, _, _| CONTINUE;
    log_write = xWrite(data: *const c_void, amount: c_int, offset: i64), else abi::IOERR_WRITE,
        first |log, data, amount, offset| {
            // Whether a change can be had comes first: the log of one that is refused is empty.
            if !log.is_wal && offset == 0 && amount as usize > JOURNAL_END {
                if let Err(error) = log.journal_begins() {
                    return log.core.fail(&error, full_or(&error, abi::IOERR_WRITE));
                }
            }
            if let Err(error) = log.begin() {
                return log.core.fail(&error, full_or(&error, abi::IOERR_WRITE));
            }
            log.note_commit(data, amount);
            if let Some(error) = (offset == 0).then(|| log.hand_over().err()).flatten() {
                return log.core.fail(&error, abi::IOERR_WRITE);
            }
            match log.names_others(data, amount, offset) {
                Ok(false) => {}
                // Without these bytes the name before them is none, and the journal one of its own.
                Ok(true) => return log.write_base(&[0; JOURNAL_MAGIC.len()], offset),
                Err(error) => return log.core.fail(&error, abi::IOERR_WRITE),
            }
            if let (Some((len, offset)), true) = (range(amount, offset), log.core.settings.log_timer.is_some()) {
                log.unsynced.add(offset, len as u64);
            }
            CONTINUE
        };
    log_truncate = xTruncate(len: i64), else abi::IOERR_TRUNCATE, first |log, len| {
        if let Err(error) = log.hand_over() {
            return log.core.fail(&error, abi::IOERR_TRUNCATE);
        }
        log.unsynced.truncate(u64::try_from(len).unwrap_or(0));
        CONTINUE
    };
    log_sync = xSync(flags: c_int), else abi::IOERR_FSYNC, first |log, _| {
        let Some(timer) = &log.core.settings.log_timer else { return CONTINUE };
        match timer.sync(&log.path, &log.unsynced.take()) {
            Ok(RealSync::Keep) => CONTINUE,
            Ok(RealSync::Skip) => abi::OK,
            Err(source) => {
                log.core.fail(&Error::device("sync the log", log.path.display(), source), abi::IOERR_FSYNC)
            }
        }
    };
    log_file_size = xFileSize(out: *mut i64), else abi::IOERR_FSTAT, first |_, _| CONTINUE;
    log_lock = xLock(level: c_int), else abi::OK, first |_, _| CONTINUE;
    log_unlock = xUnlock(level: c_int), else abi::OK, first |_, _| CONTINUE;
    log_check_reserved_lock = xCheckReservedLock(out: *mut c_int), else abi::IOERR, first |_, _| CONTINUE;
    log_file_control = xFileControl(operation: c_int, arg: *mut c_void), else abi::NOTFOUND,
        first |_, _, _| CONTINUE;
    log_sector_size = xSectorSize(), else 4096, first |_| CONTINUE;
    log_device_characteristics = xDeviceCharacteristics(), else 0, first |_| CONTINUE;
}
