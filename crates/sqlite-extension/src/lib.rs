//! The SQLite VFS `mezzanine` as a loadable extension.
//!
//! ```text
//! sqlite> .load ./libmezzanine
//! sqlite> .open 'file:app.db?vfs=mezzanine&flash=/mnt/nvme/app.mezz&flash_size=1GiB'
//! ```
//! All of the VFS is in the crate `mezzanine-sqlite`; this one only has the entry points, by which SQLite
//! finds it in a shared library.

use std::ffi::{c_char, c_int, c_void};

/// The entry point for programs that name their databases without a URI: the VFS becomes the one of every
/// connection that names none.
///
/// ```text
/// sqlite> .load ./libmezzanine mezzanine_default
/// ```
///
/// # Safety
/// To be called by SQLite only, with its own arguments.
#[allow(unsafe_code, reason = "an exported symbol")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mezzanine_default(
    _connection: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments are passed on.
    unsafe { mezzanine_sqlite::extension_init_default(message, routines) }
}

/// The entry point that SQLite looks for first, whatever the library's name.
///
/// # Safety
/// To be called by SQLite only, with its own arguments.
#[allow(unsafe_code, reason = "an exported symbol")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _connection: *mut c_void,
    message: *mut *mut c_char,
    routines: *const c_void,
) -> c_int {
    // SAFETY: SQLite's arguments are passed on.
    unsafe { mezzanine_sqlite::extension_init(message, routines) }
}
