//! What recovery accepts and what it refuses: torn tails are absent, damage below the durable mark is
//! said, metadata that rots is replaced by the groups it stands for.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashSet;

use common::{Flash, Host, page};
use mezzanine_engine::format::{
    FormatError, SUMMARY_MAGIC, Superblock, read_superblock, read_superblock_to_drain,
};
use mezzanine_engine::{
    Blank, Design, Failure, Job, JobError, Lookup, PageId, ReadError, ReadFlash, RecoveryError, StageIn,
    StageKind, SyncState, Tier, TierConfig,
};

mod common;

fn small() -> TierConfig {
    let mut config = TierConfig::new(4096, 512);
    config.design = Design::FaceGr;
    config
}

/// Byte offsets of the group summaries on flash, in the order of their sequence numbers.
fn summaries(host: &Host) -> Vec<usize> {
    let mut found: Vec<(u64, usize)> = (0..host.flash.0.len() / 4096)
        .map(|frame| frame * 4096)
        .filter(|&at| host.flash.0[at..at + 8] == SUMMARY_MAGIC)
        .map(|at| (u64::from_le_bytes(host.flash.0[at + 48..at + 56].try_into().unwrap()), at))
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, at)| at).collect()
}

fn filled(groups: u64) -> Host {
    let mut host = Host::new(&small(), 1);
    let pages = host.tier.geometry().group_pages();
    for n in 0..groups {
        for block in 0..pages {
            host.write(PageId::volume(1, n * pages + block), &page(4096, n * pages + block + 1));
        }
        host.sync();
    }
    host
}

fn read_back(host: &mut Host, block: u64) -> bool {
    let superblock = host.superblock.clone();
    let recovered = host.flash.recover(&superblock).unwrap();
    let mut out = vec![0; 4096];
    match recovered.tier.lookup(&PageId::volume(1, block), &mut out) {
        Lookup::Flash(found) => {
            let at = found.offset as usize;
            recovered.tier.verify(&found, &host.flash.0[at..at + 4096])
        }
        _ => false,
    }
}

#[test]
fn a_torn_page_in_the_last_group_makes_the_group_absent() {
    let mut host = filled(3);
    let last = *summaries(&host).last().unwrap();
    assert!(read_back(&mut host, 0));
    let block = 2 * host.tier.geometry().group_pages();
    assert!(read_back(&mut host, block));
    host.flash.0[last + 4096 + 512] ^= 1;
    assert!(read_back(&mut host, 0));
    assert!(!read_back(&mut host, block));
}

#[test]
fn a_torn_summary_in_the_last_group_makes_the_group_absent() {
    let mut host = filled(3);
    let last = *summaries(&host).last().unwrap();
    host.flash.0[last + 400] ^= 1;
    let block = 2 * host.tier.geometry().group_pages();
    assert!(!read_back(&mut host, block));
    assert!(read_back(&mut host, 0));
}

/// Whatever lies behind the last group is looked at as well, and a flipped bit there must not make the tier
/// unusable.
#[test]
fn a_newer_format_version_in_a_group_is_damage() {
    let mut host = filled(3);
    let last = *summaries(&host).last().unwrap();
    host.flash.0[last + 11] = 0x80;
    let block = 2 * host.tier.geometry().group_pages();
    assert!(!read_back(&mut host, block));
    assert!(read_back(&mut host, 0));
}

#[test]
fn a_lost_group_that_a_later_one_knew_durable_is_refused() {
    let mut host = filled(4);
    let second = summaries(&host)[1];
    host.flash.0[second + 100] ^= 1;
    let superblock = host.superblock.clone();
    let error = host.flash.recover(&superblock).err().unwrap();
    assert!(
        matches!(&error, RecoveryError::Damaged { what, .. } if what.contains("was durable and is gone")),
        "{error}"
    );
}

#[test]
fn a_rotten_page_below_the_mark_is_found_when_it_is_read() {
    let mut host = filled(4);
    let second = summaries(&host)[1];
    host.flash.0[second + 4096 + 5] ^= 1;
    let pages = host.tier.geometry().group_pages();
    assert!(!read_back(&mut host, pages));
    assert!(read_back(&mut host, pages + 1));
}

#[test]
fn a_tier_closed_in_order_refuses_to_lose_its_last_group() {
    let mut host = filled(3);
    host.tier.begin_drain();
    while host.step() {}
    host.sync();
    let superblock = host.tier.closed(&host.superblock);
    let last = *summaries(&host).last().unwrap();
    assert!(host.flash.recover(&superblock).is_ok());
    host.flash.0[last + 20] ^= 1;
    let error = host.flash.recover(&superblock).err().unwrap();
    assert!(matches!(&error, RecoveryError::Damaged { what, .. } if what.contains("closed")), "{error}");
}

#[test]
fn a_rotten_segment_is_replaced_by_the_groups_it_stands_for() {
    let mut host = filled(40);
    assert!(host.tier.statistics().segments_written >= 3, "{:?}", host.tier.statistics());
    let superblock = host.superblock.clone();
    let whole = host.flash.recover(&superblock).unwrap();
    let starts: Vec<usize> = (0..host.flash.0.len() / 4096)
        .map(|at| at * 4096)
        .filter(|&at| host.flash.0[at..at + 8] == *b"MEZZSEG1")
        .collect();
    for start in starts {
        for at in [start + 60, start + 4096 + 100] {
            host.flash.0[at] ^= 0x40;
            let healed = host.flash.recover(&superblock).unwrap();
            assert_eq!(healed.tier.valid_and_dirty(), whole.tier.valid_and_dirty(), "flip at {at}");
            host.flash.0[at] ^= 0x40;
        }
    }
}

#[test]
fn recovery_can_be_repeated() {
    let mut host = filled(40);
    let superblock = host.superblock.clone();
    let first = host.flash.recover(&superblock).unwrap();
    let second = host.flash.recover(&superblock).unwrap();
    assert_eq!(first.superblock, second.superblock);
    assert_eq!(first.writes, second.writes);
    assert_eq!(first.tier.valid_and_dirty(), second.tier.valid_and_dirty());
}

/// A device that brings what is read together for the first time as it likes, and counts what is read alone.
struct Together<'f> {
    flash: &'f mut Flash,
    brings: fn(usize, Vec<u8>) -> Result<Vec<u8>, ReadError>,
    seen: HashSet<u64>,
    alone: usize,
}

impl ReadFlash for Together<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.alone += 1;
        self.flash.read(offset, bytes)
    }

    fn read_many(&mut self, reads: &mut [(u64, Vec<u8>)]) -> Vec<Result<(), ReadError>> {
        let bring = |(number, (offset, bytes)): (usize, &mut (u64, Vec<u8>))| {
            self.flash.read(*offset, bytes)?;
            if self.seen.insert(*offset) {
                *bytes = (self.brings)(number, std::mem::take(bytes))?;
            }
            Ok(())
        };
        reads.iter_mut().enumerate().map(bring).collect()
    }
}

/// Reading together saves reads, and decides nothing: what fails or is wrong in it is read again.
#[test]
fn what_is_read_together_may_fail_or_be_wrong() {
    fn failed() -> Result<Vec<u8>, ReadError> {
        Err(ReadError("it is busy".to_owned()))
    }
    fn flipped(mut bytes: Vec<u8>) -> Result<Vec<u8>, ReadError> {
        bytes[8] ^= 1;
        Ok(bytes)
    }
    let mut host = filled(40);
    let superblock = host.superblock.clone();
    let bytes = superblock.config.geometry().unwrap().region_bytes();
    let whole = host.flash.recover(&superblock).unwrap();
    let mut recover = |brings| {
        let mut together = Together { flash: &mut host.flash, brings, seen: HashSet::new(), alone: 0 };
        let found = Tier::recover(Blank::heap(bytes), &superblock, 1, &mut together).unwrap();
        assert_eq!(found.superblock, whole.superblock);
        assert!(found.writes == whole.writes);
        assert_eq!(found.tier.valid_and_dirty(), whole.tier.valid_and_dirty());
        together.alone
    };
    let fewest = recover(|_, bytes| Ok(bytes));
    for brings in [
        |_, _| failed(),
        |number, bytes| if number % 2 == 0 { Ok(bytes) } else { failed() },
        |_, bytes| flipped(bytes),
        |number, bytes| if number % 3 == 0 { failed() } else { flipped(bytes) },
    ] as [fn(usize, Vec<u8>) -> Result<Vec<u8>, ReadError>; 4]
    {
        let alone = recover(brings);
        assert!(
            alone > fewest,
            "{alone} were read alone, and {fewest} where all that was read together served"
        );
    }
}

#[test]
fn superblocks_are_read_from_whichever_copy_is_whole() {
    let mut host = Host::new(&small(), 1);
    let older = host.superblock.clone();
    let newer = Superblock { generation: older.generation + 1, ..older.clone() };
    host.flash.write(0, &newer.encode());
    host.flash.write(4096, &older.encode());
    assert_eq!(read_superblock(&mut host.flash).unwrap(), newer);
    host.flash.0[50] ^= 1;
    assert_eq!(read_superblock(&mut host.flash).unwrap(), older);
    host.flash.0[4096 + 50] ^= 1;
    assert!(matches!(read_superblock(&mut host.flash), Err(FormatError::Damaged(_))));
    host.flash.0[..8192].fill(0);
    assert_eq!(read_superblock(&mut host.flash), Err(FormatError::Unrecognised));
    host.flash.write(4096, &older.encode());
    host.flash.0[4096 + 8] = 9;
    assert_eq!(read_superblock(&mut host.flash), Err(FormatError::NewerFormat(9)));
    // An older version counts only where the checksum says that it was written so.
    host.flash.0[4096 + 8] = 1;
    assert!(matches!(read_superblock(&mut host.flash), Err(FormatError::Damaged(_))));
    let written_so = |host: &mut Host, version: u8| {
        let mut bytes = older.encode();
        bytes[8] = version;
        let end = bytes.len() - 4;
        let checksum = crc32c::crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        host.flash.write(4096, &bytes);
        assert_eq!(read_superblock(&mut host.flash), Err(FormatError::OlderFormat(version.into())));
        read_superblock_to_drain(&mut host.flash)
    };
    assert_eq!(written_so(&mut host, 1), Err(FormatError::OlderFormat(1)));
    // Two versions before this one can be read, to drain the tier.
    for version in [2, 3] {
        assert_eq!(written_so(&mut host, version), Ok((older.clone(), version.into())));
    }
}

#[test]
fn after_a_failed_flash_write_pages_stay_readable_and_admission_stops() {
    let mut host = Host::new(&small(), 1);
    let id = PageId::volume(1, 5);
    host.write(id, &page(4096, 77));
    let ticket = host.tier.request_sync().unwrap();
    let job = host.tier.next_job(1).unwrap();
    assert!(matches!(job, Job::WriteGroup(_)));
    host.tier.complete(job, Err(JobError));
    assert_eq!(host.tier.failure(), Some(Failure::FlashWrite));
    assert_eq!(host.tier.sync_state(&ticket), SyncState::Failed);
    assert_eq!(host.read(id), page(4096, 77));
    assert_eq!(host.tier.stage_in(&id, &page(4096, 78), StageKind::Dirty, 0), StageIn::Refused);
    assert!(host.tier.next_job(1).is_none());
    let mut cursor = Default::default();
    assert_eq!(host.tier.drain_batch(&mut cursor, 10).len(), 1);
}

#[test]
fn after_a_failed_flush_nothing_is_retried() {
    let mut host = Host::new(&small(), 1);
    host.write(PageId::volume(1, 5), &page(4096, 77));
    let ticket = host.tier.request_sync().unwrap();
    assert!(host.step());
    let job = host.tier.next_job(1).unwrap();
    assert!(matches!(job, Job::FlushFlash(_)));
    host.tier.complete(job, Err(JobError));
    assert_eq!(host.tier.failure(), Some(Failure::FlashSync));
    assert_eq!(host.tier.sync_state(&ticket), SyncState::Failed);
    assert!(host.tier.next_job(1).is_none());
}

#[test]
fn the_jobs_of_a_dead_owner_are_handed_out_again() {
    let mut host = Host::new(&small(), 1);
    host.write(PageId::volume(1, 5), &page(4096, 77));
    let ticket = host.tier.request_sync().unwrap();
    for _ in 0..2 {
        let job = host.tier.next_job(99).unwrap();
        assert!(matches!(job, Job::WriteGroup(_)));
        std::mem::forget(job);
        assert!(host.tier.next_job(1).is_none());
        host.tier.abandon(99).unwrap();
    }
    assert!(host.step());
    let job = host.tier.next_job(99).unwrap();
    assert!(matches!(job, Job::FlushFlash(_)));
    std::mem::forget(job);
    assert!(host.tier.next_job(1).is_none());
    host.tier.abandon(99).unwrap();
    assert!(host.step());
    assert_eq!(host.tier.sync_state(&ticket), SyncState::Durable);
}

#[test]
fn parameters_out_of_range_are_named() {
    type Change = fn(&mut TierConfig);
    let cases: [(Change, &str); 18] = [
        (|c| c.page_size = 65_536, "page_size"),
        (|c| c.page_size = 0, "page_size"),
        (|c| c.group_pages = 257, "group_pages"),
        (|c| c.staging_groups = 65, "staging_groups"),
        (|c| c.segment_frames = 7, "segment_frames"),
        (|c| c.frames = 0, "frames"),
        (|c| c.frames_max = u64::MAX, "frames_max"),
        (|c| c.shards = 8192, "shards"),
        (|c| c.band_frames = c.frames + 1, "band_frames"),
        (|c| c.ahead_frames = c.frames / 2 + 1, "ahead_frames"),
        (|c| c.page_size = 5000, "page_size"),
        (|c| c.page_size = 2048, "page_size"),
        (|c| c.group_pages = 0, "group_pages"),
        (|c| c.staging_groups = 1, "staging_groups"),
        (|c| c.survivors_max = c.group_pages, "survivors_max"),
        (|c| c.frames = 100, "frames"),
        (|c| c.shards = 3, "shards"),
        (|c| c.band_frames = 0, "band_frames"),
    ];
    for (change, parameter) in cases {
        let mut config = small();
        change(&mut config);
        let error = config.geometry().unwrap_err();
        assert_eq!(error.parameter, parameter, "{error}");
        assert!(!error.advice.is_empty());
    }
}
