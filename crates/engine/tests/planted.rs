//! Rules that the crash world cannot take out visibly, because one thread of one process drives it: each is
//! tested here with the rule in and with the rule out, and only the second may go wrong.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Host, page};
use mezzanine_engine::planted::{Bug, at_points, set};
use mezzanine_engine::{Job, Lookup, PageId, StageIn, StageKind, SyncState, Tier, TierConfig};
use mezzanine_ground::random::Random;

mod common;

/// A reader looks a page up, sleeps while the queue goes round, and reads: is it told that the frame is
/// another's?
fn overwritten_frame_is_told() -> bool {
    let mut host = Host::new(&TierConfig::new(4096, 256), 3);
    let id = PageId::volume(1, 7);
    host.write(id, &page(4096, 1));
    host.sync();
    while host.step() {}
    let mut out = vec![0; 4096];
    let mut next = 1000;
    let found = loop {
        match host.tier.lookup(&id, &mut out) {
            Lookup::Flash(found) => break found,
            Lookup::Memory => {
                host.write(PageId::volume(2, next), &page(4096, next));
                next += 1;
                host.step();
            }
            Lookup::Miss(_) => panic!("the page left before it was read"),
        }
    };
    assert!(host.tier.confirm(&found));
    for block in 0..2 * 256 {
        host.write(PageId::volume(3, block), &page(4096, block));
    }
    !host.tier.confirm(&found)
}

#[test]
fn a_reader_is_told_that_its_frame_was_overwritten() {
    assert!(overwritten_frame_is_told());
    set(Some(Bug::ReadUnconfirmed));
    let told = overwritten_frame_is_told();
    set(None);
    assert!(!told, "the planted fault went unnoticed");
}

/// So many that a page is still valid when it reaches the front, and so few that most are in the tier.
const PAGES: u64 = 150;

/// One thread rewrites pages at random, reading each before; another gives them second chances. Returns
/// whether a page was ever older than it must be.
fn old_version_returns(bug: Option<Bug>, at_most: Duration) -> bool {
    let mut config = TierConfig::new(4096, 256);
    config.survivors_max = config.group_pages - 1;
    let Host { tier, flash, .. } = Host::new(&config, 3);
    let flash = Mutex::new(flash);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set(bug);
            // On a busy machine the other thread would rarely come in between.
            at_points(Some(Rc::new(|at| {
                if at == "front read: survivors chosen" {
                    std::thread::sleep(Duration::from_micros(200));
                }
            })));
            while !stop.load(Ordering::Relaxed) {
                step(&tier, &flash);
            }
        });
        let end = Instant::now() + at_most;
        let mut versions = [0u64; PAGES as usize];
        let (mut older, mut random) = (false, Random::new(1));
        while !older && Instant::now() < end {
            let block = random.below(PAGES);
            let (id, version) = (PageId::volume(1, block), &mut versions[block as usize]);
            older = read(&tier, &flash, &id).is_some_and(|found| found != page(4096, *version));
            *version += 1;
            while tier.stage_in(&id, &page(4096, *version), StageKind::Dirty, 0) == StageIn::Full {
                std::hint::spin_loop();
            }
        }
        stop.store(true, Ordering::Relaxed);
        older
    })
}

/// What the tier holds of a page, if anything.
fn read(tier: &Tier, flash: &Mutex<common::Flash>, id: &PageId) -> Option<Vec<u8>> {
    let mut out = vec![0; 4096];
    match tier.lookup(id, &mut out) {
        Lookup::Memory => Some(out),
        Lookup::Flash(found) => {
            let at = found.offset as usize;
            out.copy_from_slice(&flash.lock().unwrap().0[at..at + 4096]);
            (tier.verify(&found, &out) && tier.confirm(&found)).then_some(out)
        }
        Lookup::Miss(_) => None,
    }
}

fn step(tier: &Tier, flash: &Mutex<common::Flash>) {
    let Some(job) = tier.next_job(1) else { return std::hint::spin_loop() };
    carry_out(tier, flash, job);
}

fn carry_out(tier: &Tier, flash: &Mutex<common::Flash>, mut job: Job<'_>) {
    // What goes to disk is not looked at.
    common::carry_out(&mut flash.lock().unwrap(), &mut HashMap::new(), &mut job);
    tier.complete(job, Ok(()));
}

#[test]
fn a_second_chance_never_brings_an_old_version_back() {
    assert!(!old_version_returns(None, Duration::from_secs(5)));
    let found = old_version_returns(Some(Bug::SecondChanceUnchecked), Duration::from_secs(60));
    assert!(found, "the planted fault went unnoticed");
}

/// An owner dies with the write of a group in its hands: does the sync that waits for it end?
fn sync_outlives_a_dead_owner() -> bool {
    let mut host = Host::new(&TierConfig::new(4096, 256), 3);
    host.write(PageId::volume(1, 5), &page(4096, 77));
    let ticket = host.tier.request_sync().unwrap();
    let job = host.tier.next_job(99).unwrap();
    assert!(matches!(job, Job::WriteGroup(_)));
    std::mem::forget(job);
    host.tier.abandon(99).unwrap();
    while host.step() {}
    host.tier.sync_state(&ticket) == SyncState::Durable
}

#[test]
fn the_jobs_of_a_dead_owner_are_not_lost() {
    assert!(sync_outlives_a_dead_owner());
    set(Some(Bug::DeadOwnersJobsLost));
    let outlived = sync_outlives_a_dead_owner();
    set(None);
    assert!(!outlived, "the planted fault went unnoticed");
}

/// An owner dies with a flush in its hands: does the sync that waits for it end although nothing was flushed?
fn sync_ends_without_a_flush() -> bool {
    let mut host = Host::new(&TierConfig::new(4096, 256), 3);
    host.write(PageId::volume(1, 5), &page(4096, 77));
    let ticket = host.tier.request_sync().unwrap();
    assert!(host.step(), "the group is written");
    let job = host.tier.next_job(99).unwrap();
    assert!(matches!(job, Job::FlushFlash(_)));
    std::mem::forget(job);
    host.tier.abandon(99).unwrap();
    host.tier.sync_state(&ticket) == SyncState::Durable
}

#[test]
fn the_flush_of_a_dead_owner_does_not_count() {
    assert!(!sync_ends_without_a_flush());
    set(Some(Bug::DeadFlushCounts));
    let ended = sync_ends_without_a_flush();
    set(None);
    assert!(ended, "the planted fault went unnoticed");
}

/// An owner dies with a sync of the disk in its hands, and nobody completes another: do frames leave the
/// queue?
fn frames_leave_without_a_disk_sync() -> bool {
    let Host { tier, flash, .. } = Host::new(&TierConfig::new(4096, 256), 3);
    let flash = Mutex::new(flash);
    let mut syncs = 0;
    for block in 0.. {
        while tier.stage_in(&PageId::volume(1, block), &page(4096, 1), StageKind::Dirty, 0) == StageIn::Full {
            let Some(job) = tier.next_job(99) else {
                assert!(syncs > 0, "the queue is full before the disk was to be synced");
                let left = tier.statistics();
                return left.left_clean + left.left_invalid > 0;
            };
            if !matches!(job, Job::SyncDisk(_)) {
                carry_out(&tier, &flash, job);
                continue;
            }
            std::mem::forget(job);
            syncs += 1;
            if syncs == 1 {
                tier.abandon(99).unwrap();
            }
        }
    }
    unreachable!()
}

#[test]
fn the_disk_sync_of_a_dead_owner_does_not_count() {
    assert!(!frames_leave_without_a_disk_sync());
    set(Some(Bug::DeadSyncCounts));
    let leave = frames_leave_without_a_disk_sync();
    set(None);
    assert!(leave, "the planted fault went unnoticed");
}
