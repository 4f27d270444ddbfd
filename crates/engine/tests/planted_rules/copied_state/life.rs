//! A tier in use in every way that leaves something in it, and what each page has to be.

use std::collections::HashMap;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, CopyUse, Design, DrainCursor, HOST_METADATA_BYTES, IdRange, InTurn, Job, JobError, Lookup, PageId,
    Recovered, RecoveryError, StageIn, StageKind, SyncMode, SyncState, Tier, TierConfig,
};

use crate::common::{Flash, Host, carry_out, page};

pub(super) const BLOCKS: u64 = 1500;

pub(super) fn id(block: u64) -> PageId {
    PageId::volume(1 + block % 3, block / 3)
}

/// A tier, and what each page is.
pub(super) struct Life {
    pub(super) host: Host,
    pub(super) model: HashMap<PageId, u64>,
    version: u64,
    /// Byte offset of a frame that cannot be read.
    bad: Option<u64>,
}

/// The designs that append, with summaries of one frame and of two, and tiers that may grow.
fn config(seed: u64) -> TierConfig {
    let large = seed % 4 == 3;
    TierConfig {
        design: [Design::FaceGsc, Design::FaceGr, Design::FaceBasic][seed as usize % 3],
        sync_mode: if seed % 5 == 4 { SyncMode::Drained } else { SyncMode::Durable },
        segment_frames: 32,
        group_pages: if large { 100 } else { 8 },
        survivors_max: 3,
        frames_max: if seed % 2 == 0 { 1400 } else { 0 },
        staging_groups: 4,
        ..TierConfig::new(4096, if large { 2400 } else { 1024 })
    }
}

impl Life {
    pub(super) fn new(seed: u64) -> Self {
        let host = Host::new(&config(seed), seed);
        Self { host, model: HashMap::new(), version: 0, bad: None }
    }

    /// Carries out a job on a device of which a frame cannot be read. Whether there was one.
    fn step(&mut self) -> bool {
        if self.host.tier.resize_waits() {
            return self.host.step();
        }
        let Some(mut job) = self.host.tier.next_job(1) else { return false };
        let bad = self.bad.unwrap_or(u64::MAX);
        let covers =
            |(offset, bytes): &(u64, &mut [u8])| (*offset..*offset + bytes.len() as u64).contains(&bad);
        let fails = match &mut job {
            Job::ReadFront(job) => job.reads().iter().any(covers),
            _ => false,
        };
        if !fails {
            carry_out(&mut self.host.flash, &mut self.host.disk, &mut job);
        }
        self.host.tier.complete(job, if fails { Err(JobError) } else { Ok(()) });
        true
    }

    fn until<T>(&mut self, mut attempt: impl FnMut(&mut Host) -> Option<T>) -> T {
        loop {
            if let Some(done) = attempt(&mut self.host) {
                return done;
            }
            assert!(self.step(), "a full tier must have a job");
        }
    }

    fn write(&mut self, id: PageId) {
        self.version += 1;
        let version = self.version;
        self.until(|host| {
            let staged = host.tier.stage_in(&id, &page(4096, version), StageKind::Dirty, version);
            (staged != StageIn::Full).then_some(())
        });
        self.model.insert(id, version);
    }

    /// Past the tier: to disk, and what the tier has is invalidated.
    fn write_past(&mut self, id: PageId) {
        self.version += 1;
        let bytes = page(4096, self.version);
        self.host.disk.insert(id, bytes.clone());
        self.until(|host| host.tier.invalidate(&id).ok());
        let range = IdRange { start: id, count: 1, shift: 0 };
        self.until(|host| (!host.tier.stage_out_touches(&range)).then_some(()));
        self.host.disk.insert(id, bytes);
        self.model.insert(id, self.version);
    }

    fn read(&mut self, id: PageId) {
        let mut bytes = vec![0; 4096];
        let Lookup::Miss(token) = self.host.tier.lookup(&id, &mut bytes) else { return };
        if let Some(page) = self.host.disk.get(&id) {
            self.host.tier.stage_in(&id, page, StageKind::Clean(Some(token)), 0);
        }
    }

    fn drop_range(&mut self, range: IdRange) {
        let metadata = [self.version as u8; HOST_METADATA_BYTES];
        self.until(|host| host.tier.truncate(&range, &metadata).ok());
        self.until(|host| (!host.tier.stage_out_touches(&range)).then_some(()));
        self.host.disk.retain(|id, _| !range.contains(id));
        self.model.retain(|id, _| !range.contains(id));
    }

    /// Has some dirty pages on disk, as a drain has.
    fn drain(&mut self, pages: usize) {
        let pages = self.host.tier.drain_batch(&mut DrainCursor::default(), pages);
        for dirty in &pages {
            let mut bytes = vec![0; 4096];
            if !self.host.tier.read_staged(&dirty.flash, &mut bytes) {
                bytes.copy_from_slice(&self.host.flash.0[dirty.flash.offset as usize..][..4096]);
            }
            if self.host.tier.verify(&dirty.flash, &bytes) {
                self.host.disk.insert(dirty.id, bytes);
                self.host.tier.mark_clean(&[*dirty]);
            }
        }
    }

    /// A clean page cannot be read: it is forgotten in memory alone, or also by a record.
    fn forget(&mut self, id: PageId) {
        if let Lookup::Flash(found) = self.host.tier.lookup(&id, &mut vec![0; 4096]) {
            if self.host.random(4) == 0 {
                self.until(|host| host.tier.bury_clean(&id, &found).ok());
            }
            self.host.tier.invalidate_clean(&id, &found);
        }
    }

    /// The oldest dirty page rots, or its frame cannot be read from now on.
    fn rot(&mut self) {
        // Where one may not be lost, the tier would be given up.
        let durable = self.host.tier.geometry().config().sync_mode == SyncMode::Durable;
        let oldest = self.host.tier.drain_batch(&mut DrainCursor::default(), 1);
        let Some(dirty) = oldest.first().filter(|_| durable) else { return };
        if !self.host.tier.read_staged(&dirty.flash, &mut [0; 4096]) {
            if self.host.random(2) == 0 {
                self.bad = Some(dirty.flash.offset);
            } else {
                self.host.flash.0[dirty.flash.offset as usize + 100] ^= 1;
            }
        }
    }

    pub(super) fn use_it(&mut self, operations: u64) {
        for _ in 0..operations {
            let block = self.host.random(BLOCKS);
            match self.host.random(100) {
                0..65 => self.write(id(block)),
                65..75 => self.read(id(block)),
                75..83 => self.write_past(id(block)),
                83..88 => self.forget(id(block)),
                88..91 => {
                    let count = 1 + self.host.random(20);
                    self.drop_range(IdRange::blocks(1 + block % 3, block / 3, count));
                }
                91 => self.drain(block as usize),
                92 => {
                    let range = IdRange::blocks_from(1 + block % 3, block / 3);
                    self.host.tier.distrust_clean(&range, self.host.tier.rear());
                }
                93 if self.host.tier.geometry().frames_max() == 1400 && block % 4 == 0 => {
                    let block = self.host.random(4);
                    let frames = [900, 1024, 1200, 1400][block as usize];
                    let _ = self.host.tier.begin_resize(frames);
                }
                94 if block % 8 == 0 => self.rot(),
                _ => while self.host.random(6) > 0 && self.step() {},
            }
        }
    }

    pub(super) fn sync(&mut self) {
        let mark = self.host.tier.disk_mark();
        let ticket = self.until(|host| host.tier.request_sync().ok());
        self.until(|host| (host.tier.sync_state(&ticket) == SyncState::Durable).then_some(()));
        self.host.tier.disk_synced(mark);
    }

    pub(super) fn rest(&mut self) {
        for _ in 0..2 {
            self.sync();
            while self.step() {}
        }
    }

    /// The superblocks of a tier that is left in order, without a copy and with one, which lies on flash.
    pub(super) fn close(&mut self) -> (Superblock, Superblock) {
        self.host.tier.begin_drain();
        self.rest();
        let without = self.host.tier.closed(&self.host.superblock);
        let with = self.host.tier.write_directory_copy(&without, &mut self.host.flash).unwrap();
        (without, with)
    }

    pub(super) fn open(&mut self, superblock: &Superblock) -> CopyUse {
        let recovered = recovered(&mut self.host.flash, superblock, 1).unwrap();
        for (offset, bytes) in recovered.writes {
            self.host.flash.write(offset, &bytes);
        }
        (self.host.tier, self.host.superblock) = (recovered.tier, recovered.superblock);
        recovered.report.directory_copy
    }

    /// Every page is what was written last, from the tier or from disk. Of one that is lost nothing is known.
    pub(super) fn check(&self, context: &str) {
        self.host.tier.check();
        let lost = self.host.tier.lost();
        for id in (0..BLOCKS).map(id).filter(|id| !lost.contains(id)) {
            let mut bytes = vec![0; 4096];
            let found = match self.host.tier.lookup(&id, &mut bytes) {
                Lookup::Memory => Some(bytes),
                Lookup::Flash(found) => {
                    let page = self.host.flash.0[found.offset as usize..][..4096].to_vec();
                    match self.host.tier.verify(&found, &page) {
                        true => Some(page),
                        // Nobody has noticed yet that it cannot be read.
                        false if found.dirty => continue,
                        false => self.host.disk.get(&id).cloned(),
                    }
                }
                Lookup::Miss(_) => self.host.disk.get(&id).cloned(),
            };
            let wanted = self.model.get(&id).map(|version| page(4096, *version));
            assert!(found == wanted, "{context}: {id:?}");
        }
    }
}

pub(super) fn recovered(
    flash: &mut Flash,
    superblock: &Superblock,
    parts: usize,
) -> Result<Recovered, RecoveryError> {
    let bytes = superblock.config.geometry().unwrap().region_bytes();
    Tier::recover_with(Blank::heap(bytes), superblock, 1, flash, &InTurn(parts))
}
