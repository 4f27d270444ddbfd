//! A database is opened: on a tier, or as the base VFS would.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr;

use mezzanine_engine::planted::{self, Bug};
use mezzanine_volume::{PathSidecar, SyncMode};

use super::Slot;
use super::database::{METHODS, OpenDatabase};
use crate::abi::{self, File, IoMethods};
use crate::database::Connection;
use crate::error::{Error, ErrorKind};
use crate::ffi::{self, Core, base_open, c_string};
use crate::mount::{self, GUARD, Wish};
use crate::params::Params;
use crate::rules::Place;

/// # Safety
/// As for `xOpen`; `path` is `name`.
pub(in crate::ffi) unsafe fn open_database(
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
        (unsafe { ffi::path(value) }).map(|value| value.as_os_str().to_owned())
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
    let state = OpenDatabase::new(core, Connection::new(database, read_only, powersafe));
    if !out.is_null() {
        let access = if read_only { abi::OPEN_READONLY } else { abi::OPEN_READWRITE };
        let other = flags & !(abi::OPEN_READONLY | abi::OPEN_READWRITE);
        // SAFETY: contract 4.
        unsafe { out.write(other | access) };
    }
    let slot = Slot { head: File { pMethods: &METHODS }, state: Box::into_raw(Box::new(state)) };
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
        && !ffi::can_write(path)
        && !ffi::can_write(folder)
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
