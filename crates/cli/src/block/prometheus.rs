//! Status as Prometheus reads it (text format 0.0.4).

use std::fmt::Write as _;
use std::time::Duration;

use mezzanine_cached::CachedStatistics;
use mezzanine_fragment::{SizingRow, SizingTable};

use super::page;
use super::report::Report;

/// What is no counter but a state.
const GAUGES: [&str; 6] =
    ["unstable", "slots", "slots_used", "slots_retired", "flights_used", "copy_blocks_used"];
/// Upper limits of the buckets of a latency, in microseconds.
const BUCKETS_US: [u64; 14] =
    [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000];

/// The text; of latencies it has the histograms themselves, of which the report has figures alone.
pub(super) fn text(report: &Report, statistics: Option<&CachedStatistics>) -> String {
    let mut text = String::new();
    metric(&mut text, "clients", "gauge", &[(String::new(), report.clients as f64)]);
    metric(&mut text, "failed_requests_total", "counter", &[(String::new(), report.failed_requests as f64)]);
    for (name, kind, value) in report.page.iter().flat_map(page::counters_for_prometheus) {
        metric(&mut text, &name, kind, &[(String::new(), value)]);
    }
    let (Some(cache), Some(statistics)) = (&report.cache, statistics) else { return text };
    for (name, count) in &cache.counters {
        let value = [(String::new(), *count as f64)];
        if GAUGES.contains(&name.as_str()) {
            metric(&mut text, name, "gauge", &value);
        } else {
            metric(&mut text, &format!("{name}_total"), "counter", &value);
        }
    }
    let gauges = [
        ("cache_bytes", cache.cache_bytes),
        ("cache_bytes_max", cache.cache_bytes_max),
        ("fragment_bytes", cache.fragment_bytes),
        ("memory_bytes", cache.memory_bytes),
        ("populations_queued", cache.populations_queued),
        ("population_workers", cache.population_workers.into()),
    ];
    for (name, value) in gauges {
        metric(&mut text, name, "gauge", &[(String::new(), value as f64)]);
    }
    let healths: Vec<_> = ["working", "suspended", "lost"]
        .iter()
        .map(|health| (format!("{{health=\"{health}\"}}"), f64::from(u8::from(cache.health == *health))))
        .collect();
    metric(&mut text, "cache_health", "gauge", &healths);
    let failures: Vec<_> = cache
        .cache_failures
        .iter()
        .map(|one| {
            let labels = format!("{{operation=\"{}\",reason=\"{}\"}}", one.operation, one.reason);
            (labels, one.count as f64)
        })
        .collect();
    metric(&mut text, "cache_refusals_total", "counter", &failures);
    let survivals: Vec<_> = ["crash", "orderly_end", "nothing"]
        .iter()
        .map(|end| (format!("{{after=\"{end}\"}}"), f64::from(u8::from(cache.survives == *end))))
        .collect();
    metric(&mut text, "cache_goes_on", "gauge", &survivals);
    metric(&mut text, "writes_waiting", "gauge", &[(String::new(), cache.writes_waiting as f64)]);
    if let Some(sizing) = &cache.sizing {
        of_sizing(&mut text, sizing);
    }
    latencies(&mut text, statistics);
    volumes(&mut text, report);
    text
}

/// Estimates, under labels with the sizes that they are of. What is not known yet has no line.
fn of_sizing(text: &mut String, sizing: &SizingTable) {
    let one = |value: f64| [(String::new(), value)];
    metric(text, "sizing_seconds", "gauge", &one(sizing.seconds));
    metric(text, "sizing_reads", "gauge", &one(sizing.reads as f64));
    metric(text, "sizing_memory_bytes", "gauge", &one(sizing.memory_bytes as f64));
    metric(text, "sizing_unnoted_total", "counter", &one(sizing.unnoted as f64));
    let mut of_rows = |name: &str, value: fn(&SizingRow) -> Option<f64>| {
        let sizes = |row: &SizingRow| {
            format!("{{cache_bytes=\"{}\",fragment_bytes=\"{}\"}}", row.cache_bytes, row.fragment_bytes)
        };
        let values: Vec<_> =
            sizing.rows.iter().filter_map(|row| value(row).map(|value| (sizes(row), value))).collect();
        metric(text, name, "gauge", &values);
    };
    of_rows("sizing_hit_ratio", |row| row.hit_ratio);
    of_rows("sizing_written_bytes_per_day", |row| row.written_per_day);
    of_rows("sizing_filled_ratio", |row| Some(row.filled));
}

/// Counters of each volume, under a label with its name.
fn volumes(text: &mut String, report: &Report) {
    let Some(first) = report.volumes.first() else { return };
    for name in first.counters.keys() {
        let values: Vec<_> = report
            .volumes
            .iter()
            .map(|volume| (format!("{{volume=\"{}\"}}", escaped(&volume.name)), volume.counter(name) as f64))
            .collect();
        metric(text, &format!("volume_{name}_total"), "counter", &values);
    }
}

/// As the format wants the value of a label.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn metric(text: &mut String, name: &str, kind: &str, values: &[(String, f64)]) {
    let _ = writeln!(text, "# TYPE mezz_block_{name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(text, "mezz_block_{name}{labels} {value}");
    }
}

fn latencies(text: &mut String, statistics: &CachedStatistics) {
    let _ = writeln!(text, "# TYPE mezz_block_request_seconds histogram");
    for (served, latency) in &statistics.latencies {
        let request = served.name();
        for limit in BUCKETS_US {
            let count = latency.within(Duration::from_micros(limit));
            let seconds = limit as f64 / 1e6;
            let _ = writeln!(
                text,
                "mezz_block_request_seconds_bucket{{request=\"{request}\",le=\"{seconds}\"}} {count}"
            );
        }
        let count = latency.count();
        let sum = latency.mean().as_secs_f64() * count as f64;
        let _ =
            writeln!(text, "mezz_block_request_seconds_bucket{{request=\"{request}\",le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "mezz_block_request_seconds_sum{{request=\"{request}\"}} {sum}");
        let _ = writeln!(text, "mezz_block_request_seconds_count{{request=\"{request}\"}} {count}");
    }
}
