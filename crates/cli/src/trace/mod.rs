//! `mezz trace`: traces of page requests.

mod convert;
mod generate;
mod info;
mod record;

use std::path::Path;

use clap::Subcommand;
use mezzanine_report::number;
use mezzanine_trace::{Compression, Format, Header, Op, Reader, TraceError, TraceErrorKind, Writer, open};

use crate::benchmark::when_interrupted;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

#[derive(Debug, Subcommand)]
pub(crate) enum TraceVerb {
    /// Record what a program asks of its tier.
    #[command(after_help = record::EXAMPLES)]
    Record(record::RecordArgs),
    /// Show what is in a trace: requests by kind, distinct pages, time.
    #[command(after_help = info::EXAMPLES)]
    Info(info::InfoArgs),
    /// Write a trace in another format, or compressed.
    #[command(after_help = convert::EXAMPLES)]
    Convert(convert::ConvertArgs),
    /// Make a trace that is shaped like a benchmark, from a seed.
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::GenerateArgs),
}

pub(crate) fn run(verb: &TraceVerb, json: bool) -> Result<(), Failure> {
    match verb {
        TraceVerb::Record(args) => record::run(args, json),
        TraceVerb::Info(args) => info::run(args, json),
        TraceVerb::Convert(args) => convert::run(args, json),
        TraceVerb::Generate(args) => generate::run(args, json),
    }
}

/// How often progress is shown.
pub(crate) const REQUESTS_A_LOOK: u64 = 1 << 18;

/// A page size on the command line; the formats have 32 bits for it.
pub(crate) fn page_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    let good = (1..=u64::from(u32::MAX)).contains(&size.0);
    good.then_some(size).ok_or_else(|| "give a page size from 1B to 4294967295B".to_owned())
}

/// What [`page_size`] has let through.
pub(crate) fn page_bytes(size: Size) -> u32 {
    u32::try_from(size.0).unwrap_or(u32::MAX)
}

/// An error of the crate below, which names the file and the reason.
pub(crate) fn refused(error: TraceError) -> Failure {
    Failure::refused(error.file().display(), &error)
}

/// Opens a trace as the options say.
fn open_wanted(path: &Path, format: Format, page_size: Size, unfinished: bool) -> Result<Reader, Failure> {
    if unfinished && format != Format::Mezzanine {
        let reason = format!("{format} has no end that could be missing");
        return Err(Failure::usage("--unfinished", reason).next("leave it out"));
    }
    let reader = open(path, format, page_bytes(page_size)).map_err(refused)?;
    Ok(if unfinished { reader.without_end() } else { reader })
}

/// An error on the way through a trace.
fn unreadable(error: TraceError) -> Failure {
    let is_own = error.kind() == TraceErrorKind::Truncated && error.to_string().contains("not whole");
    let failure = refused(error);
    if is_own {
        failure.next("if its recording was interrupted, --unfinished reads what is there")
    } else {
        failure
    }
}

/// Requests and marks by kind, as tables print them.
fn kinds(counts: [u64; Op::ALL.len()]) -> impl Iterator<Item = (&'static str, String)> {
    let names = ["reads", "writes", "clean evictions", "dirty evictions", "commits", "checkpoints"];
    names
        .into_iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name, count_text(count)))
}

fn count_text(count: u64) -> String {
    number(count as f64, 0)
}

/// Refuses to take the place of an existing file, unless told.
fn refuse_existing(path: &Path, overwrite: bool) -> Result<(), Failure> {
    if !overwrite && path.symlink_metadata().is_ok() {
        let failure = Failure::refused(path.display(), "it exists, and nothing was overwritten");
        return Err(failure.next("choose another name, or give --overwrite"));
    }
    Ok(())
}

/// Begins a trace that takes the place of an existing file only if told.
fn create(
    path: &Path,
    format: Format,
    zstd: bool,
    header: Header,
    overwrite: bool,
) -> Result<Writer, Failure> {
    refuse_existing(path, overwrite)?;
    let compression = if zstd { Compression::Zstd } else { Compression::None };
    let writer = Writer::create(path, format, compression, header).map_err(refused)?;
    let unfinished = writer.unfinished();
    let shown = unfinished.display().to_string();
    let handled = when_interrupted(move || {
        // Its name is there only as long as the trace is not finished.
        let _ = std::fs::remove_file(&unfinished);
    });
    if let Err(error) = handled {
        output::note(&format!("{shown} will stay when this is interrupted: {error}"));
    }
    Ok(writer)
}
