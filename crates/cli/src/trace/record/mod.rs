//! `mezz trace record`.

mod command;
mod parts;
mod server;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use mezzanine_report::facts;
use mezzanine_trace::Op;
use serde::Serialize;

use super::{count_text, kinds};
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

use parts::Merged;

pub(super) const EXAMPLES: &str = "Examples:
  mezz trace record app.mezztrace -- ./app --serve              a program whose SQLite databases are on a tier
  mezz trace record shell.mezztrace -- sqlite3 -init load.sql   the sqlite3 shell with the loadable extension
  mezz trace record demo.mezztrace -- mezz demo --tiny          the demo's databases
  mezz trace record pg.mezztrace --pgdata /srv/db --seconds 60  a PostgreSQL server with the tier

Recorded are the volumes of a program and its children: SQLite databases that are opened with vfs=mezzanine, by the library or by the \
loadable extension. What is recorded is what SQLite asks of the tier: reads of pages that its own cache does not have, writes, and marks \
of commits and checkpoints; connections are clients, and database files are relations. Several tiers become one trace in the order of \
time. It ends with the program, or when that is interrupted; of a process that was killed about the last second is missing.

Of a PostgreSQL server what shared buffers do is recorded: pages that they do not have and read, changed pages that they write, and pages that leave them, clean or dirty, with the process and its transaction; commits and checkpoints. Relations have their names.

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

    /// Record the running PostgreSQL server of this data directory, instead of a program.
    #[arg(long, value_name = "DIR", requires = "seconds", conflicts_with = "command")]
    pgdata: Option<PathBuf>,

    /// How long to record a server. Interrupted, it ends sooner and keeps what was recorded.
    #[arg(long, value_name = "N", requires = "pgdata", value_parser = seconds)]
    seconds: Option<f64>,

    /// The user that the server runs as, and who may connect to it [default: the owner of the data
    /// directory].
    #[arg(long, value_name = "NAME", requires = "pgdata")]
    user: Option<String>,

    /// The program to record, with its arguments.
    #[arg(last = true, required_unless_present = "pgdata", value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is no number of seconds"))?;
    let good = seconds > 0.0 && seconds <= 1e8;
    good.then_some(seconds).ok_or_else(|| format!("'{text}' seconds cannot be recorded"))
}

#[derive(Serialize)]
struct Recorded {
    file: String,
    file_bytes: u64,
    /// Tiers, each of one process; null for a server.
    tiers: Option<u64>,
    /// Of these, those whose process ended before it could complete its part.
    unfinished: u64,
    /// Events of a server that came faster than it could write them.
    lost: u64,
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
    if let Some(seconds) = args.seconds {
        let served = server::record(args, seconds)?;
        let recorded = of_server(args, &served);
        return if json { output::json(&recorded) } else { output::print(&text(&recorded)) };
    }
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

fn of_server(args: &RecordArgs, served: &server::Served) -> Recorded {
    let server::Served { kinds, file_bytes, page_bytes, .. } = *served;
    let merged = Merged { parts: 0, unfinished: 0, page_bytes, kinds, file_bytes };
    Recorded { tiers: None, lost: served.lost, ..recorded(args, merged, served.seconds, None) }
}

fn recorded(args: &RecordArgs, merged: Merged, seconds: f64, command_failed: Option<String>) -> Recorded {
    let [reads, writes, evictions_clean, evictions_dirty, commits, checkpoints] = merged.kinds;
    Recorded {
        file: args.output.display().to_string(),
        file_bytes: merged.file_bytes,
        tiers: Some(merged.parts),
        unfinished: merged.unfinished,
        lost: 0,
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
        (
            "recorded",
            match recorded.tiers {
                Some(tiers) => format!("{:.1} s, {} tiers", recorded.seconds, count_text(tiers)),
                None => format!("{:.1} s", recorded.seconds),
            },
        ),
        ("page size", format!("{} bytes", count_text(recorded.page_bytes.into()))),
    ];
    pairs.extend(kinds(counts));
    if recorded.lost > 0 {
        let lost = count_text(recorded.lost);
        pairs.push(("lost", format!("{lost} events, which came faster than the server could write them")));
    }
    if recorded.unfinished > 0 {
        let parts = count_text(recorded.unfinished);
        pairs.push((
            "unfinished",
            format!("{parts} tiers, whose process ended before it could complete its part"),
        ));
    }
    facts(&pairs)
}
