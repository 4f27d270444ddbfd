//! Jobs: what the host does for the tier.
//!
//! A host calls [`Tier::next_job`], carries the job out and hands it back with [`Tier::complete`]. Any
//! thread may do so; several may at once. A job carries all it needs. Jobs of an owner that has died
//! are handed out again after [`Tier::abandon`] (invariant 12).

use std::fmt;
use std::marker::PhantomData;

use crate::checkpoint::Sweep;
use crate::directory::DRAINED;
use crate::ids::{PageId, Position};
use crate::lane::{DRAIN, GROUP, LANE_IDLE, LANE_READING, LANE_TO_READ, LANE_TO_WRITE, LANE_WRITING};
use crate::metadata::{BEING_FLUSHED, BEING_WRITTEN, COVERED, FULL, UNFLUSHED};
use crate::planted::{self, Bug};
use crate::release::{SYNC_BARRIER, SYNC_IDLE, SYNC_RUNNING};
use crate::staging::{FAILED, READY, WRITING, WRITTEN};
use crate::tier::Tier;

/// Work for the host.
#[must_use = "a job that is not completed blocks the tier"]
pub enum Job<'t> {
    /// Write a group to flash.
    WriteGroup(WriteGroup<'t>),
    /// Flush the flash device.
    FlushFlash(FlushFlash<'t>),
    /// Read pages that are to leave flash: the group at the front of the queue, or what a drain asks for.
    ReadFront(ReadFront<'t>),
    /// Write pages to their places on disk.
    WriteDisk(WriteDisk<'t>),
    /// Sync every file that a WriteDisk has written since the last SyncDisk.
    SyncDisk(SyncDisk<'t>),
    /// Write a metadata segment to flash.
    WriteSegment(WriteSegment<'t>),
    /// Stage in pages from the tail of the buffer pool, as many as there are. Handed out only after
    /// [`Tier::set_pulling`].
    PullPages(PullPages<'t>),
}

/// What the control lock's holder has found to be done.
enum Picked<'t> {
    Job(Job<'t>),
    /// The lane looks for pages of a drain, without the lock.
    Scan,
    /// Something moved on by itself: look again.
    Again,
    Nothing,
}

/// A job could not be carried out. The tier latches it; nothing is retried (invariant 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobError;

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

/// See [`Job::WriteGroup`].
pub struct WriteGroup<'t> {
    tier: &'t Tier,
    sequence: u64,
}

/// See [`Job::FlushFlash`].
pub struct FlushFlash<'t> {
    target: u64,
    tier: PhantomData<&'t Tier>,
}

/// See [`Job::ReadFront`].
pub struct ReadFront<'t> {
    tier: &'t Tier,
    reads: Vec<(u64, usize, usize)>,
}

/// See [`Job::WriteDisk`].
pub struct WriteDisk<'t> {
    tier: &'t Tier,
}

/// See [`Job::SyncDisk`].
pub struct SyncDisk<'t> {
    tier: PhantomData<&'t Tier>,
}

/// See [`Job::WriteSegment`].
pub struct WriteSegment<'t> {
    tier: &'t Tier,
    buffer: usize,
}

/// See [`Job::PullPages`].
pub struct PullPages<'t> {
    pages: u64,
    tier: PhantomData<&'t Tier>,
}

impl PullPages<'_> {
    /// How many pages fit.
    pub fn pages(&self) -> u64 {
        self.pages
    }
}

impl WriteGroup<'_> {
    /// (Byte offset on flash, bytes): one write, or two where the ring of frames ends.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let tier = self.tier;
        let slot = tier.slot_of(self.sequence);
        let position = slot.position.get();
        let frames = tier.geometry.summary_frames() + slot.pages.get();
        let memory = tier.slot_memory(self.sequence);
        let page = tier.geometry.page_size();
        tier.ring().runs(position, frames).into_iter().filter(|run| run.1 > 0).map(move |(at, count)| {
            let bytes = tier.region.lease(memory + (at - position) as usize * page, count as usize * page);
            (tier.offset_of(at), bytes)
        })
    }
}

impl ReadFront<'_> {
    /// (Byte offset on flash, buffer to be filled).
    pub fn reads(&mut self) -> Vec<(u64, &mut [u8])> {
        let region = &self.tier.region;
        self.reads.iter().map(|&(at, memory, bytes)| (at, region.lease_mut(memory, bytes))).collect()
    }
}

impl WriteDisk<'_> {
    /// The pages, in the order of their ids.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, &[u8])> {
        self.tier.lane_writes()
    }
}

impl WriteSegment<'_> {
    /// Byte offset on flash, and the bytes.
    pub fn write(&self) -> (u64, &[u8]) {
        self.tier.segment_bytes(self.buffer)
    }
}

impl Tier {
    /// The next job, if there is one. `owner` names who carries it out, for [`Self::abandon`].
    ///
    /// `None` means that nothing can be done now: jobs that others carry out may bring more.
    pub fn next_job(&self, owner: u32) -> Option<Job<'_>> {
        loop {
            let picked = {
                let _guard = self.control().lock.lock(self.owner);
                let picked = self.pick_job(owner);
                planted::inside("next job: picked");
                picked
            };
            match picked {
                Picked::Job(job) => return Some(job),
                Picked::Scan => self.scan_for_drain(),
                Picked::Again => {}
                Picked::Nothing if self.release_as_needed() => {}
                Picked::Nothing => return None,
            }
        }
    }

    fn pick_job(&self, owner: u32) -> Picked<'_> {
        let failure = self.failure();
        if failure.is_some_and(Failure::ends_writing) {
            return Picked::Nothing;
        }
        if let Some(job) = self.flash_job(owner) {
            return Picked::Job(job);
        }
        if failure.is_none() {
            let picked = self.disk_job(owner);
            if !matches!(picked, Picked::Nothing) {
                return picked;
            }
        }
        if self.seal_for_progress() {
            return self.flash_job(owner).map_or(Picked::Nothing, Picked::Job);
        }
        if failure.is_none() {
            if let Some(pages) = self.take_pull(owner) {
                return Picked::Job(Job::PullPages(PullPages { pages, tier: PhantomData }));
            }
        }
        Picked::Nothing
    }

    /// Flushes before writes: a sync waits for them, and they free staging memory.
    fn flash_job(&self, owner: u32) -> Option<Job<'_>> {
        let control = self.control();
        self.compose_sealed();
        if let Some(target) = self.flush_wanted() {
            control.flushing.set(1);
            planted::inside("hand out FlushFlash: under way");
            control.flush_target.set(target);
            control.flush_owner.set(owner.into());
            if control.segment_unflushed.get() == UNFLUSHED {
                control.segment_unflushed.set(BEING_FLUSHED);
            }
            return Some(Job::FlushFlash(FlushFlash { target, tier: PhantomData }));
        }
        let ready = (control.flushed.get()..control.composed.get())
            .find(|&sequence| self.slot_of(sequence).state.get() == READY);
        if let Some(sequence) = ready {
            let slot = self.slot_of(sequence);
            slot.state.set(WRITING);
            planted::inside("hand out WriteGroup: being written");
            slot.owner.set(owner.into());
            return Some(Job::WriteGroup(WriteGroup { tier: self, sequence }));
        }
        let buffer = self.writable_segment()?;
        control.segments[buffer].state.set(BEING_WRITTEN);
        planted::inside("hand out WriteSegment: being written");
        control.segments[buffer].owner.set(owner.into());
        Some(Job::WriteSegment(WriteSegment { tier: self, buffer }))
    }

    /// Up to which group a flush is worth its cost now.
    fn flush_wanted(&self) -> Option<u64> {
        let control = self.control();
        if control.flushing.get() != 0 {
            return None;
        }
        let (flushed, written) = (control.flushed.get(), self.written_end());
        let slots = self.slots().len() as u64;
        // A sync is served by one flush, once all its groups are written.
        let sync = control.sync_wanted.get() > flushed && written >= control.sync_wanted.get();
        let memory = written > flushed && control.next_sequence.get() - control.retired.get() >= slots / 2;
        let pressing = self.pressing();
        let unflushed = control.segment_unflushed.get() == UNFLUSHED;
        let waits = pressing || control.segments.iter().any(|buffer| buffer.state.get() == FULL);
        let segment = unflushed && waits;
        (sync || memory || (written > flushed && pressing) || segment).then_some(written)
    }

    fn disk_job(&self, owner: u32) -> Picked<'_> {
        let control = self.control();
        if control.lane.get() == LANE_TO_WRITE {
            control.lane.set(LANE_WRITING);
            planted::inside("hand out WriteDisk: being written");
            control.lane_owner.set(owner.into());
            return Picked::Job(Job::WriteDisk(WriteDisk { tier: self }));
        }
        // A drain and the front take turns, so that neither waits for the end of the other.
        let fronts_turn = control.lane_load.get() == DRAIN;
        let front = control.lane.get() == LANE_TO_READ || (fronts_turn && self.take_front());
        match if front { Sweep::Nothing } else { self.take_drain() } {
            Sweep::Scan => {
                control.lane_owner.set(owner.into());
                return Picked::Scan;
            }
            Sweep::Moved => return Picked::Again,
            Sweep::Nothing => {}
        }
        if front || self.take_front() {
            control.lane.set(LANE_READING);
            planted::inside("hand out ReadFront: being read");
            control.lane_owner.set(owner.into());
            return Picked::Job(Job::ReadFront(ReadFront { tier: self, reads: self.lane_reads() }));
        }
        if self.take_disk_sync() {
            if planted::is(Bug::ReuseBeforeDiskSync) {
                control.disk_sync.set(SYNC_BARRIER);
                return Picked::Nothing;
            }
            planted::inside("hand out SyncDisk: under way");
            control.disk_sync_owner.set(owner.into());
            return Picked::Job(Job::SyncDisk(SyncDisk { tier: PhantomData }));
        }
        Picked::Nothing
    }

    /// Takes back a job with its outcome.
    ///
    /// A failure is latched: see [`Self::failure`].
    pub fn complete(&self, job: Job<'_>, outcome: Result<(), JobError>) {
        match job {
            Job::WriteGroup(job) => self.group_written(job.sequence, outcome),
            Job::FlushFlash(job) => self.flash_flushed(job.target, outcome),
            Job::ReadFront(_) => self.front_was_read(outcome),
            Job::WriteDisk(_) => self.disk_written(outcome),
            Job::SyncDisk(_) => self.disk_synced(outcome),
            Job::WriteSegment(job) => self.segment_was_written(job.buffer, outcome),
            Job::PullPages(_) => {
                let _guard = self.control().lock.lock(self.owner);
                self.pulled();
            }
        }
    }

    fn group_written(&self, sequence: u64, outcome: Result<(), JobError>) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let slot = self.slot_of(sequence);
        assert_eq!((slot.sequence.get(), slot.state.get()), (sequence, WRITING), "a job completed twice");
        if outcome.is_err() && !planted::is(Bug::FailedWriteIgnored) {
            slot.state.set(FAILED);
            control.stopped.set(1);
            self.latch(Failure::FlashWrite);
            return;
        }
        slot.state.set(WRITTEN);
        planted::inside("group written: state set");
        let counters = &control.counters;
        let bytes = (self.geometry.summary_frames() + slot.pages.get()) * self.geometry.page_size() as u64;
        counters.groups_written.count(1);
        counters.pages_written.count(slot.pages.get());
        counters.group_bytes_written.count(bytes);
        if slot.cut_short.get() != 0 {
            counters.groups_cut_short.count(1);
        } else {
            counters.full_group_bytes_written.count(bytes);
        }
        if slot.pages.get() == 0 {
            counters.groups_empty.count(1);
        }
        if planted::is(Bug::SyncWithoutFlush) {
            self.became_durable(self.written_end());
        }
    }

    fn flash_flushed(&self, target: u64, outcome: Result<(), JobError>) {
        let control = self.control();
        {
            let _guard = control.lock.lock(self.owner);
            assert_eq!(control.flushing.get(), 1, "a job completed twice");
            if outcome.is_err() && !planted::is(Bug::FailedFlushIgnored) {
                // The flush stays latched as under way: none is ever issued again.
                control.stopped.set(1);
                self.latch(Failure::FlashSync);
                return;
            }
            control.flushing.set(0);
            planted::inside("flushed: no longer under way");
            control.counters.flushes.count(1);
            let segment = control.segment_unflushed.get();
            let any_segment = planted::is(Bug::FlushCoversLaterSegment) && segment == UNFLUSHED;
            if segment == BEING_FLUSHED || any_segment {
                control.segment_unflushed.set(COVERED);
                control.segment_durable_end.set(control.segment_written_end.get());
            }
            let later = planted::is(Bug::FlushCoversLaterGroups);
            self.became_durable(if later { self.written_end().max(target) } else { target });
        }
        planted::outside("flushed: groups durable");
        self.release_as_needed();
    }

    /// Every group before `target` is durable (invariant 3), and so is the front that they state. Under the
    /// control lock.
    fn became_durable(&self, target: u64) {
        let control = self.control();
        for sequence in control.flushed.get()..target {
            let stated = self.slot_of(sequence).front.get();
            control.durable_front.set(control.durable_front.get().max(stated));
        }
        planted::inside("became durable: front moved");
        control.flushed.set(control.flushed.get().max(target));
        planted::inside("became durable: mark moved");
        self.retire();
    }

    fn front_was_read(&self, outcome: Result<(), JobError>) {
        let control = self.control();
        assert_eq!(control.lane.get(), LANE_READING, "a job completed twice");
        if outcome.is_err() {
            self.lane_stuck(control.lane_position.get());
            return;
        }
        let load = control.lane_load.get();
        let read = if load == GROUP { self.group_was_read() } else { self.drain_was_read() };
        if let Err(position) = read {
            self.lane_stuck(position);
            return;
        }
        planted::outside("front read: listed");
        let _guard = control.lock.lock(self.owner);
        if load == GROUP {
            let frames = control.lane_end.get() - control.lane_position.get();
            control.counters.stage_out_bytes_read.count(frames * self.geometry.page_size() as u64);
        }
        if control.lane_pages.get() == 0 {
            self.lane_done();
        } else {
            control.lane.set(LANE_TO_WRITE);
        }
    }

    /// The lane's pages need no more I/O. Under the control lock.
    pub(crate) fn lane_done(&self) {
        let control = self.control();
        if control.lane_load.get() == GROUP { self.group_cleaned() } else { control.lane.set(LANE_IDLE) }
    }

    fn disk_written(&self, outcome: Result<(), JobError>) {
        let control = self.control();
        assert_eq!(control.lane.get(), LANE_WRITING, "a job completed twice");
        if outcome.is_err() {
            let _guard = control.lock.lock(self.owner);
            self.latch(Failure::DiskWrite);
            return;
        }
        let drained = control.lane_load.get() == DRAIN;
        self.lane_written(if drained { DRAINED } else { 0 });
        planted::outside("disk written: pages marked");
        let _guard = control.lock.lock(self.owner);
        planted::inside("disk written: lane not passed");
        let pages = control.lane_pages.get();
        control.counters.disk_writes.count(pages);
        if drained {
            control.counters.pages_drained.count(pages);
        }
        self.lane_done();
    }

    fn disk_synced(&self, outcome: Result<(), JobError>) {
        let control = self.control();
        let synced_end;
        {
            let _guard = control.lock.lock(self.owner);
            assert_eq!(control.disk_sync.get(), SYNC_RUNNING, "a job completed twice");
            synced_end = control.disk_sync_end.get();
            if outcome.is_err() && !planted::is(Bug::FailedDiskSyncIgnored) {
                self.latch(Failure::DiskSync);
                return;
            }
            control.counters.disk_syncs.count(1);
            control.disk_sync.set(SYNC_BARRIER);
        }
        planted::outside("disk synced: at the barrier");
        self.drain_synced(synced_end);
        planted::outside("disk synced: drain told");
        self.release_as_needed();
    }

    fn segment_was_written(&self, buffer: usize, outcome: Result<(), JobError>) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        assert_eq!(control.segments[buffer].state.get(), BEING_WRITTEN, "a job completed twice");
        if outcome.is_err() {
            control.segments[buffer].state.set(FULL);
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

    /// The first failure of a job.
    pub fn failure(&self) -> Option<Failure> {
        let control = self.control();
        match control.failure.get() {
            1 => Some(Failure::FlashWrite),
            2 => Some(Failure::FlashSync),
            3 => Some(Failure::FlashRead { position: control.failure_detail.get() }),
            4 => Some(Failure::DiskWrite),
            5 => Some(Failure::DiskSync),
            _ => None,
        }
    }

    /// Remembers a failure. One that ends writing replaces one that does not. Under the control lock.
    pub(crate) fn latch(&self, failure: Failure) {
        let control = self.control();
        let keep = self.failure().is_some_and(|first| first.ends_writing() || !failure.ends_writing());
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
        control.failure_detail.set(detail);
        control.failure.set(code);
    }

    /// Takes back the jobs of an owner that has died, once the host certifies that its I/O has ended.
    ///
    /// # Errors
    /// [`Poisoned`] if the owner died inside a critical section: the region is rebuilt from flash.
    pub fn abandon(&self, owner: u32) -> Result<(), Poisoned> {
        let control = self.control();
        let inside =
            control.lock.holder() == Some(owner) || self.directory().holders().any(|holder| holder == owner);
        if inside && !planted::is(Bug::DeadHolderForgotten) {
            control.lock.poison();
            self.directory().poison();
            return Err(Poisoned);
        }
        if planted::is(Bug::DeadOwnersJobsLost) {
            return Ok(());
        }
        let guard = control.lock.lock(self.owner);
        let dead = u64::from(owner);
        for slot in self.slots() {
            if slot.state.get() == WRITING && slot.owner.get() == dead {
                slot.state.set(if planted::is(Bug::DeadWriteCounts) { WRITTEN } else { READY });
            }
        }
        if control.flushing.get() == 1 && control.flush_owner.get() == dead {
            control.flushing.set(0);
            if planted::is(Bug::DeadFlushCounts) {
                self.became_durable(control.flush_target.get());
            }
            if control.segment_unflushed.get() == BEING_FLUSHED {
                control.segment_unflushed.set(UNFLUSHED);
            }
        }
        self.abandon_lane(dead);
        self.abandon_release(dead);
        self.abandon_drain(dead);
        if control.pull_owner.get() == dead {
            self.pulled();
        }
        if control.disk_sync.get() == SYNC_RUNNING && control.disk_sync_owner.get() == dead {
            control.disk_sync.set(if planted::is(Bug::DeadSyncCounts) { SYNC_BARRIER } else { SYNC_IDLE });
        }
        for buffer in &control.segments {
            if buffer.state.get() == BEING_WRITTEN && buffer.owner.get() == dead {
                buffer.state.set(FULL);
            }
        }
        if control.draining.get() == dead {
            control.draining.set(0);
        }
        drop(guard);
        self.abandon_drops(dead);
        self.lookup_counts().abandon(owner);
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
