//! A tier driven by hand over plain memory: pages keep their newest contents while the queue wraps many
//! times, across recoveries, in every design, admission and sync mode.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Admission, Design, Job, Lookup, PageId, ReadError, ReadFlash, Region, StageIn, StageKind, SyncMode,
    SyncState, Tier, TierConfig,
};

struct Flash(Vec<u8>);

impl ReadFlash for &mut Flash {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        let offset = offset as usize;
        bytes.copy_from_slice(&self.0[offset..offset + bytes.len()]);
        Ok(())
    }
}

struct Host {
    tier: Tier,
    superblock: Superblock,
    flash: Flash,
    disk: HashMap<PageId, Vec<u8>>,
    page_size: usize,
    seed: u64,
}

impl Host {
    fn new(config: &TierConfig, seed: u64) -> Self {
        let geometry = config.geometry().unwrap();
        let superblock = Superblock::new(&geometry, [7; 16], [9; 16]);
        let mut flash = Flash(vec![0; geometry.flash_bytes() as usize]);
        let region = Region::heap(geometry.region_bytes());
        let recovered = Tier::recover(region, &superblock, 1, &mut &mut flash).unwrap();
        let page_size = geometry.page_size();
        Self {
            tier: recovered.tier,
            superblock: recovered.superblock,
            flash,
            disk: HashMap::new(),
            page_size,
            seed,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }

    fn step(&mut self) -> bool {
        let Some(mut job) = self.tier.next_job(1) else { return false };
        match &mut job {
            Job::WriteGroup(job) => {
                for (offset, bytes) in job.writes() {
                    self.flash.0[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
                }
            }
            Job::WriteSegment(job) => {
                let (offset, bytes) = job.write();
                self.flash.0[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
            }
            Job::ReadFront(job) => {
                for (offset, bytes) in job.reads() {
                    let offset = offset as usize;
                    bytes.copy_from_slice(&self.flash.0[offset..offset + bytes.len()]);
                }
            }
            Job::WriteDisk(job) => {
                for (id, bytes) in job.pages() {
                    self.disk.insert(id, bytes.to_vec());
                }
            }
            Job::FlushFlash(_) | Job::SyncDisk(_) => {}
        }
        self.tier.complete(job, Ok(()));
        true
    }

    fn write(&mut self, id: PageId, page: &[u8]) {
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
                    return;
                }
                StageIn::Dropped => unreachable!(),
            }
        }
    }

    fn read(&mut self, id: PageId) -> Vec<u8> {
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

    fn sync(&mut self) {
        let ticket = self.tier.request_sync().unwrap();
        while self.tier.sync_state(&ticket) != SyncState::Durable {
            assert!(self.step(), "a sync under way must have a job");
        }
    }

    fn reopen(mut self, close: bool) -> Self {
        let mut superblock = self.superblock.clone();
        if close {
            self.tier.begin_drain();
            while self.step() {}
            self.sync();
            superblock = self.tier.closed(&superblock);
        }
        let region = Region::heap(self.tier.geometry().region_bytes());
        let recovered = Tier::recover(region, &superblock, 1, &mut &mut self.flash).unwrap();
        for (offset, bytes) in recovered.writes {
            self.flash.0[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
        }
        Self { tier: recovered.tier, superblock: recovered.superblock, ..self }
    }
}

fn page(size: usize, version: u64) -> Vec<u8> {
    version.to_le_bytes().iter().copied().cycle().take(size).collect()
}

fn run(design: Design, admission: Admission, sync_mode: SyncMode) {
    let mut config = TierConfig::new(4096, 512);
    (config.design, config.admission, config.sync_mode) = (design, admission, sync_mode);
    let mut host = Host::new(&config, 42);
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut total = mezzanine_engine::Statistics::default();
    for n in 1..30_000u64 {
        // A hot tenth gets half of the accesses, so that pages are found referenced at the front.
        let block = if host.random(2) == 0 { host.random(60) } else { host.random(1200) };
        let id = PageId::volume(1, block);
        match host.random(100) {
            0..45 => {
                host.write(id, &page(4096, n));
                model.insert(block, n);
            }
            45..90 => {
                let wanted = model.get(&block).copied().unwrap_or(0);
                assert_eq!(host.read(id), page(4096, wanted), "block {block} at step {n}");
            }
            90..98 => {
                host.step();
            }
            98 => host.sync(),
            _ => {
                if host.random(20) == 0 {
                    host.tier.check();
                    let statistics = host.tier.statistics();
                    total.second_chances += statistics.second_chances;
                    total.pages_written += statistics.pages_written;
                    total.segments_written += statistics.segments_written;
                    if n % 3 == 0 {
                        host = host.reopen(true);
                    } else {
                        host.sync();
                        host = host.reopen(false);
                    }
                    host.tier.check();
                }
            }
        }
    }
    let statistics = host.tier.statistics();
    total.second_chances += statistics.second_chances;
    total.pages_written += statistics.pages_written;
    total.segments_written += statistics.segments_written;
    assert!(total.pages_written > 4 * 512, "the queue must wrap: {total:?}");
    assert!(total.segments_written > 8, "segments must be written: {total:?}");
    if design == Design::FaceGsc {
        assert!(total.second_chances > 100, "second chances must happen: {total:?}");
    } else {
        assert_eq!(total.second_chances, 0);
    }
}

#[test]
fn every_combination_keeps_the_newest_pages() {
    for &design in Design::ALL {
        for &admission in Admission::ALL {
            for &sync_mode in SyncMode::ALL {
                run(design, admission, sync_mode);
            }
        }
    }
}

#[test]
fn default_configurations_are_valid() {
    for page_size in [4096, 8192, 16384, 32768] {
        for frames in [256, 1024, 5000, 100_000, 13_107_200] {
            let geometry = TierConfig::new(page_size, frames).geometry().unwrap();
            assert!(geometry.flash_bytes() > frames * u64::from(page_size));
        }
        let config = TierConfig::for_flash_bytes(page_size, 1 << 30);
        assert!(config.geometry().unwrap().flash_bytes() <= 1 << 30);
        assert!(config.frames * u64::from(page_size) > (1 << 30) * 95 / 100);
    }
}
