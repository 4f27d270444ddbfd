//! Drives as worlds draw them: small and nearly full, so that they collect, journal and dump all the time.

use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, DumpConfig, FlushRule, FlushTime,
    FtlConfig, Geometry, HostConfig, NandTimings, PowerLossConfig, SsdConfig,
};

use super::{Drive, DriveAnomaly};

/// Bytes that an entry of the map takes in its journal.
const JOURNAL_ENTRY_BYTES: u32 = 8;

impl Drive {
    /// The drive of at least so many bytes that a seed draws. One that is to do something wrong has a cache
    /// that is not durable; all others keep what the interface promises.
    pub(crate) fn draw(seed: u64, bytes: u64, anomalies: &[DriveAnomaly]) -> Self {
        let mut random = Random::new(seed ^ 0x6d6f_6465_6c6c_6564);
        let unit_bytes = *random.pick(&[4096, 4096, 4096, 2048]);
        Self::drawn(&mut random, bytes, unit_bytes, anomalies)
    }

    /// A drive in order for a database's pages, that leaves units of so many bytes whole.
    pub(crate) fn draw_disk(seed: u64, bytes: u64, unit_bytes: u32) -> Self {
        Self::drawn(&mut Random::new(seed ^ 0x6469_736b_5f64), bytes, unit_bytes, &[])
    }

    fn drawn(random: &mut Random, bytes: u64, unit_bytes: u32, anomalies: &[DriveAnomaly]) -> Self {
        let kinds: &[CacheKind] = match anomalies {
            [] => &[CacheKind::Durable, CacheKind::Durable, CacheKind::Volatile, CacheKind::None],
            _ => &[CacheKind::Volatile, CacheKind::Volatile, CacheKind::None],
        };
        let kind = *random.pick(kinds);
        let power_loss = if kind == CacheKind::Durable {
            None
        } else if anomalies.is_empty() {
            // What was not flushed goes in the order in which it came, or in any.
            random.chance(1, 2).then(|| PowerLossConfig { anomalies: Vec::new() })
        } else {
            Some(PowerLossConfig {
                anomalies: anomalies.iter().filter_map(|anomaly| anomaly.of_drive()).collect(),
            })
        };
        let config = configuration(random, kind, power_loss, unit_bytes, anomalies);
        let mut drive = Self::of(config);
        // What was acknowledged is kept, so nobody has to say when.
        drive.hears_flushes = kind == CacheKind::Volatile || random.chance(1, 2);
        (drive.refuses, drive.goes_back) = (
            anomalies.iter().any(|anomaly| anomaly.takes_flushed()),
            anomalies.iter().any(|anomaly| anomaly.passes_older()),
        );
        let spare_blocks = random.below(3) as u32;
        drive.has_room_for(bytes);
        drive.config.geometry.blocks_per_plane += spare_blocks;
        drive
    }

    /// Gives it as many blocks as so many bytes need.
    pub(super) fn has_room_for(&mut self, bytes: u64) {
        let unit_bytes = u64::from(self.config.geometry.unit_bytes);
        self.config.capacity_bytes = bytes.next_multiple_of(unit_bytes).max(unit_bytes);
        let units = self.config.capacity_bytes / unit_bytes;
        while self.config.capacity_units_max() < units {
            self.config.geometry.blocks_per_plane += 1;
        }
    }
}

fn configuration(
    random: &mut Random,
    kind: CacheKind,
    power_loss: Option<PowerLossConfig>,
    unit_bytes: u32,
    anomalies: &[DriveAnomaly],
) -> SsdConfig {
    let page_bytes = unit_bytes * *random.pick(&[1, 2, 2, 4]);
    let streams = random.between(1, 2) as u32;
    let reserve = streams + 2;
    let durable = kind == CacheKind::Durable;
    // Pages share cells where a drive has a remedy, or is to do without one.
    let takes_along = anomalies.contains(&DriveAnomaly::PairedPages);
    let distances: &[u32] = if takes_along { &[1, 2] } else { &[0, 1, 2] };
    let paired_distance = *random.pick(distances);
    let buffer_bytes = u64::from(page_bytes) * random.between(2, 24);
    let dirty_entries_max = page_bytes / JOURNAL_ENTRY_BYTES * random.between(1, 3) as u32;
    // The capacitors carry both, and no more.
    let carried = 2 * buffer_bytes + u64::from(dirty_entries_max * JOURNAL_ENTRY_BYTES);
    let dump = DumpConfig { hold_up_ms: 10.0, mb_per_s: carried as f64 / 1e4 };
    SsdConfig {
        capacity_bytes: u64::from(unit_bytes),
        geometry: Geometry {
            channels: random.between(1, 2) as u32,
            packages_per_channel: 1,
            chips_per_package: random.between(1, 2) as u32,
            planes_per_chip: 1,
            blocks_per_plane: 2 * reserve,
            pages_per_block: *random.pick(&[4, 8, 16]),
            page_bytes,
            unit_bytes,
            paired_distance,
        },
        timings: NandTimings { read_us: 50.0, program_us: 900.0, erase_us: 3500.0, channel_mb_per_s: 200.0 },
        ftl: FtlConfig {
            collection: *random.pick(&[Collection::Greedy, Collection::CostBenefit, Collection::Fifo]),
            collection_frontier: CollectionFrontier::Separate,
            collection_pace: CollectionPace::Incremental,
            reserve_blocks_per_plane: reserve,
            streams,
            dirty_entries_max,
            journal: true,
            wear_gap_max: *random.pick(&[0, 0, 5]),
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: 0,
            backs_up_paired_pages: !durable && paired_distance > 0 && !takes_along,
        },
        cache: CacheConfig {
            kind,
            buffer_bytes,
            flush: if durable && random.chance(1, 2) { FlushRule::OrderingPoint } else { FlushRule::Drain },
            flush_us: FlushTime::Same(100.0),
            dump: durable.then_some(dump),
            reads_take_frames: random.chance(1, 4),
        },
        host: HostConfig {
            queue_depth: random.between(1, 32) as u32,
            ordered: random.chance(1, 2),
            link_mb_per_s: 550.0,
            command_us: 3.0,
            write_unit_us: 1.0,
            latency_us: 20.0,
        },
        power_loss,
    }
}
