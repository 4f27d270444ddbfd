//! Where pages lie on flash and which of them leave.
//!
//! What a tier does with a page does not depend on where the page lies: it is appended, linked, found,
//! superseded, dropped. What does is asked here. There are two placements, siblings, of which a tier has one
//! as long as it lives:
//!
//! - [`Queue`](crate::queue::Queue): a page lies where its record was appended, and leaves when the front
//!   of the queue comes to it. FaCE.
//! - [`InPlace`](crate::in_place::InPlace): a page lies in a frame of its own, and leaves when a replacement
//!   policy says so. The designs that FaCE is compared with.
//!
//! [`Placement`] speaks of *entries*, under which the directory has a page, of *frames*, in which it lies on
//! flash, and of numbers of groups. It knows no front and no position: a placement whose frames become free
//! in any order has none. [`QueueRules`] is what the queue of groups asks besides, which both siblings have.
//! What a placement does not answer by itself is answered as where there is nothing to be done.
//!
//! What every stage-in and lookup goes through is written once and compiled for each placement
//! ([`chosen::placed`]), so that the one does not pay for the other; everything else goes
//! through [`chosen::Chosen`]. A third placement, for tests alone, has its frames in no order (`scattered`);
//! which pages leave it has the queue say.

pub(crate) mod chosen;

#[cfg(test)]
pub(crate) mod scattered;

#[cfg(test)]
mod tests;

use crate::directory::LockedShard;
use crate::format::{Record, RecordKind};
use crate::groups::group::StagingGroup;
use crate::ids::{EntryNumber, Frame, PageId, Position, Sequence, Version};

/// What a placement does without I/O when it is asked for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Records are appended again for pages that stay where they are.
    CopyForward,
    /// The policy is asked for pages that leave.
    Evict,
    /// The write-back batch looks for pages that leave.
    List,
}

/// Steps of one search for a job that came to nothing: they are not tried again before a job has changed
/// something.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tried {
    pub(crate) copy_forward: bool,
    pub(crate) evict: bool,
    pub(crate) list: bool,
}

impl Tried {
    /// The step came to nothing, or not.
    pub(crate) fn note(&mut self, step: Step, moved: bool) {
        let tried = match step {
            Step::CopyForward => &mut self.copy_forward,
            Step::Evict => &mut self.evict,
            Step::List => &mut self.list,
        };
        *tried = !moved;
    }
}

/// What became of the name of a lost page at the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// It lies at the rear, or stays where it is.
    Appended,
    /// Its range is being invalidated, and its name goes with it.
    Invalidated,
    /// There is no room at the rear.
    NoRoom,
}

/// One write of a job to flash.
#[derive(Clone, Copy)]
pub(crate) struct FlashWrite {
    /// Byte offset on flash.
    pub(crate) offset: u64,
    /// Byte offset in the region.
    pub(crate) memory: usize,
    pub(crate) bytes: usize,
}

/// What the record of a page says of its version beyond the entry.
#[derive(Clone, Copy)]
pub(crate) struct Recorded {
    pub(crate) epoch: u32,
    pub(crate) version: Version,
    pub(crate) lsn: u64,
}

/// Where pages lie and which leave. The caller holds the locks that each method names; a placement takes its
/// own after them.
pub(crate) trait Placement {
    /// The frame of the page at an entry, also of one that was just unlinked.
    fn frame_at(&self, entry: EntryNumber) -> Frame;

    /// Pages that flash has room for.
    fn page_frames(&self) -> u64;

    /// Frames that the tier has now, summaries of groups among them where they lie there.
    fn frames(&self) -> u64;

    /// Whether that can change while the tier is open.
    fn can_resize(&self) -> bool {
        false
    }

    /// A number that changes at every page that may have left a job behind.
    fn work(&self) -> u64;

    // A page comes in.

    /// Whether the page, which is not there, is worth a frame; `referenced` if a host has asked for it. Under
    /// the lock of its shard.
    #[inline(always)]
    fn admits(&self, _id: &PageId, _referenced: bool) -> bool {
        true
    }

    /// Whether the host must not write another version of a page to disk yet; see
    /// [`Tier::before_disk_write`]. `older` is its entry. Under the lock of its shard.
    #[inline(always)]
    fn holds_back(&self, _id: &PageId, _older: Option<EntryNumber>) -> bool {
        false
    }

    /// Whether there is a frame for a page that comes in. Under the control lock.
    fn has_room(&self) -> bool;

    /// Gives the page of a record that is about to be appended its frame; false if there is none. Under the
    /// control lock.
    fn assign(&self, record: &mut RecordKind) -> bool;

    /// The record was appended and is this entry's, which is not linked yet. Under the control lock.
    fn assigned(&self, entry: EntryNumber, record: &RecordKind, recorded: Recorded);

    /// The page was linked at `entry`; `older` is the entry of the version that it supersedes. Under the lock
    /// of its shard.
    fn entered(&self, entry: EntryNumber, id: &PageId, older: Option<EntryNumber>, dirty: bool);

    // A page is looked up.

    /// A lookup has found the page at `entry`: its frame.
    fn hit(&self, entry: EntryNumber) -> Frame;

    /// A lookup has not found the page.
    #[inline(always)]
    fn missed(&self, _id: &PageId) {}

    /// Whether the frame at this byte offset has not been given to another page since the one of this entry
    /// was seen there. Not for [`chosen::Chosen`], so that a placement that needs no entry does not pay for
    /// it.
    fn still_holds(&self, offset: u64, entry: impl FnOnce() -> EntryNumber) -> bool
    where
        Self: Sized;

    /// Whether an entry in this state tells where in staging memory its page is.
    fn tells_of_memory(&self, state: u32) -> bool;

    // A page goes.

    /// The page at `entry` was unlinked, and a record that says so appended. Under the lock of its shard.
    fn left(&self, entry: EntryNumber);

    /// The page at `entry` was unlinked, and no record says so. Under the lock of its shard.
    fn invalidated_in_memory(&self, entry: EntryNumber);

    /// The host has changed a page on disk, or a range of pages, or is about to.
    fn changed_on_disk(&self, _page: Option<&PageId>) {}

    /// The page at `entry` is lost: its name stays until a newer version comes. Under the lock of its
    /// shard.
    fn carry_lost(&self, shard: &LockedShard<'_>, entry: EntryNumber) -> Carried;

    /// The page at `entry` is lost no more, and clean. Under the lock of its shard.
    fn found(&self, _entry: EntryNumber) {}

    /// The frame could not be read. Under the control lock.
    fn read_failed(&self, frame: Frame);

    /// Whether a frame could not be read, of late.
    fn is_unreadable(&self, frame: Frame) -> bool;

    // Work.

    /// The next step without I/O, if there is one. Under the control lock.
    fn next_step(&self, _tried: &Tried) -> Option<Step> {
        None
    }

    /// Carries a step out; whether something has moved. Under no lock.
    fn carry_out(&self, _step: Step) -> bool {
        false
    }

    /// Most times that victims are named before there is a job or nothing more to do.
    fn evictions_max(&self) -> u64 {
        0
    }

    /// Takes the write-back batch for pages that leave; true if it is to look for them. Under the control
    /// lock.
    fn take_leaving(&self) -> bool {
        false
    }

    /// What is written of a composed group, where that is not the group in one row.
    fn writes(&self, _sequence: Sequence) -> Option<Vec<FlashWrite>> {
        None
    }

    /// Pages of a composed group that are written with it.
    fn pages_to_write(&self, group: &StagingGroup) -> u64 {
        group.pages()
    }

    /// Groups have become durable. Under the control lock.
    fn groups_durable(&self);

    /// Takes the records of a durable group over, before it leaves memory; false if they find no room now.
    /// Under the control lock.
    fn take_records(&self, group: &StagingGroup) -> bool;

    /// The batch's pages that leave are on disk, unsynced, and marked so. Under the control lock.
    fn batch_written(&self) {}

    /// Disk has refused these pages of the batch, which leave.
    fn batch_refused(&self, _refused: &[EntryNumber]) {}

    /// Takes a sync of the disk if it is time. Under the control lock.
    fn take_disk_sync(&self) -> bool;

    /// The disk is synced. Under no lock.
    fn pages_synced(&self) {}

    /// The sync has been told to everybody. Under no lock.
    fn disk_sync_over(&self) {}

    /// Whether frames for pages that come in are short: what could wait is done now.
    fn is_short(&self) -> bool;

    /// Whether frames are short and more would be free if this group, which is open, were durable. Under the
    /// control lock.
    fn waits_for(&self, open: Sequence) -> bool;

    /// A number that grows whenever frames became free.
    fn freed(&self) -> u64;

    /// Whether pages can come in without others leaving for them, as when a tier is new.
    fn is_filling(&self) -> bool;

    // Refusals.

    /// By what rounds of the placement are counted, and how many make one.
    fn round(&self) -> (u64, u64);

    /// Whether more room may come though stage-out rests. Under the control lock.
    fn may_make_room(&self) -> bool;

    /// Whether pages move about even while the batch is idle.
    fn moves(&self) -> bool {
        false
    }

    // Life and death.

    /// Takes up what an owner that has died had in its hands. Under the control lock.
    fn abandon(&self, dead: u64);

    /// Whether a process holds a lock of the placement.
    fn is_held_by(&self, _owner: u32) -> bool {
        false
    }

    /// Poisons the placement's locks.
    fn poison(&self) {}

    /// Whether they are poisoned.
    fn is_poisoned(&self) -> bool {
        false
    }

    /// Takes up where the page of a record lies that is about to be linked at `entry`. At recovery.
    fn replay(&self, _record: &Record, _entry: EntryNumber) {}

    /// All records have been replayed.
    ///
    /// # Errors
    /// An entry whose record names a frame that there is not, or that another page has.
    fn settle(&self) -> Result<(), EntryNumber> {
        Ok(())
    }

    /// Checks the placement's own rules. For tests, while nothing else uses the tier.
    ///
    /// # Panics
    /// If one does not hold.
    fn check(&self) {}

    // A directory on flash that is current at every moment, for those that have one.

    /// The host's bytes have changed. False if it is groups that carry them. Under the control lock.
    fn host_metadata_listed(&self) -> bool {
        false
    }

    /// Takes the next write of the directory, if there is one and it is time. Under the control lock.
    fn take_slots(&self, _owner: u32, _pressing: bool) -> bool {
        false
    }

    /// What the job that was handed out writes.
    fn slot_writes(&self) -> Vec<FlashWrite> {
        Vec::new()
    }

    /// The job's blocks are on the device. Under the control lock.
    fn slots_written(&self) {}

    /// Whether a flush is worth its cost for what was written. Under the control lock.
    fn slots_want_flush(&self, _pressing: bool) -> bool {
        false
    }

    /// A flush of flash begins. Under the control lock.
    fn slots_flush_begins(&self) {}

    /// It is done. Under the control lock.
    fn slots_flushed(&self) {}

    /// The number of the last change so far, which is wanted durable now. Under the control lock.
    fn want_slots(&self) -> u64 {
        0
    }

    /// Changes that are durable.
    fn slots_durable(&self) -> u64 {
        0
    }
}

/// What the queue of groups asks of a placement: its front moves for frames and pages, and groups are put
/// between frames that nothing is written to.
pub(crate) trait QueueRules {
    /// Frames that are to be clean ahead of the rear.
    fn frames_ahead(&self) -> u64;

    /// Takes groups at the front if stage-out is wanted; true if they must be read. Under the control lock.
    fn take_front(&self) -> bool;

    /// Up to where the front is to move for pages that come in. Under the control lock.
    fn front_wanted(&self) -> Position {
        Position::ZERO
    }

    /// The front may follow if everything that must be durable first is. Under the control lock.
    fn pass_barrier(&self);

    /// The groups before this one must be durable before the front may follow; 0 if nothing waits.
    fn barrier(&self) -> Sequence;

    /// The front is about to move on from `front` to `end`. Under the control lock.
    fn records_leave(&self, front: Position, end: Position);

    /// Up to where the sync of the disk that is under way covers the queue. Under the control lock.
    fn synced_end(&self) -> Position;

    /// Whether a sync of the disk has covered everything at this position.
    fn is_synced(&self, position: Position) -> bool;

    /// From here on frames are kept because recovery would have to scan the groups on them.
    fn scanned_from(&self) -> Position;

    /// Summaries that may still be written before a metadata segment must be durable.
    fn summaries_left(&self) -> u64 {
        u64::MAX
    }

    /// Whether a group takes what room there is where a whole one finds none.
    fn shortens_groups(&self) -> bool {
        true
    }

    /// Frames that are kept free for the names of lost pages, and for pages that disk refuses.
    fn names_room(&self) -> u64 {
        0
    }

    /// Frames between two positions behind the rear that are no room, because there are bad ones among them.
    fn bad_room(&self, _from: Position, _to: Position) -> u64 {
        0
    }

    /// Passes frames that nothing is put in. Whether the next place of the group is good; if not it is full.
    /// Under the control lock.
    fn pass_bad(&self, group: &StagingGroup) -> bool;

    /// Frames of a group that begins at `rear` and may have `group` of them, so that the next one does not
    /// begin with a frame that nothing is put in.
    fn short_of_bad(&self, _rear: Position, group: u64) -> u64 {
        group
    }

    /// The same, or no pages at all where that is the only way and there is room.
    fn clear_of_bad(&self, _rear: Position, group: u64) -> u64 {
        group
    }

    /// Has a group that is closed early end where the next one can begin, if it has room. Under the control
    /// lock.
    fn end_before_good(&self, _group: &StagingGroup) {}
}

/// Both, as the queue of groups is used by a placement.
pub(crate) trait QueuePlacement: Placement + QueueRules {}

impl<P: Placement + QueueRules> QueuePlacement for P {}
