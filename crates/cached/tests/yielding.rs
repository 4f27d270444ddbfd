//! Work in the background yields to reads of the cache device that are slow: the host tells the engine how
//! long they take (the engine's invariant 16). No machine is too fast or too slow for this: a read of the
//! device takes as long as it is told at least, and the limits are far below that, or far above anything.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use mezzanine_cached::{BlockCache, CachedVolume, Settings};
use mezzanine_device::{Capabilities, Device, DeviceError, MemoryDevice, Request};
use mezzanine_fragment::{Config, Stage, Statistics};

const BLOCK: usize = 4096;
const FRAGMENT: u64 = 128 << 10;
const READ_TAKES: Duration = Duration::from_millis(40);

/// A device whose reads take so many milliseconds at least.
struct Slow {
    inner: MemoryDevice,
    read_ms: AtomicU64,
}

impl Device for Slow {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run(&self, batch: &mut [Request<'_>]) -> Vec<Result<(), DeviceError>> {
        if batch.iter().any(|request| matches!(request, Request::Read { .. })) {
            thread::sleep(Duration::from_millis(self.read_ms.load(SeqCst)));
        }
        self.inner.run(batch)
    }

    fn set_len(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.set_len(len)
    }

    fn describe(&self) -> String {
        "drive with slow reads".to_owned()
    }
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} does not come");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Has readers end, also when a test fails.
struct Stops<'s>(&'s AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Reads two blocks of a fragment: one after the other, or as a batch.
fn read(volume: &CachedVolume, fragment: u64, as_batch: bool) {
    let [mut one, mut other] = [[0; BLOCK]; 2];
    let [first, third] = [0, 2].map(|block| fragment * FRAGMENT + block * BLOCK as u64);
    if as_batch {
        let read = |offset, buf| Request::Read { offset, buf };
        let mut batch = [read(first, &mut one), read(third, &mut other)];
        volume.run(&mut batch).into_iter().for_each(Result::unwrap);
    } else {
        volume.read_at(&mut one, first).unwrap();
        volume.read_at(&mut other, third).unwrap();
    }
}

/// Readers of a slow cache device, writes to what it has, and misses, with this limit in microseconds until
/// `enough`, and until all that is on its way has come through; what was counted.
fn under(limit_us: u64, as_batch: bool, enough: impl Fn(&Statistics) -> bool) -> Statistics {
    let mut config = Config::new(4 * FRAGMENT, &[8 * FRAGMENT]);
    config.fragment_bytes = FRAGMENT;
    config.throttle.stages =
        [8, 8, 8].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    config.yield_us = limit_us;
    let flash = Arc::new(Slow { inner: MemoryDevice::new(config.cache_bytes), read_ms: AtomicU64::new(0) });
    let disk = Arc::new(MemoryDevice::new(config.volumes[0]));
    let settings = Settings::default();
    let backing: Vec<Option<Arc<dyn Device>>> = vec![Some(disk)];
    let cache =
        BlockCache::start(config.geometry().unwrap(), Arc::clone(&flash) as _, backing, settings).unwrap();
    let volume = cache.volume(0).unwrap();
    wait("a population", || {
        read(&volume, 0, as_batch);
        cache.engine().location(0, 0).is_some()
    });
    flash.read_ms.store(READ_TAKES.as_millis() as u64, SeqCst);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    read(&volume, 0, as_batch);
                }
            });
        }
        wait("a slow read", || cache.statistics().engine.reads_hit > 4);
        let mut round = 0;
        wait("what is to be counted", || {
            round += 1;
            volume.write_at(&[round as u8; BLOCK], BLOCK as u64).unwrap();
            // Others leave for it.
            read(&volume, 1 + round % 7, as_batch);
            enough(&cache.statistics().engine)
        });
        // By and by, while the readers go on.
        let done = cache.statistics().engine.populations_done;
        let mut round = 0;
        wait("a copy and a population", || {
            round += 1;
            if round % 64 == 0 {
                read(&volume, 1 + round / 64 % 7, as_batch);
            }
            let found = cache.statistics().engine;
            found.copy_blocks_used == 0 && found.populations_done > done
        });
    });
    cache.statistics().engine
}

#[test]
fn copies_and_populations_yield_to_slow_reads_and_go_on() {
    for as_batch in [false, true] {
        let found = under(READ_TAKES.as_micros() as u64 / 40, as_batch, |found| {
            found.copies_yielded > 0 && found.populations_yielded > 0
        });
        assert!(found.blocks_validated > 0, "{found:?}");
    }
}

#[test]
fn nothing_yields_below_the_limit_or_without_one() {
    for limit_us in [0, 3_600_000_000] {
        let found = under(limit_us, false, |found| found.blocks_validated > 2 && found.populations_done > 2);
        assert_eq!((found.copies_yielded, found.populations_yielded), (0, 0), "with {limit_us}");
    }
}
