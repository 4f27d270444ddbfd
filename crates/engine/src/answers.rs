//! What a host says of a page, and is told.

use std::fmt;

use crate::checkpoint::request::Mark;
use crate::ids::Position;

/// How a page comes to the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// It changed since it was read; its log, if it has one, is already forced (invariant 1).
    Dirty,
    /// The same, and a change in it is older than the mark of the checkpoint under way, so that it must be on
    /// disk before the checkpoint completes (see [`Tier::begin_checkpoint`](crate::Tier::begin_checkpoint)).
    DirtyBeforeMark,
    /// The same, and all changes in it are newer than this mark. For hosts that find out how old the changes
    /// are while another checkpoint may begin: they read [`Tier::mark`](crate::Tier::mark) before they look.
    DirtySince(Mark),
    /// It equals its disk copy. The token is that of the lookup that missed it, or of
    /// [`Tier::token_unless_held`](crate::Tier::token_unless_held), where the host holds no lock from then to
    /// now; `None` where it does.
    Clean(Option<Token>),
}

/// Remembers when a page was missed, so that an outdated copy of it is not taken for a clean one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub(crate) u32);

impl Token {
    /// What a host in another language keeps of it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// A token that was kept as a number.
    pub fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// What became of a page offered to the tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageIn {
    /// The tier has taken it.
    Staged {
        /// The host writes it to disk as well, before it releases the page (`through`).
        also_disk: bool,
    },
    /// A clean page was dropped, which is always allowed.
    Dropped,
    /// A clean page was not taken because it had not been offered lately, and will be the next time. It has
    /// not changed since the lookup that its token is of.
    FirstTouch,
    /// No room for a dirty page now: carry out a job or wait for one, then call again.
    Full,
    /// Admission does not take it: the host writes it to disk and then invalidates it here, as
    /// [`Tier::invalidate`](crate::Tier::invalidate) says.
    Refused,
}

/// Where a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Not in the tier: read it from disk. The token goes with a later offer of what was read.
    Miss(Token),
    /// It was copied out of staging memory.
    Memory,
    /// It is on flash: read it, [`Tier::verify`](crate::Tier::verify) it and
    /// [`Tier::confirm`](crate::Tier::confirm) it.
    Flash(FlashPage),
}

/// A page on flash, as seen by a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashPage {
    /// Byte offset on the flash device.
    pub offset: u64,
    /// Where it was appended.
    pub position: Position,
    /// CRC-32C of the page.
    pub checksum: u32,
    /// Newer than the disk copy: if it cannot be read, disk is no substitute, unless
    /// [`Tier::on_disk`](crate::Tier::on_disk) says so.
    pub dirty: bool,
}

/// Where a page is, for who does not read it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In staging memory.
    Memory,
    /// On flash, where it may be read ahead: a [`Lookup`](Lookup::Flash) that says the same when it is needed
    /// finds what was read.
    Flash(FlashPage),
}

impl FlashPage {
    /// Whether both are the same version of their page in the same place, whatever disk has.
    pub fn is_same_version(&self, other: &Self) -> bool {
        (self.offset, self.position, self.checksum) == (other.offset, other.position, other.checksum)
    }
}

/// There is no room for a record now: carry out a job or wait for one, then call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "staging memory or the queue is full; carry out a job and try again")
    }
}

impl std::error::Error for NoRoom {}
