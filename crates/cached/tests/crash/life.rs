//! One life of a host: a cache is opened as the superblock and the voucher say, and worked on by threads.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mezzanine_cached::{
    BlockCache, CachedVolume, Opening, ReadMap, Resized, Settings, Voucher, make_room, opening_of,
    read_superblocks, set_opening, write_superblock,
};
use mezzanine_device::{Device, Request};
use mezzanine_fragment::format::Superblock;
use mezzanine_fragment::{Recovered, Stage, WAITS_PER_MILLE, WAITS_PER_MILLE_MAX};
use mezzanine_ground::random::Random;

pub(crate) const BLOCK: u64 = 4096;
pub(crate) const FRAGMENT: u64 = 128 << 10;
pub(crate) const BLOCKS: u64 = FRAGMENT / BLOCK;
pub(crate) const FRAGMENTS: u64 = 24;
pub(crate) const VOLUMES: usize = 2;
pub(crate) const SLOTS: u64 = 32;
/// Short, so that fragments settle and are written to again all the time.
const SETTLE_MS: u64 = 12;

pub(crate) struct Devices {
    pub(crate) flash: Arc<dyn Device>,
    pub(crate) disks: Vec<Arc<dyn Device>>,
    pub(crate) settings: Settings,
}

/// What a cache was opened with.
pub(crate) struct Opened {
    pub(crate) cache: BlockCache,
    pub(crate) volumes: Vec<CachedVolume>,
    pub(crate) found: Recovered,
    pub(crate) opening: Opening,
    /// What was before was vouched for.
    pub(crate) was_vouched: bool,
    pub(crate) superblock: Mutex<Superblock>,
}

pub(crate) fn cache_bytes() -> u64 {
    Superblock::new([1; 16], 16 << 20, FRAGMENT).unwrap().layout.data_offset + SLOTS * FRAGMENT
}

pub(crate) fn make(flash: &dyn Device) {
    let mut superblock = Superblock::new([1; 16], cache_bytes(), FRAGMENT).unwrap();
    for volume in 0..VOLUMES as u8 {
        let name = format!("v{volume}");
        superblock = superblock.with_volume([volume; 16], &name, FRAGMENTS * FRAGMENT, [0; 64]).unwrap();
    }
    write_superblock(flash, &superblock, 0).unwrap();
}

/// As a program does it: what nothing vouches for begins empty.
pub(crate) fn open(
    devices: &Devices,
    number: u64,
    vouches: impl Fn(Opening) -> bool,
    issue: impl FnOnce(Opening) -> Box<dyn Voucher>,
) -> Opened {
    let read = read_superblocks(&*devices.flash).unwrap();
    let mut superblock = read.newest;
    let was_vouched = opening_of(&superblock).is_none_or(vouches);
    if !was_vouched {
        superblock = superblock.reinitialised((u128::from(number) << 8 | 7).to_le_bytes());
    }
    let mut superblock = superblock.opened();
    let mut bytes = [0x55; 16];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    let opening = Opening(bytes);
    set_opening(&mut superblock, opening);
    let mut config = superblock.config();
    config.copy_bytes = 64 * BLOCK;
    config.flights = 64;
    config.population_workers = 3;
    config.throttle.stages =
        [8, 8, 8].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    let map = config.map.as_mut().unwrap();
    map.settle_ms = SETTLE_MS;
    // What is written to all the time is held unstable, and is not there after a crash: not in every life.
    map.waits_per_mille = if number % 3 == 0 { WAITS_PER_MILLE } else { WAITS_PER_MILLE_MAX };
    let map = ReadMap::read(config.geometry().unwrap(), &*devices.flash).unwrap();
    let found = map.found();
    for (volume, disk) in devices.disks.iter().enumerate() {
        let within = Duration::from_secs(5);
        let sampled = map.compare_some(volume, &*devices.flash, &**disk, (number, 50), within).unwrap();
        assert_eq!((sampled.differing, sampled.first), (0, None), "life {number}, volume {volume}");
    }
    // Vouched for before it is noted as this opening's: a crash in between leaves the one or the other.
    let voucher = issue(opening);
    write_superblock(&*devices.flash, &superblock, read.write_first).unwrap();
    let backing = devices.disks.iter().map(|disk| Some(Arc::clone(disk))).collect();
    let flash = Arc::clone(&devices.flash);
    let cache = BlockCache::recover(map, flash, backing, devices.settings.clone(), Some(voucher)).unwrap();
    let volumes = (0..VOLUMES).map(|volume| cache.volume(volume).unwrap()).collect();
    Opened { cache, volumes, found, opening, was_vouched, superblock: Mutex::new(superblock) }
}

pub(crate) fn index(volume: usize, block: u64) -> usize {
    volume * (FRAGMENTS * BLOCKS) as usize + block as usize
}

/// What has been begun and ended of each block; each is written by one thread alone.
pub(crate) struct Model {
    pub(crate) begun: Vec<AtomicU64>,
    pub(crate) ended: Vec<AtomicU64>,
}

impl Model {
    pub(crate) fn new() -> Model {
        let all = || (0..index(VOLUMES, 0)).map(|_| AtomicU64::new(0)).collect();
        Model { begun: all(), ended: all() }
    }
}

impl Opened {
    /// Every block, by the cache and past it; and the comparison of all that is cached.
    pub(crate) fn check(&self, devices: &Devices, model: Option<(&Model, bool)>, what: &str) {
        let compared = self.cache.compare(|_, _| ()).unwrap();
        assert_eq!((compared.differing, compared.unreadable), (0, 0), "{what}: {compared:?}");
        let [mut cached, mut own] = [0; 2].map(|_| vec![0; FRAGMENT as usize]);
        for (volume, disk) in devices.disks.iter().enumerate() {
            for fragment in 0..FRAGMENTS {
                self.volumes[volume].read_at(&mut cached, fragment * FRAGMENT).unwrap();
                disk.read_at(&mut own, fragment * FRAGMENT).unwrap();
                assert!(cached == own, "{what}: fragment {fragment} of volume {volume}");
                let Some((model, is_kept)) = model else { continue };
                for (at, bytes) in own.chunks_exact(BLOCK as usize).enumerate() {
                    let block = index(volume, fragment * BLOCKS + at as u64);
                    let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    let range = model.ended[block].load(SeqCst)..=model.begun[block].load(SeqCst);
                    assert!(!is_kept || range.contains(&version), "{what}: {version} is not of {range:?}");
                    model.begun[block].store(version, SeqCst);
                    model.ended[block].store(version, SeqCst);
                }
            }
        }
    }

    /// Writes until it is told to stop, or a request fails. Most writes go to a third of the fragments.
    pub(crate) fn write(&self, writer: u64, writers: u64, seed: u64, model: &Model, stop: impl Fn() -> bool) {
        let mut random = Random::new(seed);
        for step in 1.. {
            if stop() {
                break;
            }
            let volume = random.below(VOLUMES as u64) as usize;
            let hot = random.chance(9, 10);
            let fragment = if hot { random.below(FRAGMENTS / 3) } else { random.below(FRAGMENTS) };
            // A writer's blocks are those of its part of each fragment.
            let part = BLOCKS / writers;
            let first = fragment * BLOCKS + writer * part + random.below(part - 1);
            let blocks = first..first + random.between(1, 2);
            let version = seed << 24 | step;
            let data = version.to_le_bytes().repeat(((blocks.end - blocks.start) * BLOCK / 8) as usize);
            blocks.clone().for_each(|block| model.begun[index(volume, block)].store(version, SeqCst));
            let device = &self.volumes[volume];
            let done = match random.below(8) {
                0 => device.write_through(&data, first * BLOCK),
                1 => {
                    let write = Request::write(&data, first * BLOCK);
                    device.run(&mut [write, Request::Flush]).into_iter().collect()
                }
                _ => device.write_at(&data, first * BLOCK),
            };
            if done.is_err() {
                break;
            }
            blocks.for_each(|block| model.ended[index(volume, block)].store(version, SeqCst));
            if random.chance(1, 8) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// Has the cache use so many slots, as a program does it. What the superblock says then is not known if
    /// that fails.
    pub(crate) fn resize(
        &self,
        devices: &Devices,
        slots: u64,
        within: Duration,
    ) -> Result<Resized, Box<dyn std::error::Error>> {
        let mut superblock = self.superblock.lock().unwrap();
        let bytes = superblock.layout.end_of(slots);
        let resized = superblock.resized(bytes)?;
        make_room(&*devices.flash, bytes)?;
        write_superblock(&*devices.flash, &resized, 0)?;
        *superblock = resized;
        Ok(self.cache.resize(slots as u32, within, |_| true)?)
    }

    /// Reads until it is told to stop, or a request fails.
    pub(crate) fn read(&self, seed: u64, model: &Model, stop: impl Fn() -> bool) {
        let mut random = Random::new(seed);
        let mut data = vec![0; BLOCK as usize];
        while !stop() {
            let volume = random.below(VOLUMES as u64) as usize;
            let block = random.below(FRAGMENTS * BLOCKS);
            let floor = model.ended[index(volume, block)].load(SeqCst);
            if self.volumes[volume].read_at(&mut data, block * BLOCK).is_err() {
                break;
            }
            let version = u64::from_le_bytes(data[..8].try_into().unwrap());
            let range = floor..=model.begun[index(volume, block)].load(SeqCst);
            assert!(range.contains(&version), "block {block} of {volume}: {version}, not of {range:?}");
        }
    }
}
