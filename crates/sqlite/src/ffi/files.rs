//! Open files: databases, which go through a volume, and their logs, which the base VFS keeps.
//!
//! "Contract" means the list in the module above.

use std::cell::Cell;
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{PathSidecar, SyncMode};

use super::{Core, base_open, c_string, log_name, path};
use crate::abi::{self, File, IoMethods};
use crate::database::{Connection, Database, Fill, Refused};
use crate::error::{Error, ErrorKind};
use crate::lineage::Origin;
use crate::lock::{Busy, Level};
use crate::logs;
use crate::mount::{self, GUARD, Wish};
use crate::params::Params;
use crate::pragma::{self, Answer};
use crate::record;
use crate::report::{self, guarded, last_error};
use crate::rules::Place;
use crate::timing::{RealSync, Unsynced};

/// Bytes that SQLite writes over the head of a rollback journal that has ended and stays (`zeroJournalHdr` in
/// `pager.c`); the head of a new one is longer.
const JOURNAL_END: usize = 28;

/// Ends the name of a super-journal in a journal, and begins the headers of journals ("Database File Format",
/// section 3).
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// No path is longer.
const SUPER_NAME_MAX: i64 = libc::PATH_MAX as i64;

/// What SQLite has to reserve for a file of ours.
pub(super) const SLOT_BYTES: usize = size_of::<Slot<()>>();

/// An open file of ours, in the memory that SQLite gives us.
#[repr(C)]
struct Slot<T> {
    head: File,
    /// Ours until `xClose`.
    state: *mut T,
}

struct OpenDatabase {
    core: &'static Core,
    origin: Origin,
    connection: Option<Connection>,
}

/// # Safety
/// As for `xOpen`; `path` is `name`.
pub(super) unsafe fn open_database(
    core: &'static Core,
    name: *const c_char,
    path: &Path,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let parameter = |key: &str| {
        let key = c_string(key);
        // SAFETY: `name` is the one that SQLite gave to `xOpen` for a main database, as this function
        // demands.
        let value = unsafe { (core.api.uri_parameter)(name, key.as_ptr()) };
        // SAFETY: null or a text that lives as long as `name`.
        (unsafe { super::path(value) }).map(|value| value.as_os_str().to_owned())
    };
    let wish = Wish {
        writable: flags & abi::OPEN_READWRITE != 0,
        create: flags & abi::OPEN_CREATE != 0,
        exclusive: flags & abi::OPEN_EXCLUSIVE != 0,
    };
    let powersafe = parameter("psow").is_none_or(|value| boolean(&value.to_string_lossy(), true));
    // Of a URI that names this VFS a tier is expected, and is missed in words.
    let by_name = parameter("vfs").is_some_and(|vfs| vfs == *core.settings.name);
    let refused = |error: Error| {
        let code = if error.kind() == ErrorKind::Busy { abi::BUSY } else { abi::CANTOPEN };
        core.fail(&error, code)
    };
    let open_plain = || {
        // SAFETY: contract 2 and 4; the memory is large enough for the base VFS, which takes the file over
        // for good.
        let opened = unsafe { base_open(core, name, file, flags, out) };
        // SAFETY: as said.
        unsafe { refuse_guarded(core, path, file, opened) }
    };
    let settings = &core.settings;
    let given = match Params::read(parameter) {
        Ok(given) => given,
        Err(error) => return refused(error),
    };
    let database = loop {
        // One that is open is on its tier, whatever the name says of it.
        let joins = mount::is_open(path) || settings.mount.is_some();
        let placed = match (joins, &settings.rules) {
            (true, _) => Ok(Place::Tier(Box::new(given.clone()))),
            (false, Ok(rules)) => Ok(rules.place(path, given.clone())),
            (false, Err(_)) if given.flash.is_some() => Ok(Place::Tier(Box::new(given.clone()))),
            (false, Err(error)) => Err(error),
        };
        let params = match placed {
            Ok(Place::Tier(params)) if !joins && is_for_others(path, &params) => {
                let shown = path.display();
                core.api.log(abi::WARNING, &format!("{shown} is opened without a tier: this process can write neither it nor what stands beside it"));
                return open_plain();
            }
            Ok(Place::Tier(params)) => *params,
            Ok(Place::Plain) if by_name => Params::default(),
            Ok(Place::Plain) => return open_plain(),
            Err(error) => return core.fail(error, abi::CANTOPEN),
        };
        match mount::open(path, wish, settings.mount.as_ref(), &params) {
            Ok(database) => break database,
            // It was closed meanwhile, and has to be found by its name.
            Err(error) if error.kind() == ErrorKind::NoFlash && joins && !mount::is_open(path) => {}
            Err(error) => return refused(error),
        }
    };
    if let Some(warning) = database.mount().warning() {
        core.warn(&warning);
    }
    let read_only = !wish.writable || !database.writable();
    let connection = Some(Connection::new(database, read_only, powersafe));
    let state = OpenDatabase { core, origin: Origin::here(), connection };
    if !out.is_null() {
        let access = if read_only { abi::OPEN_READONLY } else { abi::OPEN_READWRITE };
        let other = flags & !(abi::OPEN_READONLY | abi::OPEN_READWRITE);
        // SAFETY: contract 4.
        unsafe { out.write(other | access) };
    }
    let slot = Slot { head: File { pMethods: &DATABASE_METHODS }, state: Box::into_raw(Box::new(state)) };
    // SAFETY: contract 2, and `szOsFile` is at least the size of a slot.
    unsafe { file.cast::<Slot<OpenDatabase>>().write(slot) };
    abi::OK
}

/// What the VFS below says of opening a database of which nothing says that it is on a tier. If it is on one
/// all the same, it is refused before SQLite plays its log back into the pages that are on disk, and removes
/// it.
///
/// # Safety
/// The file is in the memory that SQLite gave to `xOpen`, and open if that is what was said.
unsafe fn refuse_guarded(core: &Core, path: &Path, file: *mut File, opened: c_int) -> c_int {
    // SAFETY: by the caller.
    let Some(head) = (unsafe { file.as_mut() }).filter(|_| opened == abi::OK) else { return opened };
    // SAFETY: the methods of an open file live as long as its VFS.
    let Some(methods) = (unsafe { head.pMethods.as_ref() }) else { return opened };
    // SAFETY: as above.
    if !unsafe { begins_with_guard(file, methods) } || planted::is(Bug::GuardedOpenedPlain) {
        return opened;
    }
    // SAFETY: as above, and it is not used after this: without methods it is closed for SQLite.
    methods.xClose.map(|close| unsafe { close(file) });
    head.pMethods = ptr::null();
    let reason = "its newest pages are in a flash tier, and no sidecar beside it says in which: it is missing, \
                  or cannot be read";
    let error = Error::new(ErrorKind::NoFlash, "open", path.display(), reason);
    core.fail(&error.advise("put its sidecar (.mezzanine) back; an opening that names the tier with flash=PATH says what is wrong with the one that is there"), abi::CANTOPEN)
}

/// Whether a file begins with the guard. It is read by its own descriptor: to close another one would give
/// back the locks of this process.
///
/// # Safety
/// The file is open, and these are its methods.
unsafe fn begins_with_guard(file: *mut File, methods: &IoMethods) -> bool {
    let mut head = [0_u8; GUARD.len()];
    // SAFETY: by the caller; `head` has room for as many bytes.
    let read =
        methods.xRead.map(|read| unsafe { read(file, head.as_mut_ptr().cast(), head.len() as c_int, 0) });
    read == Some(abi::OK) && head == *GUARD
}

/// Whether a database that is on no tier is one that this process may read alone, with no place for a
/// sidecar. A tier that may come to hold only copies has no use for it.
fn is_for_others(path: &Path, params: &Params) -> bool {
    let folder = path.parent().unwrap_or(Path::new("/"));
    path.exists()
        && params.sync_mode != Some(SyncMode::Through)
        && !mount::is_open(path)
        && PathSidecar::beside(path).found().is_none()
        && !super::can_write(path)
        && !super::can_write(folder)
}

static DATABASE_METHODS: IoMethods = IoMethods {
    iVersion: 2,
    xClose: Some(db_close),
    xRead: Some(db_read),
    xWrite: Some(db_write),
    xTruncate: Some(db_truncate),
    xSync: Some(db_sync),
    xFileSize: Some(db_file_size),
    xLock: Some(db_lock),
    xUnlock: Some(db_unlock),
    xCheckReservedLock: Some(db_check_reserved_lock),
    xFileControl: Some(db_file_control),
    xSectorSize: Some(db_sector_size),
    xDeviceCharacteristics: Some(db_device_characteristics),
    xShmMap: Some(db_shm_map),
    xShmLock: Some(db_shm_lock),
    xShmBarrier: Some(db_shm_barrier),
    xShmUnmap: Some(db_shm_unmap),
    ..IoMethods::NONE
};

/// What is behind an open database file.
///
/// # Safety
/// `file` has [`DATABASE_METHODS`] and is not closed; nobody else uses it while the result lives (contract
/// 3).
unsafe fn opened<'a>(file: *mut File) -> &'a mut OpenDatabase {
    // SAFETY: by the caller.
    let slot = unsafe { &*file.cast::<Slot<OpenDatabase>>() };
    // SAFETY: `open_database` put it there and `db_close` alone takes it away.
    unsafe { &mut *slot.state }
}

impl OpenDatabase {
    /// Runs a method's body. In a forked child the connection is its parent's.
    fn on(&mut self, otherwise: c_int, body: impl FnOnce(&'static Core, &mut Connection) -> c_int) -> c_int {
        let core = self.core;
        guarded(otherwise, || match &mut self.connection {
            Some(connection) if self.origin.is_here() => body(core, connection),
            Some(connection) => {
                core.fail(&self.origin.refuse("use", connection.database().path().display()), otherwise)
            }
            None => abi::MISUSE,
        })
    }

    /// As [`Self::on`], for what takes nothing that a child could have: there is nothing to be given back.
    fn give_back(&mut self, body: impl FnOnce(&mut Connection) -> Result<(), Error>) -> c_int {
        if !self.origin.is_here() {
            return abi::OK;
        }
        self.on(abi::IOERR, |core, connection| core.check(body(connection), abi::IOERR))
    }
}

unsafe extern "C" fn db_close(file: *mut File) -> c_int {
    // SAFETY: a method of this file.
    let state: *mut OpenDatabase = unsafe { opened(file) };
    // SAFETY: contract 2: the slot is still ours.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: contract 3: this was the last call for this file, so the state is ours alone.
    let mut state = unsafe { Box::from_raw(state) };
    let core = state.core;
    if !state.origin.is_here() {
        // It stays in the memory of the child: its end would be that of the parent's.
        std::mem::forget(state);
        return abi::OK;
    }
    guarded(abi::IOERR, || core.check(state.connection.take().map_or(Ok(()), Connection::close), abi::IOERR))
}

/// A range of a file that fits the types that we read and write with.
fn range(amount: c_int, offset: i64) -> Option<(usize, u64)> {
    Some((usize::try_from(amount).ok()?, u64::try_from(offset).ok()?))
}

unsafe extern "C" fn db_read(file: *mut File, out: *mut c_void, amount: c_int, offset: i64) -> c_int {
    let Some((amount, offset)) = range(amount, offset) else { return abi::MISUSE };
    // SAFETY: contract 4; SQLite's page buffers are memory that it has initialised.
    let buf = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), amount) };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_READ, |core, connection| match connection.read(buf, offset) {
        Ok(Fill::Whole) => abi::OK,
        Ok(Fill::Short) => abi::IOERR_SHORT_READ,
        Err(error) => core.fail(&error, abi::IOERR_READ),
    })
}

unsafe extern "C" fn db_write(file: *mut File, data: *const c_void, amount: c_int, offset: i64) -> c_int {
    let Some((amount, offset)) = range(amount, offset) else { return abi::MISUSE };
    // SAFETY: contract 4.
    let buf = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), amount) };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_WRITE, |core, connection| {
        let result = core.check(connection.write(buf, offset), abi::IOERR_WRITE);
        if offset == 0 {
            if let Some(warning) = connection.page_size_warning() {
                core.api.log(abi::WARNING, &warning);
            }
        }
        result
    })
}

unsafe extern "C" fn db_truncate(file: *mut File, len: i64) -> c_int {
    let Ok(len) = u64::try_from(len) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }
        .on(abi::IOERR_TRUNCATE, |core, c| core.check(c.truncate(len), abi::IOERR_TRUNCATE))
}

unsafe extern "C" fn db_sync(file: *mut File, _flags: c_int) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_FSYNC, |core, c| core.check(c.sync(), abi::IOERR_FSYNC))
}

unsafe extern "C" fn db_file_size(file: *mut File, out: *mut i64) -> c_int {
    // SAFETY: contract 4.
    let out = unsafe { &mut *out };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_FSTAT, |_, connection| match i64::try_from(connection.len()) {
        Ok(len) => {
            *out = len;
            abi::OK
        }
        Err(_) => abi::IOERR_FSTAT,
    })
}

unsafe extern "C" fn db_lock(file: *mut File, wanted: c_int) -> c_int {
    let Some(wanted) = Level::asked_for(wanted) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_LOCK, |core, connection| match connection.lock(wanted) {
        Ok(()) => abi::OK,
        Err(Refused::Busy) => abi::BUSY,
        // As the kernel answers one that asks for a lock to write through a descriptor that only reads.
        Err(Refused::ReadOnly) => abi::IOERR_LOCK,
        Err(Refused::WrittenOver) => {
            core.fail(&mount::written_over(connection.database().path()), abi::IOERR_LOCK)
        }
    })
}

unsafe extern "C" fn db_unlock(file: *mut File, wanted: c_int) -> c_int {
    let Some(wanted) = Level::asked_for(wanted) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.give_back(|connection| {
        let handed =
            if connection.level() == Level::Exclusive { connection.database().hand_over() } else { Ok(()) };
        connection.unlock(wanted);
        handed
    })
}

unsafe extern "C" fn db_check_reserved_lock(file: *mut File, out: *mut c_int) -> c_int {
    // SAFETY: contract 4.
    let out = unsafe { &mut *out };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |_, connection| {
        *out = c_int::from(connection.is_reserved());
        abi::OK
    })
}

fn granted(result: Result<(), Busy>) -> c_int {
    if result == Err(Busy) { abi::BUSY } else { abi::OK }
}

unsafe extern "C" fn db_sector_size(file: *mut File) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(4096, |_, connection| connection.database().mount().page_size as c_int)
}

unsafe extern "C" fn db_device_characteristics(file: *mut File) -> c_int {
    // Of the other promises none holds for a volume in every state: ATOMIC ends when the tier is given up and
    // pages go straight to the disk; SAFE_APPEND and SEQUENTIAL would be read as promises about the
    // journal, which is on the base VFS.
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(0, |_, c| if c.is_powersafe() { abi::IOCAP_POWERSAFE_OVERWRITE } else { 0 })
}

unsafe extern "C" fn db_file_control(file: *mut File, operation: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |core, connection| {
        // SAFETY: `arg` is what the operation is documented to take: where this is read or written, a number.
        let number = |wanted: &dyn Fn(&mut c_int)| wanted(unsafe { &mut *arg.cast::<c_int>() });
        match operation {
            abi::FCNTL_LOCKSTATE => number(&|out| *out = connection.level() as c_int),
            abi::FCNTL_LAST_ERRNO => number(&|out| *out = report::last_errno()),
            // A volume grows page by page: neither needs more of an answer.
            abi::FCNTL_SIZE_HINT | abi::FCNTL_CHUNK_SIZE => {}
            abi::FCNTL_PERSIST_WAL => number(&|out| flag(out, &connection.persist_wal)),
            abi::FCNTL_POWERSAFE_OVERWRITE => number(&|out| flag(out, &connection.powersafe)),
            // A transaction of several databases is about to be committed by the removal of its super-journal
            // (named here), which may be done by another VFS.
            abi::FCNTL_SYNC if !arg.is_null() && !planted::is(Bug::SuperJournalUnseen) => {
                return core.check(connection.database().hand_over(), abi::IOERR);
            }
            // With neither a journal file nor locks that fall, this is where a commit is done.
            abi::FCNTL_COMMIT_PHASETWO => return core.check(connection.database().hand_over(), abi::IOERR),
            // Other processes are kept out.
            abi::FCNTL_EXTERNAL_READER => number(&|out| *out = 0),
            abi::FCNTL_HAS_MOVED => number(&|out| *out = c_int::from(connection.database().has_moved())),
            abi::FCNTL_VFSNAME => {
                let name = core.api.text(&format!("{}/unix", core.settings.name));
                // SAFETY: this operation takes a pointer to a text, which SQLite frees.
                unsafe { arg.cast::<*mut c_char>().write(name) };
            }
            abi::FCNTL_TEMPFILENAME => {
                let name = core.api.text(&temporary_name());
                // SAFETY: this operation takes a pointer to a text, which SQLite frees.
                unsafe { arg.cast::<*mut c_char>().write(name) };
            }
            // SAFETY: this operation takes an array of four texts.
            abi::FCNTL_PRAGMA => return unsafe { pragma(core, connection, arg.cast()) },
            _ => return abi::NOTFOUND,
        }
        abi::OK
    })
}

/// What a parameter of a URI says, as SQLite reads it (`sqlite3_uri_boolean`): a number, or a word in any
/// case; what is neither says nothing.
fn boolean(text: &str, otherwise: bool) -> bool {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match () {
        () if digits > 0 => text[..digits].bytes().any(|digit| digit != b'0'),
        () if is(&["on", "yes", "true"]) => true,
        () if is(&["off", "no", "false"]) => false,
        () => otherwise,
    }
}

/// A name for a temporary file, where SQLite's own VFS would make it: in the first of these folders that can
/// be written.
fn temporary_name() -> String {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let usual = ["/var/tmp", "/usr/tmp", "/tmp", "."].into_iter().map(PathBuf::from);
    let folder = named.chain(usual).find(|folder| folder.is_dir() && super::can_write(folder));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("etilqs_{:x}_{:x}", std::process::id(), since.as_nanos());
    folder.unwrap_or_else(|| PathBuf::from(".")).join(name).display().to_string()
}

/// Answers a negative number with the flag; any other number sets it.
fn flag(number: &mut c_int, value: &Cell<bool>) {
    if *number < 0 {
        *number = c_int::from(value.get());
    } else {
        value.set(*number != 0);
    }
}

/// # Safety
/// `args` is the array of `SQLITE_FCNTL_PRAGMA`: result, name, argument or null.
unsafe fn pragma(core: &Core, connection: &Connection, args: *mut [*mut c_char; 4]) -> c_int {
    // SAFETY: by the caller.
    let args = unsafe { &mut *args };
    // SAFETY: the name of a pragma ends with a zero.
    let Some(name) = (unsafe { path(args[1]) }).and_then(Path::to_str) else { return abi::NOTFOUND };
    // SAFETY: the argument is null or ends with a zero.
    let argument = unsafe { path(args[2]) }.map(Path::to_string_lossy);
    let (text, code) = match pragma::answer(name, argument.as_deref(), connection, last_error()) {
        Answer::NotOurs => return abi::NOTFOUND,
        Answer::Text(text) => (text, abi::OK),
        Answer::Failed(error) => (error.to_string(), core.fail(&error, abi::ERROR)),
    };
    args[0] = core.api.text(&text);
    code
}

unsafe extern "C" fn db_shm_map(
    file: *mut File,
    region: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let Some((size, region)) = range(size, i64::from(region)) else { return abi::MISUSE };
    // SAFETY: contract 4.
    let out = unsafe { &mut *out };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR_SHMMAP, |_, connection| {
        let memory =
            connection.with_index(|index, _| index.memory.region(region as usize, size, extend != 0));
        *out = memory.unwrap_or(ptr::null_mut());
        if memory.is_none() { abi::IOERR_NOMEM } else { abi::OK }
    })
}

unsafe extern "C" fn db_shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    let Some((count, first)) = range(count, i64::from(first)) else { return abi::MISUSE };
    let (first, exclusive) = (first as usize, flags & abi::SHM_EXCLUSIVE != 0);
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |core, connection| {
        // A checkpoint is about to say how far the log is not needed any more. If that fails, the log itself
        // is kept (`log_write`, `log_truncate`), and the lock falls all the same.
        if flags & abi::SHM_UNLOCK != 0 && exclusive {
            if let Err(error) = connection.database().hand_over() {
                core.fail(&error, abi::IOERR);
            }
        }
        connection.with_index(|index, held| {
            if flags & abi::SHM_UNLOCK != 0 {
                index.unlock(held, first, count);
                return abi::OK;
            }
            granted(index.lock(held, first, count, exclusive))
        })
    })
}

unsafe extern "C" fn db_shm_barrier(_file: *mut File) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn db_shm_unmap(file: *mut File, _delete: c_int) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.give_back(|connection| {
        connection.leave_index();
        Ok(())
    })
}

// ----------------------------------------------------------------------------------------------------
// Log files: files of the base VFS under another name, whose syncs may be timed

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

static LOG_METHODS: IoMethods = IoMethods {
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
pub(super) unsafe fn open_log(
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
    let slot = Slot { head: File { pMethods: &LOG_METHODS }, state: Box::into_raw(Box::new(state)) };
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
/// `file` has [`LOG_METHODS`] and is not closed; nobody else uses it while the result lives (contract 3).
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
