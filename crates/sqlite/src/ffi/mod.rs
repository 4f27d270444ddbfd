//! Everything unsafe: SQLite's callbacks, its function table, and two system calls.
//!
//! What SQLite promises, and all SAFETY comments below lean on ("the contract"):
//! 1. A VFS, once registered, is not used after `sqlite3_vfs_unregister`; we free none even then.
//! 2. `xOpen` gets `szOsFile` bytes of suitably aligned memory. They stay in place, and belong to us, until
//!    `xClose` returns.
//! 3. The methods of one file are not called concurrently, nor after its `xClose`.
//! 4. Pointers to buffers and results are valid for the call and for the stated length; names end with a
//!    zero.
//!
//! No panic crosses into C: each callback catches it and reports an I/O error.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::File as OsFile;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

use crate::abi::{self, File, Symbol, Vfs, routine};
use crate::error::{Error, ErrorKind};
use crate::logs;
use crate::mount::{database_of_log, hand_over_before_removal, place_of_log, refuse_inherited_log};
use crate::report::{self, guarded, last_error};
use crate::vfs::Settings;

mod files;

use files::{SLOT_BYTES, open_database, open_log};

/// The functions of SQLite that we call, from the SQLite that is linked or from the one that loads the
/// extension.
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
    // SAFETY: the table only grows; that of SQLite 3.31 is longer than any number in `routine`.
    let place = unsafe { routines.add(index) };
    // SAFETY: a pointer to some function or null, of which the caller knows the type.
    unsafe { place.cast::<Option<F>>().read() }
}

/// Functions of the linked SQLite with our name for the structure that they take; its layout is checked by a
/// test.
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

// ----------------------------------------------------------------------------------------------------
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
    /// Takes the VFS out of SQLite's list. Its memory stays, since a connection that is being opened may
    /// still hold it.
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
        return Err(failed("this SQLite is too old: 3.31 or later is needed"));
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
    let Vfs { iVersion: base_version, szOsFile: base_size, mxPathname: base_path, .. } = *unsafe { &*base };
    let core = Box::new(Core { api, base, settings });
    let vfs = Box::into_raw(Box::new(Vfs {
        iVersion: base_version.min(3),
        szOsFile: base_size.max(SLOT_BYTES as c_int),
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
        xSetSystemCall: Some(set_system_call),
        xGetSystemCall: Some(get_system_call),
        xNextSystemCall: Some(next_system_call),
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

/// The body of a loadable extension's entry point: registers the VFS `mezzanine` with the SQLite that loads
/// it, once a process.
///
/// # Safety
/// The arguments are those that SQLite calls the entry point with.
pub unsafe fn extension_init(message: *mut *mut c_char, routines: *const c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { init(message, routines, false) }
}

/// As [`extension_init`], for an entry point that makes the VFS the one of every connection that names none.
///
/// # Safety
/// As of [`extension_init`].
pub unsafe fn extension_init_default(message: *mut *mut c_char, routines: *const c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { init(message, routines, true) }
}

/// # Safety
/// As of [`extension_init`].
unsafe fn init(message: *mut *mut c_char, routines: *const c_void, default: bool) -> c_int {
    // SAFETY: the caller passes on SQLite's table.
    let Some(api) = (unsafe { Api::of_loader(routines.cast()) }) else { return abi::ERROR };
    let name = c_string(crate::vfs::DEFAULT_NAME);
    // SAFETY: the name ends with a zero.
    let known = unsafe { (api.vfs_find)(name.as_ptr()) };
    let complain = |error: &Error| {
        if !message.is_null() {
            // SAFETY: SQLite frees the text that it finds here.
            unsafe { message.write(api.text(&error.to_string())) };
        }
        abi::ERROR
    };
    if !known.is_null() {
        // SAFETY: it is registered, and stays.
        if let Some(error) = unsafe { rules_error(known) }.filter(|_| default) {
            // Every connection would fail by it that names no VFS.
            return complain(error);
        }
        // SAFETY: it is registered, and stays; once more, it comes first in SQLite's list.
        let first = if default { unsafe { (api.vfs_register)(known, 1) } } else { abi::OK };
        return if first == abi::OK { abi::OK_LOAD_PERMANENTLY } else { first };
    }
    let builder = crate::vfs::MezzanineVfs::builder(crate::vfs::DEFAULT_NAME).complain();
    let builder = if default { builder.make_default() } else { builder };
    match builder.register_with(api) {
        // The VFS has pointers into this library: it must stay when the connection that loaded it goes.
        Ok(_) => abi::OK_LOAD_PERMANENTLY,
        Err(error) => complain(&error),
    }
}

/// What is wrong with the rules of a VFS that is registered, if it is one of this library.
///
/// # Safety
/// It stays registered.
unsafe fn rules_error<'a>(vfs: *mut Vfs) -> Option<&'a Error> {
    let ours = open as *const () as usize;
    // SAFETY: a registered VFS is valid.
    if unsafe { (*vfs).xOpen }.is_none_or(|opens| opens as usize != ours) {
        return None;
    }
    // SAFETY: what opens files by our function was made by `register`.
    unsafe { core(vfs) }.settings.rules.as_ref().err()
}

impl Core {
    /// Tells SQLite's log and whoever asks for the last error; returns SQLite's number for it.
    fn fail(&self, error: &Error, otherwise: c_int) -> c_int {
        let (code, message) = (error.code(otherwise), error.to_string());
        self.api.log(code, &message);
        self.complain(&message);
        report::remember(message, error.errno());
        code
    }

    /// For people: nothing has failed yet.
    fn warn(&self, message: &str) {
        self.api.log(abi::WARNING, message);
        self.complain(message);
    }

    /// To standard error, if that takes it: a program may have closed it, or have no room where it goes.
    fn complain(&self, message: &str) {
        if self.settings.complain {
            let _ = writeln!(io::stderr(), "mezzanine: {message}");
        }
    }

    fn check(&self, result: Result<(), Error>, otherwise: c_int) -> c_int {
        result.map_or_else(|error| self.fail(&error, otherwise), |()| abi::OK)
    }
}

// ----------------------------------------------------------------------------------------------------
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

/// The name of a log in the form that SQLite's own VFS wants: after the name comes an empty list of URI
/// parameters.
fn log_name(place: &Path) -> CString {
    CString::new(place.as_os_str().as_bytes()).unwrap_or_default()
}

const LOG_KINDS: c_int = abi::OPEN_WAL | abi::OPEN_MAIN_JOURNAL | abi::OPEN_SUPER_JOURNAL;

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
            // A journal that a super-journal names is opened as if it were one itself.
            // One of a database that is not on a tier is none of ours.
            Some(path) if flags & LOG_KINDS != 0 && is_ours(path) => {
                // SAFETY: the arguments are passed on.
                unsafe { open_log(core, path, file, flags, out) }
            }
            // SAFETY: contract 2 and 4; the memory is large enough for the base VFS, which takes the file
            // over for good.
            _ => unsafe { base_open(core, name, file, flags, out) },
        }
    })
}

/// Whether a log is that of a database on a tier, by the name that SQLite has for it.
fn is_ours(log: &Path) -> bool {
    database_of_log(log).is_some() || logs::place(log) != log
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
    let result = base_open.map_or(abi::CANTOPEN, |open| unsafe { open(core.base, name, file, flags, out) });
    if result != abi::OK {
        report::remember_other(io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    result
}

unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: SQLite calls the VFS that we registered.
    let core = unsafe { core(vfs) };
    guarded(abi::IOERR, || {
        // SAFETY: contract 4.
        let Some(path) = (unsafe { path(name) }) else { return abi::MISUSE };
        let place = log_name(&place_of_log(path));
        // What the log has is needed until the pages that were written are safe from a kill.
        if let Err(error) = refuse_inherited_log(path).and_then(|()| hand_over_before_removal(path)) {
            return core.fail(&error, abi::IOERR_DELETE);
        }
        if let Some(database) = database_of_log(path).filter(|database| database.are_logs_elsewhere()) {
            return core.check(database.remove_log(path, sync_directory != 0), abi::IOERR_DELETE);
        }
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
        let place = log_name(&place_of_log(path));
        // SAFETY: the base VFS is never freed.
        let access = unsafe { (*core.base).xAccess };
        // SAFETY: the name ends with a zero; `out` is passed on.
        let code =
            access.map_or(abi::IOERR, |access| unsafe { access(core.base, place.as_ptr(), flags, out) });
        // SAFETY: contract 4.
        let out = unsafe { &mut *out };
        // A log that is there by now may be one that another process needs, and would be played in here.
        if *out != 0 && database_of_log(path).is_some_and(|database| database.are_logs_elsewhere()) {
            *out = 0;
        }
        code
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
    set_system_call = xSetSystemCall(name: *const c_char, call: Symbol) -> c_int, else abi::NOTFOUND;
    get_system_call = xGetSystemCall(name: *const c_char) -> Symbol, else None;
    next_system_call = xNextSystemCall(name: *const c_char) -> *const c_char, else ptr::null();
}

unsafe extern "C" fn get_last_error(_vfs: *mut Vfs, len: c_int, out: *mut c_char) -> c_int {
    let message = last_error().unwrap_or_default();
    let room = usize::try_from(len).unwrap_or(0);
    if room > 0 && !out.is_null() {
        let bytes = &message.as_bytes()[..message.len().min(room - 1)];
        // SAFETY: contract 4: there is room for `len` bytes.
        let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), room) };
        out[..bytes.len()].copy_from_slice(bytes);
        out[bytes.len()] = 0;
    }
    report::last_errno()
}

// ----------------------------------------------------------------------------------------------------
// System calls

/// Locks `len` bytes from `start` by the open file description of `file`, or gives them back, without
/// waiting.
pub(crate) fn set_lock(file: &OsFile, kind: c_int, (start, len): (i64, i64)) -> io::Result<()> {
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

/// Takes the lock that whoever uses a flash file has, without waiting. It goes with the descriptor.
pub(crate) fn lock_file(file: &OsFile) -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Whether this process may write the file at `path`, without opening it.
pub(crate) fn can_write(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path ends with a zero.
    unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) == 0 }
}

/// Exchanges two names of a directory in one step.
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    rename(one, other, libc::RENAME_EXCHANGE)
}

/// Gives a file another name, which no other file has.
pub(crate) fn rename_to_new(file: &Path, name: &Path) -> io::Result<()> {
    match rename(file, name, libc::RENAME_NOREPLACE) {
        // Not every file system knows how.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            std::fs::hard_link(file, name)?;
            std::fs::remove_file(file)
        }
        renamed => renamed,
    }
}

fn rename(one: &Path, other: &Path, flag: libc::c_uint) -> io::Result<()> {
    let one = CString::new(one.as_os_str().as_bytes())?;
    let other = CString::new(other.as_os_str().as_bytes())?;
    let here = libc::AT_FDCWD;
    // SAFETY: both names end with a zero and live for the call.
    if unsafe { libc::renameat2(here, one.as_ptr(), here, other.as_ptr(), flag) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
