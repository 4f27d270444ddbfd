//! Benchmarks of the engine, the volume and modelled drives, each beside a rival or the machine's limit in
//! the same run.
#![forbid(unsafe_code)]

mod drive;
mod engine;
mod fragment;
mod host;
mod memory;
mod policy;
mod processes;
mod recovery;
mod report;
mod scale;
mod timing;
mod volume;
mod workload;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Frames of the tier that lookups run on: 64 GiB of 4 KiB pages.
const FRAMES: u64 = 1 << 24;
/// Size of the tier that is recovered.
const GIB: u64 = 100;

/// Benchmarks of Mezzanine. Nothing here asserts a time: figures are printed beside a rival measured in
/// the same run.
#[derive(Parser)]
#[command(name = "mezz-bench", version)]
struct Arguments {
    /// Print one JSON object per row instead of a table.
    #[arg(long, global = true)]
    json: bool,
    /// Run everything at a size that takes a second, to see that it still works.
    #[arg(long, global = true)]
    tiny: bool,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Lookup and stage-in on one and two threads.
    Engine {
        /// Frames of the tier that lookups run on.
        #[arg(long, default_value_t = FRAMES)]
        frames: u64,
    },
    /// Lookups and stage-ins on one thread, a fixed number of each and none refused: for a counter of
    /// instructions.
    Counted {
        /// How many of each.
        #[arg(long, default_value_t = 20_000)]
        count: u64,
    },
    /// Lookup and stage-in on one tier in shared memory, of one process and of two.
    Processes {
        /// Frames of the tier.
        #[arg(long, default_value_t = FRAMES)]
        frames: u64,
    },
    #[command(hide = true)]
    SecondProcess(processes::Second),
    /// Replacement alone, on page numbers: requests a second.
    Policy,
    /// Modelled drives: operations computed in a second on one core.
    Drive {
        /// Capacities of the drive in GB; one of 480 takes 1 GB of memory, and minutes to fill.
        #[arg(long, value_delimiter = ',', default_value = "16", value_parser = clap::value_parser!(u64).range(1..=4000))]
        gigabytes: Vec<u64>,
    },
    /// Memory per frame at several tier sizes: computed, not measured.
    Memory,
    /// The fragment cache: a read hit beside the device, and memory for each fragment, which is computed.
    Fragment,
    /// Read hits of the fragment cache on one thread, a fixed number: for a counter of instructions.
    FragmentCounted {
        /// How many.
        #[arg(long, default_value_t = 20_000)]
        count: u64,
    },
    /// Recovery of a tier against reading all of it.
    Recovery {
        /// Size of the tier in GiB (the file is sparse).
        #[arg(long, default_value_t = GIB)]
        gib: u64,
        /// Folder for the flash file.
        #[arg(long, default_value = ".")]
        directory: PathBuf,
    },
    /// What a tier costs as it grows: memory and metadata, drops, drains, checkpoints, recovery.
    Scale {
        /// Sizes of the tier in GiB.
        #[arg(long, value_delimiter = ',', default_value = "1,8,128,1024,4096", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
        gib: Vec<u64>,
        /// Up to which size it is measured: a tier takes 0.5 % of that as memory, and minutes to fill. Of
        /// larger ones memory and metadata are computed.
        #[arg(long, default_value_t = 128)]
        measured_gib: u64,
        /// Relations that were dropped right before the crash that a tier is recovered from.
        #[arg(long, default_value_t = 10_000)]
        drops: u64,
        /// Folder for the flash file, which is sparse.
        #[arg(long, default_value = ".")]
        directory: PathBuf,
    },
    /// A flash hit through a volume against the bare device read.
    Hit {
        /// Folder for the files; a file system with direct I/O gives the figure its meaning.
        #[arg(long, default_value = ".")]
        directory: PathBuf,
    },
    /// Everything, one after the other.
    All {
        /// Folder for the files.
        #[arg(long, default_value = ".")]
        directory: PathBuf,
    },
}

impl Bench {
    /// Where it puts its files, if it has any.
    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Recovery { directory, .. }
            | Self::Scale { directory, .. }
            | Self::Hit { directory }
            | Self::All { directory } => Some(directory),
            Self::Engine { .. }
            | Self::Counted { .. }
            | Self::Processes { .. }
            | Self::SecondProcess(_)
            | Self::Policy
            | Self::Fragment
            | Self::FragmentCounted { .. }
            | Self::Drive { .. }
            | Self::Memory => None,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Now, and not when the benchmarks before it have run for minutes.
    if let Some(missing) = arguments.bench.directory().filter(|directory| !directory.is_dir()) {
        eprintln!(
            "mezz-bench: there is no folder {}: make it, or name another with --directory",
            missing.display()
        );
        return ExitCode::from(2);
    }
    let scale = if arguments.tiny { report::Scale::Tiny } else { report::Scale::Full };
    let rows = match &arguments.bench {
        Bench::Engine { frames } => engine::run(scale, *frames),
        Bench::Counted { count } => engine::counted(*count),
        Bench::Processes { frames } => processes::run(scale, *frames),
        Bench::SecondProcess(second) => processes::second(second),
        Bench::Policy => policy::run(scale),
        Bench::Drive { gigabytes } => drive::run(scale, gigabytes),
        Bench::Memory => Ok(memory::run()),
        Bench::Fragment => fragment::run(scale),
        Bench::FragmentCounted { count } => fragment::counted(*count),
        Bench::Recovery { gib, directory } => recovery::run(scale, *gib, directory),
        Bench::Scale { gib, measured_gib, drops, directory } => {
            scale::run(scale, gib, *measured_gib, *drops, directory)
        }
        Bench::Hit { directory } => volume::run(scale, directory),
        Bench::All { directory } => all(scale, directory),
    };
    match rows {
        Ok(rows) => {
            report::print(&rows, arguments.json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("mezz-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn all(scale: report::Scale, directory: &Path) -> report::Outcome {
    let mut rows = engine::run(scale, FRAMES)?;
    rows.extend(processes::run(scale, FRAMES)?);
    rows.extend(policy::run(scale)?);
    rows.extend(drive::run(scale, &[scale.pick(16, 1)])?);
    rows.extend(memory::run());
    rows.extend(fragment::run(scale)?);
    rows.extend(recovery::run(scale, GIB, directory)?);
    let sizes: &[u64] = if scale == report::Scale::Full { &[1, 8, 128, 1024, 4096] } else { &[1] };
    rows.extend(scale::run(scale, sizes, scale.pick(128, 1), scale.pick(10_000, 10), directory)?);
    rows.extend(volume::run(scale, directory)?);
    Ok(rows)
}
