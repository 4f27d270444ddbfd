//! What the foreground pays: lookup and stage-in.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::time::Instant;

use mezzanine_engine::{PageId, TierConfig};

use crate::host::MemoryHost;
use crate::report::{Outcome, Row, Scale, median};
use crate::timing::{BATCH, PAGE, ROUNDS, Work, copies, ids, staged_lookups, staging_copies};

/// Threads that are many more than there are processors.
const MANY_THREADS: usize = 32;

pub(crate) fn run(scale: Scale, frames: u64) -> Outcome {
    let mut rows = lookups(scale, scale.pick(frames, 4096))?;
    rows.extend(stage_ins(scale)?);
    rows.extend(copies_of_staging(scale)?);
    Ok(rows)
}

/// Over the same pages, `count` of them, in a queue that is full: stage-ins, then lookups, one in a call and
/// many.
pub(crate) fn counted(count: u64) -> Outcome {
    let frames = 4096;
    let host = MemoryHost::new(&TierConfig::new(PAGE as u32, frames))?;
    fill(&host, &ids(3, 2 * frames, frames * 3));
    let ids = ids(5, count, frames * 3);
    let before = host.tier.statistics();
    let nanoseconds = Work::StageIn.once(&host, &ids);
    let after = host.tier.statistics();
    let refused = after.stalls - before.stalls;
    if refused > 0 {
        return Err(
            format!("{refused} stage-ins found no room, so what was counted is more than theirs").into()
        );
    }
    let looked_up = Work::Lookup.once(&host, &ids);
    let in_batches = Work::LookupEach.once(&host, &ids);
    Ok(vec![
        Row::new(format!("{count} stage-ins of 4 KiB, one thread"), nanoseconds, "ns each"),
        Row::new(format!("{count} lookups, one thread"), looked_up, "ns each"),
        Row::new(format!("{count} lookups, {BATCH} in a call"), in_batches, "ns each"),
    ])
}

fn fill(host: &MemoryHost, ids: &[PageId]) {
    let page = vec![0; PAGE];
    for id in ids {
        host.stage_in(id, &page);
    }
    while host.step() {}
}

fn lookups(scale: Scale, frames: u64) -> Outcome {
    let pages = frames * 9 / 10;
    let count = scale.pick(2_000_000, 20_000);
    let accesses = [ids(1, count, pages), ids(2, count, pages)];
    let std = map::<std::hash::RandomState>(pages, &accesses[0]);
    let quick = map::<BuildHasherDefault<Multiplying>>(pages, &accesses[0]);
    let host = MemoryHost::without_flash(&TierConfig::new(PAGE as u32, frames))?;
    let page = vec![0; PAGE];
    for block in 0..present(pages) {
        host.stage_in(&PageId::volume(1, block), &page);
    }
    host.settle()?;
    let one = Work::Lookup.time(&host, &accesses[0]);
    let two = both_threads(Work::Lookup, &host, [&accesses[0], &accesses[1]]);
    let each = Work::LookupEach.time(&host, &accesses[0]);
    let each_of_two = both_threads(Work::LookupEach, &host, [&accesses[0], &accesses[1]]);
    let size = format!("{:.1} M frames, Zipf 0.9", frames as f64 / 1e6);
    Ok(vec![
        Row::new(format!("lookup, one thread ({size})"), one, "ns").beside("std HashMap, no lock", std),
        Row::new(format!("lookup, one thread ({size})"), one, "ns")
            .beside("HashMap with a hash of two multiplications", quick),
        Row::new("lookup, two threads", two, "ns each").beside("one thread", one),
        Row::new("lookup, two threads against one", 2.0 * one / two, "times"),
        Row::new(format!("lookup, {BATCH} in a call"), each, "ns").beside("one in a call", one),
        Row::new(format!("lookup, {BATCH} in a call, two threads"), each_of_two, "ns each")
            .beside("one thread", each),
    ])
}

/// Of the pages that are looked up so many are there: nine tenths.
fn present(pages: u64) -> u64 {
    pages * 9 / 10
}

fn stage_ins(scale: Scale) -> Outcome {
    let frames = scale.pick(65_536, 4096);
    let count = scale.pick(400_000, 8_000);
    let host = MemoryHost::new(&TierConfig::new(PAGE as u32, frames))?;
    let ids = ids(3, count, frames * 3);
    let one = Work::StageIn.time(&host, &ids);
    let copy = copies(count);
    let (first, second) = ids.split_at(ids.len() / 2);
    let two = both_threads(Work::StageIn, &host, [first, second]);
    host.settle()?;
    let rounds = |threads| median((0..ROUNDS).map(|_| throughput(&host, &ids, threads)).collect());
    let (few, many) = (rounds(2), rounds(MANY_THREADS));
    host.settle()?;
    Ok(vec![
        Row::new("stage-in of 4 KiB, one thread", one, "ns").beside("memcpy and CRC-32C alone", copy),
        Row::new("stage-in without copy and checksum, one thread", one - copy, "ns"),
        Row::new("stage-in of 4 KiB, two threads", two, "ns each").beside("one thread", one),
        Row::new("stage-in of 4 KiB, two threads against one", 2.0 * one / two, "times"),
        Row::new(format!("stage-in of 4 KiB, {MANY_THREADS} threads"), many / 1e6, "million/s")
            .beside("two threads", few / 1e6),
    ])
}

/// What staging memory's copies cost, beside those of the C library.
fn copies_of_staging(scale: Scale) -> Outcome {
    let count = scale.pick(400_000, 8_000);
    let host = MemoryHost::new(&TierConfig::new(PAGE as u32, 4096))?;
    let page = vec![0; PAGE];
    let pages: Vec<PageId> =
        (0..host.tier.geometry().group_pages() / 2).map(|n| PageId::volume(1, n)).collect();
    pages.iter().for_each(|id| host.stage_in(id, &page));
    let hit = staged_lookups(&host, &pages, count)?;
    let copies = staging_copies(count);
    Ok(vec![
        Row::new("copy of 4 KiB out of staging memory", copies.out, "ns").beside("memcpy", copies.memcpy_out),
        Row::new("copy of 4 KiB into staging memory", copies.into, "ns").beside("memcpy", copies.memcpy_into),
        Row::new("lookup of a page in staging memory, with its copy", hit, "ns")
            .beside("memcpy", copies.memcpy_out),
    ])
}

/// Stage-ins a second of so many threads together, on as many processors as there are.
fn throughput(host: &MemoryHost, ids: &[PageId], threads: usize) -> f64 {
    let page = vec![0; PAGE];
    let began = Instant::now();
    std::thread::scope(|scope| {
        for part in ids.chunks(ids.len().div_ceil(threads)) {
            scope.spawn(|| part.iter().for_each(|id| host.stage_in(id, &page)));
        }
    });
    ids.len() as f64 / began.elapsed().as_secs_f64()
}

/// Nanoseconds of an operation of each thread while two run.
fn both_threads(work: Work, host: &MemoryHost, ids: [&[PageId]; 2]) -> f64 {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work.time(host, ids[1]));
        let mine = work.time(host, ids[0]);
        let other = other.join().unwrap_or(mine);
        (mine + other) / 2.0
    })
}

/// Nanoseconds of a lookup in a hash map of the same pages.
fn map<S: BuildHasher + Default>(pages: u64, ids: &[PageId]) -> f64 {
    let mut map: HashMap<PageId, u32, S> = HashMap::with_capacity_and_hasher(pages as usize, S::default());
    map.extend((0..present(pages)).map(|block| (PageId::volume(1, block), block as u32)));
    let round = |_| {
        let start = Instant::now();
        for id in ids {
            black_box(map.get(id));
        }
        start.elapsed().as_nanos() as f64 / ids.len() as f64
    };
    median((0..ROUNDS).map(round).collect())
}

/// As quick as a hash of a page id can well be.
#[derive(Default)]
struct Multiplying(u64);

impl Hasher for Multiplying {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(16) {
            let mut word = [0; 16];
            word[..bytes.len()].copy_from_slice(bytes);
            let word = u128::from_ne_bytes(word);
            let (low, high) = (word as u64 ^ self.0, (word >> 64) as u64 ^ 0x9E37_79B9_7F4A_7C15);
            let product = u128::from(low) * u128::from(high);
            self.0 = product as u64 ^ (product >> 64) as u64 ^ 0xD6E8_FEB8_6659_FD93;
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
