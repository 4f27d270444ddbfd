//! A cache with its devices and its threads: start, settings, end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mezzanine_device::{Device, DeviceError, sleep_at_locks};
use mezzanine_fragment::Health::Serving;
use mezzanine_fragment::{Cache, Geometry, Sizing, SizingConfig, SizingTable, Statistics, WriteMode};

use crate::error::{CachedError, CachedErrorKind};
use crate::health::{CacheHealth, Health};
use crate::latency::{Latencies, Served};
use crate::marks::Marks;
use crate::pace::Pace;
use crate::parking::Parking;
use crate::settings::Settings;
use crate::statistics::{CachedStatistics, Counters, VolumeCounters};
use crate::turns::Turns;
use crate::volume::CachedVolume;
use crate::voucher::Voucher;

/// How often it is looked whether the cache device has caught up.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How often who waits for that is told how far it is.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(100);

/// One cache device and the backing devices of its volumes. Clones are the same cache; its threads end with
/// the last clone and the last [`CachedVolume`].
#[derive(Clone)]
pub struct BlockCache {
    pub(crate) running: Arc<Running>,
}

/// What all handles have together.
pub(crate) struct Running {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    end_within: Duration,
}

/// What requests and threads share. Threads keep it for as long as they are in a device's request.
pub(crate) struct Shared {
    pub(crate) cache: Cache,
    pub(crate) flash: Arc<dyn Device>,
    /// By volume; one whose backing device was not given is not served.
    pub(crate) backing: Vec<Option<Arc<dyn Device>>>,
    pub(crate) health: CacheHealth,
    pub(crate) marks: Marks,
    pub(crate) mark_within: Duration,
    pub(crate) counters: Counters,
    /// By volume.
    pub(crate) volumes: Vec<VolumeCounters>,
    pub(crate) latencies: Latencies,
    pub(crate) pace: Pace,
    pub(crate) parking: Parking,
    pub(crate) turns: Turns,
    /// Held by who resizes the cache.
    pub(crate) resizing: Mutex<()>,
    begun: Instant,
    /// Requests of volumes that are under way; and whether none is let in any more.
    pub(crate) under_way: AtomicU64,
    pub(crate) is_closed: AtomicBool,
}

/// How far the cache device has caught up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Blocks of copies of writes that did not get there in time. The backing devices have them.
    pub copies_left: u64,
    /// Nothing is under way, and the map is whole and durable: it says what is in the cache.
    pub is_whole: bool,
}

impl BlockCache {
    /// An empty cache over these devices. `backing` has a place for each volume of the geometry; volumes
    /// without a device are not served.
    ///
    /// # Errors
    /// If a device does not fit the geometry or has zones, or if there are no threads to be had.
    pub fn start(
        geometry: Geometry,
        flash: Arc<dyn Device>,
        backing: Vec<Option<Arc<dyn Device>>>,
        settings: Settings,
    ) -> Result<Self, CachedError> {
        Self::of(Cache::heap(geometry), flash, backing, settings, None)
    }

    /// The same over a cache that exists, and whose map somebody may vouch for.
    pub(crate) fn of(
        cache: Cache,
        flash: Arc<dyn Device>,
        backing: Vec<Option<Arc<dyn Device>>>,
        settings: Settings,
        voucher: Option<Box<dyn Voucher>>,
    ) -> Result<Self, CachedError> {
        check(cache.geometry(), &*flash, &backing)?;
        sleep_at_locks();
        let config = cache.geometry().config();
        // Marks never wait for a population, nor for the flush of a backing device, of which the map may ask
        // for one of each volume at a time.
        let flushing = config.map.as_ref().map_or(0, |_| backing.iter().flatten().count());
        let threads = config.population_workers + settings.copy_threads.max(1) + flushing as u32;
        let volumes = config.volumes.iter().map(|_| VolumeCounters::default()).collect();
        let cache = if settings.sizing { sized(cache)? } else { cache };
        let shared = Arc::new(Shared {
            cache,
            flash,
            backing,
            health: CacheHealth::new(settings.refusals_max, settings.suspended_for),
            marks: Marks::new(voucher),
            mark_within: settings.mark_within,
            counters: Counters::default(),
            volumes,
            latencies: Latencies::new(),
            pace: Pace::new(settings.population_rate),
            parking: Parking::default(),
            turns: Turns::default(),
            resizing: Mutex::default(),
            begun: Instant::now(),
            under_way: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        });
        let running = Running { shared, threads: Mutex::default(), end_within: settings.end_within };
        for number in 0..threads {
            let shared = Arc::clone(&running.shared);
            let thread = thread::Builder::new().name(format!("cache-{number}"));
            // Those that were begun end with `running`.
            let thread = thread.spawn(move || shared.work_until_stopped()).map_err(|error| {
                CachedError::new(
                    CachedErrorKind::Threads,
                    format!("thread {number} of {threads}"),
                    error.to_string(),
                    "raise the limit of threads, or ask for fewer population workers",
                )
            })?;
            running.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(Self { running: Arc::new(running) })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.running.shared
    }

    /// A volume as a device; `None` if its backing device was not given, or there is no such volume.
    pub fn volume(&self, number: usize) -> Option<CachedVolume> {
        self.shared().backing.get(number)?.as_ref()?;
        Some(CachedVolume { running: Arc::clone(&self.running), number })
    }

    /// The engine, to be looked at.
    pub fn engine(&self) -> &Cache {
        &self.shared().cache
    }

    /// What has been done so far, and how the cache device is.
    pub fn statistics(&self) -> CachedStatistics {
        let shared = self.shared();
        CachedStatistics {
            engine: shared.cache.statistics(),
            host: shared.counters.snapshot(),
            health: shared.health.now(shared.now()),
            failures: shared.health.failures(),
            survival: shared.marks.survival(),
            writes_waiting: shared.marks.waiting(),
            volumes: shared.volumes.iter().map(VolumeCounters::snapshot).collect(),
            latencies: Served::ALL.map(|served| (served, shared.latencies.of(served))).into(),
            stage: shared.cache.load().1,
            candidates: shared.cache.candidates().len() as u64,
        }
    }

    /// How the cache does, and how it would do at other sizes, of the last one to two hours or since it was
    /// opened: what came before is not known. None without [`Settings::sizing`], of a cache that populates
    /// nothing, and while it has another size than it was opened with: estimates are held against that.
    pub fn sizing_table(&self) -> Option<SizingTable> {
        let cache = &self.shared().cache;
        (cache.slots_limit() == cache.geometry().slots_limit()).then(|| cache.sizing_table())?
    }

    /// What becomes of writes now.
    pub fn write_mode(&self) -> WriteMode {
        self.shared().cache.write_mode()
    }

    /// Has the writes that begin from now on go the other way.
    pub fn set_write_mode(&self, mode: WriteMode) {
        self.shared().cache.set_write_mode(mode);
    }

    /// Bytes a second that populations read at most; 0: no limit.
    pub fn population_rate(&self) -> u64 {
        self.shared().pace.rate()
    }

    /// Has populations go by this limit from now on, those that wait as well.
    pub fn set_population_rate(&self, bytes_per_second: u64) {
        self.shared().pace.set_rate(bytes_per_second);
    }

    /// Population workers that may begin a population.
    pub fn population_workers(&self) -> u32 {
        self.shared().cache.population_workers()
    }

    /// Has no more workers than these begin populations; 0: none begins. Those under way go on.
    pub fn set_population_workers(&self, workers: u32) {
        self.shared().cache.set_population_workers(workers);
    }

    /// Flushes all backing devices.
    ///
    /// # Errors
    /// That of the first device that has failed; all are tried.
    pub fn flush(&self) -> Result<(), CachedError> {
        let mut first: Result<(), DeviceError> = Ok(());
        for (number, device) in self.shared().backing.iter().enumerate() {
            if device.is_some() {
                first = first.and(self.shared().flush(number));
            }
        }
        first.map_err(|error| CachedError::of_device(error.device().to_owned(), error))
    }

    /// Waits until the copies of writes that are on their way have been written to the cache device, for so
    /// long at most. `go_on` is told every now and then how many blocks are left, and says whether to wait
    /// further. Others may go on writing.
    pub fn drain(&self, within: Duration, go_on: impl FnMut(u64) -> bool) -> Drained {
        let copies = |found: &Statistics| found.copy_blocks_used;
        self.catch_up(until(within), go_on, copies, |drained| drained.copies_left == 0)
    }

    /// Waits until `is_done`, for as long as the cache device is used and it is not `late`.
    pub(crate) fn catch_up(
        &self,
        mut late: impl FnMut() -> bool,
        mut go_on: impl FnMut(u64) -> bool,
        left: impl Fn(&Statistics) -> u64,
        is_done: impl Fn(&Drained) -> bool,
    ) -> Drained {
        let shared = self.shared();
        let mut told = Instant::now();
        loop {
            let is_used = !shared.health.is_lost() && shared.cache.health() == Serving;
            let is_quiet = shared.under_way.load(Ordering::SeqCst) == 0;
            let is_whole = shared.has_map() && is_used && is_quiet && shared.cache.is_settled();
            let found = shared.cache.statistics();
            let drained = Drained { copies_left: found.copy_blocks_used, is_whole };
            if is_done(&drained) || !is_used || late() {
                return drained;
            }
            if told.elapsed() >= TELL_EVERY {
                if !go_on(left(&found)) {
                    return drained;
                }
                told = Instant::now();
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Says when a time is over.
pub(crate) fn until(within: Duration) -> impl FnMut() -> bool {
    let begun = Instant::now();
    move || begun.elapsed() >= within
}

impl Shared {
    /// Whether the engine keeps a map that survives.
    pub(crate) fn has_map(&self) -> bool {
        self.cache.geometry().config().map.is_some()
    }

    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The backing device of a volume that has one.
    pub(crate) fn backing(&self, volume: usize) -> &dyn Device {
        self.backing[volume].as_deref().expect("only volumes with a backing device are handed out")
    }

    /// Whether reads are to ask the engine.
    pub(crate) fn use_for_reads(&self) -> Health {
        self.health.use_for_reads(|| self.now())
    }

    pub(crate) fn offer_work(&self) {
        self.parking.offer(|| self.cache.work());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.parking.stop();
        shared.pace.stop();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let all = shared.parking.wait_for_ends(threads.len(), self.end_within);
        for thread in threads.drain(..).filter(|thread| all || thread.is_finished()) {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The same cache, which estimates how it would do at other sizes. Without workers there is nothing to be
/// estimated: no size would have anything.
fn sized(cache: Cache) -> Result<Cache, CachedError> {
    let geometry = cache.geometry();
    if geometry.config().population_workers == 0 {
        return Ok(cache);
    }
    let sizing = Sizing::new(geometry, &SizingConfig::of(geometry)).map_err(|error| {
        let next = "start it without an estimate of other sizes";
        CachedError::new(CachedErrorKind::Sizing, "the cache".to_owned(), error.to_string(), next)
    })?;
    Ok(cache.with_sizing(sizing))
}

pub(crate) fn check(
    geometry: &Geometry,
    flash: &dyn Device,
    backing: &[Option<Arc<dyn Device>>],
) -> Result<(), CachedError> {
    let config = geometry.config();
    let error = |kind, device: &dyn Device, reason, next| {
        Err(CachedError::new(kind, device.describe(), reason, next))
    };
    if backing.len() != config.volumes.len() {
        let reason = format!("{} backing devices for {} volumes", backing.len(), config.volumes.len());
        let next = "give a place for each volume";
        return Err(CachedError::new(CachedErrorKind::Volumes, "the cache".to_owned(), reason, next));
    }
    let zoned = "use a device that can be written anywhere";
    for device in std::iter::once(flash).chain(backing.iter().flatten().map(|device| &**device)) {
        if device.capabilities().zones.is_some() {
            return error(CachedErrorKind::Zoned, device, "it has to be written in zones".to_owned(), zoned);
        }
    }
    let used = geometry.end_of(geometry.slots_limit());
    if flash.len() < used {
        let reason = format!("it has {} bytes, and the cache {used}", flash.len());
        return error(CachedErrorKind::Length, flash, reason, "use the cache device that it was made for");
    }
    for (device, &bytes) in backing.iter().zip(&config.volumes) {
        let Some(device) = device else { continue };
        if device.len() != bytes {
            let reason = format!("it has {} bytes, and its volume {bytes}", device.len());
            let next = "use the backing device that the cache was made for";
            return error(CachedErrorKind::Length, &**device, reason, next);
        }
    }
    Ok(())
}
