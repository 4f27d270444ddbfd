//! The tier's shared state outside of the directory: the queue's ends, the staging groups, the lane
//! of stage-out, the metadata segments under construction.
//!
//! Everything here changes under the control lock, which is taken after a shard's lock and never
//! before it. The words are readable without it where a comment says so.

use std::mem::offset_of;

use mezzanine_ground::lock::SpinLock;
use mezzanine_ground::region::Word;

use crate::bad_frames::BadFrames;
use crate::batch::{Batch, FrontWait};
use crate::checkpoint::Drain;
use crate::disk_sync::DiskSync;
use crate::failure::Latch;
use crate::flush::Flush;
use crate::log::HostLog;
use crate::pull::Pull;
use crate::refused::Refusals;
use crate::release::Release;
use crate::resize::Resize;
use crate::ring::Ring;
use crate::segments::Segments;
use crate::statistics::Counters;

/// No staging group is open.
pub(crate) const NONE: u64 = u64::MAX;

/// Positions, counters and latches. All zero in a new region.
#[repr(C, align(64))]
pub(crate) struct Control {
    pub(crate) lock: SpinLock,
    /// The open group's sequence number, or `NONE`.
    pub(crate) open: Word,
    /// Number of the next version.
    pub(crate) next_version: Word,
    /// What is written with every page has a line of its own, and what everybody reads all the time another.
    _apart: [Word; 5],
    /// Next position to be given out; while a group is open, past all that it may use. Read without
    /// the lock to turn frames into positions.
    pub(crate) rear: Word,
    /// The position of frame 0 in the revolution of the frame before the rear. Read without the lock, after
    /// `rear`.
    pub(crate) lap: Word,
    /// The frames in use, packed (see `ring`). Read without the lock, after `rear`.
    pub(crate) ring: Word,
    /// Frames before it have left the queue. Read without the lock to confirm reads.
    pub(crate) front: Word,
    /// Pages at or after it are in staging memory. Read without the lock.
    pub(crate) staged_from: Word,
    /// Number of the last mark (see `checkpoint`). Read without the lock.
    pub(crate) mark: Word,
    /// The sync mode, as its code.
    pub(crate) sync_mode: Word,
    /// Admission has stopped; what is staged in is refused.
    pub(crate) stopped: Word,
    pub(crate) resize: Resize,
    /// The front as it would be found after a crash.
    pub(crate) durable_front: Word,
    /// Frames before it have been staged out; their disk writes may not be synced yet.
    pub(crate) cleaned: Word,
    /// Sequence number of the next group.
    pub(crate) next_sequence: Word,
    /// Groups below it have been composed: their summaries are final.
    pub(crate) composed: Word,
    /// Groups below it are durable. Read without the lock by those who wait for a sync.
    pub(crate) flushed: Word,
    /// Groups below it have left staging memory.
    pub(crate) retired: Word,
    /// Checksum of the summary of the group before `composed`.
    pub(crate) chain: Word,
    pub(crate) epoch: Word,
    /// Some sync waits for all groups below it.
    pub(crate) sync_wanted: Word,
    /// The host's note has changed since a group took it along.
    pub(crate) note_changed: Word,
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
    /// Frames before it may leave the queue: disk has their pages for good.
    pub(crate) releasable: Word,
    pub(crate) release: Release,
    /// Clean pages before it were forgotten in memory alone: their records are still on flash.
    pub(crate) forgotten_end: Word,
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

const _: () = assert!(offset_of!(Control, rear) == 64 && offset_of!(Control, stopped) == 120);

impl Control {
    /// Moves the rear. Under the lock, with the ring that it moves in.
    pub(crate) fn set_rear(&self, rear: u64) {
        // An empty queue has no pages to be asked for.
        let lap = if rear == 0 { 0 } else { Ring::from_packed(self.ring.get()).lap(rear) };
        // In this order: see `position_of`.
        self.lap.set(lap);
        self.rear.set(rear);
    }

    /// The position at which the content of a frame was appended. Only for frames whose entry is linked and
    /// stays so.
    ///
    /// First the rear is read, then the lap, then the ring, each set before the one that is read before it.
    /// The rear is not older than the link, so the position lies before it, and after it less one
    /// revolution.
    /// 1. The lap belongs to this rear: the position is the last one before it, by `Ring::last_position`.
    /// 2. The lap is a later one, of a rear that has come round since: all of it lies past the rear that was
    ///    read, so the position is taken to be in the revolution before, as it is: pages in the one before
    ///    that have been unlinked.
    /// 3. The lap is an earlier one, because a group that had reached round was sealed short of that: then
    ///    the frames that it had reached hold no pages but those of the revolution before, to which the
    ///    earlier lap takes them.
    /// 4. If the rear has passed a cut of the ring, the ring is the one after it; and before, either gives
    ///    the same positions and laps (see `resize`).
    #[inline(always)]
    pub(crate) fn position_of(&self, frame: u32) -> u64 {
        let rear = self.rear.get();
        let lap = self.lap.get();
        Ring::from_packed(self.ring.get()).last_position(frame, rear, lap)
    }
}
