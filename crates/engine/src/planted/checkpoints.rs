//! Drains, closings and switches that count as done before they are (invariant 4).

mezzanine_ground::planted_part! {
    checkpoints,
    4: {
        /// A version does not inherit since when its page is dirty, so that a drain up to a mark misses it.
        SinceNotInherited,
        /// A page staged in with a change from before the mark counts as dirty since the mark.
        BeforeMarkIgnored,
        /// A second chance makes a dirty page as young as the last mark.
        SecondChanceRejuvenates,
        /// A drain ends without a page that was superseded behind its end before it was written.
        SweepEndUnmoved,
        /// A page that the last sweep of a drain waits for is superseded all the same, behind the end of the
        /// drain.
        LastSweepSuperseded,
        /// A drain is done when its pages are written, not synced.
        DrainUnsynced,
        /// A drain that finds nothing to write does not sync what stage-out has written before.
        IdleDrainUnsynced,
        /// A sync of the disk that began before the last write of a drain counts for it.
        DrainTakesEarlierSync,
        /// Host metadata that nothing accompanies does not become durable with a sync.
        NoteLeftBehind,
        /// A tier is closed as drained though pages in it are dirty.
        ClosedAsDrained,
        /// A tier is closed as drained though the sidecars of its files say that they need it: it may be
        /// opened then in a mode that takes no file that does, or formatted. It was so once. (The volume's
        /// part.)
        DrainedForDirtyFiles,
        /// What a drain writes counts as clean before the disk is synced. (The volume's part.)
        DrainMarksUnsynced,
        /// A flash device is replaced without bringing to disk what it alone holds. (The volume's part.)
        ReplacedUndrained,
        /// A flash device is replaced without syncing what was written to disk directly. (The volume's part.)
        ReplacedUnsynced,
        /// A page that was changed while a drain wrote an older version counts as clean.
        CleanedAlthoughChanged,
        /// A stretch of the queue that had nothing dirty once is left out by drains when the queue has come
        /// round to it again.
        CleanOnceCleanForEver,
        /// A drain of a range ends where its last page lay when it was asked for, though that was superseded
        /// while the range was looked up.
        SupersededLeftOut,
        /// A drain takes what the open group has room for as swept already, so that what is superseded into
        /// it while its range is looked up is left out.
        SweptToRear,
        /// The last sync of a drain makes clean what lies at the front alone.
        DrainedAtFrontAlone,
        /// Who quiesces the volume does not wait for those who are in the middle of a change. (The volume's
        /// part.)
        OthersNotAwaited,
        /// Runners look for jobs while the volume is quiesced, and wake who quiesces it and one another each
        /// time, so that all keep busy and it may never find them at rest. It was so once. (The volume's
        /// part.)
        LooksWhileSettled,
        /// Who stops admission does not wait for pages that are on their way into the tier, in the sync mode
        /// that it is about to change.
        AdmissionStopsAtOnce,
    }
}
