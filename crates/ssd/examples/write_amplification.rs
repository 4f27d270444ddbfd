//! Writes at random places of a drive, and what flash does for them.
//!
//! `cargo run --release -p mezzanine-ssd --example write_amplification -- 16 0.80`: capacity in GB, and the
//! share of the flash that it is.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use mezzanine_device::model::{OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, CollectionFrontier, CollectionPace, Condition, DumpConfig, FlushRule,
    FlushTime, FtlConfig, Geometry, HostConfig, NandTimings, Ssd, SsdConfig,
};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let gigabytes: u64 = arguments.next().map_or(16, |text| text.parse().unwrap());
    let share: f64 = arguments.next().map_or(0.80, |text| text.parse().unwrap());
    let writes: u64 = arguments.next().map_or(20_000_000, |text| text.parse().unwrap());
    let capacity_bytes = gigabytes * 1_000_000_000 / 4096 * 4096;
    let mut geometry = Geometry {
        channels: 4,
        packages_per_channel: 1,
        chips_per_package: 2,
        planes_per_chip: 1,
        blocks_per_plane: 1,
        pages_per_block: 128,
        page_bytes: 8192,
        unit_bytes: 4096,
        paired_distance: 0,
    };
    geometry.blocks_per_plane = (capacity_bytes as f64 / share / geometry.bytes() as f64).round() as u32 + 3;
    let ssd = Ssd::new(SsdConfig {
        capacity_bytes,
        geometry,
        timings: NandTimings { read_us: 50.0, program_us: 900.0, erase_us: 3500.0, channel_mb_per_s: 200.0 },
        ftl: FtlConfig {
            collection: Collection::Greedy,
            collection_frontier: CollectionFrontier::Separate,
            collection_pace: CollectionPace::Incremental,
            reserve_blocks_per_plane: 3,
            streams: 1,
            dirty_entries_max: 1 << 20,
            journal: true,
            wear_gap_max: 0,
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: 0,
            backs_up_paired_pages: false,
        },
        cache: CacheConfig {
            kind: CacheKind::Durable,
            buffer_bytes: 8 << 20,
            flush: FlushRule::OrderingPoint,
            flush_us: FlushTime::Same(0.0),
            dump: Some(DumpConfig { hold_up_ms: 1e4, mb_per_s: 1600.0 }),
            reads_take_frames: false,
        },
        host: HostConfig {
            queue_depth: 32,
            ordered: false,
            link_mb_per_s: 550.0,
            command_us: 3.0,
            write_unit_us: 0.0,
            latency_us: 0.0,
        },
        power_loss: None,
    })
    .unwrap();
    println!(
        "state of {:.1} MiB, utilisation {:.3}",
        ssd.state_bytes() as f64 / f64::from(1 << 20),
        ssd.config().effective_utilisation()
    );
    let mut state = ssd.idle();
    let began = Instant::now();
    ssd.prepare(&mut state, Condition::Steady, 1);
    println!("made ready in {:.1} s", began.elapsed().as_secs_f64());
    let (mut random, mut now) = (Random::new(2), 0);
    let units = capacity_bytes / 4096;
    let began = Instant::now();
    let mut queue = std::collections::VecDeque::new();
    for _ in 0..writes {
        if queue.len() == 32 {
            now = queue.pop_front().unwrap();
        }
        let write = ssd.operation(OperationKind::Write, 4096 * random.below(units), 4096);
        queue.push_back(ssd.submit(&mut state, now, write).unwrap().ticket.completion().unwrap());
    }
    let took = began.elapsed().as_secs_f64();
    let counters = ssd.counters(&state);
    println!(
        "{:.2} million writes a second of this machine, {:.0} a second of the drive, write amplification {:.3}",
        writes as f64 / took / 1e6,
        writes as f64 / (now as f64 / 1e9),
        counters.write_amplification().unwrap()
    );
    println!("{counters:?}");
    ssd.check(&mut state).unwrap();
}
