//! Records applied to the directory at recovery, and passes over the whole directory.

use super::parts::Part;
use crate::core::Tier;
use crate::directory::{DIRTY, VALID};
use crate::format::{Record, RecordKind};
use crate::ids::{EntryNumber, IdRange, PageId, Position};
use crate::planted::{self, Bug};

impl Tier {
    /// Applies one record in the order of the queue: the last of a page counts. Returns the position
    /// of the next page.
    pub(crate) fn replay(&self, record: &Record, position: Position, front: Position) -> Position {
        match &record.kind {
            RecordKind::Page { id, .. } if position >= front => self.replay_appearance(id, position),
            RecordKind::Void => self.replay_void(position, front),
            _ => {}
        }
        self.replay_in_part(record, position, front, Part::WHOLE);
        if record.has_frame() { position.next() } else { position }
    }

    /// What a page's record leaves beside its entry: it comes in the order of all records.
    pub(super) fn replay_appearance(&self, id: &PageId, position: Position) {
        if !planted::is(Bug::AppearancesNotReplayed) {
            self.note_appearance(id, position);
        }
    }

    pub(super) fn replay_void(&self, position: Position, front: Position) {
        if position >= front && !planted::is(Bug::VoidsForgotten) {
            self.note_bad(self.entry_of(position).frame_in_queue());
        }
    }

    /// What a record says of the pages of one part, to which its page belongs if it is of a single one. Who
    /// replays it has noted the appearances before it.
    pub(super) fn replay_in_part(&self, record: &Record, position: Position, front: Position, part: Part) {
        let directory = self.directory();
        match &record.kind {
            RecordKind::Page { id, dirty, lost, checksum, lsn, .. } => {
                let shard = directory.lock(directory.hashed(id), self.owner);
                if let Some(older) = shard.find(id) {
                    if planted::is(Bug::OlderVersionWins) {
                        return;
                    }
                    shard.unlink(older);
                }
                if position >= front {
                    let dirty = *dirty || self.control().host_log.redoes(*lsn);
                    let flags = if dirty { DIRTY } else { 0 } | if *lost { self.found_lost() } else { 0 };
                    self.placement().replay(record, self.entry_of(position));
                    shard.link(self.entry_of(position), id, flags, *checksum);
                }
            }
            RecordKind::Tombstone(range) => {
                if !(planted::is(Bug::RangeTombstoneIgnored) && range.shift > 0) {
                    self.replay_tombstone(range, part);
                }
            }
            RecordKind::Void | RecordKind::Group { .. } => {}
        }
    }

    fn replay_tombstone(&self, range: &IdRange, part: Part) {
        let directory = self.directory();
        let drop = |id: &PageId| {
            let hashed = directory.hashed(id);
            if directory.part_of(hashed, part.of) != part.number {
                return;
            }
            let shard = directory.lock(hashed, self.owner);
            if let Some(entry) = shard.find(id) {
                shard.unlink(entry);
            }
        };
        if range.shift == 0 && range.count == 1 || planted::is(Bug::RangeTombstoneOfOne) {
            drop(&range.start);
            return;
        }
        if part.number > 0 && planted::is(Bug::RangeTombstoneOfOnePart) {
            return;
        }
        // What was appended behind the tombstone has not been replayed yet.
        self.any_appended_of(range, |id, _| {
            drop(&id);
            false
        });
    }

    /// Whether groups follow one another from `front` to `end`; else the position where none begins.
    pub(crate) fn groups_meet(&self, front: Position, end: Position) -> Result<(), Position> {
        let mut position = front;
        while position < end {
            let head = self.directory().head(self.entry_of(position)).ok_or(position)?;
            position += self.geometry.summary_frames() + u64::from(head.pages);
        }
        if position == end { Ok(()) } else { Err(position) }
    }

    pub(crate) fn mark_all_clean(&self) {
        let directory = self.directory();
        for entry in EntryNumber::all(self.geometry.entries()) {
            if directory.state(entry) & VALID != 0 {
                let id = directory.id(entry);
                directory.lock(directory.hashed(&id), self.owner).clear_flags(entry, DIRTY);
            }
        }
    }

    /// Pages in the tier, and how many of them are dirty. A pass over the directory.
    pub fn valid_and_dirty(&self) -> (u64, u64) {
        self.valid_and_dirty_of(EntryNumber::all(self.geometry.entries()))
    }

    /// [`Self::valid_and_dirty`] of some entries.
    pub(crate) fn valid_and_dirty_of(&self, entries: impl Iterator<Item = EntryNumber>) -> (u64, u64) {
        let directory = self.directory();
        entries.fold((0, 0), |(valid, dirty), entry| {
            let state = directory.state(entry);
            let is = |flags: u32| u64::from(state & flags == flags);
            (valid + is(VALID), dirty + is(VALID | DIRTY))
        })
    }
}
