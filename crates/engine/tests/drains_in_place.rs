//! Pages that are written in place: when a drain is done nothing is newer than its disk copy, whatever else
//! has pages on their way to disk.
//!
//! A page that stage-out has written waits for a sync in a list. A drain does not write it once more, for the
//! drain's sync covers it. So it has to stand in that list, once, when that sync begins.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::HashMap;

use common::{Flash, Host, carry_out, page};
use mezzanine_engine::planted::{Bug, set};
use mezzanine_engine::{
    Design, DrainScope, DrainState, DrainTicket, Job, PageId, PolicyParameters, StageIn, StageKind, Tier,
    TierConfig,
};
use mezzanine_ground::random::Random;

const PAGE: usize = 4096;
const PAGES: u64 = 40;

fn config(design: Design) -> TierConfig {
    TierConfig {
        group_pages: 2,
        staging_groups: 2,
        survivors_max: 1,
        band_frames: 1,
        ahead_frames: 0,
        segment_frames: 8,
        // The cleaner is seldom content.
        policy: PolicyParameters {
            dirty_percent: (design == Design::Lc).then_some(5),
            ..PolicyParameters::default()
        },
        ..TierConfig::of(design, PAGE as u32, 24)
    }
}

/// A host whose disk takes its time to sync.
struct Slow<'h> {
    tier: &'h Tier,
    flash: &'h mut Flash,
    disk: &'h mut HashMap<PageId, Vec<u8>>,
    syncing: Option<Job<'h>>,
}

impl Slow<'_> {
    /// Carries out a job, or begins to; false if there was none.
    fn step(&mut self) -> bool {
        let Some(mut job) = self.tier.next_job(1) else { return false };
        if matches!(job, Job::SyncDisk(_)) {
            assert!(self.syncing.is_none(), "one sync at a time");
            self.syncing = Some(job);
            return true;
        }
        carry_out(self.flash, self.disk, &mut job);
        self.tier.complete(job, Ok(()));
        true
    }

    /// The sync under way ends; false if there is none.
    fn sync_ends(&mut self) -> bool {
        let job = self.syncing.take();
        let any = job.is_some();
        job.into_iter().for_each(|job| self.tier.complete(job, Ok(())));
        any
    }

    fn step_or_sync(&mut self) -> bool {
        self.step() || self.sync_ends()
    }

    fn is_done(&self, ticket: &DrainTicket) -> bool {
        self.tier.drain_state(ticket) == DrainState::Done
    }
}

/// Drains a tier again and again while pages come and go, the disk syncs slowly and another process dies that
/// had no job: how many dirty pages the drains have left, none of which came later.
fn left_dirty(design: Design, seed: u64) -> u64 {
    let mut host = Host::new(&config(design), seed);
    let mut random = Random::new(seed);
    let Host { tier, flash, disk, .. } = &mut host;
    let mut slow = Slow { tier, flash, disk, syncing: None };
    for round in 0..20 {
        for _ in 0..random.below(100) {
            let id = PageId::volume(1, random.below(PAGES));
            while slow.tier.stage_in(&id, &page(PAGE, round), StageKind::Dirty, 0) == StageIn::Full {
                assert!(slow.step_or_sync(), "{design}, seed {seed}: a full tier must have a job");
            }
            while random.below(3) != 0 && slow.step() {}
            let _ = random.below(40) == 0 && slow.sync_ends();
        }
        let ticket = slow.tier.request_drain(&DrainScope { before: None, range: None }).unwrap();
        while !slow.is_done(&ticket) {
            if random.below(8) == 0 {
                slow.tier.abandon(9).unwrap();
            }
            let moved =
                if random.below(16) == 0 { slow.sync_ends() || slow.step() } else { slow.step_or_sync() };
            assert!(moved, "{design}, seed {seed}: a drain must have a job");
        }
        let (_, dirty) = slow.tier.valid_and_dirty();
        if dirty > 0 {
            return dirty;
        }
    }
    while slow.step_or_sync() {}
    slow.tier.check();
    0
}

/// Designs that take dirty pages and write in place.
fn designs() -> impl Iterator<Item = Design> {
    let dirty = |design: &Design| config(*design).geometry().is_ok_and(|geometry| !geometry.provably_clean());
    Design::ALL.iter().copied().filter(|design| design.writes_in_place() && !design.has_slots()).filter(dirty)
}

#[test]
fn a_drain_leaves_nothing_dirty() {
    for design in designs() {
        for seed in 0..40 {
            assert_eq!(left_dirty(design, seed), 0, "{design}, seed {seed}");
        }
    }
}

/// Whether a drain leaves something with this rule taken out.
fn some_are_left(design: Design, bug: Bug) -> bool {
    set(Some(bug));
    let left = (0..40).any(|seed| left_dirty(design, seed) > 0);
    set(None);
    left
}

#[test]
fn a_page_that_is_listed_again_is_left() {
    for design in designs() {
        assert!(some_are_left(design, Bug::WrittenListedAgain), "every drain of {design} is complete");
    }
}

/// What a drain has written the cleaner lists all at once.
#[test]
fn pages_that_find_no_place_in_the_list_are_left() {
    assert!(some_are_left(Design::Lc, Bug::WrittenListOverrun), "every drain is complete");
}
