//! The replacement of the FaCE designs: the shipped tier itself, with devices that hold nothing.
//!
//! The queue is the replacement, and in it what leaves depends on everything: on groups, on superseded versions, on what is kept
//! free. So nothing of it is written a second time here. Every page is the same page of zeros; the flash device remembers the
//! group summaries, which second chances are read from, and no pages; disk is not there at all. Jobs are carried out as soon as they are handed out.
//!
//! A read that misses brings its page from disk, and it is staged in clean. A write stages its page in dirty, which makes a new version of it if
//! an older one is there.

use std::collections::HashMap;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Geometry, Job, Lookup, PageId, ReadError, ReadFlash, Region, StageIn, StageKind, Tier,
};

use super::counts::{Access, Counts};

/// A tier of a FaCE design that holds pages' numbers and no pages.
pub struct Queue {
    tier: Tier,
    flash: Summaries,
    /// Where a lookup copies pages to that are in staging memory.
    page: Vec<u8>,
    /// Reads and writes, and those of them that missed.
    requests: [u64; 2],
    misses: [u64; 2],
}

/// The only process that uses the tier.
const OWNER: u32 = 1;
/// File that the pages are of.
const FILE: u64 = 1;

impl Queue {
    /// An empty tier.
    pub fn new(geometry: &Geometry) -> Self {
        let superblock = Superblock::new(geometry, [1; 16], [2; 16]);
        let region = Region::heap(geometry.region_bytes());
        let recovered = Tier::recover(region, &superblock, OWNER, &mut Blank);
        let tier = recovered.expect("a blank device has nothing that could be damaged").tier;
        let page = vec![0; geometry.page_size()];
        Self { tier, flash: Summaries::default(), page, requests: [0; 2], misses: [0; 2] }
    }

    /// Bytes of memory that a tier takes when its queue is full.
    pub fn bytes(geometry: &Geometry) -> u64 {
        let summaries = geometry.frames() / geometry.group_frames() * geometry.summary_frames();
        geometry.region_bytes() as u64 + summaries * (geometry.page_size() as u64 + SUMMARY_OVERHEAD)
    }

    /// Makes requests.
    pub fn run(&mut self, accesses: &[Access]) {
        for access in accesses {
            let id = PageId::volume(FILE, access.page().into());
            let is_write = usize::from(access.is_write());
            self.requests[is_write] += 1;
            let missed = matches!(self.tier.lookup(&id, &mut self.page), Lookup::Miss(_));
            self.misses[is_write] += u64::from(missed);
            if access.is_write() {
                self.stage_in(&id, StageKind::Dirty);
            } else if missed {
                self.stage_in(&id, StageKind::Clean(None));
            }
        }
    }

    fn stage_in(&mut self, id: &PageId, kind: StageKind) {
        self.page.fill(0);
        loop {
            match self.tier.stage_in(id, &self.page, kind, 0) {
                StageIn::Staged { .. } => break,
                StageIn::Refused => unreachable!("admission takes every page"),
                // Staging memory is full.
                StageIn::Full | StageIn::Dropped => {
                    assert!(self.carry_out_job(), "a full tier has jobs");
                }
            }
        }
        while self.carry_out_job() {}
    }

    fn carry_out_job(&mut self) -> bool {
        let Some(mut job) = self.tier.next_job(OWNER) else { return false };
        match &mut job {
            Job::WriteGroup(group) => {
                let page_size = self.page.len();
                group.writes().for_each(|(offset, bytes)| self.flash.write(offset, bytes, page_size));
            }
            Job::ReadFront(front) => {
                let page_size = self.page.len();
                front
                    .reads()
                    .into_iter()
                    .for_each(|(offset, bytes)| self.flash.read(offset, bytes, page_size));
            }
            Job::WriteSegment(_) | Job::FlushFlash(_) | Job::WriteDisk(_) | Job::SyncDisk(_) => {}
            Job::PullPages(_) => {}
        }
        self.tier.complete(job, Ok(()));
        true
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        Counts::of(self.requests, self.misses)
    }

    /// Checks the tier. For tests.
    ///
    /// # Panics
    /// If one of its invariants does not hold.
    pub fn check(&self) {
        self.tier.check();
        let statistics = self.tier.statistics();
        assert_eq!(statistics.dropped_present + statistics.refused, 0, "what is staged in was missed");
    }
}

/// Flash on which nothing was ever written.
struct Blank;

impl ReadFlash for Blank {
    fn read(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        bytes.fill(0);
        Ok(())
    }
}

/// Flash that keeps frames unless they are zeros, as all pages are.
#[derive(Default)]
struct Summaries(HashMap<u64, Box<[u8]>>);

/// Bytes that keeping a summary takes beside its own.
const SUMMARY_OVERHEAD: u64 = 48;

impl Summaries {
    fn write(&mut self, offset: u64, bytes: &[u8], page_size: usize) {
        for (at, frame) in (offset..).step_by(page_size).zip(bytes.chunks(page_size)) {
            if frame.iter().all(|byte| *byte == 0) {
                self.0.remove(&at);
            } else {
                self.0.insert(at, frame.into());
            }
        }
    }

    fn read(&self, offset: u64, bytes: &mut [u8], page_size: usize) {
        for (at, frame) in (offset..).step_by(page_size).zip(bytes.chunks_mut(page_size)) {
            match self.0.get(&at) {
                Some(kept) => frame.copy_from_slice(kept),
                None => frame.fill(0),
            }
        }
    }
}
