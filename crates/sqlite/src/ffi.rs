//! Everything unsafe: SQLite's callbacks, its function table, the memory of a WAL-index, and two system calls.
//!
//! What SQLite promises, and all SAFETY comments below lean on ("the contract"):
//! 1. A VFS, once registered, is not used after `sqlite3_vfs_unregister`; we free none even then.
//! 2. `xOpen` gets `szOsFile` bytes of suitably aligned memory. They stay in place, and belong to us, until `xClose` returns.
//! 3. The methods of one file are not called concurrently, nor after its `xClose`.
//! 4. Pointers to buffers and results are valid for the call and for the stated length; names end with a zero.
//!
//! No panic crosses into C: each callback catches it and reports an I/O error.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::{File as OsFile, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use crate::abi::{self, File, IoMethods, Symbol, Vfs, routine};
use crate::database::{Connection, Fill};
use crate::error::{Error, ErrorKind};
use crate::lock::{Busy, Level};
use crate::logs;
use crate::mount::{self, Wish};
use crate::params::Params;
use crate::pragma::{self, Answer};
use crate::timing::{RealSync, Unsynced};
use crate::vfs::Settings;

/// The functions of SQLite that we call, from the SQLite that is linked or from the one that loads the extension.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    vfs_unregister: unsafe extern "C" fn(*mut Vfs) -> c_int,
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    libversion_number: unsafe extern "C" fn() -> c_int,
}

impl Api {
    /// The SQLite that rusqlite links.
    #[cfg(feature = "rusqlite")]
    pub(crate) fn linked() -> Self {
        use rusqlite::ffi;
        Self {
            vfs_find: linked::vfs_find,
            vfs_register: linked::vfs_register,
            vfs_unregister: linked::vfs_unregister,
            uri_parameter: ffi::sqlite3_uri_parameter,
            malloc: ffi::sqlite3_malloc,
            log: ffi::sqlite3_log,
            libversion_number: ffi::sqlite3_libversion_number,
        }
    }

    /// The SQLite that loads an extension. `None` if a function is missing.
    ///
    /// # Safety
    /// `routines` is the `sqlite3_api_routines` that SQLite handed to the extension's entry point.
    unsafe fn of_loader(routines: *const Symbol) -> Option<Self> {
        // SAFETY (of all): each place of the table has the signature of the field (`sqlite3ext.h`).
        Some(Self {
            // SAFETY: see above.
            vfs_find: unsafe { entry(routines, routine::VFS_FIND) }?,
            // SAFETY: see above.
            vfs_register: unsafe { entry(routines, routine::VFS_REGISTER) }?,
            // SAFETY: see above.
            vfs_unregister: unsafe { entry(routines, routine::VFS_UNREGISTER) }?,
            // SAFETY: see above.
            uri_parameter: unsafe { entry(routines, routine::URI_PARAMETER) }?,
            // SAFETY: see above.
            malloc: unsafe { entry(routines, routine::MALLOC) }?,
            // SAFETY: see above.
            log: unsafe { entry(routines, routine::LOG) }?,
            // SAFETY: see above.
            libversion_number: unsafe { entry(routines, routine::LIBVERSION_NUMBER) }?,
        })
    }

    /// Writes to SQLite's error log.
    fn log(&self, code: c_int, message: &str) {
        let text = c_string(message);
        // SAFETY: the format takes one string, which lives for the call.
        unsafe { (self.log)(code, c"%s".as_ptr(), text.as_ptr()) }
    }

    /// A copy of `text` in memory that SQLite will free; null if there is none left.
    fn text(&self, text: &str) -> *mut c_char {
        let text = c_string(text);
        let bytes = text.as_bytes_with_nul();
        let Ok(len) = c_int::try_from(bytes.len()) else { return ptr::null_mut() };
        // SAFETY: any length may be asked for.
        let memory = unsafe { (self.malloc)(len) }.cast::<c_char>();
        if !memory.is_null() {
            // SAFETY: `memory` has `len` bytes and is new, so it does not overlap.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), memory, bytes.len()) };
        }
        memory
    }
}

/// One function of SQLite's table.
///
/// # Safety
/// As for [`Api::of_loader`]; `F` is the function pointer type of that place, and `index` one of [`routine`].
unsafe fn entry<F: Copy>(routines: *const Symbol, index: usize) -> Option<F> {
    const { assert!(size_of::<Option<F>>() == size_of::<Symbol>(), "a function pointer") };
    // SAFETY: the table only grows; that of SQLite 3.11 is longer than any number in `routine`.
    let place = unsafe { routines.add(index) };
    // SAFETY: a pointer to some function or null, of which the caller knows the type.
    unsafe { place.cast::<Option<F>>().read() }
}

/// Functions of the linked SQLite with our name for the structure that they take; its layout is checked by a test.
#[cfg(feature = "rusqlite")]
mod linked {
    use super::{Vfs, c_char, c_int};
    use rusqlite::ffi;

    pub(super) unsafe extern "C" fn vfs_find(name: *const c_char) -> *mut Vfs {
        // SAFETY: passed on.
        unsafe { ffi::sqlite3_vfs_find(name) }.cast()
    }

    pub(super) unsafe extern "C" fn vfs_register(vfs: *mut Vfs, default: c_int) -> c_int {
        // SAFETY: passed on.
        unsafe { ffi::sqlite3_vfs_register(vfs.cast(), default) }
    }

    pub(super) unsafe extern "C" fn vfs_unregister(vfs: *mut Vfs) -> c_int {
        // SAFETY: passed on.
        unsafe { ffi::sqlite3_vfs_unregister(vfs.cast()) }
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

// ---------------------------------------------------------------------------------------------------------------------------
// Registration

/// What `pAppData` points to. It lives as long as the process.
struct Core {
    api: Api,
    /// SQLite's own VFS, which does everything that the tier does not.
    base: *mut Vfs,
    settings: Settings,
}

/// A VFS that SQLite knows.
#[derive(Clone, Copy)]
pub(crate) struct Registered {
    vfs: *mut Vfs,
    unregister: unsafe extern "C" fn(*mut Vfs) -> c_int,
}

// SAFETY: the pointer is only handed back to SQLite, whose list of VFSs has a lock of its own.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

impl Registered {
    /// Takes the VFS out of SQLite's list. Its memory stays, since a connection that is being opened may still hold it.
    pub(crate) fn unregister(self) {
        // SAFETY: the VFS was registered with the same SQLite, and is never freed.
        unsafe { (self.unregister)(self.vfs) };
    }
}

/// Makes a VFS of `settings` known to SQLite.
pub(crate) fn register(api: Api, settings: Settings) -> Result<Registered, Error> {
    let failed = |reason: &str| Error::new(ErrorKind::Register, "register the VFS", &settings.name, reason);
    // SAFETY: takes nothing.
    let version = unsafe { (api.libversion_number)() };
    if version < abi::OLDEST_VERSION {
        return Err(failed("this SQLite is too old: 3.11 or later is needed"));
    }
    let name = c_string(&settings.name);
    // SAFETY: null asks for the default VFS.
    let base = unsafe { (api.vfs_find)(ptr::null()) };
    // SAFETY: the name ends with a zero.
    let known = unsafe { (api.vfs_find)(name.as_ptr()) };
    if base.is_null() {
        return Err(failed("this SQLite has no default VFS to keep the log files with"));
    }
    if !known.is_null() {
        return Err(failed("there is a VFS of that name already"));
    }
    let default = c_int::from(settings.make_default);
    // SAFETY: a registered VFS is valid, and SQLite never frees or changes it but for `pNext`.
    let Vfs { szOsFile: base_size, mxPathname: base_path, .. } = *unsafe { &*base };
    let core = Box::new(Core { api, base, settings });
    let vfs = Box::into_raw(Box::new(Vfs {
        iVersion: 2,
        szOsFile: base_size.max(size_of::<Slot<()>>() as c_int),
        // The logs' real names are a little longer than those that SQLite makes.
        mxPathname: base_path - 8,
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: Box::into_raw(core).cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        xDlOpen: Some(dl_open),
        xDlError: Some(dl_error),
        xDlSym: Some(dl_sym),
        xDlClose: Some(dl_close),
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(get_last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }));
    // SAFETY: the structure is complete and stays for the life of the process.
    let result = unsafe { (api.vfs_register)(vfs, default) };
    if result != abi::OK {
        return Err(Error::new(
            ErrorKind::Register,
            "register the VFS",
            "with SQLite",
            format!("it answers {result}"),
        ));
    }
    Ok(Registered { vfs, unregister: api.vfs_unregister })
}

/// The body of a loadable extension's entry point: registers the VFS `mezzanine` with the SQLite that loads it, once a process.
///
/// # Safety
/// The arguments are those that SQLite calls the entry point with.
pub unsafe fn extension_init(message: *mut *mut c_char, routines: *const c_void) -> c_int {
    // SAFETY: the caller passes on SQLite's table.
    let Some(api) = (unsafe { Api::of_loader(routines.cast()) }) else { return abi::ERROR };
    let name = c_string(crate::vfs::DEFAULT_NAME);
    // SAFETY: the name ends with a zero.
    if !unsafe { (api.vfs_find)(name.as_ptr()) }.is_null() {
        return abi::OK_LOAD_PERMANENTLY;
    }
    match crate::vfs::MezzanineVfs::builder(crate::vfs::DEFAULT_NAME).complain().register_with(api) {
        // The VFS has pointers into this library: it must stay when the connection that loaded it goes.
        Ok(_) => abi::OK_LOAD_PERMANENTLY,
        Err(error) => {
            if !message.is_null() {
                // SAFETY: SQLite frees the text that it finds here.
                unsafe { message.write(api.text(&error.to_string())) };
            }
            abi::ERROR
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------------
// Failures

thread_local! {
    static LAST_ERROR: RefCell<Option<(String, c_int)>> = const { RefCell::new(None) };
}

/// The newest failure of a VFS of this crate in the calling thread, in words. SQLite itself has only numbers for them.
pub fn last_error() -> Option<String> {
    LAST_ERROR.with_borrow(|last| last.as_ref().map(|(message, _)| message.clone()))
}

impl Core {
    /// Tells SQLite's log and whoever asks for the last error; returns SQLite's number for it.
    fn fail(&self, error: &Error, otherwise: c_int) -> c_int {
        let (code, message) = (error.code(otherwise), error.to_string());
        self.api.log(code, &message);
        if self.settings.complain {
            eprintln!("mezzanine: {message}");
        }
        LAST_ERROR.set(Some((message, error.errno())));
        code
    }

    fn check(&self, result: Result<(), Error>, otherwise: c_int) -> c_int {
        result.map_or_else(|error| self.fail(&error, otherwise), |()| abi::OK)
    }
}

/// Runs a callback's body; a panic becomes `otherwise`.
fn guarded(otherwise: c_int, body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

// ---------------------------------------------------------------------------------------------------------------------------
// The methods of the VFS

/// # Safety
/// `vfs` is one that [`register`] made.
unsafe fn core<'a>(vfs: *mut Vfs) -> &'a Core {
    // SAFETY: by the caller.
    let data = unsafe { (*vfs).pAppData };
    // SAFETY: `register` put a `Core` there, which is never freed nor changed.
    unsafe { &*data.cast::<Core>() }
}

/// # Safety
/// `name` is null or ends with a zero, and outlives the result.
unsafe fn path<'a>(name: *const c_char) -> Option<&'a Path> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

/// The name of a log in the form that SQLite's own VFS wants: after the name comes an empty list of URI parameters.
fn log_name(place: &Path) -> CString {
    CString::new(place.as_os_str().as_bytes()).unwrap_or_default()
}

/// An open file of ours, in the memory that SQLite gives us.
#[repr(C)]
struct Slot<T> {
    head: File,
    /// Ours until `xClose`.
    state: *mut T,
}

struct OpenDatabase {
    core: &'static Core,
    connection: Option<Connection>,
}

unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls the VFS that we registered.
    let core = unsafe { core(vfs) };
    // SAFETY: contract 2; without methods SQLite will not call `xClose`.
    unsafe { (*file).pMethods = ptr::null() };
    guarded(abi::CANTOPEN, || {
        // SAFETY: contract 4.
        let path = unsafe { path(name) };
        match path {
            // SAFETY: the arguments are passed on.
            Some(path) if flags & abi::OPEN_MAIN_DB != 0 => unsafe {
                open_database(core, name, path, file, flags, out)
            },
            Some(path) if flags & (abi::OPEN_WAL | abi::OPEN_MAIN_JOURNAL) != 0 => {
                // SAFETY: the arguments are passed on.
                unsafe { open_log(core, path, file, flags, out) }
            }
            // SAFETY: contract 2 and 4; the memory is large enough for the base VFS, which takes the file over for good.
            _ => unsafe { base_open(core, name, file, flags, out) },
        }
    })
}

/// # Safety
/// As for `xOpen` of the base VFS.
unsafe fn base_open(
    core: &Core,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: the base VFS is never freed.
    let base_open = unsafe { (*core.base).xOpen };
    // SAFETY: by the caller.
    base_open.map_or(abi::CANTOPEN, |open| unsafe { open(core.base, name, file, flags, out) })
}

/// # Safety
/// As for `xOpen`; `path` is `name`.
unsafe fn open_database(
    core: &'static Core,
    name: *const c_char,
    path: &Path,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let parameter = |key: &str| {
        let key = c_string(key);
        // SAFETY: `name` is the one that SQLite gave to `xOpen` for a main database, as this function demands.
        let value = unsafe { (core.api.uri_parameter)(name, key.as_ptr()) };
        // SAFETY: null or a text that lives as long as `name`.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    };
    let wish = Wish {
        writable: flags & abi::OPEN_READWRITE != 0,
        create: flags & abi::OPEN_CREATE != 0,
        exclusive: flags & abi::OPEN_EXCLUSIVE != 0,
    };
    let powersafe =
        parameter("psow").is_none_or(|value| !matches!(value.as_str(), "0" | "no" | "off" | "false"));
    let opened = Params::read(parameter)
        .and_then(|params| mount::open(path, wish, core.settings.mount.as_ref(), &params));
    let database = match opened {
        Ok(database) => database,
        Err(error) => {
            let code = if error.kind() == ErrorKind::Busy { abi::BUSY } else { abi::CANTOPEN };
            return core.fail(&error, code);
        }
    };
    let read_only = !wish.writable || !database.writable();
    let state = OpenDatabase { core, connection: Some(Connection::new(database, powersafe)) };
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

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: SQLite calls the VFS that we registered.
    let core = unsafe { core(vfs) };
    guarded(abi::IOERR, || {
        // SAFETY: contract 4.
        let Some(path) = (unsafe { path(name) }) else { return abi::MISUSE };
        let place = log_name(&logs::place(path));
        // SAFETY: the base VFS is never freed.
        let delete = unsafe { (*core.base).xDelete };
        // SAFETY: the name ends with a zero.
        delete.map_or(abi::IOERR, |delete| unsafe { delete(core.base, place.as_ptr(), sync_directory) })
    })
}

unsafe extern "C" fn access(vfs: *mut Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    // SAFETY: SQLite calls the VFS that we registered.
    let core = unsafe { core(vfs) };
    guarded(abi::IOERR, || {
        // SAFETY: contract 4.
        let Some(path) = (unsafe { path(name) }) else { return abi::MISUSE };
        let place = log_name(&logs::place(path));
        // SAFETY: the base VFS is never freed.
        let access = unsafe { (*core.base).xAccess };
        // SAFETY: the name ends with a zero; `out` is passed on.
        access.map_or(abi::IOERR, |access| unsafe { access(core.base, place.as_ptr(), flags, out) })
    })
}

/// Callbacks that the base VFS answers as they are.
macro_rules! pass_on {
    ($($name:ident = $method:ident($($arg:ident: $type:ty),*) -> $result:ty, else $otherwise:expr;)*) => {$(
        unsafe extern "C" fn $name(vfs: *mut Vfs, $($arg: $type),*) -> $result {
            // SAFETY: SQLite calls the VFS that we registered.
            let core = unsafe { core(vfs) };
            // SAFETY: the base VFS is never freed.
            match unsafe { (*core.base).$method } {
                // SAFETY: the arguments are passed on.
                Some(method) => unsafe { method(core.base, $($arg),*) },
                None => $otherwise,
            }
        }
    )*};
}

pass_on! {
    full_pathname = xFullPathname(name: *const c_char, len: c_int, out: *mut c_char) -> c_int, else abi::CANTOPEN;
    dl_open = xDlOpen(name: *const c_char) -> *mut c_void, else ptr::null_mut();
    dl_error = xDlError(len: c_int, out: *mut c_char) -> (), else ();
    dl_sym = xDlSym(library: *mut c_void, name: *const c_char) -> Symbol, else None;
    dl_close = xDlClose(library: *mut c_void) -> (), else ();
    randomness = xRandomness(len: c_int, out: *mut c_char) -> c_int, else 0;
    sleep = xSleep(microseconds: c_int) -> c_int, else 0;
    current_time = xCurrentTime(out: *mut f64) -> c_int, else abi::ERROR;
    current_time_int64 = xCurrentTimeInt64(out: *mut i64) -> c_int, else abi::ERROR;
}

unsafe extern "C" fn get_last_error(_vfs: *mut Vfs, len: c_int, out: *mut c_char) -> c_int {
    let (message, errno) = LAST_ERROR.with_borrow(Clone::clone).unwrap_or_default();
    let room = usize::try_from(len).unwrap_or(0);
    if room > 0 && !out.is_null() {
        let bytes = &message.as_bytes()[..message.len().min(room - 1)];
        // SAFETY: contract 4: there is room for `len` bytes.
        let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), room) };
        out[..bytes.len()].copy_from_slice(bytes);
        out[bytes.len()] = 0;
    }
    errno
}

// ---------------------------------------------------------------------------------------------------------------------------
// The methods of a database file

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
    xFetch: None,
    xUnfetch: None,
};

/// What is behind an open database file.
///
/// # Safety
/// `file` has [`DATABASE_METHODS`] and is not closed; nobody else uses it while the result lives (contract 3).
unsafe fn opened<'a>(file: *mut File) -> &'a mut OpenDatabase {
    // SAFETY: by the caller.
    let slot = unsafe { &*file.cast::<Slot<OpenDatabase>>() };
    // SAFETY: `open_database` put it there and `db_close` alone takes it away.
    unsafe { &mut *slot.state }
}

impl OpenDatabase {
    /// Runs a method's body.
    fn on(&mut self, otherwise: c_int, body: impl FnOnce(&'static Core, &mut Connection) -> c_int) -> c_int {
        let core = self.core;
        guarded(otherwise, || {
            self.connection.as_mut().map_or(abi::MISUSE, |connection| body(core, connection))
        })
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
    let Some(wanted) = level(wanted) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |_, connection| granted(connection.lock(wanted)))
}

unsafe extern "C" fn db_unlock(file: *mut File, wanted: c_int) -> c_int {
    let Some(wanted) = level(wanted) else { return abi::MISUSE };
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |_, connection| {
        connection.unlock(wanted);
        abi::OK
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

fn level(number: c_int) -> Option<Level> {
    LEVELS.iter().find(|(known, level)| *known == number && *level != Level::Pending).map(|(_, level)| *level)
}

const LEVELS: [(c_int, Level); 5] = [
    (abi::LOCK_NONE, Level::None),
    (abi::LOCK_SHARED, Level::Shared),
    (abi::LOCK_RESERVED, Level::Reserved),
    (abi::LOCK_PENDING, Level::Pending),
    (abi::LOCK_EXCLUSIVE, Level::Exclusive),
];

unsafe extern "C" fn db_sector_size(file: *mut File) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(4096, |_, connection| connection.database().mount().page_size as c_int)
}

unsafe extern "C" fn db_device_characteristics(file: *mut File) -> c_int {
    // Of the other promises none holds for a volume in every state: ATOMIC ends when the tier is given up and pages go
    // straight to the disk; SAFE_APPEND and SEQUENTIAL would be read as promises about the journal, which is on the
    // base VFS.
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(0, |_, c| if c.is_powersafe() { abi::IOCAP_POWERSAFE_OVERWRITE } else { 0 })
}

unsafe extern "C" fn db_file_control(file: *mut File, operation: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |core, connection| {
        // SAFETY: `arg` is what the operation is documented to take: where this is read or written, a number.
        let number = |wanted: &dyn Fn(&mut c_int)| wanted(unsafe { &mut *arg.cast::<c_int>() });
        match operation {
            abi::FCNTL_LOCKSTATE => {
                let state = LEVELS
                    .iter()
                    .find(|(_, level)| *level == connection.level())
                    .map_or(0, |(number, _)| *number);
                number(&|out| *out = state);
            }
            abi::FCNTL_LAST_ERRNO => {
                number(&|out| *out = LAST_ERROR.with_borrow(|e| e.as_ref().map_or(0, |e| e.1)))
            }
            // A volume grows page by page; the hint needs no answer.
            abi::FCNTL_SIZE_HINT => {}
            abi::FCNTL_PERSIST_WAL => number(&|out| flag(out, &connection.persist_wal)),
            abi::FCNTL_POWERSAFE_OVERWRITE => number(&|out| flag(out, &connection.powersafe)),
            abi::FCNTL_HAS_MOVED => number(&|out| *out = c_int::from(!connection.database().path().exists())),
            abi::FCNTL_VFSNAME => {
                let name = core.api.text(&format!("{}/unix", core.settings.name));
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
    let (text, code) = match pragma::answer(name, connection, last_error()) {
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
        *out = memory.unwrap_or(ptr::null_mut()).cast();
        if memory.is_none() { abi::IOERR_NOMEM } else { abi::OK }
    })
}

unsafe extern "C" fn db_shm_lock(file: *mut File, first: c_int, count: c_int, flags: c_int) -> c_int {
    let Some((count, first)) = range(count, i64::from(first)) else { return abi::MISUSE };
    let (first, exclusive) = (first as usize, flags & abi::SHM_EXCLUSIVE != 0);
    // SAFETY: a method of this file.
    unsafe { opened(file) }.on(abi::IOERR, |_, connection| {
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
    unsafe { opened(file) }.on(abi::IOERR, |_, connection| {
        connection.leave_index();
        abi::OK
    })
}

/// The memory of a WAL-index: regions that stay where they are until the last connection leaves.
#[derive(Default)]
pub(crate) struct SharedMemory {
    regions: Vec<*mut u8>,
    region_bytes: usize,
}

// SAFETY: the regions are plain memory that is reached through `&mut self` here, and in SQLite through its own atomics and locks.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    fn layout(&self) -> Option<Layout> {
        Layout::from_size_align(self.region_bytes, 4096).ok().filter(|layout| layout.size() > 0)
    }

    /// Region number `index` of `bytes` bytes, zeros at first. Null if it does not exist and is not to be made; `None` if there is no
    /// memory, or the size is not that of the other regions.
    fn region(&mut self, index: usize, bytes: usize, make: bool) -> Option<*mut u8> {
        if self.regions.is_empty() {
            self.region_bytes = bytes;
        }
        let layout = self.layout().filter(|layout| layout.size() == bytes)?;
        while make && self.regions.len() <= index {
            // SAFETY: the layout has a size.
            let region = unsafe { alloc_zeroed(layout) };
            if region.is_null() {
                return None;
            }
            self.regions.push(region);
        }
        Some(self.regions.get(index).copied().unwrap_or(ptr::null_mut()))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if let Some(layout) = self.layout() {
            for region in self.regions.drain(..) {
                // SAFETY: it was allocated with this layout, and the last connection has left.
                unsafe { dealloc(region, layout) };
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------------
// Log files: files of the base VFS under another name, whose syncs may be timed

struct OpenLog {
    core: &'static Core,
    path: PathBuf,
    /// The base VFS keeps a pointer to the name.
    _name: CString,
    /// The base VFS's file; words, for its alignment.
    base: Box<[u64]>,
    unsynced: Unsynced,
}

static LOG_METHODS: IoMethods = IoMethods {
    iVersion: 1,
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
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// # Safety
/// As for `xOpen`.
unsafe fn open_log(
    core: &'static Core,
    path: &Path,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let place = logs::place(path);
    let name = log_name(&place);
    // SAFETY: the base VFS is never freed.
    let bytes = usize::try_from(unsafe { (*core.base).szOsFile }).unwrap_or(0);
    let mut base = vec![0_u64; bytes.div_ceil(8).max(1)].into_boxed_slice();
    let inner = base.as_mut_ptr().cast::<File>();
    // Without URI parameters there is nothing to look for behind the name.
    // SAFETY: `inner` has the size that the base VFS asks for, and with `name` stays until `log_close`.
    let code = unsafe { base_open(core, name.as_ptr(), inner, flags & !abi::OPEN_URI, out) };
    if code != abi::OK {
        // SAFETY: a file that could not be opened but has methods is to be closed.
        unsafe { close_base(inner) };
        return code;
    }
    let state = OpenLog { core, path: place, _name: name, base, unsynced: Unsynced::default() };
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
        first |log, _, amount, offset| {
            if let (Some((len, offset)), true) = (range(amount, offset), log.core.settings.log_timer.is_some()) {
                log.unsynced.add(offset, len as u64);
            }
            CONTINUE
        };
    log_truncate = xTruncate(len: i64), else abi::IOERR_TRUNCATE, first |log, len| {
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

// ---------------------------------------------------------------------------------------------------------------------------
// System calls

/// SQLite's own lock bytes of a database file: PENDING, RESERVED and 510 of SHARED from this offset on (`os.h`).
const LOCK_BYTES: (i64, i64) = (0x4000_0000, 512);

/// Keeps every other process away from a database file, as an exclusive locker of SQLite does: the lock bytes are locked by
/// an *open file description*, so the lock stays when other descriptors of the file are closed, and counts against SQLite's own VFS in this process, too.
pub(crate) struct ProcessLock {
    file: OsFile,
    writable: bool,
}

/// What became of an attempt to lock a database.
pub(crate) enum Acquired {
    Locked(ProcessLock),
    HeldElsewhere,
}

impl ProcessLock {
    /// Opens the database at `path`, which is made if `wish` says so, and locks it: for this process alone if it can be written, else together
    /// with other readers.
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
        let Err(error) = set_lock(&file, kind) else { return Ok(Acquired::Locked(Self { file, writable })) };
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
        // Closing alone would leave the lock to a child that was forked and has not yet replaced itself by another program.
        let _ = set_lock(&self.file, libc::F_UNLCK);
    }
}

fn set_lock(file: &OsFile, kind: c_int) -> io::Result<()> {
    let (start, len) = LOCK_BYTES;
    // For a lock of an open file description the process must be 0.
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open and the structure complete.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Exchanges two names of a directory in one step.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let one = CString::new(one.as_os_str().as_bytes())?;
    let other = CString::new(other.as_os_str().as_bytes())?;
    let (here, flag) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
    // SAFETY: both names end with a zero and live for the call.
    if unsafe { libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), flag) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
