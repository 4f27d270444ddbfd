//! What follows from a job: the states that its outcome moves.

use std::collections::BTreeSet;

use crate::core::Tier;
use crate::directory::DRAINED;
use crate::failure::latch::Failure;
use crate::ids::{PageId, Sequence};
use crate::jobs::{Job, JobError, Written};
use crate::planted::{self, Bug};
use crate::stage_out::batch::{Load, Stage};
use crate::stage_out::reread::NOT_AGAIN;
use crate::stage_out::unreadable::Unread;

impl Tier {
    /// Takes back a job with its outcome.
    ///
    /// A failure is latched: see [`Self::failure`].
    pub fn complete(&self, job: Job<'_>, outcome: Result<(), JobError>) {
        match job {
            Job::WriteGroup(job) => match job.what {
                Written::Group(sequence) => self.group_written(sequence, outcome),
                Written::Slots => self.slots_were_written(outcome),
            },
            Job::FlushFlash(job) => self.flash_flushed(job.target, outcome),
            Job::ReadFront(_) => self.front_was_read(outcome),
            Job::WriteDisk(job) => self.disk_written(outcome, &job.refused),
            Job::SyncDisk(_) => self.disk_was_synced(outcome),
            Job::WriteSegment(job) => self.segment_was_written(job.buffer, outcome),
            Job::PullPages(_) => {
                let _guard = self.control().lock.lock(self.owner);
                self.pulled();
            }
        }
    }

    fn group_written(&self, sequence: Sequence, outcome: Result<(), JobError>) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let group = self.group_of(sequence);
        assert!(group.sequence() == sequence && group.is_being_written(), "a job completed twice");
        if outcome.is_err() && !planted::is(Bug::FailedWriteIgnored) {
            group.write_failed();
            control.stopped.set(1);
            self.latch(Failure::FlashWrite);
            return;
        }
        group.was_written();
        planted::inside("group written: state set");
        let counters = &control.counters;
        let pages = self.placement().pages_to_write(group);
        let summary =
            if self.geometry.slot_directory().is_some() { 0 } else { self.geometry.summary_frames() };
        let bytes = (summary + pages) * self.geometry.page_size() as u64;
        counters.groups_written.count(1);
        counters.pages_written.count(pages);
        counters.group_bytes_written.count(bytes);
        if group.is_cut_short() {
            counters.groups_cut_short.count(1);
        } else {
            counters.full_group_bytes_written.count(bytes);
        }
        if group.pages() == 0 {
            counters.groups_empty.count(1);
        }
        if planted::is(Bug::SyncWithoutFlush) {
            self.became_durable(self.written_end());
        }
    }

    fn slots_were_written(&self, outcome: Result<(), JobError>) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        if outcome.is_err() {
            // The job stays latched as under way: no slot is written again.
            control.stopped.set(1);
            self.latch(Failure::FlashWrite);
            return;
        }
        self.placement().slots_written();
    }

    fn flash_flushed(&self, target: Sequence, outcome: Result<(), JobError>) {
        let control = self.control();
        {
            let _guard = control.lock.lock(self.owner);
            assert!(control.flush.is_under_way(), "a job completed twice");
            if outcome.is_err() && !planted::is(Bug::FailedFlushIgnored) {
                // The flush stays latched as under way: none is ever issued again.
                control.stopped.set(1);
                self.latch(Failure::FlashSync);
                return;
            }
            control.flush.complete(control.groups.next());
            self.placement().slots_flushed();
            control.counters.flushes.count(1);
            control.segments.flushed(planted::is(Bug::FlushCoversLaterSegment));
            let later = planted::is(Bug::FlushCoversLaterGroups);
            self.became_durable(if later { self.written_end().max(target) } else { target });
        }
        planted::outside("flushed: groups durable");
        self.release_as_needed();
    }

    /// Every group before `target` is durable (invariant 3), and so is the front that they state. Under the
    /// control lock.
    pub(crate) fn became_durable(&self, target: Sequence) {
        let control = self.control();
        for sequence in Sequence::each(control.groups.flushed()..target) {
            let stated = self.group_of(sequence).front();
            control.passed.front_is_durable(stated);
        }
        planted::inside("became durable: front moved");
        control.groups.are_durable(target);
        planted::inside("became durable: mark moved");
        self.retire();
        self.placement().groups_durable();
    }

    fn front_was_read(&self, outcome: Result<(), JobError>) {
        let control = self.control();
        assert_eq!(control.batch.stage(), Stage::Reading, "a job completed twice");
        let load = control.batch.load();
        let list = |judged| {
            if load == Load::Groups { self.group_was_read(judged) } else { self.drain_was_read(judged) }
        };
        let again = outcome.is_err() || control.batch.again.get() != NOT_AGAIN;
        if again || list(false).is_err() {
            if self.read_again(outcome.is_err()) {
                return;
            }
            if let Err(Unread::OnlyCopy(position)) = list(true) {
                self.batch_stuck(position);
                return;
            }
        }
        planted::outside("front read: listed");
        let _guard = control.lock.lock(self.owner);
        if load == Load::Leaving {
            let frames = self.batch_reads().len() as u64;
            control.counters.stage_out_bytes_read.count(frames * self.geometry.page_size() as u64);
        } else if load == Load::Groups {
            let frames = control.batch.end() - control.batch.position();
            control.counters.stage_out_bytes_read.count(frames * self.geometry.page_size() as u64);
        }
        if control.batch.pages() == 0 {
            self.batch_done();
        } else {
            control.batch.to_write();
        }
    }

    /// The batch's pages need no more I/O. Under the control lock.
    pub(crate) fn batch_done(&self) {
        let control = self.control();
        if control.batch.carries(Load::Groups) { self.group_cleaned() } else { control.batch.over() }
    }

    fn disk_written(&self, outcome: Result<(), JobError>, refused: &BTreeSet<PageId>) {
        let control = self.control();
        assert_eq!(control.batch.stage(), Stage::Writing, "a job completed twice");
        if outcome.is_err() {
            let _guard = control.lock.lock(self.owner);
            self.latch(Failure::DiskWrite);
            return;
        }
        let drained = control.batch.carries(Load::Drain);
        let refused = self.refused_of_batch(refused);
        self.keep_refused(&refused);
        planted::outside("disk written: refused pages kept");
        let unmarked = if planted::is(Bug::RefusedCountsAsWritten) { &[][..] } else { &refused };
        self.mark_batch_written(if drained { DRAINED } else { 0 }, unmarked);
        planted::outside("disk written: pages marked");
        let _guard = control.lock.lock(self.owner);
        planted::inside("disk written: batch not passed");
        let pages = control.batch.pages() - refused.len() as u64;
        control.counters.disk_writes.count(pages);
        if drained {
            control.counters.pages_drained.count(pages);
        }
        if control.batch.carries(Load::Leaving) {
            self.placement().batch_written();
        }
        self.batch_done();
    }

    fn disk_was_synced(&self, outcome: Result<(), JobError>) {
        let control = self.control();
        let synced_end;
        {
            let _guard = control.lock.lock(self.owner);
            assert!(control.disk_sync.is_running(), "a job completed twice");
            synced_end = self.placement().synced_end();
            if outcome.is_err() && !planted::is(Bug::FailedDiskSyncIgnored) {
                self.latch(Failure::DiskSync);
                return;
            }
            control.counters.disk_syncs.count(1);
            control.disk_sync.done();
        }
        planted::outside("disk synced: at the barrier");
        // First what is in nobody's scope, so that it is clean when a drain is done.
        self.placement().pages_synced();
        self.drain_synced(synced_end);
        planted::outside("disk synced: drain told");
        self.placement().disk_sync_over();
        self.release_as_needed();
    }

    fn segment_was_written(&self, buffer: usize, outcome: Result<(), JobError>) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let written = &control.segments.buffers[buffer];
        assert!(written.is_being_written(), "a job completed twice");
        if outcome.is_err() {
            written.fills();
            control.stopped.set(1);
            self.latch(Failure::FlashWrite);
            return;
        }
        let bytes = self.segment_size(buffer) as u64;
        planted::inside("segment written: not counted");
        control.counters.segments_written.count(1);
        control.counters.metadata_bytes_written.count(bytes);
        self.segment_written(buffer);
    }
}
