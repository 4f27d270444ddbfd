//! What the host promises, one thing after the other.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use mezzanine_cached::{BlockCache, CachedErrorKind, Served, Settings};
use mezzanine_device::memory::{Bad, Fault, Injection, Operation};
use mezzanine_device::{Capabilities, Device, DeviceError, DeviceErrorKind, MemoryDevice, Request, Zones};
use mezzanine_fragment::{Config, Stage, WriteMode};

const BLOCK: usize = 4096;
const FRAGMENT: u64 = 128 << 10;

fn config(slots: u64, fragments: &[u64]) -> Config {
    let volumes: Vec<u64> = fragments.iter().map(|count| count * FRAGMENT).collect();
    let mut config = Config::new(slots * FRAGMENT, &volumes);
    config.fragment_bytes = FRAGMENT;
    config.throttle.stages =
        [8, 8, 8].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    config
}

struct Small {
    cache: BlockCache,
    flash: Arc<MemoryDevice>,
    disk: Arc<MemoryDevice>,
}

fn small(settings: Settings) -> Small {
    let config = config(4, &[8]);
    let flash = Arc::new(MemoryDevice::new(config.cache_bytes));
    let disk = Arc::new(MemoryDevice::new(config.volumes[0]));
    let (f, d): (Arc<dyn Device>, Arc<dyn Device>) = (Arc::clone(&flash) as _, Arc::clone(&disk) as _);
    let cache = BlockCache::start(config.geometry().unwrap(), f, vec![Some(d)], settings).unwrap();
    Small { cache, flash, disk }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Small {
    fn device(&self) -> Arc<dyn Device> {
        Arc::new(self.cache.volume(0).unwrap())
    }

    fn populate(&self, offset: u64) {
        let device = self.device();
        // A miss beside a worker that plans is not noted, so it may take another.
        let mut looks = 0;
        wait("a population", || {
            if looks % 2000 == 0 {
                device.read_at(&mut [0; BLOCK], offset).unwrap();
            }
            looks += 1;
            self.cache.engine().location(0, offset).is_some()
        });
    }
}

#[test]
fn what_is_read_often_comes_from_the_cache_device() {
    let small = small(Settings::default());
    let device = small.device();
    device.write_at(&[9; 2 * BLOCK], 0).unwrap();
    small.populate(0);
    let mut found = [0; 2 * BLOCK];
    device.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [9; 2 * BLOCK]);
    let statistics = small.cache.statistics();
    assert_eq!((statistics.engine.reads_hit, statistics.engine.populations_done), (1, 1));
    let count = |wanted| statistics.latencies.iter().find(|(served, _)| *served == wanted).unwrap().1.count();
    assert_eq!((count(Served::Cache), count(Served::Backing), count(Served::Write)), (1, 1, 1));
    // A write follows there.
    device.write_at(&[5; BLOCK], 4096).unwrap();
    assert_eq!(small.cache.drain(Duration::from_secs(10), |_| true).copies_left, 0);
    wait("the copy", || small.cache.engine().location(0, 4096).is_some());
    let at = small.cache.engine().location(0, 4096).unwrap() as usize;
    assert_eq!(small.flash.image()[at..at + BLOCK], [5; BLOCK]);
    let compared = small.cache.compare(|_, _| ()).unwrap();
    assert_eq!((compared.blocks, compared.differing), (FRAGMENT / BLOCK as u64, 0));
}

#[test]
fn a_comparison_finds_what_differs_and_what_cannot_be_read() {
    let small = small(Settings::default());
    small.populate(0);
    let at = small.cache.engine().location(0, 8192).unwrap();
    small.flash.write_at(&[1], at).unwrap();
    small.flash.spoil(at + 4096, 512, Bad::Unreadable);
    let compared = small.cache.compare(|_, _| ()).unwrap();
    assert_eq!((compared.differing, compared.unreadable, compared.blocks), (1, 1, 30));
    let one = compared.differences[0];
    assert_eq!((one.volume, one.offset, one.cache_offset), (0, 8192, at));
}

#[test]
fn a_bad_sector_costs_time_alone() {
    let small = small(Settings::default());
    let device = small.device();
    device.write_at(&[9; BLOCK], 4096).unwrap();
    small.populate(0);
    let at = small.cache.engine().location(0, 4096).unwrap();
    small.flash.spoil(at, 512, Bad::Unreadable);
    let mut found = [0; 3 * BLOCK];
    device.read_at(&mut found, 0).unwrap();
    assert_eq!(found[BLOCK..2 * BLOCK], [9; BLOCK]);
    let statistics = small.cache.statistics();
    assert_eq!(statistics.engine.bypass_read_failed, 1);
    let [failure] = &statistics.failures[..] else { panic!("{:?}", statistics.failures) };
    assert_eq!((failure.operation, failure.reason.as_str(), failure.count), ("read", "io", 1));
    assert!(failure.last.contains("simulated drive"), "{}", failure.last);
}

#[test]
fn the_backing_devices_errors_are_the_callers() {
    let small = small(Settings::default());
    let device = small.device();
    small.populate(0);
    let fail = |operation| {
        let fault = Fault::Error(DeviceErrorKind::NoSpace);
        small.disk.inject(Injection { operation, after: 0, count: 1, fault });
    };
    fail(Operation::Write);
    assert_eq!(device.write_at(&[1; BLOCK], 0).unwrap_err().kind(), DeviceErrorKind::NoSpace);
    // Nobody knows what the disk has now, so it is asked.
    assert_eq!(small.cache.engine().location(0, 0), None);
    fail(Operation::Read);
    assert_eq!(device.read_at(&mut [0; BLOCK], 0).unwrap_err().kind(), DeviceErrorKind::NoSpace);
    fail(Operation::Discard);
    assert!(device.discard(8192, 4096).is_err());
    fail(Operation::Flush);
    assert!(device.flush().is_err());
    let host = small.cache.statistics().host;
    assert_eq!((host.backing_reads_failed, host.flushes_failed), (1, 1));
}

#[test]
fn flushes_are_the_backing_devices_alone() {
    let small = small(Settings::default());
    let device = small.device();
    small.populate(0);
    device.write_at(&[3; BLOCK], 0).unwrap();
    small.cache.drain(Duration::from_secs(10), |_| true);
    device.flush().unwrap();
    assert_eq!(small.disk.unflushed(), 0);
    device.write_through(&[4; BLOCK], 4096).unwrap();
    assert!(small.flash.unflushed() > 0);
    // Both lose their power, and the disk has what was flushed.
    small.disk.power_cut(1);
    assert_eq!(small.disk.image()[..2 * BLOCK], [[3; BLOCK], [4; BLOCK]].concat());
}

#[test]
fn what_lies_outside_is_refused_as_a_device_refuses_it() {
    let small = small(Settings::default());
    let device = small.device();
    let end = device.len();
    let kind = |result: Result<(), DeviceError>| result.unwrap_err().kind();
    for _ in 0..2 {
        assert_eq!(kind(device.read_at(&mut [0; 8], end - 4)), DeviceErrorKind::UnexpectedEnd);
        assert_eq!(kind(device.write_at(&[0; 8], end - 4)), DeviceErrorKind::OutOfRange);
        assert_eq!(kind(device.write_at(&[0; 8], u64::MAX)), DeviceErrorKind::OutOfRange);
        assert_eq!(kind(device.discard(end, 1)), DeviceErrorKind::OutOfRange);
        let mut buf = [0; 8];
        let batch = &mut [Request::Read { offset: end, buf: &mut buf }, Request::Flush];
        let results = device.run(batch);
        assert!(results[0].is_err() && results[1].is_ok());
        assert_eq!(kind(device.set_len(1)), DeviceErrorKind::Unsupported);
        device.read_at(&mut [], end).unwrap();
        // The same once the cache device is lost.
        small.flash.power().crash_after(1);
        let _ = small.flash.read_at(&mut [0], 0);
        small.flash.power().crash_after(1);
        device.read_at(&mut [0; BLOCK], 0).unwrap();
    }
}

#[test]
fn populations_stop_where_they_are_told_to() {
    let small = small(Settings::default());
    small.cache.set_population_workers(0);
    let device = small.device();
    for _ in 0..100 {
        device.read_at(&mut [0; BLOCK], 0).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(small.cache.statistics().engine.populations_begun, 0);
    assert_eq!(small.cache.statistics().candidates, 1);
    small.cache.set_population_workers(100);
    assert_eq!(small.cache.population_workers(), 8, "no more than there are");
    wait("a population", || small.cache.engine().location(0, 0).is_some());
    // At a rate: the second has to wait for the first to be paid for, and hears of a new rate.
    small.cache.set_population_rate(1);
    device.read_at(&mut [0; BLOCK], FRAGMENT).unwrap();
    device.read_at(&mut [0; BLOCK], 2 * FRAGMENT).unwrap();
    wait("one of two", || small.cache.statistics().engine.populations_done == 2);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(small.cache.statistics().engine.populations_done, 2);
    small.cache.set_population_rate(0);
    wait("the other", || small.cache.statistics().engine.populations_done == 3);
}

/// One that waits for its turn, for more than a day here, does not hold up the end of the cache.
#[test]
fn a_population_that_waits_for_its_turn_is_given_up_at_the_end() {
    let small = small(Settings::default());
    small.cache.set_population_rate(1);
    for fragment in 0..2 {
        small.device().read_at(&mut [0; BLOCK], fragment * FRAGMENT).unwrap();
    }
    wait("one of two", || small.cache.statistics().engine.populations_done == 1);
    wait("the other begins", || small.cache.statistics().engine.populations_begun == 2);
    small.cache.close(Duration::from_secs(30), |_| true);
    wait("its job comes back", || small.cache.engine().outstanding() == 0);
    assert_eq!(small.cache.statistics().engine.populations_done, 1);
}

#[test]
fn writes_go_around_where_they_are_told_to() {
    let small = small(Settings::default());
    small.populate(0);
    small.cache.set_write_mode(WriteMode::Around);
    small.device().write_at(&[1; BLOCK], 0).unwrap();
    assert_eq!(small.cache.statistics().engine.bypass_write_around, 1);
    assert_eq!(small.cache.engine().location(0, 0), None);
}

/// A device that keeps who reads or writes until it is told to let go.
struct Sticky {
    inner: MemoryDevice,
    held: Mutex<bool>,
    let_go: Condvar,
    waits: AtomicBool,
}

impl Sticky {
    fn new(len: u64) -> Self {
        let (held, let_go, waits) = (Mutex::new(false), Condvar::new(), AtomicBool::new(false));
        Self { inner: MemoryDevice::new(len), held, let_go, waits }
    }

    fn hold(&self, hold: bool) {
        *self.held.lock().unwrap() = hold;
        self.let_go.notify_all();
    }
}

impl Device for Sticky {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let mut held = self.held.lock().unwrap();
        while *held {
            self.waits.store(true, SeqCst);
            held = self.let_go.wait(held).unwrap();
        }
        drop(held);
        self.inner.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        "sticky drive".to_owned()
    }
}

/// Lets go of whoever is kept, also when a test fails: the test would wait for its threads for ever.
struct LetsGo<'d>(&'d Sticky);

impl Drop for LetsGo<'_> {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

/// Has what it was given, and says so only when it is let go.
struct Late {
    inner: MemoryDevice,
    sticky: Sticky,
}

impl Device for Late {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        let results = self.inner.run(batch);
        if batch.iter().any(Request::is_change) {
            self.sticky.flush().unwrap();
        }
        results
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        "late drive".to_owned()
    }
}

/// A block has its new contents on the backing device, whose answer is not here yet, and the cache those
/// before.
#[test]
fn a_comparison_leaves_out_what_is_being_written() {
    let config = config(4, &[8]);
    let late =
        Arc::new(Late { inner: MemoryDevice::new(config.volumes[0]), sticky: Sticky::new(BLOCK as u64) });
    let flash = Arc::new(MemoryDevice::new(config.cache_bytes));
    let backing = vec![Some(Arc::clone(&late) as Arc<dyn Device>)];
    let cache = BlockCache::start(config.geometry().unwrap(), flash, backing, Settings::default()).unwrap();
    let device: Arc<dyn Device> = Arc::new(cache.volume(0).unwrap());
    wait("a population", || {
        device.read_at(&mut [0; BLOCK], 0).unwrap();
        cache.engine().location(0, 0).is_some()
    });
    late.sticky.hold(true);
    std::thread::scope(|scope| {
        let _lets_go = LetsGo(&late.sticky);
        scope.spawn(|| device.write_at(&[7; BLOCK], 0).unwrap());
        wait("a write that is not answered", || late.sticky.waits.load(SeqCst));
        let compared = cache.compare(|_, _| ());
        // Whatever it found: what is held would keep this thread, too.
        late.sticky.hold(false);
        let compared = compared.unwrap();
        assert_eq!((compared.differing, compared.moved), (0, 1), "{compared:?}");
    });
    let compared = cache.compare(|_, _| ()).unwrap();
    assert_eq!(compared.differing, 0);
}

#[test]
fn threads_end_with_the_last_handle() {
    // Counted by device, as other tests have threads as well.
    let config = config(4, &[8, 8]);
    let flash: Arc<dyn Device> = Arc::new(MemoryDevice::new(config.cache_bytes));
    let disks: Vec<Arc<MemoryDevice>> =
        config.volumes.iter().map(|&n| Arc::new(MemoryDevice::new(n))).collect();
    let backing = disks.iter().map(|disk| Some(Arc::clone(disk) as Arc<dyn Device>)).collect();
    let geometry = config.geometry().unwrap();
    let cache = BlockCache::start(geometry, Arc::clone(&flash), backing, Settings::default()).unwrap();
    let volume = cache.volume(1).unwrap();
    assert!(cache.volume(2).is_none());
    drop(cache);
    // Still whole.
    volume.write_at(&[1; BLOCK], 0).unwrap();
    volume.read_at(&mut [0; BLOCK], 0).unwrap();
    drop(volume);
    assert_eq!(Arc::strong_count(&flash), 1, "no thread has it any more");
}

#[test]
fn the_end_does_not_wait_for_ever() {
    let config = config(4, &[8]);
    let (flash, disk) =
        (Arc::new(MemoryDevice::new(config.cache_bytes)), Arc::new(Sticky::new(config.volumes[0])));
    let settings = Settings { end_within: Duration::from_millis(100), ..Settings::default() };
    let backing: Vec<Option<Arc<dyn Device>>> = vec![Some(Arc::clone(&disk) as _)];
    let cache = BlockCache::start(config.geometry().unwrap(), flash, backing, settings).unwrap();
    cache.volume(0).unwrap().read_at(&mut [0; BLOCK], 0).unwrap();
    disk.hold(true);
    // A population may have been through already: then another fragment is wanted.
    let beside = cache.volume(0).unwrap();
    let reading = std::thread::spawn(move || beside.read_at(&mut [0; BLOCK], FRAGMENT));
    wait("somebody in the device", || disk.waits.load(SeqCst));
    // A population that reads a fragment is held up as well.
    std::thread::sleep(Duration::from_millis(50));
    disk.hold(false);
    reading.join().unwrap().unwrap();
    disk.hold(true);
    disk.waits.store(false, SeqCst);
    wait("a population in the device", || {
        disk.waits.load(SeqCst) || {
            let done = cache.statistics().engine;
            done.populations_done + done.populations_failed == 2 && {
                disk.hold(false);
                cache.volume(0).unwrap().read_at(&mut [0; BLOCK], 2 * FRAGMENT).unwrap();
                disk.hold(true);
                false
            }
        }
    });
    let begun = Instant::now();
    drop(cache);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(Arc::strong_count(&disk) > 1, "the thread that was left has what it stands on");
    disk.hold(false);
    wait("its end", || Arc::strong_count(&disk) == 1);
}

#[test]
fn devices_that_do_not_fit_are_refused() {
    let geometry = || config(4, &[8]).geometry().unwrap();
    let memory = |len: u64| -> Arc<dyn Device> { Arc::new(MemoryDevice::new(len)) };
    let start = |flash, backing| {
        BlockCache::start(geometry(), flash, backing, Settings::default()).err().map(|error| error.kind())
    };
    let (flash, disk) = (4 * FRAGMENT, 8 * FRAGMENT);
    assert_eq!(start(memory(flash), vec![None]), None);
    assert_eq!(start(memory(flash - 1), vec![Some(memory(disk))]), Some(CachedErrorKind::Length));
    for other in [disk - 4096, disk + 4096] {
        assert_eq!(start(memory(flash), vec![Some(memory(other))]), Some(CachedErrorKind::Length));
    }
    assert_eq!(start(memory(flash), vec![]), Some(CachedErrorKind::Volumes));
    let zones = Zones {
        zone_len: 1 << 20,
        zone_capacity: 1 << 20,
        count: 8,
        conventional: 0,
        open_max: 0,
        active_max: 0,
    };
    let zoned = MemoryDevice::zoned(&mezzanine_device::memory::Power::new(), "zoned", zones);
    assert_eq!(start(Arc::new(zoned), vec![Some(memory(disk))]), Some(CachedErrorKind::Zoned));
}
