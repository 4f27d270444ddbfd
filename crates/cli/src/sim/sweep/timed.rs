//! Sweeps of runs in virtual time: each point is a command line of `mezz sim run`.
//!
//! The options that all points have stand behind `--`, those that vary in `--vary`. So whatever `mezz sim
//! run` understands can be varied, and a point is refused with its words. An option that means nothing to the
//! design of a point is not part of it, so that with two sizes of flash a database on disk alone is one
//! point.

use std::time::Instant;

use clap::{ArgAction, CommandFactory as _, Parser};
use mezzanine_report::{Table, number};
use mezzanine_sim::timed::{Setup, Workload, run as simulate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::super::run::RunArgs;
use super::super::timed::{is_foreign, refused, report_of};
use super::SweepArgs;
use super::outcome::{Outcome, Work};
use super::points::program;
use super::results::{Line, Results};
use crate::checksum::sha256_of;
use crate::failure::Failure;
use crate::size::Size;

/// A command line of `mezz sim run`.
#[derive(Debug, Parser)]
#[command(name = "mezz sim run", disable_help_flag = true)]
struct CommandLine {
    #[command(flatten)]
    run: RunArgs,
}

struct Point {
    key: String,
    /// The options that vary, with their values.
    varied: Options,
    setup: Setup,
    memory_bytes: u64,
}

/// A line of the results file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    key: String,
    varied: Options,
    /// What `mezz sim run --json` prints.
    run: Map<String, Value>,
}

impl Line for Row {
    fn key(&self) -> &str {
        &self.key
    }
}

pub(super) fn run(args: &SweepArgs, json: bool) -> Result<(), Failure> {
    if let Some(option) = args.of_replacement() {
        let name = option.trim_start_matches('-');
        let reason = "without --policy-only, options of the runs stand behind -- or in --vary";
        let next = format!("write -- --{name} VALUE, --vary {name}=VALUES, or add --policy-only");
        return Err(Failure::usage(format!("--{name}"), reason).next(next));
    }
    let started = Instant::now();
    let memory = args.memory();
    let points = super::part_of(args.shard, points(args, memory)?, |point: &Point| &point.key);
    if let Some(point) = points.iter().find(|point| point.memory_bytes > memory) {
        let (need, there) = (Size(point.memory_bytes), Size(memory));
        let reason = format!("{} needs {need}, and there is {there} for all of them", text_of(&point.varied));
        let next = "use a smaller database, a smaller tier or more --memory";
        return Err(Failure::refused("memory", reason).next(next));
    }
    let results: Results<Row> = Results::open(&args.results)?;
    let work = Work {
        tasks: points.iter().filter(|point| !results.has(&point.key)).collect(),
        memory,
        bytes: |point: &&Point| point.memory_bytes,
        run: |point: &&Point| Ok(vec![row(point)?]),
    };
    let keys = points.iter().map(|point| point.key.as_str()).collect();
    Outcome { args, started, results, keys }.complete(work, json, table)
}

/// Options with values.
type Options = Vec<(String, String)>;

/// Every combination of the values that vary, without the options that mean nothing to its design.
fn points(args: &SweepArgs, memory: u64) -> Result<Vec<Point>, Failure> {
    let points = combinations(args)?.into_iter().map(|varied| point(args, varied, memory));
    let points: Vec<Point> = points.collect::<Result<_, _>>()?;
    for name in args.vary.iter().filter_map(|text| text.split_once('=').map(|(name, _)| name)) {
        if !points.iter().any(|point| point.varied.iter().any(|(varied, _)| varied == name)) {
            let reason = "it means nothing to any of the designs of this sweep";
            return Err(Failure::usage(format!("--vary {name}"), reason).next("leave it out"));
        }
    }
    Ok(points)
}

fn combinations(args: &SweepArgs) -> Result<Vec<Options>, Failure> {
    let mut combinations: Vec<Options> = vec![Vec::new()];
    for text in &args.vary {
        let (name, values) =
            text.split_once('=').filter(|(_, values)| !values.is_empty()).ok_or_else(|| {
                Failure::usage("--vary", format!("'{text}' is no option with values"))
                    .next("write flash=1GB,2GB")
            })?;
        let with = |combination: &Options, value: &str| {
            let mut combination = combination.clone();
            combination.push((name.to_owned(), value.to_owned()));
            combination
        };
        let values: Vec<&str> = values.split(',').collect();
        if combinations.len().saturating_mul(values.len()) > super::POINTS_MAX {
            let reason = format!("more than {} points", super::POINTS_MAX);
            return Err(Failure::usage("--vary", reason).next("sweep fewer at once"));
        }
        combinations = combinations
            .iter()
            .flat_map(|combination| values.iter().map(move |value| with(combination, value)))
            .collect();
    }
    Ok(combinations)
}

/// Whether an option has no value.
fn is_switch(name: &str) -> bool {
    let command = CommandLine::command();
    let mut options = command.get_arguments().filter(|option| option.get_long() == Some(name));
    options.any(|option| matches!(option.get_action(), ArgAction::SetTrue))
}

fn parse(args: &SweepArgs, varied: &Options) -> Result<RunArgs, Failure> {
    let options = varied.iter().filter_map(|(name, value)| match (value.as_str(), is_switch(name)) {
        ("on", true) => Some(format!("--{name}")),
        ("off", true) => None,
        _ => Some(format!("--{name}={value}")),
    });
    let line: Vec<String> =
        std::iter::once("mezz sim run".to_owned()).chain(args.run.iter().cloned()).chain(options).collect();
    let parsed = CommandLine::try_parse_from(&line).map_err(|error| {
        let said = error.render().to_string();
        let first = said.lines().next().unwrap_or("").trim_start_matches("error: ").to_owned();
        Failure::usage(line.join(" "), first).next("mezz sim run --help has the options")
    })?;
    Ok(parsed.run)
}

fn point(args: &SweepArgs, mut varied: Options, memory: u64) -> Result<Point, Failure> {
    // All of them must be understood, also those that mean nothing to this design.
    let configuration = parse(args, &varied)?.configuration()?;
    let is_off = |name: &str, value: &str| value == "off" && is_switch(name);
    varied.retain(|(name, value)| !is_off(name, value) && !is_foreign(configuration, name));
    let mut setup = parse(args, &varied)?.setup()?;
    let mut memory_bytes = setup.memory_bytes().map_err(|refusal| refused(&refusal))?;
    let key = key(&setup)?;
    if setup.database_pages().is_none() {
        // How many pages a trace has is not known before: it may take its part.
        memory_bytes = memory_bytes.max(memory / args.threads() as u64);
    }
    setup.memory_bytes_max = Some(memory_bytes);
    Ok(Point { key, varied, setup, memory_bytes })
}

/// A hash of everything that the result depends on: of a trace its contents, whatever the file is called.
fn key(setup: &Setup) -> Result<String, Failure> {
    let mut setup = setup.clone();
    if let Workload::Trace { path, .. } = &mut setup.workload {
        *path = sha256_of(path).map_err(|e| Failure::refused(path.display(), e))?.into();
    }
    let text = format!("{} virtual time\n{:016x}\n", program(), setup.fingerprint());
    Ok(hex::encode(&Sha256::digest(text)[..16]))
}

fn row(point: &Point) -> Result<Row, Failure> {
    let outcome = simulate(&point.setup).map_err(|refusal| refused(&refusal))?;
    let report = report_of(&point.setup, &outcome)?;
    match report {
        Value::Object(run) => Ok(Row { key: point.key.clone(), varied: point.varied.clone(), run }),
        _ => Err(Failure::refused("output", "a run that is no object")),
    }
}

fn text_of(varied: &Options) -> String {
    let texts: Vec<String> = varied.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if texts.is_empty() { "the run".to_owned() } else { texts.join(", ") }
}

fn table(rows: &[&Row]) -> String {
    let mut table =
        Table::new(["run", "transactions/minute", "tier hits, %", "flash written, GB", "disk pages written"]);
    for row in rows {
        let value = |path: &str, scale: f64, decimals| {
            let found = Value::Object(row.run.clone()).pointer(path).and_then(Value::as_f64);
            found.map_or_else(|| "-".to_owned(), |value| number(value * scale, decimals))
        };
        table.row([
            text_of(&row.varied),
            value("/throughput/transactions_per_minute", 1.0, 0),
            value("/hits/tier_ratio", 100.0, 1),
            value("/flash/write_bytes", 1e-9, 2),
            value("/writes/home_pages_written", 1.0, 0),
        ]);
    }
    table.render()
}
