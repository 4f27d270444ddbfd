//! What the tier holds, for people who look at it and for checks of every page.
//!
//! A pass goes along the queue and takes no lock but where a shard is being changed. It ends where the rear
//! was when it began, so it ends under any load. A page that is appended again before the pass comes to it
//! lies behind that end and is left out; none is seen twice.

use crate::answers::FlashPage;
use crate::core::Tier;
use crate::directory::{ATTEMPTS, DIRTY, Entry, HOMED, REFERENCED, VALID, is_lost};
use crate::ids::{EntryNumber, PageId, Position};

/// A page that the tier holds: its newest version there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPage {
    /// The page.
    pub id: PageId,
    /// Where it lies on flash, unless staging memory still holds it.
    pub flash: FlashPage,
    /// Looked up since it entered, or since its last second chance.
    pub referenced: bool,
    /// No read brings it back: whoever looks it up is told so until it is written anew, or dropped.
    pub lost: bool,
    /// Not yet durable on flash; its copy in memory serves lookups.
    pub staged: bool,
}

/// How far a pass over the pages has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCursor {
    next: Position,
    end: Position,
}

impl PageCursor {
    /// The next position to be looked at, and the one where the pass ends; for hosts that are not written in
    /// Rust.
    pub fn positions(self) -> (u64, u64) {
        (self.next.number(), self.end.number())
    }

    /// The cursor of these positions.
    pub fn from_positions(next: u64, end: u64) -> Self {
        Self { next: Position::from_number(next), end: Position::from_number(end) }
    }
}

impl Tier {
    /// Begins a pass over everything that the tier holds now.
    pub fn first_page(&self) -> PageCursor {
        let control = self.control();
        // In this order: the front never passes a rear that was read before it.
        let end = control.ends.rear();
        PageCursor { next: control.ends.front().min(end), end }
    }

    /// Looks at up to `frames_max` frames from `cursor` on, moves it, and returns the pages found there,
    /// which may be none. `None` when the pass is complete.
    pub fn pages(&self, cursor: &mut PageCursor, frames_max: usize) -> Option<Vec<HeldPage>> {
        let from = cursor.next.max(self.control().ends.front());
        if from >= cursor.end {
            return None;
        }
        let until = cursor.end.min(from + frames_max.max(1) as u64);
        cursor.next = until;
        Some(Position::each(from..until).filter_map(|position| self.held_at(position)).collect())
    }

    /// Pages in staging memory, whether or not a newer version has superseded them there.
    pub fn staged_pages(&self) -> u64 {
        self.staging_groups().iter().filter(|group| !group.is_free()).map(|group| group.pages()).sum()
    }

    /// Whether the tier takes pages: not after [`Self::stop_admission`], nor after flash could not be
    /// written.
    pub fn admits(&self) -> bool {
        self.control().stopped.get() == 0
    }

    /// The page whose newest version was appended at `position`.
    fn held_at(&self, position: Position) -> Option<HeldPage> {
        let at = self.entry_of(position);
        let directory = self.directory();
        if directory.state(at) & VALID == 0 {
            return None;
        }
        // What the entry says may be half another page's by now: it counts if a lookup of that page leads
        // back here.
        let id = directory.id(at);
        let hashed = directory.hashed(&id);
        let look = |found: Option<(EntryNumber, &Entry)>| {
            let (_, entry) = found.filter(|&(linked, _)| linked == at && self.position_of(at) == position)?;
            Some((entry.state(), entry.checksum()))
        };
        let seen = (0..ATTEMPTS).find_map(|_| directory.look(hashed, &id, look)).unwrap_or_else(|| {
            let shard = directory.lock(hashed, self.owner);
            look(shard.find_entry(&id))
        });
        let (state, checksum) = seen?;
        let flash = FlashPage {
            offset: self.geometry.offset_of_frame(self.placement().frame_at(at)),
            position,
            checksum,
            dirty: state & DIRTY != 0,
        };
        let staged = position >= self.control().ends.staged_from() && state & HOMED == 0;
        Some(HeldPage { id, flash, referenced: state & REFERENCED != 0, lost: is_lost(state), staged })
    }
}
