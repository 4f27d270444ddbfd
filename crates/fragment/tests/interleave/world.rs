//! A cache over devices in memory, a block at a time: before each block another thread may go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use mezzanine_fragment::{Cache, Config, Job, Next, Piece, Source, Stage};
use mezzanine_ground::interleave::{explore, point};

use crate::history::History;
use crate::records::{self, Records};

const BLOCK: u64 = 4096;
/// Blocks of each volume: one fragment, and a short one, so that populations take few steps.
pub(crate) const BLOCKS: u64 = 4;
const FRAGMENT: u64 = 128 << 10;

/// One of several threads that run side by side.
pub(crate) type Thread = fn(&World);

pub(crate) struct World {
    cache: Cache,
    // Standard locks: none is held at a point, so no thread of shuttle's ever waits for one.
    backing: Mutex<Vec<History>>,
    flash: Mutex<Vec<u64>>,
    records: Mutex<Records>,
    steps: AtomicU64,
    now: AtomicU64,
    finished: AtomicBool,
    /// Slots that may be written to.
    slots: AtomicU64,
}

fn page(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK as usize / 8)
}

fn value_of(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

impl World {
    /// So many volumes on a cache device that has room for so many of them, and copies of so many blocks.
    pub(crate) fn new(volumes: u64, slots: u64, copies: u64) -> Self {
        Self::with_flights(volumes, slots, copies, 8)
    }

    pub(crate) fn with_flights(volumes: u64, slots: u64, copies: u64, flights: u32) -> Self {
        Self::with(volumes, slots, |config| {
            config.copy_bytes = copies * BLOCK;
            config.flights = flights;
        })
    }

    /// The same with a map.
    pub(crate) fn with_map(volumes: u64, slots: u64) -> Self {
        Self::with_map_and_copies(volumes, slots, 16)
    }

    pub(crate) fn with_map_and_copies(volumes: u64, slots: u64, copies: u64) -> Self {
        Self::with(volumes, slots, |config| {
            config.copy_bytes = copies * BLOCK;
            config.map = Some(records::config(volumes));
            config.data_offset = BLOCK;
            config.cache_bytes += BLOCK;
        })
    }

    fn with(volumes: u64, slots: u64, change: impl Fn(&mut Config)) -> Self {
        explore(false);
        let mut config = Config::new(slots * FRAGMENT, &vec![BLOCKS * BLOCK; volumes as usize]);
        config.fragment_bytes = FRAGMENT;
        config.shards = 2;
        config.population_workers = 2;
        config.copy_bytes = 16 * BLOCK;
        config.flights = 8;
        config.throttle.stages =
            [2, 2, 2].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
        change(&mut config);
        Self {
            cache: Cache::heap(config.geometry().unwrap()),
            backing: Mutex::new((1..=volumes * BLOCKS).map(History::new).collect()),
            flash: Mutex::new(vec![u64::MAX; (config.cache_bytes / BLOCK) as usize]),
            records: Mutex::new(Records::new()),
            steps: AtomicU64::new(1),
            now: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            slots: AtomicU64::new(slots),
        }
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn backing(&self) -> MutexGuard<'_, Vec<History>> {
        self.backing.lock().unwrap()
    }

    fn set(&self, volume: usize, block: u64, value: u64) {
        point();
        let step = self.step();
        self.records.lock().unwrap().assert_unstable(volume, block);
        self.backing()[volume * BLOCKS as usize + block as usize].set(step, value);
    }

    fn get(&self, volume: usize, block: u64) -> u64 {
        point();
        self.step();
        self.backing()[volume * BLOCKS as usize + block as usize].now()
    }

    fn set_flash(&self, offset: u64, value: u64) {
        point();
        self.step();
        self.flash.lock().unwrap()[(offset / BLOCK) as usize] = value;
    }

    /// Writes blocks of a volume.
    pub(crate) fn write(&self, volume: usize, first: u64, blocks: u64) {
        let value = self.step() << 8;
        let data: Vec<u8> = (first..first + blocks).flat_map(|block| page(value | block)).collect();
        let token = self.cache.write_begin(volume, first * BLOCK, &data).unwrap();
        while token.waits_for() > self.cache.marks_durable() {
            shuttle::thread::yield_now();
        }
        for block in first..first + blocks {
            self.set(volume, block, value | block);
        }
        self.cache.write_end(token, Ok(()));
        self.answered(volume, first..first + blocks, value);
    }

    /// Whoever has written these blocks is told that they are written.
    fn answered(&self, volume: usize, blocks: std::ops::Range<u64>, value: u64) {
        let step = self.step();
        for block in blocks {
            self.backing()[volume * BLOCKS as usize + block as usize].answered(step, value | block);
        }
    }

    /// Discards blocks of a volume.
    pub(crate) fn discard(&self, volume: usize, first: u64, blocks: u64) {
        let token = self.cache.discard_begin(volume, first * BLOCK, blocks * BLOCK).unwrap();
        let value = self.step() << 8;
        for block in first..first + blocks {
            self.set(volume, block, value | block);
        }
        self.cache.write_end(token, Ok(()));
        self.answered(volume, first..first + blocks, value);
    }

    /// Reads blocks of a volume and checks that the backing device had them meanwhile.
    pub(crate) fn read(&self, volume: usize, first: u64, blocks: u64) {
        let (begun, mut pieces) = (self.step(), Vec::new());
        self.cache.read(volume, first * BLOCK, blocks * BLOCK, &mut pieces).unwrap();
        for piece in &pieces {
            let mut values = self.read_piece(volume, piece, piece.source);
            if !self.cache.confirm(piece) {
                values = self.read_piece(volume, piece, Source::Backing);
                self.cache.was_read(volume, piece.offset, piece.bytes).unwrap();
            }
            let end = self.step();
            let mut backing = self.backing();
            for (block, value) in values {
                let history = &mut backing[volume * BLOCKS as usize + block as usize];
                let now = history.now();
                assert!(
                    history.had(value, begun, end),
                    "block {block} of {volume} was read as {value:#x}: it is {now:#x}"
                );
                assert!(
                    history.is_in_order(value, begun, end),
                    "block {block} of {volume} was read as {value:#x}, and as something later before"
                );
            }
        }
    }

    fn read_piece(&self, volume: usize, piece: &Piece, source: Source) -> Vec<(u64, u64)> {
        let blocks = piece.offset / BLOCK..(piece.offset + piece.bytes) / BLOCK;
        let value = |block: u64| match source {
            Source::Backing => self.get(volume, block),
            Source::Cache(offset) => {
                point();
                self.flash.lock().unwrap()[(offset / BLOCK + block - piece.offset / BLOCK) as usize]
            }
        };
        blocks.map(|block| (block, value(block))).collect()
    }

    /// Does a job if there is one; false if there is none.
    pub(crate) fn work(&self) -> bool {
        let now = self.now.fetch_add(1_000_000, Ordering::Relaxed);
        let Next::Job(mut job) = self.cache.next_job(now) else {
            return false;
        };
        match &mut job {
            Job::WriteBlocks(write) => {
                for (offset, bytes) in write.writes() {
                    self.write_flash(offset, bytes);
                }
            }
            Job::WriteFragment(write) => self.write_flash(write.offset(), write.data()),
            Job::WriteMap(write) => {
                point();
                self.records.lock().unwrap().write(write.data());
            }
            Job::FlushCache(_) => {
                let until = self.records.lock().unwrap().flush_begin();
                point();
                self.records.lock().unwrap().flush_end(until);
            }
            Job::FlushBacking(_) => point(),
            Job::ReadFragment(read) => {
                let volume = read.volume();
                for (block, bytes) in read.buffer().chunks_exact_mut(BLOCK as usize).enumerate() {
                    bytes.copy_from_slice(&page(self.get(volume, block as u64)));
                }
            }
        }
        self.cache.done(job, Ok(()));
        true
    }

    fn write_flash(&self, offset: u64, bytes: &[u8]) {
        let data_offset = self.cache.geometry().data_offset();
        let slot = ((offset - data_offset) / FRAGMENT) as u32;
        for (block, bytes) in bytes.chunks_exact(BLOCK as usize).enumerate() {
            self.records.lock().unwrap().assert_slot_unstable(slot);
            let slots = self.slots.load(Ordering::Relaxed);
            assert!(u64::from(slot) < slots, "slot {slot} is written to, and the cache has {slots}");
            self.set_flash(offset + block as u64 * BLOCK, value_of(bytes));
        }
    }

    /// Has a volume's fragment come into the cache, with nothing else going on.
    pub(crate) fn populate(&self, volume: usize) {
        self.read(volume, 0, 1);
        while self.cache.location(volume, 0).is_none() {
            self.work();
        }
    }

    /// Has the cache shrink to so many slots, and waits until it has.
    pub(crate) fn shrink(&self, slots: u64) {
        self.cache.resize(slots * FRAGMENT).unwrap();
        while !self.cache.is_resized() {
            if !self.work() {
                shuttle::thread::yield_now();
            }
        }
        self.slots.store(slots, Ordering::Relaxed);
    }

    /// Has the cache grow to so many slots.
    pub(crate) fn grow(&self, slots: u64) {
        self.slots.store(slots, Ordering::Relaxed);
        self.cache.resize(slots * FRAGMENT).unwrap();
    }

    /// Waits until a volume's fragment, whose population has begun, is in the cache.
    pub(crate) fn populate_begun(&self, volume: usize) {
        while self.cache.location(volume, 0).is_none() {
            if !self.work() {
                shuttle::thread::yield_now();
            }
        }
    }

    pub(crate) fn quiesce(&self) {
        self.cache.quiesce();
    }

    /// Has all that is in the cache be stable.
    pub(crate) fn stabilise(&self) {
        self.cache.quiesce();
        while !self.cache.is_settled() {
            self.work();
        }
        self.cache.resume();
    }

    /// Runs `threads` side by side, and `workers` threads that carry out jobs until those have returned. Then
    /// checks the cache.
    pub(crate) fn run(self, workers: usize, threads: &[Thread]) {
        let world = Arc::new(self);
        let spawn = |thread: Thread| {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || thread(&world))
        };
        let work: Thread = |world| {
            while !world.finished.load(Ordering::Relaxed) {
                if !world.work() {
                    shuttle::thread::yield_now();
                }
            }
        };
        explore(true);
        let workers: Vec<_> = (0..workers).map(|_| spawn(work)).collect();
        let threads: Vec<_> = threads.iter().copied().map(spawn).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        world.finished.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap();
        }
        explore(false);
        world.settle();
    }

    /// Finishes what is left to do, and compares what is valid with the backing devices.
    fn settle(&self) {
        let mut idle = 0;
        while idle < 10 {
            idle = if self.work() { 0 } else { idle + 1 };
        }
        self.cache.check();
        let (backing, flash) = (self.backing(), self.flash.lock().unwrap());
        for (at, history) in backing.iter().enumerate() {
            let (volume, block) = (at / BLOCKS as usize, at as u64 % BLOCKS);
            if let Some(offset) = self.cache.location(volume, block * BLOCK) {
                let cached = flash[(offset / BLOCK) as usize];
                assert_eq!(cached, history.now(), "block {block} of volume {volume} is valid and stale");
            }
        }
    }
}
