//! What is asked of a cache that another process has attached.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use mezzanine_engine::SyncMode;
use mezzanine_fragment::{WORKERS_MAX, WriteMode};
use mezzanine_report::Table;

use super::control::{Request, Settings, ask};
use super::registry::{attached, find};
use super::report::Report;
use super::served::{Detached, Flushed};
use super::text;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(crate) const STATUS_EXAMPLES: &str = "Examples:
  mezz block status /dev/nvme1n1                 by its cache device
  mezz block status /run/sdb.sock                by the socket that clients use
  mezz block status /run/sdb.sock --watch 5s
  mezz block status /run/sdb.sock --prometheus   for node_exporter's textfile collector, or a script";

pub(crate) const LIST_EXAMPLES: &str = "Examples:
  mezz block list
  mezz block list --json
  mezz block list --watch 5s

They are found by files in $MEZZ_RUN_DIR, $XDG_RUNTIME_DIR/mezz, /run/mezz (root) or mezz-UID in the directory for temporary files.";

pub(crate) const FLUSH_EXAMPLES: &str = "Examples:
  mezz block flush /run/sdb.sock
  mezz block flush /run/sdb.sock --within 5min

Nobody needs it for safety: what clients have flushed is durable.";

pub(crate) const SET_EXAMPLES: &str = "Examples:
  mezz block set /run/sdb.sock --population-workers 0      nothing more is brought in
  mezz block set /run/sdb.sock --population-rate 50MB      at most so much a second; 0: no limit
  mezz block set /run/sdb.sock --write-budget 500GB        at most so much a day to the cache device; 0: no limit
  mezz block set /run/sdb.sock --write-mode around         what is written is cached no more";

pub(crate) const DETACH_EXAMPLES: &str = "Examples:
  mezz block detach /run/sdb.sock
  mezz block detach /run/sdb.sock --within 2min --disconnect
  mezz block detach /run/sdb.sock --keep

With the page engine in mode durable everything that the cache device alone has is written to the volumes, for --within at most; then they can be used \
without it. With --keep, after a signal, and where the time is not enough, it stays there, and the volumes need the cache device.";

/// The options of `block status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The cache device, the socket that clients use, or the control socket.
    cache: PathBuf,

    /// Show it again and again, with this time between (5s), until it ends.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s", value_parser = time)]
    watch: Option<Duration>,

    /// As text for Prometheus.
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    prometheus: bool,
}

/// The options of `block list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// List them again and again, with this time between (5s), until this is ended.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s", value_parser = time)]
    watch: Option<Duration>,
}

/// The options of `block flush`.
#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    /// The cache device, the socket that clients use, or the control socket.
    cache: PathBuf,

    /// How long to wait for the cache device at most (500ms, 30s, 5min).
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    within: Duration,
}

/// The options of `block set`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true)))]
pub(crate) struct SetArgs {
    /// The cache device, the socket that clients use, or the control socket.
    cache: PathBuf,

    /// Fragments that are brought in at a time, at most; 0: nothing more is brought in. No more than it was
    /// attached with.
    #[arg(long, value_name = "WORKERS", group = "what", value_parser = clap::value_parser!(u32).range(0..=i64::from(WORKERS_MAX)))]
    population_workers: Option<u32>,

    /// Bytes a second that are brought in at most; 0: no limit.
    #[arg(long, value_name = "SIZE", group = "what")]
    population_rate: Option<Size>,

    /// What becomes of writes to what is cached: through or around.
    #[arg(long, group = "what")]
    write_mode: Option<WriteMode>,

    /// Bytes that are written to the cache device in any 24 hours at most: what is brought in, copies of
    /// writes, and the map, which is never refused; 0: no limit.
    #[arg(long, value_name = "SIZE", group = "what")]
    write_budget: Option<Size>,

    /// Reads of the cache device that take longer than this, smoothed, have what is brought in and copies of
    /// writes wait, in microseconds; 0: nothing waits.
    #[arg(long, value_name = "US", group = "what")]
    yield_above: Option<u64>,

    /// Reads that miss a fragment until it is brought in; 0: reads do not count.
    #[arg(long, value_name = "N", group = "what")]
    admit_reads: Option<u32>,

    /// Writes that miss a fragment until it is brought in; 0: writes do not count.
    #[arg(long, value_name = "N", group = "what")]
    admit_writes: Option<u32>,

    /// Where a write is when a flush is answered, with the page engine: through (on the volume's own device)
    /// or durable (on the cache device). Writers wait while what the cache device alone has is written.
    #[arg(long, value_name = "MODE", group = "what", value_parser = super::create::mode)]
    mode: Option<SyncMode>,
}

/// The options of `block detach`.
#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// The cache device, the socket that clients use, or the control socket.
    cache: PathBuf,

    /// How long to wait for the cache device at most (500ms, 30s, 5min). What it does not have by then, the
    /// volumes' own devices have.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    within: Duration,

    /// Disconnect clients; without it, none may be connected.
    #[arg(long)]
    disconnect: bool,

    /// Leave on the cache device what it alone has (page engine, mode durable).
    #[arg(long)]
    keep: bool,
}

/// A time such as 500ms, 30s or 5min.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let advice = "give a time from 10ms to 24h (500ms, 30s, 5min, 1h)";
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| advice.to_owned())?;
    let milliseconds = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(advice.to_owned()),
    };
    let time = number.checked_mul(milliseconds).filter(|time| (10..=86_400_000).contains(time));
    time.map(Duration::from_millis).ok_or_else(|| advice.to_owned())
}

pub(super) fn status(args: &StatusArgs, json: bool) -> Result<(), Failure> {
    let socket = find(&args.cache)?;
    if args.prometheus {
        let text: String = ask(&socket, Request::Metrics, |_, _, _| ())?;
        return output::print(&text);
    }
    let show =
        |report: &Report| if json { output::json(report) } else { output::print(&text::status(report)) };
    show(&ask(&socket, Request::Status, |_, _, _| ())?)?;
    let Some(pause) = args.watch else { return Ok(()) };
    loop {
        std::thread::sleep(pause);
        // It was there a moment ago, so it has ended.
        let Ok(report) = ask::<Report>(&socket, Request::Status, |_, _, _| ()) else { return Ok(()) };
        if !json {
            output::print("\n")?;
        }
        show(&report)?;
    }
}

pub(super) fn list(args: &ListArgs, json: bool) -> Result<(), Failure> {
    loop {
        list_once(json)?;
        let Some(pause) = args.watch else { return Ok(()) };
        std::thread::sleep(pause);
        if !json {
            output::print("\n")?;
        }
    }
}

fn list_once(json: bool) -> Result<(), Failure> {
    let mut all = Vec::new();
    for one in attached()? {
        // One that ends just now is none.
        if let Ok(report) = ask::<Report>(&one.control, Request::Status, |_, _, _| ()) {
            all.push((one, report));
        }
    }
    if json {
        let reports: Vec<_> = all.iter().map(|(_, report)| report).collect();
        return output::json(&reports);
    }
    if all.is_empty() {
        return output::print("no cache is attached\n");
    }
    let mut table =
        Table::new(["cache", "process", "volumes", "hits", "clients", "control socket"]).left([2, 5]);
    for (one, report) in &all {
        let cache = one.cache.as_ref().map_or("none".to_owned(), |path| path.display().to_string());
        let names: Vec<_> = report.volumes.iter().map(|volume| volume.name.as_str()).collect();
        let of_pages = report.page.as_ref().and_then(|page| page.hit_ratio);
        let hits = report.cache.as_ref().and_then(|cache| cache.hit_ratio).or(of_pages);
        table.row([
            cache,
            report.process.to_string(),
            names.join(", "),
            hits.map_or("-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
            report.clients.to_string(),
            one.control.display().to_string(),
        ]);
    }
    output::print(&table.render())
}

pub(super) fn flush(args: &FlushArgs, json: bool) -> Result<(), Failure> {
    let request = Request::Flush { within_seconds: args.within.as_secs_f64() };
    let flushed: Flushed = asked(&args.cache, request)?;
    if flushed.copies_left > 0 {
        let reason = format!(
            "everything is durable, but the cache device has not caught up: {} blocks are on their way",
            flushed.copies_left
        );
        return Err(Failure::check(args.cache.display(), reason)
            .next("wait, or look at it with `mezz block status`; the volumes have everything"));
    }
    if json {
        output::json(&flushed)
    } else {
        output::print("everything is durable, and the cache device has caught up\n")
    }
}

pub(super) fn set(args: &SetArgs, json: bool) -> Result<(), Failure> {
    let request = Request::Set(Settings {
        population_workers: args.population_workers,
        population_bytes_per_second: args.population_rate.map(|rate| rate.0),
        write_mode: args.write_mode.map(|mode| mode.name().to_owned()),
        write_budget: args.write_budget.map(|bytes| bytes.0),
        yield_us: args.yield_above,
        admit_reads: args.admit_reads,
        admit_writes: args.admit_writes,
        mode: args.mode.map(|mode| mode.name().to_owned()),
    });
    let report: Report = asked(&args.cache, request)?;
    if json { output::json(&report) } else { output::print(&text::status(&report)) }
}

pub(super) fn detach(args: &DetachArgs, json: bool) -> Result<(), Failure> {
    let request = Request::Detach {
        within_seconds: args.within.as_secs_f64(),
        disconnect: args.disconnect,
        keep: args.keep,
    };
    let socket = find(&args.cache)?;
    let detached: Detached = asked(&socket, request)?;
    // Its devices are free when its socket is gone, the last thing that it gives up.
    let begun = Instant::now();
    while UnixStream::connect(&socket).is_ok() && begun.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(5));
    }
    if json {
        return output::json(&detached);
    }
    if let Some(pages) = &detached.pages {
        let done = format!("detached after {:.1} s; {}", detached.seconds, pages.text());
        if !detached.is_whole {
            return Err(Failure::check(args.cache.display(), done).next(
                "attach it again and give `mezz block detach` more time (--within); nothing is lost meanwhile",
            ));
        }
        return output::print(&format!("{done}\n"));
    }
    let next = if detached.is_whole {
        "the cache goes on with what it has when it is attached again".to_owned()
    } else if detached.goes_on {
        "the cache goes on as after a crash: without what had not settled".to_owned()
    } else {
        let left = match detached.copies_left {
            0 => String::new(),
            left => format!(" {left} blocks did not get to the cache device in time;"),
        };
        format!("there is no cache that goes on:{left} the volumes' own devices have everything")
    };
    let failed = match detached.writes_failed {
        0 => String::new(),
        writes => format!(
            "; {writes} writes waited for the cache device until then, and failed: nothing of them was written"
        ),
    };
    output::print(&format!("detached after {:.1} s; {next}{failed}\n", detached.seconds))
}

/// Asks, and shows how far it is.
pub(super) fn asked<T: serde::de::DeserializeOwned>(
    cache: &std::path::Path,
    request: Request,
) -> Result<T, Failure> {
    let socket = find(cache)?;
    let bar = output::progress(0, "");
    let answer = ask(&socket, request, |what, done, total| {
        bar.set_message(what.to_owned());
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("24h"), Ok(Duration::from_secs(86_400)));
        for text in ["", "5", "1ms", "25h", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615h"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
