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

/// The model with these lines in its table of zones.
fn limited(lines: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/native-flash.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("[ssd.zones]\n", &format!("[ssd.zones]\n{lines}\n"));
    Model::from_toml(&text, "limited").unwrap()
}

impl Drive {
    fn new() -> Self {
        Self::of(&model())
    }

    fn of(model: &Model) -> Self {
        let ssd = ZonedSsd::of_model(model).unwrap().unwrap();
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

#[test]
fn what_waits_for_a_partner_is_in_the_register_and_behind_a_finished_end_is_nothing() {
    let mut drive = Drive::new();
    let zones = drive.ssd.zones();
    let at = zones.conventional * zones.zone_len;
    drive.run(OperationKind::Write, at, 3 * 4096);
    let hits = |drive: &mut Drive, from: u64, units: u64| {
        let before = drive.ssd.counters(&drive.state).buffer_hits;
        drive.run(OperationKind::Read, at + 4096 * from, 4096 * units);
        drive.ssd.counters(&drive.state).buffer_hits - before
    };
    assert_eq!((hits(&mut drive, 0, 2), hits(&mut drive, 2, 1), hits(&mut drive, 3, 9)), (0, 1, 0));
    drive.run(OperationKind::Finish, at, 0);
    assert_eq!((hits(&mut drive, 0, 4), hits(&mut drive, 4, 9)), (0, 0));
}

#[test]
fn no_more_zones_are_begun_than_may_be_active() {
    let mut drive = Drive::of(&limited("max_active_zones = 2\nmax_open_zones = 1"));
    let zones = drive.ssd.zones();
    assert_eq!((zones.active_max, zones.open_max), (2, 1));
    let zone = |number| (zones.conventional + number) * zones.zone_len;
    drive.run(OperationKind::Write, zone(0), 4096);
    drive.run(OperationKind::Write, zone(1), 8192);
    // What has no partner is programmed when its zone is finished; then another zone may be begun.
    let before = drive.ssd.counters(&drive.state);
    drive.run(OperationKind::Finish, zone(0), 0);
    let after = drive.ssd.counters(&drive.state);
    assert_eq!(
        (after.pages_programmed, after.units_padded),
        (before.pages_programmed + 1, before.units_padded + 1)
    );
    assert_eq!(after.units_programmed, before.units_programmed + 1);
    drive.run(OperationKind::Write, zone(2), 4096);
    let full = zones.zone_len - 8192;
    drive.run(OperationKind::Write, zone(1) + 8192, full);
    drive.run(OperationKind::Write, zone(3), 4096);
    drive.run(OperationKind::Reset, zone(0), 0);
    let mut over = Drive { ssd: drive.ssd.clone(), state: drive.state.clone(), now: drive.now };
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        over.run(OperationKind::Write, zone(0), 4096)
    }));
    let text = *refused.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("Z4") && text.contains("2 are written in part"), "{text}");
    drive.run(OperationKind::Finish, zone(2), 0);
    drive.run(OperationKind::Write, zone(0), 4096);
}

#[test]
fn limits_of_a_model_are_checked() {
    let error =
        ZonedSsd::of_model(&limited("max_active_zones = 2\nmax_open_zones = 3")).unwrap_err().to_string();
    assert!(
        error.contains("max_open_zones") && error.contains("no more than max_active_zones, 2"),
        "{error}"
    );
    assert!(ZonedSsd::of_model(&limited("max_open_zones = 3")).is_ok(), "any number may be active");
    assert!(ZonedSsd::of_model(&limited("max_zones = 3")).unwrap_err().to_string().contains("max_zones"));
}
