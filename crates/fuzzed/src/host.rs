//! A host over plain memory that takes failures as they come.

use arbitrary::{Result, Unstructured};
use mezzanine_engine::format::Superblock;
use mezzanine_engine::{
    Blank, Job, Lookup, PageId, ReadError, ReadFlash, Recovered, RecoveryError, StageIn, StageKind,
    SyncState, Tier,
};

pub(crate) const PAGE: usize = 4096;

/// An image with an end.
#[derive(Clone)]
pub(crate) struct Flash {
    pub(crate) bytes: Vec<u8>,
    /// Bytes that were read.
    pub(crate) read: u64,
}

impl Flash {
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let at = usize::try_from(offset).expect("the tier lies within its device");
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn recover(
        &mut self,
        superblock: &Superblock,
    ) -> std::result::Result<Recovered, RecoveryError> {
        let bytes = superblock.config.geometry().expect("decoded superblocks have sizes").region_bytes();
        Tier::recover(Blank::heap(bytes), superblock, 1, self)
    }
}

impl ReadFlash for Flash {
    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> std::result::Result<(), ReadError> {
        self.read += bytes.len() as u64;
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = at.checked_add(bytes.len()).and_then(|end| self.bytes.get(at..end));
        bytes.copy_from_slice(found.ok_or_else(|| ReadError("past the end".into()))?);
        Ok(())
    }
}

pub(crate) fn page(version: u64) -> Vec<u8> {
    version.to_le_bytes().iter().copied().cycle().take(PAGE).collect()
}

/// Carries a job out; false if there is none.
pub(crate) fn step(tier: &Tier, flash: &mut Flash) -> bool {
    let Some(mut job) = tier.next_job(1) else { return false };
    match &mut job {
        Job::WriteGroup(job) => job.writes().for_each(|(offset, bytes)| flash.write(offset, bytes)),
        Job::WriteSegment(job) => {
            let (offset, bytes) = job.write();
            flash.write(offset, bytes);
        }
        Job::ReadFront(job) => {
            for (offset, bytes) in job.reads() {
                flash.read(offset, bytes).expect("the tier lies within its device");
            }
        }
        Job::WriteDisk(job) => job.pages().for_each(|_| {}),
        Job::FlushFlash(_) | Job::SyncDisk(_) | Job::PullPages(_) => {}
    }
    tier.complete(job, Ok(()));
    true
}

/// Stages a page in; false if there is no room and never will be.
pub(crate) fn stage_in(tier: &Tier, flash: &mut Flash, id: &PageId, version: u64) -> bool {
    loop {
        match tier.stage_in(id, &page(version), StageKind::Dirty, 0) {
            StageIn::Staged { .. } => return true,
            StageIn::Full if step(tier, flash) => {}
            _ => return false,
        }
    }
}

/// False if the tier has failed.
pub(crate) fn sync(tier: &Tier, flash: &mut Flash) -> bool {
    let ticket = loop {
        match tier.request_sync() {
            Ok(ticket) => break ticket,
            Err(_) if step(tier, flash) => {}
            Err(_) => return false,
        }
    };
    while tier.sync_state(&ticket) == SyncState::Pending {
        if !step(tier, flash) {
            return false;
        }
    }
    tier.sync_state(&ticket) == SyncState::Durable
}

/// The version of the page that the tier holds, if it holds it whole.
pub(crate) fn find(tier: &Tier, flash: &mut Flash, id: &PageId) -> Option<u64> {
    let mut out = vec![0; PAGE];
    let version = |page: &[u8]| page.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    match tier.lookup(id, &mut out) {
        Lookup::Memory => version(&out),
        Lookup::Flash(found) => {
            flash.read(found.offset, &mut out).expect("the tier lies within its device");
            (tier.verify(&found, &out) && tier.confirm(&found)).then(|| version(&out))?
        }
        Lookup::Miss(_) => None,
    }
}

/// Uses the tier as `input` says: pages in, reads, invalidations, syncs, jobs. Returns the newest version of
/// each page that was staged in and acknowledged by a sync since; `None` if the tier has failed.
pub(crate) fn use_tier(
    tier: &Tier,
    flash: &mut Flash,
    input: &mut Unstructured<'_>,
) -> Result<Option<Vec<(PageId, u64)>>> {
    let mut written = std::collections::BTreeMap::new();
    for version in 1..=40u64 {
        let id = PageId::volume(1, input.int_in_range(0..=99)?);
        match input.int_in_range(0..=7)? {
            0 => drop(find(tier, flash, &id)),
            1 => drop(step(tier, flash)),
            2 if tier.invalidate(&id).is_ok() => drop(written.remove(&id)),
            3 if !sync(tier, flash) => return Ok(None),
            _ => {
                if !stage_in(tier, flash, &id, version << 32) {
                    return Ok(None);
                }
                written.insert(id, version << 32);
            }
        }
    }
    Ok(sync(tier, flash).then(|| written.into_iter().collect()))
}
