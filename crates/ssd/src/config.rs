//! What a drive is made of and how it is set up.

use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::geometry::{BLOCKS_PER_PLANE_MAX, Geometry, MB_PER_S_MIN, NandTimings};
use crate::power::PowerLossConfig;

/// Write streams that hosts can tell apart.
pub const STREAMS_MAX: u32 = 8;

/// A drive.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SsdConfig {
    /// Bytes that the host sees; the rest of the flash is over-provisioning.
    pub capacity_bytes: u64,
    /// The flash.
    pub geometry: Geometry,
    /// How long flash takes.
    pub timings: NandTimings,
    /// The translation layer.
    pub ftl: FtlConfig,
    /// The write buffer, and what a flush does to it.
    pub cache: CacheConfig,
    /// Between the host and the buffer.
    pub host: HostConfig,
    /// What a power cut may do to a drive whose cache is not durable. None = as
    /// [`PowerLossConfig::default`].
    #[serde(default)]
    pub power_loss: Option<PowerLossConfig>,
}

/// Which block is collected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Collection {
    /// The one with the fewest valid units.
    Greedy,
    /// The one with the largest (1 - u) * age / 2u, where u is its share of valid units (Kawaguchi et al., "A
    /// flash-memory based file system", section 3.4).
    CostBenefit,
    /// The one that was filled first.
    Fifo,
}

/// Where collection appends what it moves: the open block is the write frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectionFrontier {
    /// To an open block of its own on each plane.
    #[default]
    Separate,
    /// To the only open block of a plane, which the host's writes and the map's go to as well. For drives of
    /// one stream that collect whole blocks.
    Shared,
}

/// When the units of a block that is collected are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectionPace {
    /// A few with each page that is programmed from outside, so that no write waits for long.
    #[default]
    Incremental,
    /// All of a block at once, before the next page is programmed to an open block of a plane that has fewer
    /// erased blocks than it is to hold back.
    WholeBlock,
}

/// Parameters of the translation layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FtlConfig {
    /// Which block is collected next.
    pub collection: Collection,
    /// Where what is moved goes.
    #[serde(default)]
    pub collection_frontier: CollectionFrontier,
    /// When it is moved.
    #[serde(default)]
    pub collection_pace: CollectionPace,
    /// Erased blocks that each plane holds back; at fewer it collects. At least one for each stream, one for
    /// the journal if there is one, and one for what collection moves.
    pub reserve_blocks_per_plane: u32,
    /// Write streams that the host may tell apart, each with an open block on each plane.
    pub streams: u32,
    /// Entries of the map that may be newer than flash has them. A program has to wait while they are.
    pub dirty_entries_max: u32,
    /// Whether the map is journalled to flash at all. Without, it is as if in memory that outlives the power
    /// at no cost: a start has of it what was in flash, nothing of it is dumped, and its writes are neither
    /// made nor counted.
    pub journal: bool,
    /// Erases between the least and the most worn block of a plane from which on the least worn one is
    /// collected whatever it holds (static wear levelling). 0 = never.
    pub wear_gap_max: u32,
    /// Erases that a block lives. One that has come to its end is taken out of use where its plane has two
    /// erased ones beside it, and there is room for all that the host may write without it. Otherwise it is
    /// used on, and counted all the same ([`Counters::blocks_worn_out`](crate::Counters::blocks_worn_out)).
    pub endurance_erases: u32,
    /// Blocks that are bad from the beginning, per thousand.
    pub bad_blocks_per_thousand: u32,
    /// Whether a page is copied elsewhere before another one is programmed into the same cells, so that a
    /// power cut meanwhile does not take it along. Takes a plane a read and a program.
    #[serde(default)]
    pub backs_up_paired_pages: bool,
}

/// What a write cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// A write is complete when it is in flash.
    None,
    /// A write is complete when it is in the buffer, which a power cut takes away.
    Volatile,
    /// A write is complete when it is in the buffer, which capacitors carry through a power cut.
    Durable,
}

/// What a flush does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushRule {
    /// All that is in the buffer goes to flash, and the map's journal.
    Drain,
    /// What came before is kept before what comes after; nothing is written for it. For durable caches.
    OrderingPoint,
}

/// What the firmware takes for a flush besides what it writes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum FlushTime {
    /// Always as much.
    Same(f64),
    /// By the mapping units written since the flush before: pairs of a number of units and a time in
    /// microseconds, with straight lines between them over the logarithm of the number. For drives of which
    /// nothing but this is known.
    ByUnits(Vec<(f64, f64)>),
}

impl FlushTime {
    /// In microseconds.
    pub(crate) fn after(&self, units: u64) -> f64 {
        let points = match self {
            Self::Same(us) => return *us,
            Self::ByUnits(points) => points,
        };
        let units = (units as f64).max(1.0);
        let after = points.iter().position(|(at, _)| *at >= units);
        match after {
            None => points.last().map_or(0.0, |(_, us)| *us),
            Some(0) => points[0].1,
            Some(after) => {
                let ((low, from), (high, to)) = (points[after - 1], points[after]);
                from + (to - from) * (units / low).ln() / (high / low).ln()
            }
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let good = |us: &f64| us.is_finite() && (0.0..=1e7).contains(us);
        let points = match self {
            Self::Same(us) if good(us) => return Ok(()),
            Self::Same(us) => {
                return Err(ConfigError::new("flush_us", format!("must be from 0 to 10^7, not {us}")));
            }
            Self::ByUnits(points) => points,
        };
        let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let fit = points.iter().all(|(units, us)| *units >= 1.0 && units.is_finite() && good(us));
        if points.is_empty() || !rising || !fit {
            let reason = "must be a time, or pairs of units (from 1 on, rising) and times from 0 to 10^7";
            return Err(ConfigError::new("flush_us", reason.to_owned()));
        }
        Ok(())
    }
}

/// Parameters of the write buffer.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CacheConfig {
    /// What becomes of it when the power fails.
    pub kind: CacheKind,
    /// Bytes of it.
    pub buffer_bytes: u64,
    /// What a flush does.
    pub flush: FlushRule,
    /// What the firmware takes for a flush besides what it writes.
    pub flush_us: FlushTime,
    /// What the capacitors of a durable cache carry.
    pub dump: Option<DumpConfig>,
    /// Whether a read needs a frame of the buffer too, and waits while all are dirty (section 2 of the
    /// DuraSSD paper: reads blocked by writes).
    pub reads_take_frames: bool,
}

/// Parameters of the way between host and buffer.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Commands that are under way at most.
    pub queue_depth: u32,
    /// Whether commands are completed in the order in which they came (ordered NCQ, section 3.3 of the
    /// DuraSSD paper).
    pub ordered: bool,
    /// Rate of the link, in 10^6 bytes per second.
    pub link_mb_per_s: f64,
    /// What the link and the firmware take for a command, one after the other.
    pub command_us: f64,
    /// What the firmware takes for each mapping unit that is written, one after the other.
    pub write_unit_us: f64,
    /// What a command takes in addition before it begins, beside others.
    pub latency_us: f64,
}

impl SsdConfig {
    /// Reads a drive from the text of a TOML table.
    ///
    /// # Errors
    /// The line or the key that is wrong.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self =
            toml::from_str(text).map_err(|error| ConfigError::new("model", error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// # Errors
    /// The first parameter that cannot be.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.geometry.check()?;
        self.timings.check()?;
        self.ftl.check(&self.geometry)?;
        self.cache.check(&self.geometry)?;
        self.host.check()?;
        if let Some(power_loss) = &self.power_loss {
            power_loss.check(self.cache.kind, self.ftl.journal)?;
        }
        let unit = u64::from(self.geometry.unit_bytes);
        if self.capacity_bytes == 0 || self.capacity_bytes % unit != 0 {
            let reason = format!("must be a multiple of unit_bytes ({unit}), not {}", self.capacity_bytes);
            return Err(ConfigError::new("capacity_bytes", reason));
        }
        let (logical, most) = (self.capacity_bytes / unit, self.capacity_units_max());
        if logical > most {
            let reason = format!(
                "is {logical} units, and flash has room for {most}: {} without blocks that are held back, open or \
                 bad, and without the map",
                self.geometry.units()
            );
            return Err(ConfigError::new("capacity_bytes", reason));
        }
        self.cache.check_dump(self.dump_bytes_needed())
    }

    /// # Errors
    /// The first parameter of the way between host and drive that cannot be.
    pub(crate) fn check_host(&self) -> Result<(), ConfigError> {
        self.host.check()
    }

    /// The same drive with so many blocks on each plane, and as much less for the host: what is soon full,
    /// and takes as long for each operation.
    ///
    /// # Errors
    /// As of [`Self::check`].
    pub fn with_blocks_per_plane(&self, blocks_per_plane: u32) -> Result<Self, ConfigError> {
        let mut config = self.clone();
        let share = f64::from(blocks_per_plane) / f64::from(self.geometry.blocks_per_plane);
        config.geometry.blocks_per_plane = blocks_per_plane;
        config.geometry.check()?;
        let units = (f64::from(self.logical_units()) * share) as u64;
        let units = units.min(config.capacity_units_max());
        config.capacity_bytes = units * u64::from(self.geometry.unit_bytes);
        config.check()?;
        Ok(config)
    }

    /// The same drive with another capacity, as full: as many planes, with fewer or more blocks, and smaller
    /// ones where that is not enough. An operation takes as long; what collection has to do comes sooner.
    ///
    /// # Errors
    /// As of [`Self::check`]; a capacity for which flash would have to be more than four times as large, if
    /// this one's is not.
    pub fn with_capacity(&self, capacity_bytes: u64) -> Result<Self, ConfigError> {
        self.check()?;
        let share = self.capacity_bytes as f64 / self.geometry.bytes() as f64;
        let mut config = Self { capacity_bytes, ..self.clone() };
        let least = (2 * self.ftl.reserve_blocks_per_plane + 2).min(BLOCKS_PER_PLANE_MAX);
        // Pages share cells with others in their block, and collection wants some to choose from.
        let pages_least = (2 * self.geometry.paired_distance).max(4);
        loop {
            config.geometry.blocks_per_plane = 1;
            let row = config.geometry.bytes();
            let blocks = (capacity_bytes as f64 / share / row as f64).ceil() as u64;
            config.geometry.blocks_per_plane = blocks.clamp(least.into(), BLOCKS_PER_PLANE_MAX.into()) as u32;
            let pages = config.geometry.pages_per_block;
            if blocks >= u64::from(least) || pages / 2 < pages_least {
                break;
            }
            config.geometry.pages_per_block = pages / 2;
        }
        let units = capacity_bytes / u64::from(self.geometry.unit_bytes);
        let most = 4.0_f64.max(2.0 / share) * capacity_bytes as f64;
        let has_room = |config: &Self| config.capacity_units_max() >= units;
        let may_grow = |config: &Self| {
            (config.geometry.bytes() as f64) < most
                && config.geometry.has_units_for_map()
                && config.geometry.blocks_per_plane < BLOCKS_PER_PLANE_MAX
        };
        while may_grow(&config) && !has_room(&config) {
            config.geometry.blocks_per_plane += 1;
        }
        if !config.geometry.has_units_for_map() {
            let reason = format!(
                "of {capacity_bytes} takes more than 2^31 mapping units of {} bytes of flash: give less, or a \
                 larger unit_bytes in the model",
                self.geometry.unit_bytes
            );
            return Err(ConfigError::new("capacity_bytes", reason));
        }
        if config.geometry.bytes() as f64 >= most {
            let reason = format!(
                "of {capacity_bytes} is too little for {} planes and a buffer of {} bytes: give more, or fewer \
                 channels and a smaller buffer in the model",
                self.geometry.planes(),
                self.cache.buffer_bytes
            );
            return Err(ConfigError::new("capacity_bytes", reason));
        }
        config.check()?;
        Ok(config)
    }

    /// Mapping units that the host sees.
    pub fn logical_units(&self) -> u32 {
        (self.capacity_bytes / u64::from(self.geometry.unit_bytes)) as u32
    }

    /// Mapping units that the host can be given: what is not held back, open, bad or the map's.
    pub fn capacity_units_max(&self) -> u64 {
        let room = self.geometry.units_of_any().saturating_sub(self.held_units());
        if !self.ftl.journal {
            return room;
        }
        // The map and its journal have 4 bytes each for a unit, in whole pages.
        let per_page = u64::from(self.geometry.units_per_page());
        let page_bytes = u64::from(self.geometry.page_bytes);
        let map_of = |units: u64| 2 * per_page * (4 * units).div_ceil(page_bytes);
        let near = room * page_bytes / (page_bytes + 8 * per_page);
        (0..=2 * per_page)
            .map(|less| near.saturating_sub(less))
            .find(|units| units + map_of(*units) <= room)
            .unwrap_or(0)
    }

    /// Frames of the buffer, of a mapping unit each.
    pub(crate) fn buffer_frames(&self) -> u32 {
        (self.cache.buffer_bytes / u64::from(self.geometry.unit_bytes.max(1))) as u32
    }

    /// Units that can hold nothing for long: of the reserve, of open blocks and those that are collected, of
    /// bad ones.
    fn held_units(&self) -> u64 {
        let planes = u64::from(self.geometry.planes());
        let per_plane = u64::from(self.ftl.reserve_blocks_per_plane)
            + u64::from(self.ftl.streams)
            + u64::from(self.ftl.journal)
            + 2;
        let bad =
            (self.geometry.blocks_of_any() * u64::from(self.ftl.bad_blocks_per_thousand)).div_ceil(1000);
        // Less garbage than is worth it stays in a block; a unit in the buffer has its version of before in
        // flash.
        let rest = self.geometry.blocks_of_any() * u64::from(self.gain_units_min().saturating_sub(1));
        let buffered = u64::from(self.buffer_frames());
        // So have two pages of the map.
        let map = 2 * u64::from(self.geometry.units_per_page());
        (planes * per_plane + bad) * u64::from(self.geometry.units_per_block()) + rest + buffered + map
    }

    /// Units that collecting a block has to free at least: a page, as what is moved fills whole ones. And
    /// twice what it takes to journal what is moved, or the journal would make the work that it writes: for
    /// each page of entries, a page of the map is written as well.
    pub(crate) fn gain_units_min(&self) -> u32 {
        let (page, block) = (self.geometry.units_per_page(), self.geometry.units_per_block());
        let entries = (self.geometry.page_bytes / crate::ftl::JOURNAL_ENTRY_BYTES).max(1);
        let journalled = u64::from(block) * 4 * u64::from(page) / u64::from(entries);
        let least = if self.ftl.journal { journalled as u32 } else { 0 };
        least.next_multiple_of(page).clamp(page, block.max(page))
    }

    /// Blocks that each plane can lose to wear: the host's units find room without them.
    pub(crate) fn spare_blocks_per_plane(&self) -> u32 {
        let spare = self.capacity_units_max().saturating_sub(self.logical_units().into());
        let per_block = u64::from(self.geometry.units_per_block()) * u64::from(self.geometry.planes());
        (spare / per_block) as u32
    }

    /// Units that the map's pages and its journal take on flash.
    pub(crate) fn map_units(&self) -> u64 {
        if !self.ftl.journal {
            return 0;
        }
        2 * u64::from(self.map_pages()) * u64::from(self.geometry.units_per_page())
    }

    /// Entries of the map that may be in no page of the journal when the power fails, but for those of units
    /// that are dumped themselves. Each unit has one at most.
    ///
    /// Beside the [`FtlConfig::dirty_entries_max`] that are counted when programs begin, there are those that
    /// fill the next page of the journal, and those that planes have still to do by then: a buffer may be
    /// given to planes at once, and each unit of it has collection move no more than a block without a page.
    /// Whole blocks are collected as many as it takes, so there all entries may have changed.
    fn changed_entries_max(&self) -> u64 {
        let logical = self.capacity_bytes / u64::from(self.geometry.unit_bytes.max(1));
        if !self.ftl.journal {
            return 0;
        }
        if self.ftl.collection_pace == CollectionPace::WholeBlock {
            return logical;
        }
        let queued = u64::from(self.buffer_frames()) * u64::from(self.geometry.pages_per_block);
        let of_page = u64::from(self.geometry.page_bytes / crate::ftl::JOURNAL_ENTRY_BYTES);
        logical.min(u64::from(self.ftl.dirty_entries_max) + of_page + queued)
    }

    /// Bytes that a durable cache may have to dump: what its capacitors have to carry ([`DumpConfig`]).
    pub fn dump_bytes_needed(&self) -> u64 {
        let frame = u64::from(self.geometry.unit_bytes) + 4;
        u64::from(self.buffer_frames()) * frame
            + self.changed_entries_max().saturating_mul(crate::ftl::JOURNAL_ENTRY_BYTES.into())
    }

    /// Flash pages that the whole map takes.
    pub(crate) fn map_pages(&self) -> u32 {
        let bytes = 4 * self.capacity_bytes / u64::from(self.geometry.unit_bytes);
        bytes.div_ceil(u64::from(self.geometry.page_bytes)) as u32
    }

    /// Mapping units that the host has filled, as a share of what is not held back: what write amplification
    /// follows from. Over-provisioning says less, for blocks that are held back hold nothing.
    pub fn effective_utilisation(&self) -> f64 {
        let reserve = u64::from(self.geometry.planes())
            * u64::from(self.ftl.reserve_blocks_per_plane)
            * u64::from(self.geometry.units_per_block());
        f64::from(self.logical_units()) / (u64::from(self.geometry.units()) - reserve) as f64
    }
}

impl FtlConfig {
    fn check(&self, geometry: &Geometry) -> Result<(), ConfigError> {
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            let reason = format!("must be from 1 to {STREAMS_MAX}, not {}", self.streams);
            return Err(ConfigError::new("streams", reason));
        }
        if self.collection_frontier == CollectionFrontier::Shared {
            if self.streams > 1 {
                let reason = format!("\"shared\" is for drives of one stream, not of {}", self.streams);
                return Err(ConfigError::new("collection_frontier", reason));
            }
            if self.collection_pace == CollectionPace::Incremental {
                // Writes could fill the block in which what is still to be moved has its place.
                let reason = "\"shared\" needs collection_pace = \"whole_block\"";
                return Err(ConfigError::new("collection_frontier", reason.to_owned()));
            }
        }
        let (least, most) = (self.streams + u32::from(self.journal) + 1, geometry.blocks_per_plane / 2);
        if !(least..=most).contains(&self.reserve_blocks_per_plane) {
            let reason = format!(
                "must be from {least} (streams, journal and collection) to {most} (half of a plane), not {}",
                self.reserve_blocks_per_plane
            );
            return Err(ConfigError::new("reserve_blocks_per_plane", reason));
        }
        let entries = geometry.page_bytes / crate::ftl::JOURNAL_ENTRY_BYTES;
        if self.journal && self.dirty_entries_max < entries {
            let reason = format!(
                "must be at least the {entries} of a page of the journal, not {}",
                self.dirty_entries_max
            );
            return Err(ConfigError::new("dirty_entries_max", reason));
        }
        if self.endurance_erases == 0 {
            return Err(ConfigError::new("endurance_erases", "must be above 0".to_owned()));
        }
        if self.bad_blocks_per_thousand > 200 {
            let reason = format!("must be at most 200, not {}", self.bad_blocks_per_thousand);
            return Err(ConfigError::new("bad_blocks_per_thousand", reason));
        }
        Ok(())
    }
}

/// What capacitors carry when the power fails.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DumpConfig {
    /// How long.
    pub hold_up_ms: f64,
    /// How fast the dump area is written meanwhile, in 10^6 bytes per second.
    pub mb_per_s: f64,
}

impl CacheConfig {
    /// Bytes that the capacitors carry to the dump area.
    pub fn dump_bytes_max(&self) -> Option<u64> {
        self.dump.map(|dump| (dump.hold_up_ms * dump.mb_per_s * 1e3).round() as u64)
    }

    /// `needed` is how many bytes there may be to dump.
    fn check_dump(&self, needed: u64) -> Result<(), ConfigError> {
        let Some(dump) = self.dump else {
            let needed = self.kind == CacheKind::Durable;
            let reason = "is missing: a durable cache needs hold_up_ms and mb_per_s of its capacitors";
            return if needed { Err(ConfigError::new("dump", reason.to_owned())) } else { Ok(()) };
        };
        for (key, value) in [("hold_up_ms", dump.hold_up_ms), ("mb_per_s", dump.mb_per_s)] {
            if !(value.is_finite() && value > 0.0 && value <= 1e6) {
                return Err(ConfigError::new(key, format!("must be above 0 and at most 10^6, not {value}")));
            }
        }
        let carried = self.dump_bytes_max().unwrap_or(0);
        if self.kind == CacheKind::Durable && needed > carried {
            let reason = format!(
                "carries {carried} bytes, and buffer and changed entries of the map may be {needed}: use a \
                 smaller buffer_bytes or dirty_entries_max, collection_pace = \"incremental\", or more hold_up_ms"
            );
            return Err(ConfigError::new("dump", reason));
        }
        Ok(())
    }

    fn check(&self, geometry: &Geometry) -> Result<(), ConfigError> {
        let least = u64::from(geometry.page_bytes) * 2;
        if self.buffer_bytes < least || self.buffer_bytes > 1 << 36 {
            let reason = format!("must be from {least} (two flash pages) to 2^36, not {}", self.buffer_bytes);
            return Err(ConfigError::new("buffer_bytes", reason));
        }
        self.flush_us.check()?;
        if self.flush == FlushRule::OrderingPoint && self.kind != CacheKind::Durable {
            let reason = "\"ordering_point\" keeps nothing unless the cache is durable; use \"drain\"";
            return Err(ConfigError::new("flush", reason.to_owned()));
        }
        Ok(())
    }
}

impl HostConfig {
    fn check(&self) -> Result<(), ConfigError> {
        if !(1..=65_536).contains(&self.queue_depth) {
            let reason = format!("must be from 1 to 65536, not {}", self.queue_depth);
            return Err(ConfigError::new("queue_depth", reason));
        }
        if !(self.link_mb_per_s.is_finite() && self.link_mb_per_s >= MB_PER_S_MIN) {
            let reason = format!("must be at least {MB_PER_S_MIN}, not {}", self.link_mb_per_s);
            return Err(ConfigError::new("link_mb_per_s", reason));
        }
        let times = [
            ("command_us", self.command_us),
            ("write_unit_us", self.write_unit_us),
            ("latency_us", self.latency_us),
        ];
        for (key, value) in times {
            if !(value.is_finite() && (0.0..=1e7).contains(&value)) {
                return Err(ConfigError::new(key, format!("must be from 0 to 10^7, not {value}")));
            }
        }
        Ok(())
    }
}
