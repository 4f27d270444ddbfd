//! `mezz`: the command of Mezzanine.
//!
//! Nouns, then verbs. Results go to stdout, as tables or with `--json` as one JSON object; everything else
//! goes to stderr. The exit code is part of the interface: see [`failure::Exit`].

#![forbid(unsafe_code)]

mod checksum;
mod failure;
mod nbd;
mod output;
mod size;
mod ublk;

mod contents;
mod machine;

mod benchmark;
mod block;

mod demo;
mod device;
mod experiment;
mod pg;
mod sim;
mod tier;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "Exit codes:
  0  done, and everything that was checked holds
  1  done, but a check does not hold (not consistent, damaged, lost)
  2  the command line makes no sense
  3  refused, or an error of the system; nothing was overwritten

Sizes are written 10GB (10^10 bytes) or 10GiB (10 * 2^30 bytes).";

/// A flash tier for transactional databases.
#[derive(Debug, Parser)]
#[command(name = "mezz", version, after_help = EXIT_CODES, max_term_width = 110, propagate_version = true)]
struct Cli {
    /// Print the result as one JSON object on stdout.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show a database with and without the tier: TPC-C, modelled drives, kill -9, a report.
    Demo(Box<demo::DemoArgs>),
    /// A flash tier at rest: make, look at, check, empty it.
    #[command(subcommand)]
    Tier(tier::TierVerb),
    /// PostgreSQL with the tier.
    #[command(subcommand)]
    Pg(pg::PgVerb),
    /// List drives and models, and measure them.
    #[command(subcommand)]
    Device(device::DeviceVerb),
    /// Block devices behind a flash cache, served over NBD.
    #[command(subcommand)]
    Block(block::BlockVerb),
    /// Traces of page requests: looked at, converted, generated.
    #[command(subcommand)]
    Trace(trace::TraceVerb),
    /// The tier in a simulated world that loses power; designs on traces.
    #[command(subcommand)]
    Sim(sim::SimVerb),
    /// What the papers print and state, and what comes out here.
    #[command(subcommand)]
    Experiment(experiment::ExperimentVerb),
    /// One run of the demo, in a process that can be killed.
    #[command(hide = true)]
    DemoChild(demo::child::ChildArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.verb {
        Verb::Demo(args) => demo::run(&args, cli.json),
        Verb::Tier(verb) => tier::run(&verb, cli.json),
        Verb::Trace(verb) => trace::run(&verb, cli.json),
        Verb::Sim(verb) => sim::run(&verb, cli.json),
        Verb::Experiment(verb) => experiment::run(&verb, cli.json),
        Verb::Device(verb) => device::run(&verb, cli.json),
        Verb::Block(verb) => block::run(&verb, cli.json),
        Verb::Pg(verb) => pg::run(&verb, cli.json),
        Verb::DemoChild(args) => demo::child::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("mezz: {failure}");
            failure.exit_code()
        }
    }
}
