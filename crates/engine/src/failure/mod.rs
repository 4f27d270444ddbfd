//! What goes wrong: failures of jobs, which are latched (invariant 11), and owners that die (invariant 12).

pub(crate) mod latch;

use crate::core::Tier;
use crate::failure::latch::{Failure, Poisoned};
use crate::ids::{PageId, Position};
use crate::planted::{self, Bug};

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
        self.staging_groups().iter().for_each(|group| group.abandon(dead));
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
        self.abandon_invalidations(dead);
        mezzanine_ground::counters::abandon(&self.region, owner);
        Ok(())
    }

    /// The page and its position at which stage-out is stuck after [`Failure::FlashRead`]; `None` if it is a
    /// whole group that cannot be read.
    pub fn stuck_page(&self) -> Option<(PageId, Position)> {
        let Some(Failure::FlashRead { position }) = self.failure() else { return None };
        let entry = self.entry_of(position);
        let page = self.directory().head(entry).is_none();
        page.then(|| (self.directory().id(entry), position))
    }
}
