//! What is simulated: parameters, their checks and the sizes that follow.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mezzanine_device::{Model, Zones, model};
use mezzanine_engine::{
    Admission, ConfigError, Design, Geometry, PAGE_SIZE_MAX, PAGE_SIZE_MIN, SyncMode, TierConfig, TierZones,
};
use mezzanine_ssd::{Inside, behind_translation_layer};
use mezzanine_trace::{CLIENTS_MAX, Format, Generate, Shape};

use super::pool::{Pool, PoolPolicy};
use super::source::{Replay, Source};
use crate::hollow::Hollow;
use crate::policy::PAGES_MAX;

/// Where requests come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Workload {
    /// TPC-C with so many warehouses, 114 MB each.
    Tpcc {
        /// Warehouses.
        warehouses: u32,
    },
    /// Another stream of `mezzanine_trace`.
    Shape {
        /// Its shape.
        shape: Shape,
        /// Pages of the database.
        pages: u32,
        /// Share of writes, where the shape does not say.
        write_share: f64,
        /// Exponent of `zipf`.
        exponent: f64,
    },
    /// A trace, replayed by the clients.
    Trace {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
}

/// What lies between the buffer pool and the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Configuration {
    /// Nothing: the database is on disk.
    Disk,
    /// Nothing either, because the whole database is on flash.
    Flash,
    /// A tier of this design.
    Tier(Design),
}

impl Configuration {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Flash => "flash",
            Self::Tier(design) => design.name(),
        }
    }

    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Disk, Self::Flash].into_iter().chain(Design::ALL.iter().copied().map(Self::Tier))
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Configuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::all().find(|known| known.name() == text).ok_or_else(|| {
            let known: Vec<_> = Self::all().map(Self::name).collect();
            format!("unknown design '{text}'; known: {}", known.join(", "))
        })
    }
}

/// What making a commit durable costs. Commits that come while the log is being written share the next write.
#[derive(Debug, Clone, PartialEq)]
pub enum LogDevice {
    /// Always the same time, in microseconds: a controller with a battery, or a drive with capacitors.
    Fixed {
        /// The time.
        us: f64,
    },
    /// A device of its own. Each write appends, and is followed by a flush if the device's cache is volatile.
    Device {
        /// The device.
        model: Box<Model>,
        /// Bytes that a commit appends.
        bytes: u64,
    },
}

/// When measuring begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WarmUp {
    /// When the tier has been filled once: as many pages were appended as the queue has frames; where pages
    /// are written in place, nearly all frames have one, or no more come in. Without a tier when the pool
    /// has been replaced twice.
    Auto,
    /// When that has happened so many times: what a tier keeps of dirty pages goes on growing after it was
    /// filled once.
    Rounds(u32),
    /// After so many simulated seconds.
    Seconds(f64),
    /// After so many transactions.
    Transactions(u64),
}

/// Everything that a run depends on. [`Setup::default`] is TPC-C over `face-gsc`, the FaCE paper's smallest
/// tier with everything but devices and clients made a tenth as large: 50 warehouses, 20 MB of pool, 400 MB
/// of flash.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Where requests come from.
    pub workload: Workload,
    /// Requests of a transaction, where the workload has none.
    pub transaction_requests: u32,
    /// Clients; each has one transaction under way.
    pub clients: u32,
    /// Mean time in microseconds that a client thinks after a transaction, drawn from an exponential
    /// distribution; 0 for none.
    pub think_us: f64,
    /// Where the randomness begins.
    pub seed: u64,
    /// Bytes of a page on the devices.
    pub page_bytes: u32,
    /// What lies between the pool and the disk.
    pub configuration: Configuration,
    /// Bytes of the buffer pool.
    pub pool_bytes: u64,
    /// How the pool replaces pages.
    pub pool_policy: PoolPolicy,
    /// Frames that a background cleaner keeps free in the pool; 0 for no cleaner: whoever needs a frame
    /// makes it free.
    pub cleaner_frames: u32,
    /// Bytes of the tier, its metadata among them.
    pub flash_bytes: u64,
    /// What may enter the tier.
    pub admission: Admission,
    /// When the tier's dirty pages reach disk.
    pub sync_mode: SyncMode,
    /// The tier's configuration in place of [`Self::tier_config`]; only its page size is always the
    /// smallest.
    pub tier: Option<TierConfig>,
    /// Whether the tier may pull pages from the tail of the pool to fill its groups (`face-gsc`).
    pub pull: bool,
    /// Threads of the host that carry out the tier's jobs. Of several, one writes to flash only. With none,
    /// whoever finds staging memory full does it.
    pub workers: u32,
    /// Operations of a job that are under way at once.
    pub job_depth: u32,
    /// Whether a flush of the flash device costs what the model says; if not, nothing.
    pub flash_flushes: bool,
    /// The flash device.
    pub flash_model: Model,
    /// The disk.
    pub disk_model: Model,
    /// Share of the stroke of the disk's arms that the database lies on; `None` for what it takes of the
    /// disk's capacity.
    pub disk_span: Option<f64>,
    /// The log.
    pub log: LogDevice,
    /// Cores of the host.
    pub cores: u32,
    /// Work of a core for each request of a page, in microseconds, the transaction's other work included.
    pub cpu_us_per_request: f64,
    /// Simulated seconds from one checkpoint of the database to the next; 0 for none.
    pub checkpoint_seconds: f64,
    /// Share of this time over which a checkpoint spreads its writes, from 0 to 1.
    pub checkpoint_spread: f64,
    /// When measuring begins.
    pub warm_up: WarmUp,
    /// Simulated seconds after which measuring begins in any case.
    pub warm_up_seconds_max: f64,
    /// Simulated seconds that are measured.
    pub seconds: f64,
    /// Simulated seconds of an interval of the time series.
    pub interval_seconds: f64,
    /// Bytes of memory that the simulation may take; `None` for no limit.
    pub memory_bytes_max: Option<u64>,
}

impl Default for Setup {
    fn default() -> Self {
        let model = |name| model::find(name).expect("shipped models are valid");
        Self {
            workload: Workload::Tpcc { warehouses: 50 },
            transaction_requests: 10,
            clients: 50,
            think_us: 0.0,
            seed: 1,
            page_bytes: 4096,
            configuration: Configuration::Tier(Design::FaceGsc),
            pool_bytes: 20_000_000,
            pool_policy: PoolPolicy::Lru,
            cleaner_frames: 0,
            flash_bytes: 400_000_000,
            admission: Admission::Both,
            sync_mode: SyncMode::Durable,
            tier: None,
            pull: true,
            workers: 2,
            job_depth: 64,
            flash_flushes: true,
            flash_model: model("samsung-840-pro"),
            disk_model: model("cheetah-15k-x16"),
            disk_span: None,
            log: LogDevice::Fixed { us: 100.0 },
            cores: 12,
            cpu_us_per_request: 5.0,
            checkpoint_seconds: 0.0,
            checkpoint_spread: 0.5,
            warm_up: WarmUp::Auto,
            warm_up_seconds_max: 36_000.0,
            seconds: 30.0,
            interval_seconds: 1.0,
            memory_bytes_max: None,
        }
    }
}

/// A run that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The parameter of [`Setup`].
    pub parameter: &'static str,
    /// Why.
    pub reason: String,
    /// What to do; empty where the reason says it.
    pub advice: String,
}

impl Refusal {
    pub(super) fn new(parameter: &'static str, reason: String, advice: impl Into<String>) -> Self {
        Self { parameter, reason, advice: advice.into() }
    }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self { parameter: error.parameter, reason: error.reason, advice: error.advice }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.parameter, self.reason)?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, "; {}", self.advice) }
    }
}

impl std::error::Error for Refusal {}

/// What follows from a checked setup.
pub(super) struct Sizes {
    pub(super) pool_frames: u32,
    /// Pages of the database; of a trace those that were met, so none yet.
    pub(super) pages: u32,
    pub(super) geometry: Option<Geometry>,
    /// Bytes of memory, without what grows with the pages of a trace.
    pub(super) bytes: u64,
}

/// Bytes for each page of a trace: its number, its place and its frame.
pub(super) const TRACE_BYTES_PER_PAGE: u64 = 40 + 8 + 6;

/// Clients at work need frames for what they read and what they replace.
const FRAMES_PER_CLIENT: u64 = 2;

impl Setup {
    /// The tier's configuration as it follows from the sizes: to be changed and put into [`Self::tier`].
    pub fn tier_config(&self) -> TierConfig {
        // The engine sees its smallest pages, whatever the size on the devices.
        let flash_bytes = self.flash_bytes / u64::from(self.page_bytes.max(1)) * u64::from(PAGE_SIZE_MIN);
        let design = match self.configuration {
            Configuration::Tier(design) => design,
            Configuration::Disk | Configuration::Flash => Design::FaceGsc,
        };
        let mut config = TierConfig::for_flash_bytes_of(design, PAGE_SIZE_MIN, flash_bytes);
        config.admission = self.admission;
        config.policy.write_back = design == Design::Exadata && self.admission != Admission::Clean;
        config.sync_mode = self.sync_mode;
        config
    }

    /// Whether pages are offered to the tier when they are read from disk, and not when they leave the pool.
    pub(super) fn admits_on_entry(&self) -> bool {
        matches!(self.configuration, Configuration::Tier(design) if design.admits_on_entry())
    }

    /// Whether the tier writes pages in place.
    pub(super) fn writes_in_place(&self) -> bool {
        matches!(self.configuration, Configuration::Tier(design) if design.writes_in_place())
    }

    /// A number that differs between setups that may give different outcomes.
    pub fn fingerprint(&self) -> u64 {
        let text = format!("{:?}", Self { memory_bytes_max: None, ..self.clone() });
        // A setup without zones is what it was before there were some.
        let text = text.replace(", zones: None", "");
        // FNV-1a: stable across builds, which the standard library's hashers do not promise.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// Pages of the database; `None` of a trace, where nobody knows before it was read.
    pub fn database_pages(&self) -> Option<u64> {
        match &self.workload {
            Workload::Tpcc { warehouses } => Some(Generate::tpcc_pages(*warehouses, self.page_bytes)),
            Workload::Shape { pages, .. } => Some(u64::from(*pages)),
            Workload::Trace { .. } => None,
        }
    }

    /// Bytes of memory that the simulation takes, without what grows with the pages of a trace.
    ///
    /// # Errors
    /// Names the parameter that cannot be used.
    pub fn memory_bytes(&self) -> Result<u64, Refusal> {
        Ok(Self { memory_bytes_max: None, ..self.clone() }.sizes()?.bytes)
    }

    /// Checks the parameters and computes the sizes.
    ///
    /// # Errors
    /// Names the parameter that cannot be used.
    pub(super) fn sizes(&self) -> Result<Sizes, Refusal> {
        self.check_ranges()?;
        let pages = self.database_pages().unwrap_or(0);
        let pages = u32::try_from(pages).ok().filter(|pages| *pages <= PAGES_MAX).ok_or_else(|| {
            let reason = format!("the database has {pages} pages, more than {PAGES_MAX}");
            Refusal::new("workload", reason, "use a smaller database or larger pages")
        })?;
        let pool_frames = self.pool_bytes / u64::from(self.page_bytes);
        let least = FRAMES_PER_CLIENT * u64::from(self.clients) + 16 + u64::from(self.cleaner_frames);
        if pool_frames < least || pool_frames > u64::from(u32::MAX) / 2 {
            let reason = format!("a pool of {pool_frames} pages does not do for {} clients", self.clients);
            let bytes = least * u64::from(self.page_bytes);
            return Err(Refusal::new("pool_bytes", reason, format!("use {bytes} bytes or more")));
        }
        if self.disk_span.is_some() && self.database_pages().is_none() {
            let reason = "nobody knows before a trace is read how large its database is".to_owned();
            return Err(Refusal::new("disk_span", reason, "leave it out with a trace"));
        }
        self.check_devices(u64::from(pages) * u64::from(self.page_bytes))?;
        let geometry = match self.configuration {
            Configuration::Tier(_) => Some(self.geometry()?),
            Configuration::Disk | Configuration::Flash => None,
        };
        let mut bytes = Pool::bytes(pool_frames, pages.into());
        if let Some(geometry) = &geometry {
            bytes += geometry.region_bytes() as u64 + Hollow::bytes(geometry);
        }
        bytes += self.drive_bytes()?;
        self.check_memory(bytes)?;
        Ok(Sizes { pool_frames: pool_frames as u32, pages, geometry, bytes })
    }

    /// What the states of drives that are modelled from the inside take.
    fn drive_bytes(&self) -> Result<u64, Refusal> {
        let log = match &self.log {
            LogDevice::Fixed { .. } => None,
            LogDevice::Device { model, .. } => Some(("log", &**model)),
        };
        let drives = [("disk_model", &self.disk_model), ("flash_model", &self.flash_model)];
        let mut bytes = 0;
        for (parameter, model) in drives.into_iter().chain(log) {
            let inside = Inside::of_model(model)
                .map_err(|error| Refusal::new(parameter, error.to_string(), "mend the model"))?;
            bytes += inside.as_ref().map_or(0, Inside::state_bytes);
            let tier = parameter == "flash_model" && matches!(self.configuration, Configuration::Tier(_));
            if !tier && inside.is_some_and(|inside| inside.zones().is_some()) && self.uses(parameter) {
                let reason = format!("{} is written zone by zone, and only a tier can do that", model.name);
                return Err(Refusal::new(parameter, reason, "use another model, or a design of FaCE"));
            }
        }
        Ok(bytes)
    }

    /// Whether anything is written to the drive of this parameter.
    fn uses(&self, parameter: &str) -> bool {
        let unused = [("disk_model", Configuration::Flash), ("flash_model", Configuration::Disk)];
        !unused.contains(&(parameter, self.configuration))
    }

    /// The configuration that the tier has in the run: of [`Self::tier`] or [`Self::tier_config`], and where
    /// flash has zones with as many frames as fill some.
    pub fn tier_in_use(&self) -> TierConfig {
        let config = self.tier.clone().unwrap_or_else(|| self.tier_config());
        let config = TierConfig { page_size: PAGE_SIZE_MIN, ..config };
        let Some(zones) = self.flash_zones() else { return config };
        // The engine sees its smallest pages, whatever the size on the devices.
        let scaled = |bytes: u64| bytes / u64::from(self.page_bytes) * u64::from(PAGE_SIZE_MIN);
        let zones =
            TierZones { zone_bytes: scaled(zones.zone_len), capacity_bytes: scaled(zones.zone_capacity) };
        let frames = (zones.capacity_bytes / u64::from(PAGE_SIZE_MIN)).max(1);
        // Not more than were asked for.
        TierConfig { frames: (config.frames / frames).max(1) * frames, ..config }.on_zones(zones)
    }

    /// The same work on the same flash behind a translation layer, of a run on flash that has none: the tier
    /// has as many frames. `None` of another run.
    ///
    /// # Errors
    /// What is wrong with the model.
    pub fn behind_translation_layer(&self) -> Result<Option<Self>, Refusal> {
        let mapped = behind_translation_layer(&self.flash_model)
            .map_err(|error| Refusal::new("flash_model", error.to_string(), "mend the model"))?;
        let tier = TierConfig { zones: None, ..self.tier_in_use() };
        Ok(mapped.map(|flash_model| Self { flash_model, tier: Some(tier), ..self.clone() }))
    }

    /// The zones of the flash device, if it has some.
    fn flash_zones(&self) -> Option<Zones> {
        Inside::of_model(&self.flash_model).ok().flatten().and_then(|inside| inside.zones())
    }

    pub(super) fn check_memory(&self, bytes: u64) -> Result<(), Refusal> {
        match self.memory_bytes_max {
            Some(most) if bytes > most => {
                let reason = format!("the simulation needs {bytes} bytes, and {most} are left");
                Err(Refusal::new("memory", reason, "use a smaller database or a smaller tier"))
            }
            _ => Ok(()),
        }
    }

    fn geometry(&self) -> Result<Geometry, Refusal> {
        let config = self.tier_in_use();
        let geometry = config.geometry().map_err(|error| {
            // Without a configuration of its own the sizes follow from the flash's.
            let least = TierConfig::flash_bytes_min(PAGE_SIZE_MIN).filter(|_| self.tier.is_none());
            let least = least.map(|least| least / u64::from(PAGE_SIZE_MIN) * u64::from(self.page_bytes));
            match least {
                Some(least) if self.flash_bytes < least => {
                    let reason = format!("{} bytes are too few for a tier", self.flash_bytes);
                    Refusal::new("flash_bytes", reason, format!("use {least} bytes or more"))
                }
                _ => error.into(),
            }
        })?;
        let factor = u64::from(self.page_bytes / PAGE_SIZE_MIN);
        if let Some(zones) = self.flash_zones() {
            let (bytes, most) = (geometry.conventional_bytes() * factor, zones.conventional_len());
            let all = geometry.flash_bytes() * factor;
            // A zone that has room left would have to be finished, and no host here does so.
            if zones.active_max > 0 && zones.zone_capacity % u64::from(self.page_bytes) != 0 {
                let reason = format!(
                    "{} limits how many zones are written in part, and pages of {} bytes do not fill one of {}",
                    self.flash_model.name, self.page_bytes, zones.zone_capacity
                );
                return Err(Refusal::new(
                    "page_bytes",
                    reason,
                    "use smaller pages, or a model without max_active_zones",
                ));
            }
            if bytes > most || all > zones.zone_len * zones.count {
                let reason = format!(
                    "the tier takes {all} bytes, {bytes} of them in conventional zones, and {} has {}, {most} of \
                     them in conventional zones",
                    self.flash_model.name,
                    zones.zone_len * zones.count
                );
                return Err(Refusal::new(
                    "flash_bytes",
                    reason,
                    "use a smaller tier, or more conventional zones",
                ));
            }
        }
        Ok(geometry)
    }

    fn check_devices(&self, database_bytes: u64) -> Result<(), Refusal> {
        let fits = |parameter, model: &Model, bytes: u64, what: &str| {
            if bytes <= model.capacity_bytes {
                return Ok(());
            }
            let reason = format!("{} has {} bytes, and {what} {bytes}", model.name, model.capacity_bytes);
            Err(Refusal::new(parameter, reason, "use a larger device, or a smaller scale"))
        };
        match self.configuration {
            Configuration::Disk => fits("disk_model", &self.disk_model, database_bytes, "the database has"),
            Configuration::Flash => {
                fits("flash_model", &self.flash_model, database_bytes, "the database has")
            }
            Configuration::Tier(_) => {
                fits("disk_model", &self.disk_model, database_bytes, "the database has")?;
                fits("flash_model", &self.flash_model, self.flash_bytes, "the tier has")
            }
        }
    }

    fn check_ranges(&self) -> Result<(), Refusal> {
        let range = |parameter, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let reason = format!("{value} is not between {low} and {high}");
            let nearest = if value < low || value.is_nan() { low } else { high };
            Err(Refusal::new(parameter, reason, format!("use {nearest}")))
        };
        range("clients", self.clients.into(), 1.0, CLIENTS_MAX.into())?;
        range("think_us", self.think_us, 0.0, 1e12)?;
        range("page_bytes", self.page_bytes.into(), PAGE_SIZE_MIN.into(), PAGE_SIZE_MAX.into())?;
        if !self.page_bytes.is_power_of_two() {
            let reason = format!("{} is not a power of two", self.page_bytes);
            return Err(Refusal::new("page_bytes", reason, "use 4096, 8192, 16384 or 32768"));
        }
        range("transaction_requests", self.transaction_requests.into(), 1.0, 1e6)?;
        range("workers", self.workers.into(), 0.0, 256.0)?;
        range("job_depth", self.job_depth.into(), 1.0, 4096.0)?;
        range("cores", self.cores.into(), 1.0, 4096.0)?;
        range("cpu_us_per_request", self.cpu_us_per_request, 0.0, 1e9)?;
        range("disk_span", self.disk_span.unwrap_or(1.0), 1e-9, 1.0)?;
        range("checkpoint_seconds", self.checkpoint_seconds, 0.0, 1e9)?;
        range("checkpoint_spread", self.checkpoint_spread, 0.0, 1.0)?;
        range("seconds", self.seconds, 1e-3, 1e9)?;
        range("interval_seconds", self.interval_seconds, 1e-3, 1e9)?;
        range("warm_up_seconds_max", self.warm_up_seconds_max, 0.0, 1e9)?;
        if let WarmUp::Seconds(seconds) = self.warm_up {
            range("warm_up", seconds, 0.0, 1e9)?;
        }
        match &self.log {
            LogDevice::Fixed { us } => range("log_us", *us, 0.0, 1e9),
            LogDevice::Device { bytes, .. } => range("log_bytes", *bytes as f64, 1.0, 1e9),
        }
    }

    /// The requests.
    ///
    /// # Errors
    /// What is wrong with the workload.
    pub(super) fn source(&self, pages: u32) -> Result<Source, Refusal> {
        let shape = |shape| Generate {
            page_bytes: self.page_bytes,
            clients: self.clients,
            ..Generate::new(shape, pages, 1, self.seed)
        };
        let generate = match &self.workload {
            Workload::Trace { path, format } => {
                let replay =
                    Replay::open(path, *format, self.page_bytes, self.clients, self.transaction_requests)?;
                return Ok(Source::Trace(Box::new(replay)));
            }
            Workload::Tpcc { warehouses } => Generate { warehouses: Some(*warehouses), ..shape(Shape::Tpcc) },
            Workload::Shape { shape: named, write_share, exponent, .. } => {
                Generate { write_share: *write_share, exponent: *exponent, ..shape(*named) }
            }
        };
        let clients = generate.clients().map_err(|reason| Refusal::new("workload", reason, ""))?;
        let cut = (!generate.shape.is_benchmark()).then_some(self.transaction_requests);
        Ok(Source::generated(clients, self.clients, cut))
    }
}
