//! How the flash of a drive is laid out.

use serde::{Deserialize, Serialize};

use crate::ConfigError;

/// Mapping units that one flash page can hold at most.
pub const UNITS_PER_PAGE_MAX: u32 = 8;

/// Erase blocks that a plane can have at most.
pub(crate) const BLOCKS_PER_PLANE_MAX: u32 = 1 << 20;

/// The lowest rate that a drive may have, in 10^6 bytes per second: a unit of 64 KiB takes 6.6 s then, as
/// long as the slowest program that it may have, and times do not run over.
pub(crate) const MB_PER_S_MIN: f64 = 0.01;

/// Mapping units of a drive: fewer than this. A word of the map has a bit for what is in the buffer.
const UNITS_LIMIT: u64 = 1 << 31;

/// The flash of a drive: channels, packages, chips, planes, blocks and pages. All planes together are what
/// can work at the same time ("Durable Write Cache in Flash Memory SSD for Relational and NoSQL Databases",
/// section 2.3: 8 channels, 4 packages, 4 chips and 2 planes make 256 operations).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Buses between the controller and the packages.
    pub channels: u32,
    /// Packages on a channel.
    pub packages_per_channel: u32,
    /// Chips in a package.
    pub chips_per_package: u32,
    /// Planes of a chip.
    pub planes_per_chip: u32,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Bytes of a page without its spare area.
    pub page_bytes: u32,
    /// Bytes of a mapping unit: what the translation layer has one entry for.
    pub unit_bytes: u32,
    /// Pages of a block from a page to the one that is programmed into the same cells later, and takes it
    /// along if power fails meanwhile ([`Self::shares_cells_with`]). 0 = no two pages share cells.
    #[serde(default)]
    pub paired_distance: u32,
}

impl Geometry {
    /// One plane, of blocks with pages of one mapping unit: the geometry of the models in closed form.
    pub fn one_plane(blocks: u32, pages_per_block: u32, page_bytes: u32) -> Self {
        Self {
            channels: 1,
            packages_per_channel: 1,
            chips_per_package: 1,
            planes_per_chip: 1,
            blocks_per_plane: blocks,
            pages_per_block,
            page_bytes,
            unit_bytes: page_bytes,
            paired_distance: 0,
        }
    }

    /// # Errors
    /// The first number that cannot be, and what it may be.
    pub fn check(&self) -> Result<(), ConfigError> {
        let counts = [
            ("channels", self.channels, 64),
            ("packages_per_channel", self.packages_per_channel, 64),
            ("chips_per_package", self.chips_per_package, 64),
            ("planes_per_chip", self.planes_per_chip, 16),
            ("blocks_per_plane", self.blocks_per_plane, BLOCKS_PER_PLANE_MAX),
            ("pages_per_block", self.pages_per_block, 1 << 14),
        ];
        for (key, value, max) in counts {
            if !(1..=max).contains(&value) {
                return Err(ConfigError::new(key, format!("must be from 1 to {max}, not {value}")));
            }
        }
        if !self.unit_bytes.is_power_of_two() || !(512..=65_536).contains(&self.unit_bytes) {
            let reason = format!("must be a power of two from 512 to 65536, not {}", self.unit_bytes);
            return Err(ConfigError::new("unit_bytes", reason));
        }
        let units = self.page_bytes / self.unit_bytes;
        if self.page_bytes % self.unit_bytes != 0 || !(1..=UNITS_PER_PAGE_MAX).contains(&units) {
            let reason = format!(
                "must be 1 to {UNITS_PER_PAGE_MAX} times unit_bytes ({}), not {}",
                self.unit_bytes, self.page_bytes
            );
            return Err(ConfigError::new("page_bytes", reason));
        }
        let most = self.pages_per_block / 2;
        if self.paired_distance > most {
            let reason = format!(
                "must be from 1 to {most} (half of pages_per_block), or 0 if no two pages share cells, not {}",
                self.paired_distance
            );
            return Err(ConfigError::new("paired_distance", reason));
        }
        let planes = u64::from(self.channels)
            * u64::from(self.packages_per_channel)
            * u64::from(self.chips_per_package)
            * u64::from(self.planes_per_chip);
        if planes > 4096 {
            return Err(ConfigError::new("channels", format!("{planes} planes are more than 4096")));
        }
        if !self.has_units_for_map() {
            let units = self.units_of_any();
            let reason = format!(
                "the drive has {units} mapping units, and 2^31 is too many: give it fewer blocks, or a larger \
                 unit_bytes"
            );
            return Err(ConfigError::new("blocks_per_plane", reason));
        }
        Ok(())
    }

    /// Planes of the whole drive.
    pub fn planes(&self) -> u32 {
        self.channels * self.packages_per_channel * self.chips_per_package * self.planes_per_chip
    }

    /// Erase blocks of the whole drive.
    pub fn blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane
    }

    /// Mapping units of a page.
    pub fn units_per_page(&self) -> u32 {
        self.page_bytes / self.unit_bytes
    }

    /// Mapping units of an erase block.
    pub fn units_per_block(&self) -> u32 {
        self.pages_per_block * self.units_per_page()
    }

    /// Mapping units of the whole drive.
    pub fn units(&self) -> u32 {
        self.blocks() * self.units_per_block()
    }

    /// As [`Self::blocks`], of one that was not checked.
    pub(crate) fn blocks_of_any(&self) -> u64 {
        u64::from(self.planes()) * u64::from(self.blocks_per_plane)
    }

    /// As [`Self::units`], of one that was not checked.
    pub(crate) fn units_of_any(&self) -> u64 {
        self.blocks_of_any() * u64::from(self.units_per_block())
    }

    /// Whether a word of the map can name each unit.
    pub(crate) fn has_units_for_map(&self) -> bool {
        self.units_of_any() < UNITS_LIMIT
    }

    /// Bytes of the whole drive without spare areas.
    pub fn bytes(&self) -> u64 {
        self.units_of_any() * u64::from(self.unit_bytes)
    }

    /// The page that was programmed before into the cells that this one is programmed into. In runs of twice
    /// the paired distance the first half of the pages has the lower bits of cells, and the second half the
    /// upper ones; at the end of a block some may share theirs with none. Numbers are those of the whole
    /// drive.
    pub fn shares_cells_with(&self, page: u32) -> Option<u32> {
        if self.paired_distance == 0 {
            return None;
        }
        let within = page % self.pages_per_block;
        let is_upper = within / self.paired_distance % 2 == 1;
        is_upper.then(|| page - self.paired_distance)
    }
}

/// What the flash and its channels take their time for.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NandTimings {
    /// From the cells of a page into its register (tR).
    pub read_us: f64,
    /// From the register into the cells (tPROG).
    pub program_us: f64,
    /// Of a block (tBERS).
    pub erase_us: f64,
    /// Of a channel, in 10^6 bytes per second.
    pub channel_mb_per_s: f64,
}

impl NandTimings {
    /// # Errors
    /// The first time or rate that cannot be.
    pub fn check(&self) -> Result<(), ConfigError> {
        let keys = [("read_us", self.read_us), ("program_us", self.program_us), ("erase_us", self.erase_us)];
        for (key, value) in keys {
            if !(value.is_finite() && value > 0.0 && value <= 1e7) {
                return Err(ConfigError::new(key, format!("must be above 0 and at most 10^7, not {value}")));
            }
        }
        let rate = self.channel_mb_per_s;
        if !(MB_PER_S_MIN..=1e7).contains(&rate) {
            let reason = format!("must be from {MB_PER_S_MIN} to 10^7, not {rate}");
            return Err(ConfigError::new("channel_mb_per_s", reason));
        }
        Ok(())
    }
}
