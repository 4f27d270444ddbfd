//! What came out, as JSON and for people.

use mezzanine_engine::TierConfig;
use mezzanine_report::{Table, facts, number, percent};
use mezzanine_sim::timed::{Configuration, Latency, LogDevice, Outcome, Setup, Workload};
use mezzanine_ssd::DriveWork;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::size::Size;

/// The parameters of a run, as far as somebody may want to compare them.
#[derive(Serialize)]
struct Parameters<'a> {
    workload: String,
    database_pages: Option<u64>,
    clients: u32,
    think_us: f64,
    seed: u64,
    page_bytes: u32,
    design: &'static str,
    pool_bytes: u64,
    pool_policy: String,
    cleaner_frames: u32,
    #[serde(flatten)]
    tier: Option<TierParameters>,
    flash_model: &'a str,
    disk_model: &'a str,
    disk_span: Option<f64>,
    log: String,
    cores: u32,
    cpu_us_per_request: f64,
    checkpoint_seconds: f64,
    checkpoint_spread: f64,
    /// Differs between setups that may give different results.
    setup_hash: String,
}

/// Those of the tier.
#[derive(Serialize)]
struct TierParameters {
    flash_bytes: u64,
    tier_frames: u64,
    admission: &'static str,
    returning_only: bool,
    /// Clean pages whose first offer is remembered, if only those come in that return.
    remembered_pages: Option<u64>,
    sync_mode: &'static str,
    group_pages: u32,
    survivors_max: u32,
    staging_groups: u32,
    pull: bool,
    workers: u32,
    job_depth: u32,
    flash_flushes: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    setup: Parameters<'a>,
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// What the same flash did inside in the same run behind a translation layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    behind_translation_layer: Option<&'a DriveWork>,
}

fn config_of(setup: &Setup) -> Option<TierConfig> {
    let is_tier = matches!(setup.configuration, Configuration::Tier(_));
    is_tier.then(|| setup.tier_in_use())
}

fn remembered(config: &TierConfig) -> Option<u64> {
    config.geometry().ok().map(|geometry| geometry.remembered_pages()).filter(|pages| *pages > 0)
}

fn workload(setup: &Setup) -> String {
    match &setup.workload {
        Workload::Tpcc { warehouses } => format!("tpcc, {warehouses} warehouses"),
        Workload::Shape { shape, pages, .. } => format!("{shape}, {pages} pages"),
        Workload::Trace { path, format } => format!("{} ({format})", path.display()),
    }
}

fn log(setup: &Setup) -> String {
    match &setup.log {
        LogDevice::Fixed { us } => format!("{us} microseconds a write"),
        LogDevice::Device { model, bytes } => format!("{}, {bytes} bytes a commit", model.name),
    }
}

pub(super) fn json(setup: &Setup, outcome: &Outcome, mapped: Option<&DriveWork>) -> Result<(), Failure> {
    output::json(&of(setup, outcome, mapped))
}

/// The parameters of a run and what came out of it.
pub(super) fn of<'a>(
    setup: &'a Setup,
    outcome: &'a Outcome,
    behind_translation_layer: Option<&'a DriveWork>,
) -> impl Serialize + 'a {
    let tier = config_of(setup).map(|config| TierParameters {
        flash_bytes: setup.flash_bytes,
        tier_frames: config.frames,
        admission: config.admission.name(),
        returning_only: config.returning_only,
        remembered_pages: remembered(&config),
        sync_mode: config.sync_mode.name(),
        group_pages: config.group_pages,
        survivors_max: config.survivors_max,
        staging_groups: config.staging_groups,
        pull: setup.pull,
        workers: setup.workers,
        job_depth: setup.job_depth,
        flash_flushes: setup.flash_flushes,
    });
    let setup = Parameters {
        workload: workload(setup),
        database_pages: setup.database_pages(),
        clients: setup.clients,
        think_us: setup.think_us,
        seed: setup.seed,
        page_bytes: setup.page_bytes,
        design: setup.configuration.name(),
        pool_bytes: setup.pool_bytes,
        pool_policy: setup.pool_policy.to_string(),
        cleaner_frames: setup.cleaner_frames,
        tier,
        flash_model: &setup.flash_model.name,
        disk_model: &setup.disk_model.name,
        disk_span: setup.disk_span,
        log: log(setup),
        cores: setup.cores,
        cpu_us_per_request: setup.cpu_us_per_request,
        checkpoint_seconds: setup.checkpoint_seconds,
        checkpoint_spread: setup.checkpoint_spread,
        setup_hash: format!("{:016x}", setup.fingerprint()),
    };
    Report { setup, outcome, behind_translation_layer }
}

fn ms(us: f64) -> String {
    number(us / 1e3, if us < 1e4 { 3 } else { 1 })
}

pub(super) fn text(
    setup: &Setup,
    outcome: &Outcome,
    mapped: Option<&DriveWork>,
    series: bool,
) -> Result<(), Failure> {
    let mut text = facts(&what_ran(setup, outcome));
    text.push('\n');
    text.push_str(&facts(&what_came_out(outcome)));
    if let Some(mapped) = mapped {
        text.push_str("\nThe same run on the same flash behind a translation layer:\n");
        text.push_str(&facts(&inside(mapped)));
    }
    text.push('\n');
    text.push_str(&latencies(outcome).render());
    text.push('\n');
    text.push_str(&resources(outcome).render());
    if series {
        text.push('\n');
        text.push_str(&intervals(outcome).render());
    }
    output::print(&text)
}

fn what_ran<'a>(setup: &Setup, outcome: &Outcome) -> Vec<(&'a str, String)> {
    let count = |value: u64| number(value as f64, 0);
    let devices = match setup.configuration {
        Configuration::Disk => setup.disk_model.name.clone(),
        Configuration::Flash => setup.flash_model.name.clone(),
        Configuration::Tier(_) => {
            format!(
                "{} of {} over {}",
                Size(setup.flash_bytes),
                setup.flash_model.name,
                setup.disk_model.name
            )
        }
    };
    let filled = if outcome.warm_up.filled { "" } else { ", without having filled it" };
    let mut facts = vec![
        ("design", format!("{}: {devices}", setup.configuration)),
        (
            "workload",
            format!("{}, {} clients, seed {}", workload(setup), count(setup.clients.into()), setup.seed),
        ),
        ("buffer pool", format!("{}, {}", Size(setup.pool_bytes), setup.pool_policy)),
    ];
    if let Some(config) = config_of(setup) {
        let pages = count(config.frames);
        let returning = remembered(&config).map_or_else(String::new, |pages| {
            format!(", clean pages that return (of {} remembered)", count(pages))
        });
        let tier = format!("{pages} frames, {}, admission {}{returning}", config.sync_mode, config.admission);
        facts.push(("tier", tier));
    }
    let measured = number(outcome.seconds, 1);
    let warm = number(outcome.warm_up.seconds, 1);
    facts.push(("simulated", format!("{measured} s, after {warm} s of warm-up{filled}")));
    facts
}

fn what_came_out(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let (throughput, hits, writes, flash) =
        (&outcome.throughput, &outcome.hits, &outcome.writes, &outcome.flash);
    let mut facts = vec![(
        "transactions",
        format!(
            "{} a second, {} a minute",
            number(throughput.transactions_per_second, 1),
            number(throughput.transactions_per_minute, 0)
        ),
    )];
    if let Some(new_orders) = throughput.new_orders_per_minute {
        facts.push(("new orders (tpmC)", format!("{} a minute", number(new_orders, 0))));
    }
    let requests = format!("{} a transaction", number(hits.requests_per_transaction, 1));
    facts.push(("page requests", format!("{requests}, {} in the pool", percent(hits.pool_ratio, 1))));
    if !outcome.tier.is_empty() {
        facts.push((
            "of the others, in the tier",
            format!(
                "{} (reads {}, writes {})",
                percent(hits.tier_ratio, 1),
                percent(hits.tier_read_ratio, 1),
                percent(hits.tier_write_ratio, 1)
            ),
        ));
    }
    let reads = number(writes.disk_reads_per_transaction, 2);
    let written = number(writes.disk_writes_per_transaction, 2);
    facts.push(("pages of the database", format!("{reads} read and {written} written a transaction")));
    if let Some(reduction) = writes.write_reduction {
        facts.push(("write reduction", percent(reduction, 1)));
    }
    if let Some(mean) = flash.write_bytes_mean {
        let sequential = percent(flash.write_sequential_share.unwrap_or(0.0), 1);
        let size = number(mean / 1e3, 1);
        facts.push(("writes to flash", format!("{size} kB on average, {sequential} of them sequential")));
    }
    if let Some(old) = flash.old_version_share {
        facts.push(("old versions on flash", percent(old, 1)));
    }
    if let Some(work) = &flash.inside {
        facts.extend(inside(work));
    }
    facts
}

/// What the flash drive did inside.
fn inside(work: &DriveWork) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(amplification) = work.write_amplification {
        let part = |of: Option<f64>| number(of.unwrap_or(0.0), 2);
        let parts = format!(
            "{} (host 1, collection {}, map {}, padding {})",
            number(amplification, 2),
            part(work.of_collection),
            part(work.of_map),
            part(work.of_padding)
        );
        facts.push(("write amplification", parts));
    }
    let utilisation = percent(work.effective_utilisation, 1);
    facts.push(("room in the drive", format!("{utilisation} of what it does not hold back is the host's")));
    let wear = format!("{} on average, {} at most", number(work.wear_mean, 2), work.wear_max);
    facts.push(("erases", format!("{}; of a block so far {wear}", number(work.erases as f64, 0))));
    facts.push(("time in collection", percent(work.collection_share, 1)));
    if let Some(years) = work.life_years {
        facts.push(("life at this rate", format!("{} years", number(years, 1))));
    }
    if work.write_stalls > 0 {
        let seconds = number(work.write_stall_seconds, 2);
        facts.push((
            "writes that waited",
            format!("{} for the buffer, {seconds} s in all", work.write_stalls),
        ));
    }
    facts
}

fn latencies(outcome: &Outcome) -> Table {
    let mut table = Table::new(["ms", "count", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"]);
    let latency = &outcome.latency;
    let mut row = |name: &str, of: &Latency| {
        if of.count == 0 {
            return;
        }
        let times = [of.mean_us, of.p50_us, of.p90_us, of.p99_us, of.p99_9_us, of.p99_99_us, of.max_us];
        let cells = [name.to_owned(), number(of.count as f64, 0)].into_iter().chain(times.map(ms));
        table.row(cells);
    };
    row("transaction", &latency.transaction);
    row("page not in the pool", &latency.fetch);
    row("  from staging memory", &latency.staging);
    row("  from flash", &latency.flash);
    row("  from disk", &latency.disk);
    table
}

fn resources(outcome: &Outcome) -> Table {
    let mut table = Table::new(["", "utilisation", "queue", "reads/s", "writes/s", "model"]);
    for resource in &outcome.resources {
        let is_drive = matches!(resource.name, "disk" | "flash");
        let rate = |value| if is_drive { number(value, 0) } else { String::new() };
        table.row([
            resource.name.to_owned(),
            percent(resource.utilisation, 1),
            if is_drive { number(resource.queue_mean, 1) } else { String::new() },
            rate(resource.reads_per_second),
            rate(resource.writes_per_second),
            resource.model.clone(),
        ]);
    }
    table
}

fn intervals(outcome: &Outcome) -> Table {
    let mut table =
        Table::new(["second", "transactions/s", "in the pool", "in the tier", "disk", "flash", "processor"]);
    for interval in &outcome.series {
        table.row([
            number(interval.end, 1),
            number(interval.transactions_per_second, 1),
            percent(interval.pool_ratio, 1),
            percent(interval.tier_ratio, 1),
            percent(interval.disk_utilisation, 1),
            percent(interval.flash_utilisation, 1),
            percent(interval.processor_utilisation, 1),
        ]);
    }
    table
}
