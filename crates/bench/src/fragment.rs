//! The fragment cache: what a read hit costs beside the device, and memory for each fragment.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mezzanine_cached::{BlockCache, CachedVolume, Settings};
use mezzanine_device::{Device, MemoryDevice};
use mezzanine_fragment::{Cache, Config, Next, Stage};
use mezzanine_ground::random::Random;

use crate::report::{Outcome, Row, Scale, median};
use crate::timing::ROUNDS;

const FRAGMENT: u64 = 1 << 20;
const READ: u64 = 8192;
/// Until a fragment has to be in the cache. On a machine that does something else it may take a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cache with room for all of its one volume, of so many fragments, that nothing holds up.
fn config(fragments: u64) -> Config {
    let bytes = fragments * FRAGMENT;
    let mut config = Config::new(bytes, &[bytes]);
    config.fragment_bytes = FRAGMENT;
    config.throttle.stages =
        [8, 8, 8].map(|workers| Stage { workers, miss_percent: 0, free_percent: 0, period_ms: 1 });
    config
}

pub(crate) fn run(scale: Scale) -> Outcome {
    let mut rows = engine(scale.pick(65_536, 256), scale.pick(2_000_000, 20_000))?;
    rows.extend(volume(scale.pick(256, 16), scale.pick(500_000, 2_000))?);
    rows.extend(memory()?);
    Ok(rows)
}

/// Hits of 8 KiB, planned and confirmed `count` times on one thread, and nothing else that repeats: for a
/// counter of instructions.
pub(crate) fn counted(count: u64) -> Outcome {
    let cache = full(64)?;
    let each = hits(&cache, &offsets(1, count, 64));
    Ok(vec![Row::new(format!("{count} read hits of 8 KiB, engine alone"), each, "ns each")])
}

/// Where reads are, anywhere.
fn offsets(seed: u64, count: u64, fragments: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.below(fragments * FRAGMENT / READ) * READ).collect()
}

/// The engine with all of its volume, whose jobs are done without devices.
fn full(fragments: u64) -> Result<Cache, Box<dyn Error>> {
    let cache = Cache::heap(config(fragments).geometry()?);
    let (mut now, mut pieces) = (0, Vec::new());
    for fragment in 0..fragments {
        let offset = fragment * FRAGMENT;
        while cache.location(0, offset).is_none() {
            cache.read(0, offset, READ, &mut pieces)?;
            now += 10_000_000;
            while let Next::Job(job) = cache.next_job(now) {
                cache.done(job, Ok(()));
            }
        }
    }
    Ok(cache)
}

/// Nanoseconds of a hit: where it lies, and whether it counts once the host has read it.
fn hits(cache: &Cache, offsets: &[u64]) -> f64 {
    let mut pieces = Vec::new();
    let begun = Instant::now();
    for offset in offsets {
        let kind = cache.read(0, *offset, READ, &mut pieces);
        let holds = pieces.iter().all(|piece| cache.confirm(piece));
        assert!(black_box(kind).is_ok() && holds, "everything is in the cache");
    }
    begun.elapsed().as_nanos() as f64 / offsets.len() as f64
}

fn engine(fragments: u64, count: u64) -> Outcome {
    let cache = full(fragments)?;
    let [first, second] = [1, 2].map(|seed| offsets(seed, count, fragments));
    let one = median((0..ROUNDS).map(|_| hits(&cache, &first)).collect());
    let two = median((0..ROUNDS).map(|_| both(|| hits(&cache, &first), || hits(&cache, &second))).collect());
    let missed = cache.statistics().reads_missed;
    let size = format!("{fragments} fragments of 1 MiB");
    if missed > fragments * 64 {
        return Err(format!("{missed} reads missed a cache of {size} that has everything").into());
    }
    Ok(vec![
        Row::new(format!("read hit of 8 KiB, engine alone ({size})"), one, "ns"),
        Row::new("read hit of 8 KiB, engine alone, two threads", two, "ns each").beside("one thread", one),
    ])
}

/// The mean of what two threads measure at a time.
fn both(one: impl Fn() -> f64 + Send, other: impl Fn() -> f64) -> f64 {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or(other) + other) / 2.0
    })
}

/// Nanoseconds of a read of 8 KiB of a device.
fn reads(device: &dyn Device, offsets: &[u64]) -> Result<f64, Box<dyn Error>> {
    let mut page = vec![0; READ as usize];
    let begun = Instant::now();
    for offset in offsets {
        device.read_at(&mut page, *offset)?;
        black_box(&page);
    }
    Ok(begun.elapsed().as_nanos() as f64 / offsets.len() as f64)
}

/// Hits through the threaded host, beside bare reads of the cache device, which is memory: the difference is
/// the cache's own time. The two take turns.
fn volume(fragments: u64, count: u64) -> Outcome {
    let config = config(fragments);
    let flash: Arc<dyn Device> = Arc::new(MemoryDevice::new(config.cache_bytes));
    let disk: Arc<dyn Device> = Arc::new(MemoryDevice::new(config.volumes[0]));
    let cache =
        BlockCache::start(config.geometry()?, Arc::clone(&flash), vec![Some(disk)], Settings::default())?;
    let volume = cache.volume(0).ok_or("there is one volume")?;
    bring_in(&cache, &volume, fragments)?;
    let offsets = offsets(3, count, fragments);
    let (mut through, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        through.push(reads(&volume, &offsets)?);
        bare.push(reads(flash.as_ref(), &offsets)?);
    }
    let hits = cache.statistics().engine.reads_hit;
    if hits < ROUNDS as u64 * count {
        return Err(format!("{hits} hits of {} reads", ROUNDS as u64 * count).into());
    }
    let own = through.iter().zip(&bare).map(|(through, bare)| through - bare).collect();
    let (through, bare) = (median(through), median(bare));
    Ok(vec![
        Row::new("read hit of 8 KiB through a cached volume, memory for devices", through, "ns")
            .beside("bare read of the cache device", bare),
        Row::new("of this, the cache's own time", median(own), "ns").beside("wanted: less than", 5000.0),
    ])
}

fn bring_in(cache: &BlockCache, volume: &CachedVolume, fragments: u64) -> Result<(), Box<dyn Error>> {
    let mut page = vec![0; READ as usize];
    for fragment in 0..fragments {
        let begun = Instant::now();
        while cache.engine().location(0, fragment * FRAGMENT).is_none() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("fragment {fragment} does not come in").into());
            }
            volume.read_at(&mut page, fragment * FRAGMENT)?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Bytes of memory, computed: of 1 TiB of cache over 1 TiB of volumes.
fn memory() -> Outcome {
    let mut rows = Vec::new();
    for kib in [128, 512, 1024, 2048, 8192] {
        let mut config = Config::new(1 << 40, &[1 << 40]);
        config.fragment_bytes = kib << 10;
        let memory = config.geometry()?.memory();
        let of = format!("fragments of {kib} KiB");
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        rows.push(Row::new(
            format!("memory for a cached fragment: {of}"),
            memory.per_cached_fragment as f64,
            "bytes",
        ));
        rows.push(Row::new(
            format!("memory for a fragment of a volume: {of}"),
            memory.per_source_fragment as f64,
            "bytes",
        ));
        let buffers = memory.population_buffers + memory.copy_buffers;
        rows.push(Row::new(format!("buffers of populations and copies: {of}"), mib(buffers), "MiB"));
        rows.push(Row::new(format!("memory in all, 1 TiB over 1 TiB: {of}"), mib(memory.total), "MiB"));
    }
    Ok(rows)
}
