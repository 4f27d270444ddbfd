//! Live sizing in the host: the same table as that of the engine alone in virtual time, as simulators drive
//! it, and within its memory for every cache that can be made.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mezzanine_cached::{BlockCache, Settings};
use mezzanine_device::{Device, MemoryDevice};
use mezzanine_fragment::format::Superblock;
use mezzanine_fragment::{Cache, Config, Next, Sizing, SizingConfig, SizingTable, Stage, VOLUMES_MAX};
use mezzanine_ground::random::Random;

const BLOCK: u64 = 4096;
const FRAGMENT: u64 = 128 << 10;
const SLOTS: u64 = 32;
const FRAGMENTS: u64 = 96;
/// Requests that a table is looked at after.
const ROUND: u32 = 4000;
/// How far two tables are apart at most, in parts of all reads.
const APART: f64 = 0.03;

fn config() -> Config {
    let mut config = Config::new(SLOTS * FRAGMENT, &[FRAGMENTS * FRAGMENT]);
    config.fragment_bytes = FRAGMENT;
    // One at a time and seldom, so that hardly a slot is on its way in, whatever the machine is like.
    config.throttle.stages =
        [1, 1, 1].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 10 });
    config
}

/// Reads spread evenly, with a write now and then: of those a cache hits as large a share as it has room for,
/// however fast it populates.
fn request(random: &mut Random) -> (u64, bool) {
    let offset = random.below(FRAGMENTS * FRAGMENT / BLOCK) * BLOCK;
    (offset, random.chance(1, 50))
}

/// The engine without a host: a request each 100 microseconds, and devices that take no time.
fn simulated(requests: u32) -> SizingTable {
    let geometry = config().geometry().unwrap();
    let sizing = Sizing::new(&geometry, &SizingConfig::of(&geometry)).unwrap();
    let cache = Cache::heap(geometry).with_sizing(sizing);
    let (mut random, mut pieces) = (Random::new(5), Vec::new());
    for number in 0..u64::from(requests) {
        let (offset, writes) = request(&mut random);
        if writes {
            let token = cache.write_begin(0, offset, &[0; BLOCK as usize]).unwrap();
            cache.write_end(token, Ok(()));
        } else {
            pieces.clear();
            cache.read(0, offset, BLOCK, &mut pieces).unwrap();
        }
        while let Next::Job(job) = cache.next_job(number * 100_000) {
            cache.done(job, Ok(()));
        }
    }
    cache.sizing_table().unwrap()
}

fn hits(table: &SizingTable) -> Vec<f64> {
    let rows = table.rows.iter().map(|row| row.hit_ratio.unwrap());
    std::iter::once(table.hit_ratio.unwrap()).chain(rows).collect()
}

#[test]
fn the_host_has_the_table_of_the_simulated_engine() {
    let wanted = simulated(50 * ROUND);
    let (flash, disk) = (MemoryDevice::new(SLOTS * FRAGMENT), MemoryDevice::new(FRAGMENTS * FRAGMENT));
    let settings = Settings { sizing: true, ..Settings::default() };
    let backing: Vec<Option<Arc<dyn Device>>> = vec![Some(Arc::new(disk))];
    let cache = BlockCache::start(config().geometry().unwrap(), Arc::new(flash), backing, settings).unwrap();
    let volume = cache.volume(0).unwrap();
    let before = cache.sizing_table().unwrap();
    assert_eq!((before.reads, before.hit_ratio), (0, None));
    let (mut random, begun) = (Random::new(5), Instant::now());
    let (mut reads, mut written) = (0, 0);
    // Until what the beginning was like does not matter any more.
    let found = loop {
        for _ in 0..ROUND {
            let (offset, writes) = request(&mut random);
            if writes {
                volume.write_at(&[0; BLOCK as usize], offset).unwrap();
                written += 1;
            } else {
                volume.read_at(&mut [0; BLOCK as usize], offset).unwrap();
                reads += 1;
            }
        }
        let found = cache.sizing_table().unwrap();
        assert_eq!(found.reads, reads);
        let is_near = |(a, b): (f64, f64)| (a - b).abs() < APART;
        if hits(&found).into_iter().zip(hits(&wanted)).all(is_near) {
            break found;
        }
        assert!(begun.elapsed() < Duration::from_secs(240), "{found}\nis not that of the engine:\n{wanted}");
    };
    println!("{found}\nafter {reads} reads and {written} writes; of the engine alone\n{wanted}");
    // Which is what it should be: the room's share of the fragments.
    let sizes: Vec<u64> = found.rows.iter().map(|row| row.cache_bytes / FRAGMENT).collect();
    assert_eq!(sizes[..4], [SLOTS / 2, SLOTS, 2 * SLOTS, 4 * SLOTS]);
    for (row, slots) in found.rows.iter().zip([SLOTS / 2, SLOTS, 2 * SLOTS, FRAGMENTS]) {
        let right = slots as f64 / FRAGMENTS as f64;
        assert!((row.hit_ratio.unwrap() - right).abs() < 0.1, "{right}: {row:?}");
    }
    assert!(found.memory_bytes <= 1 << 20 && found.written_per_day.unwrap() > 0.0);
    assert_eq!(found.memory_bytes, wanted.memory_bytes);
}

#[test]
fn who_does_not_ask_for_it_has_none() {
    let start = |config: Config, sizing| {
        let settings = Settings { sizing, ..Settings::default() };
        let flash = Arc::new(MemoryDevice::new(config.cache_bytes));
        BlockCache::start(config.geometry().unwrap(), flash, vec![None], settings).unwrap()
    };
    assert_eq!(start(config(), false).sizing_table(), None);
    // No size would have anything.
    assert_eq!(start(Config { population_workers: 0, ..config() }, true).sizing_table(), None);
    assert!(start(config(), true).sizing_table().is_some());
}

/// The command has it for every cache, so none may be refused for it.
#[test]
fn every_cache_that_can_be_made_has_room_for_its_miniatures() {
    let mut made = 0;
    for bits in 17..=23 {
        for cache_bytes in [1 << 20, 3 << 20, 40 << 20, 1 << 30, 1 << 37, 5 << 40, 64 << 40] {
            for volumes in [1, 3, VOLUMES_MAX] {
                let Ok(mut superblock) = Superblock::new([1; 16], cache_bytes, 1 << bits) else { continue };
                for number in 0..volumes {
                    let mut id = [0; 16];
                    id[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
                    let with = superblock.with_volume(id, &format!("v{number}"), 1 << 30, [0; 64]);
                    // The map of one as large as this has no place there.
                    let Ok(with) = with else { break };
                    superblock = with;
                }
                for workers in [1, 8] {
                    let config = Config { population_workers: workers, ..superblock.opened().config() };
                    let Ok(geometry) = config.geometry() else { continue };
                    let sizing = Sizing::new(&geometry, &SizingConfig::of(&geometry));
                    let bytes = sizing.map(|sizing| sizing.memory_bytes());
                    let bytes = bytes.unwrap_or_else(|error| panic!("{bits}, {cache_bytes}: {error}"));
                    assert!(bytes <= 1 << 20, "{bits}, {cache_bytes}, {volumes}: {bytes}");
                    made += 1;
                }
            }
        }
    }
    println!("{made} geometries");
    assert!(made > 100, "{made}");
}
