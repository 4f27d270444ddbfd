//! The two metadata segments under construction (see `metadata`): which of them is filled, and how far what
//! was written is durable.

use crate::ids::{Position, Sequence, Version};
use mezzanine_ground::region::{StateWord, Word, states};

states! {
    /// What a buffer holds.
    enum Content {
        Empty = 0,
        Filling = 1,
        Full = 2,
        BeingWritten = 3,
    }
}

states! {
    /// Whether a flush covers the segment that was written last.
    enum Cover {
        /// No segment awaits a flush.
        Covered = 0,
        /// It was written after the last flush began.
        Unflushed = 1,
        /// The flush under way covers it.
        BeingFlushed = 2,
    }
}

/// Changes under the control lock.
#[repr(C)]
pub(crate) struct Segments {
    /// Number of the next segment to be begun.
    number: Word,
    /// Which of the buffers is filled.
    current: Word,
    cover: StateWord<Cover>,
    /// Where the newest segment on flash ends, and the newest durable one: recovery scans the groups from
    /// there on, so their frames must not be given to others.
    written_end: Word,
    durable_end: Word,
    /// The same as numbers of groups.
    written_sequence: Word,
    durable_sequence: Word,
    pub(crate) buffers: [SegmentBuffer; 2],
}

/// One of the two segments under construction.
#[repr(C)]
pub(crate) struct SegmentBuffer {
    content: StateWord<Content>,
    pub(crate) number: Word,
    pub(crate) records: Word,
    pub(super) first_sequence: Word,
    pub(super) first_position: Word,
    pub(crate) first_predecessor: Word,
    pub(super) end_sequence: Word,
    pub(super) end_position: Word,
    pub(crate) last_checksum: Word,
    pub(super) version_max: Word,
    pub(crate) epoch: Word,
    owner: Word,
}

impl Segments {
    /// The number that the next segment gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.number.get()
    }

    /// Gives out the next number.
    pub(crate) fn take_number(&self) -> u64 {
        self.number.add(1)
    }

    /// Which buffer is filled.
    pub(crate) fn current(&self) -> usize {
        self.current.get() as usize
    }

    /// The current buffer is full: the other one is next.
    pub(crate) fn turn(&self) {
        self.current.set(1 - self.current.get());
    }

    pub(crate) fn durable_end(&self) -> Position {
        Position::from_number(self.durable_end.get())
    }

    pub(crate) fn durable_sequence(&self) -> Sequence {
        Sequence::from_number(self.durable_sequence.get())
    }

    /// Whether no segment that was written awaits a flush.
    pub(crate) fn are_covered(&self) -> bool {
        self.cover.get() == Cover::Covered
    }

    /// Whether one awaits a flush that has not begun.
    pub(crate) fn want_flush(&self) -> bool {
        self.cover.get() == Cover::Unflushed
    }

    pub(crate) fn flush_begins(&self) {
        if self.want_flush() {
            self.cover.set(Cover::BeingFlushed);
        }
    }

    /// The owner of the flush under way has died.
    pub(crate) fn flush_is_abandoned(&self) {
        if self.cover.get() == Cover::BeingFlushed {
            self.cover.set(Cover::Unflushed);
        }
    }

    /// A flush has ended: what it covered is durable; with `later`, as if it covered whatever is written.
    pub(crate) fn flushed(&self, later: bool) {
        if self.cover.get() == Cover::BeingFlushed || later && self.want_flush() {
            self.cover.set(Cover::Covered);
            self.durable_end.set(self.written_end.get());
            self.durable_sequence.set(self.written_sequence.get());
        }
    }

    /// The newest segment on flash ends here.
    pub(crate) fn was_written(&self, end: Position, sequence: Sequence) {
        self.written_end.set(end.number());
        self.written_sequence.set(sequence.number());
        self.cover.set(Cover::Unflushed);
    }

    /// Recovery: the newest segment ends here, and the host makes it durable before it uses the tier.
    pub(crate) fn found(&self, end: Position, sequence: Sequence) {
        self.durable_end.set(end.number());
        self.durable_sequence.set(sequence.number());
    }

    /// Recovery: the number that the next segment gets.
    pub(crate) fn go_on_with(&self, number: u64) {
        self.number.set(number);
    }

    /// Whether a segment waits to be written.
    pub(crate) fn any_full(&self) -> bool {
        self.buffers.iter().any(SegmentBuffer::is_full)
    }

    pub(crate) fn any_being_written(&self) -> bool {
        self.buffers.iter().any(SegmentBuffer::is_being_written)
    }

    /// The owner of what is being written has died: it is written again.
    pub(crate) fn abandon(&self, dead: u64) {
        for buffer in &self.buffers {
            if buffer.is_being_written() && buffer.owner.get() == dead {
                buffer.fills();
            }
        }
    }
}

impl SegmentBuffer {
    /// The largest version in it.
    pub(crate) fn version_max(&self) -> Version {
        Version::from_number(self.version_max.get())
    }

    /// The number of its first group.
    pub(crate) fn first_sequence(&self) -> Sequence {
        Sequence::from_number(self.first_sequence.get())
    }

    /// The number after that of its last group.
    pub(crate) fn end_sequence(&self) -> Sequence {
        Sequence::from_number(self.end_sequence.get())
    }

    /// Where its first group begins.
    pub(crate) fn first_position(&self) -> Position {
        Position::from_number(self.first_position.get())
    }

    /// Where its last group ends.
    pub(crate) fn end_position(&self) -> Position {
        Position::from_number(self.end_position.get())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.content.get() == Content::Empty
    }

    /// Whether groups may be added.
    pub(crate) fn takes_groups(&self) -> bool {
        matches!(self.content.get(), Content::Empty | Content::Filling)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.content.get() == Content::Full
    }

    pub(crate) fn is_being_written(&self) -> bool {
        self.content.get() == Content::BeingWritten
    }

    pub(crate) fn begins(&self) {
        self.content.set(Content::Filling);
    }

    /// It is full, and waits to be written, perhaps again.
    pub(crate) fn fills(&self) {
        self.content.set(Content::Full);
    }

    pub(crate) fn taken_to_be_written(&self) {
        self.content.set(Content::BeingWritten);
    }

    pub(crate) fn owned_by(&self, owner: u32) {
        self.owner.set(owner.into());
    }

    pub(crate) fn empties(&self) {
        self.content.set(Content::Empty);
    }
}
