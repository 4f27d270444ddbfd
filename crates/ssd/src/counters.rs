//! What a drive counts.

use bytemuck::{Pod, Zeroable};
use serde::Serialize;

/// Counts since the drive was new, or since it was made ready (see [`Condition`](crate::Condition)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable, Serialize)]
#[repr(C)]
pub struct Counters {
    /// Mapping units that the host has read.
    pub units_read: u64,
    /// Mapping units that the host has written.
    pub units_written: u64,
    /// Mapping units that the host has discarded.
    pub units_discarded: u64,
    /// Flushes.
    pub flushes: u64,
    /// Units read that were in the buffer.
    pub buffer_hits: u64,
    /// Units written over a version that was still in the buffer, and never went to flash.
    pub units_coalesced: u64,
    /// Units of the host that were programmed.
    pub units_programmed: u64,
    /// Units that collection has moved.
    pub units_moved: u64,
    /// Units of the map and its journal that were programmed.
    pub units_of_map: u64,
    /// Units that were programmed with nothing, for want of a partner in their page.
    pub units_padded: u64,
    /// Flash pages read for collection.
    pub pages_read_to_move: u64,
    /// Flash pages programmed by collection.
    pub pages_moved: u64,
    /// Flash pages read for the host.
    pub pages_read: u64,
    /// Flash pages programmed, for whatever reason.
    pub pages_programmed: u64,
    /// Flash pages copied elsewhere before another one was programmed into the same cells.
    pub pages_backed_up: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks collected because they were worn least and not because of what they held.
    pub wear_moves: u64,
    /// Blocks that have come to the end of their life.
    pub blocks_worn_out: u64,
    /// Collections that a program had to wait for to the end, as no erased block was left.
    pub collections_in_full: u64,
    /// What planes did for collection, in ns.
    pub collection_ns: u64,
    /// What planes did at all, in ns.
    pub busy_ns: u64,
    /// Writes that had to wait for a frame of the buffer.
    pub write_stalls: u64,
    /// What they waited, in ns.
    pub write_stall_ns: u64,
    /// Reads that had to wait for a frame of the buffer.
    pub read_stalls: u64,
    /// What they waited, in ns.
    pub read_stall_ns: u64,
    /// Writes that had to wait for the map's journal.
    pub map_stalls: u64,
    /// What they waited, in ns.
    pub map_stall_ns: u64,
}

/// More than a drive counts in a life: 146 years of nanoseconds, of all planes.
const COUNT_MAX: u64 = 1 << 62;

impl Counters {
    /// What is left of them once whoever was counting died: none counts what nothing could have come to
    /// since, and from there the next is counted without an overflow.
    pub(crate) fn repaired(mut self) -> Self {
        let counts: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut self));
        counts.iter_mut().filter(|count| **count > COUNT_MAX).for_each(|count| *count = 0);
        self
    }

    /// Units programmed for one that the host wrote to flash. `None` before the first.
    pub fn write_amplification(&self) -> Option<f64> {
        let all = self.units_programmed + self.units_moved + self.units_of_map + self.units_padded;
        (self.units_programmed > 0).then(|| all as f64 / self.units_programmed as f64)
    }
}
