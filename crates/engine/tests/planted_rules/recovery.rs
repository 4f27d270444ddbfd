//! What a recovery takes from flash, what it leaves, and what it calls damaged.

use mezzanine_engine::format::SUPERBLOCK_OFFSETS;
use mezzanine_engine::planted::{Bug, only_with, set};
use mezzanine_engine::{
    Design, HOST_METADATA_BYTES, Lookup, ReadError, ReadFlash, RecoveryError, Region, Tier, TierConfig,
};

use crate::common::{Flash, Host, page};
use crate::{id, pairs, summary};

/// Two groups are written and not flushed, and the first is torn: after a crash neither is there. Then
/// `again` is staged in, a whole group, and the power fails again. Does the second group of the first life
/// stay away?
fn an_earlier_life_stays_away(again: [u64; 2]) -> bool {
    let mut host = Host::new(&pairs(), 1);
    host.write(id(0), &page(4096, 100));
    host.sync();
    for version in [1, 2, 3, 4] {
        host.write(id(version), &page(4096, version));
    }
    while host.step() {}
    let torn = summary(&host, 1);
    host.flash.0[torn + 4096] ^= 1;
    let mut host = host.reopen(false);
    assert!(matches!(host.tier.lookup(&id(3), &mut [0; 4096]), Lookup::Miss(_)));
    for version in again {
        host.write(id(version), &page(4096, version));
    }
    host.sync();
    let mut host = host.reopen(false);
    assert!(host.read(id(again[0])) == page(4096, again[0]));
    matches!(host.tier.lookup(&id(3), &mut [0; 4096]), Lookup::Miss(_))
}

/// Only the epoch tells a group from one of an earlier life whose predecessor has come back byte for byte.
#[test]
fn groups_of_an_earlier_life_stay_away_behind_the_same_predecessor() {
    only_with(&[Bug::EpochNotRaised, Bug::ChainUnchecked], || an_earlier_life_stays_away([1, 2]));
}

/// Where the predecessor is another one, the epoch alone would do, and so would the predecessor's checksum
/// alone.
#[test]
fn groups_of_an_earlier_life_stay_away_behind_another_predecessor() {
    only_with(&[Bug::ChainUnchecked], || an_earlier_life_stays_away([5, 6]));
    for covered in [Bug::PredecessorUnchecked, Bug::EpochNotRaised] {
        set(Some(covered));
        let held = an_earlier_life_stays_away([5, 6]);
        set(None);
        assert!(held, "{covered:?} is not covered any more");
    }
}

#[test]
fn a_group_that_was_durable_and_is_gone_is_said() {
    only_with(&[Bug::DamageNotRefused], || {
        let mut host = Host::new(&pairs(), 1);
        for block in 0..4 {
            host.write(id(block), &page(4096, block));
            host.sync();
        }
        let gone = summary(&host, 1);
        host.flash.0[gone + 100] ^= 1;
        let superblock = host.superblock.clone();
        host.flash.recover(&superblock).is_err()
    });
}

/// A flash device that cannot be read from one read on, for so many reads.
struct Failing<'f> {
    flash: &'f mut Flash,
    good: u64,
    bad: u64,
    /// The superblocks can be read all the time: places of it are bad, and it is not silent.
    answers: bool,
}

impl ReadFlash for Failing<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        if self.answers && SUPERBLOCK_OFFSETS.contains(&offset) {
            return self.flash.read(offset, bytes);
        }
        if self.good == 0 && self.bad > 0 {
            self.bad -= 1;
            return Err(ReadError("it cannot be read just now".into()));
        }
        self.good = self.good.saturating_sub(1);
        self.flash.read(offset, bytes)
    }
}

/// A tier that was closed, or not, is recovered while the device fails at each of its reads in turn, once or
/// from there on. Is every page in it then, and the host metadata, or is it said that the device could not be
/// read?
fn a_read_that_fails_is_no_damage(design: Design, pages: u64, closed: bool) -> bool {
    let mut host = Host::new(&TierConfig { design, segment_frames: 16, ..pairs() }, 1);
    host.tier.set_host_metadata(&[5; HOST_METADATA_BYTES]);
    for block in 0..pages {
        host.write(id(block % 40), &page(4096, block));
        if block % 7 == 0 {
            host.sync();
        }
    }
    host.sync();
    while host.step() {}
    let superblock = match closed {
        true => {
            host.tier.begin_drain();
            host.tier.closed(&host.superblock)
        }
        false => host.superblock.clone(),
    };
    let valid = host.flash.recover(&superblock).unwrap().report.valid;
    let bytes = superblock.config.geometry().unwrap().region_bytes();
    // As many as a place is read until it counts as unreadable, and more.
    let moments = [1, 2, 3, 4, u64::MAX].into_iter().flat_map(|bad| [(bad, false), (bad, true)]);
    for (bad, answers) in moments {
        for good in 0.. {
            let mut flash = Failing { flash: &mut host.flash, good, bad, answers };
            let recovered = Tier::recover(Region::heap(bytes), &superblock, 1, &mut flash);
            let met = flash.good == 0 && flash.bad < bad;
            let right = match recovered {
                Ok(recovered) => {
                    recovered.host_metadata == [5; HOST_METADATA_BYTES] && recovered.report.valid == valid
                }
                Err(RecoveryError::Read(_) | RecoveryError::Silent(_)) => true,
                Err(RecoveryError::Damaged { unread: Some(_), .. }) => true,
                Err(_) => false,
            };
            if !right {
                return false;
            }
            if !met {
                break;
            }
        }
    }
    true
}

/// A segment that could not be read was done without, and what was then missing was called damaged; or the
/// table of files was taken for empty, because the records that name the group with it could not be read the
/// second time (crash worlds, seeds 700289 and 5000311).
#[test]
fn a_device_that_cannot_be_read_for_a_moment_is_not_called_damaged() {
    let bugs = [Bug::UnreadTakenForDamaged, Bug::NoteOfUnreadSegmentLost];
    only_with(&bugs, || {
        // Among so many lengths there are some at which the last group is the last of a segment.
        let designs = [Design::FaceGr, Design::FaceGsc, Design::Lc].into_iter();
        let mut cases = designs.flat_map(|design| (600..612).map(move |pages| (design, pages)));
        cases.all(|(design, pages)| {
            [false, true].into_iter().all(|closed| a_read_that_fails_is_no_damage(design, pages, closed))
        })
    });
}

/// A session whose superblock the device lost, both copies of it, after it had said that they were durable:
/// the one of the session before is found, and `by` says what becomes of the tier. The next session writes
/// nothing and its power fails. Can the tier be opened each time, and do the groups of the lost session stay
/// away?
fn a_lost_session_stays_away(design: Design, pages: u64, discarded: bool) -> bool {
    let mut host = Host::new(&TierConfig { design, segment_frames: 16, ..pairs() }, 1);
    host.write(id(0), &page(4096, 100));
    host.sync();
    let known = host.superblock.clone();
    let mut host = host.reopen(false);
    for block in 1..=pages {
        host.write(id(block), &page(4096, block));
    }
    host.sync();
    while host.step() {}
    host.superblock = if discarded { known.discarded() } else { known };
    for _ in 0..3 {
        let Ok(recovered) = host.flash.recover(&host.superblock) else { return false };
        recovered.writes.iter().for_each(|(offset, bytes)| host.flash.write(*offset, bytes));
        (host.tier, host.superblock) = (recovered.tier, recovered.superblock);
        let is_there = |block| !matches!(host.tier.lookup(&id(block), &mut [0; 4096]), Lookup::Miss(_));
        if (1..=pages).any(is_there) || is_there(0) == discarded {
            return false;
        }
    }
    true
}

/// A tier that was to be emptied, for it was of another session than its server's marker, took the metadata
/// segments of the epoch that its superblock did not know for those of its next one, which has the same
/// number: the server was refused, as that of a damaged tier, though disk and log had everything (crash
/// worlds, seed 40716318317). Where there were groups alone, they came back after the next crash.
#[test]
fn an_epoch_whose_superblock_was_lost_is_not_given_again() {
    only_with(&[Bug::LostEpochReused], || {
        let designs = [Design::FaceBasic, Design::FaceGsc, Design::Lc].into_iter();
        let mut cases = designs.flat_map(|design| [2, 6, 40].map(move |pages| (design, pages)));
        cases.all(|(design, pages)| {
            [false, true].into_iter().all(|discarded| a_lost_session_stays_away(design, pages, discarded))
        })
    });
    for discarded in [false, true] {
        only_with(&[Bug::LostEpochReused], || a_lost_session_stays_away(Design::FaceGsc, 40, discarded));
    }
}
