//! How far the numbers of a tier go, and what happens at their ends.
//!
//! Positions, sequence numbers, versions and the like only rise, over the tier's whole life. Each has room in
//! structures of fixed size, and what does not fit there would name something else: so no number may ever be
//! given out that one of them cannot hold. The README's table *Numbers that only rise* says who advances each
//! and how long it lasts. The rules:
//!
//! 1. Every number has one end, here. What holds it has room for all numbers below: asserted when this is
//!    compiled.
//! 2. Before the end comes a *reserve*. In it the tier takes no more pages ([`Tier::used_up`] says why); they
//!    go to disk, as after [`Tier::stop_admission`]. What is needed to leave in order goes on: tombstones,
//!    second chances, drains, closing.
//! 3. A tier that has next to nothing left of a number is not opened: recovery says which. At the end itself,
//!    which a tier that was opened with more does not live to see, the engine stops with an assertion that
//!    names the number. Nothing wraps.
//! 4. Bytes from a device that state a number at or beyond its end are damaged: this build would not have
//!    written them.

mod used_up;

use std::fmt;

use crate::planted::{self, Bug};
use crate::stage_out::batch::PLACE_BITS;

/// Bits of a position: with its place in the batch it makes one word (`batch`).
pub(crate) const POSITION_BITS: u32 = 50;
/// Bits of a version: in a page's record the rest of the word holds half of a home (`format::record`).
pub(crate) const VERSION_BITS: u32 = 48;
/// Bits of a group's sequence number, which is doubled ([`Tier::work`]).
const SEQUENCE_BITS: u32 = 50;
/// Bits of a segment's number.
const SEGMENT_BITS: u32 = 50;
/// Bits of the number of a superblock, or of a head of the slot directory.
const GENERATION_BITS: u32 = 55;
/// Bits of an epoch.
const EPOCH_BITS: u32 = 31;

const _: () = assert!(
    POSITION_BITS + PLACE_BITS <= u64::BITS,
    "a word of the batch has room for a position and its place"
);
const _: () =
    assert!(VERSION_BITS + 16 == u64::BITS, "a page's record has room for its version and half of its home");
const _: () =
    assert!(SEQUENCE_BITS < u64::BITS && SEGMENT_BITS < u64::BITS, "sums and doubles do not overflow");
const _: () = assert!(EPOCH_BITS < u32::BITS, "an epoch's successor does not overflow");
const _: () = assert!(
    crate::config::FRAMES_MAX < u32::MAX as u64,
    "frames count from 1 in links, and fit half a word of the ring"
);

/// A number that only rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Position,
    Sequence,
    Version,
    Segment,
    Generation,
    Epoch,
}

impl Bound {
    /// The first number that does not exist.
    pub(crate) const fn end(self) -> u64 {
        1 << match self {
            Self::Position => POSITION_BITS,
            Self::Sequence => SEQUENCE_BITS,
            Self::Version => VERSION_BITS,
            Self::Segment => SEGMENT_BITS,
            Self::Generation => GENERATION_BITS,
            Self::Epoch => EPOCH_BITS,
        }
    }

    /// From here on no pages are taken. Of a million numbers a second the reserve lasts for hours; of
    /// openings for 65,536 more.
    const fn reserve(self) -> u64 {
        match self {
            Self::Epoch => self.end() - (1 << 16),
            _ => self.end() - (1 << 33),
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::Position => "positions",
            Self::Sequence => "numbers of groups",
            Self::Version => "versions",
            Self::Segment => "numbers of metadata segments",
            Self::Generation => "numbers of superblocks",
            Self::Epoch => "epochs",
        }
    }

    /// Whether all of these numbers exist.
    pub(crate) fn holds(self, numbers: &[u64]) -> bool {
        numbers.iter().all(|&number| number < self.end())
    }
}

/// A tier has come near the end of a number that only rises, and takes no more pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    pub(crate) bound: Bound,
    pub(crate) next: u64,
}

impl fmt::Display for UsedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, end) = (self.bound.plural(), self.bound.end());
        write!(f, "the tier has used up its {what} ({} of {end}): drain it and format it anew", self.next)
    }
}

impl std::error::Error for UsedUp {}

/// Numbers of pages, groups and segments that are left to an opening at least. Flash with fewer left was not
/// written by a tier that took no pages in the reserve; and no opening that is drained uses up as many.
pub(crate) const NUMBERS_LEFT: u64 = 1 << 20;

/// Superblocks that are left to an opening at least, to leave the tier in order.
const SUPERBLOCKS_LEFT: u64 = 1 << 10;

/// Whether a tier whose superblock has these numbers can be opened once more: recovery takes the next epoch,
/// and emptying the tier the one after it.
pub(crate) fn can_be_opened(epoch: u32, generation: u64) -> Result<(), UsedUp> {
    let left = if planted::is(Bug::LastNumbersOpened) { [1, 0] } else { [2, SUPERBLOCKS_LEFT] };
    let numbers = [(Bound::Epoch, u64::from(epoch)), (Bound::Generation, generation)];
    match numbers.into_iter().zip(left).find(|((bound, number), left)| !bound.holds(&[number + left])) {
        Some(((bound, number), _)) => Err(UsedUp { bound, next: number + 1 }),
        None => Ok(()),
    }
}
