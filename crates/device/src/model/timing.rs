//! The seam between a drive and what computes its times.

use std::fmt::Debug;

use super::array::ArrayTicket;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes completed writes durable.
    Flush,
    /// Gives bytes up. Drives that know nothing of it take no time for it.
    Discard,
    /// Empties a zone, of which `address` is the first byte. For drives that have zones.
    Reset,
    /// Ends a zone that is written in part, of which `address` is the first byte. For drives that have zones.
    Finish,
}

/// An operation on a modelled drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation {
    /// What it does.
    pub kind: OperationKind,
    /// First byte on the drive.
    pub address: u64,
    /// Number of bytes.
    pub len: u64,
    /// Where the arm of a disk has to go, as a fraction of the full stroke.
    pub position: f64,
    /// Whether a write is complete only when it is durable (FUA). Drives that know nothing of it complete it
    /// like any other.
    pub through: bool,
    /// Which of the streams of a host a write belongs to. Drives that know none keep all together.
    pub stream: u8,
}

impl Operation {
    /// A flush.
    pub const FLUSH: Self =
        Self { kind: OperationKind::Flush, address: 0, len: 0, position: 0.0, through: false, stream: 0 };
}

/// The drive has no room for another operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// When to try again, at the earliest.
    pub not_before: u64,
}

/// A submitted operation.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// Whether it begins where a recent operation of its kind ended.
    pub sequential: bool,
    /// To ask for its completion with.
    pub ticket: Ticket,
}

/// Stands for an operation under way. To be passed to [`Timing::progress`] until that answers
/// [`Progress::At`].
#[derive(Debug, Clone)]
pub struct Ticket(pub(super) Way);

#[derive(Debug, Clone)]
pub(super) enum Way {
    Known(u64),
    Array(ArrayTicket),
    /// What the mechanism of another crate knows it by.
    Marked([u64; 2]),
}

impl Ticket {
    /// The ticket of an operation whose completion is known: to keep in place of one that has answered
    /// [`Progress::At`] with a time to come.
    pub fn known(at: u64) -> Self {
        Self(Way::Known(at))
    }

    /// The ticket of an operation that a mechanism of another crate knows by these words.
    pub fn marked(words: [u64; 2]) -> Self {
        Self(Way::Marked(words))
    }

    /// The words of [`Self::marked`].
    pub fn mark(&self) -> Option<[u64; 2]> {
        match self.0 {
            Way::Marked(words) => Some(words),
            Way::Known(_) | Way::Array(_) => None,
        }
    }

    /// The completion, if it is known: that of [`Self::known`].
    pub fn completion(&self) -> Option<u64> {
        match self.0 {
            Way::Known(at) => Some(at),
            Way::Array(_) | Way::Marked(_) => None,
        }
    }

    /// Whether the completion was known at submission.
    pub fn is_known(&self) -> bool {
        matches!(self.0, Way::Known(_))
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is complete at this time, past or future.
    At(u64),
    /// Its completion cannot be known before this time, and lies later.
    NotBefore(u64),
}

/// A mechanism made ready to compute with: what a drive does as a function of its state, the time and an
/// operation. Without clock, thread or sleep.
///
/// The state is a row of words that the caller keeps, [`Self::state_words`] of them, in memory that processes
/// may share: it has no pointers. All zero is an idle drive at time 0. Calls on one state are made one after
/// the other; one that a holder left in the middle of a change goes to [`Self::repair`] before anything else,
/// and that takes whatever words there are.
///
/// Disks and drives with a table of figures are here ([`Model::timing`](super::Model::timing)); other crates
/// bring mechanisms of their own ([`Drive::open_with`](crate::Drive::open_with)).
pub trait Timing: Debug + Send + Sync {
    /// Words of 8 bytes that a state has.
    fn state_words(&self) -> usize;

    /// Enters an operation that arrives at `now`.
    ///
    /// `now` should not run backwards; an operation that does is treated as if it had arrived with its
    /// predecessor.
    ///
    /// # Errors
    /// [`Full`] if no room is left for it; nothing has changed then.
    ///
    /// # Panics
    /// As all of these, if `state` has another number of words than [`Self::state_words`].
    fn submit(&self, state: &mut [u64], now: u64, operation: Operation) -> Result<Submitted, Full>;

    /// How far an operation is at `now`. After `At` the ticket is used up.
    fn progress(&self, state: &mut [u64], now: u64, ticket: &mut Ticket) -> Progress;

    /// Time in ns that all servers together were busy.
    fn busy(&self, state: &[u64]) -> u64;

    /// Spindles or channels that work at the same time.
    fn servers(&self) -> u32;

    /// Addressable bytes.
    fn capacity(&self) -> u64;

    /// Makes a state usable again that a process left in the middle of a change: what was under way is over.
    fn repair(&self, state: &mut [u64], now: u64);

    /// An operation on `[address, address + len)` whose arm position is that of its address. Addresses beyond
    /// the capacity start again at its beginning.
    fn operation(&self, kind: OperationKind, address: u64, len: u64) -> Operation {
        let capacity = self.capacity();
        let address = if address < capacity { address } else { address % capacity };
        let position = address as f64 / capacity as f64;
        Operation { kind, address, len, position, through: false, stream: 0 }
    }

    /// The state of an idle drive at time 0.
    fn idle(&self) -> Box<[u64]> {
        vec![0; self.state_words()].into_boxed_slice()
    }
}
