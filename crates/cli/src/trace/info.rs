//! `mezz trace info`.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use mezzanine_report::{Table, facts};
use mezzanine_trace::{Dense, Format, Op, Reader};
use serde::Serialize;

use super::{REQUESTS_A_LOOK, count_text, kinds, open_wanted, page_size, unreadable};
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

pub(super) const EXAMPLES: &str = "Examples:
  mezz trace info tpcc.mezztrace                        a trace of Mezzanine's own
  mezz trace info P1.lis --format lis
  mezz trace info w65.vscsi.zst --format vscsi --page-size 8KiB --json

Formats: plain (one page number a line), lis (ARC's: first page, pages, 0, request), oracle-general (libCacheSim's records of 24 bytes), \
vscsi (versions 1 and 2), mezzanine. What zstd has compressed is recognised by itself. Memory grows with the number of distinct pages, \
some 20 to 40 bytes each, and not with the length of the trace.";

/// The options of `trace info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The trace.
    file: PathBuf,

    /// Its format: plain, lis, oracle-general, vscsi or mezzanine.
    #[arg(long, default_value = "mezzanine")]
    format: Format,

    /// Requests that are larger become several. Not used by formats that count in pages; mezzanine says
    /// itself.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = page_size)]
    page_size: Size,

    /// Read a trace of the format mezzanine that was not finished as far as its blocks are whole.
    #[arg(long)]
    unfinished: bool,
}

#[derive(Serialize)]
struct Info {
    file: String,
    format: &'static str,
    compression: &'static str,
    file_bytes: u64,
    /// Whether the trace has no end.
    unfinished: bool,
    page_bytes: u32,
    /// How pages are named: numbers, volume or postgres.
    naming: &'static str,
    /// Reads, writes and evictions.
    requests: u64,
    distinct_pages: u64,
    reads: u64,
    writes: u64,
    evictions_clean: u64,
    evictions_dirty: u64,
    commits: u64,
    checkpoints: u64,
    /// Distinct clients; null if the trace names none.
    clients: Option<u64>,
    /// Null if the trace has no time.
    time: Option<Time>,
    relations: Vec<RelationInfo>,
}

#[derive(Serialize)]
struct Time {
    first_ns: u64,
    last_ns: u64,
    span_seconds: f64,
    /// When time 0 was; null if the trace does not say.
    origin_unix_us: Option<u64>,
}

#[derive(Serialize)]
struct RelationInfo {
    number: u32,
    name: String,
    requests: u64,
    distinct_pages: u64,
}

/// What is counted on the way through a trace.
#[derive(Default)]
struct Counts {
    kinds: [u64; Op::ALL.len()],
    pages: Dense,
    clients: HashSet<u32>,
    /// First and last time.
    times: Option<(u64, u64)>,
    /// Requests and distinct pages of each relation.
    relations: Vec<(u64, u64)>,
}

impl Counts {
    fn of(reader: &mut Reader, what: &str) -> Result<Counts, Failure> {
        let spinner = output::spinner(what);
        let mut counts = Counts::default();
        for (index, request) in reader.by_ref().enumerate() {
            let request = request.map_err(unreadable)?;
            if index as u64 % REQUESTS_A_LOOK == 0 {
                spinner.set_message(format!("{what}: {} requests", count_text(index as u64)));
            }
            counts.kinds[request.op.index()] += 1;
            counts.clients.extend(request.client);
            if let Some(time_ns) = request.time_ns {
                counts.times = Some((counts.times.map_or(time_ns, |(first, _)| first), time_ns));
            }
            if request.op.is_mark() {
                continue;
            }
            let known = counts.pages.len();
            counts.pages.number(request.page);
            if let Some(number) = request.relation {
                let at = number as usize - 1;
                if counts.relations.len() <= at {
                    counts.relations.resize(at + 1, (0, 0));
                }
                counts.relations[at].0 += 1;
                counts.relations[at].1 += (counts.pages.len() - known) as u64;
            }
        }
        spinner.finish_and_clear();
        Ok(counts)
    }
}

pub(super) fn run(args: &InfoArgs, json: bool) -> Result<(), Failure> {
    let mut reader = open_wanted(&args.file, args.format, args.page_size, args.unfinished)?;
    let counts = Counts::of(&mut reader, &format!("reading {}", args.file.display()))?;
    let file_bytes =
        std::fs::metadata(&args.file).map_err(|e| Failure::refused(args.file.display(), e))?.len();
    let info = info(args, &reader, counts, file_bytes);
    if json { output::json(&info) } else { output::print(&text(&info)) }
}

fn info(args: &InfoArgs, reader: &Reader, counts: Counts, file_bytes: u64) -> Info {
    let header = reader.header();
    let [reads, writes, evictions_clean, evictions_dirty, commits, checkpoints] = counts.kinds;
    let relations =
        reader.relations().iter().zip(1..).zip(counts.relations.iter().chain(std::iter::repeat(&(0, 0))));
    Info {
        file: args.file.display().to_string(),
        format: reader.format().name(),
        compression: reader.compression().name(),
        file_bytes,
        unfinished: reader.was_unfinished(),
        page_bytes: header.page_bytes,
        naming: header.naming.name(),
        requests: reads + writes + evictions_clean + evictions_dirty,
        distinct_pages: counts.pages.len() as u64,
        reads,
        writes,
        evictions_clean,
        evictions_dirty,
        commits,
        checkpoints,
        clients: (!counts.clients.is_empty()).then_some(counts.clients.len() as u64),
        time: counts.times.map(|(first_ns, last_ns)| Time {
            first_ns,
            last_ns,
            span_seconds: (last_ns - first_ns) as f64 / 1e9,
            origin_unix_us: Some(header.origin_unix_us).filter(|origin| *origin != 0),
        }),
        relations: relations
            .map(|((relation, number), (requests, distinct_pages))| RelationInfo {
                number,
                name: relation.describe(header.naming),
                requests: *requests,
                distinct_pages: *distinct_pages,
            })
            .collect(),
    }
}

fn text(info: &Info) -> String {
    let kinds = kinds([
        info.reads,
        info.writes,
        info.evictions_clean,
        info.evictions_dirty,
        info.commits,
        info.checkpoints,
    ]);
    let time = info.time.as_ref().map_or("none".to_owned(), |time| {
        let (first, last) = (time.first_ns as f64 / 1e9, time.last_ns as f64 / 1e9);
        format!("{:.3} s, from {first:.3} s to {last:.3} s", time.span_seconds)
    });
    let mut pairs = vec![
        ("trace", info.file.clone()),
        ("format", info.format.to_owned()),
        ("compression", info.compression.to_owned()),
        ("size of the file", Size(info.file_bytes).to_string()),
        ("page size", format!("{} bytes", count_text(info.page_bytes.into()))),
        ("time", time),
        ("requests", count_text(info.requests)),
        ("distinct pages", count_text(info.distinct_pages)),
    ];
    pairs.extend(kinds);
    if info.unfinished {
        pairs.push(("unfinished", "the trace stops without its end".to_owned()));
    }
    pairs.extend(info.clients.map(|clients| ("clients", count_text(clients))));
    let mut text = facts(&pairs);
    if !info.relations.is_empty() {
        let mut table = Table::new(["relation", "requests", "distinct pages"]);
        for relation in &info.relations {
            table.row([
                relation.name.clone(),
                count_text(relation.requests),
                count_text(relation.distinct_pages),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render());
    }
    text
}
