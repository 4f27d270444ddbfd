//! What a fragment cache is configured to be, and how much of what is allowed.

use std::fmt;

pub use mezzanine_ground::config::ConfigError;

/// The unit of validity in bytes: a block (section 3.1 of the paper).
pub const BLOCK_BYTES: u64 = 4096;
/// Smallest fragment in bytes (Figure 11).
pub const FRAGMENT_BYTES_MIN: u64 = 128 << 10;
/// Largest fragment in bytes (Figure 11).
pub const FRAGMENT_BYTES_MAX: u64 = 8 << 20;
/// Most fragments of all volumes together, and of the cache: an entry of the table has 31 bits for either.
pub const FRAGMENTS_MAX: u64 = (1 << 31) - 2;
/// Most population workers (section 3.6).
pub const WORKERS_MAX: u32 = 8;
/// How far a fragment's reference counter goes (section 3.5).
pub const REFERENCES_MAX: u32 = 4;
/// How many of the fragments that were missed last are candidates for population (section 3.1).
pub const RECENT_FRAGMENTS: u32 = 100;
/// Most candidates that can be asked for: each miss looks through all of them.
pub const RECENT_FRAGMENTS_MAX: u32 = 4096;
/// Most volumes of one cache.
pub const VOLUMES_MAX: usize = 1024;
/// Most memory for copies of writes in bytes.
pub const COPY_BYTES_MAX: u64 = 1 << 30;
/// Most parts of writes whose copies can be on their way at a time.
pub const FLIGHTS_MAX: u32 = 1 << 20;

/// What becomes of a write to a fragment that is in the cache (section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Asynchronous write-through: a copy goes to the cache device, and nobody waits for it (section 3.3).
    Through,
    /// Write-around: the blocks that are written are valid no more.
    Around,
}

impl WriteMode {
    /// The name used in configuration and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Through => "through",
            Self::Around => "around",
        }
    }
}

impl fmt::Display for WriteMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for WriteMode {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        [Self::Through, Self::Around].into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let reason = format!("'{text}' is no write mode");
            ConfigError::new("write_mode", reason, "use through or around".into())
        })
    }
}

/// Which misses make a fragment a candidate for population: those of reads and of writes apart from each
/// other. They are counted while the fragment is in the list of those that were missed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// So many reads that miss it do; 0: reads do not count.
    pub reads: u32,
    /// So many writes that miss it do; 0: writes do not count.
    pub writes: u32,
}

impl Default for Admission {
    /// The first read, and no write (section 3.1 of the paper).
    fn default() -> Self {
        Self { reads: 1, writes: 0 }
    }
}

/// One stage of the throttle of population (section 3.6 and Algorithm 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Workers that populate.
    pub workers: u32,
    /// The stage ends when less than so many per cent of the reads miss.
    pub miss_percent: u32,
    /// It ends, too, when so many per cent of the cache's fragments are free, or fewer; 0: that does not end
    /// it.
    pub free_percent: u32,
    /// What a worker sleeps between two cycles, in milliseconds.
    pub period_ms: u32,
}

/// How fast the cache fills. Of the stages the first holds that has not ended; the last never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// The stages, fastest first.
    pub stages: [Stage; 3],
    /// The miss rate is that of at least so many of the last reads, and of fewer than twice as many.
    pub window_reads: u64,
}

impl Default for Throttle {
    /// The paper's. It gives no period but that of the last stage; with 100 ms eight workers bring in at most
    /// 80 fragments a second.
    fn default() -> Self {
        Self {
            stages: [
                Stage { workers: 8, miss_percent: 35, free_percent: 10, period_ms: 100 },
                Stage { workers: 4, miss_percent: 15, free_percent: 0, period_ms: 100 },
                Stage { workers: 1, miss_percent: 0, free_percent: 0, period_ms: 500 },
            ],
            window_reads: 1000,
        }
    }
}

/// The parameters of a cache. [`Config::geometry`] checks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Fragment size in bytes: a power of two from [`FRAGMENT_BYTES_MIN`] to [`FRAGMENT_BYTES_MAX`].
    pub fragment_bytes: u64,
    /// Size of the cache device in bytes.
    pub cache_bytes: u64,
    /// Where on the cache device the first fragment lies, in bytes: a multiple of [`BLOCK_BYTES`]. What lies
    /// before it is the host's.
    pub data_offset: u64,
    /// Fragments that the cache has room for at first, of those that its device has; 0 for all of them.
    /// [`Cache::resize`](crate::Cache::resize) changes it.
    pub slots_limit: u32,
    /// Size of each volume in bytes; volumes are called by their place in this list.
    pub volumes: Vec<u64>,
    /// What becomes of writes at first; [`Cache::set_write_mode`](crate::Cache::set_write_mode) changes it.
    pub write_mode: WriteMode,
    /// Workers that can populate at a time, each with a buffer of a fragment; none: nothing is populated.
    pub population_workers: u32,
    /// How fast the cache fills.
    pub throttle: Throttle,
    /// Candidates for population.
    pub recent_fragments: u32,
    /// Which misses make a fragment a candidate for population at first;
    /// [`Cache::set_admission`](crate::Cache::set_admission) changes it.
    pub admission: Admission,
    /// Bytes that may be written to the cache device in a day at first, 0 for no limit;
    /// [`Cache::set_write_budget`](crate::Cache::set_write_budget) changes it.
    pub write_budget: u64,
    /// Above what smoothed time of reads of the cache device, in microseconds, work in the background yields
    /// at first, 0 for never; [`Cache::set_yield_us`](crate::Cache::set_yield_us) changes it.
    pub yield_us: u64,
    /// Memory for copies of writes on their way to the cache device, in bytes: a multiple of
    /// [`BLOCK_BYTES`].
    pub copy_bytes: u64,
    /// Parts of writes, of at most 64 blocks each, whose copies can be on their way at a time.
    pub flights: u32,
    /// Independently locked parts of the fragment table: a power of two.
    pub shards: u32,
    /// The map that survives a restart; none: the cache begins empty whenever it is made.
    pub map: Option<MapConfig>,
}

/// How long a fragment counts as unstable after a write, in milliseconds, unless said otherwise.
pub const SETTLE_MS: u64 = 30_000;

/// How many of 1,000 writes may wait for a mark, unless said otherwise.
pub const WAITS_PER_MILLE: u32 = 10;
/// So many may if marks are held for none.
pub const WAITS_PER_MILLE_MAX: u32 = 1000;

/// What the records of the map name, and where they lie: from the superblock
/// ([`Superblock::config`](crate::format::Superblock::config)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapConfig {
    /// The id of the cache.
    pub cache_id: [u8; 16],
    /// The epoch that this opening has begun.
    pub epoch: u64,
    /// The number of each volume's attachment, in the order of [`Config::volumes`].
    pub volume_numbers: Vec<u32>,
    /// Where on the cache device the map begins, in bytes; it ends before [`Config::data_offset`].
    pub offset: u64,
    /// How long a fragment stays unstable after the last write to it, in milliseconds; longer, if it is
    /// written to regularly and too many writes would wait otherwise. 4 to 3,600,000.
    pub settle_ms: u64,
    /// How many of 1,000 writes may wait for a mark: while more do, fragments that are written to ever more
    /// rarely are held unstable, which a crash costs. 1 to [`WAITS_PER_MILLE_MAX`], which holds none.
    pub waits_per_mille: u32,
}

impl MapConfig {
    fn check(&self, volumes: usize) -> Result<(), ConfigError> {
        range("map.settle_ms", self.settle_ms, 4, 3_600_000)?;
        range("map.waits_per_mille", self.waits_per_mille.into(), 1, WAITS_PER_MILLE_MAX.into())?;
        blocks("map.offset", self.offset)?;
        let mut numbers = self.volume_numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        if self.volume_numbers.len() != volumes || numbers.len() != volumes || numbers.first() == Some(&0) {
            let reason = format!("{:?} are not {volumes} different numbers from 1 on", self.volume_numbers);
            return Err(ConfigError::new("map.volume_numbers", reason, "use those of the superblock".into()));
        }
        Ok(())
    }
}

impl Config {
    /// The paper's parameters for a cache device and volumes of so many bytes.
    pub fn new(cache_bytes: u64, volumes: &[u64]) -> Self {
        Self {
            fragment_bytes: 1 << 20,
            cache_bytes,
            data_offset: 0,
            slots_limit: 0,
            volumes: volumes.to_vec(),
            write_mode: WriteMode::Through,
            population_workers: WORKERS_MAX,
            throttle: Throttle::default(),
            recent_fragments: RECENT_FRAGMENTS,
            admission: Admission::default(),
            write_budget: 0,
            yield_us: 0,
            copy_bytes: 8 << 20,
            flights: 2048,
            shards: 64,
            map: None,
        }
    }

    /// Checks what does not depend on sizes that are to be computed.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        power_of_two("fragment_bytes", self.fragment_bytes)?;
        range("fragment_bytes", self.fragment_bytes, FRAGMENT_BYTES_MIN, FRAGMENT_BYTES_MAX)?;
        range("population_workers", self.population_workers.into(), 0, WORKERS_MAX.into())?;
        range("recent_fragments", self.recent_fragments.into(), 1, RECENT_FRAGMENTS_MAX.into())?;
        range("flights", self.flights.into(), 1, FLIGHTS_MAX.into())?;
        power_of_two("shards", self.shards.into())?;
        range("shards", self.shards.into(), 1, 4096)?;
        range("copy_bytes", self.copy_bytes, BLOCK_BYTES, COPY_BYTES_MAX)?;
        blocks("copy_bytes", self.copy_bytes)?;
        blocks("data_offset", self.data_offset)?;
        range("window_reads", self.throttle.window_reads, 1, u64::MAX / 4)?;
        self.check_stages()?;
        crate::budget::check(self.write_budget, self)?;
        if self.volumes.is_empty() || self.volumes.len() > VOLUMES_MAX {
            let reason = format!("there are {} of them", self.volumes.len());
            return Err(ConfigError::new("volumes", reason, format!("name 1 to {VOLUMES_MAX} volumes")));
        }
        if let Some(map) = &self.map {
            map.check(self.volumes.len())?;
        }
        if let Some(number) = self.volumes.iter().position(|&bytes| bytes < BLOCK_BYTES) {
            let reason = format!("volume {number} has {} bytes", self.volumes[number]);
            return Err(ConfigError::new(
                "volumes",
                reason,
                format!("use volumes of at least {BLOCK_BYTES} bytes"),
            ));
        }
        Ok(())
    }

    fn check_stages(&self) -> Result<(), ConfigError> {
        for stage in &self.throttle.stages {
            range("throttle.workers", stage.workers.into(), 0, WORKERS_MAX.into())?;
            range("throttle.miss_percent", stage.miss_percent.into(), 0, 100)?;
            range("throttle.free_percent", stage.free_percent.into(), 0, 100)?;
            range("throttle.period_ms", stage.period_ms.into(), 1, 3_600_000)?;
        }
        let last = &self.throttle.stages[2];
        if last.miss_percent != 0 || last.free_percent != 0 {
            let reason = "the last stage of the throttle must not end".to_owned();
            return Err(ConfigError::new("throttle.stages", reason, "set both of its limits to 0".into()));
        }
        Ok(())
    }
}

fn range(name: &'static str, value: u64, low: u64, high: u64) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let reason = format!("{value} is not between {low} and {high}");
    Err(ConfigError::new(name, reason, format!("use {}", value.clamp(low, high))))
}

fn power_of_two(name: &'static str, value: u64) -> Result<(), ConfigError> {
    if value.is_power_of_two() {
        return Ok(());
    }
    let nearest = value.checked_next_power_of_two().unwrap_or(1 << 20);
    Err(ConfigError::new(name, format!("{value} is not a power of two"), format!("use {nearest}")))
}

fn blocks(name: &'static str, value: u64) -> Result<(), ConfigError> {
    if value % BLOCK_BYTES == 0 {
        return Ok(());
    }
    let below = value / BLOCK_BYTES * BLOCK_BYTES;
    let reason = format!("{value} is not a multiple of {BLOCK_BYTES}");
    Err(ConfigError::new(name, reason, format!("use {below}")))
}
