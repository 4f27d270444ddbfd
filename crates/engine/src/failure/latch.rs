//! What has failed, latched: the first failure stays.

use crate::ids::Position;
use std::fmt;

use mezzanine_ground::region::Word;

/// The first thing that went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Flash cannot be written: what is in staging memory must go to disk.
    FlashWrite,
    /// A flush of the flash device failed: what was not flushed before counts as lost.
    FlashSync,
    /// The only copy of a page cannot be read, or is damaged.
    FlashRead {
        /// Where the page was appended.
        position: Position,
    },
    /// Disk cannot be written.
    DiskWrite,
    /// A sync of the disk failed.
    DiskSync,
}

impl Failure {
    /// Whether nothing more can become durable on flash.
    pub(crate) fn ends_writing(self) -> bool {
        matches!(self, Self::FlashWrite | Self::FlashSync)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FlashWrite => write!(f, "a write to the flash device failed"),
            Self::FlashSync => write!(f, "a flush of the flash device failed"),
            Self::FlashRead { position } => {
                write!(f, "the only copy of the page at position {position} cannot be read from flash")
            }
            Self::DiskWrite => write!(f, "a page could not be written to disk"),
            Self::DiskSync => write!(f, "a sync of the disk failed"),
        }
    }
}

/// The first failure of a job. Changes under the control lock, and is read without.
#[repr(C)]
pub(crate) struct Latch {
    /// 0 if there is none.
    pub(super) code: Word,
    pub(super) detail: Word,
}

impl Latch {
    pub(super) fn get(&self) -> Option<Failure> {
        match self.code.get() {
            1 => Some(Failure::FlashWrite),
            2 => Some(Failure::FlashSync),
            3 => Some(Failure::FlashRead { position: Position::from_number(self.detail.get()) }),
            4 => Some(Failure::DiskWrite),
            5 => Some(Failure::DiskSync),
            _ => None,
        }
    }

    /// Remembers a failure. One that ends writing replaces one that does not.
    pub(super) fn latch(&self, failure: Failure) {
        let keep = self.get().is_some_and(|first| first.ends_writing() || !failure.ends_writing());
        if keep {
            return;
        }
        let (code, detail) = match failure {
            Failure::FlashWrite => (1, 0),
            Failure::FlashSync => (2, 0),
            Failure::FlashRead { position } => (3, position.number()),
            Failure::DiskWrite => (4, 0),
            Failure::DiskSync => (5, 0),
        };
        self.detail.set(detail);
        self.code.set(code);
    }
}

/// The region cannot be trusted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poisoned;

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a process died inside a critical section; rebuild the tier's region from flash")
    }
}

impl std::error::Error for Poisoned {}
