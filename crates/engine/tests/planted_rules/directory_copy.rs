//! A tier that is closed in order is found by the copy of its directory, as segments would have it; whatever
//! is wrong with the copy costs time and nothing else.

use mezzanine_engine::format::{Superblock, TierState};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{
    CopyUse, Design, IdRange, InTurn, LastingMemory, Lookup, PageId, ReadError, ReadFlash, RecoveryReport,
    SyncMode, Tier, TierConfig, WriteFlash,
};

use crate::common::{Flash, Host, page};

const PAGE: usize = 4096;
const BLOCKS: u64 = 1200;

impl WriteFlash for Flash {
    type Error = ReadError;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ReadError> {
        Self::write(self, offset, bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ReadError> {
        Ok(())
    }
}

fn id(block: u64) -> PageId {
    PageId::volume(1 + block % 3, block / 3)
}

/// A tier whose queue has gone round, at rest, with everything durable.
fn used(seed: u64) -> Host {
    let config = TierConfig {
        design: [Design::FaceGsc, Design::FaceGr, Design::FaceBasic][seed as usize % 3],
        sync_mode: SyncMode::Durable,
        segment_frames: 32,
        group_pages: 8,
        survivors_max: 3,
        ..TierConfig::new(PAGE as u32, 1024)
    };
    let mut host = Host::new(&config, seed);
    for number in 0..4000 {
        let block = host.random(BLOCKS);
        match host.random(20) {
            0..15 => host.write(id(block), &page(PAGE, number)),
            15..18 => drop(host.read(id(block))),
            18 => {
                let range = IdRange::blocks(1 + block % 3, block / 3, 1 + block % 10);
                while host.tier.invalidate_range(&range).is_err() {
                    assert!(host.step(), "a full tier must have a job");
                }
                (0..BLOCKS)
                    .map(id)
                    .filter(|id| range.contains(id))
                    .for_each(|id| drop(host.disk.remove(&id)));
            }
            _ => while host.random(4) > 0 && host.step() {},
        }
    }
    rest(&mut host);
    host
}

fn rest(host: &mut Host) {
    host.sync();
    while host.step() {}
    host.sync();
}

/// Leaves the tier in order; the superblock without a copy of the directory, and the one with it.
fn closed(host: &mut Host) -> (Superblock, Superblock) {
    let without = host.tier.closed(&host.superblock);
    let with = host.tier.write_directory_copy(&without, &mut host.flash).unwrap();
    assert!(with.copy.bytes > 0, "there is room for one");
    (without, with)
}

/// What a recovery finds: the tier's memory, what the tier answers for each page, and the report.
type Found = (Vec<u8>, Vec<Option<(bool, Vec<u8>)>>, RecoveryReport);

fn recovered(host: &mut Host, superblock: &Superblock, parts: usize) -> Found {
    let memory = LastingMemory::filled(superblock.config.geometry().unwrap().region_bytes(), 0);
    let workers = InTurn(parts);
    let found = Tier::recover_with(memory.region(), superblock, 1, &mut host.flash, &workers).unwrap();
    let mut bytes = vec![0; memory.bytes()];
    memory.region().copy_out(0, &mut bytes);
    let answers = answers(&found.tier, host);
    found.tier.check();
    (bytes, answers, found.report)
}

/// Whether each page is dirty, and what it is.
fn answers(tier: &Tier, host: &Host) -> Vec<Option<(bool, Vec<u8>)>> {
    let mut bytes = vec![0; PAGE];
    let mut answer = |id: PageId| {
        let dirty = tier.holds(&id)?;
        match tier.lookup(&id, &mut bytes) {
            Lookup::Memory => Some((dirty, bytes.clone())),
            Lookup::Flash(found) => {
                let page = host.flash.0[found.offset as usize..][..PAGE].to_vec();
                assert!(tier.verify(&found, &page), "what lies there is the page");
                Some((dirty, page))
            }
            Lookup::Miss(_) => None,
        }
    };
    (0..BLOCKS).map(|block| answer(id(block))).collect()
}

#[test]
fn the_copy_says_what_was_in_the_tier() {
    for seed in 0..12 {
        let mut host = used(seed);
        let before = answers(&host.tier, &host);
        let (without, with) = closed(&mut host);
        let (_, by_segments, report) = recovered(&mut host, &without, 1);
        assert_eq!(report.directory_copy, CopyUse::Absent);
        let (memory, by_copy, report) = recovered(&mut host, &with, 1);
        assert_eq!((report.directory_copy, report.segments_read), (CopyUse::Used, 0), "seed {seed}");
        assert!(by_copy == before, "seed {seed}: what was there is there, dirty or clean as it was");
        // By their records pages are dirty that are on disk by now, and some are there that have left already.
        for (block, (copied, found)) in (0..).zip(by_copy.into_iter().zip(by_segments)) {
            let disk = host.disk.get(&id(block)).cloned().unwrap_or(vec![0; PAGE]);
            let page = |found: Option<(bool, Vec<u8>)>| found.map_or(disk.clone(), |(_, page)| page);
            assert!(page(copied) == page(found), "seed {seed}, block {block}");
        }
        assert!(recovered(&mut host, &with, 3).0 == memory, "seed {seed}: whoever replays it");
    }
}

#[test]
fn pages_lie_where_they_lay_when_a_copy_was_written() {
    only_with(&[Bug::CopyOverPages], || {
        let mut host = used(3);
        let frames = host.flash.0.clone();
        let geometry = host.superblock.config.geometry().unwrap();
        let (_, with) = closed(&mut host);
        let first = geometry.probes()[geometry.probes().len() - 1] as usize;
        // Where nothing of the copy was written, nothing has changed; and it lies behind the queue.
        let changed = frames[first..].iter().zip(&host.flash.0[first..]).filter(|(a, b)| a != b).count();
        let held = |host: &Host| -> Vec<_> {
            (0..BLOCKS)
                .filter_map(|block| match host.tier.lookup(&id(block), &mut vec![0; PAGE]) {
                    Lookup::Flash(found) => {
                        Some(host.tier.verify(&found, &host.flash.0[found.offset as usize..][..PAGE]))
                    }
                    _ => None,
                })
                .collect()
        };
        let whole = held(&host);
        changed > 0
            && changed as u64 <= with.copy.bytes
            && !whole.is_empty()
            && whole.iter().all(|whole| *whole)
    });
}

/// Bytes of the copy are damaged, or it is another one than the superblock names.
#[test]
fn a_damaged_copy_costs_time_and_nothing_else() {
    only_with(&[Bug::CopyChecksumUnchecked, Bug::HalfCopyKept], || {
        let mut host = used(1);
        let before = host.flash.0.clone();
        let (without, with) = closed(&mut host);
        let (memory, by_segments, _) = recovered(&mut host, &without, 1);
        let copy: Vec<usize> = (0..before.len())
            .filter(|at| before[*at] != host.flash.0[*at] && host.flash.0[*at] != 0)
            .collect();
        let copy_is_done_without = |host: &mut Host, superblock: &Superblock| {
            let recover = || recovered(host, superblock, 2);
            let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(recover));
            found.is_ok_and(|(found_memory, found, report)| {
                report.directory_copy == CopyUse::Unusable && found == by_segments && found_memory == memory
            })
        };
        // All of it is read before that shows.
        let mut other = with.clone();
        other.copy.checksum ^= 1;
        let of_other = copy_is_done_without(&mut host, &other);
        of_other
            && (0..40).all(|number| {
                let at = copy[copy.len() * number / 40];
                host.flash.0[at] ^= 0x10;
                let without = copy_is_done_without(&mut host, &with);
                host.flash.0[at] ^= 0x10;
                without
            })
    });
}

/// The tier is opened, and used or not, and left by a crash.
#[test]
fn a_copy_is_void_when_the_tier_was_opened() {
    only_with(&[Bug::CopyNamedWhileOpen], || {
        let mut host = used(2);
        let (_, with) = closed(&mut host);
        let opened = host.flash.recover(&with).unwrap();
        assert_eq!(opened.report.directory_copy, CopyUse::Used);
        assert_eq!(opened.superblock.state, TierState::Open);
        for (offset, bytes) in opened.writes {
            host.flash.write(offset, &bytes);
        }
        (host.tier, host.superblock) = (opened.tier, opened.superblock);
        let superblock = host.superblock.clone();
        let before_use = host.flash.recover(&superblock).unwrap().report.directory_copy;
        for block in 0..20 {
            host.write(id(block), &page(PAGE, 9000 + block));
        }
        host.sync();
        let crashed = host.flash.recover(&superblock).unwrap();
        let pages = answers(&crashed.tier, &host);
        let newest = (0..20).all(|block| pages[block as usize] == Some((true, page(PAGE, 9000 + block))));
        newest && before_use == CopyUse::Absent && crashed.report.directory_copy == CopyUse::Absent
    });
}

/// A tier that goes on, after any number of orderly ends, and crashes.
#[test]
fn a_tier_goes_on_from_copy_to_copy() {
    for seed in 0..6 {
        let mut host = used(seed);
        for life in 0..6 {
            let before = answers(&host.tier, &host);
            let superblock = if host.random(3) == 0 { host.superblock.clone() } else { closed(&mut host).1 };
            let recovered = host.flash.recover(&superblock).unwrap();
            let by_copy = superblock.state != TierState::Open;
            assert_eq!(recovered.report.directory_copy == CopyUse::Used, by_copy);
            for (offset, bytes) in recovered.writes {
                host.flash.write(offset, &bytes);
            }
            (host.tier, host.superblock) = (recovered.tier, recovered.superblock);
            let now = answers(&host.tier, &host);
            for (block, (before, now)) in before.into_iter().zip(now).enumerate() {
                if let Some((_, before)) = before {
                    assert!(
                        now.is_some_and(|(_, now)| now == before),
                        "seed {seed}, life {life}, block {block}"
                    );
                }
            }
            for number in 0..300 {
                let block = host.random(BLOCKS);
                host.write(id(block), &page(PAGE, 10_000 * (life + 1) + number));
            }
            rest(&mut host);
        }
    }
}

/// A clean page whose copy could not be read was forgotten in memory alone; then the tier was closed, and found
/// by its copy. The page is overwritten on disk, and invalidated: a crash does not bring the old one back.
#[test]
fn a_page_that_was_forgotten_does_not_come_back_after_a_start_by_copy() {
    only_with(&[Bug::ReturningForgotten], || {
        let mut host = used(3);
        host.tier.begin_drain();
        rest(&mut host);
        let clean = (0..BLOCKS).map(id).filter(|id| host.tier.holds(id) == Some(false)).next_back().unwrap();
        let Lookup::Flash(found) = host.tier.lookup(&clean, &mut vec![0; PAGE]) else {
            panic!("it is on flash")
        };
        host.tier.invalidate_clean(&clean, &found);
        assert_eq!(host.tier.holds(&clean), None);
        let (_, with) = closed(&mut host);
        let opened = host.flash.recover(&with).unwrap();
        assert_eq!(opened.report.directory_copy, CopyUse::Used);
        for (offset, bytes) in opened.writes {
            host.flash.write(offset, &bytes);
        }
        (host.tier, host.superblock) = (opened.tier, opened.superblock);
        host.disk.insert(clean, page(PAGE, 77));
        while host.tier.invalidate(&clean).is_err() {
            assert!(host.step(), "a full tier must have a job");
        }
        host.sync();
        let superblock = host.superblock.clone();
        host.flash.recover(&superblock).unwrap().tier.holds(&clean).is_none()
    });
}

/// A device that takes no writes, or does not flush what it took.
struct Failing<'f> {
    flash: &'f mut Flash,
    writes: bool,
}

impl ReadFlash for Failing<'_> {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.flash.read(offset, bytes)
    }
}

impl WriteFlash for Failing<'_> {
    type Error = ReadError;

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ReadError> {
        if self.writes { WriteFlash::write(self.flash, offset, bytes) } else { Err(ReadError("worn".into())) }
    }

    fn flush(&mut self) -> Result<(), ReadError> {
        Err(ReadError("no answer".into()))
    }
}

/// Nobody needs the frames that the copy lies in. Of a flush nobody knows what it was to make durable.
#[test]
fn a_tier_is_closed_without_a_copy_where_none_can_be_written() {
    let mut host = used(4);
    let (without, _) = closed(&mut host);
    let mut flash = Failing { flash: &mut host.flash, writes: false };
    assert_eq!(host.tier.write_directory_copy(&without, &mut flash), Ok(without.clone()));
    flash.writes = true;
    assert_eq!(host.tier.write_directory_copy(&without, &mut flash), Err(ReadError("no answer".into())));
}

#[test]
fn the_largest_copy_is_told_before() {
    let told = |config: &TierConfig| config.geometry().unwrap().directory_copy_bytes_max();
    let host = used(0);
    let most = told(&host.superblock.config);
    let (_, with) = closed(&mut { host });
    assert!(with.copy.bytes <= most && most < 2 * with.copy.bytes + 8192, "{most}, {:?}", with.copy);
    // 25 bytes for each page of 128 GiB, and the headers of chunks.
    let large = told(&TierConfig::new(8192, 1 << 24));
    assert!((419_430_400..421_000_000).contains(&large), "{large}");
    let small = TierConfig { segment_frames: 2048, ..TierConfig::new(8192, 8191) };
    assert_eq!(told(&small), 0, "of less than four segments");
    assert_eq!(told(&TierConfig::of(Design::Lru, 8192, 1 << 20)), 0);
}
