//! Dirty pages leave the pool: to the tier, or to their home. And the background cleaner, which keeps frames
//! free.

use mezzanine_device::model::OperationKind;
use mezzanine_engine::{StageIn, SyncMode};

use super::counts::Reason;
use super::pool::Frame;
use super::task::{Cleaning, Task, Then};
use super::world::{Whose, World};

use Then::{Go, Wait};

impl World<'_> {
    /// Takes the writing out of a pinned page further; `None` when it is done, else what to go on with when
    /// the task is woken. The page may have been made dirty again meanwhile.
    pub(super) fn clean(&mut self, who: u32, frame: u32, at: Cleaning, reason: Reason) -> Option<Cleaning> {
        match at {
            Cleaning::Begin => self.begin_cleaning(who, frame, reason),
            Cleaning::Writing => None,
            Cleaning::WritingRefused | Cleaning::Invalidating => self.tell_tier(who, frame),
        }
    }

    fn begin_cleaning(&mut self, who: u32, frame: u32, reason: Reason) -> Option<Cleaning> {
        let &Frame { page, lsn, dirty, .. } = self.pool.frame(frame);
        if !dirty {
            return None;
        }
        // Invariant 1 of the engine: log first.
        if !self.log.is_durable(lsn) {
            self.counts.log_forced += 1;
            self.log.ask(who);
            self.begin_log();
            return Some(Cleaning::Begin);
        }
        let Some(tier) = self.tier else {
            return Some(self.write_home(who, frame, reason, Cleaning::Writing));
        };
        loop {
            match tier.stage_in(&Self::id(page), &self.zeros, self.dirty_kind(frame), lsn) {
                StageIn::Staged { also_disk: false } => {
                    self.pool.frame_mut(frame).dirty = false;
                    self.counts.dirty_out(reason);
                    self.workers.page_staged(&mut self.clock, tier.work());
                    return None;
                }
                StageIn::Staged { also_disk: true } => {
                    self.workers.page_staged(&mut self.clock, tier.work());
                    return Some(self.write_home(who, frame, reason, Cleaning::Writing));
                }
                StageIn::Refused | StageIn::Dropped | StageIn::FirstTouch => {
                    return Some(self.write_home(who, frame, reason, Cleaning::WritingRefused));
                }
                StageIn::Full if self.work_or_wait(who) => {}
                StageIn::Full => return Some(Cleaning::Begin),
            }
        }
    }

    /// Writes a page to its home. Changes from now on make it dirty again.
    fn write_home(&mut self, who: u32, frame: u32, reason: Reason, next: Cleaning) -> Cleaning {
        self.pool.frame_mut(frame).dirty = false;
        self.counts.dirty_out(reason);
        self.submit_home(OperationKind::Write, self.pool.frame(frame).page, Whose::Task(who));
        next
    }

    /// The page is on disk; what the tier holds of it is older.
    fn tell_tier(&mut self, who: u32, frame: u32) -> Option<Cleaning> {
        let tier = self.tier?;
        let id = Self::id(self.pool.frame(frame).page);
        loop {
            if tier.invalidate(&id).is_ok() {
                self.workers.wake(&mut self.clock);
                return None;
            }
            if !self.work_or_wait(who) {
                return Some(Cleaning::Invalidating);
            }
        }
    }

    /// Stages in up to `pages` pages from the tail of the pool. They stay in it, clean: what the paper
    /// compares with the background writer of a database ("Flash as cache extension for online
    /// transactional workloads", section 4.3).
    pub(super) fn give_pages(&mut self, pages: u64) {
        let Some(tier) = self.tier.filter(|tier| tier.sync_mode() != SyncMode::Through) else { return };
        for frame in self.pool.tail(pages as usize) {
            let &Frame { page, lsn, dirty, .. } = self.pool.frame(frame);
            if !dirty {
                self.offer_clean(frame);
                continue;
            }
            if !self.log.is_durable(lsn) {
                continue;
            }
            match tier.stage_in(&Self::id(page), &self.zeros, self.dirty_kind(frame), lsn) {
                StageIn::Staged { .. } => {
                    self.pool.frame_mut(frame).dirty = false;
                    self.counts.dirty_out(Reason::Pull);
                }
                StageIn::Refused | StageIn::Dropped | StageIn::FirstTouch | StageIn::Full => return,
            }
        }
    }

    fn cleaner(&self) -> u32 {
        self.setup.clients + 1
    }

    /// A free frame was taken: the cleaner may have to make another.
    pub(super) fn wake_cleaner(&mut self) {
        let cleaner = self.cleaner();
        let is_idle = matches!(self.tasks[cleaner as usize], Task::CleanerIdle);
        if is_idle && self.pool.free() < self.setup.cleaner_frames as usize {
            self.tasks[cleaner as usize] = Task::CleanerLooks;
            self.wake(cleaner);
        }
    }

    pub(super) fn cleaner_looks(&mut self, who: u32) -> Then {
        while self.pool.free() < self.setup.cleaner_frames as usize {
            let Some(victim) = self.pool.victim() else {
                self.frame_waiters.push(who);
                return Wait(Task::CleanerLooks);
            };
            if self.pool.frame(victim).dirty {
                self.pool.frame_mut(victim).pins += 1;
                return Go(Task::CleanerCleans { victim, cleaning: Cleaning::Begin });
            }
            self.offer_clean(victim);
            self.free(victim);
        }
        Wait(Task::CleanerIdle)
    }

    fn free(&mut self, victim: u32) {
        self.take_out(victim);
        self.pool.release(victim);
        self.unpinned();
    }

    pub(super) fn cleaner_cleans(&mut self, who: u32, victim: u32, cleaning: Cleaning) -> Then {
        if let Some(cleaning) = self.clean(who, victim, cleaning, Reason::Cleaner) {
            return Wait(Task::CleanerCleans { victim, cleaning });
        }
        self.pool.frame_mut(victim).pins -= 1;
        let &Frame { pins, dirty, .. } = self.pool.frame(victim);
        if pins == 0 && !dirty {
            self.free(victim);
        } else {
            self.unpinned();
        }
        Go(Task::CleanerLooks)
    }
}
