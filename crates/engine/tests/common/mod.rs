//! A small host over plain memory, for the tests of this crate.
#![allow(clippy::unwrap_used, missing_docs, dead_code, unreachable_pub)]

use std::collections::HashMap;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, IdRange, Job, Lookup, PageId, ReadError, ReadFlash, Recovered, RecoveryError, StageIn, StageKind,
    SyncState, Tier, TierConfig,
};
use mezzanine_ground::random::Random;

pub struct Flash(pub Vec<u8>);

impl Flash {
    pub fn recover(&mut self, superblock: &Superblock) -> Result<Recovered, RecoveryError> {
        let bytes = superblock.config.geometry().unwrap().region_bytes();
        Tier::recover(Blank::heap(bytes), superblock, 1, self)
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.0[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
    }
}

impl ReadFlash for Flash {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        let offset = offset as usize;
        bytes.copy_from_slice(&self.0[offset..offset + bytes.len()]);
        Ok(())
    }
}

/// Does what a job asks for.
pub fn carry_out(flash: &mut Flash, disk: &mut HashMap<PageId, Vec<u8>>, job: &mut Job<'_>) {
    match job {
        Job::WriteGroup(job) => {
            for (offset, bytes) in job.writes() {
                flash.write(offset, bytes);
            }
        }
        Job::WriteSegment(job) => {
            let (offset, bytes) = job.write();
            flash.write(offset, bytes);
        }
        Job::ReadFront(job) => {
            for (offset, bytes) in job.reads() {
                let offset = offset as usize;
                bytes.copy_from_slice(&flash.0[offset..offset + bytes.len()]);
            }
        }
        Job::WriteDisk(job) => {
            for (id, bytes) in job.pages() {
                disk.insert(id, bytes.to_vec());
            }
        }
        Job::FlushFlash(_) | Job::SyncDisk(_) | Job::PullPages(_) => {}
    }
}

pub struct Host {
    pub tier: Tier,
    pub superblock: Superblock,
    pub flash: Flash,
    pub disk: HashMap<PageId, Vec<u8>>,
    pub page_size: usize,
    pub numbers: Random,
}

impl Host {
    pub fn new(config: &TierConfig, seed: u64) -> Self {
        let geometry = config.geometry().unwrap();
        let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
        let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
        let recovered = flash.recover(&superblock).unwrap();
        let page_size = geometry.page_size();
        Self {
            tier: recovered.tier,
            superblock: recovered.superblock,
            flash,
            disk: HashMap::new(),
            page_size,
            numbers: Random::new(seed),
        }
    }

    pub fn random(&mut self, below: u64) -> u64 {
        self.numbers.below(below)
    }

    /// Carries a job out, or the host's part of a resize. False if there was nothing to do.
    pub fn step(&mut self) -> bool {
        let before = self.tier.progress();
        let Some(mut job) = self.tier.next_job(1) else {
            // Where a page leaves without a word to flash, looking for a job may have made room.
            let made_room =
                self.tier.geometry().config().design.has_slots() && self.tier.progress() != before;
            return self.cut() || made_room;
        };
        carry_out(&mut self.flash, &mut self.disk, &mut job);
        self.tier.complete(job, Ok(()));
        true
    }

    /// Carries out a job that writes to flash. False if there was none.
    pub fn write_flash(&mut self) -> bool {
        let Some(mut job) = self.tier.next_flash_write(1) else { return false };
        assert!(matches!(job, Job::WriteGroup(_) | Job::WriteSegment(_) | Job::FlushFlash(_)));
        carry_out(&mut self.flash, &mut self.disk, &mut job);
        self.tier.complete(job, Ok(()));
        true
    }

    fn cut(&mut self) -> bool {
        let waits = self.tier.resize_waits();
        if waits {
            self.superblock = self.tier.resized(&self.superblock);
            self.tier.finish_resize();
        }
        waits
    }

    pub fn write(&mut self, id: PageId, page: &[u8]) {
        loop {
            match self.tier.stage_in(&id, page, StageKind::Dirty, 0) {
                StageIn::Staged { also_disk } => {
                    if also_disk {
                        self.disk.insert(id, page.to_vec());
                    }
                    return;
                }
                StageIn::Full => assert!(self.step(), "a full tier must have a job"),
                StageIn::Refused => {
                    self.disk.insert(id, page.to_vec());
                    while self.tier.invalidate(&id).is_err() {
                        assert!(self.step(), "a full tier must have a job");
                    }
                    // An older version may have been on its way.
                    while self.tier.stage_out_touches(&IdRange { start: id, count: 1, shift: 0 }) {
                        assert!(self.step(), "stage-out under way must have a job");
                    }
                    self.disk.insert(id, page.to_vec());
                    return;
                }
                StageIn::Dropped | StageIn::FirstTouch => unreachable!(),
            }
        }
    }

    pub fn read(&mut self, id: PageId) -> Vec<u8> {
        let mut page = vec![0; self.page_size];
        match self.tier.lookup(&id, &mut page) {
            Lookup::Memory => page,
            Lookup::Flash(found) => {
                let offset = found.offset as usize;
                page.copy_from_slice(&self.flash.0[offset..offset + self.page_size]);
                assert!(self.tier.verify(&found, &page));
                assert!(self.tier.confirm(&found));
                page
            }
            Lookup::Miss(token) => {
                let page = self.disk.get(&id).cloned().unwrap_or(vec![0; self.page_size]);
                self.tier.stage_in(&id, &page, StageKind::Clean(Some(token)), 0);
                page
            }
        }
    }

    pub fn sync(&mut self) {
        let mark = self.tier.disk_mark();
        let ticket = self.tier.request_sync().unwrap();
        while self.tier.sync_state(&ticket) != SyncState::Durable {
            assert!(self.step(), "a sync under way must have a job");
        }
        self.tier.disk_synced(mark);
    }

    pub fn reopen(mut self, close: bool) -> Self {
        let mut superblock = self.superblock.clone();
        if close {
            self.tier.begin_drain();
            while self.step() {}
            self.sync();
            superblock = self.tier.closed(&superblock);
        }
        let recovered = self.flash.recover(&superblock).unwrap();
        for (offset, bytes) in recovered.writes {
            self.flash.write(offset, &bytes);
        }
        Self { tier: recovered.tier, superblock: recovered.superblock, ..self }
    }
}

pub fn page(size: usize, version: u64) -> Vec<u8> {
    version.to_le_bytes().iter().copied().cycle().take(size).collect()
}
