//! The database's checkpoints: all pages that were dirty when it began are written out, to the tier or to
//! their homes, and made durable there, as the tier's sync mode demands
//! (`crates/sim/src/crash/database/checkpoint.rs` does the same with every fault there is).

use mezzanine_device::model::OperationKind;
use mezzanine_engine::{
    DiskMark, DrainScope, DrainState, DrainTicket, Mark, SyncMode, SyncState, SyncTicket, Tier,
};

use super::counts::Reason;
use super::task::{Cleaning, Task, Then};
use super::world::{Event, Whose, World, nanoseconds};

use Then::{Go, Wait};

/// A checkpoint under way.
#[derive(Debug, Clone)]
pub(super) struct Checkpoint {
    mark: u64,
    /// Frames whose pages were dirty when it began, and those pages.
    dirty: Vec<(u32, u32)>,
    next: usize,
    began: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The next page, or what comes after the last.
    Writing,
    Cleaning(Cleaning),
    Syncing(SyncTicket),
    Draining(DrainTicket),
    SyncingHome(Option<DiskMark>),
}

impl World<'_> {
    fn checkpointer(&self) -> u32 {
        self.setup.clients
    }

    /// It is time for a checkpoint.
    pub(super) fn checkpoint_due(&mut self) {
        let who = self.checkpointer();
        match self.tasks[who as usize] {
            Task::NoCheckpoint => self.wake(who),
            _ => self.counts.checkpoints_late += 1,
        }
        let next = self.now() + nanoseconds(self.setup.checkpoint_seconds);
        self.clock.enter(next, Event::Checkpoint);
    }

    pub(super) fn begin_checkpoint(&mut self) -> Then {
        self.mark = self.tier.map_or(self.mark + 1, |tier| tier.begin_checkpoint().number());
        let page = |frame: u32| (frame, self.pool.frame(frame).page);
        let dirty = self.pool.dirty().into_iter().map(page).collect();
        Go(Task::Checkpoint(Box::new(Checkpoint {
            mark: self.mark,
            dirty,
            next: 0,
            began: self.now(),
            phase: Phase::Writing,
        })))
    }

    pub(super) fn step_checkpoint(&mut self, who: u32, mut checkpoint: Box<Checkpoint>) -> Then {
        match checkpoint.phase {
            Phase::Writing => self.next_page(checkpoint),
            Phase::Cleaning(cleaning) => {
                let frame = checkpoint.dirty[checkpoint.next].0;
                if let Some(cleaning) = self.clean(who, frame, cleaning, Reason::Checkpoint) {
                    checkpoint.phase = Phase::Cleaning(cleaning);
                    return Wait(Task::Checkpoint(checkpoint));
                }
                self.pool.frame_mut(frame).pins -= 1;
                self.unpinned();
                checkpoint.next += 1;
                checkpoint.phase = Phase::Writing;
                self.at_leisure(who, checkpoint)
            }
            Phase::Syncing(ticket) => {
                let tier = self.tier.expect("it was asked for a sync");
                match tier.sync_state(&ticket) {
                    SyncState::Durable => self.synced(who, checkpoint),
                    SyncState::Pending | SyncState::Failed => self.work_for(who, checkpoint),
                }
            }
            Phase::Draining(ticket) => {
                let tier = self.tier.expect("it was asked for a drain");
                match tier.drain_state(&ticket) {
                    DrainState::Done => self.checkpoint_complete(),
                    DrainState::Pending | DrainState::Failed | DrainState::Lost | DrainState::Refused => {
                        self.work_for(who, checkpoint)
                    }
                }
            }
            Phase::SyncingHome(mark) => {
                if let Some((tier, mark)) = self.tier.zip(mark) {
                    tier.disk_synced(mark);
                    self.workers.wake(&mut self.clock);
                }
                self.checkpoint_complete()
            }
        }
    }

    /// The next page that is still as old as the checkpoint.
    fn next_page(&mut self, mut checkpoint: Box<Checkpoint>) -> Then {
        while let Some(&(frame, page)) = checkpoint.dirty.get(checkpoint.next) {
            let held = self.pool.frame_mut(frame);
            if held.page == page && held.dirty && held.mark < checkpoint.mark {
                held.pins += 1;
                checkpoint.phase = Phase::Cleaning(Cleaning::Begin);
                return Go(Task::Checkpoint(checkpoint));
            }
            checkpoint.next += 1;
        }
        self.pages_written(checkpoint)
    }

    /// Waits until it is time for the next page, if the checkpoint is ahead of its time.
    fn at_leisure(&mut self, who: u32, checkpoint: Box<Checkpoint>) -> Then {
        let over = nanoseconds(self.setup.checkpoint_seconds * self.setup.checkpoint_spread);
        let share = checkpoint.next as f64 / checkpoint.dirty.len() as f64;
        let due = checkpoint.began + (over as f64 * share) as u64;
        if due <= self.now() {
            return Go(Task::Checkpoint(checkpoint));
        }
        self.clock.enter(due, Event::Task(who));
        Wait(Task::Checkpoint(checkpoint))
    }

    fn pages_written(&mut self, mut checkpoint: Box<Checkpoint>) -> Then {
        let who = self.checkpointer();
        let Some(tier) = self.tier else { return self.sync_home(who, checkpoint) };
        let Ok(ticket) = tier.request_sync() else { return self.work_for(who, checkpoint) };
        self.workers.wake(&mut self.clock);
        checkpoint.phase = Phase::Syncing(ticket);
        Go(Task::Checkpoint(checkpoint))
    }

    /// Everything that the tier has is durable on flash.
    fn synced(&mut self, who: u32, mut checkpoint: Box<Checkpoint>) -> Then {
        let tier = self.tier.expect("it was synced");
        match tier.sync_mode() {
            SyncMode::Durable => self.checkpoint_complete(),
            SyncMode::Through => self.sync_home(who, checkpoint),
            SyncMode::Drained => {
                let scope = DrainScope { before: Some(Mark::from_number(checkpoint.mark)), range: None };
                let Ok(ticket) = tier.request_drain(&scope) else { return self.work_for(who, checkpoint) };
                self.workers.wake(&mut self.clock);
                checkpoint.phase = Phase::Draining(ticket);
                Go(Task::Checkpoint(checkpoint))
            }
        }
    }

    fn sync_home(&mut self, who: u32, mut checkpoint: Box<Checkpoint>) -> Then {
        // Pages that others are writing at this moment count as well: nothing here loses power.
        checkpoint.phase = Phase::SyncingHome(self.tier.map(Tier::disk_mark));
        self.submit(self.home(), OperationKind::Flush, 0, 0, Whose::Task(who));
        Wait(Task::Checkpoint(checkpoint))
    }

    fn work_for(&mut self, who: u32, checkpoint: Box<Checkpoint>) -> Then {
        let task = Task::Checkpoint(checkpoint);
        if self.work_or_wait(who) { Go(task) } else { Wait(task) }
    }

    fn checkpoint_complete(&mut self) -> Then {
        self.counts.checkpoints += 1;
        Wait(Task::NoCheckpoint)
    }
}
