//! Operations that fail, and pages that are lost (invariant 11).

mezzanine_ground::planted_part! {
    failures,
    11: {
        /// A failed flash flush counts as done.
        FailedFlushIgnored,
        /// A process that joins a tier shares the reports of its flushes with the one that forked it, and may
        /// be told of a success that is none. (The host's part.)
        FlushesShared,
        /// A failed write of a group counts as done.
        FailedWriteIgnored,
        /// Who quiesces the volume and carries out the jobs that are left does not look at whether the last
        /// of them has failed. It was so once: the failure was nobody's, and writers waited for ever. (The
        /// volume's part.)
        LastFailureMissed,
        /// A failed sync of the disk counts as done.
        FailedDiskSyncIgnored,
        /// A page that is read is not compared with its checksum.
        DamageUnnoticed,
        /// A run of pages that cannot be read as a whole is not read again page by page: each of them passes
        /// for damaged. It was so once. (The volume's part.)
        RunFailsItsPages,
        /// An operator whose operation has met a failure of the flash device does not wait for another thread
        /// that is giving the tier up, and reports the failure of what can still be done. It was so once.
        /// (The volume's part.)
        GivingUpUnawaited,
        /// A drain in which the tier is given up fails, though the disk has every page then.
        GivenUpFailsDrain,
        /// Flash that cannot be written ends writing, though the disk could go on.
        FlashWriteEndsWriting,
        /// A write that flash refuses because a flush of it has failed passes for a failed write, if it is
        /// reported before that flush: the tier is given up, as if what it holds were durable still. It was
        /// so once. (The volume's part.)
        RefusalTakenForFailure,
        /// A write of the caller's own that the disk refuses ends writing for all.
        OwnWriteEndsWriting,
        /// What is on its way to a flash device that cannot be written is looked for on the device, and not
        /// in staging memory.
        FailedGroupForgotten,
        /// A file whose sidecar is damaged is attached as one that has none.
        DamagedSidecarMissed,
        /// A page on its way to disk is not compared with its checksum.
        DamageStagedOut,
        /// A damaged page is forgotten though it is dirty, and disk answers.
        DirtyForgotten,
        /// A run of frames that cannot be read as a whole is not read again page by page, so that its good
        /// pages count as unreadable.
        RunNotReadAgain,
        /// A page counts as unreadable after one read of it alone.
        UnreadableAtOnce,
        /// A page that cannot be read counts as the only copy though a newer version has superseded it, or
        /// disk has it.
        DeadPageMissed,
        /// A page that only flash has and that cannot be read ends all writing.
        LostEndsWriting,
        /// What needs the whole file on disk ends the server, when a page is lost, and not itself alone: a
        /// stop, the giving up of a tier that cannot be written, a write past the tier of the very page. It
        /// was so once. (The host's part.)
        LostEndsServer,
        /// A lost page that is written past the tier, or whose tier is given up, is forgotten while disk has
        /// an older version. (The host's part.)
        LostForgotten,
        /// A page that a drain has missed, and that a read brings after all, counts as lost: the drain fails,
        /// and a write past the tier overwrites it with what is no page. It was so once. (The host's part.)
        ReadAgainUnused,
        /// A page that is saved from a tier that is given up is read once only. It was so once. (The host's
        /// part.)
        SavedAtOnce,
        /// No marker says that a tier was given up: the next start believes what its device still holds. (The
        /// host's part.)
        GivenUpUnmarked,
        /// A page that was lost and has been written anew still counts among those that a tier carries.
        RewrittenStaysLost,
        /// Pages are put in frames again that could not be read.
        BadFrameReused,
        /// Where pages are written in place: every home that could not be read is left out, however few are
        /// left. It was so once.
        BadHomesAllLeftOut,
        /// Where pages are written in place: of the homes that could not be read no more are left out than a
        /// list of frames has room for, however many good ones there are. It was so once.
        BadHomesForgotten,
        /// Where pages are written in place: a tier of which a needed metadata segment cannot be used is
        /// refused by the place where its groups end, and not by that of the segment. It was so once.
        MissingSegmentUnnamed,
        /// A tier in use whose superblocks cannot be read any more is not given them again, though its host
        /// knows what they say. It was so once.
        UnreadSuperblocksKept,
        /// A device of a tier in use answers nothing if neither superblock can be read, whatever else can. It
        /// was so once.
        SuperblocksAloneProbed,
        /// Of two reads of a page that fail, and a silent device behind the first, the second alone counts.
        /// It was so once. (The host's part.)
        LastProbeCounts,
        /// Superblocks that could not be read, and were written anew, are not read again.
        HealedUnread,
        /// A page that is lost leaves the queue like one that disk has.
        LostNotCarried,
        /// Recovery takes the frame that stands for a lost page for a torn one, and its group for one that
        /// was never durable.
        LostTakenForTorn,
        /// The place of a lost page that was given up gets zeros, which pass for a new page. (The volume's
        /// part.)
        GivenUpAsZeros,
        /// A page that flash does not give back counts as lost though disk has this very version of it:
        /// stage-out had written it before a crash. It was so once; a server's host even wrote over it when
        /// it gave the tier up.
        DiskNotCompared,
        /// A lost page that is being dropped is counted each time that the front meets it. It was so once.
        LostCountedAgain,
        /// A drain is done although pages of its scope are lost.
        LostCountsAsDrained,
        /// Recovery ends at whatever cannot be read, though something else says the same or nobody needs it.
        UnreadableEndsRecovery,
        /// Pages of groups that are known to have been durable, because the tier was closed or recovered
        /// behind them, are looked at as if their groups could be torn, and one that has rotted ends the
        /// recovery. It was so once.
        KnownEndVerified,
        /// One copy of a superblock is left to the next flush although the other one stands where nothing can
        /// be read, and so nothing that is durable can. It was so once.
        BadPlaceInPassing,
        /// A tier of which one copy of the superblock cannot be read is called older than a file by the other
        /// one. It was so once. (The volume's part.)
        UnreadCopyTakenForOld,
        /// The superblock of a checkpoint does not say which groups were durable when it was completed: one
        /// that has rotted since, and that no later group follows, is taken for a torn one. It was so once.
        PromiseUncounted,
        /// What one read brings is believed: of flash, when a tier is found and recovered, and of a disk,
        /// when a file is attached or its header guarded. It was so once.
        OneReadBelieved,
        /// A guard of which one byte has rotted counts as none: the file is refused as a replaced one, or its
        /// header, which is in the sidecar alone, is dropped. It was so once. (The volume's part.)
        RottenGuardMissed,
        /// Any guard that differs in one byte counts as the file's with a rotten byte, also that of another
        /// file. (The volume's part.)
        OtherGuardTakenForRotten,
        /// A guard with a rotten byte is recognized and not written anew. (The volume's part.)
        RottenGuardLeft,
        /// An error of the disk under a guard says neither where nor what to do next. It was so once. (The
        /// volume's part.)
        UnreadGuardUnnamed,
        /// A drained tier of which something is damaged is refused, though disk has every page. It was so
        /// once. (The volume's part.)
        DrainedTierNeeded,
        /// A tier that nobody needs, closed in order, is refused when something of it cannot be read. It was
        /// so once. (The volume's part.)
        UnreadExpendableRefused,
        /// Metadata that could not be read, and was done without, is taken for damaged when a tier is refused
        /// for what is missing.
        UnreadTakenForDamaged,
        /// A server's tier that nobody needs ends the start when something of it cannot be read. It was so
        /// once. (The part of `crates/ffi`.)
        UnreadableEndsStart,
    }
}
