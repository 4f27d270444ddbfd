//! What goes wrong: failures of jobs, which are latched (invariant 11), and owners that die (invariant 12).

use std::fmt;

use mezzanine_ground::region::Word;

use crate::ids::{PageId, Position};
use crate::planted::{self, Bug};
use crate::tier::Tier;

/// The first thing that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Flash cannot be written: what is in staging memory must go to disk.
    FlashWrite,
    /// A flush of the flash device failed: what was not flushed before counts as lost.
    FlashSync,
    /// The only copy of a page cannot be read, or is damaged.
    FlashRead {
        /// Where the page was appended.
        position: u64,
    },
    /// Disk cannot be written.
    DiskWrite,
    /// A sync of the disk failed.
    DiskSync,
}

impl Failure {
    /// Whether nothing more can become durable on flash.
    pub(crate) fn ends_writing(self) -> bool {
        matches!(self, Self::FlashWrite | Self::FlashSync)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlashWrite => write!(f, "a write to the flash device failed"),
            Self::FlashSync => write!(f, "a flush of the flash device failed"),
            Self::FlashRead { position } => {
                write!(f, "the only copy of the page at position {position} cannot be read from flash")
            }
            Self::DiskWrite => write!(f, "a page could not be written to disk"),
            Self::DiskSync => write!(f, "a sync of the disk failed"),
        }
    }
}

/// The first failure of a job. Changes under the control lock, and is read without.
#[repr(C)]
pub(crate) struct Latch {
    /// 0 if there is none.
    code: Word,
    detail: Word,
}

impl Latch {
    fn get(&self) -> Option<Failure> {
        match self.code.get() {
            1 => Some(Failure::FlashWrite),
            2 => Some(Failure::FlashSync),
            3 => Some(Failure::FlashRead { position: self.detail.get() }),
            4 => Some(Failure::DiskWrite),
            5 => Some(Failure::DiskSync),
            _ => None,
        }
    }

    /// Remembers a failure. One that ends writing replaces one that does not.
    fn latch(&self, failure: Failure) {
        let keep = self.get().is_some_and(|first| first.ends_writing() || !failure.ends_writing());
        if keep {
            return;
        }
        let (code, detail) = match failure {
            Failure::FlashWrite => (1, 0),
            Failure::FlashSync => (2, 0),
            Failure::FlashRead { position } => (3, position),
            Failure::DiskWrite => (4, 0),
            Failure::DiskSync => (5, 0),
        };
        self.detail.set(detail);
        self.code.set(code);
    }
}

impl Tier {
    /// The first failure of a job.
    pub fn failure(&self) -> Option<Failure> {
        self.control().failure.get()
    }

    /// A failure that the host met outside of a job, such as one of writing a superblock; acted on as if a
    /// job had failed so.
    pub fn report_failure(&self, failure: Failure) {
        let _guard = self.control().lock.lock(self.owner);
        self.latch(failure);
    }

    /// Remembers a failure. Under the control lock.
    pub(crate) fn latch(&self, failure: Failure) {
        self.control().failure.latch(failure);
    }

    /// Takes back the jobs of an owner that has died, once the host certifies that its I/O has ended.
    ///
    /// # Errors
    /// [`Poisoned`] if the owner, or another one before, died inside a critical section: the region is
    /// rebuilt from flash.
    pub fn abandon(&self, owner: u32) -> Result<(), Poisoned> {
        let control = self.control();
        let holds = control.lock.holder() == Some(owner)
            || self.placement().is_held_by(owner)
            || self.directory().holders().any(|holder| holder == owner);
        let inside = holds || self.is_poisoned();
        if inside && !planted::is(Bug::DeadHolderForgotten) {
            control.lock.poison();
            self.directory().poison();
            self.placement().poison();
            return Err(Poisoned);
        }
        if planted::is(Bug::DeadOwnersJobsLost) {
            return Ok(());
        }
        let guard = control.lock.lock(self.owner);
        let dead = u64::from(owner);
        self.staging_groups().iter().for_each(|slot| slot.abandon(dead));
        if let Some(target) = control.flush.abandon(dead) {
            if planted::is(Bug::DeadFlushCounts) {
                self.became_durable(target);
            }
            control.segments.flush_is_abandoned();
        }
        self.abandon_batch(dead);
        self.placement().abandon(dead);
        control.release.abandon(dead);
        self.abandon_drain(dead);
        control.pull.abandon(dead);
        control.segments.abandon(dead);
        if control.draining.get() == dead {
            control.draining.set(0);
        }
        drop(guard);
        self.abandon_drops(dead);
        mezzanine_ground::counters::abandon(&self.region, owner);
        Ok(())
    }

    /// The page and its position at which stage-out is stuck after [`Failure::FlashRead`]; `None` if it is a
    /// whole group that cannot be read.
    pub fn stuck_page(&self) -> Option<(PageId, Position)> {
        let Some(Failure::FlashRead { position }) = self.failure() else { return None };
        let frame = self.frame_of(position);
        let page = self.directory().head(frame).is_none();
        page.then(|| (self.directory().id(frame), Position(position)))
    }
}

/// The region cannot be trusted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poisoned;

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a process died inside a critical section; rebuild the tier's region from flash")
    }
}

impl std::error::Error for Poisoned {}
