//! Configurations of which every number may be anything.

use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    Anomaly, CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, FlushRule,
    FlushTime, FtlConfig, Geometry, HostConfig, NandTimings, PowerLossConfig, SsdConfig,
};

/// What no number of these may be, and what some may be just so.
const WHOLE: [u64; 9] = [0, 1, 2, 7, 1 << 20, 1 << 31, u32::MAX as u64, 1 << 62, u64::MAX];
const REAL: [f64; 12] =
    [0.0, -0.0, -1.0, 1e-308, 1e-9, 1e-3, 0.009, 0.01, 1e7, 1e308, f64::INFINITY, f64::NAN];

/// A small drive, nearly always one that can be: at the edges of what is allowed, and full.
pub(crate) fn small(random: &mut Random) -> SsdConfig {
    let unit_bytes = *random.pick(&[512, 512, 1024, 4096, 65_536]);
    let page_bytes = unit_bytes * *random.pick(&[1, 1, 2, 3, 4, 8]);
    let geometry = geometry(random, unit_bytes, page_bytes);
    let ftl = ftl(random, &geometry);
    let kind = *random.pick(&[CacheKind::None, CacheKind::Volatile, CacheKind::Durable]);
    let durable = kind == CacheKind::Durable;
    let mut config = SsdConfig {
        capacity_bytes: 0,
        geometry,
        timings: NandTimings {
            read_us: *random.pick(&[0.001, 50.0, 1e7]),
            program_us: *random.pick(&[0.001, 900.0, 900.0, 1e7]),
            erase_us: *random.pick(&[0.001, 3500.0, 1e7]),
            channel_mb_per_s: *random.pick(&[0.01, 200.0, 200.0, 1e7]),
        },
        ftl,
        cache: CacheConfig {
            kind,
            buffer_bytes: u64::from(page_bytes) * random.between(2, 20),
            flush: if durable && random.chance(1, 2) { FlushRule::OrderingPoint } else { FlushRule::Drain },
            flush_us: match random.below(3) {
                0 => FlushTime::Same(0.0),
                1 => FlushTime::Same(1e7),
                _ => FlushTime::ByUnits(vec![(1.0, 10.0), (1e300, 1e7)]),
            },
            dump: None,
            reads_take_frames: random.chance(1, 2),
        },
        host: HostConfig {
            queue_depth: *random.pick(&[1, 2, 32, 65_536]),
            ordered: random.chance(1, 2),
            link_mb_per_s: *random.pick(&[0.01, 550.0, 550.0, 1e9]),
            command_us: *random.pick(&[0.0, 3.0, 1e7]),
            write_unit_us: *random.pick(&[0.0, 1.0, 1e7]),
            latency_us: *random.pick(&[0.0, 20.0, 1e7]),
        },
        power_loss: None,
    };
    if !durable && random.chance(1, 2) {
        let all = Anomaly::ALL.into_iter().filter(|_| random.chance(1, 4)).collect();
        config.power_loss = Some(PowerLossConfig { anomalies: all });
    }
    let most = config.capacity_units_max();
    let less = if random.chance(1, 2) { 0 } else { random.below(most.max(1)) };
    config.capacity_bytes = u64::from(unit_bytes) * (most - less).max(1);
    if durable {
        // Not a byte more than is asked for.
        let dump = config.dump_bytes_needed();
        config.cache.dump = Some(DumpConfig { hold_up_ms: dump as f64 / 1e3, mb_per_s: 1.0 });
    }
    config
}

fn geometry(random: &mut Random, unit_bytes: u32, page_bytes: u32) -> Geometry {
    let pages_per_block = *random.pick(&[1, 2, 3, 4, 16, 64, 128]);
    let pairs = pages_per_block / 2;
    Geometry {
        channels: random.between(1, 3) as u32,
        packages_per_channel: random.between(1, 2) as u32,
        chips_per_package: 1,
        planes_per_chip: 1,
        blocks_per_plane: random.between(4, 40) as u32,
        pages_per_block,
        page_bytes,
        unit_bytes,
        paired_distance: *random.pick(&[0, 0, pairs.min(1), pairs]),
    }
}

fn ftl(random: &mut Random, geometry: &Geometry) -> FtlConfig {
    let journal = random.chance(1, 2);
    let most = geometry.blocks_per_plane / 2;
    let streams = *random.pick(&[1, 1, 2, 3, 8]);
    let least = streams + u32::from(journal) + 1;
    let entries = geometry.page_bytes / 8;
    let whole = random.chance(1, 2);
    let shared = whole && streams == 1 && random.chance(1, 2);
    FtlConfig {
        collection: *random.pick(&[Collection::Greedy, Collection::CostBenefit, Collection::Fifo]),
        collection_frontier: if shared { CollectionFrontier::Shared } else { CollectionFrontier::Separate },
        collection_pace: if whole { CollectionPace::WholeBlock } else { CollectionPace::Incremental },
        reserve_blocks_per_plane: *random.pick(&[least, least, least + 1, most]),
        streams,
        dirty_entries_max: *random.pick(&[entries, entries + 8, 4 * entries, u32::MAX]),
        journal,
        wear_gap_max: *random.pick(&[0, 0, 1, 5, u32::MAX]),
        endurance_erases: *random.pick(&[1, 2, 5, 30, u32::MAX, u32::MAX, u32::MAX]),
        bad_blocks_per_thousand: *random.pick(&[0, 0, 20, 200]),
        backs_up_paired_pages: random.chance(1, 4),
    }
}

/// Gives one number of it another value, any at all.
pub(crate) fn spoil(random: &mut Random, config: &mut SsdConfig) {
    let whole = *random.pick(&WHOLE);
    let whole = if random.chance(1, 3) { random.next_u64() >> random.below(64) } else { whole };
    let real = *random.pick(&REAL);
    let word = whole as u32;
    let SsdConfig { capacity_bytes, geometry, timings, ftl, cache, host, power_loss } = config;
    match random.below(39) {
        0 => *capacity_bytes = whole,
        1 => geometry.channels = word,
        2 => geometry.packages_per_channel = word,
        3 => geometry.chips_per_package = word,
        4 => geometry.planes_per_chip = word,
        5 => geometry.blocks_per_plane = word,
        6 => geometry.pages_per_block = word,
        7 => geometry.page_bytes = word,
        8 => geometry.unit_bytes = word,
        9 => geometry.paired_distance = word,
        10 => timings.read_us = real,
        11 => timings.program_us = real,
        12 => timings.erase_us = real,
        13 => timings.channel_mb_per_s = real,
        14 => ftl.collection = Collection::Fifo,
        15 => ftl.collection_frontier = CollectionFrontier::Shared,
        16 => ftl.collection_pace = CollectionPace::WholeBlock,
        17 => ftl.reserve_blocks_per_plane = word,
        18 => ftl.streams = word,
        19 => ftl.dirty_entries_max = word,
        20 => ftl.journal = !ftl.journal,
        21 => ftl.wear_gap_max = word,
        22 => ftl.endurance_erases = word,
        23 => ftl.bad_blocks_per_thousand = word,
        24 => ftl.backs_up_paired_pages = !ftl.backs_up_paired_pages,
        25 => cache.kind = *random.pick(&[CacheKind::None, CacheKind::Volatile, CacheKind::Durable]),
        26 => cache.buffer_bytes = whole,
        27 => cache.flush = FlushRule::OrderingPoint,
        28 => cache.flush_us = FlushTime::Same(real),
        29 => cache.flush_us = FlushTime::ByUnits(vec![(*random.pick(&REAL), real)]),
        30 => cache.dump = Some(DumpConfig { hold_up_ms: real, mb_per_s: *random.pick(&REAL) }),
        31 => cache.dump = None,
        32 => host.queue_depth = word,
        33 => host.link_mb_per_s = real,
        34 => host.command_us = real,
        35 => host.write_unit_us = real,
        36 => host.latency_us = real,
        37 => *power_loss = Some(PowerLossConfig { anomalies: Anomaly::ALL.to_vec() }),
        _ => geometry.unit_bytes = geometry.unit_bytes.wrapping_mul(2),
    }
}
