//! Flash without a translation layer: what is programmed is what the host writes.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use mezzanine_device::model::{Model, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::zoned::ZonedSsd;
use mezzanine_ssd::{Inside, behind_translation_layer, timing};

fn model() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/native-flash.toml");
    Model::load(path.to_str().unwrap()).unwrap()
}

struct Drive {
    ssd: ZonedSsd,
    state: Box<[u64]>,
    now: u64,
}

impl Drive {
    fn new() -> Self {
        let ssd = ZonedSsd::of_model(&model()).unwrap().unwrap();
        let state = ssd.idle();
        Self { ssd, state, now: 0 }
    }

    /// Returns how long it took.
    fn run(&mut self, kind: OperationKind, address: u64, len: u64) -> u64 {
        let operation = self.ssd.operation(kind, address, len);
        let ticket = self.ssd.submit(&mut self.state, self.now, operation).unwrap().ticket;
        let began = std::mem::replace(&mut self.now, ticket.completion().unwrap());
        self.now - began
    }
}

#[test]
fn zones_are_programmed_once_for_what_is_written_and_worn_evenly() {
    let mut drive = Drive::new();
    let zones = drive.ssd.zones();
    let (first, last) = (zones.conventional, zones.count);
    for _ in 0..3 {
        for zone in first..last {
            drive.run(OperationKind::Reset, zone * zones.zone_len, 0);
            // 65 units, as a group of 64 pages has: the last of them waits for a partner.
            let (mut at, end) = (zone * zones.zone_len, (zone + 1) * zones.zone_len);
            while at < end {
                let len = (65 * 4096).min(end - at);
                drive.run(OperationKind::Write, at, len);
                at += len;
            }
            drive.run(OperationKind::Flush, 0, 0);
        }
    }
    let counters = drive.ssd.counters(&drive.state);
    assert_eq!(counters.write_amplification(), Some(1.0));
    assert_eq!(counters.units_programmed, counters.units_written);
    assert_eq!(counters.pages_programmed * 2, counters.units_written);
    let erases = drive.ssd.erases(&drive.state);
    // The first time there was nothing to erase; flash beside the zones is the area's.
    assert_eq!(erases.iter().filter(|erases| **erases == 2).count() as u64, (last - first) * 8);
    assert_eq!(counters.erases, (last - first) * 8 * 2);
}

#[test]
fn planes_work_side_by_side_and_an_erase_takes_one_of_them_long() {
    let mut drive = Drive::new();
    let zones = drive.ssd.zones();
    let at = zones.conventional * zones.zone_len;
    let one = drive.run(OperationKind::Write, at, 8192);
    let eight = drive.run(OperationKind::Write, at + 8192, 8 * 8192);
    assert!(one > 970_000 && eight < 2 * one, "a page takes {one} ns, eight take {eight}");
    let erase = drive.run(OperationKind::Reset, at, 0);
    assert!((3_500_000..2 * 3_500_000).contains(&erase), "{erase} ns");
    let nothing = drive.run(OperationKind::Reset, at, 0);
    assert!(nothing < 100_000, "there is nothing to erase, and it took {nothing} ns");
    let unwritten = drive.run(OperationKind::Read, at, 4096);
    assert!(unwritten < 100_000, "nothing is read from flash, and it took {unwritten} ns");
}

#[test]
#[should_panic(expected = "write pointer")]
fn a_write_elsewhere_than_at_the_write_pointer() {
    let mut drive = Drive::new();
    let zones = drive.ssd.zones();
    drive.run(OperationKind::Write, zones.conventional * zones.zone_len + 4096, 4096);
}

#[test]
fn the_conventional_area_is_written_over_in_two_halves_in_turn() {
    let mut drive = Drive::new();
    let (mut random, zones) = (Random::new(1), drive.ssd.zones());
    let units = zones.conventional_len() / 4096;
    // Four times what a half has room for, a few units at a time.
    for _ in 0..2 * units {
        drive.run(OperationKind::Write, 4096 * random.below(units - 4), 4 * 4096);
    }
    let counters = drive.ssd.counters(&drive.state);
    assert_eq!(counters.units_programmed, counters.units_written);
    assert!(counters.erases > 0 && counters.units_moved > 0, "{counters:?}");
    // A half has room for two areas: each copy of at most one is paid for by at least one that was written.
    assert!((1.3..2.0).contains(&counters.write_amplification().unwrap()), "{counters:?}");
    let read = drive.run(OperationKind::Read, 0, 4096);
    assert!(read > 50_000, "it is in flash, and took {read} ns");
}

#[test]
fn a_model_says_what_it_is_and_has_a_twin_behind_a_translation_layer() {
    let model = model();
    assert!(matches!(Inside::of_model(&model), Ok(Some(Inside::Zoned(_)))));
    let mapped = behind_translation_layer(&model).unwrap().unwrap();
    assert!(matches!(Inside::of_model(&mapped), Ok(Some(Inside::Mapped(_)))));
    assert!(mapped.capacity_bytes <= model.capacity_bytes && mapped.capacity_bytes > 400_000_000);
    assert!(behind_translation_layer(&mapped).unwrap().is_none());
    // Who knows nothing of zones is told.
    let error = timing(&model).unwrap_err().to_string();
    assert!(error.contains("only a tier on zones"), "{error}");
    let without = Model { capacity_bytes: model.capacity_bytes + 4096, ..model };
    let error = ZonedSsd::of_model(&without).unwrap_err().to_string();
    assert!(error.contains("capacity_bytes") && error.contains("whole zones"), "{error}");
}
