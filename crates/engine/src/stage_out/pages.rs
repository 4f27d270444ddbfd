//! The pages of the write-back batch, and what they go through from flash to disk.
//!
//! ```text
//!          (a drain)                    ReadFront                     WriteDisk
//!   IDLE ---> SCANNING ---> TO_READ --+---------> READING --> TO_WRITE ----------> WRITING --+
//!     ^  |       | (nothing)          |             | (nothing to write)                     |
//!     |  +-------|----(a group)-------+             |                                        |
//!     +----------+----------------------------------+----------------------------------------+
//! ```
//!
//! What could not be read is read again before anything is listed: READING <--> TO_REREAD, see `unreadable`.
//!
//! The batch carries either groups at the front of the queue (see `stage_out`) or pages that a drain
//! wants on disk (see `checkpoint`), or where pages are written in place those that leave (see `in_place`).
//! There is one batch, so no two writes of one page to disk are ever under way, and disk never gets an older
//! version after a newer one. It is wide instead: what it carries is handed to the disk together, so that all
//! arms of an array have something to do.

use mezzanine_ground::region::Word;

use crate::core::Tier;
use crate::directory::{DRAINED, GroupHead, VALID, WRITTEN, needs_disk};
use crate::failure::latch::Failure;
use crate::ids::{EntryNumber, IdRange, PageId, Position};
use crate::planted::{self, Bug};
use crate::stage_out::batch::BatchPage;
use crate::stage_out::batch::PLACE_BITS;
use crate::stage_out::batch::{Load, Stage};

impl Tier {
    /// Where a page of the batch lies in the region.
    pub(crate) fn batch_memory(&self, place: u64) -> usize {
        self.geometry.layout.batch_buffer + place as usize * self.geometry.page_size()
    }

    fn batch_words(&self) -> &[Word] {
        self.region.slice(self.geometry.layout.batch_pages, self.geometry.batch_pages() as usize)
    }

    /// The groups from the front that the batch carries: position and head of each.
    pub(crate) fn batch_groups(&self) -> impl Iterator<Item = (Position, GroupHead)> {
        let end = self.control().batch.end();
        let mut next = self.control().batch.position();
        std::iter::from_fn(move || {
            let position = next;
            (position < end).then(|| {
                let head = self.group_at(position);
                next = self.page_position(position, head.pages.into());
                (position, head)
            })
        })
    }

    /// The positions of the pages of a group.
    pub(crate) fn pages_of(&self, position: Position, head: &GroupHead) -> std::ops::Range<Position> {
        self.page_position(position, 0)..self.page_position(position, head.pages.into())
    }

    /// The head of the group that begins at a position.
    ///
    /// # Panics
    /// If none does.
    pub(crate) fn group_at(&self, position: Position) -> GroupHead {
        let head = self.directory().head(self.entry_of(position));
        head.unwrap_or_else(|| panic!("the queue holds no group at position {position}"))
    }

    /// The batch's pages.
    pub(crate) fn batch_list(&self) -> impl Iterator<Item = BatchPage> {
        self.batch_words()[..self.control().batch.pages() as usize].iter().map(|word| BatchPage {
            position: Position::from_number(word.get() >> PLACE_BITS),
            place: word.get() & ((1 << PLACE_BITS) - 1),
        })
    }

    /// Replaces the batch's list.
    pub(crate) fn set_batch_list(&self, pages: &[BatchPage]) {
        for (word, page) in self.batch_words().iter().zip(pages) {
            let narrow = planted::is(Bug::PositionsNarrow);
            let position = page.position.number();
            let position = if narrow { position & u64::from(u32::MAX) } else { position };
            word.set(position << PLACE_BITS | page.place);
            planted::outside("batch: one page listed");
        }
        self.control().batch.lists(pages.len() as u64);
    }

    /// Replaces the batch's list in the order of page ids, so that the disk is written in the order of
    /// addresses.
    pub(crate) fn set_batch_list_by_id(&self, mut pages: Vec<BatchPage>) {
        let directory = self.directory();
        pages.sort_by_key(|page| directory.id(self.entry_of(page.position)));
        self.set_batch_list(&pages);
    }

    /// Reads of neighbouring pages into neighbouring places, joined: (flash offset, region offset, bytes).
    pub(crate) fn joined_reads(&self, pages: impl Iterator<Item = BatchPage>) -> Vec<(u64, usize, usize)> {
        let bytes = self.geometry.page_size();
        let mut reads: Vec<(u64, usize, usize)> = Vec::new();
        for page in pages {
            let (offset, memory) = (self.offset_of(page.position), self.batch_memory(page.place));
            match reads.last_mut() {
                Some((at, to, len)) if *at + *len as u64 == offset && *to + *len == memory => *len += bytes,
                _ => reads.push((offset, memory, bytes)),
            }
        }
        reads
    }

    /// What ReadFront reads.
    pub(crate) fn batch_reads(&self) -> Vec<(u64, usize, usize)> {
        if let Some(alone) = self.read_alone() {
            return vec![alone];
        }
        match self.control().batch.load() {
            Load::Groups => self.group_reads(),
            _ => self.joined_reads(self.batch_list()),
        }
    }

    /// The pages that WriteDisk writes.
    pub(crate) fn batch_writes(&self) -> impl Iterator<Item = (PageId, &[u8])> {
        self.batch_list().map(move |page| {
            let bytes = self.batch_bytes(page.place, self.geometry.page_size());
            (self.directory().id(self.entry_of(page.position)), bytes)
        })
    }

    /// Those of [`Self::batch_writes`] that are the newest of their pages now. What is left out here is what
    /// [`Self::mark_batch_written`] does not mark, so it is as if it had been superseded before the list was
    /// made.
    pub(crate) fn batch_writes_newest(&self) -> impl Iterator<Item = (PageId, &[u8])> {
        self.batch_list()
            .zip(self.batch_writes())
            .filter(|(page, (id, _))| {
                let newest = self.directory().state(self.entry_of(page.position)) & VALID != 0;
                let cut = planted::is(Bug::CutJudgedByRange) && self.was_invalidated(id);
                (newest || planted::is(Bug::CutPagesWritten)) && !cut
            })
            .map(|(_, write)| write)
    }

    /// Whether the page in the batch is what was appended at its position.
    pub(crate) fn batch_page_whole(&self, page: BatchPage) -> bool {
        let bytes = self.batch_bytes(page.place, self.geometry.page_size());
        let right = crc32c::crc32c(bytes) == self.directory().checksum(self.entry_of(page.position));
        right || planted::is(Bug::DamageStagedOut)
    }

    /// Whether the version at a position is still the newest and still to be written.
    pub(crate) fn position_needs_disk(&self, position: Position) -> bool {
        needs_disk(self.directory().state(self.entry_of(position)))
    }

    /// The batch's pages are on disk, unsynced, but for those that were refused: what is still the newest is
    /// not written again. Of groups that stay at the front nothing is marked, for no sync will count for
    /// them.
    pub(crate) fn mark_batch_written(&self, flags: u32, refused: &[BatchPage]) {
        let directory = self.directory();
        let stays = |page: &BatchPage| {
            self.control().batch.carries(Load::Groups) && page.position >= self.control().batch.end()
        };
        for page in self.batch_list().filter(|page| !refused.contains(page) && !stays(page)) {
            let entry = self.entry_of(page.position);
            let id = directory.id(entry);
            let shard = directory.lock(directory.hashed(&id), self.owner);
            // The frame is not given to another page while the batch holds it.
            let newest = shard.find(&id);
            if directory.state(entry) & VALID != 0 && newest == Some(entry) {
                if flags & DRAINED != 0 {
                    self.control().drain.writes(page.position);
                }
                shard.set_flags(entry, WRITTEN | flags);
                planted::inside("disk written: one page marked");
            } else if let Some(newer) = newest.filter(|_| planted::is(Bug::WrittenForNewerVersion)) {
                shard.set_flags(newer, WRITTEN | flags);
            }
        }
    }

    /// Whether stage-out may still write pages of `range` to disk.
    ///
    /// A host that has invalidated the range waits until this is false before it removes the pages from
    /// disk: a write under way would bring them back.
    pub fn stage_out_touches(&self, range: &IdRange) -> bool {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        if planted::is(Bug::StageOutUnseen) {
            return false;
        }
        let within = |position| range.contains(&self.directory().id(self.entry_of(position)));
        match (control.batch.stage(), control.batch.load()) {
            (Stage::Idle, _) => false,
            // What is being looked for is not known yet, or the list is being replaced.
            (Stage::Scanning, _) | (Stage::Reading | Stage::ToReread, Load::Drain | Load::Leaving) => true,
            (Stage::Reading | Stage::ToReread, Load::Groups) => self
                .batch_groups()
                .any(|(position, head)| Position::each(self.pages_of(position, &head)).any(within)),
            _ => self.batch_list().any(|page| within(page.position)),
        }
    }

    /// A dirty page can be neither read nor dropped: stage-out ends here.
    pub(crate) fn batch_stuck(&self, position: Position) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        control.batch.sticks();
        self.latch(Failure::FlashRead { position });
    }

    /// Takes the batch back from an owner that has died. Under the control lock.
    pub(crate) fn abandon_batch(&self, dead: u64) {
        let control = self.control();
        if !control.batch.is_of(dead) {
            return;
        }
        match control.batch.stage() {
            // The drain's cursor has passed the pages of the list, which may be half replaced.
            Stage::Reading if control.batch.carries(Load::Drain) => {
                control.drain.step_back();
                control.batch.over();
            }
            // Who leaves is listed anew.
            Stage::Reading | Stage::Scanning => control.batch.over(),
            Stage::Writing if planted::is(Bug::DeadStageOutCounts) => self.batch_done(),
            Stage::Writing => control.batch.to_write(),
            _ => {}
        }
    }

    /// The entry of what was appended at a position.
    #[inline]
    pub(crate) fn entry_of(&self, position: Position) -> EntryNumber {
        self.ring().entry_of(position)
    }

    /// Byte offset on flash of the frame at `position`.
    pub(crate) fn offset_of(&self, position: Position) -> u64 {
        let frame = self.placement().frame_at(self.entry_of(position));
        self.geometry.offset_of_frame(frame)
    }
}
