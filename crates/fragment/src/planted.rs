//! Faults that can be switched on to prove that the tests would notice them.
//!
//! Each switch takes out one rule behind an invariant, at the line where the rule stands. They exist only
//! with the feature `planted`, which no shipped build turns on; without it every switch is a constant
//! `false`.

mezzanine_ground::planted_bugs! {
    /// A rule that a test can take out.
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
    10: {
        /// A write is sent before the mark of its fragment is durable.
        WriteBeforeMark,
        /// The copy of a write is.
        CopyBeforeMark,
        /// A fragment leaves, and its slot is another one's, though its record still counts.
        LeavesBeforeRecord,
        /// A mark that was made after its block was taken for a commit is durable with that.
        LateMarkCommitted,
        /// Marks are durable when they are written, without a flush.
        MarkUnflushed,
    }
    11: {
        /// A record counts before the data in its slot are durable.
        RecordBeforeData,
        /// A record counts before the backing device has durably what the slot has.
        RecordBeforeBacking,
        /// A record counts though its fragment is being written to.
        StableUnderWrites,
        /// After a flush that has failed the next one counts for all that was written before.
        FailedFlushBelieved,
    }
    12: {
        /// Recovery uses fragments that may have been written to.
        UnstableRecovered,
        /// Recovery believes what it has read without a flush of the cache device.
        RecoveryUnflushed,
        /// Recovery forgets records that it could not read.
        UnreadForgotten,
        /// Recovery leaves records as they are that lie behind the limit of the cache's size.
        BehindLimitKept,
        /// Recovery takes records of another cache for its own.
        CacheUnchecked,
        /// Recovery takes records of a volume that was detached for those of another one.
        VolumeUnchecked,
    }
    13: {
        /// A cache that is offline is read from.
        OfflineRead,
    }
    14: {
        /// Blocks stay valid while they are written, though their copy does not wait for the backing device.
        CopyBeforeAnswer,
        /// They still are when the backing device has answered.
        KeptPastAnswer,
        /// They still are when the backing device has refused the write.
        KeptPastFailure,
        /// They still are when somebody has read them from the backing device.
        BackingReadUnseen,
    }
    15: {
        /// What is written is not taken from the budget.
        BudgetUncharged,
    }
    16: {
        /// Work in the background goes on whatever reads take.
        NeverYields,
    }
    17: {
        /// A slot behind the limit of the cache's size is given to a fragment.
        SlotBehindLimit,
        /// What is being written to is left where it lies when the cache has shrunk.
        ShrunkUnderWrites,
    }
    18: {
        /// A fragment that was written to regularly is held unstable for good.
        HeldForGood,
    }
}
