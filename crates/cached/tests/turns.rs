//! Writes of one block that come at the same time.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_cached::{BlockCache, CachedVolume, Settings};
use mezzanine_device::{Capabilities, Device, DeviceError, MemoryDevice, Request};
use mezzanine_fragment::{Config, Stage};

const BLOCK: usize = 4096;
const FRAGMENT: u64 = 128 << 10;

/// A device whose writes stand still while it is held, and are counted when they begin.
struct Held {
    inner: MemoryDevice,
    is_held: AtomicBool,
    begun: AtomicU64,
}

impl Held {
    fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new(bytes),
            is_held: AtomicBool::new(false),
            begun: AtomicU64::new(0),
        })
    }

    fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, SeqCst);
    }
}

impl Device for Held {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        if batch.iter().any(|request| matches!(request, Request::Write { .. })) {
            self.begun.fetch_add(1, SeqCst);
            wait("the end of what holds a device", || !self.is_held.load(SeqCst));
        }
        self.inner.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        "a device that stands still at times".to_owned()
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        thread::sleep(Duration::from_millis(1));
    }
}

struct Cached {
    cache: BlockCache,
    volume: CachedVolume,
    flash: Arc<Held>,
    disk: Arc<Held>,
}

/// A cache that has the first fragment of its volume.
fn cached() -> Cached {
    let mut config = Config::new(4 * FRAGMENT, &[8 * FRAGMENT]);
    config.fragment_bytes = FRAGMENT;
    config.throttle.stages =
        [8, 8, 8].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    let (flash, disk) = (Held::new(config.cache_bytes), Held::new(8 * FRAGMENT));
    let disks = vec![Some(Arc::clone(&disk) as Arc<dyn Device>)];
    let geometry = config.geometry().unwrap();
    let cache =
        BlockCache::start(geometry, Arc::clone(&flash) as Arc<dyn Device>, disks, Settings::default());
    let cache = cache.unwrap();
    let volume = cache.volume(0).unwrap();
    wait("a population", || {
        volume.read_at(&mut [0; BLOCK], 0).unwrap();
        cache.engine().location(0, 0).is_some()
    });
    Cached { cache, volume, flash, disk }
}

#[test]
fn a_second_write_of_a_block_waits_for_the_first_and_leaves_no_hole() {
    let Cached { cache, volume, disk, .. } = cached();
    disk.hold(true);
    let write = |at: u64, byte: u8| {
        let volume = volume.clone();
        thread::spawn(move || volume.write_at(&[byte; BLOCK], at).unwrap())
    };
    let first = write(0, 1);
    wait("the first write", || disk.begun.load(SeqCst) == 1);
    let second = write(0, 2);
    // Others of the same fragment do not wait.
    let other = write(BLOCK as u64, 3);
    wait("another block's write", || disk.begun.load(SeqCst) == 2);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(disk.begun.load(SeqCst), 2, "the second write went beside the first");
    disk.hold(false);
    [first, second, other].into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(disk.begun.load(SeqCst), 3);
    // Their order is known, so the block is valid when the copy is written.
    assert!(cache.drain(Duration::from_secs(60), |_| true).copies_left == 0);
    let hits = cache.statistics().engine.reads_hit;
    let mut found = [0; BLOCK];
    volume.read_at(&mut found, 0).unwrap();
    assert_eq!((found, cache.statistics().engine.reads_hit), ([2; BLOCK], hits + 1));
}

#[test]
fn a_cache_device_that_stands_still_holds_no_second_write_up() {
    let Cached { volume, flash, .. } = cached();
    flash.hold(true);
    for byte in 1..=3 {
        // The copy of the one before is not written, and will not be.
        volume.write_at(&[byte; BLOCK], 0).unwrap();
    }
    let mut found = [0; BLOCK];
    volume.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [3; BLOCK]);
    flash.hold(false);
}

#[test]
fn eight_writers_of_a_block_come_to_an_end() {
    let Cached { cache, volume, .. } = cached();
    thread::scope(|scope| {
        for writer in 0..8_u8 {
            let volume = &volume;
            scope.spawn(move || (0..200).for_each(|_| volume.write_at(&[writer; BLOCK], 0).unwrap()));
        }
    });
    assert!(cache.drain(Duration::from_secs(60), |_| true).copies_left == 0);
    let hits = cache.statistics().engine.reads_hit;
    volume.read_at(&mut [0; BLOCK], 0).unwrap();
    assert_eq!(cache.statistics().engine.reads_hit, hits + 1, "a hole was left");
}
