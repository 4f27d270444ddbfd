//! `mezz tier drain`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mezzanine_device::{Device, FileDevice, OpenOptions};
use mezzanine_engine::format::{ClusterName, Superblock};
use mezzanine_sqlite::MezzanineVfs;
use mezzanine_volume::{AttachOptions, PathSidecar, Volume, VolumeConfig, VolumeError, VolumeErrorKind};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::open::{Flash, open_failure};
use crate::failure::{Failure, chain};
use crate::output::{self, facts};
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
    let tier = {
        // Looked at first and closed again, so that what cannot be opened is refused before anything is touched.
        let mut flash = Flash::open(&args.flash)?;
        let superblock = flash.superblock()?;
        flash.geometry(&superblock)?;
        refuse_cluster(args, &superblock)?;
        superblock.config
    };
    for path in &args.files {
        if !path.exists() {
            return Err(Failure::refused(path.display(), "it does not exist")
                .next("name the files that use this tier"));
        }
    }
    let started = std::time::Instant::now();
    let options = OpenOptions { exclusive_lock: true, no_follow: true, ..OpenOptions::read_write() };
    let device =
        FileDevice::open(&args.flash, &options).map_err(|error| open_failure(&args.flash, &error))?;
    let config = VolumeConfig { to_drain: true, ..VolumeConfig::new(tier.clone()) };
    let volume = Volume::open(Arc::new(device), config).map_err(|error| failure(args, &error))?;
    let volume = Arc::new(volume);
    let vfs = MezzanineVfs::builder(VFS)
        .volume(Arc::clone(&volume), &args.flash.display().to_string(), &tier)
        .register()
        .map_err(|error| Failure::refused(args.flash.display(), chain(&error)))?;
    for path in &args.files {
        if is_sqlite(path) {
            finish_logs(path)?;
        } else {
            attach(args, &volume, path)?;
        }
    }
    let bar = output::spinner("writing the tier's pages to their files");
    vfs.close_drained().map_err(|error| Failure::refused(args.flash.display(), chain(&error)))?;
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

/// What a PostgreSQL server that was killed lacks on disk is partly in its log, which only the server can redo.
fn refuse_cluster(args: &DrainArgs, superblock: &Superblock) -> Result<(), Failure> {
    let Some(cluster) = ClusterName::of(&superblock.database_uuid) else { return Ok(()) };
    Err(Failure::refused(
        args.flash.display(),
        format!("it is the tier of the PostgreSQL cluster {}, whose pages may need its log", cluster.system_identifier),
    )
    .next("nothing was changed; `mezz pg drain --pgdata DIR` completes the files of that cluster, also if its server is dead"))
}

/// Whether a file is a SQLite database, current or guarded, by its header and the place of its logs.
fn is_sqlite(path: &Path) -> bool {
    let mut header = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let mut logs = path.as_os_str().to_owned();
    logs.push("-wal");
    (read.is_ok() && &header == b"SQLite format 3\0") || Path::new(&logs).is_dir()
}

/// Lets SQLite roll back or apply what its logs hold, through the tier, so that the file is complete without them.
fn finish_logs(path: &Path) -> Result<(), Failure> {
    let failed = |error: rusqlite::Error| {
        let reason = mezzanine_sqlite::last_error().unwrap_or_else(|| chain(&error));
        Failure::refused(path.display(), format!("cannot be opened through the tier: {reason}"))
    };
    let connection =
        Connection::open_with_flags_and_vfs(path, OpenFlags::SQLITE_OPEN_READ_WRITE, VFS).map_err(failed)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(failed)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))
}

/// A file of any other kind: its pages are all that there is.
fn attach(args: &DrainArgs, volume: &Volume, path: &Path) -> Result<(), Failure> {
    let backing = FileDevice::open(path, &OpenOptions { exclusive_lock: true, ..OpenOptions::read_write() })
        .map_err(|error| open_failure(path, &error))?;
    let backing: Arc<dyn Device> = Arc::new(backing);
    let sidecar = Arc::new(PathSidecar::beside(path));
    volume
        .attach(path, backing, sidecar, AttachOptions::default())
        .map(drop)
        .map_err(|error| failure(args, &error))
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

fn failure(args: &DrainArgs, error: &VolumeError) -> Failure {
    let failure = Failure::refused(args.flash.display(), chain(error));
    match error.kind() {
        VolumeErrorKind::FileNotAttached => failure.next("name every file that uses this tier"),
        VolumeErrorKind::LostPage => failure.next("`mezz tier verify` lists the damaged pages"),
        _ => failure,
    }
}
