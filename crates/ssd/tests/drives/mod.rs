//! Small drives: drawn at random, and one that does only what it is told.
#![allow(dead_code, clippy::unwrap_used)] // Each test uses a part.

use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, FlushRule, FlushTime,
    FtlConfig, Geometry, HostConfig, NandTimings, SsdConfig,
};

/// What is drawn from. Ranges have both ends.
pub(crate) struct Ranges {
    pub(crate) channels_max: u64,
    pub(crate) blocks_per_plane: (u64, u64),
    pub(crate) pages_per_block: &'static [u32],
    pub(crate) unit_bytes: u32,
    pub(crate) streams_max: u64,
    pub(crate) collections: &'static [Collection],
    pub(crate) journal_optional: bool,
    pub(crate) dirty_entries_max: u32,
    pub(crate) wear_gaps_max: &'static [u32],
    pub(crate) bad_blocks_per_thousand: &'static [u32],
    pub(crate) buffer_pages_max: u64,
    /// The share of the capacity that is left out at most: one in so many.
    pub(crate) left_out_one_in: u64,
    /// One in so many collects whole blocks; none if 0.
    pub(crate) whole_blocks_one_in: u64,
    pub(crate) dump: DumpConfig,
    /// Of pages that share cells.
    pub(crate) paired_distances: &'static [u32],
}

/// Everything that a drive can be.
pub(crate) const ALL: Ranges = Ranges {
    channels_max: 4,
    blocks_per_plane: (24, 60),
    pages_per_block: &[3, 16, 64],
    unit_bytes: 4096,
    streams_max: 3,
    collections: &[Collection::Greedy, Collection::CostBenefit, Collection::Fifo],
    journal_optional: true,
    dirty_entries_max: 8192,
    wear_gaps_max: &[0, 3, 20],
    bad_blocks_per_thousand: &[0, 20],
    buffer_pages_max: 20,
    left_out_one_in: 2,
    whole_blocks_one_in: 3,
    dump: DumpConfig { hold_up_ms: 1e4, mb_per_s: 1600.0 },
    paired_distances: &[0],
};

/// Drives that are soon full, with a map on flash that is soon written over.
pub(crate) const SMALL: Ranges = Ranges {
    channels_max: 2,
    blocks_per_plane: (20, 40),
    pages_per_block: &[4, 8, 16],
    unit_bytes: 512,
    streams_max: 2,
    collections: &[Collection::Greedy, Collection::CostBenefit],
    journal_optional: false,
    dirty_entries_max: 1024,
    wear_gaps_max: &[0, 5],
    bad_blocks_per_thousand: &[0],
    buffer_pages_max: 12,
    left_out_one_in: 3,
    whole_blocks_one_in: 3,
    dump: DumpConfig { hold_up_ms: 10.0, mb_per_s: 100.0 },
    paired_distances: &[0],
};

/// A drive with a cache of this kind.
pub(crate) fn drawn(random: &mut Random, ranges: &Ranges, kind: CacheKind) -> SsdConfig {
    let page_bytes = ranges.unit_bytes * *random.pick(&[1, 2, 4]);
    let geometry = Geometry {
        channels: random.between(1, ranges.channels_max) as u32,
        packages_per_channel: 1,
        chips_per_package: random.between(1, 2) as u32,
        planes_per_chip: 1,
        blocks_per_plane: random.between(ranges.blocks_per_plane.0, ranges.blocks_per_plane.1) as u32,
        pages_per_block: *random.pick(ranges.pages_per_block),
        page_bytes,
        unit_bytes: ranges.unit_bytes,
        paired_distance: *random.pick(ranges.paired_distances),
    };
    let streams = random.between(1, ranges.streams_max) as u32;
    let durable = kind == CacheKind::Durable;
    let mut config = SsdConfig {
        capacity_bytes: 0,
        geometry,
        timings: NandTimings { read_us: 50.0, program_us: 900.0, erase_us: 3500.0, channel_mb_per_s: 200.0 },
        ftl: FtlConfig {
            collection: *random.pick(ranges.collections),
            collection_frontier: CollectionFrontier::Separate,
            collection_pace: CollectionPace::Incremental,
            reserve_blocks_per_plane: streams + 2,
            streams,
            dirty_entries_max: ranges.dirty_entries_max,
            journal: !ranges.journal_optional || random.chance(3, 4),
            wear_gap_max: *random.pick(ranges.wear_gaps_max),
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: *random.pick(ranges.bad_blocks_per_thousand),
            backs_up_paired_pages: false,
        },
        cache: CacheConfig {
            kind,
            buffer_bytes: u64::from(page_bytes) * random.between(2, ranges.buffer_pages_max),
            flush: if durable && random.chance(1, 2) { FlushRule::OrderingPoint } else { FlushRule::Drain },
            flush_us: FlushTime::Same(100.0),
            dump: durable.then_some(ranges.dump),
            reads_take_frames: random.chance(1, 2),
        },
        host: HostConfig {
            queue_depth: random.between(1, 32) as u32,
            ordered: random.chance(1, 2),
            link_mb_per_s: 550.0,
            command_us: 3.0,
            write_unit_us: 1.0,
            latency_us: 20.0,
        },
        power_loss: None,
    };
    // As much as there is room for, or less.
    let most = config.capacity_units_max();
    let less = random.below(most.div_ceil(ranges.left_out_one_in));
    config.capacity_bytes = u64::from(config.geometry.unit_bytes) * (most - less).max(1);
    if ranges.whole_blocks_one_in > 0 && random.chance(1, ranges.whole_blocks_one_in) {
        config.ftl.collection_pace = CollectionPace::WholeBlock;
        if streams == 1 {
            config.ftl.collection_frontier = CollectionFrontier::Shared;
        }
    }
    config
}

/// A drive that does nothing but what it is told, one command at a time: no journal, no wear levelling, no
/// bad blocks, and a write buffer that holds next to nothing.
pub(crate) fn bare(geometry: Geometry, capacity_bytes: u64) -> SsdConfig {
    SsdConfig {
        capacity_bytes,
        geometry,
        timings: NandTimings { read_us: 35.0, program_us: 350.0, erase_us: 1500.0, channel_mb_per_s: 400.0 },
        ftl: FtlConfig {
            collection: Collection::Greedy,
            collection_frontier: CollectionFrontier::Separate,
            collection_pace: CollectionPace::Incremental,
            reserve_blocks_per_plane: 2,
            streams: 1,
            dirty_entries_max: 1 << 20,
            journal: false,
            wear_gap_max: 0,
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: 0,
            backs_up_paired_pages: false,
        },
        cache: CacheConfig {
            kind: CacheKind::Volatile,
            // Small: what is written twice while it waits takes the place of before, and blocks would no
            // longer begin where large writes do.
            buffer_bytes: 8192,
            flush: FlushRule::Drain,
            flush_us: FlushTime::Same(0.0),
            dump: None,
            reads_take_frames: false,
        },
        host: HostConfig {
            queue_depth: 1,
            ordered: false,
            link_mb_per_s: 550.0,
            command_us: 0.0,
            write_unit_us: 0.0,
            latency_us: 0.0,
        },
        power_loss: None,
    }
}
