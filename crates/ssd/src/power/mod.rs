//! What is in flash and in the buffer at any instant, for power cuts.
//!
//! The controller computes ahead: when an operation is entered it already knows when planes will program and
//! erase for it. A [`Recorder`] keeps what flash and buffer hold as versions, with the time at which each
//! change begins and is done, so that the drive can be stopped at any instant since the operation before:
//! what had not begun then never happened, and what was under way is torn.
//!
//! - [`Recorder`] is told of every program, erase, filled frame and changed entry of the map.
//! - [`Remains`] is what there is after a cut: flash, and what the capacitors brought to the dump area.
//! - [`Ssd::restart`](crate::Ssd::restart) is the recovery manager ("Durable Write Cache in Flash Memory SSD
//!   for Relational and NoSQL Databases", section 3.4): the map's newest pages, the journal behind them, the
//!   entries and frames of the dump.

mod cut;

mod record;

mod restart;

use std::rc::Rc;

pub use cut::Remains;
pub use restart::{RestartError, Restarted};

/// Breaks a rule of dump or recovery, for tests that have to notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// The dump has the frames, and not the changed entries of the map.
    DumpWithoutEntries,
    /// Frames that are on their way to flash are taken for being there.
    DumpWithoutFramesUnderWay,
    /// The dump has the version that a frame was filled with first.
    DumpOfOlderVersion,
    /// Frames are restored from the newest to the oldest.
    RestoredInReverse,
    /// The dump area is cleared before its frames are in the buffer.
    ClearedTooEarly,
    /// The journal is not read; the map's pages count alone.
    JournalUnread,
    /// A changed entry is in the journal before its unit is in flash.
    JournalAhead,
}

/// A version of a unit of the host; 0 = none.
pub type Version = u64;

/// What a unit of flash holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Held {
    /// Nothing since the erase.
    Erased,
    /// A version of a unit of the host.
    Data { logical: u32, version: Version },
    /// A page of the map's journal, or of the map; in the first unit of its page.
    Map(Rc<MapPage>),
    /// Padding, and the other units of a page of the map.
    Nothing,
    /// Something whose program or erase was cut off.
    Torn,
}

/// A page of the map's journal or of the map.
#[derive(Debug, PartialEq)]
pub(crate) struct MapPage {
    /// Which of those behind the units of the host.
    pub(crate) number: u32,
    /// The last page of the journal whose entries it has.
    pub(crate) sequence: u64,
    /// Units and where they are, or, of the map, all words of the page from the first on.
    pub(crate) entries: Vec<(u32, u32)>,
}

/// A change of flash that may not be done yet.
#[derive(Debug)]
struct Change {
    begins: u64,
    ends: u64,
    first: u32,
    before: Vec<Held>,
}

/// A version in the buffer.
#[derive(Debug, Clone)]
struct Buffered {
    frame: u32,
    logical: u32,
    /// What the frame was filled with, and when; the newest last.
    versions: Vec<(u64, Version)>,
    /// When it is in flash; 0 = not begun.
    done_at: u64,
    /// When the host gave it up.
    dropped_at: u64,
    released: bool,
}

impl Buffered {
    /// Whether the host has given it up by `at`.
    fn is_given_up(&self, at: u64) -> bool {
        self.dropped_at != 0 && self.dropped_at <= at
    }

    /// Whether nobody needs its frame at `at`.
    fn is_free(&self, at: u64) -> bool {
        let in_flash = self.released && self.done_at != 0 && self.done_at <= at;
        in_flash || self.is_given_up(at)
    }
}

/// An entry of the map that has changed.
#[derive(Debug, Clone, Copy)]
struct Entry {
    logical: u32,
    word: u32,
    /// When its unit is in flash.
    ready_at: u64,
    /// When the page of the journal that has it is; 0 = in none.
    journalled_at: u64,
}

/// Keeps what flash and buffer hold.
#[derive(Debug)]
pub struct Recorder {
    units: Vec<Held>,
    changes: Vec<Change>,
    buffered: Vec<Buffered>,
    entries: Vec<Entry>,
    /// The map of flash as the journal has it.
    journalled: Vec<u32>,
    sequence: u64,
    entries_per_page: usize,
    words_per_page: usize,
    map_pages: u32,
    program_ns: u64,
    /// What the host writes now.
    version: Version,
    pub(crate) fault: Option<PlantedFault>,
}
