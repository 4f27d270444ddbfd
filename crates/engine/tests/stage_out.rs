//! Stage-out that lags behind, and hosts that keep somebody for writes to flash.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Host, carry_out, page};
use mezzanine_engine::{Design, Job, PageId, StageIn, StageKind, TierConfig};

fn config() -> TierConfig {
    TierConfig {
        group_pages: 4,
        staging_groups: 8,
        segment_frames: 32,
        survivors_max: 2,
        band_frames: 8,
        ahead_frames: 0,
        ..TierConfig::new(4096, 512)
    }
}

/// Stages pages in, with nobody taking other jobs than writes to flash, until there is no room. Returns how
/// many.
fn fill(host: &mut Host) -> u64 {
    for block in 0.. {
        let id = PageId::volume(1, block);
        while host.tier.stage_in(&id, &page(4096, block), StageKind::Dirty, 0) == StageIn::Full {
            if !host.write_flash() {
                return block;
            }
        }
    }
    unreachable!("a queue is full at some time");
}

/// Pages of each batch that goes to disk until pages can be taken again.
fn batches(host: &mut Host) -> Vec<usize> {
    let mut batches = Vec::new();
    let id = PageId::volume(1, 1 << 32);
    while host.tier.stage_in(&id, &page(4096, 7), StageKind::Dirty, 0) == StageIn::Full {
        let mut job = host.tier.next_job(1).expect("a full tier has a job");
        if let Job::WriteDisk(job) = &job {
            batches.push(job.pages().count());
        }
        carry_out(&mut host.flash, &mut host.disk, &mut job);
        host.tier.complete(job, Ok(()));
    }
    batches
}

#[test]
fn writes_to_flash_go_on_without_the_disk_until_the_queue_is_full() {
    let mut host = Host::new(&config(), 1);
    let pages = fill(&mut host);
    assert!(pages > 512 / 2, "only {pages} pages fit");
    assert!(host.disk.is_empty());
    for block in 0..pages {
        assert_eq!(host.read(PageId::volume(1, block)), page(4096, block));
    }
    host.tier.check();
}

#[test]
fn a_front_that_lags_behind_is_staged_out_in_several_groups_at_once() {
    for design in [Design::FaceBasic, Design::FaceGr, Design::FaceGsc] {
        let mut host = Host::new(&TierConfig { design, ..config() }, 1);
        let pages = fill(&mut host);
        // As many groups as there are in staging memory.
        let largest = batches(&mut host).into_iter().max().unwrap();
        assert_eq!(largest, 8 * 4, "{design}");
        for block in 0..pages {
            assert_eq!(host.read(PageId::volume(1, block)), page(4096, block), "{design}");
        }
        host.tier.check();
    }
}

#[test]
fn each_group_of_a_batch_gives_its_own_second_chances() {
    let mut host = Host::new(&config(), 1);
    let pages = fill(&mut host);
    // Three of the four pages of each group are referenced; two may survive.
    for block in (0..pages).filter(|block| block % 4 > 0) {
        host.read(PageId::volume(1, block));
    }
    let largest = batches(&mut host).into_iter().max().unwrap();
    let statistics = host.tier.statistics();
    assert!(statistics.second_chances >= 2 * 4, "{} second chances", statistics.second_chances);
    assert!(largest > 4, "a batch of {largest} pages");
    for block in 0..pages {
        assert_eq!(host.read(PageId::volume(1, block)), page(4096, block));
    }
    host.tier.check();
}

/// Carries out writes to flash up to the first flush, during which two groups come in; whether there was one.
fn flush_wanted(host: &mut Host) -> bool {
    while let Some(mut job) = host.tier.next_flash_write(1) {
        let flush = matches!(job, Job::FlushFlash(_));
        carry_out(&mut host.flash, &mut host.disk, &mut job);
        if flush {
            // What comes in while it is under way.
            for block in 100..108 {
                let staged =
                    host.tier.stage_in(&PageId::volume(1, block), &page(4096, block), StageKind::Dirty, 0);
                assert_eq!(staged, StageIn::Staged { also_disk: false });
            }
        }
        host.tier.complete(job, Ok(()));
        if flush {
            return true;
        }
    }
    false
}

/// How many groups staging memory holds when a flush begins.
fn groups_at_flush(host: &mut Host, held: u64) -> u64 {
    for group in held..8 {
        if flush_wanted(host) {
            return group;
        }
        for block in 4 * group..4 * group + 4 {
            host.tier.stage_in(&PageId::volume(1, block), &page(4096, block), StageKind::Dirty, 0);
        }
    }
    8
}

#[test]
fn a_flush_waits_for_staging_memory_to_fill_and_less_the_more_comes_in_meanwhile() {
    // No segment of metadata asks for a flush of its own.
    let mut host = Host::new(&TierConfig { segment_frames: 128, ..config() }, 1);
    // Nothing came in during a flush so far: a quarter of the eight groups is kept free.
    assert_eq!(groups_at_flush(&mut host, 0), 6);
    // The last of the six was not written in time. Two came in during the flush, so twice as many are kept
    // free now.
    assert_eq!(groups_at_flush(&mut host, 3), 4);
    host.tier.check();
}

/// Short groups between full ones, and the place where the ring ends: whatever a batch spans, pages stay what
/// they were.
#[test]
fn batches_over_short_groups_and_the_end_of_the_ring_keep_every_page() {
    for seed in 0..20 {
        let mut host = Host::new(&config(), seed);
        let mut newest = vec![0; 300];
        for version in 1..3000 {
            let block = host.random(300);
            host.write(PageId::volume(1, block), &page(4096, version));
            newest[block as usize] = version;
            if host.random(9) == 0 {
                host.tier.request_sync().unwrap();
            }
            if host.random(3) == 0 {
                let block = host.random(300);
                assert_eq!(host.read(PageId::volume(1, block)), page(4096, newest[block as usize]));
            }
            // Writes to flash alone go on for a while, so that stage-out has something to make up for.
            while host.random(4) > 0 && host.write_flash() {}
        }
        for (block, &version) in newest.iter().enumerate().filter(|(_, version)| **version > 0) {
            assert_eq!(host.read(PageId::volume(1, block as u64)), page(4096, version));
        }
        host.tier.check();
    }
}
