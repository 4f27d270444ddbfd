//! A drive on its way to being fitted: what can be found out, as numbers without limits between them.

use crate::ConfigError;
use crate::config::{
    CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, FlushRule, FlushTime,
    FtlConfig, HostConfig, SsdConfig,
};
use crate::geometry::{Geometry, NandTimings};

pub(super) const UNIT_BYTES: u32 = 4096;
pub(super) const PAGE_BYTES: u32 = 8192;
/// Erased blocks that a plane holds back: how much space is spare in all is fitted, not this.
const RESERVE_BLOCKS: u32 = 4;
const DIRTY_ENTRIES_MAX: u32 = 1 << 20;
const ENDURANCE_ERASES: u32 = 3000;
/// Rate at which capacitors are assumed to be able to write, in 10^6 bytes a second.
const DUMP_MB_PER_S: f64 = 1600.0;
/// Blocks of a plane at least, beside those held back: a translation layer needs some to choose from.
const BLOCKS_MIN: u32 = 16;

/// The parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub(super) kind: CacheKind,
    pub(super) latency_us: f64,
    pub(super) command_us: f64,
    /// Of a unit over the link.
    pub(super) link_unit_us: f64,
    pub(super) write_unit_us: f64,
    pub(super) queue_depth: u32,
    pub(super) ordered: bool,
    pub(super) reads_take_frames: bool,
    pub(super) read_us: f64,
    /// Of a unit over all channels together, when all are busy.
    pub(super) channels_unit_us: f64,
    pub(super) program_us: f64,
    pub(super) erase_us: f64,
    pub(super) planes: f64,
    pub(super) pages_per_block: u32,
    /// Share of the flash without its reserve that the host sees.
    pub(super) utilisation: f64,
    pub(super) buffer_bytes: f64,
    pub(super) flush: FlushRule,
    pub(super) flush_us: FlushTime,
}

impl Draft {
    /// What is taken where nothing is known: a drive of today with flash of three bits a cell.
    pub(super) fn usual() -> Self {
        Self {
            kind: CacheKind::Volatile,
            latency_us: 20.0,
            command_us: 3.0,
            link_unit_us: 7.5,
            write_unit_us: 1.0,
            queue_depth: 32,
            ordered: false,
            reads_take_frames: false,
            read_us: 60.0,
            channels_unit_us: 2.5,
            program_us: 600.0,
            erase_us: 3500.0,
            planes: 64.0,
            pages_per_block: 256,
            utilisation: 0.90,
            buffer_bytes: f64::from(8 << 20),
            flush: FlushRule::Drain,
            flush_us: FlushTime::Same(0.0),
        }
    }

    /// Channels.
    pub(super) fn channels(&self) -> u32 {
        self.planes().0
    }

    /// Channels, and planes on each: as near to the number of planes as whole numbers come.
    fn planes(&self) -> (u32, u32) {
        let wanted = self.planes.clamp(1.0, 2048.0);
        if wanted < 12.0 {
            return (wanted.round() as u32, 1);
        }
        let each = |channels: u32| (wanted / f64::from(channels)).round().clamp(1.0, 256.0) as u32;
        let off = |channels: &u32| (f64::from(channels * each(*channels)) / wanted).ln().abs();
        // The usual numbers first: of those that come as near the first is taken.
        let mut channels = 8;
        for other in [4, 6, 5, 7, 9, 10, 11] {
            if off(&other) + 0.01 < off(&channels) {
                channels = other;
            }
        }
        (channels, each(channels))
    }

    /// A page of all planes, and a block of each: what is erased together.
    pub(super) fn erase_unit_bytes(&self) -> u64 {
        let (channels, each) = self.planes();
        u64::from(channels * each) * u64::from(self.pages_per_block) * u64::from(PAGE_BYTES)
    }

    /// Blocks of a plane, without its reserve, of which the host sees this share.
    pub(super) fn blocks_of(&self, capacity_bytes: u64, utilisation: f64) -> u32 {
        (capacity_bytes as f64 / self.erase_unit_bytes() as f64 / utilisation.clamp(0.05, 1.0)).round() as u32
    }

    /// The share that the host sees of so many.
    pub(super) fn utilisation_of(&self, capacity_bytes: u64, blocks: u32) -> f64 {
        capacity_bytes as f64 / self.erase_unit_bytes() as f64 / f64::from(blocks)
    }

    /// Has a plane as much flash, without its reserve, as so many blocks: not always a whole number of blocks
    /// of so many pages, but as near to it as blocks of a few pages more or less come.
    pub(super) fn place_blocks(&mut self, capacity_bytes: u64, blocks: f64) {
        let pages = f64::from(self.pages_per_block);
        let wanted = blocks * pages;
        let near = (pages * 0.94).ceil() as u32..=(pages * 1.06).floor() as u32;
        let off = |pages: u32| {
            let blocks = (wanted / f64::from(pages)).round().max(1.0);
            (blocks * f64::from(pages) / wanted).ln().abs()
        };
        if let Some(best) = near.min_by(|a, b| off(*a).total_cmp(&off(*b))) {
            self.pages_per_block = best.max(1);
        }
        let blocks = (wanted / f64::from(self.pages_per_block)).round().max(1.0) as u32;
        self.utilisation = self.utilisation_of(capacity_bytes, blocks);
    }

    /// The drive with so many bytes for the host.
    pub(super) fn config(&self, capacity_bytes: u64) -> Result<SsdConfig, ConfigError> {
        let (channels, on_each) = self.planes();
        let (packages, chips) = if on_each <= 64 { (on_each, 1) } else { (on_each.div_ceil(4), 4) };
        let mut geometry = Geometry {
            channels,
            packages_per_channel: packages,
            chips_per_package: chips,
            planes_per_chip: 1,
            blocks_per_plane: 0,
            pages_per_block: self.pages_per_block,
            page_bytes: PAGE_BYTES,
            unit_bytes: UNIT_BYTES,
            paired_distance: 0,
        };
        let units = capacity_bytes / u64::from(UNIT_BYTES);
        let blocks = self.blocks_of(capacity_bytes, self.utilisation);
        geometry.blocks_per_plane = blocks.max(BLOCKS_MIN) + RESERVE_BLOCKS;
        let rate = f64::from(UNIT_BYTES) / f64::from(channels) / self.channels_unit_us.max(1e-3);
        let mut config = SsdConfig {
            capacity_bytes: units * u64::from(UNIT_BYTES),
            geometry,
            timings: NandTimings {
                read_us: round(self.read_us.max(0.1)),
                program_us: round(self.program_us.max(0.1)),
                erase_us: self.erase_us,
                channel_mb_per_s: round(rate.clamp(1.0, 1e6)),
            },
            ftl: FtlConfig {
                collection: Collection::Greedy,
                collection_frontier: CollectionFrontier::Separate,
                collection_pace: CollectionPace::Incremental,
                reserve_blocks_per_plane: RESERVE_BLOCKS,
                streams: 1,
                dirty_entries_max: DIRTY_ENTRIES_MAX,
                journal: true,
                wear_gap_max: 1000,
                endurance_erases: ENDURANCE_ERASES,
                bad_blocks_per_thousand: 0,
                backs_up_paired_pages: false,
            },
            cache: self.cache(),
            host: HostConfig {
                queue_depth: self.queue_depth,
                ordered: self.ordered,
                link_mb_per_s: round((f64::from(UNIT_BYTES) / self.link_unit_us.max(1e-3)).clamp(1.0, 1e6)),
                command_us: round(self.command_us.max(0.0)),
                write_unit_us: round(self.write_unit_us.max(0.0)),
                latency_us: round(self.latency_us.max(0.0)),
            },
            // What a power cut does is not measured.
            power_loss: None,
        };
        // Little more is spare where blocks are few.
        for _ in 0..64 {
            if u64::from(config.logical_units()) <= config.capacity_units_max() {
                break;
            }
            config.geometry.blocks_per_plane += 1;
        }
        if config.cache.kind == CacheKind::Durable {
            let hold_up_ms = (config.dump_bytes_needed() as f64 / DUMP_MB_PER_S / 1e3 * 1.1).ceil();
            config.cache.dump = Some(DumpConfig { hold_up_ms, mb_per_s: DUMP_MB_PER_S });
        }
        config.check()?;
        Ok(config)
    }

    fn cache(&self) -> CacheConfig {
        let frames = (self.buffer_bytes / f64::from(UNIT_BYTES)).round().max(4.0) as u64;
        let buffer_bytes = frames * u64::from(UNIT_BYTES);
        CacheConfig {
            kind: self.kind,
            buffer_bytes,
            flush: self.flush,
            flush_us: self.flush_us.clone(),
            // Follows from the rest.
            dump: None,
            reads_take_frames: self.reads_take_frames,
        }
    }
}

/// To four digits: a measurement has no more.
pub(super) fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let unit = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * unit).round() / unit
}
