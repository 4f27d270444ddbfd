//! Threads of the system's on a cache of few slots, whose device fails now and then.
//!
//! Invariants checked: no request fails that the backing device can serve; a read that begins after a write
//! of a block has ended gets nothing older, and nothing that nobody has begun to write; at the end each block
//! that is valid is the same on both devices, and the engine's rules hold.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use mezzanine_cached::{BlockCache, CachedVolume, Health, ReadMap, Served, Settings};
use mezzanine_device::memory::{Bad, Fault, Injection, Operation};
use mezzanine_device::{Device, DeviceErrorKind, FileDevice, MemoryDevice, OpenOptions, Request};
use mezzanine_fragment::format::Superblock;
use mezzanine_fragment::{Config, Stage};
use mezzanine_ground::random::Random;

const BLOCK: u64 = 4096;
const FRAGMENT: u64 = 128 << 10;
const FRAGMENT_BLOCKS: u64 = FRAGMENT / BLOCK;
/// Of each volume.
const FRAGMENTS: u64 = 6;
const VOLUMES: usize = 2;
const SLOTS: u64 = 4;
const WRITERS: u64 = 2;
const WRITES: u64 = 1500;

fn config() -> Config {
    let mut config = Config::new(SLOTS * FRAGMENT, &[FRAGMENTS * FRAGMENT; VOLUMES]);
    config.fragment_bytes = FRAGMENT;
    config.copy_bytes = 64 * BLOCK;
    config.flights = 32;
    config.shards = 2;
    config.population_workers = 3;
    config.throttle.stages =
        [8, 8, 8].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    config
}

struct World {
    /// Versions begin behind it.
    base: u64,
    cache: BlockCache,
    volumes: Vec<CachedVolume>,
    /// Of each block: the newest version that somebody has begun to write, and that has been written.
    begun: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
    writers: AtomicU64,
    stop: AtomicBool,
}

/// Whose blocks these are: each is written by one thread alone, so its versions have an order. The last
/// quarter of a fragment is everybody's, and discarded as well.
fn owner(block: u64) -> Option<u64> {
    let quarter = block % FRAGMENT_BLOCKS / 8;
    (quarter < 3).then_some(quarter % WRITERS)
}

fn index(volume: usize, block: u64) -> usize {
    volume * (FRAGMENTS * FRAGMENT_BLOCKS) as usize + block as usize
}

impl World {
    fn new(flash: Arc<dyn Device>, backing: Vec<Arc<dyn Device>>) -> World {
        let settings = Settings { suspended_for: Duration::from_millis(5), ..Settings::default() };
        let backing = backing.into_iter().map(Some).collect();
        let cache = BlockCache::start(config().geometry().unwrap(), flash, backing, settings).unwrap();
        World::over(cache, 0, &vec![0; index(VOLUMES, 0)])
    }

    /// Goes on with devices that have these versions of their blocks.
    fn over(cache: BlockCache, base: u64, found: &[u64]) -> World {
        let atomics = || found.iter().map(|&version| AtomicU64::new(version)).collect();
        World {
            base,
            volumes: (0..VOLUMES).map(|volume| cache.volume(volume).unwrap()).collect(),
            cache,
            begun: atomics(),
            ended: atomics(),
            writers: AtomicU64::new(WRITERS),
            stop: AtomicBool::new(false),
        }
    }

    fn write(&self, writer: u64, enough: &(dyn Fn(&World) -> bool + Sync)) {
        let mut random = Random::new(writer + 1);
        let deadline = Instant::now() + Duration::from_secs(300);
        for version in 1.. {
            // On a busy machine the other threads take their time to begin. To look takes a while as well.
            if version > WRITES && version % 64 == 0 && enough(self) {
                break;
            }
            let (found, done) = (|| self.cache.statistics().host, || self.has_done());
            assert!(Instant::now() < deadline, "something never happens: {:?}, {:?}", done(), found());
            let volume = random.below(VOLUMES as u64) as usize;
            let fragment = random.below(FRAGMENTS) * FRAGMENT_BLOCKS;
            let quarter = *random.pick(&[writer, writer, 3]);
            let first = fragment + 8 * quarter + random.below(6);
            let blocks = first..first + random.between(1, 2);
            let value = (self.base + version) << 8 | writer;
            for block in blocks.clone() {
                self.begun[index(volume, block)].fetch_max(value, SeqCst);
            }
            let bytes = (blocks.end - blocks.start) * BLOCK;
            let (data, offset) = (value.to_le_bytes().repeat(bytes as usize / 8), first * BLOCK);
            let device = &self.volumes[volume];
            match random.below(20) {
                0 if quarter == 3 => device.discard(offset, bytes).unwrap(),
                1 => device.write_through(&data, offset).unwrap(),
                2 => {
                    let mut all: Vec<_> = data
                        .chunks(BLOCK as usize)
                        .enumerate()
                        .map(|(at, buf)| Request::write(buf, offset + at as u64 * BLOCK))
                        .collect();
                    all.push(Request::Flush);
                    device.run(&mut all).into_iter().for_each(Result::unwrap);
                }
                _ => device.write_at(&data, offset).unwrap(),
            }
            for block in blocks {
                self.ended[index(volume, block)].fetch_max(value, SeqCst);
            }
        }
        if self.writers.fetch_sub(1, SeqCst) == 1 {
            self.stop.store(true, SeqCst);
        }
    }

    /// Populations, evictions, blocks that copies made valid, reads that hit.
    fn has_done(&self) -> [u64; 4] {
        let found = self.cache.statistics().engine;
        [found.populations_done, found.evictions, found.blocks_validated, found.reads_hit]
    }

    fn read(&self, seed: u64) {
        let mut random = Random::new(seed);
        while !self.stop.load(SeqCst) {
            let volume = random.below(VOLUMES as u64) as usize;
            let first = random.below(FRAGMENTS * FRAGMENT_BLOCKS - 40);
            let blocks = first..first + *random.pick(&[1, 4, 40]);
            let floor: Vec<_> =
                blocks.clone().map(|block| self.ended[index(volume, block)].load(SeqCst)).collect();
            let mut data = vec![0; (blocks.end - blocks.start) as usize * BLOCK as usize];
            let device = &self.volumes[volume];
            if random.chance(1, 4) {
                let middle = data.len() / 2;
                let (left, right) = data.split_at_mut(middle);
                let (offset, middle) = (first * BLOCK, first * BLOCK + left.len() as u64);
                let reads = &mut [
                    Request::Read { offset, buf: left },
                    Request::Read { offset: middle, buf: right },
                    Request::Flush,
                ];
                device.run(reads).into_iter().for_each(Result::unwrap);
            } else {
                device.read_at(&mut data, first * BLOCK).unwrap();
            }
            for (at, (block, bytes)) in blocks.zip(data.chunks_exact(BLOCK as usize)).enumerate() {
                if owner(block).is_none() {
                    continue;
                }
                let range = floor[at]..=self.begun[index(volume, block)].load(SeqCst);
                for value in bytes.chunks_exact(8) {
                    let value = u64::from_le_bytes(value.try_into().unwrap());
                    assert!(
                        range.contains(&value),
                        "block {block} of {volume}: {value:#x}, not of {range:#x?}"
                    );
                }
            }
        }
    }

    /// The usual things have happened often.
    fn has_done_all(&self) -> bool {
        self.has_done().iter().all(|&count| count > 50)
    }

    /// Runs until enough has happened; `beside` goes on meanwhile.
    fn run(&self, enough: impl Fn(&World) -> bool + Sync, beside: impl Fn(&AtomicBool) + Sync) {
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let enough = &enough;
                scope.spawn(move || self.write(writer, enough));
            }
            for seed in [98, 99] {
                scope.spawn(move || self.read(seed));
            }
            scope.spawn(|| beside(&self.stop));
        });
    }

    fn check(&self) {
        let drained = self.cache.drain(Duration::from_secs(30), |_| true);
        assert_eq!(drained.copies_left, 0);
        self.cache.set_population_workers(0);
        let compared = self.cache.compare(|_, _| ()).unwrap();
        assert_eq!((compared.differing, compared.differences.len()), (0, 0), "{compared:?}");
        self.cache.engine().check();
        println!("{} blocks are the same; {:?}", compared.blocks, self.has_done());
    }
}

fn memory() -> Vec<Arc<dyn Device>> {
    (0..VOLUMES).map(|_| Arc::new(MemoryDevice::new(FRAGMENTS * FRAGMENT)) as Arc<dyn Device>).collect()
}

#[test]
fn threads_never_read_what_is_stale() {
    let world = World::new(Arc::new(MemoryDevice::new(SLOTS * FRAGMENT)), memory());
    let all_served = |world: &World| {
        // Nothing waits for marks where there is no map.
        let found = world.cache.statistics().latencies;
        found.iter().all(|(served, latency)| (latency.count() > 0) == (*served != Served::Mark))
    };
    world.run(|world| world.has_done_all() && all_served(world), |_| ());
    world.check();
    let found = world.cache.statistics();
    assert!(found.failures.is_empty() && found.health == Health::Working);
    assert!(all_served(&world), "{:?}", found.volumes);
}

#[test]
fn a_cache_device_that_fails_now_and_then_fails_nobody() {
    let flash = Arc::new(MemoryDevice::new(SLOTS * FRAGMENT));
    let world = World::new(Arc::clone(&flash) as Arc<dyn Device>, memory());
    let seen = |world: &World| {
        let found = world.cache.statistics();
        let of = |operation| found.failures.iter().any(|one| one.operation == operation);
        let failed = of("read") && of("write") && found.engine.async_failed > 0;
        // Refusals in a row suspend reads.
        failed && found.engine.bypass_read_failed > 0 && found.host.bypass_read_suspended > 0
    };
    let enough = |world: &World| world.has_done_all() && seen(world);
    world.run(enough, |stop| {
        let mut random = Random::new(7);
        while !stop.load(SeqCst) {
            let operation = *random.pick(&[Operation::Read, Operation::Write]);
            let kind = *random.pick(&[DeviceErrorKind::Io, DeviceErrorKind::NoSpace]);
            // Often more in a row than are borne.
            let (after, count) = (random.below(20), random.between(1, 40));
            flash.inject(Injection { operation, after, count, fault: Fault::Error(kind) });
            let at = random.below(SLOTS * FRAGMENT / BLOCK) * BLOCK;
            flash.spoil(at, BLOCK, Bad::UnreadableUntilWritten);
            std::thread::sleep(Duration::from_millis(2));
            if random.chance(1, 4) {
                flash.heal();
            }
        }
        flash.heal();
    });
    world.check();
    let found = world.cache.statistics();
    assert!(seen(&world), "{:?}, {:?}", found.failures, found.host);
}

/// The cache device loses its power in the middle of everything, and is back a moment later with less than it
/// had acknowledged.
#[test]
fn a_cache_device_that_lost_power_is_not_believed_again() {
    for seed in 0..3 {
        let flash = Arc::new(MemoryDevice::new(SLOTS * FRAGMENT));
        let world = World::new(Arc::clone(&flash) as Arc<dyn Device>, memory());
        let seen = |world: &World| {
            let found = world.cache.statistics();
            let past = found.host.bypass_write_lost >= 200 && found.host.bypass_read_lost > 0;
            past && found.failures.iter().any(|one| one.reason == "powered_off")
        };
        let is_back = AtomicBool::new(false);
        let enough = |world: &World| is_back.load(SeqCst) && seen(world);
        world.run(enough, |stop| {
            // Everything has happened a few times before.
            while !stop.load(SeqCst) && world.has_done().iter().any(|&count| count < 20) {
                std::thread::sleep(Duration::from_millis(1));
            }
            flash.power().crash_after(1);
            while world.cache.statistics().health != Health::Lost {
                assert!(!stop.load(SeqCst) || world.cache.statistics().health == Health::Lost);
                std::thread::yield_now();
            }
            flash.power_cut(seed);
            flash.power().restore();
            is_back.store(true, SeqCst);
        });
        let found = world.cache.statistics();
        assert_eq!(found.health, Health::Lost);
        assert!(seen(&world), "{:?}, {:?}", found.failures, found.host);
        world.the_backing_devices_have_everything();
    }
}

impl World {
    fn the_backing_devices_have_everything(&self) {
        let mut data = vec![0; BLOCK as usize];
        for (volume, device) in self.volumes.iter().enumerate() {
            for block in (0..FRAGMENTS * FRAGMENT_BLOCKS).filter(|block| owner(*block).is_some()) {
                device.read_at(&mut data, block * BLOCK).unwrap();
                let wanted = self.ended[index(volume, block)].load(SeqCst);
                assert!(data == wanted.to_le_bytes().repeat(BLOCK as usize / 8), "block {block}");
            }
        }
    }
}

#[test]
fn files_are_cached_as_memory_is() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cached-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, len: u64| -> Arc<dyn Device> {
        let options = OpenOptions { len: Some(len), ..OpenOptions::read_write_create() };
        Arc::new(FileDevice::open(folder.join(name), &options).unwrap())
    };
    let backing = (0..VOLUMES).map(|n| file(&format!("disk{n}"), FRAGMENTS * FRAGMENT)).collect();
    let world = World::new(file("flash", SLOTS * FRAGMENT), backing);
    world.run(World::has_done_all, |_| ());
    world.check();
    world.the_backing_devices_have_everything();
    drop(world);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A cache that is closed has what it had when it is opened again, whatever power takes that was not flushed.
#[test]
fn a_map_survives_ends_and_losses_of_power() {
    let bytes = Superblock::new([1; 16], 4 << 20, FRAGMENT).unwrap().layout.data_offset + SLOTS * FRAGMENT;
    let mut superblock = Superblock::new([1; 16], bytes, FRAGMENT).unwrap();
    for volume in 0..VOLUMES as u8 {
        let added =
            superblock.with_volume([volume; 16], &format!("v{volume}"), FRAGMENTS * FRAGMENT, [0; 64]);
        superblock = added.unwrap();
    }
    let flash = Arc::new(MemoryDevice::new(bytes));
    let disks: Vec<_> = (0..VOLUMES).map(|_| Arc::new(MemoryDevice::new(FRAGMENTS * FRAGMENT))).collect();
    let (mut versions, mut had) = (vec![0; index(VOLUMES, 0)], 0);
    for life in 0..5 {
        superblock = superblock.opened();
        let mut config = Config { fragment_bytes: FRAGMENT, ..config() };
        let kept = superblock.config();
        (config.cache_bytes, config.data_offset, config.map) = (bytes, kept.data_offset, kept.map);
        config.map.as_mut().unwrap().settle_ms = 8;
        let backing = disks.iter().map(|disk| Some(Arc::clone(disk) as Arc<dyn Device>)).collect();
        let flash_again = Arc::clone(&flash) as Arc<dyn Device>;
        let geometry = config.geometry().unwrap();
        let map = ReadMap::read(geometry, &*flash).unwrap();
        let found = map.found();
        let cache = BlockCache::recover(map, flash_again, backing, Settings::default(), None).unwrap();
        assert_eq!((found.fragments, found.unstable, found.lost), (had, 0, 0), "life {life}");
        let compared = cache.compare(|_, _| ()).unwrap();
        assert!(compared.differing == 0 && (compared.blocks > 0) == (had > 0), "{compared:?}");
        // More than any life takes.
        let world = World::over(cache, life << 32, &versions);
        world.run(World::has_done_all, |_| ());
        world.volumes.iter().for_each(|volume| volume.flush().unwrap());
        let closed = world.cache.close(Duration::from_secs(30), |_| true);
        let later = world.volumes[0].read_at(&mut [0; BLOCK as usize], 0);
        assert!(later.unwrap_err().to_string().contains("closed"), "nobody is let in any more");
        assert!(closed.is_whole, "{closed:?}: {:?}", world.cache.statistics());
        world.cache.engine().check();
        had = world.cache.statistics().engine.slots_used;
        versions = world.ended.iter().map(|version| version.load(SeqCst)).collect();
        drop(world);
        flash.power_cut(life);
        for disk in &disks {
            disk.power_cut(life);
        }
    }
    assert!(had > 0);
}

#[test]
fn a_map_that_the_cache_device_refuses_fails_nobody_and_is_not_whole() {
    for operation in [Operation::Write, Operation::Flush] {
        let mut superblock = Superblock::new([1; 16], 4 << 20, FRAGMENT).unwrap();
        for volume in 0..VOLUMES as u8 {
            let added =
                superblock.with_volume([volume; 16], &format!("v{volume}"), FRAGMENTS * FRAGMENT, [0; 64]);
            superblock = added.unwrap();
        }
        let flash = Arc::new(MemoryDevice::new(4 << 20));
        let mut config = superblock.opened().config();
        config.throttle = self::config().throttle;
        config.map.as_mut().unwrap().settle_ms = 8;
        let backing = memory().into_iter().map(Some).collect();
        let map = ReadMap::read(config.geometry().unwrap(), &*flash).unwrap();
        let flash_again = Arc::clone(&flash) as Arc<dyn Device>;
        let cache = BlockCache::recover(map, flash_again, backing, Settings::default(), None).unwrap();
        let world = World::over(cache, 0, &vec![0; index(VOLUMES, 0)]);
        // A block of the map is refused in time, as fragments settle and are written to.
        let is_lost = |world: &World| world.cache.statistics().health == Health::Lost;
        world.run(is_lost, |stop| {
            while !stop.load(SeqCst) && world.cache.statistics().engine.populations_done == 0 {
                std::thread::yield_now();
            }
            // Copies may be refused before a block of the map is.
            let fault = Fault::Error(DeviceErrorKind::Io);
            flash.inject(Injection { operation, after: 0, count: u64::MAX, fault });
        });
        world.the_backing_devices_have_everything();
        // What has been populated has to be recorded.
        let closed = world.cache.close(Duration::from_secs(30), |_| true);
        assert!(!closed.is_whole, "{closed:?}");
        assert_eq!(world.cache.statistics().health, Health::Lost);
    }
}
