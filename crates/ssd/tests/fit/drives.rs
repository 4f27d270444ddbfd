//! Drives that are drawn, of which a fit is told nothing but what it measures.

use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, FlushRule, FlushTime,
    FtlConfig, Geometry, HostConfig, NandTimings, SsdConfig,
};

/// A drive with this kind of cache.
pub(crate) fn draw(kind: CacheKind, flush: FlushRule, seed: u64) -> SsdConfig {
    let mut random = Random::new(seed);
    let mut between = |low: u64, high: u64| random.between(low, high);
    let channels = [4, 8][between(0, 1) as usize];
    let ways = [2, 3, 4][between(0, 2) as usize];
    let bytes = between(192, 320) << 20;
    // At least 40 blocks for each plane.
    let pages_max = (bytes / u64::from(channels * ways) / 8192 / 40).min(96);
    let pages_per_block = between(16, pages_max) as u32;
    let blocks_per_plane = (bytes / u64::from(channels * ways * pages_per_block) / 8192) as u32;
    let spare = between(8, 22);
    let flush_us = match flush {
        FlushRule::Drain => between(0, 4000) as f64,
        FlushRule::OrderingPoint => 0.0,
    };
    let mut config = SsdConfig {
        capacity_bytes: 0,
        geometry: Geometry {
            channels,
            packages_per_channel: ways,
            chips_per_package: 1,
            planes_per_chip: 1,
            blocks_per_plane,
            pages_per_block,
            page_bytes: 8192,
            unit_bytes: 4096,
            paired_distance: 0,
        },
        timings: NandTimings {
            read_us: between(40, 100) as f64,
            program_us: between(300, 1300) as f64,
            erase_us: between(2000, 6000) as f64,
            channel_mb_per_s: between(150, 800) as f64,
        },
        ftl: FtlConfig {
            collection: Collection::Greedy,
            collection_frontier: CollectionFrontier::Separate,
            collection_pace: CollectionPace::Incremental,
            reserve_blocks_per_plane: between(3, 6) as u32,
            streams: 1,
            dirty_entries_max: 1 << 20,
            journal: true,
            wear_gap_max: 1000,
            endurance_erases: 3000,
            bad_blocks_per_thousand: between(0, 5) as u32,
            backs_up_paired_pages: false,
        },
        cache: CacheConfig {
            kind,
            buffer_bytes: between(64, 2048) * 4096,
            flush,
            flush_us: FlushTime::Same(flush_us),
            dump: (kind == CacheKind::Durable).then_some(DumpConfig { hold_up_ms: 30.0, mb_per_s: 1600.0 }),
            reads_take_frames: between(0, 1) == 1,
        },
        host: HostConfig {
            queue_depth: [16, 32, 64][between(0, 2) as usize],
            ordered: between(0, 1) == 1,
            link_mb_per_s: between(250, 2500) as f64,
            command_us: between(10, 80) as f64 / 10.0,
            write_unit_us: between(0, 60) as f64 / 10.0,
            latency_us: between(10, 120) as f64,
        },
        power_loss: None,
    };
    let units = f64::from(config.geometry.units()) * (100 - spare) as f64 / 100.0;
    config.capacity_bytes = 1 << 20;
    let units = (units as u64).min(config.capacity_units_max());
    config.capacity_bytes = units / 256 * (1 << 20);
    config
}
