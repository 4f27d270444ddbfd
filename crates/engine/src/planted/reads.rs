//! What a reader or a writer is given that is not the newest (invariant 2).

mezzanine_ground::planted_part! {
    reads,
    2: {
        /// A clean offer enters although the page was written since the miss.
        StaleOfferAdmitted,
        /// An invalidation of a page that the tier does not hold is not counted as a change, so that an offer
        /// of what was read from disk before enters.
        InvalidationUncounted,
        /// An invalidation of a range is not counted as a change of its pages.
        RangeUncounted,
        /// A clean offer is not asked again whether it is stale when it is given a place, though a range that
        /// it lies in was invalidated since, and nothing of it was found. (The server's part.)
        OfferOvertakenByDrop,
        /// A read of a frame that was overwritten meanwhile is believed.
        ReadUnconfirmed,
        /// A copy out of staging memory is believed although the memory was given to another group meanwhile.
        StagedCopyUnconfirmed,
        /// A copy out of staging memory is believed if the page is still in staging memory somewhere, though
        /// the group that it was copied from may be another one than was looked at first. It was so once.
        StagedGroupMixed,
        /// What was read of a page before it was needed is believed though the tier has another version of it
        /// since. (The server's part.)
        StaleReadAheadUsed,
        /// A lookup is believed although the shard changed under it.
        LookupUnconfirmed,
        /// A lookup notes that it has found a page over whatever has become of the frame meanwhile.
        ReferenceStored,
        /// Where pages are written in place: whether staging memory has a page is asked when it is copied,
        /// not when it is found. It was so once. The crash worlds take one step at a time and cannot see it;
        /// threads in many orders do.
        HomedAskedLate,
        /// A page of a tier that was provably clean and not closed is believed, though disk may be newer.
        CleanTierKept,
        /// Where there is a slot directory: the slot of a page that was replaced or has left is not written.
        SlotLeftValid,
        /// Where there is a slot directory: a page may go to disk before the slot of its older version is
        /// durably invalid.
        SlotInvalidUnflushed,
        /// Where there is a slot directory: a slot becomes valid before a sync of the disk has covered its
        /// page.
        SlotBeforeDiskSync,
        /// Where there is a slot directory: a slot becomes valid though its page is being replaced, and disk
        /// may have the newer version.
        SlotValidWhileReplaced,
        /// Where there is a slot directory: a slot that came wrong from flash counts as invalid, and is left
        /// there as it is, where it may be valid. It was so once.
        WrongSlotKept,
        /// Who writes past a tier that was given up does not wait for writers of the same pages that began
        /// before: one that changes a part of a page writes the whole of it as it was. It was so once. (The
        /// volume's part.)
        GivenUpUnlocked,
        /// A writer who set out when there was a tier changes a part of a page as the tier has it, though
        /// that was given up since and others have written past it. It was so once. (The volume's part.)
        GivenUpPageBelieved,
        /// A volume is closed over changes that are under way: what has gone to disk and not to the tier yet
        /// leaves an older copy there, in a tier that is believed. It was so once. (The volume's part.)
        ClosedOverWriters,
        /// What was read from disk is judged by whether a guard stands over the file's head when it is there,
        /// not while it was read: a guard that was taken away meanwhile is given out, and offered to the
        /// tier. It was so once. (The volume's part.)
        GuardJudgedLate,
        /// A page is given up by name though nobody asked whether it is lost. (A server's part.)
        GivenUpUnasked,
        /// Whether a page is lost is asked before its writers are excluded: what is written anew meanwhile is
        /// given up. (The volume's part.)
        GivenUpThoughWritten,
        /// Metadata segments from before the tier was discarded are believed.
        DiscardedSegmentsBelieved,
        /// An epoch that the superblock does not know, though groups or segments of it lie on flash, is given
        /// again, and they count then. It was so once.
        LostEpochReused,
        /// A tier with a slot directory that was emptied for slots of an epoch that its superblock did not
        /// know counts as empty at each opening from then on. It was so once.
        UsedTakenForEmpty,
    }
}
