//! Why large writes wear flash less than small ones: the erase unit. At a utilisation of 0.90 of all flash,
//! greedy collection, writes of 4 KiB and of 256 KiB at places drawn evenly.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, Condition, FlushRule, FlushTime, FtlConfig, Geometry, HostConfig,
    NandTimings, Ssd, SsdConfig,
};

const UNIT: u64 = 4096;
const LARGE: u64 = 256 << 10;

fn write_amplification(pages_per_block: u32, write_bytes: u64) -> f64 {
    let geometry = Geometry::one_plane((1 << 19) / pages_per_block, pages_per_block, UNIT as u32);
    let ssd = Ssd::new(SsdConfig {
        capacity_bytes: geometry.bytes() * 9 / 10 / LARGE * LARGE,
        geometry,
        timings: NandTimings { read_us: 35.0, program_us: 350.0, erase_us: 1500.0, channel_mb_per_s: 400.0 },
        ftl: FtlConfig {
            collection: Collection::Greedy,
            reserve_blocks_per_plane: 2,
            streams: 1,
            dirty_entries_max: 1 << 20,
            journal: false,
            wear_gap_max: 0,
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: 0,
        },
        cache: CacheConfig {
            kind: CacheKind::Volatile,
            // Small: what is written twice while it waits takes the place of before, and blocks would no
            // longer begin where writes do.
            buffer_bytes: 2 * UNIT,
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
    })
    .unwrap();
    let mut state = ssd.idle();
    ssd.prepare(&mut state, Condition::Filled, 1);
    let (mut random, mut now) = (Random::new(5), 0);
    let mut write = |state: &mut [u64], bytes: u64| {
        for _ in 0..bytes / write_bytes {
            let place = random.below(ssd.capacity() / write_bytes) * write_bytes;
            let write = ssd.operation(OperationKind::Write, place, write_bytes);
            now = ssd.submit(state, now, write).unwrap().ticket.completion().unwrap();
        }
    };
    write(&mut state, 4 * ssd.capacity());
    let before = ssd.counters(&state);
    write(&mut state, 3 * ssd.capacity());
    let after = ssd.counters(&state);
    let (moved, host) =
        (after.units_moved - before.units_moved, after.units_programmed - before.units_programmed);
    1.0 + moved as f64 / host as f64
}

#[test]
fn large_writes_wear_less_as_long_as_the_erase_unit_is_not_larger() {
    let mut before = 0.0;
    for (pages, small_expected) in [(64, 4.84), (128, 5.04), (256, 5.17), (1024, 5.55)] {
        let (small, large) = (write_amplification(pages, UNIT), write_amplification(pages, LARGE));
        println!("{pages} pages a block: {small:.3} with 4 KiB, {large:.3} with 256 KiB");
        // Blocks that are held back weigh more, the larger they are: 4 % at 1,024 pages.
        assert!(
            (small / small_expected - 1.0).abs() < 0.045,
            "{pages} pages: {small} and not {small_expected}"
        );
        assert!(large >= before && large < small, "{pages} pages: {large} after {before}, beside {small}");
        before = large;
        if pages == 64 {
            assert!(large < 1.001, "a write that fills a block leaves nothing to move: {large}");
        } else {
            assert!(large > 1.5, "{pages} pages: a larger block is not written over at once: {large}");
        }
    }
}
