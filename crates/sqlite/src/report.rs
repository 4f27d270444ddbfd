//! What is remembered of failures: SQLite has a number for each, people want words.

use std::cell::RefCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The newest failure of ours in words, and the operating system's number of the newest one, ours or not.
    static LAST: RefCell<(Option<String>, c_int)> = const { RefCell::new((None, 0)) };
}

/// The newest failure of a VFS of this crate in the calling thread, in words. SQLite itself has only numbers
/// for them.
pub fn last_error() -> Option<String> {
    LAST.with_borrow(|(message, _)| message.clone())
}

/// The operating system's number of the newest failure, also of the VFS below where it was to open a file; or
/// 0.
pub(crate) fn last_errno() -> c_int {
    LAST.with_borrow(|(_, errno)| *errno)
}

pub(crate) fn remember(message: String, errno: c_int) {
    LAST.set((Some(message), errno));
}

/// The VFS below has failed to open a file.
pub(crate) fn remember_other(errno: c_int) {
    LAST.with_borrow_mut(|last| last.1 = errno);
}

/// Runs a callback's body; a panic, which must not cross into C, becomes `otherwise`.
pub(crate) fn guarded(otherwise: c_int, body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}
