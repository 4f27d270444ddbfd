//! The tier's shared state outside of the directory: the queue's ends, the staging groups, the
//! write-back batch, the metadata segments under construction.
//!
//! Everything here changes under the control lock, which is taken after a shard's lock and never
//! before it. The words are readable without it where a comment says so.

use std::mem::offset_of;

use mezzanine_ground::lock::RegionLock;
use mezzanine_ground::region::Word;

use crate::checkpoint::request::Drain;
use crate::failure::latch::Latch;
use crate::groups::ends::{Ends, Passed};
use crate::groups::flush::Flush;
use crate::groups::group::{Append, Groups};
use crate::groups::releasing::Release;
use crate::groups::resizing::Resize;
use crate::groups::segments::Segments;
use crate::log::reach::HostLog;
use crate::stage_out::bad_list::BadFrames;
use crate::stage_out::batch::{Batch, FrontWait};
use crate::stage_out::disk_sync::DiskSync;
use crate::stage_out::pulling::Pull;
use crate::stage_out::refusals::Refusals;
use crate::statistics::Counters;

/// Positions, counters and latches. All zero in a new region.
#[repr(C, align(64))]
pub(crate) struct Control {
    pub(crate) lock: RegionLock,
    /// Where pages are appended.
    pub(crate) append: Append,
    /// What is written with every page has a line of its own, and what everybody reads all the time another.
    _apart: [Word; 5],
    pub(crate) ends: Ends,
    /// A shard's lock was poisoned, one of them or all: what lookups, which take none, go by.
    pub(crate) poisoned: Word,
    /// The sync mode, as its code.
    pub(crate) sync_mode: Word,
    /// Admission has stopped; what is staged in is refused.
    pub(crate) stopped: Word,
    /// Number of the last mark (see `checkpoint`). Read without the lock.
    pub(crate) mark: Word,
    pub(crate) resize: Resize,
    pub(crate) passed: Passed,
    pub(crate) groups: Groups,
    pub(crate) epoch: Word,
    /// The host metadata has changed since a group took it along.
    pub(crate) host_metadata_changed: Word,
    pub(crate) host_log: HostLog,
    /// The flush of the flash device.
    pub(crate) flush: Flush,
    /// Pages on their way from flash to disk.
    pub(crate) batch: Batch,
    pub(crate) front_wait: FrontWait,
    pub(crate) refusals: Refusals,
    /// Pages that were lost, by the last count and since.
    pub(crate) lost: Word,
    pub(crate) disk_sync: DiskSync,
    pub(crate) release: Release,
    /// How idle the host says its disk is, in thousandths; for stage-out ahead of need.
    pub(crate) disk_idle: Word,
    /// The drain that was requested.
    pub(crate) drain: Drain,
    pub(crate) pull: Pull,
    /// The metadata segments under construction.
    pub(crate) segments: Segments,
    /// Stage-out pauses, because the process with this owner number drains; 0 if none does.
    pub(crate) draining: Word,
    pub(crate) failure: Latch,
    pub(crate) bad: BadFrames,
    pub(crate) counters: Counters,
}

const _: () = assert!(offset_of!(Control, ends) == 64 && offset_of!(Control, stopped) == 120);
