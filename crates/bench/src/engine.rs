//! What the foreground pays: lookup and stage-in.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use mezzanine_engine::{Lookup, PageId, TierConfig};

use crate::host::MemoryHost;
use crate::report::{Outcome, Row, Scale, median};
use crate::workload::Random;

const PAGE: usize = 4096;
const ROUNDS: usize = 7;

pub(crate) fn run(scale: Scale, frames: u64) -> Outcome {
    let mut rows = lookups(scale, scale.pick(frames, 4096))?;
    rows.extend(stage_ins(scale)?);
    Ok(rows)
}

fn ids(seed: u64, count: u64, pages: u64) -> Vec<PageId> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.zipf_page(pages)).collect()
}

fn lookups(scale: Scale, frames: u64) -> Outcome {
    let pages = frames * 9 / 10;
    let host = MemoryHost::without_flash(&TierConfig::new(PAGE as u32, frames))?;
    let page = vec![0; PAGE];
    let mut rival: HashMap<PageId, u32> = HashMap::with_capacity(pages as usize);
    for block in 0..pages * 9 / 10 {
        let id = PageId::volume(1, block);
        host.stage_in(&id, &page);
        rival.insert(id, block as u32);
    }
    host.settle()?;
    let count = scale.pick(2_000_000, 20_000);
    let accesses = [ids(1, count, pages), ids(2, count, pages)];
    let one = median((0..ROUNDS).map(|_| time_lookups(&host, &accesses[0])).collect());
    let map = median(
        (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                let found = accesses[0].iter().filter(|id| black_box(rival.get(id)).is_some()).count();
                black_box(found);
                start.elapsed().as_nanos() as f64 / count as f64
            })
            .collect(),
    );
    let two = median((0..ROUNDS).map(|_| both_threads(&host, &accesses)).collect());
    let size = format!("{:.1} M frames, Zipf 0.9", frames as f64 / 1e6);
    Ok(vec![
        Row::new(format!("lookup, one thread ({size})"), one, "ns").beside("std HashMap, no lock", map),
        Row::new(format!("lookup, two threads ({size})"), two, "ns each").beside("one thread", one),
    ])
}

fn time_lookups(host: &MemoryHost, ids: &[PageId]) -> f64 {
    let mut out = vec![0; PAGE];
    let start = Instant::now();
    for id in ids {
        if let Lookup::Flash(found) = host.tier.lookup(id, &mut out) {
            black_box(found);
        }
    }
    start.elapsed().as_nanos() as f64 / ids.len() as f64
}

/// Nanoseconds per lookup of each thread while two run.
fn both_threads(host: &MemoryHost, ids: &[Vec<PageId>; 2]) -> f64 {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| time_lookups(host, &ids[1]));
        let mine = time_lookups(host, &ids[0]);
        let other = other.join().unwrap_or(mine);
        (mine + other) / 2.0
    })
}

fn stage_ins(scale: Scale) -> Outcome {
    let frames = scale.pick(65_536, 4096);
    let count = scale.pick(400_000, 8_000);
    let host = MemoryHost::new(&TierConfig::new(PAGE as u32, frames))?;
    let ids = ids(3, count, frames * 3);
    let page: Vec<u8> = (0..PAGE).map(|n| n as u8).collect();
    let group = host.tier.geometry().group_pages() as usize;
    let one = median((0..ROUNDS).map(|_| time_stage_ins(&host, &ids, &page, group)).collect());
    let copy = median((0..ROUNDS).map(|_| time_copies(ids.len(), &page)).collect());
    let halves: Vec<&[PageId]> = ids.chunks(ids.len() / 2).collect();
    let two = median((0..ROUNDS).map(|_| stage_ins_beside(&host, &halves, &page, group)).collect());
    host.settle()?;
    Ok(vec![
        Row::new("stage-in of 4 KiB, one thread", one, "ns").beside("memcpy and CRC-32C alone", copy),
        Row::new("stage-in without copy and checksum, one thread", one - copy, "ns"),
        Row::new("stage-in of 4 KiB, two threads", two, "ns each").beside("one thread", one),
    ])
}

/// Nanoseconds per stage-in of each thread while two run.
fn stage_ins_beside(host: &MemoryHost, ids: &[&[PageId]], page: &[u8], group: usize) -> f64 {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| time_stage_ins(host, ids[1], page, group));
        let mine = time_stage_ins(host, ids[0], page, group);
        let other = other.join().unwrap_or(mine);
        (mine + other) / 2.0
    })
}

/// Only the stage-ins are timed; the jobs that they cause run in between.
fn time_stage_ins(host: &MemoryHost, ids: &[PageId], page: &[u8], group: usize) -> f64 {
    let mut nanoseconds = 0u128;
    for chunk in ids.chunks(group / 2) {
        while host.step() {}
        let start = Instant::now();
        for id in chunk {
            host.stage_in(id, page);
        }
        nanoseconds += start.elapsed().as_nanos();
    }
    nanoseconds as f64 / ids.len() as f64
}

fn time_copies(count: usize, page: &[u8]) -> f64 {
    // As many targets as staging memory has pages, so that the caches see the same.
    let mut targets = vec![0u8; PAGE * 1024];
    let start = Instant::now();
    for n in 0..count {
        let at = n % 1024 * PAGE;
        targets[at..at + PAGE].copy_from_slice(black_box(page));
        black_box(crc32c::crc32c(black_box(page)));
    }
    black_box(&targets);
    start.elapsed().as_nanos() as f64 / count as f64
}
