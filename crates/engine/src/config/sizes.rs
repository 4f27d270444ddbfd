//! From parameters to sizes: what a tier needs of frames, metadata and memory.

use super::geometry::SpareSegments;
use super::geometry::{Journal, SEGMENTS_OFFSET};
use super::{ConfigError, FRAMES_MAX, Geometry, PlacedGeometry, RESERVED_GROUPS, SlotGeometry, TierConfig};
use crate::designs::{self, InPlace};
use crate::format::{RECORD_BYTES, SEGMENT_HEADER_BYTES, SUMMARY_HEADER_BYTES};
use crate::layout::Layout;

/// How many pages of so many places may be lost at a time (`unreadable`).
pub(crate) fn lost_max(places: u64) -> u64 {
    (places / 16).max(1)
}

/// Alignment of the first frame.
const FRAMES_ALIGNMENT: u64 = 64 * 1024;

impl TierConfig {
    /// Checks the parameters and computes all sizes.
    ///
    /// # Errors
    /// Names the parameter that is out of range, the reason and the nearest allowed value.
    pub fn geometry(&self) -> Result<Geometry, ConfigError> {
        self.check_ranges()?;
        let in_place = self.design.in_place();
        let page = u64::from(self.page_size);
        // In place nearly every page that comes makes another one leave, which takes a tombstone.
        let records = u64::from(self.group_pages) * if in_place.is_some() { 2 } else { 1 };
        let summary_bytes = SUMMARY_HEADER_BYTES as u64 + records * RECORD_BYTES as u64;
        let summary_frames = summary_bytes.div_ceil(page) as u32;
        let records_max =
            ((u64::from(summary_frames) * page - SUMMARY_HEADER_BYTES as u64) / RECORD_BYTES as u64) as u32;
        let group_frames = u64::from(summary_frames + self.group_pages);
        if let Some(design) = in_place {
            return self.placed_geometry(design, summary_frames, records_max);
        }
        let zones = self.zone_geometry(summary_frames, group_frames)?;
        let segment_records = self.segments.records(self.segment_frames.into()) + u64::from(records_max) + 1;
        let records_end =
            (SEGMENT_HEADER_BYTES as u64 + segment_records * RECORD_BYTES as u64).next_multiple_of(4096);
        // Room for the reference bits whatever the design, which may change from one opening to the next.
        let frames_max = self.frames_max.max(self.frames);
        let share_bytes = self.segments.share_frames(frames_max, self.segment_frames.into()) / 8;
        let segment_bytes = records_end + share_bytes.next_multiple_of(4096);
        let segment_frames = u64::from(self.segment_frames);
        let staging_groups = u64::from(self.staging_groups);
        // The groups that carry the front past a segment take no more frames than have left.
        let spare_segments = SpareSegments::of(
            (segment_frames, segment_records),
            (group_frames, records_max),
            staging_groups,
            segment_frames + group_frames,
        );
        let segment_slots = frames_max.div_ceil(segment_frames) + spare_segments.slots();
        let alignment = zones.map_or(FRAMES_ALIGNMENT, |zones| zones.bytes);
        let frames_offset = (SEGMENTS_OFFSET + segment_slots * segment_bytes).next_multiple_of(alignment);
        // The front moves on while fewer frames than these are free: the groups that only stage-out may
        // use, and those that come in until the flush that makes a new front durable. Stage-out keeps
        // more than that ready: the band whose disk writes are not yet synced.
        let free_frames = (RESERVED_GROUPS + 3 + staging_groups / 2) * group_frames
            + zones.map_or(0, |zones| zones.kept_free());
        let ready_frames = self.band_frames + free_frames;
        // Recovery scans at most two segments' worth of groups and those in staging memory; until they are
        // in a durable segment they keep their frames, beside those that are kept ready.
        let scanned = 2 * (segment_frames + group_frames)
            + staging_groups * group_frames
            + zones.map_or(0, |zones| zones.scanned());
        let needed = scanned + ready_frames + group_frames;
        if self.frames < needed {
            return Err(ConfigError::new(
                "frames",
                format!(
                    "{} frames are too few for {} staging groups of {} pages, bands of {} frames and \
                     metadata segments of {} frames",
                    self.frames, self.staging_groups, self.group_pages, self.band_frames, self.segment_frames
                ),
                format!("give the tier at least {needed} frames, or make groups, bands or segments smaller"),
            ));
        }
        // A flush for each half of staging memory leaves the durable front that far behind. As much again is
        // kept free, as far as a 64th of the queue allows, or writers would be short of frames just
        // before each flush and hurry it. A queue that hardly suffices does without.
        let roomy = self.frames >= 2 * needed;
        let slack = if roomy { (self.frames / 64).min(staging_groups / 2 * group_frames) } else { 0 };
        let slack = slack / group_frames * group_frames;
        let (free_frames, ready_frames) = (free_frames + slack, ready_frames + slack);
        let mut geometry = Geometry {
            config: self.clone(),
            summary_frames,
            records_max,
            group_frames,
            segment_records_max: segment_records,
            segment_bytes,
            segment_slots,
            segment_frames,
            spare_segments,
            frames_offset,
            free_frames,
            ready_frames,
            least_frames: needed,
            journal: None,
            placed: None,
            zones,
            #[cfg(test)]
            places: None,
            layout: Layout::default(),
        };
        geometry.layout = Layout::compute(&geometry);
        Ok(geometry)
    }

    /// [`Self::geometry`] of a design that writes in place.
    fn placed_geometry(
        &self,
        design: &'static InPlace,
        summary_frames: u32,
        records_max: u32,
    ) -> Result<Geometry, ConfigError> {
        designs::check(self, design)?;
        self.zone_geometry(summary_frames, 0)?;
        let page = u64::from(self.page_size);
        let (group_pages, staging_groups) = (u64::from(self.group_pages), u64::from(self.staging_groups));
        let group_frames = u64::from(summary_frames) + group_pages;
        // Homes of pages in staging memory, of the versions that they supersede, and of pages on their way to
        // disk.
        let staged = staging_groups * group_pages;
        let needed = 3 * staged + self.band_frames + 2 * group_pages;
        if self.frames < needed || self.frames > FRAMES_MAX / 8 {
            let reason = format!(
                "{} frames do not fit {} staging groups of {} pages and bands of {} frames",
                self.frames, self.staging_groups, self.group_pages, self.band_frames
            );
            let advice = format!(
                "give the tier {needed} to {} frames, or make groups or bands smaller",
                FRAMES_MAX / 8
            );
            return Err(ConfigError::new("frames", reason, advice));
        }
        // What recovery may have to scan is kept beside the pages, so it is little.
        let segment_frames =
            u64::from(self.segment_frames).min((self.frames / 32).max(2 * group_frames).max(8));
        let segment_records = 3 * segment_frames + u64::from(records_max) + 1;
        let free_frames = (RESERVED_GROUPS + 3 + staging_groups / 2) * group_frames;
        // While the records at the front are all valid, as many are appended again as leave, and each time
        // that the front moves a group without pages may have to carry it: what those take until it
        // has been past every valid record.
        let valid = (self.frames * group_frames).div_ceil(group_pages);
        let slack = 2 * (valid * u64::from(summary_frames)).div_ceil(free_frames) + group_frames;
        let ready_frames = free_frames + group_frames + slack;
        // A record is appended again when the queue has come round: with twice the records that are needed at
        // most every other one.
        let positions = 2 * valid + 4 * ready_frames;
        let segment_bytes =
            (SEGMENT_HEADER_BYTES as u64 + segment_records * RECORD_BYTES as u64).next_multiple_of(4096);
        let spare_segments = SpareSegments::of(
            (segment_frames, segment_records),
            (group_frames, records_max),
            staging_groups,
            ready_frames + segment_frames + group_frames,
        );
        let segment_slots = positions.div_ceil(segment_frames) + spare_segments.slots();
        let segment_groups = segment_frames.div_ceil(u64::from(summary_frames)) + 1;
        let mut journal_groups = 2 * segment_groups + staging_groups + RESERVED_GROUPS + 2;
        let homes = self.frames as u32;
        let (mut segment_slots, mut segment_bytes) = (segment_slots, segment_bytes);
        let mut slots = None;
        if design.slots {
            // In the place of metadata segments and journal.
            let geometry = SlotGeometry::of(homes, self.group_pages);
            (segment_slots, segment_bytes, journal_groups) = (1, geometry.bytes(), 0);
            slots = Some(geometry);
        }
        let journal_offset =
            (SEGMENTS_OFFSET + segment_slots * segment_bytes).next_multiple_of(FRAMES_ALIGNMENT);
        let journal_bytes = journal_groups * u64::from(summary_frames) * page;
        let (mut dirty_order, mut dirty_max) = (None, u64::MAX);
        if let Some(cleaner) = &design.cleaner {
            dirty_order = Some((cleaner.policy)(self.frames, &self.policy)?);
            dirty_max = self.frames * u64::from((cleaner.dirty_percent)(&self.policy)) / 100;
        }
        let placed = PlacedGeometry {
            homes,
            positions,
            slack,
            bad_max: self.frames.saturating_sub(needed + lost_max(self.frames)),
            kept_coming: staged + self.band_frames,
            order: (design.policy)(self.frames, &self.policy)?,
            dirty_order,
            dirty_max,
            selective: design.selective,
            slots,
        };
        let mut geometry = Geometry {
            config: self.clone(),
            summary_frames,
            records_max,
            group_frames,
            segment_records_max: segment_records,
            segment_bytes,
            segment_slots,
            segment_frames,
            spare_segments,
            frames_offset: (journal_offset + journal_bytes).next_multiple_of(FRAMES_ALIGNMENT),
            free_frames: ready_frames,
            ready_frames,
            // It keeps its size.
            least_frames: self.frames,
            journal: (journal_groups > 0).then_some(Journal {
                offset: journal_offset,
                groups: journal_groups,
                summary_bytes: u64::from(summary_frames) * page,
            }),
            placed: Some(placed),
            zones: None,
            #[cfg(test)]
            places: None,
            layout: Layout::default(),
        };
        geometry.layout = Layout::compute(&geometry);
        Ok(geometry)
    }
}
