//! The write-back batch: dirty pages on their way from flash to disk, one batch at a time (see `pages`).

use crate::config::{BATCH_GROUPS_MAX, GROUP_PAGES_MAX};
use crate::ids::Position;
use mezzanine_ground::region::{StateWord, Word, states};

states! {
    /// How far the batch is.
    pub(crate) enum Stage {
        /// There is none.
        Idle = 0,
        Reading = 1,
        ToWrite = 2,
        Writing = 3,
        /// A page of it can be neither read nor dropped: writing back has ended.
        Stuck = 4,
        /// Its pages are being looked for.
        Scanning = 5,
        ToRead = 6,
        /// Something of it is to be read by itself (see `reread`).
        ToReread = 7,
    }
}

states! {
    /// What the batch carries.
    pub(crate) enum Load {
        /// Groups at the front of the queue.
        Groups = 0,
        /// Pages of a drain.
        Drain = 1,
        /// Pages that leave a tier whose design writes in place, or are cleaned there.
        Leaving = 2,
    }
}

/// Changes under the control lock, but for what is being read again: that belongs to the job that has read.
#[repr(C)]
pub(crate) struct Batch {
    stage: StateWord<Stage>,
    load: StateWord<Load>,
    /// Where its groups begin and end, if it carries any.
    position: Word,
    end: Word,
    /// Pages in its list.
    pages: Word,
    owner: Word,
    /// Whether the read of all that it carries failed.
    failed: Word,
    /// Which page of it is read again, alone, as a code of `reread`.
    pub(crate) again: Word,
}

impl Batch {
    pub(crate) fn stage(&self) -> Stage {
        self.stage.get()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.stage() == Stage::Idle
    }

    pub(crate) fn load(&self) -> Load {
        self.load.get()
    }

    pub(crate) fn carries(&self, load: Load) -> bool {
        self.load() == load
    }

    pub(crate) fn position(&self) -> Position {
        Position::from_number(self.position.get())
    }

    pub(crate) fn end(&self) -> Position {
        Position::from_number(self.end.get())
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.get()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get() != 0
    }

    pub(crate) fn is_of(&self, owner: u64) -> bool {
        self.owner.get() == owner
    }

    /// It is to carry the groups of these positions; its pages are not known yet.
    pub(crate) fn take_groups(&self, position: Position, end: Position) {
        self.load.set(Load::Groups);
        self.pages.set(0);
        self.position.set(position.number());
        self.end.set(end.number());
    }

    /// It is to carry something else, which is about to be looked for.
    pub(crate) fn take(&self, load: Load) {
        self.load.set(load);
        self.pages.set(0);
        self.scan();
    }

    /// Its pages are being looked for.
    pub(crate) fn scan(&self) {
        self.stage.set(Stage::Scanning);
    }

    /// It carries groups up to this position: more than it was to, or fewer.
    pub(crate) fn ends_at(&self, end: Position) {
        self.end.set(end.number());
    }

    /// So many pages are in its list.
    pub(crate) fn lists(&self, pages: u64) {
        self.pages.set(pages);
    }

    /// Its pages were looked for, and listed.
    pub(crate) fn was_scanned(&self) {
        self.stage.set(if self.pages() == 0 { Stage::Idle } else { Stage::ToRead });
    }

    /// Who works on it.
    pub(crate) fn owned_by(&self, owner: u32) {
        self.owner.set(owner.into());
    }

    pub(crate) fn reads(&self) {
        self.stage.set(Stage::Reading);
    }

    /// The read of all that it carries has `failed` or not.
    pub(crate) fn was_read(&self, failed: bool) {
        self.failed.set(failed.into());
    }

    pub(crate) fn to_reread(&self) {
        self.stage.set(Stage::ToReread);
    }

    pub(crate) fn to_write(&self) {
        self.stage.set(Stage::ToWrite);
    }

    pub(crate) fn writes(&self) {
        self.stage.set(Stage::Writing);
    }

    pub(crate) fn sticks(&self) {
        self.stage.set(Stage::Stuck);
    }

    /// It is done, or given up.
    pub(crate) fn over(&self) {
        self.stage.set(Stage::Idle);
    }
}

/// What the front of the queue waits for. Changes under the control lock.
#[repr(C)]
pub(crate) struct FrontWait {
    /// What there was of room (see `room`) before a page that is lost found none at the rear; 0 if none
    /// waits.
    room: Word,
    /// Position plus one of a group that was left at the front, because a page of its could not be read and
    /// no frame was needed yet; 0 if none was.
    left: Word,
}

impl FrontWait {
    /// What there was of room when it began to wait for more; 0 if it does not.
    pub(crate) fn room(&self) -> u64 {
        self.room.get()
    }

    /// It waits until there is more than this room.
    pub(crate) fn wait_for_more_than(&self, room: u64) {
        self.room.set(room);
    }

    pub(crate) fn waits_no_more(&self) {
        self.room.set(0);
    }

    /// Whether the group at this position was left there.
    pub(crate) fn has_left(&self, position: Position) -> bool {
        self.left.get() == position.next().number()
    }

    pub(crate) fn leave(&self, position: Position) {
        self.left.set(position.next().number());
    }
}

/// A page in the batch: where it was appended, and its place in the batch's buffer, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchPage {
    pub(crate) position: Position,
    pub(crate) place: u64,
}

/// Bits of a word of the batch's list that hold the place.
pub(crate) const PLACE_BITS: u32 = 13;
// Summaries are a small part of their groups.
const _: () = assert!(BATCH_GROUPS_MAX * (GROUP_PAGES_MAX + GROUP_PAGES_MAX / 4) <= 1 << PLACE_BITS);
