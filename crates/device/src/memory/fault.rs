//! Failures that a test asks for, beside the loss of power.

use crate::DeviceErrorKind;

/// The kinds of operation that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
    /// A change of the length.
    SetLen,
    /// A reset of a zone.
    Reset,
    /// A finish of a zone.
    Finish,
}

impl Operation {
    const COUNT: usize = Self::Finish as usize + 1;
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation reports this kind of error. A failed write leaves each of its sectors old or new; a
    /// failed flush makes nothing durable, and the device refuses writes and flushes until
    /// [`super::MemoryDevice::power_cut`] or a reset.
    Error(DeviceErrorKind),
    /// One bit differs: in the buffer of a read, in the stored bytes of a write. Nothing is reported.
    FlipBit,
    /// The write lands at another offset of the same alignment, over whatever is there. Nothing is reported.
    Misdirect,
    /// The operation is reported as done and is not: a lying flush, a lost write, an ignored discard.
    Lie,
}

/// A planned fault: spares `after` operations of its kind, then strikes the next `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// The kind of operation that is struck.
    pub operation: Operation,
    /// How many operations of that kind go well before the first that is struck.
    pub after: u64,
    /// How many are struck then; `u64::MAX` for all later ones.
    pub count: u64,
    /// What happens to them.
    pub fault: Fault,
}

/// The planned faults of one device.
#[derive(Debug, Default, Clone)]
pub(super) struct Plan {
    injections: Vec<Injection>,
    /// By kind of operation.
    struck: [u64; Operation::COUNT],
}

impl Plan {
    pub(super) fn add(&mut self, injection: Injection) {
        self.injections.push(injection);
    }

    pub(super) fn clear(&mut self) {
        self.injections.clear();
    }

    /// How many operations of a kind were struck so far.
    pub(super) fn struck(&self, operation: Operation) -> u64 {
        self.struck[operation as usize]
    }

    /// How many operations were struck so far.
    pub(super) fn struck_at_all(&self) -> u64 {
        self.struck.iter().sum()
    }

    /// An operation has failed without a plan: it met a bad place.
    pub(super) fn count(&mut self, operation: Operation) {
        self.struck[operation as usize] += 1;
    }

    /// Counts one operation and says what is to go wrong with it.
    pub(super) fn strike(&mut self, operation: Operation) -> Option<Fault> {
        if self.injections.is_empty() {
            return None;
        }
        let mut struck = None;
        for injection in self.injections.iter_mut().filter(|injection| injection.operation == operation) {
            if injection.after > 0 {
                injection.after -= 1;
            } else if injection.count > 0 {
                injection.count = if injection.count == u64::MAX { u64::MAX } else { injection.count - 1 };
                struck = struck.or(Some(injection.fault));
            }
        }
        self.struck[operation as usize] += u64::from(struck.is_some());
        struck
    }
}
