//! `mezz pg init`: a data directory with the tier's settings.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mezzanine_engine::{Design, SyncMode};
use mezzanine_report::facts;
use serde::Serialize;

use super::build;
use super::cluster::{Cluster, data_directory};
use super::making::Making;
use super::settings::{self, Settings, parse_pair};
use super::start;
use super::user::{ServerUser, WHO};
use crate::failure::{Failure, chain};
use crate::output;
use crate::size::Size;

pub(crate) const EXAMPLES: &str = "Examples:
  mezz pg init --pgdata /srv/db --flash /mnt/nvme/db.mezz --flash-size 100GiB --shared-buffers 8GiB
  mezz pg init --pgdata ./db --flash ./db.mezz --flash-size 256MiB --disk-model cheetah-15k-x8 --flash-model samsung-840-pro
  mezz pg init --pgdata ./plain --json

initdb makes the directory, with data checksums. The settings stand in mezzanine.conf, which postgresql.conf includes last; the server has the \
tier if mezzanine.flash_path is set there. Without --postgres the patched server is used, and built first if it is not there.";

/// For a new data directory and an empty tier this is ample.
const SECONDS_TO_START: u32 = 300;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The data directory to make; it must be empty or not exist [default: $PGDATA].
    #[arg(long, value_name = "DIR")]
    pgdata: Option<PathBuf>,

    /// The flash tier's file or block device, outside of the data directory. Without it there is no tier.
    #[arg(long, value_name = "PATH", requires = "flash_size")]
    flash: Option<PathBuf>,

    /// How much flash the tier uses.
    #[arg(long, value_name = "SIZE", requires = "flash")]
    flash_size: Option<Size>,

    /// through, drained or durable [default: the extension's, drained].
    #[arg(long, value_name = "MODE", requires = "flash")]
    sync_mode: Option<SyncMode>,

    /// face-gsc, face-gr or face-basic [default: the extension's, face-gsc].
    #[arg(long, value_name = "DESIGN", requires = "flash")]
    design: Option<Design>,

    /// PostgreSQL's own page cache [default: PostgreSQL's, 128 MB].
    #[arg(long, value_name = "SIZE")]
    shared_buffers: Option<Size>,

    /// For benchmarks: the model of a disk whose time relation I/O takes (see mezz device list).
    #[arg(long, value_name = "MODEL")]
    disk_model: Option<String>,

    /// For benchmarks: the model of a drive whose time the tier takes.
    #[arg(long, value_name = "MODEL", requires = "flash")]
    flash_model: Option<String>,

    /// How many times slower than real time modelled devices are.
    #[arg(long, value_name = "FACTOR")]
    time_scale: Option<f64>,

    /// The TCP port and the number in the socket's name [default: 5432].
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    /// One more setting; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,

    /// One more option for initdb, such as --locale=C; may be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    initdb: Vec<String>,

    /// Where the server is installed [default: what mezz pg build makes].
    #[arg(long, value_name = "DIR")]
    postgres: Option<PathBuf>,

    #[arg(long, value_name = "NAME", help = WHO)]
    user: Option<String>,
}

#[derive(Serialize)]
struct Made {
    pgdata: PathBuf,
    postgres: PathBuf,
    user: String,
    settings: PathBuf,
    flash: Option<PathBuf>,
}

/// Whether a server runs, or may: where that cannot be told, its lock file says so. One that was killed
/// leaves that file, too.
fn runs(cluster: &Cluster) -> bool {
    let locked = || cluster.directory.join("postmaster.pid").exists();
    cluster.running().map_or_else(|_| locked(), |running| running.is_some())
}

pub(crate) fn run(args: &InitArgs, json: bool) -> Result<(), Failure> {
    let directory = data_directory(args.pgdata.as_deref())?;
    let flash = args.flash.as_deref().map(std::path::absolute).transpose();
    let flash = flash.map_err(|e| Failure::refused("--flash", e))?;
    check(args, &directory, flash.as_deref())?;
    let user = ServerUser::find(args.user.as_deref(), &directory)?;
    let postgres = match &args.postgres {
        Some(path) => std::path::absolute(path).map_err(|e| Failure::refused(path.display(), e))?,
        None => build::default_build()?.prefix,
    };
    let cluster = Cluster { directory, postgres, user };
    cluster.check_programs()?;
    let mut making = Making::default();
    let file = match make(&cluster, args, flash.as_deref(), &mut making) {
        Ok(file) => file,
        // As long as a server runs in it, it needs it.
        Err(failure) if runs(&cluster) => return Err(failure),
        Err(failure) => return Err(making.undo(failure)),
    };
    let made = Made {
        pgdata: cluster.directory,
        postgres: cluster.postgres,
        user: cluster.user.name,
        settings: file,
        flash,
    };
    if json {
        return output::json(&made);
    }
    output::print(&facts(&[
        ("data directory", made.pgdata.display().to_string()),
        ("server", made.postgres.display().to_string()),
        ("user", made.user.clone()),
        ("settings", made.settings.display().to_string()),
        ("flash", made.flash.map_or_else(|| "none: no tier".to_owned(), |path| path.display().to_string())),
        ("next", format!("mezz pg start --pgdata {}", made.pgdata.display())),
    ]))
}

/// What can be refused before anything is made.
fn check(args: &InitArgs, directory: &Path, flash: Option<&Path>) -> Result<(), Failure> {
    let mut entries = match std::fs::read_dir(directory) {
        Ok(entries) => Some(entries),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(Failure::refused(directory.display(), e)),
    };
    if entries.as_mut().is_some_and(|entries| entries.next().is_some()) {
        return Err(
            Failure::refused(directory.display(), "it is not empty").next("name an empty or a new directory")
        );
    }
    if flash.is_some_and(|flash| flash.starts_with(directory)) {
        return Err(Failure::refused(
            "--flash",
            "the tier must not lie in the data directory: a backup would copy it",
        )
        .next("name a path outside of it, on the flash device"));
    }
    for (option, size) in [("--flash-size", args.flash_size), ("--shared-buffers", args.shared_buffers)] {
        if size.is_some_and(|size| size.0 < 1 << 20) {
            return Err(Failure::usage(option, "less than 1 MiB"));
        }
    }
    for model in [&args.disk_model, &args.flash_model].into_iter().flatten() {
        mezzanine_device::model::find(model)
            .map_err(|e| Failure::usage(format!("model {model}"), chain(&e)))?;
    }
    Ok(())
}

/// All that there is to make; the file of settings.
fn make(
    cluster: &Cluster,
    args: &InitArgs,
    flash: Option<&Path>,
    making: &mut Making,
) -> Result<PathBuf, Failure> {
    making.directory(cluster)?;
    initdb(cluster, args)?;
    if let Some(flash) = flash {
        make_flash(cluster, flash, making)?;
    }
    let file = write_settings(cluster, args, flash)?;
    cluster.write_note()?;
    if flash.is_some() {
        create_extension(cluster)?;
    }
    Ok(file)
}

fn initdb(cluster: &Cluster, args: &InitArgs) -> Result<(), Failure> {
    let mut arguments = vec!["--data-checksums", "--auth-local=peer", "--auth-host=scram-sha-256"];
    arguments.extend(args.initdb.iter().map(String::as_str));
    let bar = output::spinner("initdb");
    let done = cluster.run("initdb", &arguments);
    bar.finish_and_clear();
    let done = done?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(Failure::refused(cluster.directory.display(), format!("initdb failed:\n{said}"))
        .next("--initdb gives initdb other options"))
}

/// Sees to it that the server's user can use the flash file; the tier in it is made when the server first
/// starts.
fn make_flash(cluster: &Cluster, flash: &Path, making: &mut Making) -> Result<(), Failure> {
    match flash.metadata() {
        Ok(metadata) => {
            let kind = metadata.file_type();
            if !kind.is_file() && !kind.is_block_device() {
                return Err(Failure::refused(flash.display(), "it is neither a file nor a block device"));
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            making.file(cluster, flash)?;
        }
        Err(e) => return Err(Failure::refused(flash.display(), e)),
    }
    if cluster.user.may("-r", flash) && cluster.user.may("-w", flash) {
        return Ok(());
    }
    Err(Failure::refused(
        flash.display(),
        format!("the user {0} cannot read and write it", cluster.user.name),
    )
    .next(format!("give it to that user: chown {} {}", cluster.user.name, flash.display())))
}

/// Starts the server for a moment: the tier is made on flash, so that what is wrong with it shows now, and
/// its views in the database postgres.
fn create_extension(cluster: &Cluster) -> Result<(), Failure> {
    let server = start::bring_up(cluster, &start::default_log(cluster), SECONDS_TO_START)
        .map_err(|failure| failure.next("the server's first start makes the tier"))?;
    let done = cluster.query(&server, "CREATE EXTENSION mezzanine");
    start::bring_down(cluster, "fast", SECONDS_TO_START)?;
    done.map(drop).map_err(|said| {
        Failure::refused(cluster.directory.display(), format!("the extension cannot be created: {said}"))
            .next("use a server with the extension, as mezz pg build makes it")
    })
}

fn write_settings(cluster: &Cluster, args: &InitArgs, flash: Option<&Path>) -> Result<PathBuf, Failure> {
    let mut settings = Settings::default();
    settings.text("shared_preload_libraries", "mezzanine");
    if let Some(size) = args.shared_buffers {
        settings.kibibytes("shared_buffers", size.0);
    }
    if let Some(port) = args.port {
        settings.number("port", port);
    }
    if let (Some(flash), Some(size)) = (flash, args.flash_size) {
        let path = flash.to_str().ok_or_else(|| Failure::usage("--flash", "the path is not UTF-8"))?;
        settings.text("mezzanine.flash_path", path);
        settings.mebibytes("mezzanine.flash_size", size.0);
    }
    if let Some(mode) = args.sync_mode {
        settings.text("mezzanine.sync_mode", &mode.to_string());
    }
    if let Some(design) = args.design {
        settings.text("mezzanine.design", &design.to_string());
    }
    if let Some(model) = &args.disk_model {
        settings.text("mezzanine.disk_model", model);
    }
    if let Some(model) = &args.flash_model {
        settings.text("mezzanine.flash_model", model);
    }
    if let Some(factor) = args.time_scale {
        settings.number("mezzanine.model_time_scale", factor);
    }
    for (name, value) in &args.settings {
        settings.text(name, value);
    }
    let file = cluster.directory.join(settings::FILE);
    cluster.write_file(&file, &settings.file())?;
    let main = cluster.directory.join("postgresql.conf");
    OpenOptions::new()
        .append(true)
        .open(&main)
        .and_then(|mut open| writeln!(open, "\ninclude = '{}'", settings::FILE))
        .map_err(|e| Failure::refused(main.display(), e))?;
    Ok(file)
}
