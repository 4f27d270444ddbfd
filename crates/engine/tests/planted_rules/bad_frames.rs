//! Places of flash that could not be read are passed with void records, by which they are known again.

use std::collections::BTreeSet;
use std::ops::Range;

use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{
    Design, DrainCursor, Job, JobError, Lookup, StageIn, StageKind, SyncState, TierConfig,
};

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

/// A tier whose pages are written in place, on a device of which some homes, or all, are bad for good.
struct BadHomes {
    host: Host,
    /// Byte offset of the homes, the last on the device.
    homes: u64,
    /// One home in so many is bad, the first of them.
    every: u64,
    meets: Meets,
    /// Byte offsets of those that a reader has met.
    met: BTreeSet<u64>,
}

/// What follows when a clean page cannot be read.
#[derive(Clone, Copy, Debug)]
enum Meets {
    /// Disk answers, and the page is forgotten: its home is free when the front has passed it.
    Readers,
    /// It is dropped just then: its home is free at the next flush.
    Droppers,
}

/// There was neither room nor a job that makes some.
#[derive(Debug)]
struct Halted;

impl BadHomes {
    fn new(homes: u64, every: u64, meets: Meets) -> Self {
        let config = TierConfig {
            group_pages: 2,
            staging_groups: 2,
            survivors_max: 1,
            band_frames: 2,
            ahead_frames: 0,
            segment_frames: 8,
            ..TierConfig::of(Design::Lru, 4096, homes)
        };
        let geometry = config.geometry().unwrap();
        let homes = geometry.flash_bytes() - homes * 4096;
        Self { host: Host::new(&config, 1), homes, every, meets, met: BTreeSet::new() }
    }

    fn is_bad(&self, offset: u64) -> bool {
        offset >= self.homes && (offset - self.homes) / 4096 % self.every == 0
    }

    fn step(&mut self) -> bool {
        let Some(mut job) = self.host.tier.next_job(1) else { return false };
        let unreadable = |(offset, bytes): &(u64, &mut [u8])| {
            (*offset..*offset + bytes.len() as u64).step_by(4096).any(|offset| self.is_bad(offset))
        };
        let fails = match &mut job {
            Job::ReadFront(job) => job.reads().iter().any(unreadable),
            _ => false,
        };
        if !fails {
            carry_out(&mut self.host.flash, &mut self.host.disk, &mut job);
        }
        self.host.tier.complete(job, if fails { Err(JobError) } else { Ok(()) });
        true
    }

    fn stage(&mut self, block: u64, version: u64, kind: StageKind) -> Result<(), Halted> {
        while self.host.tier.stage_in(&id(block), &page(4096, version), kind, 0) == StageIn::Full {
            if !self.step() {
                return Err(Halted);
            }
        }
        assert!(!self.host.tier.lost().contains(&id(block)), "what is written anew is lost no more");
        while self.step() {}
        Ok(())
    }

    /// Reads a page as a host does: what flash does not give back comes from disk, if disk has it. The
    /// version read; `None` of a page that only flash had.
    fn read(&mut self, block: u64) -> Result<Option<u64>, Halted> {
        let mut bytes = page(4096, 0);
        loop {
            match self.host.tier.lookup(&id(block), &mut bytes) {
                Lookup::Memory => {}
                Lookup::Flash(found) if !self.is_bad(found.offset) => {
                    let offset = found.offset as usize;
                    bytes.copy_from_slice(&self.host.flash.0[offset..offset + 4096]);
                    assert!(self.host.tier.verify(&found, &bytes), "block {block}");
                }
                Lookup::Flash(found) if found.dirty && !self.host.tier.on_disk(&id(block), &found) => {
                    return Ok(None);
                }
                Lookup::Flash(found) => {
                    self.met.insert(found.offset);
                    if self.host.tier.bury_clean(&id(block), &found) == Ok(true) {
                        self.sync();
                    }
                    match self.meets {
                        Meets::Readers => self.host.tier.invalidate_clean(&id(block), &found),
                        Meets::Droppers => self.drop_page(block),
                    }
                    continue;
                }
                Lookup::Miss(token) => {
                    bytes = self.host.disk.get(&id(block)).cloned().unwrap_or_else(|| page(4096, block));
                    let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    self.stage(block, version, StageKind::Clean(Some(token)))?;
                }
            }
            return Ok(Some(u64::from_le_bytes(bytes[..8].try_into().unwrap())));
        }
    }

    /// Reads clean pages, and those of the last few once more that are still there: so each home that has one
    /// is read, however soon its page has to leave.
    fn read_clean(&mut self, blocks: Range<u64>) -> Result<(), Halted> {
        for block in blocks {
            assert_eq!(self.read(block)?, Some(block));
            for before in block.saturating_sub(8)..block {
                if self.host.tier.holds(&id(before)).is_some() {
                    assert_eq!(self.read(before)?, Some(before));
                }
            }
        }
        Ok(())
    }

    fn drop_page(&mut self, block: u64) {
        while self.host.tier.invalidate(&id(block)).is_err() {
            assert!(self.step(), "a full tier must have a job");
        }
        self.sync();
    }

    fn sync(&mut self) {
        let ticket = self.host.tier.request_sync().unwrap();
        while self.host.tier.sync_state(&ticket) != SyncState::Durable {
            assert!(self.step(), "a sync under way must have a job");
        }
    }
}

/// Reads clean pages until all bad homes have been met, and goes on so, with a few dirty pages that are lost
/// where their home is bad, and written anew.
fn goes_on_with_bad_homes(homes: u64, meets: Meets, rounds: u64) -> Result<(), Halted> {
    const DIRTY: u64 = 1 << 20;
    let mut tier = BadHomes::new(homes, 1, meets);
    let mut lost_ever = 0;
    for round in 1..=rounds {
        tier.read_clean(0..homes)?;
        for block in DIRTY..DIRTY + 3 {
            tier.stage(block, DIRTY + round, StageKind::Dirty)?;
        }
        tier.read_clean(homes..2 * homes)?;
        let (lost, mut unread) = (tier.host.tier.lost(), Vec::new());
        for block in DIRTY..DIRTY + 3 {
            match tier.read(block)? {
                Some(version) => assert_eq!(version, DIRTY + round),
                // Of some the home was not needed yet.
                None => unread.push(id(block)),
            }
        }
        assert!(lost.iter().all(|id| unread.contains(id)), "what is lost is named as lost");
        lost_ever += lost.len();
        assert_eq!(tier.host.tier.failure(), None);
        tier.host.tier.check();
    }
    assert!(lost_ever > 0, "some page met a bad home");
    Ok(())
}

/// It was so once that every home that could not be read was left out, however few were left, until no page
/// came in any more and there was no job to do. Of 64 too few are left; 320 are more than a list of bad
/// frames has room for.
#[test]
fn a_tier_goes_on_though_all_of_its_homes_are_bad() {
    for (homes, meets, rounds) in [(64, Meets::Readers, 20), (320, Meets::Droppers, 4)] {
        only_with(&[Bug::BadHomesAllLeftOut], || goes_on_with_bad_homes(homes, meets, rounds).is_ok());
    }
}

/// Clean pages are read until a reader has met each of `bad` bad homes, one in five. Then others go through
/// the tier, so many that the front passes all records that there were, and dirty ones. Whether all of these
/// can be read.
fn bad_homes_that_were_met_are_left_out(bad: u64, meets: Meets) -> Result<bool, Halted> {
    const DIRTY: u64 = 1 << 20;
    let homes = 5 * bad;
    let mut tier = BadHomes::new(homes, 5, meets);
    let mut blocks = 0..homes;
    while (tier.met.len() as u64) < bad {
        assert!(blocks.start < 3 * homes, "{meets:?}: each home gets pages");
        tier.read_clean(blocks.clone())?;
        blocks = blocks.end..blocks.end + homes / 4;
    }
    tier.met.clear();
    tier.read_clean(blocks.start..blocks.start + 4 * homes)?;
    for block in DIRTY..DIRTY + homes {
        tier.stage(block, block, StageKind::Dirty)?;
    }
    tier.sync();
    for block in DIRTY..DIRTY + homes {
        if tier.read(block)? != Some(block) {
            return Ok(false);
        }
    }
    tier.host.tier.check();
    Ok(tier.met.is_empty() && tier.host.tier.statistics().lost == 0)
}

/// A dirty page is lost in each of `bad` bad homes, one in twenty, and written anew when all are; all that
/// time its home is kept. Then others go through the tier. Whether none of these is lost.
fn a_home_loses_one_page(bad: u64) -> Result<bool, Halted> {
    let homes = 20 * bad;
    let mut tier = BadHomes::new(homes, 20, Meets::Readers);
    for block in 0..2 * homes {
        tier.stage(block, block, StageKind::Dirty)?;
    }
    let lost = tier.host.tier.lost();
    assert_eq!(lost.len() as u64, bad, "each bad home has lost a page");
    for block in 0..2 * homes {
        if lost.contains(&id(block)) {
            tier.stage(block, block, StageKind::Dirty)?;
        }
    }
    for block in 2 * homes..4 * homes {
        tier.stage(block, block, StageKind::Dirty)?;
    }
    tier.host.tier.check();
    Ok(tier.host.tier.statistics().lost == bad)
}

/// The list of bad frames has room for 256, and it was so once that beyond that a home was given out again
/// for each one that was noted, however many good ones there were: it lost its next page, was noted again,
/// and so on.
#[test]
fn of_many_homes_more_bad_ones_are_left_out_than_a_list_has_room_for() {
    for meets in [Meets::Readers, Meets::Droppers] {
        only_with(&[Bug::BadHomesForgotten], || bad_homes_that_were_met_are_left_out(400, meets).unwrap());
    }
    only_with(&[Bug::BadHomesForgotten], || a_home_loses_one_page(300).unwrap());
}
