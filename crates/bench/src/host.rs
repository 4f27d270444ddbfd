//! A host whose flash and disk are memory: the engine's own cost without any device's.

use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Job, PageId, ReadError, ReadFlash, Region, StageIn, StageKind, SyncState, Tier, TierConfig,
};
use std::error::Error;
use std::sync::{Mutex, PoisonError};

/// A tier over an array of pages.
pub(crate) struct MemoryHost {
    pub(crate) tier: Tier,
    flash: Mutex<Vec<u8>>,
}

struct Empty;

impl ReadFlash for Empty {
    fn read(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), ReadError> {
        bytes.fill(0);
        Ok(())
    }
}

impl MemoryHost {
    pub(crate) fn new(config: &TierConfig) -> Result<Self, Box<dyn Error>> {
        let geometry = config.geometry()?;
        let superblock = Superblock::new(&geometry, [1; 16], [2; 16]);
        let region = Region::heap(geometry.region_bytes());
        let tier = Tier::recover(region, &superblock, 1, &mut Empty)?.tier;
        let flash = Mutex::new(vec![0; usize::try_from(geometry.flash_bytes())?]);
        Ok(Self { tier, flash })
    }

    /// Carries out one job; false if there was none.
    pub(crate) fn step(&self) -> bool {
        let Some(mut job) = self.tier.next_job(1) else { return false };
        let mut flash = self.flash.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut job {
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
        drop(flash);
        self.tier.complete(job, Ok(()));
        true
    }

    pub(crate) fn stage_in(&self, id: &PageId, page: &[u8]) {
        while self.tier.stage_in(id, page, StageKind::Dirty, 0) == StageIn::Full {
            if !self.step() {
                std::hint::spin_loop();
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
