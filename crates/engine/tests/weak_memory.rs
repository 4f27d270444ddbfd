//! Threads on the smallest tier, with little else between them than the engine's own acquires and releases. A
//! machine shows few weak orders; miri shows those that the memory model allows:
//!
//! `MIRIFLAGS="-Zmiri-disable-stacked-borrows" cargo +nightly miri test -p mezzanine-engine --test
//! weak_memory`
//!
//! Invariant checked: a lookup that begins after a version was taken returns nothing older (invariant 2), and
//! nothing torn.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{Flash, Host, page};
use mezzanine_engine::{Design, Job, Lookup, PageId, StageIn, StageKind, Tier, TierConfig};

const PAGES: usize = 2;
/// Miri is some thousand times slower.
const WRITES: u64 = if cfg!(miri) { 6 } else { 1_000 };

fn id(block: usize) -> PageId {
    PageId::volume(1, block as u64)
}

fn tiny(design: Design) -> TierConfig {
    let mut config = TierConfig { shards: 1, frames: 8, frames_max: 0, ..TierConfig::of(design, 4096, 1024) };
    (config.group_pages, config.survivors_max, config.staging_groups) = (1, 0, 2);
    (config.segment_frames, config.band_frames, config.ahead_frames) = (8, 1, 0);
    while config.geometry().is_err() {
        config.frames += 1;
    }
    config
}

struct Shared {
    tier: Tier,
    newest: [AtomicU64; PAGES],
    /// The checksum of each version.
    sums: Vec<u32>,
    over: AtomicBool,
}

/// The only writer carries the jobs out as well; flash is its own, so that readers meet it in the engine
/// only.
fn write(shared: &Shared, flash: &mut Flash) {
    for version in 1..=WRITES {
        let block = version as usize % PAGES;
        while shared.tier.stage_in(&id(block), &page(4096, version), StageKind::Dirty, 0) == StageIn::Full {
            step(&shared.tier, flash);
        }
        shared.newest[block].store(version, Ordering::Release);
    }
    shared.over.store(true, Ordering::Relaxed);
}

fn step(tier: &Tier, flash: &mut Flash) {
    let mut job = tier.next_job(1).expect("a full tier has a job");
    match &mut job {
        Job::WriteGroup(job) => job.writes().for_each(|(offset, bytes)| flash.write(offset, bytes)),
        Job::WriteSegment(job) => flash.write(job.write().0, job.write().1),
        Job::ReadFront(job) => {
            for (offset, bytes) in job.reads() {
                bytes.copy_from_slice(&flash.0[offset as usize..][..bytes.len()]);
            }
        }
        Job::FlushFlash(_) | Job::WriteDisk(_) | Job::SyncDisk(_) | Job::PullPages(_) => {}
    }
    tier.complete(job, Ok(()));
}

/// The version of a page, of which only some words are compared: miri is slow.
fn version(page: &[u8]) -> u64 {
    assert!(page.chunks(1000).all(|part| part[..8] == page[..8]), "a torn page");
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

/// Checks what is answered from memory, or from flash by its checksum.
fn read(shared: &Shared) {
    let mut out = vec![0; 4096];
    while !shared.over.load(Ordering::Relaxed) {
        for block in 0..PAGES {
            let before = shared.newest[block].load(Ordering::Acquire);
            let found = match shared.tier.lookup(&id(block), &mut out) {
                Lookup::Memory => version(&out),
                Lookup::Flash(found) => {
                    let version = shared.sums.iter().position(|sum| *sum == found.checksum);
                    version.expect("a checksum that no version has") as u64
                }
                Lookup::Miss(_) => continue,
            };
            assert!(found >= before, "version {found} after {before} had been taken");
        }
    }
}

#[test]
fn readers_never_see_an_older_version() {
    read_and_write(Design::FaceGsc);
}

#[test]
fn readers_of_pages_written_in_place_never_see_an_older_version() {
    read_and_write(Design::Lru);
}

fn read_and_write(design: Design) {
    let Host { tier, mut flash, .. } = Host::new(&tiny(design), 1);
    let sums = (0..=WRITES).map(|version| crc32c::crc32c(&page(4096, version))).collect();
    let shared = Shared { tier, newest: Default::default(), sums, over: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        for _ in 0..if cfg!(miri) { 1 } else { 2 } {
            scope.spawn(|| read(&shared));
        }
        write(&shared, &mut flash);
    });
    shared.tier.check();
}
