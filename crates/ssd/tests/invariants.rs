//! Every invariant of the drive after random operations, on drives of every kind.
//!
//! Invariants checked: N1 to N3, T1, B1 (`Ssd::check` and the assertions on the way); times do not run
//! backwards; what is full is collected, whatever the order of writes, discards and flushes.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{
    CacheConfig, CacheKind, Collection, Condition, DumpConfig, FlushRule, FlushTime, FtlConfig, Geometry,
    HostConfig, NandTimings, Ssd, SsdConfig,
};

fn drawn(random: &mut Random) -> SsdConfig {
    let unit_bytes = 4096;
    let units_per_page = *random.pick(&[1, 2, 4]);
    let geometry = Geometry {
        channels: random.between(1, 4) as u32,
        packages_per_channel: 1,
        chips_per_package: random.between(1, 2) as u32,
        planes_per_chip: 1,
        blocks_per_plane: random.between(24, 60) as u32,
        pages_per_block: *random.pick(&[3, 16, 64]),
        page_bytes: unit_bytes * units_per_page,
        unit_bytes,
    };
    let streams = random.between(1, 3) as u32;
    let kind = *random.pick(&[CacheKind::None, CacheKind::Volatile, CacheKind::Durable]);
    let mut config = SsdConfig {
        capacity_bytes: 0,
        geometry,
        timings: NandTimings { read_us: 50.0, program_us: 900.0, erase_us: 3500.0, channel_mb_per_s: 200.0 },
        ftl: FtlConfig {
            collection: *random.pick(&[Collection::Greedy, Collection::CostBenefit, Collection::Fifo]),
            reserve_blocks_per_plane: streams + 2,
            streams,
            dirty_entries_max: 8192,
            journal: random.chance(3, 4),
            wear_gap_max: *random.pick(&[0, 3, 20]),
            endurance_erases: u32::MAX,
            bad_blocks_per_thousand: *random.pick(&[0, 20]),
        },
        cache: CacheConfig {
            kind,
            buffer_bytes: u64::from(geometry.page_bytes) * random.between(2, 20),
            flush: *random.pick(&[FlushRule::Drain, FlushRule::OrderingPoint]),
            flush_us: FlushTime::Same(100.0),
            dump: Some(DumpConfig { hold_up_ms: 1e4, mb_per_s: 1600.0 }),
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
    };
    if kind != CacheKind::Durable {
        config.cache.flush = FlushRule::Drain;
    }
    // As much as there is room for, or less.
    let most = config.capacity_units_max();
    config.capacity_bytes = u64::from(unit_bytes) * (most - random.below(most.div_ceil(2))).max(1);
    config
}

#[test]
fn random_operations_leave_every_invariant_in_place() {
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let config = drawn(&mut random);
        let ssd = Ssd::new(config).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut state = ssd.idle();
        let condition = *random.pick(&[Condition::Fresh, Condition::Filled, Condition::Steady]);
        ssd.prepare(&mut state, condition, seed);
        let mut now = 0;
        for number in 0..4000 {
            now += random.below(200_000);
            let units = random.between(1, 9);
            let address = 4096 * random.below(ssd.capacity() / 4096) + *random.pick(&[0, 0, 512]);
            let kind = match random.below(20) {
                0 => OperationKind::Flush,
                1 | 2 => OperationKind::Discard,
                3..=8 => OperationKind::Read,
                _ => OperationKind::Write,
            };
            let operation = Operation {
                through: random.chance(1, 10),
                stream: random.below(4) as u8,
                ..ssd.operation(kind, address, 4096 * units)
            };
            let ticket = ssd.submit(&mut state, now, operation).unwrap().ticket;
            let done = ticket.completion().unwrap();
            assert!(done >= now, "seed {seed}: complete before it came");
            if number % 500 == 0 {
                ssd.check(&mut state).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            }
        }
        ssd.check(&mut state).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        // Whoever had the state in hand dies, and leaves some words as they never are.
        for _ in 0..random.below(40) {
            let word = random.below(state.len() as u64) as usize;
            state[word] = *random.pick(&[0, 1, u64::MAX, 77, 1 << 40]);
        }
        ssd.repair(&mut state, now);
        ssd.check(&mut state).unwrap_or_else(|broken| panic!("seed {seed}, repaired: {broken}"));
        for _ in 0..500 {
            let address = 4096 * random.below(ssd.capacity() / 4096);
            ssd.submit(&mut state, now, ssd.operation(OperationKind::Write, address, 4096)).unwrap();
            now += 100_000;
        }
        ssd.check(&mut state).unwrap_or_else(|broken| panic!("seed {seed}, after that: {broken}"));
    }
}

#[test]
fn operations_at_the_edges_of_arithmetic_are_timed() {
    let mut random = Random::new(9);
    for _ in 0..20 {
        let ssd = Ssd::new(drawn(&mut random)).unwrap();
        let mut state = ssd.idle();
        for address in [0, 1, ssd.capacity() - 1, ssd.capacity(), u64::MAX] {
            for len in [0, 1, 1 << 20, u64::MAX] {
                for kind in [OperationKind::Read, OperationKind::Write, OperationKind::Discard] {
                    let operation = ssd.operation(kind, address, len);
                    ssd.submit(&mut state, 5, operation).unwrap();
                }
            }
        }
        ssd.check(&mut state).unwrap();
    }
}
