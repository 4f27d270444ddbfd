//! `mezz sim`: the tier in a simulated world, and designs on traces.

mod exhaustive;
mod random;

mod parameters;
mod requests;
mod source;

mod block;
mod mrc;
mod run;
mod sweep;
mod three_tier;
mod timed;

use clap::{Args, Subcommand};
use mezzanine_engine::{Design, SyncMode};
use mezzanine_sim::crash::exhaustive::CaseName;
use mezzanine_sim::crash::{DriveAnomaly, Excerpt, Feature, Violation, Worlds};

use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  mezz sim crash                                          ten thousand power cuts
  mezz sim crash --seed 7 --cuts 1000000 --json           a million, from another seed
  mezz sim crash --world database --sync-mode drained     databases on tiers in one sync mode
  mezz sim crash --world histories                        files, sidecars and flash put back to earlier moments
  mezz sim crash --world runners                          runners that carry out jobs of a volume, half a job at a time
  mezz sim crash --world drives                           volumes on flash drives that are modelled from the inside
  mezz sim crash --exhaustive                             every case of every trace of one step, of volumes and databases
  mezz sim crash --world volume --seed 4711 --cuts 12     the first twelve cuts of one world again

A world is a machine with a flash device, disks, one power supply and either files on a volume or a database with a log. Its seed \
draws how large everything is, how the tier is configured and what happens; power fails at any device operation, also while a \
tier recovers, and what was not flushed is kept, lost or torn. A run is a row of worlds with one seed after the other, 64 cuts each.

A violation is one line: the invariant that broke, seed, cut, version and the command that replays it in the same version. Before it \
is reported it is made shorter: --without leaves parts of the world out, and --only 3:0-4!4.2,7: lets of session 3 only the \
operations 0 to 4 take place, with the power failing in the second device operation of operation 4, and of session 7 none.

Nothing found in N cuts means fewer than 3/N violations per cut at 95 % confidence, for worlds as they are drawn.";

#[derive(Debug, Subcommand)]
pub(crate) enum SimVerb {
    /// Cut the power of simulated devices under the shipped code, thousands of times, and check what is found
    /// afterwards.
    #[command(after_help = EXAMPLES)]
    Crash(Box<CrashArgs>),
    /// Run a database over a tier in virtual time; or, of a design's replacement alone, count hits and misses
    /// on a trace.
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Misses by the size of the cache: many sizes and designs in one pass over a trace.
    #[command(after_help = mrc::EXAMPLES)]
    Mrc(mrc::MrcArgs),
    /// Run many designs, sizes and parameters on traces, on all cores; resumable and shardable.
    #[command(after_help = sweep::EXAMPLES)]
    Sweep(Box<sweep::SweepArgs>),
    /// Compare caches on flash that collect its blocks: over a translation layer (bl, lpd) and without (nfa).
    #[command(after_help = three_tier::EXAMPLES)]
    ThreeTier(Box<three_tier::ThreeTierArgs>),
    /// Run block caches in virtual time: the fragment cache and models of its rivals, under block requests.
    #[command(after_help = block::EXAMPLES)]
    Block(Box<block::BlockArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct CrashArgs {
    /// Seed of the first world; the next ones have the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Power cuts to simulate: at least one world's worth is drawn, and the last world may go a little
    /// further.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    cuts: u64,

    /// What lives in the worlds: volume (files with syncs), database (a pool, a log and a redo pointer),
    /// server (the same on the host that ships for PostgreSQL, with processes and a marker), histories
    /// (files of a volume whose flash, disks and sidecars are put back to earlier moments, whole and in
    /// parts), runners (files of a volume whose jobs several runners carry out beside the operations, in an
    /// order that the seed decides), zones and zoned-volume (a database and a volume whose flash is written
    /// zone by zone; only where asked for), drives and drive-database (a volume on flash drives modelled from
    /// the inside, with collection, a map and a write cache, and a database on two such drives; only where
    /// asked for) or all (as each seed draws it; one in sixteen is of histories, and
    /// of volumes one in eight has runners).
    #[arg(long, default_value = "all", conflicts_with = "case")]
    world: Worlds,

    /// Threads (default: all cores). The result does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Try every case of short traces instead of drawing worlds: power fails in each device operation, and
    /// each subset of the unflushed writes survives.
    #[arg(long, conflicts_with_all = ["seed", "cuts"])]
    exhaustive: bool,

    /// Steps of the longest trace of the exhaustive mode.
    #[arg(long, default_value_t = 1, requires = "exhaustive", value_parser = clap::value_parser!(u8).range(0..=6))]
    length: u8,

    /// Only this case of the exhaustive mode, as a violation names it.
    #[arg(long, requires = "exhaustive", conflicts_with = "length")]
    case: Option<CaseName>,

    /// Only tiers with this sync mode: through, drained (databases only) or durable.
    #[arg(long, conflicts_with = "case")]
    sync_mode: Option<SyncMode>,

    /// Only tiers with this design: face-basic, face-gr, face-gsc, or one that writes in place: lru, fifo,
    /// clock, lc, cac, exadata, tac (with sync mode through alone).
    #[arg(long, conflicts_with = "case")]
    design: Option<Design>,

    /// Leave out what makes worlds more difficult, with commas in between: errors, resizes, switches (of the
    /// sync mode and of admission), ahead (stage-out ahead of need); files, guards, fingerprints,
    /// replacements (of the flash device), spares (devices that fail in a replacement; of volumes); owners,
    /// swaps, pulling (of databases).
    #[arg(long, value_delimiter = ',', conflicts_with = "exhaustive")]
    without: Vec<Feature>,

    /// What the drives of `--world drives` do wrong when their power is cut, with commas in between: shorn,
    /// reordered, bit_corruption (none of which may cost anything), corrupt_map, dead, paired_pages (after
    /// which an error is allowed, and nothing that was never written), lost (a flush that is not done: older
    /// pages are counted, and are no violation). Without it drives keep what they promise.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "exhaustive")]
    anomalies: Vec<DriveAnomaly>,

    /// Only these sessions and operations of the one world of this seed, as a violation names them.
    #[arg(long, value_name = "EXCERPT", conflicts_with = "exhaustive")]
    only: Option<Excerpt>,
}

impl CrashArgs {
    /// Refuses a design with a sync mode that it does not have.
    fn check(&self) -> Result<(), Failure> {
        let Some((design, mode)) = self.design.zip(self.sync_mode) else { return Ok(()) };
        if !design.has_slots() || mode == SyncMode::Through {
            return Ok(());
        }
        let reason = format!("design {design} has the sync mode through alone");
        Err(Failure::usage(format!("--sync-mode {mode}"), reason).next("leave it out, or use through"))
    }

    fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

pub(crate) fn run(verb: &SimVerb, json: bool) -> Result<(), Failure> {
    match verb {
        SimVerb::Crash(args) => {
            args.check()?;
            if args.exhaustive { exhaustive::run(args, json) } else { random::run(args, json) }
        }
        SimVerb::Run(args) => run::run(args, json),
        SimVerb::Mrc(args) => mrc::run(args, json),
        SimVerb::Sweep(args) => sweep::run(args, json),
        SimVerb::ThreeTier(args) => three_tier::run(args, json),
        SimVerb::Block(args) => block::run(args, json),
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
