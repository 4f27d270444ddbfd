//! Open files: databases, which go through a volume, and their logs, which the base VFS keeps.
//!
//! "Contract" means the list in the module above.

use std::ffi::c_int;

use crate::abi::File;

mod control;
mod database;
mod log;
mod opening;

pub(super) use log::open_log;
pub(super) use opening::open_database;

/// What SQLite has to reserve for a file of ours.
pub(super) const SLOT_BYTES: usize = size_of::<Slot<()>>();

/// An open file of ours, in the memory that SQLite gives us.
#[repr(C)]
struct Slot<T> {
    head: File,
    /// Ours until `xClose`.
    state: *mut T,
}

/// A range of a file that fits the types that we read and write with.
fn range(amount: c_int, offset: i64) -> Option<(usize, u64)> {
    Some((usize::try_from(amount).ok()?, u64::try_from(offset).ok()?))
}
