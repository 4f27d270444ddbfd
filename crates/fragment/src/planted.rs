//! Faults that can be switched on to prove that the tests would notice them.
//!
//! Each switch takes out one rule behind an invariant, at the line where the rule stands. They exist only
//! with the feature `planted`, which no shipped build turns on; without it every switch is a constant
//! `false`.

macro_rules! bugs {
    ($($invariant:literal: { $($(#[$doc:meta])+ $bug:ident,)+ })+) => {
        /// A rule that a test can take out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($($(#[$doc])+ $bug,)+)+
        }

        impl Bug {
            /// Every switch, in the order of the invariants.
            pub const ALL: &[Self] = &[$($(Self::$bug,)+)+];

            /// The invariant that the switch breaks.
            pub const fn invariant(self) -> u32 {
                match self {
                    $($(Self::$bug)|+ => $invariant,)+
                }
            }
        }
    };
}

bugs! {
    2: {
        /// The blocks of a write stay valid while it is under way.
        ValidWhileWritten,
        /// A write that the backing device refused makes its blocks valid.
        FailedWriteValidates,
        /// A copy that the cache device refused makes its blocks valid.
        FailedCopyValidates,
        /// A discard leaves the blocks valid.
        DiscardKeepsBlocks,
    }
    3: {
        /// A write that covers a part of a block makes the whole of it valid.
        PartOfBlockValidates,
    }
    4: {
        /// A population begins while the fragment is written to past the cache.
        PopulationBesideWrites,
        /// A discard of a fragment on its way into the cache is not noted.
        DiscardUncounted,
        /// A population makes blocks valid though they were written meanwhile.
        PopulationOverWrites,
    }
    5: {
        /// A write makes blocks valid though a later one has taken them over.
        SupersededWriteValidates,
        /// Of two writes of a block that the backing device has at a time the later one makes it valid.
        ConcurrentWriteValidates,
        /// The copy of a later write goes to the cache device while that of an earlier one is on its way.
        CopiesOvertake,
        /// Copies are made of writes beside one of which nobody knows what it touches.
        UntrackedWriteForgotten,
        /// Blocks become valid though a write of them that has no copy is on its way to the backing device.
        UncopiedWriteForgotten,
    }
    6: {
        /// A fragment leaves though copies are on their way into its slot.
        EvictedUnderCopies,
        /// A write to a fragment on its way into the cache gives its slot to others at once.
        AbortedSlotReused,
        /// A slot that the cache device has refused a fragment in is the next one to be taken.
        RefusedSlotFree,
    }
    7: {
        /// What was read from the cache device is believed whatever has become of the slot.
        ReadUnconfirmed,
        /// A reader is not told that a write has failed of what he read, when a later one has made it valid.
        FailureUnseenByReaders,
    }
    8: {
        /// The memory of a copy is given to others when its write has ended, though it is being written.
        CopyReleasedEarly,
        /// A cache takes back what another one has handed out.
        ForeignTaken,
    }
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        // Per thread, so that tests which plant different faults can run side by side.
        static CURRENT: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Switches one fault on for this thread, or all off.
    pub fn set(bug: Option<Bug>) {
        CURRENT.set(bug);
    }

    /// Whether a fault is switched on for this thread.
    pub fn is(bug: Bug) -> bool {
        CURRENT.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, set};

/// Whether a fault is switched on: never, without the feature `planted`.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}
