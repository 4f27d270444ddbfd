//! `mezz sim run`: a database in virtual time, or one design's replacement alone on one trace.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use mezzanine_report::{facts, number};
use mezzanine_sim::policy::{Counts, Design};
use mezzanine_sim::timed::{Configuration, Setup};
use serde::Serialize;
use serde_json::{Map, Value};

use super::parameters::{self, Parameters};
use super::requests::{RequestArgs, Seen};
use super::timed::{self, TimedArgs};
use crate::failure::Failure;
use crate::output;

pub(super) const EXAMPLES: &str = "Examples:
  mezz sim run                                            TPC-C, 50 warehouses, face-gsc: some seconds
  mezz sim run --design disk                              the same without flash
  mezz sim run --warehouses 500 --pool 200MB --flash 4GB --design face-basic --json
  mezz sim run --flash-model intel-p3700 --disk-model cheetah-15k-x8 --clients 200 --series
  mezz sim run --trace w89.oracleGeneral.zst --format oracle-general --warm-up 0s --flash 1GB
  mezz sim run --policy-only --trace pages.txt --format plain --design lru --frames 10000

Clients of a database run transactions in virtual time: over a buffer pool, the shipped tier, and modelled devices (mezz device list). All times in the result are simulated ones, and the same options give the same result to the last byte. A run first warms up, by default until the queue on flash has been filled once. What is modelled, and how, is in docs/simulator.md.

With --policy-only:
  mezz sim run --policy-only --trace w89.oracleGeneral.zst --format oracle-general --design clock --frames 100000 --json
  mezz sim run --policy-only --synthetic prod3 --design lc --frames 5000 --history unlimited
  mezz sim run --policy-only --synthetic prod3 --design face-gsc --frames 20000 --group-pages 128

Of a policy alone one learns which requests find their page, and nothing of time, of writes to disk or of wear. The cache takes in every \
page that it misses, except with tac and --returning-only. Reads and writes are requests; evictions, commits and checkpoints in a trace are not.

Of the FaCE designs the shipped tier runs, over devices that hold nothing.

Parameters of one design are refused with another. docs/simulator.md says which of them move the numbers, and how far.";

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Run the design's replacement and nothing else of it: requests, hits and misses, without time.
    #[arg(long)]
    policy_only: bool,

    #[command(flatten)]
    requests: RequestArgs,

    /// The design, or disk or flash for a database on one device, or any that the tier has: face-basic,
    /// face-gr, face-gsc, lru, fifo, clock, lc, cac, tac or exadata (default: face-gsc). With --policy-only:
    /// fifo, lru, clock, lc (its replacement, LRU-2), cac (Greedy-Dual), tac (temperature), exadata (LRU),
    /// face-basic, face-gr or face-gsc.
    #[arg(long, required_if_eq("policy_only", "true"))]
    design: Option<String>,

    /// With --policy-only: frames of the cache, which are the pages that it holds.
    #[arg(long, required_if_eq("policy_only", "true"), requires = "policy_only")]
    frames: Option<u64>,

    #[command(flatten, next_help_heading = "Parameters of designs")]
    parameters: Parameters,

    /// A file with the state of the flash drive, of models from the inside: it begins as that says, if it is
    /// there, and is kept there at the end.
    #[arg(long, value_name = "FILE", conflicts_with = "policy_only", help_heading = "Virtual time")]
    flash_state: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Virtual time")]
    timed: TimedArgs,
}

#[derive(Serialize)]
struct Run<'a> {
    #[serde(flatten)]
    seen: &'a Seen,
    design: &'static str,
    replacement: &'static str,
    frames: u64,
    parameters: Map<String, Value>,
    #[serde(flatten)]
    counts: Counts,
    miss_ratio: f64,
    /// Bytes that the policy itself keeps, beside the table that finds pages.
    policy_bytes: u64,
    seconds: f64,
}

impl RunArgs {
    /// The configuration that is simulated in virtual time.
    pub(super) fn configuration(&self) -> Result<Configuration, Failure> {
        timed::configuration(self.design.as_deref())
    }

    /// What is simulated in virtual time.
    pub(super) fn setup(&self) -> Result<Setup, Failure> {
        if self.policy_only {
            return Err(Failure::usage("--policy-only", "this is a run in virtual time").next("leave it out"));
        }
        if let Some(option) = self.requests.counting_option() {
            return Err(
                Failure::usage(option, "it has a meaning with --policy-only alone").next("add --policy-only")
            );
        }
        timed::setup(&self.timed, self.design.as_deref(), &self.requests, &self.parameters)
    }
}

pub(super) fn run(args: &RunArgs, json: bool) -> Result<(), Failure> {
    if args.policy_only {
        return run_policy(args, json);
    }
    timed::run(&args.setup()?, args.flash_state.as_deref(), args.timed.series, json)
}

fn run_policy(args: &RunArgs, json: bool) -> Result<(), Failure> {
    let started = Instant::now();
    let named = args.design.as_deref().unwrap_or_default();
    let design: Design = named.parse().map_err(|error| Failure::usage("--design", error))?;
    let frames = args.frames.unwrap_or_default();
    let points = |parameters: &Parameters| parameters.points(&[design], &[frames], "--frames");
    let points = with_pages(&args.requests, &args.parameters, points)?;
    let (seen, counted) = args.requests.make(points)?;
    let (setting, counts) = &counted[0];
    let run = Run {
        seen: &seen,
        design: setting.design().name(),
        replacement: setting.design().replacement(),
        frames: setting.frames(),
        parameters: parameters::as_json(setting),
        counts: *counts,
        miss_ratio: counts.miss_ratio(),
        policy_bytes: setting.policy_bytes(),
        seconds: started.elapsed().as_secs_f64(),
    };
    if json {
        return output::json(&run);
    }
    let count = |value: u64| number(value as f64, 0);
    let of = |part: u64, all: u64| format!("{} of {}", count(part), count(all));
    output::print(&facts(&[
        ("design", format!("{} (replacement {})", run.design, run.replacement)),
        ("parameters", parameters::as_text(setting)),
        ("frames", count(run.frames)),
        ("requests", format!("{} of {} pages", count(counts.requests), count(seen.distinct_pages))),
        ("hits", count(counts.hits)),
        ("misses", format!("{} ({} %)", count(counts.misses), number(100.0 * run.miss_ratio, 3))),
        ("reads missed", of(counts.read_misses, counts.reads)),
        ("writes missed", of(counts.write_misses, counts.writes)),
        ("marks, not counted", count(seen.marks)),
    ]))
}

/// What is made of the parameters, once it is known how many pages 'unlimited' is. They are checked before
/// the trace is read.
pub(super) fn with_pages<T>(
    requests: &RequestArgs,
    parameters: &Parameters,
    make: impl Fn(&Parameters) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let checked = make(&parameters.clone().limited(1))?;
    if !parameters.is_unlimited() {
        return Ok(checked);
    }
    make(&parameters.clone().limited(requests.distinct_pages()?))
}
