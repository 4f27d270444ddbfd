//! Real threads on a small cache: what orders of whole steps (`tests/interleave`) do not show, such as two
//! processors at one word.
//!
//! Invariants checked: a read that begins after a write of a block has ended gets nothing older, and nothing
//! that nobody has begun to write, and of one thread nothing older than it has got before; at the end each
//! block that is valid is the same on both devices; the cache's whole-structure rules.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use mezzanine_fragment::{Cache, Config, Job, MapConfig, Next, Piece, Source, Stage};
use mezzanine_ground::random::Random;

const BLOCK: u64 = 4096;
/// Blocks of a fragment of 128 KiB.
const FRAGMENT_BLOCKS: u64 = 32;
const FRAGMENTS: u64 = 4;
const WRITERS: u64 = 2;
/// Bytes of the map.
const MAP: u64 = 4096;
/// Miri is some thousand times slower.
const WRITES: u64 = if cfg!(miri) { 10 } else { 500 };

struct World {
    cache: Cache,
    backing: Vec<AtomicU64>,
    flash: Vec<AtomicU64>,
    /// Of each block: the newest version that somebody has begun to write, and that has been written.
    begun: Vec<AtomicU64>,
    ended: Vec<AtomicU64>,
    now: AtomicU64,
    writers: AtomicU64,
    stop: AtomicBool,
}

fn atomics(count: u64) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// Whose blocks these are: each is written by one thread alone, so its versions have an order. The last
/// quarter of a fragment is everybody's.
fn owner(block: u64) -> Option<u64> {
    let quarter = block % FRAGMENT_BLOCKS / 8;
    (quarter < 3).then_some(quarter % WRITERS)
}

impl World {
    fn new() -> Self {
        let fragment = FRAGMENT_BLOCKS * BLOCK;
        let mut config = Config::new(2 * fragment + MAP, &[FRAGMENTS * fragment]);
        config.data_offset = MAP;
        config.map = Some(MapConfig {
            cache_id: [1; 16],
            epoch: 1,
            volume_numbers: vec![1],
            offset: 0,
            settle_ms: 4,
            waits_per_mille: 10,
        });
        config.fragment_bytes = fragment;
        config.copy_bytes = 32 * BLOCK;
        config.flights = 16;
        config.shards = 2;
        config.population_workers = 3;
        config.throttle.stages =
            [8, 8, 8].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
        Self {
            cache: Cache::heap(config.geometry().unwrap()),
            backing: atomics(FRAGMENTS * FRAGMENT_BLOCKS),
            flash: atomics(2 * FRAGMENT_BLOCKS + MAP / BLOCK),
            begun: atomics(FRAGMENTS * FRAGMENT_BLOCKS),
            ended: atomics(FRAGMENTS * FRAGMENT_BLOCKS),
            now: AtomicU64::new(0),
            writers: AtomicU64::new(WRITERS),
            stop: AtomicBool::new(false),
        }
    }

    fn write(&self, writer: u64) {
        let mut random = Random::new(writer + 1);
        for version in 1.. {
            // On a busy machine the other threads take their time to begin.
            if version > WRITES && (cfg!(miri) || self.has_done().iter().all(|&count| count > 100)) {
                break;
            }
            assert!(version < 1000 * WRITES, "something never happens: {:?}", self.cache.statistics());
            let fragment = random.below(FRAGMENTS) * FRAGMENT_BLOCKS;
            let quarter = *random.pick(&[writer, writer, 3]);
            let first = fragment + 8 * quarter + random.below(6);
            let blocks = first..first + random.between(1, 2);
            let value = version << 8 | writer;
            for block in blocks.clone() {
                self.begun[block as usize].fetch_max(value, SeqCst);
            }
            let bytes = ((blocks.end - blocks.start) * BLOCK) as usize;
            let token = if random.chance(1, 50) {
                self.cache.discard_begin(0, first * BLOCK, bytes as u64).unwrap()
            } else {
                self.cache.write_begin(0, first * BLOCK, &value.to_le_bytes().repeat(bytes / 8)).unwrap()
            };
            while token.waits_for() > self.cache.marks_durable() {
                std::thread::yield_now();
            }
            for block in blocks.clone() {
                self.backing[block as usize].store(value, SeqCst);
            }
            self.cache.write_end(token, Ok(()));
            for block in blocks {
                self.ended[block as usize].fetch_max(value, SeqCst);
            }
            std::thread::yield_now();
        }
        if self.writers.fetch_sub(1, SeqCst) == 1 {
            self.stop.store(true, SeqCst);
        }
    }

    /// Populations, evictions, blocks that copies made valid, reads that hit, fragments that settled.
    fn has_done(&self) -> [u64; 5] {
        let found = self.cache.statistics();
        [found.populations_done, found.evictions, found.blocks_validated, found.reads_hit, found.settled]
    }

    fn read(&self) {
        let (mut random, mut pieces) = (Random::new(99), Vec::new());
        let mut seen = [0; (FRAGMENTS * FRAGMENT_BLOCKS) as usize];
        while !self.stop.load(SeqCst) {
            let first = random.below(FRAGMENTS) * FRAGMENT_BLOCKS + random.below(FRAGMENT_BLOCKS - 4);
            let floor: Vec<_> =
                (first..first + 4).map(|block| self.ended[block as usize].load(SeqCst)).collect();
            self.cache.read(0, first * BLOCK, 4 * BLOCK, &mut pieces).unwrap();
            for piece in &pieces {
                let mut got = self.piece(piece, piece.source);
                if !self.cache.confirm(piece) {
                    got = self.piece(piece, Source::Backing);
                    self.cache.was_read(0, piece.offset, piece.bytes).unwrap();
                }
                for (block, value) in got.into_iter().filter(|(block, _)| owner(*block).is_some()) {
                    let (least, most) =
                        (floor[(block - first) as usize], self.begun[block as usize].load(SeqCst));
                    let range = least..=most;
                    assert!(
                        seen[block as usize] <= value,
                        "block {block} was read as {value:#x} after {:#x}",
                        seen[block as usize]
                    );
                    seen[block as usize] = value;
                    assert!(
                        range.contains(&value),
                        "block {block} was read as {value:#x}, not of {range:#x?}"
                    );
                }
            }
        }
    }

    fn piece(&self, piece: &Piece, source: Source) -> Vec<(u64, u64)> {
        let first = piece.offset / BLOCK;
        let value = |block: u64| match source {
            Source::Backing => self.backing[block as usize].load(SeqCst),
            Source::Cache(offset) => self.flash[(offset / BLOCK + block - first) as usize].load(SeqCst),
        };
        (first..first + piece.bytes / BLOCK).map(|block| (block, value(block))).collect()
    }

    fn work(&self) -> bool {
        let Next::Job(mut job) = self.cache.next_job(self.now.fetch_add(1_000_000, SeqCst)) else {
            return false;
        };
        match &mut job {
            Job::WriteBlocks(write) => {
                write.writes().for_each(|(offset, bytes)| self.set_flash(offset, bytes))
            }
            Job::WriteFragment(write) => self.set_flash(write.offset(), write.data()),
            Job::WriteMap(write) => self.set_flash(write.offset(), write.data()),
            Job::FlushCache(_) | Job::FlushBacking(_) => {}
            Job::ReadFragment(read) => {
                let first = read.offset() / BLOCK;
                for (at, bytes) in read.buffer().chunks_exact_mut(BLOCK as usize).enumerate() {
                    let value = self.backing[first as usize + at].load(SeqCst);
                    bytes[..8].copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        self.cache.done(job, Ok(()));
        true
    }

    fn set_flash(&self, offset: u64, bytes: &[u8]) {
        for (at, bytes) in bytes.chunks_exact(BLOCK as usize).enumerate() {
            let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            self.flash[(offset / BLOCK) as usize + at].store(value, SeqCst);
        }
    }
}

#[test]
fn threads_never_read_what_is_stale() {
    let world = World::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let world = &world;
            scope.spawn(move || world.write(writer));
        }
        scope.spawn(|| world.read());
        for _ in 0..2 {
            scope.spawn(|| {
                while !world.stop.load(SeqCst) {
                    if !world.work() {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    for _ in 0..100 {
        world.work();
    }
    world.cache.check();
    let mut valid = 0;
    for (block, there) in world.backing.iter().enumerate() {
        if let Some(at) = world.cache.location(0, block as u64 * BLOCK) {
            valid += 1;
            let cached = world.flash[(at / BLOCK) as usize].load(SeqCst);
            assert_eq!(cached, there.load(SeqCst), "block {block} is valid and stale");
        }
    }
    let did = world.has_done();
    println!("{valid} blocks are valid; populations, evictions, blocks validated, hits, settled: {did:?}");
}
