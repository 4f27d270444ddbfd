//! Writes per flush: Table 1 of "Durable Write Cache in Flash Memory SSD for Relational and NoSQL Databases"
//! (SIGMOD 2014), one client that writes 4 KB at places drawn evenly.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{self, Operation, OperationKind, Timing};
use mezzanine_ground::random::Random;
use mezzanine_ssd::{CacheKind, FlushRule, Ssd};

const WRITES_PER_FLUSH: [u64; 8] = [1, 4, 8, 16, 32, 64, 128, 256];

fn drive(name: &str) -> Ssd {
    Ssd::of_model(&model::find(name).unwrap()).unwrap().unwrap()
}

/// Writes a second with a flush after each `per_flush` of them.
fn writes_per_second(ssd: &Ssd, per_flush: Option<u64>) -> f64 {
    let mut state = ssd.idle();
    let mut random = Random::new(3);
    let (mut now, writes) = (0, 4096);
    for number in 1..=writes {
        let write = ssd.operation(OperationKind::Write, 4096 * random.below(ssd.capacity() / 4096), 4096);
        now = ssd.submit(&mut state, now, write).unwrap().ticket.completion().unwrap();
        if per_flush.is_some_and(|per_flush| number % per_flush == 0) {
            now = ssd.submit(&mut state, now, Operation::FLUSH).unwrap().ticket.completion().unwrap();
        }
    }
    f64::from(writes as u32) / (now as f64 / 1e9)
}

fn row(ssd: &Ssd) -> [f64; 9] {
    let mut row = [0.0; 9];
    for (figure, per_flush) in row.iter_mut().zip(WRITES_PER_FLUSH) {
        *figure = writes_per_second(ssd, Some(per_flush));
    }
    row[8] = writes_per_second(ssd, None);
    row
}

fn off(row: &[f64; 9], published: &[f64; 9]) -> [f64; 9] {
    let mut off = *row;
    off.iter_mut().zip(published).for_each(|(off, published)| *off = 100.0 * (*off / published - 1.0));
    println!("{row:.0?}\n{off:.1?}");
    off
}

#[test]
fn the_ends_are_fitted_and_the_middle_follows() {
    let found = row(&drive("durassd"));
    let off = off(&found, &[225.0, 836.0, 1556.0, 2556.0, 5020.0, 6969.0, 10582.0, 12647.0, 15319.0]);
    assert!(off[0].abs() < 1.0 && off[8].abs() < 1.0, "the ends");
    for (column, off) in off.iter().enumerate().take(8).skip(1) {
        let most = if WRITES_PER_FLUSH[column] == 16 { 16.0 } else { 10.0 };
        assert!(off.abs() < most, "{} writes per flush: {off} %", WRITES_PER_FLUSH[column]);
    }
}

#[test]
fn the_state_of_480_gb_takes_a_gibibyte_at_most() {
    let bytes = drive("durassd").state_bytes();
    println!("{bytes} bytes");
    assert!(bytes <= 1 << 30, "{bytes} bytes");
}

#[test]
fn an_ordering_point_costs_nothing() {
    let mut config = drive("durassd").config().clone();
    config.cache.flush = FlushRule::OrderingPoint;
    let ssd = Ssd::new(config).unwrap();
    let (with, without) = (writes_per_second(&ssd, Some(1)), writes_per_second(&ssd, None));
    println!("{with} {without}");
    assert!(with > 0.5 * without, "only a command more: {with} and {without}");
}

#[test]
fn the_others_fit_all_columns() {
    let published = [
        ("ssd-a", [256.0, 759.0, 1297.0, 2219.0, 3595.0, 5094.0, 6794.0, 8782.0, 11681.0]),
        ("ssd-b", [655.0, 1762.0, 2319.0, 3152.0, 4046.0, 5177.0, 6318.0, 8575.0, 8456.0]),
    ];
    for (name, published) in published {
        let off = off(&row(&drive(name)), &published);
        assert!(off.iter().all(|off| off.abs() < 5.0), "{name}: {off:?} %");
    }
}

#[test]
fn without_a_cache_a_write_takes_two_programs() {
    let mut config = drive("durassd").config().clone();
    config.cache.kind = CacheKind::None;
    let ssd = Ssd::new(config).unwrap();
    let found = row(&ssd);
    let off = off(&found, &[249.0, 330.0, 438.0, 467.0, 482.0, 490.0, 495.0, 497.0, 498.0]);
    assert!(off[8].abs() < 5.0, "{off:?}");
    assert!(off.iter().all(|off| off.abs() < 20.0), "{off:?}");
}
