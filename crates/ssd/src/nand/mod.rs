//! The flash array: which pages are erased, programmed and still needed, and when a plane and a channel are
//! free again.
//!
//! Invariants:
//! - *N1*: a block is programmed page by page in order, and only after an erase.
//! - *N2*: an erase block is in one place: bad, erased (the list of its plane), open, closed (the list of its
//!   number of valid units) or taken for collection.
//! - *N3*: the number of valid units of a block is that of its units that somebody vouches for; a block with
//!   valid units is not erased.
//!
//! *Architecture invariant:* nothing here knows what a unit holds, nor which logical address it has: the word
//! in its spare area is its owner's.

mod dimensions;

mod lists;

mod pages;

mod ahead;

mod check;

mod owned;

mod timing;

use bytemuck::{Pod, Zeroable};

pub(crate) use dimensions::Dimensions;
pub use lists::Array;
pub(crate) use lists::Found;
pub use owned::OwnedArray;
pub(crate) use timing::{NandClock, NandTimes};

/// Open blocks of a plane: one for each stream of the host, one for units that collection has moved, one for
/// the map.
pub(crate) const OPEN_BLOCKS: usize = crate::config::STREAMS_MAX as usize + 2;

/// Where an erase block is (N2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum BlockState {
    /// Not usable: from the beginning, or worn out.
    Bad = 0,
    /// Erased.
    Erased = 1,
    /// Being programmed.
    Open = 2,
    /// Programmed to its end.
    Closed = 3,
    /// Taken for collection.
    Taken = 4,
}

impl BlockState {
    fn of(word: u32) -> Self {
        match word {
            1 => Self::Erased,
            2 => Self::Open,
            3 => Self::Closed,
            4 => Self::Taken,
            _ => Self::Bad,
        }
    }
}

/// An erase block, as words that processes may share.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Block {
    state: u32,
    /// Units that somebody vouches for.
    valid: u32,
    /// Units programmed since the last erase.
    written: u32,
    erases: u32,
    /// In the list that it is in; number + 1, 0 = none.
    previous: u32,
    next: u32,
    /// When it was closed, in blocks closed.
    stamp: u64,
}

impl Block {
    pub(crate) fn erases(&self) -> u32 {
        self.erases
    }
}

/// A plane: what can work beside others.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Plane {
    /// When its last operation ends, in ns.
    pub(crate) free_at: u64,
    /// Pages programmed so far.
    pub(crate) programs: u64,
    /// What it owes to collection: units times the gain of the block that is collected.
    pub(crate) debt: u64,
    /// The open blocks; number + 1, 0 = none.
    pub(crate) open: [u32; OPEN_BLOCKS],
    /// The block that is collected; number + 1, 0 = none.
    pub(crate) victim: u32,
    /// The next of its units to look at.
    pub(crate) cursor: u32,
    /// Units that collecting it frees.
    pub(crate) gain: u32,
    erased_head: u32,
    erased_tail: u32,
    erased: u32,
    /// No closed block has fewer valid units.
    fewest: u32,
    /// Blocks that were taken out of use since they are worn out.
    worn_out: u32,
}
