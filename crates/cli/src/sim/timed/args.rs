//! The options, and what they mean to the simulation.

use std::str::FromStr;

use clap::Args;
use mezzanine_device::model::Mechanism;
use mezzanine_device::{DeviceError, Model, model};
use mezzanine_engine::{Admission, SyncMode};
use mezzanine_sim::timed::{LogDevice, PoolPolicy, Setup, WarmUp, Workload};
use mezzanine_ssd::Condition;
use mezzanine_trace::Shape;

use crate::failure::Failure;
use crate::machine::memory_available;
use crate::sim::requests::RequestArgs;
use crate::size::Size;

/// What describes the simulated machine and what it does.
#[derive(Debug, Args)]
#[group(id = "virtual_time", multiple = true, conflicts_with = "policy_only")]
pub(crate) struct TimedArgs {
    /// What the clients do: tpcc, tpce, tpch, zipf or uniform; not with --trace (default: tpcc).
    #[arg(long, value_name = "SHAPE", conflicts_with = "trace")]
    workload: Option<Shape>,

    /// Warehouses of tpcc, 114 MB each (default: 50).
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    warehouses: Option<u32>,

    /// Pages of the database of the other workloads (default: 100,000).
    #[arg(long, value_name = "N", conflicts_with_all = ["trace", "warehouses"])]
    pages: Option<u32>,

    /// Exponent of zipf (default: 0.99).
    #[arg(long, value_name = "S")]
    exponent: Option<f64>,

    /// Share of writes in zipf and uniform, from 0 to 1 (default: 0).
    #[arg(long, value_name = "SHARE")]
    write_share: Option<f64>,

    /// Requests of a transaction where the workload has no transactions (default: 10).
    #[arg(long, value_name = "N")]
    transaction_requests: Option<u32>,

    /// Clients; each has one transaction under way (default: 50).
    #[arg(long, value_name = "N")]
    clients: Option<u32>,

    /// Mean time in ms that a client thinks after a transaction (default: 0).
    #[arg(long, value_name = "MS")]
    think_ms: Option<f64>,

    /// Where the randomness begins (default: 1).
    #[arg(long)]
    seed: Option<u64>,

    /// Size of the buffer pool (default: 20MB).
    #[arg(long, value_name = "SIZE")]
    pool: Option<Size>,

    /// How the pool replaces pages: lru, or clock as in PostgreSQL (default: lru).
    #[arg(long, value_name = "POLICY")]
    pool_policy: Option<PoolPolicy>,

    /// Frames that a background cleaner keeps free in the pool (default: 0, no cleaner).
    #[arg(long, value_name = "N")]
    cleaner_frames: Option<u32>,

    /// Size of the tier (default: 400MB).
    #[arg(long, value_name = "SIZE")]
    flash: Option<Size>,

    /// The flash device: a name of `mezz device list`, or a model file (default: samsung-840-pro).
    #[arg(long, value_name = "MODEL")]
    flash_model: Option<String>,

    /// How a flash drive that is modelled from the inside begins: fresh, filled or steady (default: as its
    /// model says).
    #[arg(long, value_name = "CONDITION")]
    flash_condition: Option<Condition>,

    /// The disk (default: cheetah-15k-x16).
    #[arg(long, value_name = "MODEL")]
    disk_model: Option<String>,

    /// Share of the stroke of the disk's arms that the database lies on (default: as much as it takes of the
    /// disk).
    #[arg(long, value_name = "SHARE")]
    disk_span: Option<f64>,

    /// Which pages enter the tier: clean, dirty or both (default: both).
    #[arg(long)]
    admission: Option<Admission>,

    /// When the tier's dirty pages reach disk: through, drained or durable (default: durable; through with
    /// the design tac, which has no other).
    #[arg(long)]
    pub(super) sync_mode: Option<SyncMode>,

    /// Share of the frames in per cent that may be newer than disk before the cleaner of lc writes the
    /// coldest (default: 50).
    #[arg(long, value_name = "PERCENT")]
    pub(super) dirty_percent: Option<u32>,

    /// The tier does not pull pages from the tail of the pool to fill its groups.
    #[arg(long)]
    no_pull: bool,

    /// Threads of the host that carry out the tier's jobs; with 0 those clients do that find no room
    /// (default: 2).
    #[arg(long, value_name = "N")]
    workers: Option<u32>,

    /// Operations of a job that are under way at once (default: 64).
    #[arg(long, value_name = "N")]
    job_depth: Option<u32>,

    /// Flushes of the flash device take no time.
    #[arg(long)]
    free_flushes: bool,

    /// Time in microseconds of a write of the log, which the commits that wait share (default: 100).
    #[arg(long, value_name = "US", conflicts_with_all = ["log_model", "log_bytes"])]
    log_us: Option<f64>,

    /// The log on a device of its own.
    #[arg(long, value_name = "MODEL")]
    log_model: Option<String>,

    /// Bytes that a commit writes to it (default: 4096).
    #[arg(long, value_name = "N", requires = "log_model")]
    log_bytes: Option<u64>,

    /// Cores of the host (default: 12).
    #[arg(long, value_name = "N")]
    cores: Option<u32>,

    /// Work of a core for each request of a page, in microseconds (default: 5).
    #[arg(long, value_name = "US")]
    cpu_us: Option<f64>,

    /// Simulated seconds between checkpoints of the database (default: 0, none).
    #[arg(long, value_name = "S")]
    checkpoint_seconds: Option<f64>,

    /// Share of that time over which a checkpoint spreads its writes (default: 0.5).
    #[arg(long, value_name = "SHARE", requires = "checkpoint_seconds")]
    checkpoint_spread: Option<f64>,

    /// Before measuring: auto (the queue on flash filled once), rounds (3x: filled three times), seconds
    /// (90s) or transactions (50000) (default: auto).
    #[arg(long, value_name = "HOW")]
    warm_up: Option<WarmUpArg>,

    /// Simulated seconds that are measured (default: 30).
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,

    /// Simulated seconds of an interval of the time series (default: 1).
    #[arg(long, value_name = "S")]
    interval_seconds: Option<f64>,

    /// Print the time series as well. With --json it is always there.
    #[arg(long)]
    pub(in crate::sim) series: bool,
}

/// `auto`, `3x`, `90s` or `50000`.
#[derive(Debug, Clone, Copy)]
struct WarmUpArg(WarmUp);

impl FromStr for WarmUpArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let advice = || {
            format!(
                "'{text}' is no warm-up; write auto, rounds as 3x, seconds as 90s or transactions as 50000"
            )
        };
        Ok(Self(match (text.strip_suffix('x'), text.strip_suffix('s')) {
            _ if text == "auto" => WarmUp::Auto,
            (Some(rounds), _) => WarmUp::Rounds(rounds.parse().map_err(|_| advice())?),
            (_, Some(seconds)) => WarmUp::Seconds(seconds.parse().map_err(|_| advice())?),
            _ => WarmUp::Transactions(text.parse().map_err(|_| advice())?),
        }))
    }
}

/// Pages of a database of which nobody says how large it is.
const PAGES: u32 = 100_000;

/// What to do if a flash model has no inside.
pub(super) const FROM_THE_INSIDE: &str =
    "leave it out, or name a flash model with a table [ssd], as durassd is";

fn find(option: &str, name: &str) -> Result<Model, Failure> {
    model::find(name).map_err(|error: DeviceError| Failure::usage(option, error))
}

impl TimedArgs {
    /// The simulation that the options describe, the design and its parameters apart.
    pub(super) fn setup(&self, requests: &RequestArgs) -> Result<Setup, Failure> {
        let usual = Setup::default();
        let model = |option, name: &Option<String>, usual: Model| match name {
            Some(name) => find(option, name),
            None => Ok(usual),
        };
        Ok(Setup {
            workload: self.workload(requests)?,
            transaction_requests: self.transaction_requests.unwrap_or(usual.transaction_requests),
            clients: self.clients.unwrap_or(usual.clients),
            think_us: self.think_ms.map_or(usual.think_us, |ms| ms * 1e3),
            seed: self.seed.unwrap_or(usual.seed),
            page_bytes: requests.page_bytes(),
            pool_bytes: self.pool.map_or(usual.pool_bytes, |size| size.0),
            pool_policy: self.pool_policy.unwrap_or(usual.pool_policy),
            cleaner_frames: self.cleaner_frames.unwrap_or(usual.cleaner_frames),
            flash_bytes: self.flash.map_or(usual.flash_bytes, |size| size.0),
            admission: self.admission.unwrap_or(usual.admission),
            sync_mode: self.sync_mode.unwrap_or(usual.sync_mode),
            pull: !self.no_pull,
            workers: self.workers.unwrap_or(usual.workers),
            job_depth: self.job_depth.unwrap_or(usual.job_depth),
            flash_flushes: !self.free_flushes,
            flash_model: self.flash_model(usual.flash_model.clone())?,
            disk_model: model("--disk-model", &self.disk_model, usual.disk_model.clone())?,
            disk_span: self.disk_span,
            log: self.log(usual.log.clone())?,
            cores: self.cores.unwrap_or(usual.cores),
            cpu_us_per_request: self.cpu_us.unwrap_or(usual.cpu_us_per_request),
            checkpoint_seconds: self.checkpoint_seconds.unwrap_or(usual.checkpoint_seconds),
            checkpoint_spread: self.checkpoint_spread.unwrap_or(usual.checkpoint_spread),
            warm_up: self.warm_up.map_or(usual.warm_up, |warm_up| warm_up.0),
            seconds: self.seconds.unwrap_or(usual.seconds),
            interval_seconds: self.interval_seconds.unwrap_or(usual.interval_seconds),
            memory_bytes_max: memory_available(),
            ..usual
        })
    }

    fn flash_model(&self, usual: Model) -> Result<Model, Failure> {
        let mut model = match &self.flash_model {
            Some(name) => find("--flash-model", name)?,
            None => usual,
        };
        if let Some(condition) = self.flash_condition {
            let Mechanism::Ssd(table) = &mut model.mechanism else {
                let why = format!("{} is known by its times alone", model.name);
                return Err(Failure::usage("--flash-condition", why).next(FROM_THE_INSIDE));
            };
            table.insert("condition".to_owned(), condition.name().into());
        }
        Ok(model)
    }

    fn workload(&self, requests: &RequestArgs) -> Result<Workload, Failure> {
        let shape = self.workload.unwrap_or(Shape::Tpcc);
        let is_trace = requests.trace().is_some();
        let useless =
            |option: &str, why: String| Failure::usage(option, why).next(format!("leave {option} out"));
        if self.exponent.is_some() && (is_trace || shape != Shape::Zipf) {
            return Err(useless("--exponent", "only zipf has an exponent".to_owned()));
        }
        if self.write_share.is_some() && (is_trace || shape.is_benchmark()) {
            let why = "only zipf and uniform do not say themselves how much they write".to_owned();
            return Err(useless("--write-share", why));
        }
        if let Some((path, format)) = requests.trace() {
            return Ok(Workload::Trace { path: path.clone(), format });
        }
        if self.warehouses.is_some() && shape != Shape::Tpcc {
            return Err(useless("--warehouses", format!("{shape} has no warehouses")));
        }
        if shape == Shape::Tpcc && self.pages.is_none() {
            return Ok(match (self.warehouses, Setup::default().workload) {
                (Some(warehouses), _) => Workload::Tpcc { warehouses },
                (None, usual) => usual,
            });
        }
        Ok(Workload::Shape {
            shape,
            pages: self.pages.unwrap_or(PAGES),
            write_share: self.write_share.unwrap_or(0.0),
            exponent: self.exponent.unwrap_or(0.99),
        })
    }

    fn log(&self, usual: LogDevice) -> Result<LogDevice, Failure> {
        Ok(match (&self.log_model, self.log_us) {
            (Some(name), _) => LogDevice::Device {
                model: Box::new(find("--log-model", name)?),
                bytes: self.log_bytes.unwrap_or(4096),
            },
            (None, Some(us)) => LogDevice::Fixed { us },
            (None, None) => usual,
        })
    }
}
