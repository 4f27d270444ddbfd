//! `mezz sim sweep`: many designs, sizes and parameters, of replacement alone or in virtual time, on all
//! cores, to be resumed and divided.
//!
//! 1. A point is a trace, a design, its frames and its parameters, or a run in virtual time; its key is a
//!    hash of these, of the trace's contents, of the version and of the sources it was built of.
//! 2. A result is a line of the results file, which follows from its point alone: not from the order, the
//!    threads, or the machine.
//! 3. What a point takes of memory is known before it runs, and the points that run together fit the memory
//!    that they may have.

mod outcome;
mod points;
mod pool;
mod results;
mod timed;
mod traces;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use clap::Args;
use mezzanine_report::{Table, number};
use mezzanine_sim::policy::{Curve, Design};
use mezzanine_trace::Format;

use super::mrc::Sizes;
use super::parameters::{Parameters, Variation};
use super::source::{Source, Synthetic};
use crate::failure::Failure;
use crate::machine::memory_available;
use crate::size::Size;
use crate::trace::page_size;

use outcome::{Outcome, Work};
use points::Point;
use results::{Results, Row};
use traces::Trace;

pub(super) const EXAMPLES: &str = "Examples:
  mezz sim sweep --policy-only --results sweep.jsonl --trace w89.oracle.zst,w91.oracle.zst --format oracle-general \\
      --design lru,clock,lc,face-gsc --sizes 1000..1000000/20
  mezz sim sweep --policy-only --results gsc.jsonl --trace tpcc.mezztrace --format mezzanine --design face-gsc,face-gr \\
      --sizes 10000,20000,40000 --vary group-pages=16,64,256
  mezz sim sweep --results tpcc.jsonl --vary design=face-gsc,face-gr,disk --vary flash=1GB,2GB,4GB -- --warehouses 50
  mezz sim sweep --policy-only --results part2.jsonl --shard 2/5 --synthetic prod3 --design lru,lc --sizes 100..40000/50

Each result is a line of JSON in the results file, as soon as it is there. The same command again goes on where it was interrupted: what has a \
result is not run, and a line that was torn is dropped. More designs, sizes or traces may be added in the same way.

Without --policy-only each point is a run in virtual time: what stands behind -- are options of mezz sim run that all points have, and --vary has values \
of any of them (on and off of those that have none). An option that means nothing to a design is left out of its points.

With --shard K/N a sweep is divided among N processes or machines, each with a results file of its own; `cat` makes one of them. Equal command \
lines but for K give each point to exactly one.

A result follows from its point, and from the version and the sources of mezz: a program built of others runs everything again. Traces count by what is in them, not by their names.";

/// From how many points on a mistake is likelier than a wish.
const POINTS_MAX: usize = 1_000_000;

/// What of the available memory a sweep takes if it is not told how much.
const MEMORY_SHARE: f64 = 0.8;

/// The options of `sim sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Run the designs' replacement and nothing else of them. Without it the points are runs in virtual
    /// time.
    #[arg(long)]
    policy_only: bool,

    /// The file of results, one line of JSON each. It is made if it does not exist, and added to if it does.
    #[arg(long, value_name = "FILE")]
    results: PathBuf,

    /// The traces, with commas in between.
    #[arg(long, value_name = "FILE", value_delimiter = ',', requires = "format")]
    trace: Vec<PathBuf>,

    /// Format of the traces: plain, lis, oracle-general, vscsi or mezzanine.
    #[arg(long, value_name = "NAME", requires = "trace", conflicts_with = "synthetic")]
    format: Option<Format>,

    /// Size of a page; larger requests of a trace become several (default: 4KiB). Formats that count in
    /// pages do not use it.
    #[arg(long, value_name = "SIZE", value_parser = page_size, conflicts_with = "synthetic")]
    page_size: Option<Size>,

    /// A trace without a file: prod3 has pages of very different popularity, and no other pattern.
    #[arg(long, value_name = "NAME", conflicts_with = "trace")]
    synthetic: Option<Synthetic>,

    /// End each trace after so many requests (default: all of a trace, 1,000,000 of a synthetic one).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,

    /// The designs, with commas in between, as for mezz sim mrc.
    #[arg(long, required_if_eq("policy_only", "true"), value_delimiter = ',')]
    design: Vec<Design>,

    /// Sizes in frames, with commas in between; FROM..TO/N for N sizes, each larger by the same factor.
    #[arg(long, required_if_eq("policy_only", "true"), value_delimiter = ',', value_name = "FRAMES")]
    sizes: Vec<Sizes>,

    /// Try a parameter of a design, or without --policy-only an option of mezz sim run, with several values:
    /// NAME=V1,V2,...; may be given for several. Designs without the parameter are run once.
    #[arg(long, value_name = "NAME=VALUES")]
    vary: Vec<String>,

    /// Run only the points of one part of N, such as 2/5.
    #[arg(long, value_name = "K/N", default_value = "1/1")]
    shard: Shard,

    /// Points that run at once, if their memory allows it (default: all cores). The results do not depend on
    /// it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Memory that all points together may take (default: most of what is available).
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,

    #[command(flatten, next_help_heading = "Parameters of designs")]
    parameters: Parameters,

    /// Options of mezz sim run that all points in virtual time have.
    #[arg(last = true, value_name = "OPTION", conflicts_with = "policy_only", allow_hyphen_values = true)]
    run: Vec<String>,
}

/// One part of several, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    part: u64,
    parts: u64,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.parts)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("'{text}' is no part of several; write 2/5 for the second of five");
        let (part, parts) = text.split_once('/').ok_or_else(wrong)?;
        let (part, parts): (u64, u64) =
            (part.parse().map_err(|_| wrong())?, parts.parse().map_err(|_| wrong())?);
        if part == 0 || part > parts {
            return Err(wrong());
        }
        Ok(Shard { part, parts })
    }
}

impl SweepArgs {
    fn sources(&self) -> Result<Vec<Source>, Failure> {
        if self.synthetic.is_none() && self.trace.is_empty() {
            return Err(
                Failure::usage("--trace", "there is none").next("name traces, or give --synthetic prod3")
            );
        }
        if let Some(synthetic) = self.synthetic {
            return Ok(vec![Source::synthetic(synthetic, self.requests)]);
        }
        let format = self.format.ok_or_else(|| Failure::usage("--format", "the traces have one"))?;
        let page_size = self.page_size.unwrap_or(Size(4096));
        Ok(self.trace.iter().map(|path| Source::file(path, format, page_size, self.requests)).collect())
    }

    /// An option of sweeps of replacement alone that was given.
    fn of_replacement(&self) -> Option<&'static str> {
        let given = [
            ("--trace", !self.trace.is_empty()),
            ("--synthetic", self.synthetic.is_some()),
            ("--requests", self.requests.is_some()),
            ("--page-size", self.page_size.is_some()),
            ("--design", !self.design.is_empty()),
            ("--sizes", !self.sizes.is_empty()),
        ];
        let mut given = given.into_iter().filter(|(_, given)| *given).map(|(option, _)| option);
        given.next().or_else(|| self.parameters.given().next().map(|(name, _)| name))
    }

    fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }

    fn memory(&self) -> u64 {
        let most = || memory_available().map_or(u64::MAX, |bytes| (bytes as f64 * MEMORY_SHARE) as u64);
        self.memory.map_or_else(most, |size| size.0)
    }

    fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.sizes.iter().flat_map(|sizes| sizes.all()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The points of a trace, the parameters 'unlimited' being so many pages.
    fn points(&self, trace: &Trace, pages: u64) -> Result<Vec<Point>, Failure> {
        let vary =
            |text: &String| text.parse::<Variation>().map_err(|reason| Failure::usage("--vary", reason));
        let vary: Vec<Variation> = self.vary.iter().map(vary).collect::<Result<_, _>>()?;
        points::of(trace, &self.design, &self.sizes(), &self.parameters, &vary, pages)
    }
}

pub(super) fn run(args: &SweepArgs, json: bool) -> Result<(), Failure> {
    if !args.policy_only {
        return timed::run(args, json);
    }
    let started = Instant::now();
    let sources = args.sources()?;
    let results: Results<Row> = Results::open(&args.results)?;
    let memory = args.memory();
    let traces = traces::load(sources, memory / 2, |trace| {
        // Senseless parameters are found before a long trace is read.
        args.points(trace, 1).map(|_| ())
    })?;
    let mut points = Vec::new();
    for trace in &traces {
        points.extend(args.points(trace, trace.pages)?);
        if points.len() > POINTS_MAX {
            let reason = format!("more than {POINTS_MAX} points");
            return Err(Failure::usage("--sizes", reason).next("sweep fewer at once"));
        }
    }
    let points = part_of(args.shard, points, |point| &point.key);
    let left: Vec<&Point> = points.iter().filter(|point| !results.has(&point.key)).collect();
    let tasks = pool::tasks(&left);
    check_memory(&tasks, &traces, memory)?;
    let work = Work {
        tasks,
        memory: memory.saturating_sub(traces::held(&traces)),
        bytes: |task: &Vec<&Point>| pool::bytes(task, &traces),
        run: |task: &Vec<&Point>| pool::run(task, &traces[task[0].trace]),
    };
    let keys = points.iter().map(|point| point.key.as_str()).collect();
    Outcome { args, started, results, keys }.complete(work, json, table)
}

/// The points of one part: every one in turn, in the order of their keys, which depends on nothing else. In
/// the order of the command line.
fn part_of<P>(shard: Shard, points: Vec<P>, key: impl Fn(&P) -> &str) -> Vec<P> {
    let sorted: BTreeSet<&str> = points.iter().map(&key).collect();
    let dealt = sorted.into_iter().zip(0..).filter(|(_, nth)| nth % shard.parts + 1 == shard.part);
    let mut mine: HashSet<String> = dealt.map(|(key, _)| key.to_owned()).collect();
    // A point that is there twice is run once.
    points.into_iter().filter(|point| mine.remove(key(point))).collect()
}

/// Refuses, before anything runs, what would not fit if it ran alone.
fn check_memory(tasks: &[Vec<&Point>], traces: &[Trace], memory: u64) -> Result<(), Failure> {
    let held = traces::held(traces);
    for task in tasks {
        let need = pool::bytes(task, traces);
        if held + need > memory {
            let point = &task[0];
            let reason = format!(
                "{} with {} frames on {} needs {}{}, and there is {} for all of them",
                point.setting.design(),
                number(point.setting.frames() as f64, 0),
                traces[point.trace].source.name(),
                Size(need),
                if held > 0 { format!(" beside {} of traces", Size(held)) } else { String::new() },
                Size(memory)
            );
            let next = "use fewer frames, a smaller --history or more --memory";
            return Err(Failure::refused("memory", reason).next(next));
        }
    }
    Ok(())
}

fn table(rows: &[&Row]) -> String {
    let mut table = Table::new(["trace", "design", "parameters", "frames", "requests", "misses", "% missed"]);
    for row in rows {
        table.row([
            row.trace.clone(),
            row.design.clone(),
            row.parameters_text(),
            number(row.frames as f64, 0),
            number(row.requests as f64, 0),
            number(row.misses as f64, 0),
            number(100.0 * row.miss_ratio, 3),
        ]);
    }
    table.render()
}

/// Bytes that a task takes besides its trace.
fn curve_bytes(task: &[&Point], pages: u64) -> u64 {
    let settings: Vec<_> = task.iter().map(|point| point.setting.clone()).collect();
    Curve::bytes(&settings, pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_of_several() {
        assert_eq!("2/5".parse(), Ok(Shard { part: 2, parts: 5 }));
        for text in ["", "2", "0/5", "6/5", "a/b", "2/", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
