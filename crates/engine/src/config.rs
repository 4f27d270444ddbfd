//! What a tier is configured to be, and the sizes that follow from it.

use std::fmt;

use crate::designs::{self, InPlace};
use crate::format::{
    RECORD_BYTES, SEGMENT_HEADER_BYTES, SLOT_BLOCK_BYTES, SLOT_BYTES, SLOT_HEADS, SUMMARY_HEADER_BYTES,
};
use crate::layout::Layout;
use crate::references::share_frames;
use crate::replacement::{Policy, Shape};

/// Smallest page in bytes.
pub const PAGE_SIZE_MIN: u32 = 4096;
/// Largest page in bytes.
pub const PAGE_SIZE_MAX: u32 = 32768;
/// Most pages in a group. The papers recommend at most an erase block: 64 or 128 pages.
pub const GROUP_PAGES_MAX: u32 = 256;
/// Most groups in staging memory.
pub const STAGING_GROUPS_MAX: u32 = 64;
/// Most frames: frame numbers are 32 bits, of which two values are taken.
pub const FRAMES_MAX: u64 = u32::MAX as u64 - 1;
/// The smallest queue of default parameters has fewer frames than this, whatever the page size.
const FRAMES_OF_SMALLEST: u64 = 1 << 14;
/// Where the metadata segments begin; superblocks lie below.
pub(crate) const SEGMENTS_OFFSET: u64 = 64 * 1024;
/// Alignment of the first frame.
const FRAMES_ALIGNMENT: u64 = 64 * 1024;
/// Segments that may be needed beyond those that cover the queue: one being written, one torn by a
/// crash, one whose first frames have just left.
const SPARE_SEGMENTS: u64 = 4;
/// Groups of free frames that only stage-out may use, so that a full queue can always be emptied.
pub(crate) const RESERVED_GROUPS: u64 = 3;

/// Groups that stage-out takes together at most.
pub(crate) const LANE_GROUPS_MAX: u32 = 8;

/// Which pages leave, and how: the FaCE designs append to a queue, the others write in place (a file each in `designs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Multi-version FIFO: pages at the front are read and written to disk one by one
    /// ("Flash as cache extension for online transactional workloads", section 4.3, Algorithm 1).
    FaceBasic,
    /// Group replacement: a whole group is read at the front with one I/O.
    FaceGr,
    /// Group second chance: as [`Design::FaceGr`], and referenced pages go to the rear again
    /// (section 4.3, "Group second chance").
    FaceGsc,
    /// Pages are written in place; the one leaves that was not referenced for the longest time.
    Lru,
    /// Pages are written in place and leave in the order in which they came.
    Fifo,
    /// Pages are written in place; a hand passes over them and takes one that was not referenced since it passed last.
    Clock,
    /// Lazy Cleaning: LRU-2, in place, with a cleaner in the background.
    Lc,
    /// Pages enter when they are read; LRU, in place; writes go around flash or back to it.
    Exadata,
    /// Cost-adjusted caching: Greedy-Dual, in place; pages that save more stay longer.
    Cac,
    /// Temperature-aware caching: pages enter when they are read, if their extent is hotter than the coldest; in place, written through, with a
    /// slot directory.
    Tac,
}

impl Design {
    /// How the design works if it writes in place; `None` for the queue of the FaCE designs.
    pub(crate) const fn in_place(self) -> Option<&'static InPlace> {
        match self {
            Self::FaceBasic | Self::FaceGr | Self::FaceGsc => None,
            Self::Lru => Some(&designs::LRU),
            Self::Fifo => Some(&designs::FIFO),
            Self::Clock => Some(&designs::CLOCK),
            Self::Lc => Some(&designs::LC),
            Self::Exadata => Some(&designs::EXADATA),
            Self::Cac => Some(&designs::CAC),
            Self::Tac => Some(&designs::TAC),
        }
    }

    /// Whether pages are written in place, at random, instead of being appended to a queue. Such a tier has another layout on flash.
    pub const fn writes_in_place(self) -> bool {
        self.in_place().is_some()
    }

    /// Whether a tier that was formatted for one of the two can be used with the other: both lay their pages and what is said of them out alike.
    pub const fn is_laid_out_like(self, other: Self) -> bool {
        const fn layout(design: Design) -> (bool, bool) {
            match design.in_place() {
                Some(design) => (true, design.slots),
                None => (false, false),
            }
        }
        let (own, other) = (layout(self), layout(other));
        own.0 == other.0 && own.1 == other.1
    }

    /// Whether a slot directory on flash says at every moment what the tier holds: see [`crate::Tier::disk_synced`].
    pub const fn has_slots(self) -> bool {
        match self.in_place() {
            Some(design) => design.slots,
            None => false,
        }
    }

    /// Whether a page is to be offered when it was read from disk, and not when it leaves the host's memory.
    pub const fn admits_on_entry(self) -> bool {
        match self.in_place() {
            Some(design) => design.on_entry,
            None => false,
        }
    }
}

/// Parameters of designs that write in place, each for the designs that it names. `None` is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// `lc`: references after which another one to the same page counts as a new one. Default: an eighth of the frames.
    pub correlated_period: Option<u64>,
    /// `lc`: pages that have left whose last reference is remembered. Default: as many as there are frames.
    pub history: Option<u64>,
    /// `lc`: share of the frames in per cent that may hold pages newer than disk before the cleaner writes the coldest. Default: 50.
    pub dirty_percent: Option<u32>,
    /// `exadata`: dirty pages go to flash, and to disk when they leave it. Otherwise they go around it, and admission must be `clean`.
    pub write_back: bool,
    /// `tac`: pages of an extent, whose temperature they share. Default: 32.
    pub extent_pages: Option<u64>,
    /// `tac`: references after which all temperatures are halved. Default: as many as there are frames.
    pub ageing_period: Option<u64>,
    /// `tac`: what a random reference counts for, where one in sequence is 1. Default: 94.
    pub random_weight: Option<u64>,
    /// `tac`: extents without a page in the tier whose temperature is remembered. Default: as many as there are frames.
    pub extents: Option<u64>,
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
    /// Group summaries that flash has room for.
    pub(crate) journal_groups: u64,
    pub(crate) journal_offset: u64,
    /// Positions that are left to records that are appended again.
    pub(crate) slack: u64,
    /// Homes that are to be free, or on their way to it: a reserve, and a band of disk writes, so that the disk is synced once for all of it.
    pub(crate) kept_coming: u64,
    /// Which page leaves; and which dirty page is cleaned, if the design has a cleaner.
    pub(crate) order: (Policy, Shape),
    pub(crate) dirty_order: Option<(Policy, Shape)>,
    /// Dirty pages above which the cleaner works.
    pub(crate) dirty_max: u64,
    /// The policy is asked which pages may come in.
    pub(crate) selective: bool,
    /// For designs with a slot directory, which have no journal.
    pub(crate) slots: Option<SlotGeometry>,
}

impl SlotGeometry {
    fn of(homes: u32, group_pages: u32) -> Self {
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

/// Which pages may enter (the same paper, section 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Clean pages only; dirty ones go to disk.
    Clean,
    /// Dirty pages only.
    Dirty,
    /// Clean and dirty pages.
    Both,
}

/// What a dirty page's entry into flash means for its disk copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// To flash and disk at once: losing the flash device loses nothing.
    Through,
    /// To flash first; everything older than the redo pointer is on disk before a database's checkpoint
    /// completes, so that losing the flash device costs an ordinary crash recovery. For hosts with a log.
    Drained,
    /// Flash is part of the database: FaCE as published.
    Durable,
}

macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident = $code:literal $name:literal),+) => {
        impl $type {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(crate) const fn code(self) -> u8 {
                match self { $(Self::$variant => $code),+ }
            }

            pub(crate) const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }

            /// The name used in configuration and output.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|value| value.name() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!("unknown {} '{text}'; known: {}", $what, known.join(", "))
                })
            }
        }
    };
}

names!(
    Design, "design", FaceBasic = 1 "face-basic", FaceGr = 2 "face-gr", FaceGsc = 3 "face-gsc", Lru = 4 "lru",
    Fifo = 5 "fifo", Clock = 6 "clock", Lc = 7 "lc", Exadata = 8 "exadata", Cac = 9 "cac",
    Tac = 10 "tac"
);
names!(Admission, "admission", Clean = 1 "clean", Dirty = 2 "dirty", Both = 3 "both");
names!(SyncMode, "sync mode", Through = 1 "through", Drained = 2 "drained", Durable = 3 "durable");

/// The parameters of a tier. [`TierConfig::geometry`] checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierConfig {
    /// Page size in bytes: a power of two from 4 to 32 KiB.
    pub page_size: u32,
    /// Frames of the queue, including those that hold group summaries. For designs that write in place: frames that hold pages.
    pub frames: u64,
    /// Pages written together: in one sequential write, or each in its place with one summary for all.
    pub group_pages: u32,
    /// Groups kept in memory until they are flushed.
    pub staging_groups: u32,
    /// Frames whose directory entries make up one metadata segment; at most so many where pages are written in place.
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
    /// Frames staged out between two syncs of the disk.
    pub band_frames: u64,
    /// Frames staged out ahead of need while the disk is idle; the busier it is, the fewer.
    pub ahead_frames: u64,
    /// Frames up to which the queue can be made to grow while it is in use: memory and flash are laid out for so many.
    /// Less than `frames` counts as `frames`.
    pub frames_max: u64,
    /// Parameters of designs that write in place.
    pub placement: Placement,
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
            band_frames: (frames / 16).max(u64::from(group_pages)),
            ahead_frames: frames / 16,
            frames_max: frames,
            placement: Placement::default(),
        }
    }

    /// The defaults for the largest queue that fits a flash file of `bytes` bytes.
    pub fn for_flash_bytes(page_size: u32, bytes: u64) -> Self {
        Self::for_flash_bytes_of(Design::FaceGsc, page_size, bytes)
    }

    /// [`Self::new`] for a design. A design that goes around flash with what is dirty admits clean pages alone, and one that needs disk to have
    /// everything writes through.
    pub fn of(design: Design, page_size: u32, frames: u64) -> Self {
        let admission = if design == Design::Exadata { Admission::Clean } else { Admission::Both };
        let sync_mode = if design.has_slots() { SyncMode::Through } else { SyncMode::Durable };
        Self { design, admission, sync_mode, ..Self::new(page_size, frames) }
    }

    /// [`Self::for_flash_bytes`] for a design: what lies beside the pages differs.
    pub fn for_flash_bytes_of(design: Design, page_size: u32, bytes: u64) -> Self {
        let page = u64::from(page_size.max(1));
        let of = |frames| Self::of(design, page_size, frames);
        let fits = |frames: u64| of(frames).geometry().is_ok_and(|geometry| geometry.flash_bytes() <= bytes);
        // The metadata's share depends on the number of frames, so the number is searched for.
        let (mut low, mut high) = (0, (bytes / page).min(FRAMES_MAX));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let too_small = of(middle).geometry().is_err();
            if too_small || fits(middle) { low = middle } else { high = middle - 1 }
        }
        of(low)
    }

    /// Bytes of the smallest flash file that [`Self::for_flash_bytes`] can use; `None` for a page size that cannot be used.
    pub fn flash_bytes_min(page_size: u32) -> Option<u64> {
        let sizes = (1..FRAMES_OF_SMALLEST).map(|frames| Self::new(page_size, frames).geometry());
        sizes.flatten().next().map(|geometry| geometry.flash_bytes())
    }

    /// The same queue with room to grow in a flash file of `bytes` bytes: as many frames as fit there beside the metadata
    /// that they need. Memory is taken for all of them. A tier whose design writes in place stays as large as it is.
    #[must_use]
    pub fn with_room_in(&self, bytes: u64) -> Self {
        if self.design.writes_in_place() {
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
        let segment_records = 2 * u64::from(self.segment_frames) + u64::from(records_max) + 1;
        let records_end =
            (SEGMENT_HEADER_BYTES as u64 + segment_records * RECORD_BYTES as u64).next_multiple_of(4096);
        // Room for the reference bits whatever the design, which may change from one opening to the next.
        let frames_max = self.frames_max.max(self.frames);
        let share_bytes = share_frames(frames_max) / 8;
        let segment_bytes = records_end + share_bytes.next_multiple_of(4096);
        let segment_slots = frames_max.div_ceil(u64::from(self.segment_frames)) + SPARE_SEGMENTS;
        let frames_offset =
            (SEGMENTS_OFFSET + segment_slots * segment_bytes).next_multiple_of(FRAMES_ALIGNMENT);
        // The front moves on while fewer frames than these are free: the groups that only stage-out may
        // use, and those that come in until the flush that makes a new front durable. Stage-out keeps
        // more than that ready: the band whose disk writes are not yet synced.
        let staging_groups = u64::from(self.staging_groups);
        let free_frames = (RESERVED_GROUPS + 3 + staging_groups / 2) * group_frames;
        let ready_frames = self.band_frames + free_frames;
        // Recovery scans at most two segments' worth of groups and those in staging memory; until they are
        // in a durable segment they keep their frames, beside those that are kept ready.
        let scanned = 2 * (u64::from(self.segment_frames) + group_frames) + staging_groups * group_frames;
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
        // A flush for each half of staging memory leaves the durable front that far behind. As much again is kept free,
        // as far as a 64th of the queue allows, or writers would be short of frames just before each flush and hurry it.
        // A queue that hardly suffices does without.
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
            segment_frames: self.segment_frames.into(),
            frames_offset,
            free_frames,
            ready_frames,
            placed: None,
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
        let page = u64::from(self.page_size);
        let (group_pages, staging_groups) = (u64::from(self.group_pages), u64::from(self.staging_groups));
        let group_frames = u64::from(summary_frames) + group_pages;
        // Homes of pages in staging memory, of the versions that they supersede, and of pages on their way to disk.
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
        // While the records at the front are all valid, as many are appended again as leave, and each time that the front moves a
        // group without pages may have to carry it: what those take until it has been past every valid record.
        let valid = (self.frames * group_frames).div_ceil(group_pages);
        let slack = 2 * (valid * u64::from(summary_frames)).div_ceil(free_frames) + group_frames;
        let ready_frames = free_frames + group_frames + slack;
        // A record is appended again when the queue has come round: with twice the records that are needed at most every other one.
        let positions = 2 * valid + 4 * ready_frames;
        let segment_bytes =
            (SEGMENT_HEADER_BYTES as u64 + segment_records * RECORD_BYTES as u64).next_multiple_of(4096);
        let segment_slots = positions.div_ceil(segment_frames) + SPARE_SEGMENTS;
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
            let shape = design.policy.shape(self.frames, &(cleaner.parameters)(&self.placement))?;
            dirty_order = Some((design.policy, shape));
            dirty_max = self.frames * u64::from((cleaner.dirty_percent)(&self.placement)) / 100;
        }
        let placed = PlacedGeometry {
            homes,
            positions,
            journal_groups,
            journal_offset,
            slack,
            kept_coming: staged + self.band_frames,
            order: (design.policy, design.policy.shape(self.frames, &(design.parameters)(&self.placement))?),
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
            frames_offset: (journal_offset + journal_bytes).next_multiple_of(FRAMES_ALIGNMENT),
            free_frames: ready_frames,
            ready_frames,
            placed: Some(placed),
            layout: Layout::default(),
        };
        geometry.layout = Layout::compute(&geometry);
        Ok(geometry)
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

/// A parameter that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The parameter.
    pub parameter: &'static str,
    /// Why its value cannot be used.
    pub reason: String,
    /// What to do.
    pub advice: String,
}

impl ConfigError {
    pub(crate) fn new(parameter: &'static str, reason: String, advice: String) -> Self {
        Self { parameter, reason, advice }
    }

    fn explained(mut self, why: &str) -> Self {
        self.reason = format!("{}: {why}", self.reason);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.parameter, self.reason, self.advice)
    }
}

impl std::error::Error for ConfigError {}

/// A checked configuration and all sizes that follow from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    config: TierConfig,
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
    pub(crate) frames_offset: u64,
    pub(crate) free_frames: u64,
    pub(crate) ready_frames: u64,
    /// For designs that write in place.
    pub(crate) placed: Option<PlacedGeometry>,
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

    /// Frames of the queue.
    #[inline]
    pub fn frames(&self) -> u64 {
        self.config.frames
    }

    /// Frames up to which the queue can grow.
    pub fn frames_max(&self) -> u64 {
        self.config.frames_max.max(self.config.frames)
    }

    /// Entries of the directory: frames of the queue, or positions of the queue of records of a design that writes in place.
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

    /// Byte offset on flash of the summary of a group, for designs that write in place.
    pub(crate) fn journal_offset(&self, placed: &PlacedGeometry, sequence: u64) -> u64 {
        let bytes = self.summary_frames() * u64::from(self.config.page_size);
        placed.journal_offset + sequence % placed.journal_groups * bytes
    }

    /// Pages of a full group.
    pub fn group_pages(&self) -> u64 {
        u64::from(self.config.group_pages)
    }

    /// Frames of a full group: its pages and its summary.
    pub fn group_frames(&self) -> u64 {
        self.group_frames
    }

    /// Full groups that stage-out can carry at once: half of what staging memory holds, so that its own memory stays in
    /// proportion, and enough that a lag of the size of staging memory is made up for in two turns.
    fn lane_groups(&self) -> u64 {
        u64::from((self.config.staging_groups / 2).clamp(1, LANE_GROUPS_MAX))
    }

    /// Frames that fit into the stage-out buffer.
    pub(crate) fn lane_frames(&self) -> u64 {
        self.lane_groups() * self.group_frames
    }

    /// Pages that stage-out can carry at once.
    pub(crate) fn lane_pages(&self) -> u64 {
        self.lane_groups() * self.group_pages()
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
        self.frames_offset + self.frames_max() * u64::from(self.config.page_size)
    }

    /// Bytes of flash taken by metadata segments.
    pub fn metadata_bytes(&self) -> u64 {
        self.segment_slots * self.segment_bytes
    }

    /// Whether a tier of this configuration can never hold the only copy of a page.
    pub fn provably_clean(&self) -> bool {
        self.config.sync_mode == SyncMode::Through || self.config.admission == Admission::Clean
    }

    /// Byte offset on flash of a frame.
    #[inline]
    pub(crate) fn offset_of_frame(&self, frame: u32) -> u64 {
        self.frames_offset + u64::from(frame) * u64::from(self.config.page_size)
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

#[cfg(test)]
mod tests {
    use super::TierConfig;

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
