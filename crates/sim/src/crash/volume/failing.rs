//! What may fail in a session, and what has.

use std::cell::Cell;

use super::costs::Struck;

/// A device that fails so many reads in a row may pass for one that answers none: of a run, of a page by
/// itself, and of both superblocks.
pub(super) const READS_OF_SILENCE: u64 = 4;

/// What may fail in this session, and what had failed before it.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Something is planned to fail.
    pub(super) planned: bool,
    /// How many reads of flash are to fail, at most.
    pub(super) flash_reads: u64,
    /// A change of the tier as a whole has failed in this session.
    pub(super) change_failed: Cell<bool>,
    /// A replacement of the flash device has.
    pub(super) replacement_failed: Cell<bool>,
    /// What had failed before it was planned, of anything and by what it was.
    pub(super) struck_before: (u64, Struck),
}
