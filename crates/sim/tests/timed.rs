//! Virtual time: what must hold of every run, and agreement with the device models run alone.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;

use mezzanine_device::model::{self, ClosedLoop, OperationKind, closed_loop};
use mezzanine_engine::{Admission, Design, SyncMode};
use mezzanine_sim::timed::{Configuration, LogDevice, Outcome, PoolPolicy, Setup, WarmUp, Workload, run};
use mezzanine_trace::{Format, Shape};
use mezzanine_workload::Random;

/// A database of 20,000 pages with a pool of 600 and a tier of some 3,000: a second or two of simulated time.
fn small() -> Setup {
    Setup {
        workload: Workload::Shape { shape: Shape::Tpcc, pages: 20_000, write_share: 0.0, exponent: 0.99 },
        clients: 20,
        pool_bytes: 600 * 4096,
        // A sixteenth of them is kept for the names of lost pages.
        flash_bytes: 13_900_000,
        seconds: 2.0,
        interval_seconds: 0.5,
        ..Setup::default()
    }
}

/// Pages that are all as likely, each for itself.
fn uniform(pages: u32, write_share: f64) -> Workload {
    Workload::Shape { shape: Shape::Uniform, pages, write_share, exponent: 0.0 }
}

fn every_configuration() -> impl Iterator<Item = Configuration> {
    Configuration::all()
}

/// The sync mode with which a configuration is tried.
fn mode_of(configuration: Configuration) -> SyncMode {
    let fixed = matches!(configuration, Configuration::Tier(design) if design.has_slots());
    if fixed { SyncMode::Through } else { SyncMode::Durable }
}

/// What must hold whatever was simulated.
#[track_caller]
fn check(name: &str, outcome: &Outcome) {
    for requests in [outcome.hits.all, outcome.hits.reads, outcome.hits.writes] {
        let served = requests.pool + requests.staging + requests.flash + requests.disk;
        assert_eq!(served, requests.requests, "{name}: each request is answered once");
    }
    let all = outcome.hits.all;
    assert_eq!(all.requests, outcome.hits.reads.requests + outcome.hits.writes.requests, "{name}");
    let latency = &outcome.latency;
    for (served, latency) in
        [(all.staging, latency.staging), (all.flash, latency.flash), (all.disk, latency.disk)]
    {
        assert_eq!(served, latency.count, "{name}: the latency of each request is measured");
        assert!(latency.p50_us <= latency.p99_us && latency.p99_us <= latency.max_us, "{name}");
    }
    assert_eq!(latency.fetch.count, all.pool_misses(), "{name}");
    assert_eq!(latency.transaction.count, outcome.throughput.transactions, "{name}");
    let in_series: f64 = outcome
        .series
        .iter()
        .fold((0.0, 0.0), |(sum, begin), interval| {
            (sum + interval.transactions_per_second * (interval.end - begin), interval.end)
        })
        .0;
    assert!(
        (in_series - outcome.throughput.transactions as f64).abs() < 0.5,
        "{name}: the series is all there is"
    );
    for resource in &outcome.resources {
        assert!((0.0..1.05).contains(&resource.utilisation), "{name}: {resource:?}");
    }
}

/// Little's law for the clients: without thinking each has a transaction under way at any time.
#[track_caller]
fn check_little(name: &str, clients: u32, outcome: &Outcome) {
    let under_way = outcome.throughput.transactions_per_second * outcome.latency.transaction.mean_us / 1e6;
    let deviation = under_way / f64::from(clients) - 1.0;
    assert!(deviation.abs() < 0.1, "{name}: {under_way} transactions are under way, of {clients} clients");
}

#[test]
fn every_configuration_answers_every_request_once() {
    for configuration in every_configuration() {
        // The clock has a way of its own only beside one configuration or another.
        let policies: &[_] = match configuration {
            Configuration::Disk | Configuration::Tier(Design::FaceGsc) => {
                &[PoolPolicy::Lru, PoolPolicy::Clock]
            }
            _ => &[PoolPolicy::Lru],
        };
        for &pool_policy in policies {
            let sync_mode = mode_of(configuration);
            // Where all is written through transactions take long, and fewer begin and end within the run.
            let seconds = if sync_mode == SyncMode::Through { 6.0 } else { small().seconds };
            let setup = Setup { configuration, pool_policy, sync_mode, seconds, ..small() };
            let outcome = run(&setup).unwrap();
            let name = format!("{configuration}, {pool_policy}");
            check(&name, &outcome);
            check_little(&name, setup.clients, &outcome);
            assert!(outcome.throughput.transactions > 50, "{name}: {:?}", outcome.throughput);
            assert!(outcome.throughput.new_orders_per_minute.unwrap() > 0.0);
            assert!(outcome.warm_up.filled, "{name}");
            let hits = outcome.hits;
            assert_eq!(hits.all.flash > 0, configuration != Configuration::Disk, "{name}");
            assert_eq!(hits.all.disk > 0, configuration != Configuration::Flash, "{name}");
        }
    }
}

#[test]
fn the_same_setup_gives_the_same_outcome_to_the_last_byte() {
    let text = |setup: &Setup| serde_json::to_string(&run(setup).unwrap()).unwrap();
    let setup = Setup { checkpoint_seconds: 0.7, think_us: 500.0, cleaner_frames: 8, ..small() };
    let first = text(&setup);
    assert_eq!(text(&setup), first);
    assert_ne!(text(&Setup { seed: 2, ..setup }), first);
}

#[test]
fn every_way_to_host_a_tier_answers_every_request_once() {
    let durable = small();
    let variants = [
        ("no workers", Setup { workers: 0, ..durable.clone() }),
        ("one worker", Setup { workers: 1, job_depth: 1, ..durable.clone() }),
        ("many workers", Setup { workers: 8, ..durable.clone() }),
        ("a cleaner", Setup { cleaner_frames: 30, ..durable.clone() }),
        (
            "a cleaner and no tier",
            Setup { cleaner_frames: 30, configuration: Configuration::Disk, ..durable.clone() },
        ),
        ("clean pages only", Setup { admission: Admission::Clean, ..durable.clone() }),
        ("dirty pages only", Setup { admission: Admission::Dirty, ..durable.clone() }),
        ("no pulling", Setup { pull: false, ..durable.clone() }),
        ("free flushes", Setup { flash_flushes: false, ..durable.clone() }),
        (
            "large pages",
            Setup {
                page_bytes: 16_384,
                pool_bytes: 600 * 16_384,
                flash_bytes: 52_000_000,
                ..durable.clone()
            },
        ),
        (
            "a log on a drive",
            Setup {
                log: LogDevice::Device {
                    model: Box::new(model::find("samsung-840-pro").unwrap()),
                    bytes: 600,
                },
                ..durable.clone()
            },
        ),
        ("thinking", Setup { think_us: 20_000.0, ..durable.clone() }),
        ("clock", Setup { pool_policy: PoolPolicy::Clock, ..durable.clone() }),
    ];
    for (name, setup) in variants {
        let outcome = run(&setup).unwrap();
        check(name, &outcome);
        if setup.think_us == 0.0 {
            check_little(name, setup.clients, &outcome);
        }
        if setup.admission == Admission::Clean {
            assert_eq!(outcome.writes.staged_out, 0, "{name}: nothing dirty is on flash");
        }
        let clean = outcome.tier.iter().find(|(counter, _)| *counter == "staged_clean");
        let has_clean = clean.is_some_and(|(_, pages)| *pages > 0);
        let takes_clean = setup.configuration != Configuration::Disk && setup.admission != Admission::Dirty;
        assert_eq!(has_clean, takes_clean, "{name}");
    }
}

#[test]
fn checkpoints_complete_in_every_sync_mode() {
    for sync_mode in [SyncMode::Through, SyncMode::Drained, SyncMode::Durable] {
        for workers in [0, 2] {
            let setup = Setup { sync_mode, workers, checkpoint_seconds: 0.8, seconds: 4.0, ..small() };
            let outcome = run(&setup).unwrap();
            check(sync_mode.name(), &outcome);
            let waits = outcome.waits;
            assert!(waits.checkpoints + waits.checkpoints_late >= 4, "{sync_mode}: {waits:?}");
            assert!(
                waits.checkpoints >= 1 && outcome.writes.dirty_checkpointed > 0,
                "{sync_mode}: {waits:?}"
            );
            let reduction = outcome.writes.write_reduction.unwrap();
            match sync_mode {
                SyncMode::Through => assert!(reduction.abs() < 0.02, "each page goes to disk: {reduction}"),
                _ => assert!(reduction > 0.1, "{sync_mode}: {reduction}"),
            }
        }
    }
    for configuration in [Configuration::Disk, Configuration::Flash] {
        let setup =
            Setup { configuration, checkpoint_seconds: 0.8, sync_mode: mode_of(configuration), ..small() };
        let outcome = run(&setup).unwrap();
        check(configuration.name(), &outcome);
        assert!(outcome.waits.checkpoints > 0 && outcome.writes.dirty_checkpointed > 0);
    }
}

/// A machine whose clients do nothing but wait for the disk.
fn only_disk(clients: u32) -> Setup {
    Setup {
        workload: uniform(2_000_000, 0.0),
        transaction_requests: 1,
        clients,
        configuration: Configuration::Disk,
        pool_bytes: 1000 * 4096,
        cpu_us_per_request: 0.0,
        disk_span: Some(1.0),
        seconds: 20.0,
        ..Setup::default()
    }
}

#[test]
fn the_array_serves_clients_as_its_model_does_alone() {
    for clients in [1, 50] {
        let setup = only_disk(clients);
        let outcome = run(&setup).unwrap();
        let timing = setup.disk_model.timing().unwrap();
        let pages = 2_000_000;
        let mut random = Random::stream(9, &[]);
        let alone = ClosedLoop { clients: clients as usize, warm_up: 2_000, operations: 30_000 };
        let alone = closed_loop(&*timing, alone, |_| {
            let page = u64::from(random.uniform(0, pages - 1));
            let operation = timing.operation(OperationKind::Read, page * 4096, 4096);
            // The arms go over all of the stroke for these pages, as `disk_span` says.
            model::Operation { position: page as f64 / f64::from(pages), ..operation }
        });
        let reads = outcome.hits.all.disk as f64 / outcome.seconds;
        let deviation = reads / alone.per_second - 1.0;
        println!(
            "{clients} clients: {reads:.0} reads a second, alone {:.0}, {deviation:+.4}",
            alone.per_second
        );
        assert!(deviation.abs() < 0.03, "{clients} clients: {reads} for {}", alone.per_second);
        let disk = &outcome.resources[0];
        assert!((disk.utilisation / alone.utilisation - 1.0).abs() < 0.03, "{}", disk.utilisation);
        assert!((disk.queue_mean / f64::from(clients) - 1.0).abs() < 0.02, "{}", disk.queue_mean);
    }
}

#[test]
fn throughput_stays_within_the_bounds_of_its_stations() {
    // A drive that serves one page in 1 / 65,803 s and takes 101 us for one alone.
    let flash = model::find("samsung-840-pro").unwrap();
    let (service, alone) = (1.0 / 65_803.0_f64, 101e-6);
    for (clients, think_us) in [(1, 0.0), (4, 0.0), (50, 0.0), (20, 2_000.0), (200, 1_000.0)] {
        let setup = Setup {
            configuration: Configuration::Flash,
            flash_model: flash.clone(),
            think_us,
            seconds: 1.0,
            warm_up: WarmUp::Seconds(0.1),
            ..only_disk(clients)
        };
        let outcome = run(&setup).unwrap();
        let reads = outcome.hits.all.flash as f64 / outcome.seconds;
        let bound = (1.0 / service).min(f64::from(clients) / (think_us / 1e6 + alone));
        assert!(reads < bound * 1.03, "{clients} clients: {reads} reads a second, bound {bound}");
        assert!(reads > bound * 0.75, "{clients} clients: {reads} reads a second, bound {bound}");
    }
}

#[test]
fn clients_may_think_for_hours() {
    let setup = Setup {
        clients: 2,
        think_us: 3_600e6,
        warm_up: WarmUp::Transactions(1),
        seconds: 100_000.0,
        interval_seconds: 50_000.0,
        ..small()
    };
    let outcome = run(&setup).unwrap();
    check("thinking", &outcome);
    // Two clients with a transaction an hour.
    assert!((30..90).contains(&outcome.throughput.transactions), "{}", outcome.throughput.transactions);
}

#[test]
fn more_flash_answers_more_and_second_chances_help() {
    let of = |design, flash_bytes| {
        let setup = Setup { configuration: Configuration::Tier(design), flash_bytes, ..small() };
        run(&setup).unwrap()
    };
    let (small, large) = (of(Design::FaceGsc, 10_000_000), of(Design::FaceGsc, 40_000_000));
    assert!(large.hits.tier_ratio > small.hits.tier_ratio + 0.05);
    assert!(large.writes.write_reduction > small.writes.write_reduction);
    assert!(large.throughput.transactions > small.throughput.transactions);
    let gsc = of(Design::FaceGsc, 20_000_000);
    let basic = of(Design::FaceBasic, 20_000_000);
    assert!(gsc.hits.tier_ratio > basic.hits.tier_ratio);
    assert!(gsc.flash.write_bytes_mean.unwrap() > 50_000.0, "groups are written: {:?}", gsc.flash);
    assert!(gsc.flash.old_version_share.unwrap() > 0.01);
}

/// Writes a trace and returns the setup that replays it.
fn replayed(name: &str, text: &str) -> (std::path::PathBuf, Setup) {
    let path = std::env::temp_dir().join(format!("mezzanine-timed-{}-{name}", std::process::id()));
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    let workload = Workload::Trace { path: path.clone(), format: Format::Plain };
    let setup = Setup { workload, warm_up: WarmUp::Seconds(0.0), clients: 3, ..small() };
    (path, setup)
}

#[test]
fn a_trace_is_replayed_once_and_ends_the_run() {
    let numbers: String = (0..4_001u64).map(|n| format!("{}\n", n * n % 997)).collect();
    let (path, setup) = replayed("all", &numbers);
    let outcome = run(&setup).unwrap();
    check("trace", &outcome);
    assert_eq!(outcome.hits.all.requests, 4_001);
    assert_eq!(outcome.throughput.transactions, 401, "ten requests each, and what is left");
    assert_eq!(outcome.throughput.new_orders_per_minute, None);
    let auto = run(&Setup { warm_up: WarmUp::Auto, ..setup.clone() }).unwrap_err();
    assert!(auto.to_string().contains("warm_up: the trace is at its end"), "{auto}");
    let span = run(&Setup { disk_span: Some(0.5), ..setup.clone() }).unwrap_err();
    assert!(span.to_string().contains("disk_span: nobody knows"), "{span}");
    std::fs::remove_file(path).unwrap();
    let (path, setup) = replayed("empty", "");
    assert!(run(&setup).unwrap_err().to_string().contains("empty"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_cannot_be_simulated_is_refused_with_what_could_be() {
    let good = small();
    for (setup, words) in [
        (Setup { clients: 0, ..good.clone() }, ["clients", "use 1"]),
        (Setup { page_bytes: 5000, ..good.clone() }, ["page_bytes", "4096"]),
        (Setup { pool_bytes: 4096, ..good.clone() }, ["pool_bytes", "or more"]),
        (Setup { flash_bytes: 100_000, ..good.clone() }, ["flash_bytes", "or more"]),
        (Setup { seconds: f64::NAN, ..good.clone() }, ["seconds", "use 0.001"]),
        (Setup { memory_bytes_max: Some(1 << 20), ..good.clone() }, ["memory", "smaller"]),
        (Setup { workload: uniform(u32::MAX, 0.0), ..good.clone() }, ["workload", "larger pages"]),
        (Setup { workload: Workload::Tpcc { warehouses: 0 }, ..good.clone() }, ["workload", "give 1"]),
        (
            Setup {
                workload: Workload::Tpcc { warehouses: 3_000 },
                configuration: Configuration::Flash,
                pool_bytes: 1 << 30,
                ..good.clone()
            },
            ["flash_model", "larger device"],
        ),
    ] {
        let error = run(&setup).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is missing in {error:?}");
        }
    }
}

/// Flash without a translation layer, an eighth of the example of `crates/ssd`: 64 zones of 1 MiB, of which
/// each conventional one takes four.
fn native_flash(conventional: u64) -> mezzanine_device::Model {
    let text = include_str!("../../ssd/models/native-flash.toml")
        .replace("pages_per_block = 128", "pages_per_block = 16")
        .replace("conventional = 2", &format!("conventional = {conventional}"))
        .replace("486_539_264", &format!("{}", (64 - 3 * conventional) << 20));
    mezzanine_device::Model::from_toml(&text, "native").unwrap()
}

#[test]
fn a_queue_on_zones_writes_flash_once_and_the_same_behind_a_translation_layer_does_not() {
    let setup = Setup {
        workload: Workload::Shape { shape: Shape::Tpcc, pages: 40_000, write_share: 0.0, exponent: 0.99 },
        flash_bytes: 48_000_000,
        flash_model: native_flash(2),
        ..small()
    };
    let outcome = run(&setup).unwrap();
    check("zones", &outcome);
    assert!(outcome.warm_up.filled);
    let native = outcome.flash.inside.unwrap();
    // The host's part is 1; a page of a metadata segment may be written for half of it.
    let amplification = native.write_amplification.unwrap();
    assert!((1.0..1.005).contains(&amplification), "{native:?}");
    assert!(native.erases > 0 && native.of_map == Some(0.0), "{native:?}");
    let mapped = setup.behind_translation_layer().unwrap().unwrap();
    assert_eq!(mapped.tier_in_use().frames, setup.tier_in_use().frames);
    let mapped = run(&mapped).unwrap().flash.inside.unwrap();
    assert!(mapped.write_amplification.unwrap() > 1.05, "a drive that is full has to collect: {mapped:?}");
    // Twice the same.
    assert_eq!(run(&setup).unwrap(), outcome);
    // More conventional zones than the metadata take: the queue begins there.
    check("zones", &run(&Setup { flash_model: native_flash(3), ..setup }).unwrap());
}

#[test]
fn who_cannot_use_zones_is_refused() {
    let zoned = Setup { flash_bytes: 48_000_000, flash_model: native_flash(2), ..small() };
    for (setup, parameter) in [
        (Setup { configuration: Configuration::Flash, ..zoned.clone() }, "flash_model"),
        (Setup { configuration: Configuration::Tier(Design::Lru), ..zoned.clone() }, "zones"),
        (Setup { flash_model: native_flash(1), ..zoned.clone() }, "flash_bytes"),
        (Setup { configuration: Configuration::Disk, disk_model: native_flash(3), ..small() }, "disk_model"),
    ] {
        assert_eq!(run(&setup).unwrap_err().parameter, parameter, "{:?}", setup.configuration);
    }
}
