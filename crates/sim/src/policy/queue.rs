//! The replacement of the FaCE designs: the shipped tier itself, with devices that hold nothing.
//!
//! The queue is the replacement, and in it what leaves depends on everything: on groups, on superseded
//! versions, on what is kept free. So nothing of it is written a second time here. Every page is the same
//! page of zeros; the flash device remembers the group summaries, which second chances are read from, and no
//! pages; disk is not there at all. Jobs are carried out as soon as they are handed out.
//!
//! A read that misses brings its page from disk, and it is offered clean: staged in, unless only pages come
//! in that return. A write stages its page in dirty, which makes a new version of it if an older one is
//! there.

use mezzanine_engine::{Geometry, Job, Lookup, PageId, StageIn, StageKind, Statistics, Tier};

use super::counts::{Access, Counts};
use crate::hollow::{Hollow, new_tier};

/// A tier of a FaCE design that holds pages' numbers and no pages.
pub struct Queue {
    tier: Tier,
    flash: Hollow,
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
        let tier = new_tier(geometry, OWNER);
        let page = vec![0; geometry.page_size()];
        Self { tier, flash: Hollow::new(geometry), page, requests: [0; 2], misses: [0; 2] }
    }

    /// Bytes of memory that a tier takes when its queue is full.
    pub fn bytes(geometry: &Geometry) -> u64 {
        geometry.region_bytes() as u64 + Hollow::bytes(geometry)
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
                StageIn::Staged { .. } | StageIn::FirstTouch => break,
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
                group.writes().for_each(|(offset, bytes)| self.flash.write(offset, bytes));
            }
            Job::ReadFront(front) => {
                front.reads().into_iter().for_each(|(offset, bytes)| self.flash.read(offset, bytes));
            }
            Job::WriteSegment(_) | Job::FlushFlash(_) | Job::WriteDisk(_) | Job::SyncDisk(_) => {}
            Job::PullPages(_) => {}
        }
        self.tier.complete(job, Ok(()));
        true
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        Counts {
            turned_away: self.tier.statistics().clean_first_seen,
            ..Counts::of(self.requests, self.misses)
        }
    }

    /// What the tier counted.
    pub fn statistics(&self) -> Statistics {
        self.tier.statistics()
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
