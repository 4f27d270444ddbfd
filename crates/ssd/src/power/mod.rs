//! What is in flash and in the buffer at any instant, for power cuts.
//!
//! The controller computes ahead: when an operation is entered it already knows when planes will program and
//! erase for it. A [`Recorder`] keeps what flash and buffer hold as versions, with the time at which each
//! change begins and is done, so that the drive can be stopped at any instant since the operation before:
//! what had not begun then never happened, and what was under way is torn, and takes along what was
//! programmed into the same cells before.
//!
//! - [`Recorder`] is told of every program, erase, filled frame and changed entry of the map.
//! - [`Remains`] is what there is after a cut: flash, and what the capacitors brought to the dump area.
//! - [`Ssd::restart`](crate::Ssd::restart) is the recovery manager. With a durable cache it is that of
//!   "Durable Write Cache in Flash Memory SSD for Relational and NoSQL Databases", section 3.4: the map's
//!   newest pages, the journal behind them, the entries and frames of the dump. With another cache the map is
//!   brought up to date from what units say of themselves.
//! - [`Anomaly`] is what a drive without a durable cache does wrong then, if it is asked to.

mod anomaly;

mod cut;

mod planted;

mod read;

mod record;

mod restart;

mod roll_forward;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use anomaly::{Anomaly, PowerLossConfig};
pub use cut::Remains;
pub(crate) use cut::SECTOR_BYTES;
#[cfg(feature = "planted")]
pub use planted::PlantedFault;
#[cfg(not(feature = "planted"))]
pub(crate) use planted::PlantedFault;
pub use read::Contents;
pub use restart::{RestartError, Restarted};

/// A version of a unit of the host; 0 = none.
pub type Version = u64;

/// The place of a write or discard of a unit in the order in which they came.
type Stamp = u64;

/// What a unit of flash holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Held {
    /// Nothing since the erase.
    Erased,
    /// What a unit of the host has. The spare area says which unit, and which of its writes: it is the same
    /// for a copy that collection has moved.
    Data { logical: u32, stamp: Stamp, contents: Contents },
    /// As that, but its cells were being programmed for another page when power failed: it is known that it
    /// was there, and it cannot be read.
    Taken { logical: u32, stamp: Stamp },
    /// A page of the map's journal, or of the map; in the first unit of its page.
    Map(Arc<MapPage>),
    /// Padding, and the other units of a page of the map.
    Nothing,
    /// Something whose program or erase was cut off.
    Torn,
}

/// An entry of the map on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Entry {
    pub(crate) word: u32,
    /// Of the write that is there, or of the discard.
    pub(crate) stamp: Stamp,
}

/// A page of the map's journal or of the map.
#[derive(Debug, PartialEq)]
pub(crate) struct MapPage {
    /// Which of those behind the units of the host.
    pub(crate) number: u32,
    /// The last page of the journal whose entries it has.
    pub(crate) sequence: u64,
    /// Units and where they are, or, of the map, all words of the page from the first on.
    pub(crate) entries: Vec<(u32, Entry)>,
}

/// A change of flash that may not be done yet.
#[derive(Debug)]
struct Change {
    begins: u64,
    ends: u64,
    first: u32,
    is_erase: bool,
    before: Vec<Held>,
}

/// What a frame was filled with.
#[derive(Debug, Clone, Copy)]
struct Filling {
    at: u64,
    stamp: Stamp,
    version: Version,
}

/// A version in the buffer.
#[derive(Debug, Clone)]
struct Buffered {
    frame: u32,
    logical: u32,
    /// What the frame was filled with; the newest last.
    fillings: Vec<Filling>,
    /// When it is in flash; 0 = not begun.
    done_at: u64,
    /// When the host gave it up.
    dropped_at: u64,
    released: bool,
}

impl Buffered {
    fn new(frame: u32, logical: u32, filling: Filling) -> Self {
        Self { frame, logical, fillings: vec![filling], done_at: 0, dropped_at: 0, released: false }
    }

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
struct Changed {
    logical: u32,
    entry: Entry,
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
    changed: Vec<Changed>,
    /// The map of flash as the journal has it.
    journalled: Vec<Entry>,
    /// Whether there is no journal: the map is kept by itself then.
    keeps_map: bool,
    /// Units of the host for which a corrupt map names a unit of flash that is not theirs.
    misplaced: BTreeMap<u32, u32>,
    sequence: u64,
    /// The write or discard that came last.
    stamp: Stamp,
    entries_per_page: usize,
    words_per_page: usize,
    map_pages: u32,
    program_ns: u64,
    /// What the host writes now.
    version: Version,
    #[cfg(feature = "planted")]
    fault: Option<PlantedFault>,
}
