//! The translation layer: where each mapping unit of the host lies, page mapping throughout.
//!
//! A unit of the host is in one of three places: nowhere, in a frame of the buffer, or in flash. The map has
//! a word for each; the frame of a unit in the buffer knows where the version before it is. Units that were
//! moved or written over leave their old place without a valid unit (N3), and collection brings blocks of few
//! valid units back.
//!
//! Invariants:
//! - *T1*: a unit of flash is valid if and only if the map, or a frame of the buffer that the map leads to,
//!   names it.
//! - *T2*: the version before one in the buffer stays valid until the newer one is in flash.
//! - *T3*: collection keeps pace: a plane never runs out of erased blocks for what it has accepted.
//! - *T4*: a block is erased no earlier than what it held was given up, on whichever plane the newer copy is:
//!   a power cut in between would find neither.
//!
//! The map's own pages and its journal are units behind those of the host, and are collected like them.

mod collect;

mod frames;

mod journal;

mod place;

use mezzanine_ground::region::prefetch;

use crate::config::{CollectionFrontier, FtlConfig, STREAMS_MAX};
use crate::counters::Counters;
use crate::nand::{Array, NandClock};
use crate::power::{PlantedFault, Recorder};

pub(crate) use frames::{Frame, Frames};
pub(crate) use journal::{JOURNAL_ENTRY_BYTES, Journal};
pub(crate) use place::Programmed;

/// The stream of units that collection has moved.
pub(crate) const MOVED: usize = STREAMS_MAX as usize;
/// The stream of the map and its journal.
pub(crate) const MAP: usize = STREAMS_MAX as usize + 1;

impl FtlConfig {
    /// The stream whose open blocks pages of this one go to.
    #[inline]
    pub(crate) fn frontier_of(&self, stream: usize) -> usize {
        match self.collection_frontier {
            CollectionFrontier::Separate => stream,
            CollectionFrontier::Shared => 0,
        }
    }
}

/// Marks a word of the map: what follows is the number of a frame of the buffer.
const IN_BUFFER: u32 = 1 << 31;

/// Where a unit of the host is: a word of the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// Nowhere: never written, or discarded.
    Nowhere,
    /// In this unit of flash.
    Flash(u32),
    /// In this frame of the buffer.
    Buffer(u32),
}

impl Location {
    #[inline]
    pub(crate) fn of(word: u32) -> Self {
        match word {
            0 => Self::Nowhere,
            word if word & IN_BUFFER != 0 => Self::Buffer(word & !IN_BUFFER),
            word => Self::Flash(word - 1),
        }
    }

    /// The frame of the buffer, if it is in one.
    #[inline]
    pub(crate) fn frame(self) -> Option<u32> {
        match self {
            Self::Buffer(frame) => Some(frame),
            Self::Nowhere | Self::Flash(_) => None,
        }
    }

    /// The unit of flash, if it is in one.
    pub(crate) fn unit(self) -> Option<u32> {
        match self {
            Self::Flash(unit) => Some(unit),
            Self::Nowhere | Self::Buffer(_) => None,
        }
    }

    #[inline]
    pub(crate) fn word(self) -> u32 {
        match self {
            Self::Nowhere => 0,
            Self::Flash(unit) => unit + 1,
            Self::Buffer(frame) => frame | IN_BUFFER,
        }
    }
}

/// What names a unit of flash.
#[derive(Debug, Clone, Copy)]
enum Name {
    /// The map's word.
    Map,
    /// A frame, as the version before its own.
    Before(u32),
    /// A frame, as where it goes.
    Target(u32),
    /// The journal, as the place of a page of before.
    Held(usize),
}

/// The translation layer over memory that somebody else keeps.
#[derive(Debug)]
pub(crate) struct Ftl<'s> {
    pub(crate) config: &'s FtlConfig,
    /// Blocks that each plane can lose to wear.
    pub(crate) spare_blocks: u32,
    pub(crate) array: Array<'s>,
    pub(crate) clock: NandClock<'s>,
    pub(crate) map: &'s mut [u32],
    pub(crate) frames: Frames<'s>,
    /// The latest time by which something was given up, since something newer is in flash: nothing is erased
    /// before it (T4).
    pub(crate) settled_at: &'s mut u64,
    pub(crate) journal: &'s mut Journal,
    pub(crate) counters: &'s mut Counters,
    /// Who keeps what flash holds, if anybody does.
    pub(crate) record: Option<&'s mut Recorder>,
}

impl Ftl<'_> {
    /// Whether a test has taken out T4.
    fn erases_too_early(&self) -> bool {
        self.record.as_ref().is_some_and(|record| record.is_planted(PlantedFault::ErasedTooEarly))
    }

    /// Where the newest version of a unit is.
    #[inline]
    pub(crate) fn location(&self, logical: u32) -> Location {
        Location::of(self.map[logical as usize])
    }

    /// What names this unit of flash as that of `logical`, if anything does (T1).
    fn name_of(&self, logical: u32, unit: u32) -> Option<Name> {
        let named = Location::Flash(unit).word();
        let mut at = self.map[logical as usize];
        if at == named {
            return Some(Name::Map);
        }
        while let Location::Buffer(frame) = Location::of(at) {
            let Frame { before, target, .. } = self.frames[frame as usize];
            if before == named {
                return Some(Name::Before(frame));
            }
            if target == named {
                return Some(Name::Target(frame));
            }
            at = before;
        }
        self.journal.held().position(|held| held == named).map(Name::Held)
    }

    /// Has what named a unit of `logical` name this word.
    fn rename(&mut self, logical: u32, name: Name, word: u32, done_at: u64) {
        match name {
            Name::Map => self.map[logical as usize] = word,
            Name::Before(frame) => self.frames[frame as usize].before = word,
            Name::Target(frame) => {
                let frame_words = &mut self.frames[frame as usize];
                (frame_words.target, frame_words.done_at) = (word, done_at);
            }
            Name::Held(place) => self.journal.hold(place, word),
        }
        let Some(record) = &mut self.record else { return };
        match name {
            Name::Map | Name::Before(_) => record.named(logical, word, done_at),
            Name::Target(frame) => record.delayed(frame, done_at),
            Name::Held(_) => {}
        }
    }

    /// Has the map name a unit of flash that was programmed before a start.
    pub(crate) fn adopt(&mut self, logical: u32, unit: u32) {
        self.map[logical as usize] = Location::Flash(unit).word();
        self.array.adopt(unit, logical + 1);
    }

    /// All units that count are adopted.
    pub(crate) fn adopted(&mut self) {
        self.array.adopted();
    }

    /// Whether somebody vouches for a unit of flash (T1).
    fn is_valid(&self, unit: u32) -> bool {
        let Some(logical) = self.array.spare(unit).checked_sub(1) else { return false };
        let named = Location::Flash(unit).word();
        let mut word = self.map[logical as usize];
        loop {
            match Location::of(word) {
                Location::Nowhere => return false,
                Location::Flash(at) => return at == unit,
                Location::Buffer(frame) => {
                    let frame = &self.frames[frame as usize];
                    if frame.target == named {
                        return true;
                    }
                    word = frame.before;
                }
            }
        }
    }

    fn is_named(&self, unit: u32) -> bool {
        self.is_valid(unit) || self.journal.held().any(|held| held == Location::Flash(unit).word())
    }

    /// Has what is needed to have the map name a new place of a unit, and to give up the one that this word
    /// names, come into the processor's cache. Nothing but time depends on it.
    #[inline]
    pub(crate) fn prefetch(&self, logical: u32, before: u32) {
        prefetch(&self.map[logical as usize]);
        if let Location::Flash(unit) = Location::of(before) {
            self.array.prefetch_unit(unit);
        }
    }

    /// As [`Self::prefetch`], the second step: what the first one had fetched says what else is needed.
    #[inline]
    pub(crate) fn prefetch_lists(&self, before: u32) {
        if let Location::Flash(unit) = Location::of(before) {
            self.array.prefetch_lists(unit);
        }
    }

    /// Nobody needs what this word of the map names in flash any more.
    #[inline]
    pub(crate) fn give_up(&mut self, word: u32) {
        if let Location::Flash(unit) = Location::of(word) {
            self.array.invalidate(unit);
        }
    }

    /// Everything that has to hold (N1 to N3, T1).
    pub(crate) fn check(&self) -> Result<(), String> {
        self.array.check(|unit| self.is_named(unit))?;
        for (logical, word) in self.map.iter().enumerate() {
            let Location::Flash(unit) = Location::of(*word) else { continue };
            if self.array.spare(unit) != logical as u32 + 1 {
                return Err(format!("T1: unit {logical} is in unit {unit} of flash, which is another's"));
            }
        }
        Ok(())
    }
}
