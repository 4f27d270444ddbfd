//! Marks do not wait for what they need not wait for: the flushes of other volumes, and one another.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_cached::{BlockCache, ReadMap, Settings, Survival, Voucher};
use mezzanine_device::{Capabilities, Device, DeviceError, MemoryDevice, Request};
use mezzanine_fragment::Stage;
use mezzanine_fragment::format::Superblock;

const BLOCK: usize = 4096;
const FRAGMENT: u64 = 128 << 10;

/// Vouches as long as nobody asks.
struct Paper;

impl Voucher for Paper {
    fn revoke(&self) -> io::Result<()> {
        Ok(())
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} does not come");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A new cache of so many slots whose fragments settle soon; fast as long as it has room, and with an hour
/// between two populations then.
fn cache(slots: u64, disks: Vec<Arc<dyn Device>>, settings: Settings) -> BlockCache {
    let place = Superblock::new([1; 16], 64 << 20, FRAGMENT).unwrap().layout.data_offset;
    let bytes = place + slots * FRAGMENT;
    let mut superblock = Superblock::new([1; 16], bytes, FRAGMENT).unwrap();
    for (number, disk) in disks.iter().enumerate() {
        let added =
            superblock.with_volume([number as u8 + 1; 16], &format!("v{number}"), disk.len(), [0; 64]);
        superblock = added.unwrap();
    }
    let mut config = superblock.opened().config();
    config.population_workers = 3;
    config.throttle.stages = [(1, 1), (1, 1), (0, 3_600_000)].map(|(free_percent, period_ms)| Stage {
        workers: 8,
        miss_percent: 0,
        free_percent,
        period_ms,
    });
    config.map.as_mut().unwrap().settle_ms = 12;
    let flash = Arc::new(MemoryDevice::new(bytes));
    let map = ReadMap::read(config.geometry().unwrap(), &*flash).unwrap();
    let backing = disks.into_iter().map(Some).collect();
    BlockCache::recover(map, flash, backing, settings, Some(Box::new(Paper))).unwrap()
}

/// Lets go of all these devices when a test fails: a thread that is kept in one would keep the test.
struct IfItFails<'d>(&'d [Arc<Slow>]);

impl Drop for IfItFails<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.iter().for_each(|disk| disk.hold(false));
        }
    }
}

/// A device whose flush keeps whoever comes, while that is so.
struct Slow {
    inner: MemoryDevice,
    /// Whether it does, and how many are in it.
    held: Mutex<(bool, usize)>,
    let_go: Condvar,
}

impl Slow {
    fn new(bytes: u64) -> Arc<Self> {
        let (inner, held, let_go) = (MemoryDevice::new(bytes), Mutex::new((false, 0)), Condvar::new());
        Arc::new(Self { inner, held, let_go })
    }

    fn hold(&self, hold: bool) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).0 = hold;
        self.let_go.notify_all();
    }

    fn is_in_flush(&self) -> bool {
        self.held.lock().unwrap().1 > 0
    }
}

impl Device for Slow {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        if batch.iter().any(|request| matches!(request, Request::Flush)) {
            let mut held = self.held.lock().unwrap();
            held.1 += 1;
            while held.0 {
                held = self.let_go.wait(held).unwrap();
            }
            held.1 -= 1;
        }
        self.inner.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        "drive with a slow flush".to_owned()
    }
}

#[test]
fn no_mark_waits_for_the_flushes_of_other_volumes_however_many_there_are() {
    const VOLUMES: usize = 40;
    let disks: Vec<_> = (0..VOLUMES).map(|_| Slow::new(2 * FRAGMENT)).collect();
    // A mark that does not come is noticed below, and by nobody else.
    let settings = Settings { mark_within: Duration::from_secs(600), ..Settings::default() };
    let devices = disks.iter().map(|disk| Arc::clone(disk) as Arc<dyn Device>).collect();
    let cache = cache(2 * VOLUMES as u64, devices, settings);
    let populate = |volume: usize| {
        let device = cache.volume(volume).unwrap();
        // A miss beside a worker that plans is not noted.
        wait("a population", || {
            device.read_at(&mut [0; BLOCK], 0).unwrap();
            cache.engine().location(volume, 0).is_some()
        });
    };
    let _failed = IfItFails(&disks);
    populate(0);
    wait("a settled fragment", || cache.statistics().engine.unstable == 0);
    for (volume, disk) in disks.iter().enumerate().skip(1) {
        disk.hold(true);
        populate(volume);
    }
    // None is in another one's way.
    wait("the flush of each", || disks[1..].iter().all(|disk| disk.is_in_flush()));
    let first = cache.volume(0).unwrap();
    let writing = thread::spawn(move || first.write_at(&[7; BLOCK], 0));
    wait("a mark", || writing.is_finished());
    writing.join().unwrap().unwrap();
    let found = cache.statistics();
    assert_eq!((found.engine.writes_waited, found.survival), (1, Survival::Crash));
    disks.iter().for_each(|disk| disk.hold(false));
}

/// Requests of a batch: it takes many times as long as until somebody is awake who was told of the first.
const REQUESTS: usize = 6000;

#[test]
fn the_marks_of_a_batch_are_those_of_one_commit() {
    const SLOTS: u64 = 24;
    let disk = Arc::new(MemoryDevice::new(2 * SLOTS * FRAGMENT));
    let cache = cache(SLOTS, vec![disk as Arc<dyn Device>], Settings::default());
    let device = cache.volume(0).unwrap();
    wait("a full cache", || {
        (0..SLOTS).for_each(|fragment| device.read_at(&mut [0; BLOCK], fragment * FRAGMENT).unwrap());
        cache.statistics().engine.slots_used == SLOTS
    });
    let begun = Instant::now();
    for round in 0.. {
        wait("settled fragments", || cache.statistics().engine.unstable == 0);
        let waited = || cache.statistics().engine.writes_waited;
        let (before, waited_before) = (cache.engine().marks_durable(), waited());
        // The first needs a mark, and so does the last; what lies between needs none.
        let between = (0..REQUESTS as u64).map(|number| SLOTS * FRAGMENT + number % 32 * BLOCK as u64);
        let offsets = std::iter::once(0).chain(between).chain((1..SLOTS).map(|one| one * FRAGMENT));
        let buf = &[round as u8; BLOCK];
        let mut batch: Vec<_> = offsets.map(|offset| Request::WriteThrough { offset, buf }).collect();
        device.run(&mut batch).into_iter().for_each(Result::unwrap);
        let commits = cache.engine().marks_durable() - before;
        println!("round {round}: {commits} commits");
        assert!(commits > 0);
        // A thread may have looked by itself just then. That nobody is told is a test of `batch.rs`.
        if commits == 1 {
            assert_eq!(waited() - waited_before, SLOTS, "all of them are of that commit");
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "never by one commit");
    }
}
