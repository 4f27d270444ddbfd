//! Lookups, which take no lock, beside threads that stage in, stage out, invalidate and offer.
//!
//! Invariants checked:
//! - 2, *one truth*: a lookup returns no version older than the newest that had been taken before it began,
//!   whether it answers from memory, from flash or sends its caller to disk.
//! - Its token: a page that was read after a miss and offered is not taken if a newer version has come since.
//! - Counts of lookups are exact, however many threads count.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mezzanine_engine::{Design, IdRange, Job, Lookup, PageId, StageIn, StageKind, Tier, TierConfig};
use mezzanine_ground::random::Random;

const PAGE: usize = 4096;
const PAGES: u64 = 1500;
const HOT: u64 = 3;

/// What the threads share: a tier, devices, and for each page the newest version that has been taken.
struct World {
    tier: Tier,
    flash: Mutex<Vec<u8>>,
    disk: Mutex<HashMap<PageId, Vec<u8>>>,
    newest: Vec<AtomicU64>,
    over: AtomicBool,
    lookups: AtomicU64,
}

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

/// The version that a page holds. Only its ends are compared: a reader that is slow seldom meets a change.
fn version(page: &[u8]) -> u64 {
    assert_eq!(page[..8], page[PAGE - 8..], "a torn page");
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

/// Half of all accesses go to a few pages, so that readers meet changes.
fn block(random: &mut Random) -> u64 {
    if random.below(2) == 0 { random.below(PAGES) } else { random.below(HOT) }
}

impl World {
    fn new(design: Design) -> Self {
        // One shard, so that every lookup is in the way of every change; short groups, so that frames
        // are soon used again.
        let config =
            TierConfig { shards: 1, group_pages: 8, survivors_max: 4, design, ..TierConfig::new(4096, 1024) };
        let host = common::Host::new(&config, 1);
        Self {
            tier: host.tier,
            flash: Mutex::new(host.flash.0),
            disk: Mutex::default(),
            newest: (0..PAGES).map(|_| AtomicU64::new(0)).collect(),
            over: AtomicBool::new(false),
            lookups: AtomicU64::new(0),
        }
    }

    fn step(&self) -> bool {
        let Some(mut job) = self.tier.next_job(1) else { return false };
        match &mut job {
            Job::WriteGroup(job) => {
                for (offset, bytes) in job.writes() {
                    self.flash.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
                }
            }
            Job::WriteSegment(job) => {
                let (offset, bytes) = job.write();
                self.flash.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Job::ReadFront(job) => {
                for (offset, bytes) in job.reads() {
                    bytes.copy_from_slice(&self.flash.lock().unwrap()[offset as usize..][..bytes.len()]);
                }
            }
            Job::WriteDisk(job) => {
                for (id, bytes) in job.pages() {
                    self.disk.lock().unwrap().insert(id, bytes.to_vec());
                }
            }
            Job::FlushFlash(_) | Job::SyncDisk(_) | Job::PullPages(_) => {}
        }
        self.tier.complete(job, Ok(()));
        true
    }

    /// The only writer: its versions count up. Now and then it writes to disk itself and invalidates.
    fn write(&self, writes: u64) {
        let mut random = Random::new(3);
        for version in 1..=writes {
            let block = block(&mut random);
            let page = common::page(PAGE, version);
            if random.below(16) == 0 {
                self.write_to_disk(block, &page);
            } else {
                while self.tier.stage_in(&id(block), &page, StageKind::Dirty, 0) == StageIn::Full {
                    self.step();
                }
            }
            self.newest[block as usize].store(version, Ordering::Release);
        }
        self.over.store(true, Ordering::Release);
    }

    fn write_to_disk(&self, block: u64, page: &[u8]) {
        let range = IdRange { start: id(block), count: 1, shift: 0 };
        loop {
            // A write of stage-out under way would bring an older version back to disk.
            while self.tier.stage_out_touches(&range) {
                self.step();
            }
            self.disk.lock().unwrap().insert(id(block), page.to_vec());
            if self.tier.invalidate(&id(block)).is_ok() {
                return;
            }
            self.step();
        }
    }

    /// Reads pages, most of them few, and offers what it missed.
    fn read(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut page = vec![0; PAGE];
        let mut lookups = 0;
        while !self.over.load(Ordering::Acquire) {
            let block = block(&mut random);
            let before = self.newest[block as usize].load(Ordering::Acquire);
            lookups += 1;
            let found = match self.tier.lookup(&id(block), &mut page) {
                Lookup::Memory => version(&page),
                Lookup::Flash(found) => {
                    page.copy_from_slice(&self.flash.lock().unwrap()[found.offset as usize..][..PAGE]);
                    if !self.tier.confirm(&found) {
                        continue;
                    }
                    assert!(self.tier.verify(&found, &page), "a frame in the queue with another page");
                    version(&page)
                }
                Lookup::Miss(token) => {
                    let disk = self.disk.lock().unwrap().get(&id(block)).cloned();
                    let disk = disk.unwrap_or(vec![0; PAGE]);
                    let found = version(&disk);
                    self.tier.stage_in(&id(block), &disk, StageKind::Clean(Some(token)), 0);
                    found
                }
            };
            assert!(found >= before, "block {block}: version {found} after {before} had been taken");
        }
        self.lookups.fetch_add(lookups, Ordering::Relaxed);
    }
}

fn run(design: Design, writes: u64) {
    let world = World::new(design);
    std::thread::scope(|scope| {
        for seed in 1..4 {
            let world = &world;
            scope.spawn(move || world.read(seed));
        }
        world.write(writes);
    });
    world.tier.check();
    assert_eq!(world.tier.statistics().lookups(), world.lookups.load(Ordering::Relaxed));
}

#[test]
fn lookups_beside_changes_find_the_newest_version() {
    for design in [Design::FaceGsc, Design::FaceGr] {
        run(design, 20_000);
    }
}
