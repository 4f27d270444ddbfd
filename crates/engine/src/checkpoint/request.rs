//! The drain that was requested, and marks, which tell pages that became dirty before from others.

use std::ops::Range;

use mezzanine_ground::region::{StateWord, Word, states};

use crate::ids::{IdRange, PAGE_ID_BYTES, PageId, Position};
use crate::planted::{self, Bug};

states! {
    /// How far a drain is that was requested.
    pub(super) enum Stage {
        /// None was.
        Idle = 0,
        Sweep = 1,
        Last = 2,
        Written = 3,
        /// As written, with the sync under way.
        Syncing = 4,
        Marking = 5,
    }
}

/// The drain that was requested. Changes under the control lock.
#[repr(C)]
pub(crate) struct Drain {
    pub(super) stage: StateWord<Stage>,
    /// Of the last drain that was requested.
    pub(super) number: Word,
    /// Of the last one that is over. Read without the lock.
    pub(super) done: Word,
    /// The drain under way has met a page that is lost; number of the last one that did.
    pub(super) lost: Word,
    pub(super) last_lost: Word,
    /// The same of a page that disk has refused; a bit for each of the last drains, by its number.
    pub(super) refused: Word,
    pub(super) last_refused: Word,
    /// Its scope: dirty since before this mark, and in this range.
    pub(super) before: Word,
    pub(super) range: [Word; 5],
    /// Frames before it have been looked at.
    cursor: Word,
    /// Where the cursor was before the pages in the batch were listed.
    pub(super) scanned: Word,
    /// Where the sweep ends.
    end: Word,
    /// Between these two lies what the drain has written: none if the second is 0.
    wrote_from: Word,
    wrote_end: Word,
    /// What was staged out before this position has been marked clean.
    marked: Word,
    /// Who marks pages clean.
    pub(super) owner: Word,
}

impl Drain {
    pub(super) fn cursor(&self) -> Position {
        Position::from_number(self.cursor.get())
    }

    pub(super) fn set_cursor(&self, cursor: Position) {
        self.cursor.set(cursor.number());
    }

    pub(super) fn end(&self) -> Position {
        Position::from_number(self.end.get())
    }

    pub(super) fn set_end(&self, end: Position) {
        self.end.set(end.number());
    }

    pub(super) fn marked(&self) -> Position {
        Position::from_number(self.marked.get())
    }

    pub(super) fn set_marked(&self, end: Position) {
        self.marked.set(end.number().max(self.marked.get()));
    }

    /// The drain has written nothing yet. Under the control lock.
    pub(super) fn wrote_none(&self) {
        self.wrote_from.set(u64::MAX);
        self.wrote_end.set(0);
    }

    /// A page of the drain at this position is about to be marked as written. By the one who has the batch.
    pub(crate) fn writes(&self, position: Position) {
        self.wrote_from.set(self.wrote_from.get().min(position.number()));
        self.moves(position);
    }

    /// A page that the drain has written goes on to this position, or a newer version of it.
    pub(crate) fn moves(&self, position: Position) {
        self.wrote_end.raise(position.next().number());
    }

    pub(super) fn has_written(&self) -> bool {
        self.wrote_end.get() > 0
    }

    /// Positions between which the drain has written pages, from `front` on.
    pub(super) fn written(&self, front: Position) -> Range<Position> {
        let from = Position::from_number(self.wrote_from.get()).max(front);
        from..Position::from_number(self.wrote_end.get()).max(from)
    }

    /// Whether pages are being marked clean.
    pub(crate) fn is_marking(&self) -> bool {
        self.stage.get() == Stage::Marking
    }

    pub(super) fn is_sweeping(&self) -> bool {
        matches!(self.stage.get(), Stage::Sweep | Stage::Last)
    }

    /// The pages in the batch are looked for once more.
    pub(crate) fn step_back(&self) {
        self.cursor.set(self.scanned.get());
    }

    /// Whether disk has refused pages of a drain that is over. Of one that is long ago nobody knows any more,
    /// and it is to be asked for again.
    pub(super) fn was_refused(&self, number: u64) -> bool {
        let refused = self.last_refused.get();
        if planted::is(Bug::LaterDrainMeant) {
            return refused != 0;
        }
        refused & bit_of(number) != 0 || self.done.get() - number >= DRAINS_KNOWN
    }

    /// The drain is over.
    pub(super) fn over(&self) {
        let number = self.number.get();
        if self.lost.get() != 0 && !planted::is(Bug::LostCountsAsDrained) {
            self.last_lost.set(number);
        }
        let (bit, others) = (bit_of(number), self.last_refused.get());
        self.last_refused.set(if self.refused.get() != 0 { others | bit } else { others & !bit });
        self.done.set(number);
    }

    pub(super) fn set_range(&self, range: Option<&IdRange>) {
        let all = IdRange { start: PageId::from_bytes([0; PAGE_ID_BYTES]), count: 0, shift: 0 };
        let range = range.unwrap_or(&all);
        let id = range.start.as_bytes();
        for (word, bytes) in self.range.iter().zip(id.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.set(u64::from_le_bytes(eight));
        }
        self.range[3].set(range.count);
        self.range[4].set(range.shift.into());
    }

    /// The scope's range; `None` if it has none.
    pub(super) fn range(&self) -> Option<IdRange> {
        let words = &self.range;
        let mut id = [0; PAGE_ID_BYTES];
        for (word, bytes) in words.iter().zip(id.chunks_mut(8)) {
            bytes.copy_from_slice(&word.get().to_le_bytes()[..bytes.len()]);
        }
        let range =
            IdRange { start: PageId::from_bytes(id), count: words[3].get(), shift: words[4].get() as u8 };
        (range.count > 0).then_some(range)
    }
}

/// Of so many drains it is known whether disk has refused pages of theirs.
pub(super) const DRAINS_KNOWN: u64 = u64::BITS as u64;

/// The bit of a drain's number among those of the last [`DRAINS_KNOWN`].
pub(super) fn bit_of(number: u64) -> u64 {
    1 << (number % DRAINS_KNOWN)
}

/// The moment at which a database chose a redo pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub(super) u64);

impl Mark {
    /// Its number, for hosts that are not written in Rust.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The mark of this number.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// What a drain covers: by default every dirty page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainScope {
    /// Only pages that are dirty since before this mark.
    pub before: Option<Mark>,
    /// Only these pages: a fork, a relation or a database that is copied or moved.
    pub range: Option<IdRange>,
}

/// When the oldest change was made that a page carries.
#[derive(Clone, Copy)]
pub(crate) enum Oldest {
    /// After the last mark.
    SinceMark,
    /// Before it.
    BeforeMark,
    /// After this mark, which may be the last one or not.
    Since(Mark),
}
