//! What a tier is configured to be, and the sizes that follow from it.

use crate::designs;

mod choices;

mod segment_layout;

mod sizes;

mod geometry;

mod streams;

mod zones;

pub use choices::{Admission, Design, SyncMode};
pub use geometry::Geometry;
pub(crate) use geometry::{PROBES, PlacedGeometry, SlotGeometry, probes_asked};
pub use mezzanine_ground::config::{ConfigError, FRAMES_MAX};
pub use segment_layout::SegmentLayout;
pub(crate) use sizes::lost_max;
pub use zones::TierZones;

/// Smallest page in bytes.
pub const PAGE_SIZE_MIN: u32 = 4096;
/// Largest page in bytes.
pub const PAGE_SIZE_MAX: u32 = 32768;
/// Most pages in a group. The papers recommend at most an erase block: 64 or 128 pages.
pub const GROUP_PAGES_MAX: u32 = 256;
/// Most groups in staging memory.
pub const STAGING_GROUPS_MAX: u32 = 64;
/// The smallest queue of default parameters has fewer frames than this, whatever the page size.
const FRAMES_OF_SMALLEST: u64 = 1 << 14;
/// Groups of free frames that only stage-out may use, so that a full queue can always be emptied.
pub(crate) const RESERVED_GROUPS: u64 = 3;

/// Groups that stage-out takes together at most.
pub(crate) const BATCH_GROUPS_MAX: u32 = 16;

/// The parameters of a tier. [`TierConfig::geometry`] checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// Page size in bytes: a power of two from 4 to 32 KiB.
    pub page_size: u32,
    /// Frames of the queue, including those that hold group summaries. For designs that write in place:
    /// frames that hold pages.
    pub frames: u64,
    /// Pages written together: in one sequential write, or each in its place with one summary for all.
    pub group_pages: u32,
    /// Groups kept in memory until they are flushed.
    pub staging_groups: u32,
    /// Frames whose directory entries make up one metadata segment; at most so many where pages are written
    /// in place.
    pub segment_frames: u32,
    /// Independently locked parts of the directory: a power of two.
    pub shards: u32,
    /// Replacement.
    pub design: Design,
    /// What may enter.
    pub admission: Admission,
    /// When dirty pages reach disk.
    pub sync_mode: SyncMode,
    /// Most pages of a group that get a second chance; the paper allows all but one, half is the
    /// default, because 63 of 64 survivors would mean a write amplification of 64.
    pub survivors_max: u32,
    /// `face-gsc`: pages of a group that were not referenced get a second chance as well, as many as frames
    /// of the group were freed by overwrites, and with the referenced ones `survivors_max` at most. The
    /// paper has them leave, which is the default.
    pub keeps_unreferenced: bool,
    /// Frames staged out between two syncs of the disk.
    pub band_frames: u64,
    /// Frames staged out ahead of need while the disk is idle; the busier it is, the fewer.
    pub ahead_frames: u64,
    /// Frames up to which the queue can be made to grow while it is in use: memory and flash are laid out
    /// for so many. Less than `frames` counts as `frames`.
    pub frames_max: u64,
    /// Parameters of designs that write in place.
    pub policy: PolicyParameters,
    /// Second-touch admission: of clean pages only those are taken that were offered before, not long ago.
    /// While the tier fills for the first time every one is.
    pub returning_only: bool,
    /// With `returning_only`: pages whose first offer is remembered. Default: half as many as there are
    /// frames.
    pub remembered_pages: Option<u64>,
    /// The zones that the tier lies on, if the flash device has some.
    pub zones: Option<TierZones>,
    /// How metadata segments of the queue are laid out: of a new tier as the default says.
    pub segments: SegmentLayout,
}

/// Parameters of designs that write in place, each for the designs that it names. `None` is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyParameters {
    /// `lc`: references after which another one to the same page counts as a new one. Default: an eighth of
    /// the frames.
    pub correlated_period: Option<u64>,
    /// `lc`: pages that have left whose last reference is remembered. Default: as many as there are frames.
    pub history: Option<u64>,
    /// `lc`: share of the frames in per cent that may hold pages newer than disk before the cleaner writes
    /// the coldest. Default: 50.
    pub dirty_percent: Option<u32>,
    /// `exadata`: dirty pages go to flash, and to disk when they leave it. Otherwise they go around it, and
    /// admission must be `clean`.
    pub write_back: bool,
    /// `tac`: pages of an extent, whose temperature they share. Default: 32.
    pub extent_pages: Option<u64>,
    /// `tac`: references after which all temperatures are halved. Default: as many as there are frames.
    pub ageing_period: Option<u64>,
    /// `tac`: what a random reference counts for, where one in sequence is 1. Default: 94.
    pub random_weight: Option<u64>,
    /// `tac`: extents without a page in the tier whose temperature is remembered. Default: as many as there
    /// are frames.
    pub extents: Option<u64>,
}

impl TierConfig {
    /// The defaults for a queue of `frames` frames.
    pub fn new(page_size: u32, frames: u64) -> Self {
        let group_pages = 64.min((frames / 64).max(2) as u32);
        Self {
            page_size,
            frames,
            group_pages,
            staging_groups: (frames / (16 * u64::from(group_pages))).clamp(2, 16) as u32,
            segment_frames: (frames / 8).clamp(u64::from(2 * group_pages), 16_384) as u32,
            shards: if frames < 4096 { 16 } else { 256 },
            design: Design::FaceGsc,
            admission: Admission::Both,
            sync_mode: SyncMode::Durable,
            survivors_max: group_pages / 2,
            keeps_unreferenced: false,
            band_frames: (frames / 16).max(u64::from(group_pages)),
            ahead_frames: frames / 16,
            frames_max: frames,
            policy: PolicyParameters::default(),
            returning_only: false,
            remembered_pages: None,
            zones: None,
            segments: SegmentLayout::default(),
        }
    }

    /// The defaults for the largest queue that fits a flash file of `bytes` bytes.
    pub fn for_flash_bytes(page_size: u32, bytes: u64) -> Self {
        Self::for_flash_bytes_of(Design::FaceGsc, page_size, bytes)
    }

    /// [`Self::new`] for a design. A design that goes around flash with what is dirty admits clean pages
    /// alone, and one that needs disk to have everything writes through.
    pub fn of(design: Design, page_size: u32, frames: u64) -> Self {
        let admission = if design == Design::Exadata { Admission::Clean } else { Admission::Both };
        let sync_mode = if design.has_slots() { SyncMode::Through } else { SyncMode::Durable };
        Self { design, admission, sync_mode, ..Self::new(page_size, frames) }
    }

    /// [`Self::for_flash_bytes`] for a design: what lies beside the pages differs.
    pub fn for_flash_bytes_of(design: Design, page_size: u32, bytes: u64) -> Self {
        let most = bytes / u64::from(page_size.max(1));
        Self::largest(bytes, most.min(FRAMES_MAX), |frames| Self::of(design, page_size, frames))
    }

    /// [`Self::for_flash_bytes_of`] on a device with such zones: the largest queue of whole zones.
    pub fn for_zones_of(design: Design, page_size: u32, bytes: u64, zones: TierZones) -> Self {
        let frames = (zones.capacity_bytes / u64::from(page_size.max(1))).max(1);
        let most = (bytes / zones.zone_bytes.max(1)).min(FRAMES_MAX / frames);
        Self::largest(bytes, most, |count| Self::of(design, page_size, count * frames).on_zones(zones))
    }

    /// What `of` makes of the largest number up to `most` with which the tier fits `bytes` bytes, or is too
    /// small for one. The metadata's share depends on the number of frames, so it is searched for.
    fn largest(bytes: u64, most: u64, of: impl Fn(u64) -> Self) -> Self {
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let fits = of(middle).geometry().map_or(true, |geometry| geometry.flash_bytes() <= bytes);
            if fits { low = middle } else { high = middle - 1 }
        }
        of(low)
    }

    /// Bytes of the smallest flash file that [`Self::for_flash_bytes`] can use; `None` for a page size that
    /// cannot be used.
    pub fn flash_bytes_min(page_size: u32) -> Option<u64> {
        let sizes = (1..FRAMES_OF_SMALLEST).map(|frames| Self::new(page_size, frames).geometry());
        sizes.flatten().next().map(|geometry| geometry.flash_bytes())
    }

    /// The same queue with room to grow in a flash file of `bytes` bytes: as many frames as fit there beside
    /// the metadata that they need. Memory is taken for all of them. A tier whose design writes in place
    /// stays as large as it is.
    ///
    /// So does one on zones.
    #[must_use]
    pub fn with_room_in(&self, bytes: u64) -> Self {
        if self.design.writes_in_place() || self.zones.is_some() {
            return Self { frames_max: self.frames, ..self.clone() };
        }
        let with = |frames_max| Self { frames_max, ..self.clone() };
        let fits = |frames| with(frames).geometry().is_ok_and(|geometry| geometry.flash_bytes() <= bytes);
        let most = (bytes / u64::from(self.page_size.max(1))).min(FRAMES_MAX);
        let (mut low, mut high) = (self.frames, most.max(self.frames));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        with(low)
    }
    fn check_ranges(&self) -> Result<(), ConfigError> {
        let range = |name: &'static str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let nearest = value.clamp(low, high);
            Err(ConfigError::new(
                name,
                format!("{value} is not between {low} and {high}"),
                format!("use {nearest}"),
            ))
        };
        if !self.page_size.is_power_of_two() {
            return Err(ConfigError::new(
                "page_size",
                format!("{} is not a power of two", self.page_size),
                "use 4096, 8192, 16384 or 32768".into(),
            ));
        }
        range("page_size", self.page_size.into(), PAGE_SIZE_MIN.into(), PAGE_SIZE_MAX.into())?;
        range("group_pages", self.group_pages.into(), 1, GROUP_PAGES_MAX.into())?;
        range("staging_groups", self.staging_groups.into(), 2, STAGING_GROUPS_MAX.into())?;
        range("segment_frames", self.segment_frames.into(), 8, 1 << 20)?;
        range("survivors_max", self.survivors_max.into(), 0, u64::from(self.group_pages) - 1)
            .map_err(|error| error.explained("a group must keep one frame for the incoming page"))?;
        range("frames", self.frames, 1, FRAMES_MAX)?;
        range("frames_max", self.frames_max, 0, FRAMES_MAX)?;
        range("band_frames", self.band_frames, 1, self.frames)?;
        range("ahead_frames", self.ahead_frames, 0, self.frames / 2)
            .map_err(|error| error.explained("half of the queue must be left to its pages"))?;
        designs::check_foreign(self)?;
        if let Some(pages) = self.remembered_pages {
            if !self.returning_only {
                let reason = "a parameter of returning_only, which is off".into();
                return Err(ConfigError::new("remembered_pages", reason, "leave it out".into()));
            }
            range("remembered_pages", pages, 1, FRAMES_MAX)?;
        }
        range("shards", self.shards.into(), 1, 4096)?;
        if !self.shards.is_power_of_two() {
            return Err(ConfigError::new(
                "shards",
                format!("{} is not a power of two", self.shards),
                format!("use {}", self.shards.next_power_of_two()),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Design, TierConfig, TierZones};

    #[test]
    fn as_many_zones_as_fit_make_a_queue() {
        for (zone_bytes, capacity_bytes, bytes) in [
            (4 << 20, 3 << 20, 1 << 30),
            (4 << 20, 4 << 20, (1 << 30) + 4095),
            (64 << 20, 50 << 20, 40 << 30),
        ] {
            let zones = TierZones { zone_bytes, capacity_bytes };
            let config = TierConfig::for_zones_of(Design::FaceGsc, 4096, bytes, zones);
            let geometry = config.geometry().expect("it has room for a tier");
            assert!((bytes - zone_bytes..=bytes).contains(&(geometry.flash_bytes() + bytes % zone_bytes)));
            assert_eq!(config.frames % (capacity_bytes / 4096), 0);
            assert_eq!(geometry.zones(), Some(zones));
        }
        // What is too small for any tier says so, and does not take more than there is.
        let zones = TierZones { zone_bytes: 4 << 20, capacity_bytes: 3 << 20 };
        let error = TierConfig::for_zones_of(Design::FaceGsc, 4096, 12 << 20, zones).geometry().unwrap_err();
        assert_eq!(error.parameter, "frames");
        let error = TierConfig::for_zones_of(Design::Lru, 4096, 1 << 30, zones).geometry().unwrap_err();
        assert_eq!(error.parameter, "zones");
    }

    #[test]
    fn the_smallest_flash_file_can_be_used_and_none_below_it() {
        for page_size in [4096, 8192, 16384, 32768] {
            let least = TierConfig::flash_bytes_min(page_size).expect("a page size that can be used");
            let geometry = |bytes| TierConfig::for_flash_bytes(page_size, bytes).geometry();
            assert!(geometry(least).is_ok_and(|geometry| geometry.flash_bytes() <= least));
            assert!(geometry(least - 1).map_or(true, |geometry| geometry.flash_bytes() > least - 1));
        }
        assert_eq!(TierConfig::flash_bytes_min(5000), None);
    }
}
