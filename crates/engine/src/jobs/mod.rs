//! Jobs: what the host does for the tier.
//!
//! A host calls [`Tier::next_job`], carries the job out and hands it back with [`Tier::complete`]. Any
//! thread may do so; several may at once. A job carries all it needs. Jobs of an owner that has died
//! are handed out again after [`Tier::abandon`] (invariant 12).

pub(crate) mod completion;

use crate::checkpoint::Sweep;
use crate::core::Tier;
use crate::failure::latch::Failure;
use crate::ids::{PageId, Position, Sequence};
use crate::page_memory::slot_blocks;
use crate::placement::{Step, Tried};
use crate::planted::{self, Bug};
use crate::stage_out::batch::{Load, Stage};
use crate::stage_out::reread::NOT_AGAIN;
use std::collections::BTreeSet;
use std::marker::PhantomData;

/// Work for the host.
#[must_use = "a job that is not completed blocks the tier"]
pub enum Job<'t> {
    /// Write a group to flash; or blocks of the slot directory, for designs that have one.
    WriteGroup(WriteGroup<'t>),
    /// Flush the flash device.
    FlushFlash(FlushFlash<'t>),
    /// Read pages that are to leave flash: groups at the front of the queue, or what a drain asks for.
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

/// Which jobs somebody takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    /// Whatever there is.
    All,
    /// Those that write groups and metadata to flash and flush them.
    FlashWrites,
}

/// What the control lock's holder has found to be done.
enum Picked<'t> {
    Job(Job<'t>),
    /// The batch looks for pages of a drain, without the lock.
    Scan,
    /// The placement does something, without the lock.
    Step(Step),
    /// Something moved on by itself: look again.
    Again,
    Nothing,
}

/// A job could not be carried out. The tier latches it; nothing is retried (invariant 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobError;

/// See [`Job::WriteGroup`].
pub struct WriteGroup<'t> {
    tier: &'t Tier,
    pub(crate) what: Written,
}

/// What a [`WriteGroup`] writes.
#[derive(Clone, Copy)]
pub(crate) enum Written {
    /// The group with this sequence number.
    Group(Sequence),
    /// Blocks of slots.
    Slots,
}

/// See [`Job::FlushFlash`].
pub struct FlushFlash<'t> {
    pub(crate) target: Sequence,
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
    /// Pages that disk has not taken.
    pub(crate) refused: BTreeSet<PageId>,
}

/// See [`Job::SyncDisk`].
pub struct SyncDisk<'t> {
    tier: PhantomData<&'t Tier>,
}

/// See [`Job::WriteSegment`].
pub struct WriteSegment<'t> {
    tier: &'t Tier,
    pub(crate) buffer: usize,
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
    /// (Byte offset on flash, bytes): one write, or two where the ring of frames ends, or a zone. Of a design
    /// that writes in place: the summary, and each page by itself. With a slot directory there is no summary,
    /// and the slots are written for themselves, a block each.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let tier = self.tier;
        let placement = tier.placement();
        let (slots, pages, group) = match self.what {
            Written::Slots => (placement.slot_writes(), Vec::new(), None),
            Written::Group(sequence) => match placement.writes(sequence) {
                Some(writes) => (Vec::new(), writes, None),
                None => (Vec::new(), Vec::new(), Some(sequence)),
            },
        };
        let slots = slots
            .into_iter()
            .map(|write| (write.offset, slot_blocks(&tier.region, write.memory, write.bytes)));
        let pages =
            pages.into_iter().map(|write| (write.offset, tier.staged_bytes(write.memory, write.bytes)));
        let runs = group.map(|sequence| self.sequential_writes(sequence));
        slots.chain(pages).chain(runs.into_iter().flatten())
    }

    /// Byte offsets on flash of the zones that are to be reset before [`Self::writes`], which begin them; for
    /// a tier on zones. There each of the writes lies in one zone, at its write pointer: a host whose
    /// processes may die takes care that what a dead one has written of this job is not written again
    /// (the bytes are the same), unless the zone is reset.
    pub fn resets(&self) -> impl Iterator<Item = u64> {
        self.zones_begun().map(|(zone, _)| zone)
    }

    /// As [`Self::resets`], each with the zone that the queue leaves for it, if there is one: nothing is
    /// written there any more before it is reset, and it may have room left. A host whose device limits how
    /// many zones are written in part has the device finish it before the other is written to.
    pub fn zones_begun(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        let Written::Group(sequence) = self.what else { return Vec::new().into_iter() };
        let (tier, group) = (self.tier, self.tier.group_of(sequence));
        let frames = tier.geometry.summary_frames() + group.pages();
        let begun = tier.geometry.zones_begun(group.position(), frames);
        let zone_frames = tier.geometry.zone_frames();
        let left = |begin: Position| begin.number().checked_sub(zone_frames).map(Position::from_number);
        begun
            .map(|begin| (tier.offset_of(begin), left(begin).map(|left| tier.offset_of(left))))
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn sequential_writes(&self, sequence: Sequence) -> impl Iterator<Item = (u64, &[u8])> {
        let tier = self.tier;
        let group = tier.group_of(sequence);
        let position = group.position();
        let frames = tier.geometry.summary_frames() + group.pages();
        let memory = tier.group_memory(sequence);
        let page = tier.geometry.page_size();
        tier.geometry.pieces(tier.ring(), position, frames).map(move |(at, count)| {
            let bytes = tier.staged_bytes(memory + (at - position) as usize * page, count as usize * page);
            (tier.offset_of(at), bytes)
        })
    }
}

impl ReadFront<'_> {
    /// (Byte offset on flash, buffer to be filled).
    pub fn reads(&mut self) -> Vec<(u64, &mut [u8])> {
        self.reads.iter().map(|&(at, memory, bytes)| (at, self.tier.batch_to_fill(memory, bytes))).collect()
    }
}

impl WriteDisk<'_> {
    /// Disk does not take this page, for a reason of its file: it is missing, its file system is full. The
    /// page stays dirty in the tier and is tried again later; the job is completed with the others.
    ///
    /// A host whose disk fails as a whole completes the job with an error instead.
    pub fn refuse(&mut self, page: &PageId) {
        self.refused.insert(*page);
    }

    /// The pages, in the order of their ids.
    pub fn pages(&self) -> impl Iterator<Item = (PageId, &[u8])> {
        self.tier.batch_writes()
    }

    /// Those of the pages that the tier holds as the newest still. The others were superseded or invalidated
    /// after the list was made, and need not go to disk.
    ///
    /// For a host that lets nobody invalidate pages while it carries out this job: what was cut off a file
    /// before is left out, and nothing else, however often the same blocks are cut off and written again.
    pub fn newest_pages(&self) -> impl Iterator<Item = (PageId, &[u8])> {
        self.tier.batch_writes_newest()
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
    /// `None` means that nothing can be done now: jobs that others carry out may bring more. Frames may have
    /// left the queue all the same; a host whose threads wait for room compares [`Self::progress`] and
    /// wakes them.
    pub fn next_job(&self, owner: u32) -> Option<Job<'_>> {
        self.next_of(Kinds::All, owner)
    }

    /// The next job that writes to flash or flushes it, if there is one; otherwise as [`Self::next_job`]. A
    /// host that keeps one of its threads or processes for these never lets staging memory wait for a
    /// disk. Somebody else has to take the other jobs.
    pub fn next_flash_write(&self, owner: u32) -> Option<Job<'_>> {
        self.next_of(Kinds::FlashWrites, owner)
    }

    fn next_of(&self, kinds: Kinds, owner: u32) -> Option<Job<'_>> {
        // Steps that came to nothing are not tried again before a job has changed something.
        let (mut tried, mut steps) = (Tried::default(), 0);
        loop {
            let picked = {
                let _guard = self.control().lock.lock(self.owner);
                let picked = self.pick_job(kinds, owner, &tried);
                planted::inside("next job: picked");
                picked
            };
            match picked {
                Picked::Job(job) => return Some(job),
                Picked::Scan => self.scan_for_drain(),
                Picked::Step(step) => {
                    steps += u64::from(step == Step::Evict);
                    let most = self.placement().evictions_max();
                    assert!(steps <= most, "pages are named to leave, and none does");
                    tried.note(step, self.placement().carry_out(step));
                }
                Picked::Again => {}
                Picked::Nothing if self.release_as_needed() => {}
                Picked::Nothing if kinds == Kinds::All && self.look_for_room() => {}
                Picked::Nothing => return None,
            }
        }
    }

    fn pick_job(&self, kinds: Kinds, owner: u32, tried: &Tried) -> Picked<'_> {
        let failure = self.failure();
        if failure.is_some_and(Failure::ends_writing) {
            return Picked::Nothing;
        }
        if let Some(job) = self.flash_job(owner) {
            return Picked::Job(job);
        }
        if failure.is_none() && kinds == Kinds::All {
            if let Some(step) = self.placement().next_step(tried) {
                return Picked::Step(step);
            }
            let picked = self.disk_job(owner, tried);
            if !matches!(picked, Picked::Nothing) {
                return picked;
            }
        }
        if self.seal_invalidations() || self.seal_for_progress() {
            return self.flash_job(owner).map_or(Picked::Nothing, Picked::Job);
        }
        if failure.is_none() && kinds == Kinds::All {
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
            control.flush.begin(target, control.groups.next(), owner);
            control.segments.flush_begins();
            self.placement().slots_flush_begins();
            return Some(Job::FlushFlash(FlushFlash { target, tier: PhantomData }));
        }
        if self.placement().take_slots(owner, self.slots_pressing()) {
            return Some(Job::WriteGroup(WriteGroup { tier: self, what: Written::Slots }));
        }
        let ready = Sequence::each(control.groups.flushed()..control.groups.composed())
            .find(|&sequence| self.group_of(sequence).is_ready())
            .filter(|&sequence| self.is_in_order(sequence));
        if let Some(sequence) = ready {
            let group = self.group_of(sequence);
            group.taken_to_be_written();
            planted::inside("hand out WriteGroup: being written");
            group.owned_by(owner);
            return Some(Job::WriteGroup(WriteGroup { tier: self, what: Written::Group(sequence) }));
        }
        let buffer = self.writable_segment()?;
        control.segments.buffers[buffer].taken_to_be_written();
        planted::inside("hand out WriteSegment: being written");
        control.segments.buffers[buffer].owned_by(owner);
        Some(Job::WriteSegment(WriteSegment { tier: self, buffer }))
    }

    /// Whether a group may be written as far as zones are concerned: in their order (invariant 13).
    fn is_in_order(&self, sequence: Sequence) -> bool {
        self.geometry.zones.is_none()
            || self.written_end() == sequence
            || planted::is(Bug::ZonesWrittenInAnyOrder)
    }

    /// Up to which group a flush is worth its cost now.
    fn flush_wanted(&self) -> Option<Sequence> {
        let control = self.control();
        if control.flush.is_under_way() {
            return None;
        }
        let (flushed, written) = (control.groups.flushed(), self.written_end());
        let places = self.staging_groups().len() as u64;
        // A sync is served by one flush, once all its groups are written.
        let sync = control.groups.wanted() > flushed && written >= control.groups.wanted();
        let used = control.groups.next() - control.groups.retired();
        let memory = written > flushed && used + self.groups_kept_free() >= places;
        let pressing = self.pressing();
        let segment = control.segments.want_flush() && (pressing || control.segments.any_full());
        let slots = self.placement().slots_want_flush(self.slots_pressing());
        (sync || memory || (written > flushed && pressing) || segment || slots).then_some(written)
    }

    /// Groups of staging memory that are to be free when a flush begins: twice as many as were opened during
    /// the last one, within a quarter and a half of all, and at least one. A drive without power-loss
    /// protection takes milliseconds for a flush however much it covers, so one that could have waited
    /// takes time from reads; one that comes too late makes those wait who stage in.
    fn groups_kept_free(&self) -> u64 {
        let places = self.staging_groups().len() as u64;
        let half = places.div_ceil(2);
        (2 * self.control().flush.opens()).clamp((places / 4).max(1), half)
    }

    /// Whether slots are written as soon as they change: homes wait for that, or nothing else comes any more.
    fn slots_pressing(&self) -> bool {
        let has_slots = self.geometry.slot_directory().is_some();
        has_slots && (self.placement().is_short() || self.control().draining.get() != 0)
    }

    fn disk_job(&self, owner: u32, tried: &Tried) -> Picked<'_> {
        let control = self.control();
        if control.batch.stage() == Stage::ToWrite {
            control.batch.writes();
            planted::inside("hand out WriteDisk: being written");
            control.batch.owned_by(owner);
            return Picked::Job(Job::WriteDisk(WriteDisk { tier: self, refused: BTreeSet::new() }));
        }
        if control.batch.stage() == Stage::ToReread {
            return self.read_batch(owner);
        }
        // A drain and the front take turns, so that neither waits for the end of the other.
        let fronts_turn = control.batch.carries(Load::Drain);
        let placement = self.placement();
        let front = control.batch.stage() == Stage::ToRead || (fronts_turn && placement.take_front());
        match if front { Sweep::Nothing } else { self.take_drain() } {
            Sweep::Scan => {
                control.batch.owned_by(owner);
                return Picked::Scan;
            }
            Sweep::Moved => return Picked::Again,
            Sweep::Nothing => {}
        }
        if !tried.list && !front && placement.take_leaving() {
            return Picked::Step(Step::List);
        }
        if front || placement.take_front() {
            control.batch.again.set(NOT_AGAIN);
            return self.read_batch(owner);
        }
        if placement.take_disk_sync() {
            if planted::is(Bug::ReuseBeforeDiskSync) {
                control.disk_sync.done();
                return Picked::Nothing;
            }
            control.disk_sync.hand_out(owner);
            return Picked::Job(Job::SyncDisk(SyncDisk { tier: PhantomData }));
        }
        Picked::Nothing
    }

    fn read_batch(&self, owner: u32) -> Picked<'_> {
        let control = self.control();
        control.batch.reads();
        planted::inside("hand out ReadFront: being read");
        control.batch.owned_by(owner);
        Picked::Job(Job::ReadFront(ReadFront { tier: self, reads: self.batch_reads() }))
    }
}
