//! A recovery writes several metadata segments, and a crash may keep, lose or tear each of them.
//!
//! Where pages are written in place their groups are found by the summaries once more, and no longer: the
//! summaries are overwritten soon. Where the first segment of a tier was missing, the next recovery went by
//! the second and by the summaries before it, and by these again the one after that, which found others
//! there. And where the new segments had taken the slots of old ones, a torn one was a gap among those, so
//! that all newer ones counted as torn. Both tiers were refused as damaged, though nothing was lost.

use std::collections::HashMap;
use std::rc::Rc;

use mezzanine_engine::format::{SEGMENT_HEADER_BYTES, Superblock};
use mezzanine_engine::planted::{Bug, only_with};
use mezzanine_engine::{Design, Job, PageId, StageIn, StageKind, TierConfig};

use crate::common::{Flash, Host, carry_out, page};
use crate::id;

const PAGES: u64 = 40;
const PAGE: usize = 4096;
/// Writes of a life: the slots of the segments have come round twice then.
const WRITES: u64 = 1200;
/// So many crashes at its beginning are looked at, and at its end.
const CRASHES: usize = 3;

fn config(design: Design) -> TierConfig {
    TierConfig {
        group_pages: 1,
        staging_groups: 12,
        survivors_max: 0,
        band_frames: 1,
        segment_frames: 8,
        frames_max: 0,
        ahead_frames: 0,
        ..TierConfig::of(design, PAGE as u32, 72)
    }
}

/// What a crash leaves of something that was written and not flushed.
#[derive(Clone, Copy)]
enum Fate {
    Kept,
    Lost,
    /// Its header alone.
    Torn,
}

const FATES: [Fate; 3] = [Fate::Kept, Fate::Lost, Fate::Torn];

/// The machine right before a flush, with all groups kept that were written, and no segment since the last.
struct Crash {
    superblock: Superblock,
    flash: Vec<u8>,
    disk: HashMap<PageId, Vec<u8>>,
}

impl Crash {
    /// What the recovery writes: at most these segments.
    fn written(&self) -> Vec<(u64, Vec<u8>)> {
        Flash(self.flash.clone()).recover(&self.superblock).unwrap().writes
    }

    /// The machine after a recovery that was cut short with these fates of what it wrote.
    fn after(&self, fates: &[Fate]) -> Self {
        let mut flash = Flash(self.flash.clone());
        for ((offset, bytes), fate) in self.written().iter().zip(fates) {
            match fate {
                Fate::Kept => flash.write(*offset, bytes),
                Fate::Lost => {}
                Fate::Torn => flash.write(*offset, &bytes[..SEGMENT_HEADER_BYTES]),
            }
        }
        Self { superblock: self.superblock.clone(), flash: flash.0, disk: self.disk.clone() }
    }

    /// Opens it. `None` if that is refused.
    fn open(&self, seed: u64) -> Option<Host> {
        let mut flash = Flash(self.flash.clone());
        let recovered = flash.recover(&self.superblock).ok()?;
        for (offset, bytes) in recovered.writes {
            flash.write(offset, &bytes);
        }
        let (tier, superblock) = (recovered.tier, recovered.superblock);
        Some(Host {
            tier,
            superblock,
            flash,
            disk: self.disk.clone(),
            page_size: PAGE,
            numbers: mezzanine_ground::random::Random::new(seed),
        })
    }
}

/// Does all that there is to do, and notes each crash after which a recovery writes several segments.
/// `unflushed` are the segments that were written since the last flush, and what lay there before.
fn work(host: &mut Host, unflushed: &mut Vec<(u64, Vec<u8>)>, crashes: &mut Vec<Rc<Crash>>) {
    while let Some(mut job) = host.tier.next_job(1) {
        if let Job::WriteSegment(job) = &job {
            let (offset, bytes) = job.write();
            unflushed.push((offset, host.flash.0[offset as usize..][..bytes.len()].to_vec()));
        }
        if let Job::FlushFlash(_) = &job {
            let mut flash = Flash(host.flash.0.clone());
            for (offset, before) in unflushed.drain(..).rev() {
                flash.write(offset, &before);
            }
            let superblock = host.superblock.clone();
            let crash = Crash { superblock, flash: flash.0, disk: host.disk.clone() };
            if crash.written().len() > 1 {
                crashes.push(Rc::new(crash));
            }
        }
        carry_out(&mut host.flash, &mut host.disk, &mut job);
        host.tier.complete(job, Ok(()));
    }
}

/// The crashes of a life of so many writes.
fn life(design: Design, writes: u64) -> Vec<Rc<Crash>> {
    let mut host = Host::new(&config(design), 1);
    let (mut unflushed, mut crashes) = (Vec::new(), Vec::new());
    for version in 1..=writes {
        let id = id(host.random(PAGES));
        while host.tier.stage_in(&id, &page(PAGE, version), StageKind::Dirty, 0) == StageIn::Full {
            work(&mut host, &mut unflushed, &mut crashes);
        }
        if version % 3 == 0 {
            host.tier.request_sync().unwrap();
            work(&mut host, &mut unflushed, &mut crashes);
        }
    }
    crashes
}

/// Whether the machine opens, with the pages that it has when no recovery is cut short, and once more after
/// other writes and another crash.
fn survives(crash: &Crash, pages: &[Vec<u8>]) -> bool {
    let Some(mut host) = crash.open(1) else { return false };
    let same = (0..PAGES).all(|block| host.read(id(block)) == pages[block as usize]);
    for version in 0..60 {
        let id = id(host.random(PAGES));
        host.write(id, &page(PAGE, 1 << 40 | version));
    }
    host.sync();
    same && host.flash.recover(&host.superblock).is_ok()
}

/// Whether each choice of what is kept of its segments does no harm.
fn each_choice(crash: &Crash) -> bool {
    let mut host = crash.open(1).unwrap();
    let pages: Vec<Vec<u8>> = (0..PAGES).map(|block| host.read(id(block))).collect();
    let count = crash.written().len() as u32;
    (0..3_usize.pow(count)).all(|number| {
        let fates: Vec<Fate> = (0..count).map(|at| FATES[number / 3_usize.pow(at) % 3]).collect();
        survives(&crash.after(&fates), &pages)
    })
}

/// Without a segment before, and where the new ones take the slots of old ones.
#[test]
fn a_crash_may_keep_any_of_the_segments_that_a_recovery_has_written() {
    for design in [Design::FaceGr, Design::Fifo, Design::Lc] {
        let bugs: &[Bug] = match design {
            Design::FaceGr => &[],
            _ => &[Bug::OldestSegmentsMissed, Bug::OldestRunOfSegmentsUsed],
        };
        let crashes = life(design, WRITES);
        assert!(crashes.len() >= 2 * CRASHES, "{design}: {} crashes", crashes.len());
        let some = [&crashes[..CRASHES], &crashes[crashes.len() - CRASHES..]].concat();
        only_with(bugs, || some.iter().all(|crash| each_choice(crash)));
    }
}
