//! A group of pages in staging memory, on its way to flash.
//!
//! ```text
//!          open            seal           compose        WriteGroup       FlushFlash, retire
//!   Free ----------> Open ------> Sealed ---------> Ready ----------> ... ---------------> Free
//!                                                     |                ^
//!                                                     +--> Writing --> Written
//!                                                             |
//!                                                             +------> Failed
//! ```

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use mezzanine_ground::region::{StateWord, Word, shared, states};

use crate::ids::{Position, Sequence, Version};
use crate::planted::{self, Bug};

states! {
    /// How far a group is.
    enum Stage {
        Free = 0,
        Open = 1,
        Sealed = 2,
        Ready = 3,
        Writing = 4,
        Written = 5,
        /// The write failed; the pages stay in memory until they have gone to disk (invariant 11).
        Failed = 6,
    }
}

/// Changes under the control lock, but for the count of pages that are filled. The group with sequence number
/// n lies in place n modulo the number of places.
#[repr(C, align(64))]
pub(crate) struct StagingGroup {
    stage: StateWord<Stage>,
    sequence: Word,
    position: Word,
    pages: Word,
    /// Pages that it may have.
    capacity: Word,
    records: Word,
    cut_short: Word,
    /// Whether it is for tombstones, and pages that come in have no part in it (see `refused`).
    of_invalidations: Word,
    /// Pages whose copy into the group is complete. In a line apart from what appending changes.
    filled: Word,
    /// Checksum of the summary, once composed, and of its predecessor's.
    checksum: Word,
    predecessor: Word,
    /// The front that the summary states.
    front: Word,
    owner: Word,
}

const _: () = assert!(offset_of!(StagingGroup, filled) == 64);

shared!(StagingGroup);

impl StagingGroup {
    pub(crate) fn sequence(&self) -> Sequence {
        Sequence::from_number(self.sequence.get())
    }

    /// Where its summary lies in the queue.
    pub(crate) fn position(&self) -> Position {
        Position::from_number(self.position.get())
    }

    /// Pages that were appended, and frames that nothing was put in.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.get()
    }

    pub(crate) fn records(&self) -> u64 {
        self.records.get()
    }

    pub(crate) fn checksum(&self) -> u64 {
        self.checksum.get()
    }

    pub(crate) fn predecessor(&self) -> u64 {
        self.predecessor.get()
    }

    pub(crate) fn front(&self) -> Position {
        Position::from_number(self.front.get())
    }

    /// Whether it was closed before it was full.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.cut_short.get() != 0
    }

    /// Whether there is room for summary and pages, or for the summary alone.
    pub(crate) fn takes_pages(&self) -> bool {
        self.capacity.get() > 0
    }

    pub(crate) fn is_free(&self) -> bool {
        self.stage.get() == Stage::Free
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stage.get() == Stage::Open
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.stage.get() == Stage::Ready
    }

    pub(crate) fn is_being_written(&self) -> bool {
        self.stage.get() == Stage::Writing
    }

    pub(crate) fn is_written(&self) -> bool {
        self.stage.get() == Stage::Written
    }

    /// Whether it is closed, and not yet out of memory.
    pub(crate) fn is_closed(&self) -> bool {
        !self.is_free() && !self.is_open()
    }

    /// Whether somebody copies a page to it, which may not be linked yet.
    pub(crate) fn is_being_filled(&self) -> bool {
        !self.is_free() && self.filled.get() != self.pages()
    }

    /// Whether its summary can be made final: nobody copies to it any more.
    pub(crate) fn is_complete(&self) -> bool {
        let filled = self.filled.get() == self.pages() || planted::is(Bug::GroupUnfilled);
        self.stage.get() == Stage::Sealed && filled
    }

    /// It begins anew, at this position.
    pub(crate) fn open(&self, sequence: Sequence, position: Position, capacity: u64) {
        self.sequence.set(sequence.number());
        self.position.set(position.number());
        // Before anything is stored to its memory: by this readers see that the memory is another group's
        // (`Tier::copy_staged`).
        fence(Ordering::Release);
        self.capacity.set(capacity);
        for word in
            [&self.pages, &self.records, &self.filled, &self.cut_short, &self.of_invalidations, &self.owner]
        {
            word.set(0);
        }
        self.stage.set(Stage::Open);
    }

    /// Whether it is full, with this many records at most.
    #[inline]
    pub(crate) fn is_full(&self, records_max: u32) -> bool {
        self.pages.get() >= self.capacity.get() || self.records.get() >= u64::from(records_max)
    }

    /// Gives out the place of a record.
    #[inline]
    pub(crate) fn take_record(&self) -> u64 {
        self.records.bump(1)
    }

    /// Gives out the place of a page.
    #[inline]
    pub(crate) fn take_page(&self) -> u64 {
        self.pages.bump(1)
    }

    /// A page that was given out has been copied completely.
    #[inline]
    pub(crate) fn page_is_filled(&self) {
        self.filled.add(1);
    }

    /// Keeps it for tombstones.
    pub(crate) fn keep_for_invalidations(&self) {
        self.of_invalidations.set(1);
    }

    #[inline]
    pub(crate) fn is_kept_for_invalidations(&self) -> bool {
        self.of_invalidations.get() != 0
    }

    /// The front that its summary states.
    pub(crate) fn states_front(&self, front: Position) {
        self.front.set(front.number());
    }

    /// Nothing is appended to it any more.
    pub(crate) fn seal(&self, cut_short: bool) {
        self.cut_short.set(cut_short.into());
        self.stage.set(Stage::Sealed);
    }

    /// Its summary has this checksum, and its predecessor's that.
    pub(crate) fn has_checksum(&self, checksum: u64, predecessor: u64) {
        self.predecessor.set(predecessor);
        self.checksum.set(checksum);
    }

    /// It can be written.
    pub(crate) fn becomes_ready(&self) {
        self.stage.set(Stage::Ready);
    }

    /// A job has it in hand.
    pub(crate) fn taken_to_be_written(&self) {
        self.stage.set(Stage::Writing);
    }

    pub(crate) fn owned_by(&self, owner: u32) {
        self.owner.set(owner.into());
    }

    /// It is on flash, not flushed.
    pub(crate) fn was_written(&self) {
        self.stage.set(Stage::Written);
    }

    pub(crate) fn write_failed(&self) {
        self.stage.set(Stage::Failed);
    }

    /// Its memory may be given to another group.
    pub(crate) fn leaves_memory(&self) {
        self.stage.set(Stage::Free);
    }

    /// Its write is handed out again if the owner of the job has died.
    pub(crate) fn abandon(&self, dead: u64) {
        if self.is_being_written() && self.owner.get() == dead {
            let counts = planted::is(Bug::DeadWriteCounts);
            self.stage.set(if counts { Stage::Written } else { Stage::Ready });
        }
    }
}

/// Where pages are appended: the open group, and the next version.
#[repr(C)]
pub(crate) struct Append {
    /// The open group's sequence number, or [`NONE`].
    open: Word,
    /// Number of the next version.
    next_version: Word,
}

/// No group is open.
const NONE: u64 = u64::MAX;

impl Append {
    /// The sequence number of the group that is open.
    #[inline(always)]
    pub(crate) fn open(&self) -> Option<Sequence> {
        Some(self.open.get()).filter(|&open| open != NONE).map(Sequence::from_number)
    }

    /// The group with this number is open now.
    pub(crate) fn opens(&self, sequence: Sequence) {
        self.open.set(sequence.number());
    }

    /// No group is open any more.
    pub(crate) fn closes(&self) {
        self.open.set(NONE);
    }

    #[inline(always)]
    pub(crate) fn next_version(&self) -> Version {
        Version::from_number(self.next_version.get())
    }

    /// Gives a version out.
    #[inline(always)]
    pub(crate) fn take_version(&self) -> Version {
        Version::from_number(self.next_version.bump(1))
    }

    /// Versions go on from this one.
    pub(crate) fn versions_from(&self, version: Version) {
        self.next_version.set(version.number());
    }
}

/// The groups that staging memory has held, by their numbers.
///
/// ```text
///   retired <= flushed <= composed <= next
/// ```
#[repr(C)]
pub(crate) struct Groups {
    /// The number of the next group.
    next: Word,
    /// The summaries of groups below it are final.
    composed: Word,
    /// Groups below it are durable. Read without the lock by those who wait for a sync.
    flushed: Word,
    /// Groups below it have left staging memory.
    retired: Word,
    /// Checksum of the summary of the group before `composed`.
    chain: Word,
    /// Some sync waits for all groups below it.
    wanted: Word,
}

impl Groups {
    pub(crate) fn next(&self) -> Sequence {
        Sequence::from_number(self.next.get())
    }

    pub(crate) fn composed(&self) -> Sequence {
        Sequence::from_number(self.composed.get())
    }

    pub(crate) fn flushed(&self) -> Sequence {
        Sequence::from_number(self.flushed.get())
    }

    pub(crate) fn retired(&self) -> Sequence {
        Sequence::from_number(self.retired.get())
    }

    pub(crate) fn chain(&self) -> u64 {
        self.chain.get()
    }

    pub(crate) fn wanted(&self) -> Sequence {
        Sequence::from_number(self.wanted.get())
    }

    /// All groups before this one are durable, and the last of them has this checksum.
    pub(crate) fn begin(&self, sequence: Sequence, chain: u64) {
        for number in [&self.next, &self.composed, &self.flushed, &self.retired] {
            number.set(sequence.number());
        }
        self.chain.set(chain);
    }

    /// The next group has been opened.
    pub(crate) fn one_opened(&self) {
        self.next.bump(1);
    }

    /// The next summary is final, and has this checksum.
    pub(crate) fn one_composed(&self, checksum: u64) {
        self.chain.set(checksum);
        self.composed.bump(1);
    }

    /// Groups before `target` are durable.
    pub(crate) fn are_durable(&self, target: Sequence) {
        self.flushed.set(self.flushed().max(target).number());
    }

    /// The next group has left staging memory.
    pub(crate) fn one_left(&self) {
        self.retired.bump(1);
    }

    /// A sync waits for the groups before this one.
    pub(crate) fn want(&self, end: Sequence) {
        self.wanted.set(self.wanted().max(end).number());
    }
}

/// Who opens a group, and so how much room must be left for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// Pages that come in: stage-out must always find room for its survivors and a front.
    Foreground,
    /// What the host wants to be durable with the next sync.
    HostMetadata,
    /// Second chances: a group without pages must still find room.
    StageOut,
    /// Pages that disk has refused: while no page is lost they may take what is kept for the names of those.
    Refused,
    /// A group that only carries the front.
    Carrier,
    /// The names of lost pages. Everything else at the front can leave it without room at the rear, so these
    /// take the last of it.
    Lost,
}

/// A version that is about to be replaced: its entry's state, and where it was appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    pub(crate) state: u32,
    pub(crate) position: Position,
}
