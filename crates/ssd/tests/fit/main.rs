//! Drives of which a fit is not told the parameters: probed in virtual time by the loads of the probe, and
//! found again. `MEZZANINE_FIT_DRIVES` of each kind are drawn, one by default.
#![allow(clippy::unwrap_used)]

mod drives;
mod workloads;

use std::sync::Arc;
use std::time::Duration;

use mezzanine_device::Model;
use mezzanine_ssd::fit::{self, Facts, Fit, Measurements};
use mezzanine_ssd::load::VirtualDrive;
use mezzanine_ssd::{CacheKind, FlushRule, FlushTime, Ssd, SsdConfig};

const CLIENTS: usize = 128;

/// What a probe finds of a drive; of all of it, if it is written over.
fn probe(config: &SsdConfig, is_whole: bool) -> Measurements {
    let facts = Facts {
        capacity_bytes: config.capacity_bytes,
        span_bytes: 32 << 20,
        volatile_cache: Some(config.cache.kind == CacheKind::Volatile),
        has_fua: true,
    };
    let mut drive = VirtualDrive::new(Arc::new(Ssd::new(config.clone()).unwrap()), true);
    fit::measure(&mut drive, facts, CLIENTS, Duration::from_millis(150), is_whole)
}

fn within(name: &str, found: f64, wanted: f64, factor: f64) {
    println!("{name}: {found:.3} where it is {wanted:.3}");
    let ratio = found / wanted;
    assert!((1.0 / factor..=factor).contains(&ratio), "{name}: {found} and not {wanted}");
}

/// Time of the firmware for a flush, or of the command if it is nothing else.
fn flush_us(config: &SsdConfig) -> f64 {
    match (&config.cache.flush, &config.cache.flush_us) {
        (FlushRule::OrderingPoint, _) => config.host.command_us,
        (FlushRule::Drain, FlushTime::Same(us)) => *us,
        (FlushRule::Drain, FlushTime::ByUnits(points)) => points[0].1,
    }
}

fn erase_unit_bytes(config: &SsdConfig) -> f64 {
    let geometry = &config.geometry;
    f64::from(geometry.planes()) * f64::from(geometry.pages_per_block) * f64::from(geometry.page_bytes)
}

/// Probes, fits and compares the drives of a kind.
fn find(kind: CacheKind, flush: FlushRule, first: u64) {
    let drives: u64 = std::env::var("MEZZANINE_FIT_DRIVES").map_or(1, |text| text.parse().unwrap());
    for seed in (0..drives).map(|number| first + 4 * number) {
        let config = drives::draw(kind, flush, seed);
        let fitted = fit::fit(&probe(&config, true)).unwrap();
        println!(
            "drive {seed}, {kind:?}, {flush:?}, {:.1} % off what was measured",
            100.0 * fitted.off_mean()
        );
        assert_eq!((fitted.config.cache.kind, fitted.config.cache.flush), (kind, flush));
        within("flush", flush_us(&fitted.config), flush_us(&config), 1.1);
        is_found_inside(&config, &fitted);
        compare(&config, &fitted.config);
    }
}

/// Buffer and erase unit. Nothing shows them where each write waits for flash and for the map's journal.
fn is_found_inside(config: &SsdConfig, fitted: &Fit) {
    let is_cached = config.cache.kind != CacheKind::None;
    for name in ["cache.buffer_bytes", "geometry (erase unit)", "geometry (spare)"] {
        assert_eq!(fitted.is_determined(name), is_cached, "{name}");
    }
    if is_cached {
        let buffer = |config: &SsdConfig| config.cache.buffer_bytes as f64;
        within("buffer", buffer(&fitted.config), buffer(config), 2.0);
        within("erase unit", erase_unit_bytes(&fitted.config), erase_unit_bytes(config), 2.0);
    }
}

/// Twenty workloads that were not probed.
fn compare(config: &SsdConfig, fitted: &SsdConfig) {
    let all = workloads::all();
    assert_eq!(all.len(), 20);
    for workload in all {
        let (wanted, found) = (workloads::rate(config, workload), workloads::rate(fitted, workload));
        let off = found / wanted - 1.0;
        let (load, is_whole) = workload;
        println!("{:+6.1} % {}{}", 100.0 * off, load.describe(), if is_whole { ", all full" } else { "" });
        assert!(off.abs() < 0.15, "{}: {found} a second where it is {wanted}", load.describe());
    }
}

#[test]
fn drives_with_a_volatile_cache_are_found() {
    find(CacheKind::Volatile, FlushRule::Drain, 0);
}

#[test]
fn drives_with_a_durable_cache_that_drains_are_found() {
    find(CacheKind::Durable, FlushRule::Drain, 1);
}

#[test]
fn drives_whose_flushes_are_points_of_order_are_found() {
    find(CacheKind::Durable, FlushRule::OrderingPoint, 2);
}

#[test]
fn drives_without_a_cache_are_found() {
    find(CacheKind::None, FlushRule::Drain, 3);
}

#[test]
fn what_nothing_shows_is_not_claimed_and_the_model_file_is_one() {
    let config = drives::draw(CacheKind::Volatile, FlushRule::Drain, 5);
    let mut measured = probe(&config, false);
    measured.facts.has_fua = false;
    let fitted = fit::fit(&measured).unwrap();
    for name in ["geometry (erase unit)", "geometry (spare)", "timings.program_us", "geometry.page_bytes"] {
        assert!(!fitted.is_determined(name), "{name}");
        let parameter = fitted.parameters.iter().find(|parameter| parameter.name == name).unwrap();
        assert!(!parameter.why.is_empty());
    }
    let text = fitted.to_toml("found", "Found again", "a test").unwrap();
    let model = Model::from_toml(&text, "found.toml").unwrap();
    let ssd = Ssd::of_model(&model).unwrap().unwrap();
    assert_eq!(ssd.config(), &fitted.config);
    assert!(model.figures.read_random_iops > 0.0 && model.figures.write_sequential_mb_per_s > 0.0);
}
