//! `mezz trace record`.

mod command;
mod parts;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use mezzanine_trace::Op;
use serde::Serialize;

use super::{count_text, kinds};
use crate::failure::Failure;
use crate::output::{self, facts};
use crate::size::Size;

use parts::Merged;

pub(super) const EXAMPLES: &str = "Examples:
  mezz trace record app.mezztrace -- ./app --serve              a program whose SQLite databases are on a tier
  mezz trace record shell.mezztrace -- sqlite3 -init load.sql   the sqlite3 shell with the loadable extension
  mezz trace record demo.mezztrace -- mezz demo --tiny          the demo's databases

Recorded are the volumes of a program and its children: SQLite databases that are opened with vfs=mezzanine, by the library or by the \
loadable extension. What is recorded is what SQLite asks of the tier: reads of pages that its own cache does not have, writes, and marks \
of commits and checkpoints; connections are clients, and database files are relations. Several tiers become one trace in the order of \
time. It ends with the program, or when that is interrupted; of a process that was killed about the last second is missing.

A program records itself with `trace=FILE` in the URI of a database, or with `PRAGMA mezzanine_trace`; docs/traces.md says more.";

/// The options of `trace record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The trace to write, in the format mezzanine.
    output: PathBuf,

    /// Compress the trace by zstd.
    #[arg(long)]
    zstd: bool,

    /// Replace what has the name of the trace.
    #[arg(long)]
    overwrite: bool,

    /// The program to record, with its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Serialize)]
struct Recorded {
    file: String,
    file_bytes: u64,
    /// Tiers, each of one process.
    tiers: u64,
    /// Of these, those whose process ended before it could complete its part.
    unfinished: u64,
    page_bytes: u32,
    seconds: f64,
    reads: u64,
    writes: u64,
    evictions_clean: u64,
    evictions_dirty: u64,
    commits: u64,
    checkpoints: u64,
    /// How the program ended, in words; null if it did as programs should.
    command_failed: Option<String>,
}

pub(super) fn run(args: &RecordArgs, json: bool) -> Result<(), Failure> {
    super::refuse_existing(&args.output, args.overwrite)?;
    let directory = parts::Directory::create(&args.output)?;
    let ended = command::run(&args.command, directory.path(), json).inspect_err(|_| directory.remove())?;
    let parts = directory.parts()?;
    if parts.is_empty() {
        let reason = "nothing was recorded: the program opened no database with a tier";
        let failure = Failure::refused(args.output.display(), reason);
        return Err(failure.next(match &ended.failed {
            Some(how) => format!("{} {how}: see what it says", ended.name),
            None => "open databases with vfs=mezzanine (crates/sqlite/README.md has URIs)".to_owned(),
        }));
    }
    let merged = parts::merge(&parts, args)?;
    directory.remove();
    let recorded = recorded(args, merged, ended.seconds, ended.failed.clone());
    if json {
        output::json(&recorded)?;
    } else {
        output::print(&text(&recorded))?;
    }
    match ended.failed {
        None => Ok(()),
        Some(how) => Err(Failure::check(ended.name, format!("{how}; what it did until then was recorded"))),
    }
}

fn recorded(args: &RecordArgs, merged: Merged, seconds: f64, command_failed: Option<String>) -> Recorded {
    let [reads, writes, evictions_clean, evictions_dirty, commits, checkpoints] = merged.kinds;
    Recorded {
        file: args.output.display().to_string(),
        file_bytes: merged.file_bytes,
        tiers: merged.parts,
        unfinished: merged.unfinished,
        page_bytes: merged.page_bytes,
        seconds,
        reads,
        writes,
        evictions_clean,
        evictions_dirty,
        commits,
        checkpoints,
        command_failed,
    }
}

fn text(recorded: &Recorded) -> String {
    let mut counts = [0; Op::ALL.len()];
    for (op, count) in [
        (Op::Read, recorded.reads),
        (Op::Write, recorded.writes),
        (Op::EvictClean, recorded.evictions_clean),
        (Op::EvictDirty, recorded.evictions_dirty),
        (Op::Commit, recorded.commits),
        (Op::Checkpoint, recorded.checkpoints),
    ] {
        counts[op.index()] = count;
    }
    let mut pairs = vec![
        ("trace", recorded.file.clone()),
        ("size of the file", Size(recorded.file_bytes).to_string()),
        ("recorded", format!("{:.1} s, {} tiers", recorded.seconds, count_text(recorded.tiers))),
        ("page size", format!("{} bytes", count_text(recorded.page_bytes.into()))),
    ];
    pairs.extend(kinds(counts));
    if recorded.unfinished > 0 {
        let parts = count_text(recorded.unfinished);
        pairs.push((
            "unfinished",
            format!("{parts} tiers, whose process ended before it could complete its part"),
        ));
    }
    facts(&pairs)
}
