//! A host without devices: the engine's own cost.

use mezzanine_device::{prefer_huge_pages, sleep_at_locks};
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, Job, PageId, ReadError, ReadFlash, StageIn, StageKind, SyncState, Tier, TierConfig,
};
use std::error::Error;
use std::sync::{Mutex, PoisonError};

/// A tier over an array of pages, or over nothing.
pub(crate) struct MemoryHost {
    pub(crate) tier: Tier,
    /// Empty if nothing is kept: then the tier may hold pages of zeros only, and no second chances.
    flash: Mutex<Vec<u8>>,
}

/// Flash on which nothing was ever written.
struct Empty;

impl ReadFlash for Empty {
    fn read(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        bytes.fill(0);
        Ok(())
    }
}

impl MemoryHost {
    /// A tier that keeps its pages.
    pub(crate) fn new(config: &TierConfig) -> Result<Self, Box<dyn Error>> {
        let geometry = config.geometry()?;
        let flash = vec![0; usize::try_from(geometry.flash_bytes())?];
        Self::over(config, Blank::heap(geometry.region_bytes()), flash)
    }

    /// A tier that keeps nothing but its directory, however large.
    pub(crate) fn without_flash(config: &TierConfig) -> Result<Self, Box<dyn Error>> {
        Self::over(config, Blank::heap(config.geometry()?.region_bytes()), Vec::new())
    }

    fn over(config: &TierConfig, region: Blank, flash: Vec<u8>) -> Result<Self, Box<dyn Error>> {
        prefer_huge_pages(region.memory());
        let superblock = Superblock::new(&config.geometry()?, [1; 16], [2; 16]);
        sleep_at_locks();
        let tier = Tier::recover(region, &superblock, 1, &mut Empty)?.tier;
        Ok(Self { tier, flash: Mutex::new(flash) })
    }

    /// Carries out one job; false if there was none.
    pub(crate) fn step(&self) -> bool {
        let Some(mut job) = self.tier.next_job(1) else { return false };
        let mut flash = self.flash.lock().unwrap_or_else(PoisonError::into_inner);
        if flash.is_empty() {
            drop(flash);
            without_flash(&mut job);
        } else {
            with_flash(&mut job, &mut flash);
            drop(flash);
        }
        self.tier.complete(job, Ok(()));
        true
    }

    pub(crate) fn stage_in(&self, id: &PageId, page: &[u8]) {
        while self.tier.stage_in(id, page, StageKind::Dirty, 0) == StageIn::Full {
            // Whoever writes the groups may have no processor.
            if !self.step() {
                std::thread::yield_now();
            }
        }
    }

    pub(crate) fn settle(&self) -> Result<(), Box<dyn Error>> {
        let ticket = self.tier.request_sync()?;
        while self.tier.sync_state(&ticket) != SyncState::Durable {
            self.step();
        }
        while self.step() {}
        Ok(())
    }
}

fn without_flash(job: &mut Job<'_>) {
    if let Job::ReadFront(job) = job {
        for (_, bytes) in job.reads() {
            bytes.fill(0);
        }
    }
}

fn with_flash(job: &mut Job<'_>, flash: &mut [u8]) {
    match job {
        Job::WriteGroup(job) => {
            for (offset, bytes) in job.writes() {
                flash[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
        }
        Job::WriteSegment(job) => {
            let (offset, bytes) = job.write();
            flash[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        Job::ReadFront(job) => {
            for (offset, bytes) in job.reads() {
                bytes.copy_from_slice(&flash[offset as usize..][..bytes.len()]);
            }
        }
        Job::FlushFlash(_) | Job::WriteDisk(_) | Job::SyncDisk(_) | Job::PullPages(_) => {}
    }
}
