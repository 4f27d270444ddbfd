//! Hosts are told when there may be a job, so that they need not ask after every page.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::VecDeque;

use common::{Host, carry_out, page};
use mezzanine_engine::{Design, Job, PageId, StageIn, StageKind, TierConfig};

const PAGE: usize = 4096;

/// What a host does that never asks too seldom: pages with a number that stayed as it was, and all others.
#[derive(Default)]
struct Pages {
    quiet: u64,
    loud: u64,
}

/// Offers pages with jobs under way, and asks for jobs until there is none after each.
fn offer(design: Design, seed: u64) -> Pages {
    let mut host = Host::new(&TierConfig::of(design, PAGE as u32, 1024), seed);
    let draws: Vec<u64> = (0..12_000).map(|_| host.random(1 << 20)).collect();
    let (tier, flash, disk) = (&host.tier, &mut host.flash, &mut host.disk);
    tier.set_pulling(true);
    let mut under_way: VecDeque<Job<'_>> = VecDeque::new();
    let mut pages = Pages::default();
    for (number, draw) in (0..).zip(draws) {
        let id = PageId::volume(1, draw % 1500);
        let page = page(PAGE, number);
        let kind = if draw % 3 == 0 { StageKind::Clean(None) } else { StageKind::Dirty };
        tier.lookup(&PageId::volume(1, draw % 400), &mut vec![0; PAGE]);
        let work = tier.work();
        let staged = tier.stage_in(&id, &page, kind, 0);
        let stayed = matches!(staged, StageIn::Staged { .. }) && tier.work() == work;
        let progress = tier.progress();
        // Twice, because some steps come to nothing at first.
        for _ in 0..2 {
            while let Some(job) = tier.next_job(1) {
                assert!(!stayed, "{design}: page {number} left a job");
                under_way.push_back(job);
            }
        }
        assert!(!stayed || tier.progress() == progress, "{design}: page {number} made room");
        *if stayed { &mut pages.quiet } else { &mut pages.loud } += 1;
        while under_way.len() > 2 || staged == StageIn::Full || draw % 64 == 0 {
            let Some(mut job) = under_way.pop_front() else { break };
            carry_out(flash, disk, &mut job);
            tier.complete(job, Ok(()));
            for _ in 0..2 {
                under_way.extend(std::iter::from_fn(|| tier.next_job(1)));
            }
        }
    }
    pages
}

#[test]
fn a_page_that_leaves_the_number_of_work_as_it_was_leaves_no_job() {
    for design in [Design::FaceBasic, Design::FaceGr, Design::FaceGsc] {
        for seed in 0..3 {
            let pages = offer(design, seed);
            assert!(pages.quiet > 4_000 && pages.loud > 100, "{design}: {}, {}", pages.quiet, pages.loud);
        }
    }
}

#[test]
fn every_page_may_leave_a_job_where_pages_are_written_in_place() {
    assert_eq!(offer(Design::Lru, 1).quiet, 0);
}
