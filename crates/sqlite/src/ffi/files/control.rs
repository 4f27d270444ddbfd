//! What SQLite asks of an open database besides its bytes, and pragmas.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mezzanine_engine::planted::{self, Bug};

use super::database::opened;
use crate::abi::{self, File};
use crate::database::Connection;
use crate::ffi::{Core, can_write, path};
use crate::pragma::{self, Answer};
use crate::report::{self, last_error};

pub(super) unsafe extern "C" fn db_file_control(
    file: *mut File,
    operation: c_int,
    arg: *mut c_void,
) -> c_int {
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

/// A name for a temporary file, where SQLite's own VFS would make it: in the first of these folders that can
/// be written.
fn temporary_name() -> String {
    let named = ["SQLITE_TMPDIR", "TMPDIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let usual = ["/var/tmp", "/usr/tmp", "/tmp", "."].into_iter().map(PathBuf::from);
    let folder = named.chain(usual).find(|folder| folder.is_dir() && can_write(folder));
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
