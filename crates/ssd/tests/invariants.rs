//! Every invariant of the drive after random operations, on drives of every kind.
//!
//! Invariants checked: N1 to N3, T1, B1 (`Ssd::check` and the assertions on the way); times do not run
//! backwards; what is full is collected, whatever the order of writes, discards and flushes.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{CacheKind, Condition, PowerLossConfig, Ssd, SsdConfig};

mod drives;

fn drawn(random: &mut Random) -> SsdConfig {
    let kind = *random.pick(&[CacheKind::None, CacheKind::Volatile, CacheKind::Durable]);
    let mut config = drives::drawn(random, &drives::ALL, kind);
    if kind != CacheKind::Durable && random.chance(1, 3) {
        // Versions that wait are not written over.
        config.power_loss = Some(PowerLossConfig { anomalies: Vec::new() });
    }
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
