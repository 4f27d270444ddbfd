//! Places of flash that could not be read are passed with void records, by which they are known again.

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{DrainCursor, Job, JobError, StageIn, StageKind, TierConfig};

use crate::common::{Host, carry_out, page};
use crate::{id, pairs, summary};

/// Carries out a job on a device of which the byte at `bad` cannot be read. Whether there was one.
fn step(host: &mut Host, bad: u64) -> bool {
    let Some(mut job) = host.tier.next_job(1) else { return false };
    let covers = |(offset, bytes): &(u64, &mut [u8])| (*offset..*offset + bytes.len() as u64).contains(&bad);
    let fails = match &mut job {
        Job::ReadFront(job) => job.reads().iter().any(covers),
        _ => false,
    };
    if !fails {
        carry_out(&mut host.flash, &mut host.disk, &mut job);
    }
    host.tier.complete(job, if fails { Err(JobError) } else { Ok(()) });
    true
}

fn write(host: &mut Host, bad: u64, block: u64) {
    while host.tier.stage_in(&id(block), &page(4096, block), StageKind::Dirty, 0) == StageIn::Full {
        assert!(step(host, bad), "a full tier must have a job");
    }
}

/// The place of a summary cannot be read. Stage-out meets it once, and it is passed from then on. The tier is
/// drained, closed and opened: nothing at the front is read any more, so only its record tells of it.
fn the_place_of_a_bad_summary_is_known_again() -> bool {
    let mut host = Host::new(&TierConfig { survivors_max: 0, ..pairs() }, 1);
    (0..20).for_each(|block| write(&mut host, u64::MAX, block));
    host.sync();
    let bad = summary(&host, 3) as u64 + 100;
    let met = (20..3000).find(|&block| {
        write(&mut host, bad, block);
        host.tier.statistics().voids > 0
    });
    let met = met.expect("it is passed");
    assert_eq!((host.tier.statistics().lost, host.tier.statistics().unreadable), (0, 0), "no page lay there");
    // Less than once round.
    (met + 1..met + 200).for_each(|block| write(&mut host, bad, block));
    host.sync();
    let mut cursor = DrainCursor::default();
    loop {
        let pages = host.tier.drain_batch(&mut cursor, 64);
        if pages.is_empty() {
            break;
        }
        host.tier.mark_clean(&pages);
    }
    host.superblock = host.tier.closed(&host.superblock);
    let mut host = host.reopen(false);
    assert_eq!((host.tier.valid_and_dirty().1, host.tier.statistics().voids), (0, 0));
    (met + 200..met + 500).for_each(|block| write(&mut host, bad, block));
    host.tier.statistics().voids > 0
}

#[test]
fn the_place_of_a_summary_that_could_not_be_read_is_known_after_a_restart() {
    only_with(&[Bug::BadSummaryForgotten, Bug::VoidsForgotten], || {
        std::panic::catch_unwind(the_place_of_a_bad_summary_is_known_again).unwrap_or(false)
    });
}
