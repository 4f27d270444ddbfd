//! `mezz pg bench`: TPC-C in PostgreSQL with and without the tier, on modelled devices.
//!
//! The database is loaded once, by a server without any of it; each run gets a copy. The clients are threads
//! of this process, the server is a server: its processes are killed as a crash would end them.

mod args;
mod counts;
mod measure;
mod overhead;
mod result;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mezzanine_device::Model;
use mezzanine_report::{Machine, duration, now_utc, percent};
use mezzanine_workload::{Scale, load};

pub(crate) use args::{BenchArgs, EXAMPLES};
use args::{NONE, Run};
use result::{BenchResult, Row};
use server::{Server, database_failure, execute};

use super::build;
use super::settings::Settings;
use super::user::ServerUser;
use crate::benchmark::{Workspace, leave_to_handler};
use crate::device::find_model;
use crate::failure::Failure;
use crate::output;
use crate::size::Size;

/// PostgreSQL's pages.
const PAGE_BYTES: u64 = 8192;
/// Shared buffers as a share of the database: 200 MB of 57 GB, as in the FaCE paper.
const SHARED_BUFFERS_SHARE: f64 = 0.0035;
/// Each client may have several pages pinned at once.
const BUFFERS_PER_CLIENT_MIN: u64 = 8;
/// Most bytes of a warehouse with its indexes, and what is beside them.
const WAREHOUSE_BYTES_MOST: u64 = 125_000_000;
const CATALOG_BYTES: u64 = 60_000_000;
/// Room for the log.
const LOG_BYTES: u64 = 3_000_000_000;
const LOG_BYTES_TINY: u64 = 200_000_000;
/// Where files take no time of their own, if it has room.
const MEMORY: &str = "/dev/shm";

/// A benchmark under way.
pub(super) struct Bench<'a> {
    args: &'a BenchArgs,
    postgres: PathBuf,
    user: ServerUser,
    workspace: Workspace,
    disk: Option<Model>,
    flash: Option<Model>,
    /// Size of the loaded database; 0 before it is loaded.
    database_bytes: u64,
    load_seconds: f64,
    /// Found by the first run, if it was not given.
    time_scale: Option<f64>,
    /// Found by the first run with a tier.
    warm_up_transactions: Option<u64>,
}

/// Runs the benchmark and prints its result.
pub(crate) fn run(args: &BenchArgs, json: bool) -> Result<(), Failure> {
    run_to_end(args, json).inspect_err(|_| leave_to_handler(Duration::ZERO))
}

fn run_to_end(args: &BenchArgs, json: bool) -> Result<(), Failure> {
    let mut bench = Bench::new(args)?;
    if args.overhead {
        return overhead::run(&mut bench, json);
    }
    let loaded = bench.load()?;
    let mut rows = Vec::new();
    for kind in bench.order() {
        rows.push(bench.measure(&loaded, kind)?);
    }
    rows.sort_by_key(|row| Run::ALL.iter().position(|run| run.name() == row.run));
    let result = bench.result(rows);
    if json {
        output::json(&result)?;
    } else {
        output::print(&result.text())?;
    }
    for warning in result.warnings() {
        output::note(&format!("warning: {warning}"));
    }
    verdict(&result, args.seed)
}

fn verdict(result: &BenchResult, seed: u64) -> Result<(), Failure> {
    let Some(row) = result.rows.iter().find(|row| !row.consistent) else { return Ok(()) };
    Err(Failure::check(format!("bench, run {}", row.run), row.violations.join("; "))
        .next(format!("repeat with --seed {seed} --keep and look at the database")))
}

impl<'a> Bench<'a> {
    fn new(args: &'a BenchArgs) -> Result<Bench<'a>, Failure> {
        let (disk, flash) = (model(&args.disk_model)?, model(&args.flash_model)?);
        let postgres = match &args.postgres {
            Some(path) => std::path::absolute(path).map_err(|e| Failure::refused(path.display(), e))?,
            None => build::default_build()?.prefix,
        };
        if !postgres.join("bin/postgres").exists() {
            return Err(Failure::refused(postgres.display(), "there is no bin/postgres")
                .next("`mezz pg build` builds the server and says where; name it with --postgres"));
        }
        let space = space_needed(args);
        let parent = place(args, space);
        let user = ServerUser::find(args.user.as_deref(), &parent)?;
        output::note(&format!(
            "TPC-C with {} warehouses in {}: needs up to {} there",
            args.warehouses,
            parent.display(),
            Size(space)
        ));
        let workspace = workspace(&parent, args.keep, space, &user)?;
        Ok(Bench {
            args,
            postgres,
            user,
            workspace,
            database_bytes: 0,
            load_seconds: 0.0,
            // What takes its own time cannot be slowed down.
            time_scale: if disk.is_none() || flash.is_none() { Some(1.0) } else { args.time_scale },
            disk,
            flash,
            warm_up_transactions: None,
        })
    }

    /// The run that keeps the processor busiest comes first, because it decides the time scale; those with a
    /// tier before the disks, because they decide how long all of them warm up.
    fn order(&self) -> Vec<Run> {
        let order = [Run::Flash, Run::Durable, Run::Drained, Run::Through, Run::Disk];
        let possible = order.into_iter().filter(|run| *run != Run::Flash || self.flash.is_some());
        possible.filter(|run| self.args.runs.is_empty() || self.args.runs.contains(run)).collect()
    }

    fn server(&self, name: &str) -> Result<Server, Failure> {
        Server::new(self.workspace.path.join(name), &self.postgres, &self.user)
    }

    fn scale(&self) -> Scale {
        let warehouses = self.args.warehouses;
        if self.args.tiny { Scale::tiny(warehouses) } else { Scale::standard(warehouses) }
    }

    /// A server with a loaded database, stopped.
    fn load(&mut self) -> Result<Server, Failure> {
        let mut server = self.server("loaded")?;
        server.initdb()?;
        let mut settings = common(server.directory.as_path(), self.args);
        settings.text("shared_buffers", "256MB");
        settings.text("maintenance_work_mem", "128MB");
        settings.text("fsync", "off");
        settings.text("shared_preload_libraries", "mezzanine");
        server.configure(&settings)?;
        server.start()?;
        let database = server.database(2)?;
        let bar = output::progress(1000, &format!("loading {} warehouses", self.args.warehouses));
        let told = Mutex::new(Instant::now());
        let report = load(&database, self.scale(), self.args.seed, &|p| {
            let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if told.elapsed() > Duration::from_millis(100) {
                *told = Instant::now();
                bar.set_position(p.rows * 1000 / p.rows_expected.max(1));
            }
        })
        .map_err(|e| database_failure(&e))?;
        bar.finish_and_clear();
        let mut admin =
            mezzanine_workload::Database::open_session(&database).map_err(|e| database_failure(&e))?;
        execute(admin.as_mut(), "CREATE EXTENSION mezzanine")?;
        drop(admin);
        server.stop()?;
        self.database_bytes = report.database_bytes;
        self.load_seconds = report.elapsed.as_secs_f64();
        // The overhead is measured with shared buffers that hold everything.
        let sizes = match self.args.overhead {
            true => String::new(),
            false => format!(
                "; shared buffers {}, flash {}",
                Size(self.shared_buffers()),
                Size(self.flash_bytes())
            ),
        };
        output::note(&format!(
            "loaded {} warehouses in {:.0} s: {}{sizes}",
            self.args.warehouses,
            self.load_seconds,
            Size(self.database_bytes),
        ));
        Ok(server)
    }

    fn shared_buffers(&self) -> u64 {
        let least = u64::from(self.args.clients) * BUFFERS_PER_CLIENT_MIN * PAGE_BYTES;
        let share = (self.database_bytes as f64 * SHARED_BUFFERS_SHARE) as u64;
        self.args.shared_buffers.map_or(share.max(least), |size| size.0)
    }

    fn flash_bytes(&self) -> u64 {
        // The setting's unit.
        ((self.database_bytes as f64 * self.args.flash_share) as u64).next_multiple_of(1 << 20)
    }

    /// The log's time in the unit of commit_delay, which sleeps before each flush of the log.
    fn commit_delay(&self, scale: f64) -> u32 {
        (f64::from(self.args.log_flush_us) * scale).min(100_000.0) as u32
    }

    /// Writes the settings of a run whose modelled devices begin at this time scale.
    fn configure(&self, server: &Server, kind: Run, scale: f64) -> Result<(), Failure> {
        let mut settings = common(server.directory.as_path(), self.args);
        settings.kibibytes("shared_buffers", self.shared_buffers());
        settings.text("shared_preload_libraries", "mezzanine");
        settings.number("commit_delay", self.commit_delay(scale));
        settings.number("commit_siblings", 0);
        settings.number("mezzanine.model_time_scale", scale);
        let model = if kind == Run::Flash { &self.flash } else { &self.disk };
        let name = if kind == Run::Flash { &self.args.flash_model } else { &self.args.disk_model };
        if let Some(model) = model {
            settings.text("mezzanine.disk_model", &absolute_model(name)?);
            let capacity = model.capacity_bytes.max(self.database_bytes);
            let full = self.args.full_size.0.clamp(self.database_bytes, capacity);
            settings.number("mezzanine.disk_span", (full as f64 / model.capacity_bytes as f64).min(1.0));
            settings.number("mezzanine.disk_spread", full as f64 / self.database_bytes as f64);
        }
        if let Some(mode) = kind.sync_mode() {
            let path = self.flash_path(server)?;
            let path = path.to_str().ok_or_else(|| Failure::usage("--directory", "the path is not UTF-8"))?;
            settings.text("mezzanine.flash_path", path);
            settings.mebibytes("mezzanine.flash_size", self.flash_bytes());
            settings.text("mezzanine.sync_mode", mode);
            if self.flash.is_some() {
                settings.text("mezzanine.flash_model", &absolute_model(&self.args.flash_model)?);
            }
        }
        server.configure(&settings)
    }

    /// Where the tier lies in this run. A device that is given is shared by all runs, one after the other.
    fn flash_path(&self, server: &Server) -> Result<PathBuf, Failure> {
        match &self.args.flash {
            None => Ok(server.flash()),
            Some(path) => std::path::absolute(path).map_err(|e| Failure::refused(path.display(), e)),
        }
    }

    /// A device that is given may hold the tier of the run before.
    fn clear_flash(&self) -> Result<(), Failure> {
        let Some(path) = &self.args.flash else { return Ok(()) };
        let failed = |e: std::io::Error| Failure::refused(path.display(), format!("the tier's device: {e}"));
        let file =
            std::fs::File::options().write(true).create(true).truncate(false).open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() {
            file.set_len(0).map_err(failed)?;
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .map_err(failed)?;
        }
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 1 << 16], 0).map_err(failed)?;
        self.user.give(path)
    }

    fn measure(&mut self, loaded: &Server, kind: Run) -> Result<Row, Failure> {
        let bar = output::spinner(&format!("{}: warming up, measuring, killing, checking", kind.name()));
        let mut server = self.server(kind.name())?;
        server.copy_data(loaded)?;
        if kind.sync_mode().is_some() {
            self.clear_flash()?;
        }
        self.configure(&server, kind, 0.0)?;
        server.start()?;
        let row = measure::measure(self, &mut server, kind)?;
        bar.finish_and_clear();
        output::note(&format!(
            "{:<8} {:>8.0} new orders/min   restart {:>8}   processor {}   {}",
            row.run,
            row.new_orders_per_minute,
            duration(row.restart_seconds),
            percent(row.cpu_busy, 0),
            if row.consistent { "consistent" } else { "NOT CONSISTENT" }
        ));
        if !self.args.keep {
            server.remove();
        }
        Ok(row)
    }

    /// The time scale is known: the processor was this busy at it.
    fn calibrated(&mut self, scale: f64, busy: f64) {
        output::note(&format!("time scale {scale}: the processor is {} busy", percent(busy, 0)));
        self.time_scale = Some(scale);
    }

    fn result(&self, rows: Vec<Row>) -> BenchResult {
        let most = |value: fn(&Row) -> f64| rows.iter().map(value).fold(0.0, f64::max);
        let args = self.args;
        BenchResult {
            time_scale: self.time_scale.unwrap_or(1.0),
            cpu_busy: most(|row| row.cpu_busy),
            machine_busy: most(|row| row.machine_busy),
            date: now_utc(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings: result::Settings {
                seed: args.seed,
                warehouses: args.warehouses,
                standard_scale: self.scale().is_standard(),
                clients: args.clients,
                seconds: args.seconds,
                restart_after: args.restart_after,
                database_bytes: self.database_bytes,
                load_seconds: self.load_seconds,
                shared_buffers_bytes: self.shared_buffers(),
                flash_bytes: self.flash_bytes(),
                disk_model: args.disk_model.clone(),
                disk_description: title(self.disk.as_ref()),
                flash_model: args.flash_model.clone(),
                flash_description: title(self.flash.as_ref()),
                full_size_bytes: args.full_size.0,
                log: format!("a device that makes a write durable in {} us", args.log_flush_us),
                checkpoints: args.checkpoint_timeout.map_or_else(
                    || "none while it is measured".to_owned(),
                    |seconds| format!("every {seconds} s of real time"),
                ),
                isolation: "read committed".to_owned(),
                files: file_system(&self.workspace.path),
                server: self.postgres.display().to_string(),
            },
            machine: Machine::this(),
            rows,
        }
    }
}

/// Settings of every server of the benchmark.
fn common(directory: &Path, args: &BenchArgs) -> Settings {
    let mut settings = Settings::default();
    settings.text("listen_addresses", "");
    settings.text("unix_socket_directories", &directory.to_string_lossy());
    settings.number("max_connections", args.clients + 10);
    // What is measured is transactions, and none of them would wait for these.
    settings.text("autovacuum", "off");
    settings.text("wal_level", "minimal");
    settings.number("max_wal_senders", 0);
    settings.text("wal_buffers", "16MB");
    settings.text("max_wal_size", if args.tiny { "128MB" } else { "2GB" });
    settings.text("min_wal_size", if args.tiny { "32MB" } else { "1GB" });
    settings.number("checkpoint_timeout", args.checkpoint_timeout.unwrap_or(86_400));
    settings.text("log_checkpoints", "on");
    // The models know nothing of read-ahead by the kernel.
    settings.text("recovery_prefetch", "off");
    settings.text("jit", "off");
    // In the data directory, where nothing of it outlives the benchmark.
    settings.text("dynamic_shared_memory_type", "mmap");
    // New-Orders that take the same items in another order wait for each other; the drivers take
    // milliseconds, not a second.
    settings.text("deadlock_timeout", "100ms");
    settings
}

fn model(name: &str) -> Result<Option<Model>, Failure> {
    if name == NONE { Ok(None) } else { find_model(name).map(Some) }
}

fn title(model: Option<&Model>) -> String {
    model.map_or_else(|| "the machine's own device".to_owned(), |model| model.title.clone())
}

fn absolute_model(name: &str) -> Result<String, Failure> {
    if !name.contains('/') {
        return Ok(name.to_owned());
    }
    let path = std::path::absolute(name).map_err(|e| Failure::refused(name, e))?;
    path.to_str().map(str::to_owned).ok_or_else(|| Failure::usage(name, "the path is not UTF-8"))
}

/// Most bytes on disk at one time: the loaded database and a copy that grows, flash, logs.
fn space_needed(args: &BenchArgs) -> u64 {
    let (warehouse, log) =
        if args.tiny { (2_000_000, LOG_BYTES_TINY) } else { (WAREHOUSE_BYTES_MOST, LOG_BYTES) };
    let database = u64::from(args.warehouses) * warehouse + CATALOG_BYTES;
    let copies = if args.keep { 6.0 } else { 2.3 };
    (database as f64 * (copies + args.flash_share)) as u64 + log
}

/// The directory that is asked for, or memory if there is plenty, or the system's temporary directory.
fn place(args: &BenchArgs, space: u64) -> PathBuf {
    let roomy = |path: &Path| {
        let memory = crate::machine::memory_available().unwrap_or(0);
        free(path).is_some_and(|bytes| bytes.min(memory) / 10 * 6 > space)
    };
    match &args.directory {
        Some(directory) => directory.clone(),
        None if roomy(Path::new(MEMORY)) => PathBuf::from(MEMORY),
        None => std::env::temp_dir(),
    }
}

fn free(path: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The directory of the benchmark, which has to have room and be open to the server's user.
fn workspace(parent: &Path, keep: bool, space: u64, user: &ServerUser) -> Result<Workspace, Failure> {
    std::fs::create_dir_all(parent).map_err(|e| Failure::refused(parent.display(), e))?;
    if let Some(bytes) = free(parent).filter(|bytes| *bytes < space) {
        return Err(Failure::refused(
            parent.display(),
            format!("{} are free, and up to {} are needed", Size(bytes), Size(space)),
        )
        .next("choose another place with --directory, or fewer --warehouses"));
    }
    let workspace = Workspace::create(parent, "mezz-pg", keep)?;
    user.give(&workspace.path)?;
    if user.may("-w", &workspace.path) {
        return Ok(workspace);
    }
    Err(Failure::refused(workspace.path.display(), format!("the user {} cannot get to it", user.name))
        .next("open the directories on the way to it, or choose another --directory"))
}

/// Where the files lie, for the result.
fn file_system(path: &Path) -> String {
    if path.starts_with(MEMORY) { "in memory".to_owned() } else { format!("in {}", path.display()) }
}
