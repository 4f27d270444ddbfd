//! The timed loops.

use std::hint::black_box;
use std::time::Instant;

use mezzanine_engine::{Lookup, PageId};
use mezzanine_ground::random::Random;
use mezzanine_ground::region::Region;

use crate::host::MemoryHost;
use crate::report::median;
use crate::workload::zipf_page;

pub(crate) const PAGE: usize = 4096;
/// Rounds of which the median counts.
pub(crate) const ROUNDS: usize = 7;

/// Pages that are looked up in one call.
pub(crate) const BATCH: usize = 64;

/// What is timed.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Lookup,
    /// Many in one call.
    LookupEach,
    StageIn,
}

impl Work {
    /// Nanoseconds of one operation: the median of several rounds over the same `ids`.
    pub(crate) fn time(self, host: &MemoryHost, ids: &[PageId]) -> f64 {
        median((0..ROUNDS).map(|_| self.once(host, ids)).collect())
    }

    /// Nanoseconds of one operation in one round over `ids`.
    pub(crate) fn once(self, host: &MemoryHost, ids: &[PageId]) -> f64 {
        match self {
            Self::Lookup => lookups(host, ids),
            Self::LookupEach => lookups_in_batches(host, ids),
            Self::StageIn => stage_ins(host, ids),
        }
    }
}

/// `count` accesses to `pages` pages.
pub(crate) fn ids(seed: u64, count: u64, pages: u64) -> Vec<PageId> {
    let mut random = Random::new(seed);
    (0..count).map(|_| zipf_page(&mut random, pages)).collect()
}

fn lookups(host: &MemoryHost, ids: &[PageId]) -> f64 {
    let mut out = vec![0; PAGE];
    let start = Instant::now();
    for id in ids {
        if let Lookup::Flash(found) = &host.tier.lookup(id, &mut out) {
            black_box(found);
        }
    }
    start.elapsed().as_nanos() as f64 / ids.len() as f64
}

fn lookups_in_batches(host: &MemoryHost, ids: &[PageId]) -> f64 {
    let mut out = vec![0; PAGE * BATCH];
    let start = Instant::now();
    for ids in ids.chunks(BATCH) {
        host.tier.lookup_each(ids.iter().copied().zip(out.chunks_exact_mut(PAGE)), |found| {
            if let Lookup::Flash(found) = &found {
                black_box(found);
            }
        });
    }
    start.elapsed().as_nanos() as f64 / ids.len() as f64
}

/// Only the stage-ins are timed; the jobs that they cause run in between.
fn stage_ins(host: &MemoryHost, ids: &[PageId]) -> f64 {
    let page = vec![0; PAGE];
    let half_a_group = host.tier.geometry().group_pages() as usize / 2;
    let mut nanoseconds = 0u128;
    for chunk in ids.chunks(half_a_group) {
        while host.step() {}
        let start = Instant::now();
        for id in chunk {
            host.stage_in(id, black_box(&page));
        }
        nanoseconds += start.elapsed().as_nanos();
    }
    nanoseconds as f64 / ids.len() as f64
}

/// Nanoseconds of a copy of a page out of staging memory, and into it.
pub(crate) struct StagingCopies {
    pub(crate) out: f64,
    pub(crate) into: f64,
    /// Of the C library's copies between memory of the same sizes and alignments.
    pub(crate) memcpy_out: f64,
    pub(crate) memcpy_into: f64,
}

/// The engine's copies of pages and the C library's, `count` of each in each round, between one page of the
/// host's and as many of a region as staging memory has.
pub(crate) fn staging_copies(count: u64) -> StagingCopies {
    const PAGES: usize = 1024;
    let region = Region::heap(PAGE * PAGES);
    let mut page = vec![0; PAGE];
    let offsets = || (0..count).map(|n| n as usize % PAGES * PAGE);
    let out = timed(count, || offsets().for_each(|offset| region.copy_out(offset, black_box(&mut page))));
    let into = timed(count, || offsets().for_each(|offset| region.copy_in(offset, black_box(&page))));
    // Aligned as a region is: some copies take twice as long between certain addresses.
    let mut memory = vec![0u8; PAGE * (PAGES + 1)];
    let aligned = memory.as_ptr().align_offset(PAGE);
    let memory = &mut memory[aligned..aligned + PAGE * PAGES];
    memory.fill(1);
    let memcpy_out = timed(count, || {
        offsets().for_each(|offset| black_box(&mut page).copy_from_slice(&memory[offset..offset + PAGE]));
    });
    let memcpy_into = timed(count, || {
        offsets().for_each(|offset| memory[offset..offset + PAGE].copy_from_slice(black_box(&page)));
    });
    black_box(memory);
    StagingCopies { out, into, memcpy_out, memcpy_into }
}

/// Nanoseconds of a lookup of a page that staging memory has, with its copy.
pub(crate) fn staged_lookups(host: &MemoryHost, ids: &[PageId], count: u64) -> Result<f64, &'static str> {
    let mut out = vec![0; PAGE];
    let nanoseconds = timed(count, || {
        ids.iter().cycle().take(count as usize).for_each(|id| {
            black_box(host.tier.lookup(id, black_box(&mut out)));
        });
    });
    // Nobody has carried out a job since they were staged in.
    match ids.iter().all(|id| host.tier.lookup(id, &mut out) == Lookup::Memory) {
        true => Ok(nanoseconds),
        false => Err("pages that were just staged in are not in staging memory"),
    }
}

/// Nanoseconds of each of the `count` things that `round` does: the median of several rounds.
fn timed(count: u64, mut round: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / count as f64
    };
    median((0..ROUNDS).map(round).collect())
}

/// Nanoseconds of a copy and a checksum alone.
pub(crate) fn copies(count: u64) -> f64 {
    let page = vec![0; PAGE];
    // As many targets as staging memory has pages, so that the caches see the same.
    let mut targets = vec![0u8; PAGE * 1024];
    let round = |_| {
        let start = Instant::now();
        for n in 0..count {
            let at = n as usize % 1024 * PAGE;
            targets[at..at + PAGE].copy_from_slice(black_box(&page));
            black_box(crc32c::crc32c(black_box(&page)));
        }
        black_box(&targets);
        start.elapsed().as_nanos() as f64 / count as f64
    };
    median((0..ROUNDS).map(round).collect())
}
