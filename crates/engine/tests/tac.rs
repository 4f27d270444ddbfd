//! `tac` on traces worked out by hand: what comes in, and what its slot directory costs and is worth.
//!
//! The tier has 24 homes, one block of slots, groups of one page and staging memory for two groups. Three
//! homes (two groups and a band of one page) are kept coming, so 21 pages fill it.
#![allow(clippy::unwrap_used, missing_docs)]

use common::{Host, carry_out, page};
use mezzanine_engine::format::{Superblock, TierState};
use mezzanine_engine::{
    Design, Job, Lookup, PageId, PolicyParameters, StageIn, StageKind, SyncMode, SyncState, TierConfig,
};

mod common;

const PAGE: usize = 4096;
const FULL: u64 = 21;

fn config() -> TierConfig {
    let policy = PolicyParameters {
        extent_pages: Some(1),
        random_weight: Some(1),
        ageing_period: Some(0),
        ..PolicyParameters::default()
    };
    TierConfig {
        group_pages: 1,
        staging_groups: 2,
        survivors_max: 0,
        band_frames: 1,
        ahead_frames: 0,
        frames_max: 0,
        segment_frames: 8,
        policy,
        ..TierConfig::of(Design::Tac, PAGE as u32, 24)
    }
}

/// What was asked of the flash device, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Io {
    /// A block of slots was written.
    Slots,
    /// A page was written to its home.
    Page,
    Flush,
}
use Io::{Flush, Page, Slots};

struct Traced {
    host: Host,
    io: Vec<Io>,
    /// Bytes on flash before this are no page's.
    pages_from: u64,
}

fn id(block: u64) -> PageId {
    PageId::volume(1, block)
}

impl Traced {
    fn new(config: &TierConfig) -> Self {
        let geometry = config.geometry().unwrap();
        let pages_from = geometry.flash_bytes() - config.frames * PAGE as u64;
        Self { host: Host::new(config, 1), io: Vec::new(), pages_from }
    }

    fn step(&mut self) -> bool {
        let before = self.host.tier.progress();
        let Some(mut job) = self.host.tier.next_job(1) else { return self.host.tier.progress() != before };
        match &mut job {
            Job::WriteGroup(job) => {
                let kind = |offset| if offset < self.pages_from { Slots } else { Page };
                self.io.extend(job.writes().map(|(offset, bytes)| {
                    assert_eq!(bytes.len(), PAGE);
                    kind(offset)
                }));
            }
            Job::FlushFlash(_) => self.io.push(Flush),
            _ => panic!("disk has everything, and there are no metadata segments"),
        }
        carry_out(&mut self.host.flash, &mut self.host.disk, &mut job);
        self.host.tier.complete(job, Ok(()));
        true
    }

    fn settle(&mut self) -> Vec<Io> {
        while self.step() {}
        self.host.tier.check();
        std::mem::take(&mut self.io)
    }

    /// Looks a page up, and offers it if it is not there. Whether it is there then.
    fn read(&mut self, block: u64) -> bool {
        let mut bytes = vec![0; PAGE];
        let Lookup::Miss(token) = self.host.tier.lookup(&id(block), &mut bytes) else { return true };
        let there = self.host.disk.get(&id(block)).cloned().unwrap_or_else(|| page(PAGE, block));
        let staged = self.host.tier.stage_in(&id(block), &there, StageKind::Clean(Some(token)), 0);
        matches!(staged, StageIn::Staged { .. })
    }

    /// A dirty page leaves the host's memory. What had to be done before it could go to disk; `None` if the
    /// tier did not take it.
    fn write(&mut self, block: u64, version: u64) -> Option<Vec<Io>> {
        let bytes = page(PAGE, version);
        loop {
            match self.host.tier.stage_in(&id(block), &bytes, StageKind::Dirty, 0) {
                StageIn::Staged { also_disk } => {
                    assert!(also_disk);
                    self.host.disk.insert(id(block), bytes);
                    return Some(std::mem::take(&mut self.io));
                }
                StageIn::Full => assert!(self.step(), "who waits finds a job"),
                StageIn::Refused => {
                    self.host.disk.insert(id(block), bytes);
                    self.host.tier.invalidate(&id(block)).unwrap();
                    return None;
                }
                StageIn::Dropped | StageIn::FirstTouch => panic!("a dirty page is not dropped"),
            }
        }
    }

    fn sync_disk(&self) {
        let mark = self.host.tier.disk_mark();
        self.host.tier.disk_synced(mark);
    }

    fn holds(&self, block: u64) -> bool {
        self.host.tier.holds(&id(block)).is_some()
    }

    fn held(&self, blocks: std::ops::Range<u64>) -> Vec<u64> {
        blocks.filter(|&block| self.holds(block)).collect()
    }

    /// Filled by reads; everything is written.
    fn full() -> Self {
        let mut tier = Self::new(&config());
        for block in 0..FULL {
            assert!(tier.read(block), "page {block} comes in while there is room");
            tier.settle();
        }
        tier
    }

    /// The power fails: what was flushed and what was written is there.
    fn crash(mut self) -> Self {
        let superblock = Superblock { state: TierState::Open, ..self.host.superblock.clone() };
        let recovered = self.host.flash.recover(&superblock).unwrap();
        assert_eq!(recovered.writes, vec![]);
        recovered.tier.check();
        self.host.tier = recovered.tier;
        self.host.superblock = recovered.superblock;
        self
    }

    /// Every page that the tier holds is what disk has.
    fn assert_current(&mut self, blocks: std::ops::Range<u64>) {
        for block in self.held(blocks) {
            let disk = self.host.disk.get(&id(block)).cloned().unwrap_or_else(|| page(PAGE, block));
            assert_eq!(self.host.read(id(block)), disk, "page {block}");
        }
    }
}

/// While there is room a page costs its write and the write that makes its slot valid, once it is durable.
#[test]
fn a_page_that_enters_is_written_and_then_its_slot() {
    let mut tier = Traced::new(&config());
    assert!(tier.read(0));
    assert_eq!(tier.settle(), [Page, Flush, Slots]);
    assert!(tier.read(1));
    assert_eq!(tier.settle(), [Page, Flush, Slots]);
    assert!(tier.read(0), "found, at no cost");
    assert_eq!(tier.settle(), []);
}

/// In a full tier two writes of slots come with each page: that of its own, and that of the slot of the one
/// that leaves for it, whose home another page gets when that is durable.
#[test]
fn in_a_full_tier_two_writes_of_slots_come_with_each_page() {
    let mut tier = Traced::full();
    assert!(!tier.read(100), "as cold as the coldest");
    assert_eq!(tier.settle(), []);
    assert!(tier.read(100), "hotter than the coldest now");
    assert_eq!(tier.settle(), [Page, Flush, Slots, Slots]);
    assert_eq!(tier.held(0..FULL), (1..FULL).collect::<Vec<_>>(), "the coldest that came first has left");
    for block in 101..110 {
        assert!(!tier.read(block) && tier.read(block));
        // Homes are short: the slot of the page that left is made durably invalid, and its home is free for
        // the page after this one. The page is durable before its own slot becomes valid, and makes
        // another one leave.
        assert_eq!(tier.settle(), [Flush, Page, Flush, Slots, Slots], "page {block}");
    }
    assert_eq!(tier.held(0..FULL), (10..FULL).collect::<Vec<_>>());
    // What was written survives this crash, flushed or not.
    let tier = tier.crash();
    assert_eq!(tier.held(100..110).len(), 10);
    assert_eq!(tier.held(0..FULL), (10..FULL).collect::<Vec<_>>());
}

/// A page that flash has is not written to disk before its slot is durably invalid; the new version lies
/// elsewhere, and its slot becomes valid when disk is synced.
#[test]
fn a_rewrite_invalidates_first_and_validates_when_disk_is_synced() {
    let mut tier = Traced::new(&config());
    assert!(tier.read(0) && tier.settle() == [Page, Flush, Slots]);
    assert_eq!(tier.write(0, 7), Some(vec![Slots, Flush]), "before it may go to disk");
    assert_eq!(tier.settle(), [Page, Flush]);
    tier.sync_disk();
    assert_eq!(tier.settle(), [Slots]);
    // Written twice between two syncs: its slot is not valid meanwhile, and there is nothing to wait for.
    assert_eq!(tier.write(0, 8), Some(vec![Slots, Flush]));
    assert_eq!(tier.settle(), [Page, Flush]);
    assert_eq!(tier.write(0, 9), Some(vec![]));
    assert_eq!(tier.settle(), [Page, Flush]);
}

/// Temperature, not recency: pages that were read twice stay, and a rewrite of the coldest is no reason to
/// leave.
#[test]
fn the_coldest_extent_gives_up_its_page() {
    let mut tier = Traced::full();
    for block in [0, 1, 2] {
        assert!(tier.read(block));
    }
    assert!(tier.write(3, 9).is_some(), "flash has it");
    tier.settle();
    for _ in 0..2 {
        tier.read(100);
        tier.settle();
    }
    assert!(tier.holds(100) && !tier.holds(4));
    assert_eq!(tier.held(0..4), [0, 1, 2, 3]);
    assert!(tier.write(200, 5).is_none(), "a page that is written must be hotter as well");
    assert!(tier.write(200, 6).is_some());
}

/// An extent is hot with all its pages, also those that flash does not have.
#[test]
fn pages_of_a_hot_extent_come_in_at_once() {
    let policy = PolicyParameters { extent_pages: Some(8), ..config().policy };
    let mut tier = Traced::new(&TierConfig { policy, ..config() });
    for block in 0..FULL {
        assert!(tier.read(8 * block));
        tier.settle();
    }
    assert!(tier.read(8 * 20), "the newest page's extent is hotter than others");
    assert!(tier.read(8 * 20 + 5), "its neighbour, never seen before");
    tier.settle();
    assert!(!tier.holds(0));
}

/// The directory is current: a crash loses what was not durable, and what disk was not known to have, and
/// nothing else.
#[test]
fn a_crash_leaves_what_the_slots_say() {
    let mut tier = Traced::full();
    let mut tier_after = {
        tier.write(1, 71);
        tier.settle();
        tier.sync_disk();
        tier.settle();
        tier.write(2, 72);
        tier.settle();
        tier.crash()
    };
    let mut held: Vec<u64> = (0..FULL).collect();
    held.remove(2);
    assert_eq!(tier_after.held(0..FULL), held, "the last write was not known to be on disk");
    tier_after.assert_current(0..FULL);
    // And again, and it goes on as before.
    let mut again = tier_after.crash();
    assert_eq!(again.held(0..FULL), held);
    assert!(again.read(2), "there is room for one");
    again.settle();
    let mut last = again.crash();
    assert_eq!(last.held(0..FULL), (0..FULL).collect::<Vec<_>>());
    last.assert_current(0..FULL);
}

/// At each moment of a rewrite a crash finds the page as disk has it, or not at all.
#[test]
fn no_crash_finds_an_older_page() {
    for steps in 0..12 {
        let mut tier = Traced::new(&config());
        tier.read(0);
        tier.settle();
        let mut written = false;
        for _ in 0..steps {
            if !written {
                match tier.host.tier.stage_in(&id(0), &page(PAGE, 7), StageKind::Dirty, 0) {
                    StageIn::Staged { .. } => {
                        written = true;
                        tier.host.disk.insert(id(0), page(PAGE, 7));
                        continue;
                    }
                    other => assert_eq!(other, StageIn::Full),
                }
            }
            if !tier.step() {
                tier.sync_disk();
            }
        }
        let mut tier = tier.crash();
        tier.assert_current(0..1);
    }
}

/// What was dropped stays dropped, once a sync has said so.
#[test]
fn what_is_invalidated_does_not_come_back() {
    let mut tier = Traced::full();
    tier.host.tier.invalidate(&id(3)).unwrap();
    tier.host.tier.invalidate_range(&mezzanine_engine::IdRange::blocks(1, 10, 4)).unwrap();
    let ticket = tier.host.tier.request_sync().unwrap();
    assert_eq!(tier.host.tier.sync_state(&ticket), SyncState::Pending);
    assert_eq!(tier.settle(), [Slots, Flush]);
    assert_eq!(tier.host.tier.sync_state(&ticket), SyncState::Durable);
    let tier = tier.crash();
    let held: Vec<u64> = (0..FULL).filter(|block| *block != 3 && !(10..14).contains(block)).collect();
    assert_eq!(tier.held(0..FULL), held);
}

/// The host's bytes come with the head of the directory.
#[test]
fn the_host_metadata_is_kept() {
    let mut tier = Traced::full();
    for round in 1..5u8 {
        tier.host.tier.set_host_metadata(&[round; mezzanine_engine::HOST_METADATA_BYTES]);
        let ticket = tier.host.tier.request_sync().unwrap();
        tier.settle();
        assert_eq!(tier.host.tier.sync_state(&ticket), SyncState::Durable);
        let superblock = tier.host.superblock.clone();
        assert_eq!(
            tier.host.flash.recover(&superblock).unwrap().host_metadata,
            [round; mezzanine_engine::HOST_METADATA_BYTES]
        );
    }
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    for mode in [SyncMode::Durable, SyncMode::Drained] {
        let error = TierConfig { sync_mode: mode, ..config() }.geometry().unwrap_err();
        assert_eq!((error.parameter, error.advice.as_str()), ("sync_mode", "use through"));
        assert!(error.reason.contains(mode.name()), "{error}");
    }
    let foreign = |policy| TierConfig { policy, ..TierConfig::of(Design::Lru, 4096, 1000) };
    let with = PolicyParameters { extents: Some(3), ..PolicyParameters::default() };
    assert_eq!(foreign(with).geometry().unwrap_err().parameter, "extents");
    let none = PolicyParameters { extent_pages: Some(0), ..PolicyParameters::default() };
    assert_eq!(TierConfig { policy: none, ..config() }.geometry().unwrap_err().parameter, "extent-pages");
    assert!(!Design::Tac.is_laid_out_like(Design::Lru) && !Design::FaceGr.is_laid_out_like(Design::Tac));
    assert!(Design::Cac.is_laid_out_like(Design::Lru) && Design::Tac.is_laid_out_like(Design::Tac));
}
