//! What people ask of a tier in use: what it holds, whether that is undamaged, and that the disk be made
//! current.
//!
//! Whoever waits here may give up: what he has asked of the tier goes on without him.

use mezzanine_device::AlignedBuf;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{DrainScope, DrainState, HeldPage, IdRange, PageCursor, SyncState};

use crate::host::Host;
use crate::message::Refusal;
use crate::reread::Reread;

/// What a look at some frames has shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Pages read from flash and compared with their checksums.
    pub checked: u64,
    /// Of these, those that are damaged or cannot be read.
    pub damaged: Vec<HeldPage>,
}

impl Host {
    /// Has the newest version of every page of `range`, or of the tier, written to disk and synced. False if
    /// `stop` said so first: the drain then goes on without this process.
    ///
    /// # Errors
    /// If a device has failed.
    pub fn drain_unless(&self, range: Option<IdRange>, stop: &dyn Fn() -> bool) -> Result<bool, Refusal> {
        if self.is_provably_clean() {
            return Ok(true);
        }
        let tier = self.tier();
        let mut sync = None;
        for drains in 1.. {
            let mut drain = None;
            let mut stopped = false;
            self.work_until(|| {
                stopped = stop();
                if stopped {
                    return true;
                }
                sync = sync.take().or_else(|| tier.request_sync().ok());
                if sync.as_ref().is_none_or(|ticket| tier.sync_state(ticket) != SyncState::Durable) {
                    return false;
                }
                drain = drain.take().or_else(|| tier.request_drain(&DrainScope { before: None, range }).ok());
                let pending =
                    |ticket| matches!(tier.drain_state(ticket), DrainState::Pending | DrainState::Failed);
                drain.as_ref().is_some_and(|ticket| !pending(ticket))
            })?;
            match drain.filter(|_| !stopped) {
                Some(ticket) if !self.lost_none(&ticket, &DrainScope { before: None, range }, drains)? => {}
                _ => return Ok(!stopped),
            }
        }
        unreachable!("drains are counted for as long as they are repeated");
    }

    /// Reads what is on flash in up to `frames_max` frames from `cursor` on, and compares it with the
    /// checksums. Pages that only staging memory has are left out. `None` when the pass is complete.
    ///
    /// # Errors
    /// If the device answers no read: that says nothing of its pages.
    pub fn verify(&self, cursor: &mut PageCursor, frames_max: usize) -> Result<Option<Verified>, Refusal> {
        let Some(pages) = self.tier().pages(cursor, frames_max) else { return Ok(None) };
        let mut found = Verified::default();
        let mut bytes = AlignedBuf::zeroed(self.geometry.page_size());
        for page in pages.into_iter().filter(|page| !page.staged) {
            match self.read_frame(&page.flash, &mut bytes) {
                Reread::Gone => continue,
                Reread::Whole => {}
                Reread::Unread(unread) if unread.silent && !planted::is(Bug::SilentPagesDamaged) => {
                    return Err(Refusal::new(format!(
                        "the flash device \"{}\" answers no read just now",
                        self.flash_path().display()
                    ))
                    .hint("See to the flash device and try again; nothing is known to be damaged."));
                }
                Reread::Unread(_) => found.damaged.push(page),
            }
            found.checked += 1;
        }
        Ok(Some(found))
    }
}
