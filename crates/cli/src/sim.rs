//! `mezz sim`: the tier in a simulated world.

use clap::{Args, Subcommand};
use mezzanine_sim::crash::{Options, Report, run as run_worlds};
use serde::Serialize;

use crate::demo::svg::number;
use crate::failure::Failure;
use crate::output::{self, facts};

const EXAMPLES: &str = "Examples:
  mezz sim crash                         ten thousand power cuts
  mezz sim crash --seed 7 --cuts 1000000
  mezz sim crash --seed 4711 --cuts 12   replay a violation that was reported with this seed and so many cuts";

#[derive(Debug, Subcommand)]
pub(crate) enum SimVerb {
    /// Cut the power of simulated devices under the shipped code, thousands of times, and check what is found afterwards.
    #[command(after_help = EXAMPLES)]
    Crash(CrashArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CrashArgs {
    /// Seed of the first world; the next ones have the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Power cuts to simulate.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    cuts: u64,

    /// Threads (default: all cores). The result does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

#[derive(Serialize)]
struct Crash<'a> {
    #[serde(flatten)]
    report: &'a Report,
    ok: bool,
    /// With 95 % confidence violations are rarer than this per cut; null when one was found.
    violations_per_cut_below: Option<f64>,
    seconds: f64,
    cuts_per_second: f64,
}

pub(crate) fn run(verb: &SimVerb, json: bool) -> Result<(), Failure> {
    match verb {
        SimVerb::Crash(args) => crash(args, json),
    }
}

fn crash(args: &CrashArgs, json: bool) -> Result<(), Failure> {
    let threads =
        args.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let bar = output::progress(args.cuts, "cutting the power");
    let started = std::time::Instant::now();
    let progress = |done| bar.set_position(done);
    let options = Options { seed: args.seed, cuts: args.cuts, threads, progress: Some(&progress) };
    let report = run_worlds(&options);
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let ok = report.violations.is_empty();
    let crash = Crash {
        report: &report,
        ok,
        // The rule of three: nothing seen in n trials.
        violations_per_cut_below: ok.then(|| 3.0 / report.cuts.max(1) as f64),
        seconds,
        cuts_per_second: report.cuts as f64 / seconds.max(1e-9),
    };
    if json {
        output::json(&crash)?;
    } else {
        output::print(&text(&crash))?;
    }
    match report.violations.first() {
        None => Ok(()),
        Some(first) => {
            let found = format!("{} violations, the first: {first}", report.violations.len());
            Err(Failure::check("sim crash", found))
        }
    }
}

fn text(crash: &Crash<'_>) -> String {
    let (r, c) = (crash.report, &crash.report.coverage);
    let count = |value: u64| number(value as f64, 0);
    let rate = number(crash.cuts_per_second, 0);
    let verdict = match crash.violations_per_cut_below {
        Some(bound) => format!("none; with 95 % confidence fewer than {bound:.1e} per cut"),
        None => count(r.violations.len() as u64),
    };
    let mut text = facts(&[
        ("seed", r.seed.to_string()),
        (
            "power cuts",
            format!(
                "{} ({} inside a recovery), {rate} a second",
                count(r.cuts),
                count(c.cuts_inside_recovery)
            ),
        ),
        ("worlds", format!("{} configurations, {} operations", count(r.worlds), count(r.operations))),
        ("processes", format!("{} killed, {} closed in order", count(c.kills), count(c.closes))),
        (
            "writes torn",
            format!("{} on flash, {} on disk", count(c.torn_flash_writes), count(c.torn_disk_writes)),
        ),
        ("writes lost", count(c.lost_writes)),
        (
            "interrupted",
            format!(
                "{} reads and {} jobs, by other writes",
                count(c.reads_interrupted),
                count(c.jobs_interrupted)
            ),
        ),
        (
            "queue",
            format!(
                "{} times round, {} second chances, {} stage-outs",
                count(c.wraps),
                count(c.second_chances),
                count(c.stage_outs)
            ),
        ),
        ("groups", format!("{}, of several pages {}", count(c.groups), count(c.groups_of_several_pages))),
        ("recoveries repeated", count(c.recoveries_compared)),
        ("violations", verdict),
    ]);
    for violation in &r.violations {
        text.push_str(&format!("- {violation}\n"));
    }
    text
}
