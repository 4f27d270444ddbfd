//! The drives whose wear the FaCE paper measured, from the inside ("Flash as cache extension for online
//! transactional workloads", Tables 2 and 7).
//!
//! Nothing is known of their inside but how much flash they have. What is fitted is the share of the flash
//! that the host sees, to writes of 4 kB (Table 2). All else is a layout of ours; so are the times of flash,
//! which say when something is done, and hardly where it goes.

use mezzanine_device::model::{self, Mechanism, Model};
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, FlushRule, FlushTime,
    FtlConfig, Geometry, HostConfig, NandTimings, SsdConfig,
};

/// Bytes of a mapping unit, of a page, and of the large writes of the paper.
pub(super) const UNIT_BYTES: u64 = 4096;
const PAGE_BYTES: u32 = 8192;
pub(super) const LARGE_BYTES: u64 = 256 << 10;
/// Planes.
const PLANES: u32 = 8;
/// Pages of an erase block: blocks of 512 KiB.
pub(super) const PAGES_PER_BLOCK: u32 = 64;
/// Commands under way.
pub(super) const QUEUE_DEPTH: usize = 32;
/// Erased blocks that a plane holds back.
const RESERVE: u32 = 3;

/// A drive whose wear was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Worn {
    /// Its model, and how statements begin that are about it.
    pub(super) key: &'static str,
    /// Capacity as a share of all flash, fitted to Table 2 at 4 kB.
    pub(super) share: f64,
    /// The same as it is sold: gigabytes of the capacity, and gigabytes of flash as Table 2 prints them. The
    /// latter are 2^30 bytes here: with 10^9 the first drive would have no flash beside its capacity.
    as_sold: (u64, u64),
    /// What a program takes, in microseconds. Ours: not published.
    program_us: f64,
}

pub(super) const WORN: [Worn; 2] = [
    Worn { key: "samsung-840-pro", share: 0.8843, as_sold: (256, 256), program_us: 150.0 },
    Worn { key: "intel-dc-s3500", share: 0.8105, as_sold: (480, 526), program_us: 180.0 },
];

/// How writes come to lie in erase blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Pages go to the plane that is free first: a large write to all planes, beside parts of others.
    Spread,
    /// All go to one erase block after the other, and blocks are as large as large writes.
    OneBlock,
}

impl Layout {
    /// So much flash, or a bit more.
    fn geometry(self, flash_bytes: u64, pages_per_block: u32) -> Geometry {
        let (planes, pages_per_block) = match self {
            Self::Spread => (PLANES, pages_per_block),
            Self::OneBlock => (1, (LARGE_BYTES / u64::from(PAGE_BYTES)) as u32),
        };
        let of_plane = u64::from(planes) * u64::from(pages_per_block) * u64::from(PAGE_BYTES);
        let blocks = flash_bytes.div_ceil(of_plane) as u32;
        Geometry {
            channels: planes,
            unit_bytes: UNIT_BYTES as u32,
            ..Geometry::one_plane(blocks, pages_per_block, PAGE_BYTES)
        }
    }

    /// What keeps all planes busy; less where blocks are to begin where writes do, since a unit that is
    /// written again while it waits leaves what comes after it in another place.
    fn buffer_bytes(self) -> u64 {
        match self {
            Self::Spread => 1 << 20,
            Self::OneBlock => 2 * u64::from(PAGE_BYTES),
        }
    }
}

impl Worn {
    /// Capacity as a share of all flash, as the drive is sold.
    pub(super) fn share_as_sold(&self) -> f64 {
        let (capacity, flash) = self.as_sold;
        capacity as f64 * 1e9 / (flash << 30) as f64
    }

    fn shipped(&self) -> Model {
        model::find(self.key).expect("the paper's drives are shipped models")
    }

    /// Such a drive with so much flash, of which the host sees a share.
    pub(super) fn of_flash(
        &self,
        layout: Layout,
        flash_bytes: u64,
        pages_per_block: u32,
        share: f64,
    ) -> SsdConfig {
        let geometry = layout.geometry(flash_bytes, pages_per_block);
        let capacity_bytes = (geometry.bytes() as f64 * share) as u64 / LARGE_BYTES * LARGE_BYTES;
        self.config(layout, geometry, capacity_bytes)
    }

    /// Such a drive with so much for the host.
    pub(super) fn of_capacity(&self, capacity_bytes: u64) -> SsdConfig {
        let flash_bytes = (capacity_bytes as f64 / self.share) as u64;
        let geometry = Layout::Spread.geometry(flash_bytes, PAGES_PER_BLOCK);
        self.config(Layout::Spread, geometry, capacity_bytes.next_multiple_of(UNIT_BYTES))
    }

    fn config(&self, layout: Layout, geometry: Geometry, capacity_bytes: u64) -> SsdConfig {
        let shipped = self.shipped();
        let (kind, flush, dump) = if shipped.volatile_cache {
            (CacheKind::Volatile, FlushRule::Drain, None)
        } else {
            let dump = DumpConfig { hold_up_ms: 100.0, mb_per_s: 500.0 };
            (CacheKind::Durable, FlushRule::OrderingPoint, Some(dump))
        };
        let flush_us = match &shipped.mechanism {
            Mechanism::Drive(table) => table.flush_us,
            Mechanism::Hdd(_) | Mechanism::Ssd(_) => 0.0,
        };
        SsdConfig {
            capacity_bytes,
            geometry,
            timings: NandTimings {
                read_us: 50.0,
                program_us: self.program_us,
                erase_us: 3500.0,
                channel_mb_per_s: 400.0,
            },
            ftl: FtlConfig {
                collection: Collection::Greedy,
                collection_frontier: CollectionFrontier::Separate,
                collection_pace: CollectionPace::Incremental,
                reserve_blocks_per_plane: RESERVE,
                streams: 1,
                dirty_entries_max: 1 << 20,
                journal: true,
                wear_gap_max: 0,
                endurance_erases: u32::MAX,
                bad_blocks_per_thousand: 0,
                backs_up_paired_pages: false,
            },
            cache: CacheConfig {
                kind,
                buffer_bytes: layout.buffer_bytes(),
                flush,
                flush_us: FlushTime::Same(flush_us),
                dump,
                reads_take_frames: false,
            },
            host: HostConfig {
                queue_depth: QUEUE_DEPTH as u32,
                ordered: false,
                link_mb_per_s: 550.0,
                command_us: 3.0,
                write_unit_us: 0.0,
                latency_us: 0.0,
            },
            power_loss: None,
        }
    }

    /// A model of such a drive with so much for the host, all of it written once.
    pub(super) fn model(&self, capacity_bytes: u64) -> Model {
        let config = self.of_capacity(capacity_bytes);
        let mut table = toml::Table::try_from(&config).expect("a configuration is a table");
        table.remove("capacity_bytes");
        table.insert("condition".into(), "filled".into());
        let shipped = self.shipped();
        Model {
            name: format!("{}, from the inside", self.key),
            capacity_bytes: config.capacity_bytes,
            mechanism: Mechanism::Ssd(table),
            ..shipped
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mezzanine_device::model::Timing;
    use mezzanine_ssd::Ssd;

    use super::*;

    #[test]
    fn a_model_is_the_drive_that_it_was_made_of() {
        for worn in WORN {
            let drive = Ssd::of_model(&worn.model(1_000_000_000)).unwrap().unwrap();
            assert_eq!(drive.config(), &worn.of_capacity(1_000_000_000), "{}", worn.key);
            assert!((1_000_000_000..1_000_010_000).contains(&drive.capacity()));
        }
    }
}
