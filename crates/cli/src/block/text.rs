//! Status as people read it.

use mezzanine_report::{Table, facts, number};

use super::page;
use super::report::{CacheReport, Report, VolumeReport};
use crate::size::Size;

/// Why a request, or a part of one, went past the cache: a counter, and what it means.
const BYPASSES: [(&str, &str); 24] = [
    ("bypass_read_absent", "reads: fragment not in the cache"),
    ("bypass_read_populating", "reads: fragment on its way in"),
    ("bypass_read_invalid", "reads: blocks written since"),
    ("bypass_read_scattered", "reads: in too many pieces"),
    ("bypass_read_unconfirmed", "reads: changed meanwhile"),
    ("bypass_read_failed", "reads: refused by the cache device"),
    ("bypass_read_suspended", "reads: cache device suspended"),
    ("bypass_read_lost", "reads: cache device lost"),
    ("bypass_read_offline", "reads: map given up"),
    ("bypass_write_offline", "writes: map given up"),
    ("bypass_read_disbelieved", "reads: cache device lost meanwhile"),
    ("bypass_write_absent", "writes: fragment not in the cache"),
    ("bypass_write_populating", "writes: fragment on its way in"),
    ("bypass_write_around", "writes: mode around"),
    ("bypass_write_no_memory", "writes: no memory for the copy"),
    ("bypass_write_no_flight", "writes: too many under way"),
    ("bypass_write_crowded", "writes: too many to one fragment"),
    ("bypass_write_untracked", "writes: beside one that is not tracked"),
    ("bypass_write_budget", "writes: the budget is used up"),
    ("bypass_population_budget", "populations: the budget is used up"),
    ("bypass_write_lost", "writes: cache device lost"),
    ("bypass_block_partial", "blocks: written in part"),
    ("bypass_block_concurrent", "blocks: written by two at a time"),
    ("misses_unnoted", "misses that were not noted"),
];

pub(super) fn status(report: &Report) -> String {
    let mut text = String::new();
    if let Some(page) = &report.page {
        text.push_str(&page::text(page));
        text.push_str(&of_volumes(report));
        return text;
    } else if let Some(cache) = &report.cache {
        text.push_str(&of_cache(cache));
    } else {
        text.push_str("without a cache: every request goes to the volume's own device\n");
    }
    text.push('\n');
    let columns =
        ["volume", "size", "reads", "hit", "read", "writes", "waited", "written", "failed", "backing"];
    let mut table = Table::new(columns).left([9]);
    for volume in &report.volumes {
        let count = |name: &str| number(volume.counter(name) as f64, 0);
        let hits = volume.counter("reads_cache");
        let reads = hits + volume.counter("reads_backing") + volume.counter("reads_both");
        table.row([
            volume.name.clone(),
            Size(volume.bytes).to_string(),
            number(reads as f64, 0),
            percent(hits, reads),
            Size(volume.counter("bytes_read")).to_string(),
            count("writes"),
            count("writes_waited"),
            Size(volume.counter("bytes_written")).to_string(),
            count("failed"),
            volume.backing.clone(),
        ]);
    }
    text.push_str(&table.render());
    text.push_str(&block_devices(report));
    text.push_str(&process(report));
    text
}

/// Volumes whose requests are not counted one by one.
fn of_volumes(report: &Report) -> String {
    let mut table = Table::new(["volume", "size", "backing"]).left([2]);
    for volume in &report.volumes {
        table.row([volume.name.clone(), Size(volume.bytes).to_string(), volume.backing.clone()]);
    }
    format!("\n{}{}{}", table.render(), block_devices(report), process(report))
}

/// As which block devices the kernel has the volumes.
fn block_devices(report: &Report) -> String {
    let of = |volume: &VolumeReport| {
        volume.block_device.as_ref().map(|path| format!("{} is {path}\n", volume.name))
    };
    report.volumes.iter().filter_map(of).collect()
}

fn process(report: &Report) -> String {
    format!(
        "\nprocess {}, {:.0} s, {} clients now, {} so far, {} failed requests\n",
        report.process, report.seconds, report.clients, report.clients_seen, report.failed_requests
    )
}

fn percent(part: u64, all: u64) -> String {
    if all == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 * 100.0 / all as f64) }
}

fn of_cache(cache: &CacheReport) -> String {
    let counter = |name: &str| number(cache.counter(name) as f64, 0);
    let [hit, partial, missed] =
        ["reads_hit", "reads_partial", "reads_missed"].map(|name| cache.counter(name));
    let reads = hit + partial + missed;
    let rate = match cache.population_bytes_per_second {
        0 => "no limit of speed".to_owned(),
        rate => format!("at most {}/s", Size(rate)),
    };
    let mut text = facts(&[
        (
            "cache",
            format!(
                "{}, {} of at most {}, {} (epoch {})",
                cache.path,
                Size(cache.cache_bytes),
                Size(cache.cache_bytes_max),
                cache.health,
                cache.epoch
            ),
        ),
        ("began with", cache.begins.clone()),
        (
            "goes on after",
            match (cache.survives.as_str(), &cache.survives_no_crash) {
                ("crash", _) => {
                    format!("a crash, with what is settled: all but {} fragments now", counter("unstable"))
                }
                ("orderly_end", why) => {
                    format!(
                        "an orderly end alone: {}",
                        why.as_deref().unwrap_or("nothing vouches for its map")
                    )
                }
                (_, why) => {
                    format!("no end, it begins empty: {}", why.as_deref().unwrap_or("its map is void"))
                }
            },
        ),
        (
            "fragments",
            format!(
                "{} of {} in use, {} retired, {} KiB each",
                counter("slots_used"),
                counter("slots"),
                counter("slots_retired"),
                cache.fragment_bytes >> 10
            ),
        ),
        (
            "memory",
            match &cache.sizing {
                Some(sizing) => {
                    format!(
                        "{}, and {} to estimate other sizes",
                        Size(cache.memory_bytes),
                        Size(sizing.memory_bytes)
                    )
                }
                None => Size(cache.memory_bytes).to_string(),
            },
        ),
        (
            "reads",
            format!(
                "{}: {} hit, {} partial, {} missed",
                number(reads as f64, 0),
                percent(hit, reads),
                percent(partial, reads),
                percent(missed, reads)
            ),
        ),
        (
            "writes",
            format!(
                "{}, mode {}; {} parts followed by a copy, {} blocks of copies pending",
                counter("writes"),
                cache.write_mode,
                counter("writes_through"),
                counter("copy_blocks_used")
            ),
        ),
        (
            "waits for marks",
            format!(
                "{} of the writes and discards, {} now",
                cache.writes_waited_ratio.map_or("-".to_owned(), |ratio| format!("{:.2} %", ratio * 100.0)),
                cache.writes_waiting
            ),
        ),
        (
            "populations",
            format!(
                "{} queued, {} begun, {} done ({} with holes), {} aborted, {} failed; {} workers, stage {}, {rate}",
                cache.populations_queued,
                counter("populations_begun"),
                counter("populations_done"),
                counter("populations_with_holes"),
                counter("populations_aborted"),
                counter("populations_failed"),
                cache.population_workers,
                cache.population_stage
            ),
        ),
        ("left", format!("{} for others, {} empty", counter("evictions"), counter("fragments_emptied"))),
        ("written to the cache device", written(cache)),
    ]);
    let bypasses = BYPASSES.iter().filter(|(name, _)| cache.counter(name) > 0);
    let mut table = Table::new(["past the cache", "count"]);
    let mut any = false;
    for (name, what) in bypasses {
        any = true;
        table.row([(*what).to_owned(), counter(name)]);
    }
    if any {
        text.push_str(&format!("\n{}", table.render()));
    }
    let mut table = Table::new(["request", "count", "mean us", "p50 us", "p99 us", "p99.9 us", "max us"]);
    for one in cache.latencies.iter().filter(|one| one.count > 0) {
        let times = [one.mean_us, one.p50_us, one.p99_us, one.p999_us, one.max_us];
        let cells = [one.request.replace('_', " from "), number(one.count as f64, 0)];
        table.row(cells.into_iter().chain(times.map(|time| number(time, 0))));
    }
    if cache.latencies.iter().any(|one| one.count > 0) {
        text.push_str(&format!("\n{}", table.render()));
    }
    if let Some(sizing) = cache.sizing.as_ref().filter(|sizing| sizing.reads > 0) {
        let reads = number(sizing.reads as f64, 0);
        text.push_str(&format!(
            "\nother sizes, estimated from {reads} reads in {:.0} s:\n{sizing}",
            sizing.seconds
        ));
    }
    for one in &cache.cache_failures {
        let text_of = format!(
            "\nthe cache device refused {} {}s ({}): {}\n",
            one.count, one.operation, one.reason, one.last
        );
        text.push_str(&text_of);
    }
    text
}

fn written(cache: &CacheReport) -> String {
    let bytes = Size(cache.cache_bytes_written);
    match cache.write_budget_left {
        Some(left) => {
            format!("{bytes}; {} of a budget of {} a day are left now", Size(left), Size(cache.write_budget))
        }
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_that_is_counted_is_explained() {
        let engine = mezzanine_fragment::Statistics::default().named();
        let host = mezzanine_cached::Bypassed::default().named();
        for (name, _) in engine.into_iter().chain(host).filter(|(name, _)| name.starts_with("bypass")) {
            assert!(BYPASSES.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
