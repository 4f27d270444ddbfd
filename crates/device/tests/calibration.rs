//! Every shipped drive reproduces the figures it was published with, in virtual time; and the disks behave as
//! mechanics and queueing theory say they must.
#![allow(clippy::unwrap_used)]

use mezzanine_device::model::{self, ClosedLoop, Model, OperationKind, Outcome, Timing, closed_loop};
use mezzanine_ground::random::{Random, splitmix_sequence};

const OPERATIONS: u64 = 20_000;

/// A closed loop of random requests over the first `span` of the drive.
fn random(model: &Model, kind: OperationKind, clients: usize, span: f64) -> Outcome {
    let timing = model.timing().unwrap();
    let len = model.figures.random_request_bytes;
    let blocks = (model.capacity_bytes as f64 * span) as u64 / len;
    // The addresses with which the models were compared with what was published. With others the figures are
    // up to one percent away from these.
    let mut numbers = splitmix_sequence(20_261_120);
    let setup = ClosedLoop { clients, warm_up: OPERATIONS / 4, operations: OPERATIONS };
    closed_loop(&*timing, setup, |_| timing.operation(kind, numbers.next().unwrap() % blocks * len, len))
}

/// A closed loop of requests that follow one another.
fn sequential(model: &Model, kind: OperationKind, clients: usize) -> Outcome {
    let timing = model.timing().unwrap();
    let len = model.figures.sequential_request_bytes;
    let setup = ClosedLoop { clients, warm_up: OPERATIONS / 4, operations: OPERATIONS };
    closed_loop(&*timing, setup, |number| timing.operation(kind, number * len, len))
}

#[track_caller]
fn assert_near(what: &str, obtained: f64, published: f64, tolerance: f64) {
    let deviation = obtained / published - 1.0;
    println!("{what}: {obtained:.1}, published {published}, {:+.1} %", deviation * 100.0);
    assert!(
        deviation.abs() <= tolerance,
        "{what}: {obtained:.1} for {published}, {:+.1} %",
        deviation * 100.0
    );
}

/// Drives the model as its figures were measured and compares all four.
fn reproduces_its_figures(name: &str, tolerance: f64) {
    let model = model::find(name).unwrap();
    let figures = &model.figures;
    let depth = figures.queue_depth as usize;
    let read = random(&model, OperationKind::Read, depth, 1.0).per_second;
    assert_near(&format!("{name} random read"), read, figures.read_random_iops, tolerance);
    let write = random(&model, OperationKind::Write, depth, 1.0).per_second;
    assert_near(&format!("{name} random write"), write, figures.write_random_iops, tolerance);
    let read = sequential(&model, OperationKind::Read, depth).mb_per_s;
    assert_near(&format!("{name} sequential read"), read, figures.read_sequential_mb_per_s, tolerance);
    let write = sequential(&model, OperationKind::Write, depth).mb_per_s;
    assert_near(&format!("{name} sequential write"), write, figures.write_sequential_mb_per_s, tolerance);
}

macro_rules! calibrated {
    ($($test:ident: $name:literal within $tolerance:literal;)*) => {
        $(#[test] fn $test() { reproduces_its_figures($name, $tolerance); })*

        #[test]
        fn every_shipped_drive_has_a_calibration_test() {
            let tested = [$($name),*];
            // Flash drives from the inside are calibrated where they are computed.
            for model in model::catalogue().into_iter().filter(|model| model.timing().is_ok()) {
                assert!(tested.contains(&&*model.name), "{} is not tested", model.name);
            }
        }
    };
}

calibrated! {
    samsung_840_pro: "samsung-840-pro" within 0.005;
    samsung_850_evo: "samsung-850-evo" within 0.005;
    intel_dc_s3500: "intel-dc-s3500" within 0.005;
    intel_p3700: "intel-p3700" within 0.005;
    ssd_mid_a: "ssd-mid-a" within 0.005;
    ssd_mid_b: "ssd-mid-b" within 0.005;
    nvme_local: "nvme-local" within 0.005;
    cloud_volume: "cloud-volume" within 0.005;
    cheetah_15k: "cheetah-15k" within 0.02;
    cheetah_15k_cached: "cheetah-15k-cached" within 0.03;
    cheetah_15k_x8: "cheetah-15k-x8" within 0.02;
    cheetah_15k_x16: "cheetah-15k-x16" within 0.02;
}

#[test]
fn every_figure_of_a_shipped_model_has_a_source() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/models")).unwrap() {
        let path = entry.unwrap().path();
        let model = Model::load(&path).unwrap();
        assert_eq!(path.file_stem().unwrap().to_str().unwrap(), model.name);
        assert!(model::catalogue().contains(&model), "{} does not ship", model.name);
        let file: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        let kinds = ["drive", "hdd", "ssd"];
        let mechanism = kinds.iter().find_map(|kind| file.get(*kind)).unwrap().as_table().unwrap();
        for key in mechanism.keys().map(String::as_str).chain(["capacity_bytes", "volatile_cache", "figures"])
        {
            // One source may stand for several keys: `window` for `read_window` and `write_window`.
            let stated = model.sources.iter().any(|(source, text)| {
                !text.is_empty() && source.split('_').all(|word| key.split('_').any(|part| part == word))
            });
            assert!(stated, "{}: {key} has no source", model.name);
        }
    }
}

#[test]
fn throughput_of_a_drive_obeys_the_bounds_of_queueing() {
    // X = min(N / R, 1 / D), exact for constant service: 840 Pro, R = 101 us alone, D = 1/65,803 s.
    let model = model::find("samsung-840-pro").unwrap();
    for clients in [1, 2, 4, 6, 8, 16, 64] {
        let bound = (clients as f64 / 101e-6).min(65_803.0);
        let outcome = random(&model, OperationKind::Read, clients, 1.0);
        assert_near(&format!("{clients} clients"), outcome.per_second, bound, 0.01);
    }
}

#[test]
fn a_lone_request_of_the_disk_takes_seek_rotation_and_transfer() {
    // 3.4 ms + 2 ms + 0.03 ms and 3.9 ms + 2 ms + 0.03 ms.
    let model = model::find("cheetah-15k").unwrap();
    let read = random(&model, OperationKind::Read, 1, 1.0);
    assert_near("depth 1 read", read.per_second, 184.0, 0.02);
    let write = random(&model, OperationKind::Write, 1, 1.0);
    assert_near("depth 1 write", write.per_second, 169.0, 0.02);
    assert!(read.utilisation > 0.999 && read.response_us_max < 13_000.0);
}

#[test]
fn a_deep_queue_is_served_faster_and_nobody_starves() {
    let model = model::find("cheetah-15k").unwrap();
    let mut before = 0.0;
    for depth in [1, 2, 4, 8, 16, 32] {
        let outcome = random(&model, OperationKind::Read, depth, 1.0);
        assert!(outcome.per_second > before * 1.05, "depth {depth}: {} after {before}", outcome.per_second);
        assert!(outcome.response_us_max < 400_000.0, "depth {depth}: waited {} us", outcome.response_us_max);
        before = outcome.per_second;
    }
    // Three requests waiting: what an array leaves to each disk.
    let shallow = random(&model, OperationKind::Read, 3, 1.0).per_second;
    assert!((222.0..266.0).contains(&shallow), "{shallow}");
}

#[test]
fn short_seeks_pay() {
    let model = model::find("cheetah-15k").unwrap();
    let whole = random(&model, OperationKind::Read, 32, 1.0).per_second;
    let third = random(&model, OperationKind::Read, 32, 1.0 / 3.0).per_second;
    assert!((1.25..1.75).contains(&(third / whole)), "{third} on a third, {whole} on the whole disk");
}

#[test]
fn fifty_clients_do_not_get_sixteen_times_a_deep_queue_out_of_sixteen_disks() {
    let model = model::find("cheetah-15k-x16").unwrap();
    let outcome = random(&model, OperationKind::Read, 50, 1.0);
    let while_busy = outcome.per_second / 16.0 / outcome.utilisation;
    println!(
        "{:.0} a second, {:.2} busy, {while_busy:.0} per busy disk",
        outcome.per_second, outcome.utilisation
    );
    assert!((222.0..266.0).contains(&while_busy), "{while_busy} per busy disk");
    // N / (N + K - 1) holds for exponential service; ours varies less, so that disks idle less.
    assert!((0.77..0.95).contains(&outcome.utilisation), "{} busy", outcome.utilisation);
    // Little's law: clients = rate * response time.
    let clients = outcome.per_second * outcome.response_us_mean / 1e6;
    assert_near("clients by Little's law", clients, 50.0, 0.01);
}

#[test]
fn arrays_of_any_size_grow_in_proportion() {
    for disks in [2, 4, 12, 32] {
        let model = model::find(&format!("cheetah-15k-x{disks}")).unwrap();
        let depth = 32 * disks as usize;
        let outcome = random(&model, OperationKind::Read, depth, 1.0);
        assert_near(&format!("{disks} disks"), outcome.per_second / f64::from(disks), 5166.0 / 16.0, 0.04);
        let stream = sequential(&model, OperationKind::Read, depth);
        assert_near(&format!("{disks} disks"), stream.mb_per_s / f64::from(disks), 1723.0 / 16.0, 0.02);
    }
}

#[test]
fn a_synced_log_on_a_disk_without_write_cache_gets_one_write_per_revolution() {
    let model = model::find("cheetah-15k").unwrap();
    let timing = model.timing().unwrap();
    let mut state = timing.idle();
    let (mut now, mut count) = (0_u64, 0_u64);
    while now < 1_000_000_000 {
        let write = timing.operation(OperationKind::Write, count * 8192, 8192);
        now = finish(&*timing, &mut state, now, write) + 20_000;
        count += 1;
    }
    // A revolution takes 4 ms; whoever asks 20 us after a write has to wait for the next one.
    assert_near("log writes", count as f64, 250.0, 0.03);
}

/// Runs one operation alone to its completion.
fn finish(timing: &dyn Timing, state: &mut [u64], now: u64, operation: model::Operation) -> u64 {
    let mut ticket = timing.submit(state, now, operation).unwrap().ticket;
    let mut at = now;
    loop {
        match timing.progress(state, at, &mut ticket) {
            model::Progress::At(completion) => return completion,
            model::Progress::NotBefore(later) => at = later,
        }
    }
}

#[test]
fn a_write_cache_answers_at_once_and_a_flush_pays_for_it() {
    let model = model::find("cheetah-15k-cached").unwrap();
    let timing = model.timing().unwrap();
    let mut state = timing.idle();
    let mut numbers = Random::new(7);
    let mut now = 0;
    for _ in 0..30 {
        let address = numbers.below(model.capacity_bytes);
        now = finish(&*timing, &mut state, now, timing.operation(OperationKind::Write, address, 4096));
    }
    assert!(now < 2_000_000, "thirty cached writes took {now} ns");
    let flushed = finish(&*timing, &mut state, now, model::Operation::FLUSH) - now;
    // Thirty writes in the best order: about 3 ms each, and not less than 1.
    assert!((30_000_000..150_000_000).contains(&flushed), "the flush took {flushed} ns");
    let again = finish(&*timing, &mut state, now + flushed, model::Operation::FLUSH) - now - flushed;
    assert!(again < 1_000_000, "a flush of nothing took {again} ns");
    // A single writer gets the rate of a deep queue, because the cache is one.
    let lone = random(&model, OperationKind::Write, 1, 1.0).per_second;
    assert!((300.0..500.0).contains(&lone), "{lone} writes a second from one client");
}

#[test]
fn a_cloud_volume_is_bound_by_the_tighter_of_its_limits() {
    let model = model::find("cloud-volume").unwrap();
    let timing = model.timing().unwrap();
    let setup = ClosedLoop { clients: 16, warm_up: 100, operations: 3_000 };
    let mut numbers = Random::new(3);
    for (len, per_second) in [(4096, 3000.0), (16_384, 3000.0), (131_072, 125e6 / 131_072.0)] {
        let outcome = closed_loop(&*timing, setup, |_| {
            timing.operation(OperationKind::Read, numbers.below(1 << 24) * len, len)
        });
        assert_near(&format!("{len} bytes"), outcome.per_second, per_second, 0.01);
    }
}
