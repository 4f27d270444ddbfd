//! Designs that write in place, on traces worked out by hand: which page leaves, and what I/O that costs.
//!
//! The tier has 24 homes, groups of two pages and staging memory for two groups. Four homes (two groups) and
//! a band of one page are kept coming: when the 20th page has come in, four homes are free, so two pages (as
//! many as the batch carries) have to leave.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;

use common::{Flash, Host, carry_out, page};
use mezzanine_engine::{
    Admission, Design, DrainScope, DrainState, Job, PageId, PolicyParameters, StageIn, StageKind, SyncMode,
    TierConfig,
};

mod common;

const PAGE: usize = 4096;

fn config(design: Design) -> TierConfig {
    TierConfig {
        group_pages: 2,
        staging_groups: 2,
        survivors_max: 1,
        band_frames: 1,
        ahead_frames: 0,
        frames_max: 0,
        segment_frames: 8,
        ..TierConfig::of(design, PAGE as u32, 24)
    }
}

/// What was asked of the devices. Flash is read and written in bytes, everything else counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Io {
    /// Sizes of the writes to flash, in order.
    flash_writes: Vec<usize>,
    flash_bytes_read: usize,
    flushes: usize,
    /// Pages written to disk, in order.
    disk_writes: Vec<u64>,
    disk_syncs: usize,
}

struct Counted {
    host: Host,
    io: Io,
}

impl Counted {
    fn new(config: &TierConfig) -> Self {
        Self { host: Host::new(config, 1), io: Io::default() }
    }

    fn step(&mut self) -> bool {
        let Self { host: Host { tier, flash, disk, .. }, io } = self;
        let Some(mut job) = tier.next_job(1) else { return false };
        match &mut job {
            Job::WriteGroup(job) => io.flash_writes.extend(job.writes().map(|(_, bytes)| bytes.len())),
            Job::FlushFlash(_) => io.flushes += 1,
            Job::ReadFront(job) => {
                io.flash_bytes_read += job.reads().iter().map(|read| read.1.len()).sum::<usize>()
            }
            Job::WriteDisk(job) => io.disk_writes.extend(job.pages().map(|(id, _)| id.block())),
            Job::SyncDisk(_) => io.disk_syncs += 1,
            // Metadata, as with every design: not counted here.
            Job::WriteSegment(_) => {}
            Job::PullPages(_) => panic!("nobody pulls"),
        }
        carry_out(flash, disk, &mut job);
        tier.complete(job, Ok(()));
        true
    }

    /// Stages pages in and carries out all jobs after each.
    fn bring(&mut self, blocks: impl IntoIterator<Item = u64>, dirty: bool) {
        for block in blocks {
            let kind = if dirty { StageKind::Dirty } else { StageKind::Clean(None) };
            let staged = self.host.tier.stage_in(&PageId::volume(1, block), &page(PAGE, block), kind, 0);
            assert!(matches!(staged, StageIn::Staged { .. }), "page {block}: {staged:?}");
            while self.step() {}
        }
    }

    fn sync(&mut self) {
        let ticket = self.host.tier.request_sync().unwrap();
        while self.step() {}
        assert_eq!(self.host.tier.sync_state(&ticket), mezzanine_engine::SyncState::Durable);
    }

    fn holds(&self, block: u64) -> Option<bool> {
        self.host.tier.holds(&PageId::volume(1, block))
    }

    fn gone(&self, blocks: std::ops::Range<u64>) -> Vec<u64> {
        blocks.filter(|&block| self.holds(block).is_none()).collect()
    }

    fn taken(&mut self) -> Io {
        self.host.tier.check();
        std::mem::take(&mut self.io)
    }
}

/// One write for the summary of each group, one for each page.
fn groups(count: usize, pages: usize) -> Vec<usize> {
    vec![PAGE; count * (1 + pages)]
}

/// Twenty dirty pages, of which the first is looked up after the tenth; then two leave.
fn fill(design: Design) -> (Vec<u64>, Io) {
    let mut tier = Counted::new(&config(design));
    tier.bring(0..10, true);
    assert_eq!(tier.host.read(PageId::volume(1, 0)), page(PAGE, 0));
    tier.bring(10..20, true);
    let gone = tier.gone(0..20);
    (gone, tier.taken())
}

/// Ten groups written in full; two pages read from flash, written to disk, the disk synced once; their
/// tombstones wait for the next group. Flash is flushed whenever half of staging memory, one group, is
/// written.
fn two_leave(disk_writes: Vec<u64>) -> Io {
    Io { flash_writes: groups(10, 2), flash_bytes_read: 2 * PAGE, flushes: 10, disk_writes, disk_syncs: 1 }
}

#[test]
fn lru_lets_go_what_was_not_referenced_for_the_longest_time() {
    assert_eq!(fill(Design::Lru), (vec![1, 2], two_leave(vec![1, 2])));
}

#[test]
fn fifo_lets_go_what_came_first() {
    assert_eq!(fill(Design::Fifo), (vec![0, 1], two_leave(vec![0, 1])));
}

#[test]
fn clock_passes_over_what_was_referenced() {
    assert_eq!(fill(Design::Clock), (vec![1, 2], two_leave(vec![1, 2])));
}

/// A rewrite costs one write of the page and its share of a summary, and no page leaves for it; nor does a
/// page that is offered again.
#[test]
fn a_rewrite_is_one_random_write() {
    for design in [Design::Lru, Design::Fifo, Design::Clock] {
        let mut tier = Counted::new(&config(design));
        tier.bring(0..4, true);
        tier.taken();
        for _ in 0..20 {
            tier.bring([0, 1], true);
        }
        let io = tier.taken();
        assert_eq!(
            (io.flash_writes, io.flash_bytes_read, io.disk_writes),
            (groups(20, 2), 0, vec![]),
            "{design}"
        );
        tier.bring([3], true);
        tier.sync();
        let io = tier.taken();
        assert_eq!((io.flash_writes, io.flushes), (groups(1, 1), 1), "a sync closes the group with one page");
        assert_eq!(tier.gone(0..4), vec![]);
    }
}

/// Clean pages leave without a word to disk, and without being read.
#[test]
fn clean_pages_leave_by_a_tombstone() {
    let mut tier = Counted::new(&config(Design::Lru));
    tier.bring(0..20, false);
    let io = tier.taken();
    assert_eq!(tier.gone(0..20), vec![0, 1]);
    assert_eq!((io.flash_bytes_read, io.disk_writes, io.disk_syncs), (0, vec![], 0));
    assert_eq!(tier.host.tier.statistics().tombstones, 2);
    // Nor are they there after a crash, once a group has taken the tombstones along.
    tier.bring([20, 21], false);
    let superblock = mezzanine_engine::format::Superblock {
        state: mezzanine_engine::format::TierState::Open,
        ..tier.host.superblock.clone()
    };
    let recovered = tier.host.flash.recover(&superblock).unwrap();
    recovered.tier.check();
    assert_eq!(recovered.tier.holds(&PageId::volume(1, 1)), None);
    assert_eq!(recovered.tier.holds(&PageId::volume(1, 2)), Some(false));
}

/// LRU-2: two pages that were referenced twice, long enough apart, outlive those that came later. A quarter
/// of the 24 frames may be dirty: the eighth dirty page has the coldest cleaned, which stays.
#[test]
fn lc_cleans_the_coldest_and_keeps_it() {
    let policy = PolicyParameters {
        correlated_period: Some(0),
        dirty_percent: Some(25),
        ..PolicyParameters::default()
    };
    let mut tier = Counted::new(&TierConfig { policy, ..config(Design::Lc) });
    tier.bring(0..6, true);
    assert_eq!(tier.taken().disk_writes, Vec::<u64>::new(), "six of 24 may be dirty");
    tier.bring([0, 1], true);
    assert_eq!(tier.taken().disk_writes, Vec::<u64>::new(), "these were dirty before");
    tier.bring([6, 7], true);
    let io = tier.taken();
    assert_eq!((io.disk_writes, io.flash_bytes_read, io.disk_syncs), (vec![2, 3], 2 * PAGE, 2));
    assert_eq!(tier.gone(0..8), vec![], "what was cleaned stays");
    assert_eq!([0, 2, 3, 4].map(|block| tier.holds(block)), [true, false, false, true].map(Some));
    // Twelve more that are clean: 20 pages, so two leave: those with one reference that came first, which are
    // clean and cost nothing.
    tier.bring(8..20, false);
    let io = tier.taken();
    assert_eq!((tier.gone(0..20), io.disk_writes, io.flash_bytes_read), (vec![2, 3], vec![], 0));
}

/// A clean page saves reads, a dirty one a write to disk as well: a dirty page outlives clean ones that came
/// later, but not for ever.
#[test]
fn cac_keeps_what_saves_more() {
    let mut tier = Counted::new(&config(Design::Cac));
    tier.bring(0..2, true);
    tier.bring(2..20, false);
    let io = tier.taken();
    assert_eq!((tier.gone(0..20), io.disk_writes, io.flash_bytes_read), (vec![2, 3], vec![], 0));
    // With each clean page that leaves, those that come in later are worth more: in the end the dirty ones
    // are worth least.
    tier.bring(20..80, false);
    let io = tier.taken();
    assert_eq!((io.disk_writes, io.disk_syncs, io.flash_bytes_read), (vec![0, 1], 1, 2 * PAGE));
    assert_eq!(tier.gone(0..2), vec![0, 1]);
}

#[test]
fn exadata_goes_around_or_back() {
    let around = Counted::new(&config(Design::Exadata));
    let id = PageId::volume(1, 0);
    assert_eq!(around.host.tier.stage_in(&id, &page(PAGE, 1), StageKind::Dirty, 0), StageIn::Refused);
    assert!(Design::Exadata.admits_on_entry() && !Design::Lc.admits_on_entry());
    let mut around = around;
    around.bring(0..20, false);
    let io = around.taken();
    assert_eq!((around.gone(0..20), io.flash_writes, io.disk_writes), (vec![0, 1], groups(10, 2), vec![]));

    let policy = PolicyParameters { write_back: true, ..PolicyParameters::default() };
    let back = TierConfig { policy, admission: Admission::Both, ..config(Design::Exadata) };
    let mut back = Counted::new(&back);
    back.bring(0..10, false);
    back.bring(0..2, true);
    back.bring(10..20, false);
    let io = back.taken();
    assert_eq!((back.gone(0..20), io.disk_writes), (vec![2, 3], vec![]), "what was rewritten was referenced");
    assert_eq!(io.flash_writes, groups(11, 2));
}

#[test]
fn what_does_not_go_together_is_refused_by_name() {
    let refused = |config: TierConfig| config.geometry().unwrap_err().parameter;
    assert_eq!(refused(TierConfig { admission: Admission::Both, ..config(Design::Exadata) }), "admission");
    assert_eq!(refused(TierConfig { frames_max: 1000, ..config(Design::Lru) }), "frames_max");
    let of_lc = PolicyParameters { dirty_percent: Some(10), ..PolicyParameters::default() };
    assert_eq!(refused(TierConfig { policy: of_lc, ..config(Design::Lru) }), "dirty_percent");
    let too_many = PolicyParameters { dirty_percent: Some(101), ..PolicyParameters::default() };
    assert_eq!(refused(TierConfig { policy: too_many, ..config(Design::Lc) }), "dirty_percent");
    assert_eq!(refused(TierConfig { frames: 10, ..config(Design::Lru) }), "frames");
    let tier = Counted::new(&config(Design::Fifo)).host.tier;
    assert_eq!(tier.begin_resize(20).unwrap_err().parameter, "frames");
}

/// A sync mode `through`: the host writes the page to disk as well, and it leaves like a clean one.
#[test]
fn through_costs_no_stage_out() {
    let mut tier = Counted::new(&TierConfig { sync_mode: SyncMode::Through, ..config(Design::Lru) });
    tier.bring(0..20, true);
    let io = tier.taken();
    assert_eq!((tier.gone(0..20), io.flash_bytes_read, io.disk_writes), (vec![0, 1], 0, vec![]));
}

/// Records go round, pages stay: a page that nobody touches is in the same frame after the queue of records
/// has come round many times.
#[test]
fn records_are_relocated_and_pages_are_not_written_again() {
    let mut host = Host::new(&config(Design::Fifo), 1);
    for block in 0..4 {
        host.write(PageId::volume(1, block), &page(PAGE, block));
    }
    let mut written = 4;
    for round in 0..400u64 {
        host.write(PageId::volume(1, 4 + round % 3), &page(PAGE, round));
        written += 1;
    }
    host.sync();
    let statistics = host.tier.statistics();
    assert!(statistics.relocated > 4, "{statistics:?}");
    assert_eq!(statistics.pages_written, written);
    host.tier.check();
    for block in 0..4 {
        assert_eq!(host.read(PageId::volume(1, block)), page(PAGE, block));
    }
    let host = host.reopen(true);
    host.tier.check();
    let _: (HashMap<PageId, Vec<u8>>, Flash) = (host.disk, host.flash);
}

/// A page is written to disk and its home is given to another page while the disk is synced. The other page
/// is drained before that sync ends: it is not clean yet.
#[test]
fn a_sync_of_the_disk_does_not_cover_the_next_page_of_a_home() {
    let mut counted = Counted::new(&config(Design::Fifo));
    counted.bring(0..19, true);
    let Host { tier, flash, disk, .. } = &mut counted.host;
    let tier = &*tier;
    // Carries jobs out until there is a sync of the disk, or none.
    let mut until_sync = |owner| loop {
        let mut job = tier.next_job(owner)?;
        if matches!(job, Job::SyncDisk(_)) {
            return Some(job);
        }
        carry_out(flash, disk, &mut job);
        tier.complete(job, Ok(()));
    };
    let stage_in = |block: u64| {
        let staged = tier.stage_in(&PageId::volume(1, block), &page(PAGE, block), StageKind::Dirty, 0);
        assert!(matches!(staged, StageIn::Staged { .. }), "page {block}: {staged:?}");
    };
    stage_in(19);
    let sync = until_sync(1).expect("two pages leave by way of the disk");
    // Pages 0 and 1 are on disk. They are rewritten, and when that is durable others come to their homes.
    [0, 1].into_iter().for_each(stage_in);
    assert!(until_sync(2).is_none(), "one sync is under way");
    [100, 101].into_iter().for_each(stage_in);
    assert!(until_sync(2).is_none(), "one sync is under way");
    let ticket = tier.request_drain(&DrainScope { before: None, range: None }).unwrap();
    assert!(until_sync(2).is_none(), "one sync is under way");
    tier.complete(sync, Ok(()));
    assert_eq!(tier.drain_state(&ticket), DrainState::Pending);
    for block in [0, 1, 100, 101] {
        assert_eq!(tier.holds(&PageId::volume(1, block)), Some(true), "page {block} before it was synced");
    }
    let sync = until_sync(1).expect("the drain's own");
    tier.complete(sync, Ok(()));
    assert!(until_sync(1).is_none());
    assert_eq!(tier.drain_state(&ticket), DrainState::Done);
    assert_eq!(tier.holds(&PageId::volume(1, 100)), Some(false));
    tier.check();
}

/// The same with the rule taken out.
#[cfg(feature = "planted")]
#[test]
fn a_sync_of_the_disk_that_covers_the_next_page_of_a_home_is_noticed() {
    use mezzanine_engine::planted::{Bug, set};
    set(Some(Bug::SyncCoversNextPage));
    let noticed = std::panic::catch_unwind(a_sync_of_the_disk_does_not_cover_the_next_page_of_a_home);
    set(None);
    let said = noticed.unwrap_err();
    let said = said.downcast_ref::<String>().unwrap();
    assert!(said.contains("page 100 before it was synced"), "{said}");
}
