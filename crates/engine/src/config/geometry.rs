//! The sizes of a tier and where its parts lie on flash, as `sizes` has computed them.

use mezzanine_ground::replacement::PolicyConfig;

use super::zones::ZoneGeometry;
use super::{Admission, BATCH_GROUPS_MAX, SyncMode, TierConfig};
use crate::format::{SLOT_BLOCK_BYTES, SLOT_BYTES, SLOT_HEADS, SUPERBLOCK_OFFSETS};
use crate::ids::{Frame, Sequence};
use crate::layout::Layout;
use crate::planted::{self, Bug};

/// Where the metadata segments begin; superblocks lie below.
pub(super) const SEGMENTS_OFFSET: u64 = 64 * 1024;
/// Places at which it is read whether a device answers.
pub(crate) const PROBES: usize = 4;

/// How many of them are read before a device counts as silent.
pub(crate) fn probes_asked() -> usize {
    if planted::is(Bug::SuperblocksAloneProbed) { SUPERBLOCK_OFFSETS.len() } else { PROBES }
}

/// A checked configuration and all sizes that follow from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub(super) config: TierConfig,
    pub(crate) summary_frames: u32,
    /// Records that a group summary has room for: its pages and some tombstones.
    pub(crate) records_max: u32,
    /// Frames of a full group.
    pub(crate) group_frames: u64,
    pub(crate) segment_records_max: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_slots: u64,
    /// Positions whose records make up one metadata segment.
    pub(crate) segment_frames: u64,
    pub(crate) spare_segments: SpareSegments,
    pub(crate) frames_offset: u64,
    pub(crate) free_frames: u64,
    pub(crate) ready_frames: u64,
    /// The fewest frames with which a queue of these groups, bands and segments can work.
    pub(crate) least_frames: u64,
    /// Where summaries of groups lie that do not lie in the queue, with their pages.
    pub(crate) journal: Option<Journal>,
    /// For designs that write in place.
    pub(crate) placed: Option<PlacedGeometry>,
    /// Of a tier whose pages are scattered.
    #[cfg(test)]
    pub(crate) places: Option<std::sync::Arc<crate::placement::scattered::Places>>,
    /// Where the queue is a ring of zones.
    pub(crate) zones: Option<ZoneGeometry>,
    pub(crate) layout: Layout,
}

impl Geometry {
    /// The parameters.
    #[inline]
    pub fn config(&self) -> &TierConfig {
        &self.config
    }

    /// Page size in bytes.
    #[inline]
    pub fn page_size(&self) -> usize {
        self.config.page_size as usize
    }

    /// The fewest frames with which a queue of these groups, bands and segments can work; `None` of a design
    /// that writes in place.
    pub fn least_queue(&self) -> Option<u64> {
        self.placed.is_none().then_some(self.least_frames)
    }

    /// Frames of the queue.
    #[inline]
    pub fn frames(&self) -> u64 {
        self.config.frames
    }

    /// Frames up to which the queue can grow.
    pub fn frames_max(&self) -> u64 {
        self.config.frames_max.max(self.config.frames)
    }

    /// Entries of the directory: frames of the queue, or positions of the queue of records of a design that
    /// writes in place.
    pub(crate) fn entries(&self) -> u64 {
        self.placed.as_ref().map_or(self.frames_max(), |placed| placed.positions)
    }

    /// Entries that the queue uses when it is opened.
    pub(crate) fn ring_frames(&self) -> u64 {
        self.placed.as_ref().map_or(self.config.frames, |placed| placed.positions)
    }

    /// Positions that are left to records that are appended again, for designs that write in place.
    pub(crate) fn slack(&self) -> u64 {
        self.placed.as_ref().map_or(0, |placed| placed.slack)
    }

    /// Pages of a full group.
    pub fn group_pages(&self) -> u64 {
        u64::from(self.config.group_pages)
    }

    /// Frames of a full group: its pages and its summary.
    pub fn group_frames(&self) -> u64 {
        self.group_frames
    }

    /// Full groups that stage-out can carry at once: as many as staging memory holds, so that its own memory
    /// stays in proportion, and a lag of the size of staging memory is made up for in one turn. One batch
    /// goes to disk at a time, and a batch is over when the slowest arm is: the more pages it has, the
    /// more there are for each arm. With half as many, batches of `face-gsc` had four pages for each of
    /// 16 disks, and clients waited for them while no drive was busy all the time (decision 14).
    ///
    /// Half as many where pages are written in place: there the batch is not what is waited for, and as many
    /// leave together as it carries.
    fn batch_groups(&self) -> u64 {
        let share = if self.placed.is_some() { 2 } else { 1 };
        u64::from((self.config.staging_groups / share).clamp(1, BATCH_GROUPS_MAX))
    }

    /// Pages whose first clean offer is remembered; 0 if every clean page is taken.
    pub fn remembered_pages(&self) -> u64 {
        if !self.config.returning_only {
            return 0;
        }
        self.config.remembered_pages.unwrap_or((self.frames_max() / 2).max(1))
    }

    /// Frames that fit into the stage-out buffer.
    pub(crate) fn batch_frames(&self) -> u64 {
        self.batch_groups() * self.group_frames
    }

    /// Pages that stage-out can carry at once.
    pub(crate) fn batch_pages(&self) -> u64 {
        self.batch_groups() * self.group_pages()
    }

    /// Frames that a summary takes.
    pub fn summary_frames(&self) -> u64 {
        u64::from(self.summary_frames)
    }

    /// Bytes of memory that a tier needs, staging included.
    pub fn region_bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Bytes of page memory within the region: staging groups and the stage-out buffer.
    pub fn staging_bytes(&self) -> usize {
        self.layout.bytes - self.layout.page_memory
    }

    /// Memory per frame in bytes, staging apart.
    pub fn bytes_per_frame(&self) -> f64 {
        self.layout.page_memory as f64 / self.frames_max() as f64
    }

    /// Bytes of flash: superblocks, metadata segments and frames.
    pub fn flash_bytes(&self) -> u64 {
        match self.zones {
            None => self.frames_offset + self.frames_max() * u64::from(self.config.page_size),
            Some(zones) => self.frames_offset + self.frames_max() / zones.frames * zones.bytes,
        }
    }

    /// Bytes of flash taken by the summaries of groups if all groups are full. Of a queue they lie among its
    /// frames.
    pub fn summary_bytes(&self) -> u64 {
        match &self.journal {
            Some(journal) => journal.groups * journal.summary_bytes,
            None if self.placed.is_some() => 0,
            None => {
                self.frames_max() / self.group_frames
                    * self.summary_frames()
                    * u64::from(self.config.page_size)
            }
        }
    }

    /// Bytes of flash taken by metadata segments, or by the slot directory.
    pub fn metadata_bytes(&self) -> u64 {
        self.segment_slots * self.segment_bytes
    }

    /// Whether a tier of this configuration can never hold the only copy of a page.
    pub fn provably_clean(&self) -> bool {
        self.config.sync_mode == SyncMode::Through || self.config.admission == Admission::Clean
    }

    /// Byte offset on flash of a frame.
    #[inline]
    pub(crate) fn offset_of_frame(&self, Frame(frame): Frame) -> u64 {
        let (frame, page) = (u64::from(frame), u64::from(self.config.page_size));
        match self.zones {
            None => self.frames_offset + frame * page,
            Some(zones) => {
                self.frames_offset + frame / zones.frames * zones.bytes + frame % zones.frames * page
            }
        }
    }

    /// Where it is read whether the device answers at all: the *probes*, as many bytes of each as a
    /// superblock has. Far from one another, for a place that cannot be read says nothing of the device: the
    /// superblocks, the first segment and the first frame.
    #[must_use]
    pub fn probes(&self) -> [u64; PROBES] {
        let [first, second] = SUPERBLOCK_OFFSETS;
        [first, second, self.segment_offset(0), self.offset_of_frame(Frame(0))]
    }

    /// Whether the device answers at all: it `gives_back` one of the probes, whatever is there.
    pub fn answers(&self, gives_back: impl FnMut(u64) -> bool) -> bool {
        planted::is(Bug::SilentPagesLost) || self.probes().into_iter().take(probes_asked()).any(gives_back)
    }

    /// The slot directory, for designs that have one.
    #[inline]
    pub(crate) fn slot_directory(&self) -> Option<&SlotGeometry> {
        self.placed.as_ref()?.slots.as_ref()
    }

    pub(crate) fn segment_offset(&self, number: u64) -> u64 {
        SEGMENTS_OFFSET + (number % self.segment_slots) * self.segment_bytes
    }
}

/// Metadata segments beyond those that stand for a queue that is full, so that a segment never has to wait
/// for the front (see `metadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpareSegments {
    /// Groups that a segment certainly has room for, whatever they are full of.
    pub(crate) groups: u64,
    /// For all groups that staging memory can hold.
    pub(crate) staged: u64,
    /// For what is appended while the front passes one segment more: groups that carry it, and what is
    /// appended again.
    pub(crate) moving: u64,
}

impl SpareSegments {
    /// With segments of `segment_frames` frames and `segment_records` records for groups of at most
    /// `group_frames` and `records_max`, of which staging memory holds `staging_groups`; `appended` are
    /// the frames that the front's way past a segment may cost.
    pub(super) fn of(
        (segment_frames, segment_records): (u64, u64),
        (group_frames, records_max): (u64, u32),
        staging_groups: u64,
        appended: u64,
    ) -> Self {
        let by_records = segment_records / (u64::from(records_max) + 1);
        let groups = segment_frames.div_ceil(group_frames).min(by_records).max(1);
        // One more: what is appended again stops before what carries the front.
        let (staged, moving) = (staging_groups.div_ceil(groups), appended.div_ceil(segment_frames) + 1);
        Self { groups, staged, moving }
    }

    /// All of them, with one before the front has to move for them, and one that stands for little, at either
    /// end of a full queue.
    pub(super) fn slots(self) -> u64 {
        self.staged + self.moving + 2
    }
}

/// A ring of group summaries on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    /// Byte offset on flash.
    pub(crate) offset: u64,
    /// Summaries that it has room for.
    pub(crate) groups: u64,
    pub(super) summary_bytes: u64,
}

impl Journal {
    /// Byte offset on flash of the summary of a group.
    pub(crate) fn offset_of(&self, sequence: Sequence) -> u64 {
        self.offset + sequence.number() % self.groups * self.summary_bytes
    }
}

/// The slot directory of a tier whose design has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotGeometry {
    /// Byte offset on flash of the first copy of its head.
    pub(crate) offset: u64,
    /// Blocks of slots, the heads apart.
    pub(crate) blocks: u32,
    /// Blocks that are written together at most.
    pub(crate) batch: u32,
}

/// What follows from the configuration of a tier whose design writes in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedGeometry {
    /// Frames for pages.
    pub(crate) homes: u32,
    /// Positions that the queue of records has in memory.
    pub(crate) positions: u64,
    /// Positions that are left to records that are appended again.
    pub(crate) slack: u64,
    /// Homes that may be left out because they could not be read: beyond the fewest with which the tier can
    /// just work, and those that lost pages may keep. A bad place that is used costs pages; too few homes
    /// cost them all.
    pub(crate) bad_max: u64,
    /// Homes that are to be free, or on their way to it: a reserve, and a band of disk writes, so that the
    /// disk is synced once for all of it.
    pub(crate) kept_coming: u64,
    /// Which page leaves; and which dirty page is cleaned, if the design has a cleaner.
    pub(crate) order: PolicyConfig,
    pub(crate) dirty_order: Option<PolicyConfig>,
    /// Dirty pages above which the cleaner works.
    pub(crate) dirty_max: u64,
    /// The policy is asked which pages may come in.
    pub(crate) selective: bool,
    /// For designs with a slot directory, which have no journal.
    pub(crate) slots: Option<SlotGeometry>,
}

impl SlotGeometry {
    pub(super) fn of(homes: u32, group_pages: u32) -> Self {
        let blocks = homes.div_ceil((SLOT_BLOCK_BYTES / SLOT_BYTES) as u32);
        Self { offset: SEGMENTS_OFFSET, blocks, batch: (2 * group_pages).min(blocks + 1) }
    }

    /// Bytes on flash.
    pub(crate) fn bytes(&self) -> u64 {
        (SLOT_HEADS + u64::from(self.blocks)) * SLOT_BLOCK_BYTES as u64
    }

    /// Byte offset on flash of a block of slots.
    pub(crate) fn block_offset(&self, block: u32) -> u64 {
        self.head_offset(SLOT_HEADS + u64::from(block))
    }

    /// Byte offset on flash of a copy of the head.
    pub(crate) fn head_offset(&self, copy: u64) -> u64 {
        self.offset + copy * SLOT_BLOCK_BYTES as u64
    }
}
