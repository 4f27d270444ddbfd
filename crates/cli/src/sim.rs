//! `mezz sim`: the tier in a simulated world.

mod exhaustive;
mod random;

use clap::{Args, Subcommand};
use mezzanine_engine::{Design, SyncMode};
use mezzanine_sim::crash::exhaustive::CaseName;
use mezzanine_sim::crash::{Violation, Worlds};

use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  mezz sim crash                         ten thousand power cuts
  mezz sim crash --seed 7 --cuts 1000000
  mezz sim crash --seed 4711 --cuts 12   replay a violation that was reported with this seed and so many cuts
  mezz sim crash --exhaustive            every case of every trace of one step";

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

    /// What lives in the worlds: volume (files with syncs), database (a pool, a log and a redo pointer) or all (as each seed
    /// draws it).
    #[arg(long, default_value = "all", conflicts_with = "exhaustive")]
    world: Worlds,

    /// Threads (default: all cores). The result does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Try every case of short traces instead of drawing worlds: power fails in each device operation, and each subset of
    /// the unflushed writes survives.
    #[arg(long, conflicts_with_all = ["seed", "cuts"])]
    exhaustive: bool,

    /// Steps of the longest trace of the exhaustive mode.
    #[arg(long, default_value_t = 1, requires = "exhaustive", value_parser = clap::value_parser!(u8).range(0..=6))]
    length: u8,

    /// Only this case of the exhaustive mode, as a violation names it.
    #[arg(long, requires = "exhaustive", conflicts_with = "length")]
    case: Option<CaseName>,

    /// Only settings of the exhaustive mode with this sync mode: through or durable.
    #[arg(long, requires = "exhaustive", conflicts_with = "case")]
    sync_mode: Option<SyncMode>,

    /// Only settings of the exhaustive mode with this design: face-basic, face-gr or face-gsc.
    #[arg(long, requires = "exhaustive", conflicts_with = "case")]
    design: Option<Design>,
}

impl CrashArgs {
    fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

pub(crate) fn run(verb: &SimVerb, json: bool) -> Result<(), Failure> {
    match verb {
        SimVerb::Crash(args) if args.exhaustive => exhaustive::run(args, json),
        SimVerb::Crash(args) => random::run(args, json),
    }
}

/// How a run ends.
fn verdict(violations: &[Violation]) -> Result<(), Failure> {
    match violations.first() {
        None => Ok(()),
        Some(first) => {
            let found = format!("{} violations, the first: {first}", violations.len());
            Err(Failure::check("sim crash", found))
        }
    }
}
