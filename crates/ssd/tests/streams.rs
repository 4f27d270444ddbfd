//! Write streams: what a host tells apart the drive keeps in blocks of its own, so that what goes round as a
//! whole costs no collection beside what does not.
#![allow(clippy::unwrap_used)]

mod drives;

use mezzanine_device::{Device, Request};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{Geometry, Ssd, SsdDevice};

const UNIT: u64 = 4096;
/// What the host writes to: a part in which it goes round, and one that it overwrites at random places.
const QUEUE: u64 = 2048;
const ELSEWHERE: u64 = 512;

fn drive(streams: u32) -> SsdDevice {
    let reserve = 5;
    let written = (QUEUE + ELSEWHERE) * UNIT;
    // The host has 85 % of what the drive does not hold back.
    let blocks = (written as f64 / 0.85 / (32.0 * 8192.0)) as u32 + reserve;
    let geometry = Geometry { unit_bytes: 4096, ..Geometry::one_plane(blocks, 32, 8192) };
    let mut config = drives::bare(geometry, written);
    (config.ftl.reserve_blocks_per_plane, config.ftl.streams) = (reserve, streams);
    config.cache.buffer_bytes = 1 << 16;
    SsdDevice::new(Ssd::new(config).unwrap())
}

/// Units that collection has moved, for each that the host has written, in steady state.
fn collected(streams: u32, stream_of_queue: u8) -> f64 {
    let drive = drive(streams);
    let mut random = Random::new(7);
    let unit = [1; UNIT as usize];
    let mut round = |rounds: u64| {
        for number in 0..rounds * QUEUE {
            let write = Request::write_in(stream_of_queue, &unit, number % QUEUE * UNIT);
            let elsewhere = Request::write(&unit, (QUEUE + random.below(ELSEWHERE)) * UNIT);
            drive.run(&mut [write, elsewhere]).into_iter().for_each(|done| done.unwrap());
        }
    };
    round(3);
    let before = drive.counters();
    round(3);
    let after = drive.counters();
    let moved = after.units_moved - before.units_moved;
    moved as f64 / (after.units_written - before.units_written) as f64
}

#[test]
fn what_is_told_apart_is_kept_apart() {
    let together = collected(1, 1);
    let apart = collected(2, 1);
    println!("moved for each unit written: {together:.3} in one stream, {apart:.3} in two");
    assert!(apart < 0.8 * together, "{apart} and {together}");
    // A drive of two streams, and a host that tells nothing apart.
    let untold = collected(2, 0);
    assert!((untold / together - 1.0).abs() < 0.1, "{untold} and {together}");
    // More streams than the drive has: the last one.
    assert_eq!(collected(2, 9), apart);
}
