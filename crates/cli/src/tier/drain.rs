//! `mezz tier drain`.

use std::path::{Path, PathBuf};

use clap::Args;
use mezzanine_report::facts;
use mezzanine_sqlite::ErrorKind;
use mezzanine_volume::VolumeErrorKind;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::Serialize;

use super::in_use::{InUse, is_sqlite};
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz tier drain /mnt/nvme/app.mezz app.db
  mezz tier drain /mnt/nvme/app.mezz app.db other.db --json

Name every file that uses the tier. Afterwards the files can be opened by a stock SQLite, and the flash may be removed or formatted again. \
The tier of a PostgreSQL server is drained by `mezz pg drain`.";

/// The name that databases are opened by here.
const VFS: &str = "mezzanine-drain";

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// The tier's file or block device.
    flash: PathBuf,

    /// The files whose pages the tier holds.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Drained {
    flash: String,
    files: Vec<String>,
    pages_written: u64,
    bytes_written: u64,
    seconds: f64,
}

pub(crate) fn run(args: &DrainArgs, json: bool) -> Result<(), Failure> {
    let next = "nothing was changed; `mezz pg drain --pgdata DIR` completes the files of that cluster, also if its server is dead";
    let tier = InUse::look(&args.flash, &args.files, next)?;
    let started = std::time::Instant::now();
    let in_use = InUse::open(&args.flash, VFS, tier, true)?;
    for path in &args.files {
        if is_sqlite(path) {
            finish_logs(path)?;
        } else {
            in_use.attach_plain(path)?;
        }
    }
    let InUse { volume, vfs, .. } = in_use;
    let bar = output::spinner("writing the tier's pages to their files");
    vfs.close_drained().map_err(|error| {
        let failure = Failure::refused(args.flash.display(), chain(&error));
        match error.kind() {
            ErrorKind::Volume(VolumeErrorKind::LostPage) => failure
                .next("`mezz tier verify` names the pages that are lost; all others are in their files now"),
            _ => failure,
        }
    })?;
    bar.finish_and_clear();
    check_logs(args)?;
    let statistics = volume.statistics();
    let drained = Drained {
        flash: args.flash.display().to_string(),
        files: args.files.iter().map(|path| path.display().to_string()).collect(),
        pages_written: statistics.disk_pages_written,
        bytes_written: statistics.disk_bytes_written,
        seconds: started.elapsed().as_secs_f64(),
    };
    if json {
        return output::json(&drained);
    }
    output::print(&facts(&[
        ("flash", drained.flash.clone()),
        ("files", drained.files.join(", ")),
        (
            "written",
            format!(
                "{} pages, {}, in {:.2} s",
                drained.pages_written,
                Size(drained.bytes_written),
                drained.seconds
            ),
        ),
        ("state", "drained: the files are current without the tier".to_owned()),
    ]))
}

/// Lets SQLite roll back or apply what its logs hold, through the tier, so that the file is complete without
/// them. A database that SQLite does not take for one, after a page of it was given up, is attached by that
/// all the same, and where no log holds anything there is nothing more to do.
fn finish_logs(path: &Path) -> Result<(), Failure> {
    let finish = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = Connection::open_with_flags_and_vfs(path, flags, VFS)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)
    };
    let malformed = [ErrorCode::NotADatabase, ErrorCode::DatabaseCorrupt].map(Some);
    match finish() {
        Err(error)
            if malformed.contains(&error.sqlite_error_code())
                && mezzanine_sqlite::unfinished_logs(path).is_empty() =>
        {
            Ok(())
        }
        done => done.map_err(|error| {
            let reason = mezzanine_sqlite::last_error().unwrap_or_else(|| chain(&error));
            Failure::refused(path.display(), format!("cannot be opened through the tier: {reason}"))
        }),
    }
}

fn check_logs(args: &DrainArgs) -> Result<(), Failure> {
    for path in &args.files {
        if let Some(log) = mezzanine_sqlite::unfinished_logs(path).first() {
            return Err(Failure::refused(
                path.display(),
                format!("{} still holds transactions", log.display()),
            )
            .next("open the database once through the tier and close it, then drain again"));
        }
    }
    Ok(())
}
