//! What is simulated.

use super::super::setup::Refusal;
use super::source::BlockLoad;
use super::station::{BlockDevice, Stalls};
use mezzanine_engine::{Design, Geometry, SyncMode, TierConfig};
use mezzanine_fragment::{Admission, Config, Stage, Throttle};

/// What stands between the clients and the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCache {
    /// Nothing: everything is on the backing device.
    Nothing,
    /// Nothing: everything is on the cache device.
    AllFlash,
    /// The fragment cache, SCE.
    Sce(SceSetup),
    /// The page engine, as a volume hosts it.
    Pages {
        /// Sync mode `durable`, which writes back; otherwise `through`.
        is_durable: bool,
    },
    /// flashcache.
    Flashcache(Order, Writes),
    /// EnhanceIO.
    EnhanceIo(Writes),
    /// bcache.
    Bcache(Writes),
    /// dm-cache with the policy smq, write-through.
    DmCache,
}

impl BlockCache {
    /// What the command calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::AllFlash => "all-flash",
            Self::Sce(_) => "sce",
            Self::Pages { is_durable: false } => "page-through",
            Self::Pages { is_durable: true } => "page-durable",
            Self::Flashcache(Order::Fifo, Writes::Through) => "flashcache-fifo",
            Self::Flashcache(Order::Fifo, Writes::Back) => "flashcache-fifo-back",
            Self::Flashcache(Order::Lru, Writes::Through) => "flashcache-lru",
            Self::Flashcache(Order::Lru, Writes::Back) => "flashcache-lru-back",
            Self::EnhanceIo(Writes::Through) => "enhanceio",
            Self::EnhanceIo(Writes::Back) => "enhanceio-back",
            Self::Bcache(Writes::Through) => "bcache",
            Self::Bcache(Writes::Back) => "bcache-back",
            Self::DmCache => "dm-cache",
        }
    }

    /// All of them, with their defaults.
    pub const ALL: [Self; 14] = [
        Self::Nothing,
        Self::AllFlash,
        Self::Sce(SceSetup::PUBLISHED),
        Self::Pages { is_durable: false },
        Self::Pages { is_durable: true },
        Self::Flashcache(Order::Fifo, Writes::Through),
        Self::Flashcache(Order::Fifo, Writes::Back),
        Self::Flashcache(Order::Lru, Writes::Through),
        Self::Flashcache(Order::Lru, Writes::Back),
        Self::EnhanceIo(Writes::Through),
        Self::EnhanceIo(Writes::Back),
        Self::Bcache(Writes::Through),
        Self::Bcache(Writes::Back),
        Self::DmCache,
    ];
}

/// In which order blocks of a set leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First in, first out.
    Fifo,
    /// The least recently used one first.
    Lru,
}

/// Where a rival writes what clients write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// To both devices.
    Through,
    /// To the cache device, and later from there to the backing device.
    Back,
}

/// What can be set of the fragment cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SceSetup {
    /// Bytes of a fragment.
    pub fragment_bytes: u64,
    /// Whether writes follow to the cache device, or make holes.
    pub writes_through: bool,
    /// How fast it fills.
    pub throttle: [Stage; 3],
    /// Bytes that may be written to the cache device in a day; 0: no limit.
    pub write_budget: u64,
    /// Above what smoothed time of its reads, in microseconds, population and copies yield; 0: never.
    pub yield_us: u64,
    /// Which misses make a fragment a candidate.
    pub admission: Admission,
    /// After so many seconds the cache has so many bytes for fragments, at most those that it begins with.
    pub resize: Option<(u32, u64)>,
}

impl SceSetup {
    /// The paper's, with the periods of the first two stages that decision 32 has chosen.
    pub const PUBLISHED: Self = Self {
        fragment_bytes: 1 << 20,
        writes_through: true,
        throttle: [
            Stage { workers: 8, miss_percent: 35, free_percent: 10, period_ms: 100 },
            Stage { workers: 4, miss_percent: 15, free_percent: 0, period_ms: 100 },
            Stage { workers: 1, miss_percent: 0, free_percent: 0, period_ms: 500 },
        ],
        write_budget: 0,
        yield_us: 0,
        admission: Admission { reads: 1, writes: 0 },
        resize: None,
    };

    /// The paper's, but that four workers go on until 2 % of the reads miss, and the last rests for a fifth
    /// as long: a volume of hundreds of operations a second is a hundred times slower than the cache device,
    /// so that each per cent of misses is most of the time that clients wait.
    pub const WARM_UP: Self = Self {
        throttle: [
            Stage { workers: 8, miss_percent: 35, free_percent: 10, period_ms: 100 },
            Stage { workers: 4, miss_percent: 2, free_percent: 0, period_ms: 100 },
            Stage { workers: 1, miss_percent: 0, free_percent: 0, period_ms: 100 },
        ],
        ..Self::PUBLISHED
    };
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSetup {
    /// What stands between.
    pub cache: BlockCache,
    /// Bytes of the volume.
    pub volume_bytes: u64,
    /// Bytes of the cache device that the cache has.
    pub cache_bytes: u64,
    /// The slow device.
    pub backing: BlockDevice,
    /// The fast one.
    pub cache_device: BlockDevice,
    /// When the cache device stands still, if it does.
    pub cache_stalls: Option<Stalls>,
    /// What is asked for.
    pub load: BlockLoad,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Share of writes among the requests, from 0 to 1.
    pub write_share: f64,
    /// Clients, each of which has one request under way.
    pub clients: u32,
    /// Requests of a transaction; a fraction is a mean.
    pub transaction_requests: f64,
    /// Work of the processor for a transaction, before its first request, in microseconds, and cores.
    pub cpu_us: f64,
    /// Cores that do it.
    pub cores: u32,
    /// Jobs in the background at a time.
    pub workers: u32,
    /// Simulated seconds.
    pub seconds: f64,
    /// Of an interval of the series.
    pub interval_seconds: f64,
    /// Where the randomness begins.
    pub seed: u64,
}

impl Default for BlockSetup {
    /// The race: a slow volume of 128 MiB under Zipf's law, behind a cache with room for all of it.
    fn default() -> Self {
        Self {
            cache: BlockCache::Sce(SceSetup::PUBLISHED),
            volume_bytes: 128 << 20,
            cache_bytes: 256 << 20,
            backing: BlockDevice::Flat { latency_us: 2500.0, depth: 1, mb_per_s: Some(150.0) },
            cache_device: BlockDevice::Flat { latency_us: 80.0, depth: 32, mb_per_s: None },
            cache_stalls: None,
            load: BlockLoad::Zipf { exponent: 0.9 },
            request_bytes: 8192,
            write_share: 0.0,
            clients: 8,
            transaction_requests: 1.0,
            cpu_us: 0.0,
            cores: 1,
            workers: 32,
            seconds: 60.0,
            interval_seconds: 10.0,
            seed: 1,
        }
    }
}

/// Bytes of a block, of which requests are made.
pub(super) const BLOCK_BYTES: u64 = 4096;

impl BlockSetup {
    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the parameter that cannot be used.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let range = |parameter, value: f64, low: f64, high: f64| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let nearest = if value < low || value.is_nan() { low } else { high };
            let reason = format!("{value} is not between {low} and {high}");
            Err(Refusal::new(parameter, reason, format!("use {nearest}")))
        };
        range("write_share", self.write_share, 0.0, 1.0)?;
        range("clients", self.clients.into(), 1.0, 10_000.0)?;
        range("transaction_requests", self.transaction_requests, 1.0, 1e6)?;
        range("cpu_us", self.cpu_us, 0.0, 1e9)?;
        range("cores", self.cores.into(), 1.0, 4096.0)?;
        range("workers", self.workers.into(), 1.0, 4096.0)?;
        range("seconds", self.seconds, 1e-3, 1e9)?;
        range("interval_seconds", self.interval_seconds, 1e-3, 1e9)?;
        range("request_bytes", self.request_bytes as f64, BLOCK_BYTES as f64, (1 << 20) as f64)?;
        let whole = |parameter, value: u64| {
            if value > 0 && value % BLOCK_BYTES == 0 {
                return Ok(());
            }
            let reason = format!("{value} is not a number of blocks of {BLOCK_BYTES} bytes");
            let nearest = (value / BLOCK_BYTES).max(1) * BLOCK_BYTES;
            Err(Refusal::new(parameter, reason, format!("use {nearest}")))
        };
        whole("request_bytes", self.request_bytes)?;
        whole("volume_bytes", self.volume_bytes)?;
        whole("cache_bytes", self.cache_bytes)?;
        for (parameter, device) in [("backing", &self.backing), ("cache_device", &self.cache_device)] {
            let &BlockDevice::Flat { latency_us, depth, mb_per_s } = device else { continue };
            range(parameter, latency_us, 0.0, 1e9)?;
            range(parameter, depth.into(), 1.0, 65_536.0)?;
            range(parameter, mb_per_s.unwrap_or(1.0), 1e-3, 1e9)?;
        }
        if let Some(stalls) = self.cache_stalls {
            range("cache_stalls", stalls.every_seconds.into(), 1.0, 1e9)?;
            range("cache_stalls", stalls.lasts_ms.into(), 0.0, 1e3 * f64::from(stalls.every_seconds) - 1.0)?;
        }
        if self.volume_bytes < self.request_bytes {
            let reason = format!("a request of {} bytes does not fit into it", self.request_bytes);
            return Err(Refusal::new("volume_bytes", reason, "use a larger volume"));
        }
        let fits = |parameter, device: &BlockDevice, bytes: u64| {
            if bytes <= device.capacity() {
                return Ok(());
            }
            let reason = format!("the device has {} bytes, and {bytes} are asked of it", device.capacity());
            Err(Refusal::new(parameter, reason, "use a larger device"))
        };
        if let BlockCache::Sce(SceSetup { resize: Some((_, bytes)), fragment_bytes, .. }) = self.cache {
            range("resize", bytes as f64, fragment_bytes as f64, self.cache_bytes as f64)?;
        }
        match self.cache {
            BlockCache::Nothing => fits("backing", &self.backing, self.volume_bytes),
            BlockCache::AllFlash => fits("cache_device", &self.cache_device, self.volume_bytes),
            _ => {
                fits("backing", &self.backing, self.volume_bytes)?;
                fits("cache_device", &self.cache_device, self.cache_bytes)
            }
        }
    }

    /// Bytes of memory that the simulation takes at most, whatever stands between.
    pub fn memory_bytes(&self) -> u64 {
        // Numbers, links and states of blocks; fragments have less, and buffers of 64 MiB at most beside.
        // The page engine has an entry for each page on flash, and its place in what is kept of that.
        let per_block = if matches!(self.cache, BlockCache::Pages { .. }) { 120 } else { 20 };
        let blocks = self.volume_bytes / BLOCK_BYTES * 4 + self.cache_bytes / BLOCK_BYTES * per_block;
        blocks + (96 << 20)
    }

    /// The tier of the page engine in this run: pages as large as requests, of 32 KiB at most, so that every
    /// request is whole pages.
    ///
    /// # Errors
    /// If the cache device is too small for it.
    pub(super) fn page_geometry(&self, is_durable: bool) -> Result<Geometry, Refusal> {
        let page = 1 << self.request_bytes.trailing_zeros().min(15);
        let sync_mode = if is_durable { SyncMode::Durable } else { SyncMode::Through };
        let least = TierConfig::flash_bytes_min(page).unwrap_or_default();
        if self.cache_bytes < least {
            let reason =
                format!("{} bytes have no room for a tier of pages of {page} bytes", self.cache_bytes);
            return Err(Refusal::new("cache_bytes", reason, format!("use {least} bytes or more")));
        }
        let fitted = TierConfig::for_flash_bytes_of(Design::FaceGsc, page, self.cache_bytes);
        let config = TierConfig { sync_mode, ..mezzanine_volume::BlockDevice::policy(&fitted) };
        config.geometry().map_err(|error| {
            Refusal::new("cache_bytes", format!("no tier can be made of it: {error}"), "use a larger one")
        })
    }

    /// The configuration of the fragment cache in this run.
    pub fn sce_config(&self, sce: &SceSetup) -> Config {
        let mut config = Config::new(self.cache_bytes, &[self.volume_bytes]);
        config.fragment_bytes = sce.fragment_bytes;
        config.throttle = Throttle { stages: sce.throttle, ..config.throttle };
        config.write_budget = sce.write_budget;
        config.yield_us = sce.yield_us;
        config.admission = sce.admission;
        if !sce.writes_through {
            config.write_mode = mezzanine_fragment::WriteMode::Around;
        }
        config
    }
}
