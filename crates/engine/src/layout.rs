//! Where everything lies in the region.

use mezzanine_ground::counters::{STRIPES, Stripe};
use mezzanine_ground::region::{REGION_ALIGNMENT, arrayed};

use crate::appearances::AppearancesLayout;
use crate::attach::header::HEADER_BYTES;
use crate::checkpoint::clean::CleanLayout;
use crate::config::Geometry;
use crate::control::Control;
use crate::directory::bucket::{Bucket, PAGES_PER_BUCKET};
use crate::directory::second_touch::SecondTouch;
use crate::directory::{COUNTERS_PER_SHARD, ChangeCounter, Entry, Shard};
use crate::groups::group::StagingGroup;
use crate::in_place::PlacedLayout;
use crate::invalidation::in_progress::RangeInvalidations;

// What is gone to most often.
arrayed!(Control = 0, Shard = 1, ChangeCounter = 2, Bucket = 3, Entry = 4);

/// Bytes of the host that every group summary carries.
pub const HOST_METADATA_BYTES: usize = 192;

/// Byte offsets of the parts of a region, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) control: usize,
    pub(crate) range_invalidations: usize,
    pub(crate) staging_groups: usize,
    pub(crate) host_metadata: usize,
    pub(crate) thread_counters: usize,
    pub(crate) shards: usize,
    pub(crate) counters: usize,
    pub(crate) bucket_table: usize,
    pub(crate) entries: usize,
    /// In which stretches of the queue there are pages of what.
    pub(crate) appearances: AppearancesLayout,
    /// Which stretches of the queue have nothing dirty.
    pub(crate) clean: CleanLayout,
    /// Where pages lie that are written in place.
    pub(crate) placed: PlacedLayout,
    /// Clean pages that were offered lately.
    pub(crate) second_touch: usize,
    /// End position of the segment in each segment slot.
    pub(crate) segment_ends: usize,
    /// The pages that the write-back batch carries: position and place in its buffer.
    pub(crate) batch_pages: usize,
    pub(crate) segment_buffers: usize,
    /// Start of page memory.
    pub(crate) page_memory: usize,
    pub(crate) batch_buffer: usize,
    pub(crate) staging: usize,
    pub(crate) bytes: usize,
    /// Number of buckets: a multiple of that of shards.
    pub(crate) buckets: usize,
}

impl Layout {
    pub(crate) fn compute(geometry: &Geometry) -> Self {
        let config = geometry.config();
        let mut next = 0usize;
        let mut take = |bytes: usize, alignment: usize| {
            let at = next.next_multiple_of(alignment);
            next = at + bytes;
            at
        };
        let staging_groups = config.staging_groups as usize;
        let shards = config.shards as usize;
        let frames = geometry.entries() as usize;
        let buckets = frames.div_ceil(shards * PAGES_PER_BUCKET) * shards;
        let group_bytes = geometry.group_frames as usize * geometry.page_size();
        // What other processes find the tier by lies at the start (see `attach`).
        take(HEADER_BYTES, 64);
        let control = take(size_of::<Control>(), 64);
        let range_invalidations = take(size_of::<RangeInvalidations>(), 64);
        let groups = take(staging_groups * size_of::<StagingGroup>(), 64);
        // Host metadata for each staging group and the current one after them.
        let host_metadata = take((staging_groups + 1) * HOST_METADATA_BYTES, 64);
        let thread_counters = take((STRIPES + 1) * size_of::<Stripe>(), 64);
        let shard_table = take(shards * size_of::<Shard>(), 64);
        let counters = take(shards * COUNTERS_PER_SHARD * size_of::<ChangeCounter>(), 64);
        let bucket_table = take(buckets * size_of::<Bucket>(), 64);
        let entries = take(frames * size_of::<Entry>(), 64);
        let appearances = AppearancesLayout::compute(frames, &mut take);
        let clean = CleanLayout::compute(frames, &mut take);
        let placed = match &geometry.placed {
            Some(placed) => PlacedLayout::compute(placed, &mut take),
            None => PlacedLayout::default(),
        };
        let second_touch = take(SecondTouch::bytes(geometry.remembered_pages()), 64);
        let segment_ends = take(geometry.segment_slots as usize * 8, 64);
        let batch_pages = take(geometry.batch_pages() as usize * 8, 64);
        let segments =
            if geometry.slot_directory().is_some() { 0 } else { 2 * geometry.segment_bytes as usize };
        let segment_buffers = take(segments, REGION_ALIGNMENT);
        let batch_bytes = geometry.batch_frames() as usize * geometry.page_size();
        let batch_buffer = take(batch_bytes, REGION_ALIGNMENT);
        let staging = take(staging_groups * group_bytes, REGION_ALIGNMENT);
        Self {
            control,
            range_invalidations,
            staging_groups: groups,
            host_metadata,
            thread_counters,
            shards: shard_table,
            counters,
            bucket_table,
            entries,
            appearances,
            clean,
            placed,
            second_touch,
            segment_ends,
            batch_pages,
            segment_buffers,
            page_memory: batch_buffer,
            batch_buffer,
            staging,
            bytes: next.next_multiple_of(REGION_ALIGNMENT),
            buckets,
        }
    }
}
