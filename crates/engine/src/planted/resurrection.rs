//! Pages that come back after they were invalidated (invariant 6).

mezzanine_ground::planted_part! {
    resurrection,
    6: {
        /// An invalidation leaves no tombstone.
        NoTombstone,
        /// Where pages are written in place: a page is let go without a tombstone.
        EvictedWithoutTombstone,
        /// An invalidation leaves no tombstone if the page has left the queue, though the front that passed
        /// it is not durable.
        NoTombstoneAfterLeaving,
        /// An invalidation leaves no tombstone if the page was invalidated in memory, though its record is
        /// still on flash.
        NoTombstoneAfterForgetting,
        /// Recovery ignores the tombstones of ranges.
        RangeTombstoneIgnored,
        /// Recovery applies a range's tombstone to its first page alone.
        RangeTombstoneOfOne,
        /// The durable front is read after the end of what there is of a range, and may have passed a page
        /// that has moved in between.
        FrontReadLast,
        /// Recovery does not note which stretches of the queue have pages of what.
        AppearancesNotReplayed,
        /// What the ring of appearances has forgotten is taken for what lies in its place.
        ForgottenAppearancesBelieved,
        /// Recovery ignores tombstones in metadata segments.
        SegmentTombstonesIgnored,
        /// A second chance is given while a range is dropped, past the pass over the queue or behind the
        /// tombstone.
        SecondChanceDuringDrop,
        /// A host that invalidates a range is told that stage-out does not touch it.
        StageOutUnseen,
        /// Pages that were cut off a file after stage-out had listed them go to disk all the same. (The
        /// volume's part.)
        CutPagesWritten,
        /// Pages are left out of a list for the disk because their blocks were once cut off a file, though
        /// they were written since. It was so once, when a list was made known before what was cut off before
        /// it was forgotten: synced pages read as zeros.
        CutJudgedByRange,
        /// The durable front found in group summaries is ignored.
        FrontIgnored,
        /// The front found in metadata segments is ignored.
        SegmentFrontIgnored,
        /// The groups of a segment whose records are rotten are looked for from its beginning on, also where
        /// the front has passed some of them, whose frames are others' by then. It was so once: such a tier
        /// was refused.
        BridgedFromBeforeFront,
        /// Numbers of files begin anew when a tier was opened 2^24 times. It was so once. (The volume's
        /// part.)
        FileNumbersWrap,
        /// The number of a file whose first sidecar could not be written goes to the next one, though that
        /// sidecar may be in place. It was so once. (The volume's part.)
        FailedNumberReused,
        /// What lies past the end of a file after a crash is not dropped before the file grows. (The volume's
        /// part.)
        TailNotTrimmed,
        /// What the last page of a file holds past its end after a crash is forgotten if the page cannot be
        /// read in the moment when it is to be cut off, and is there when the file grows. It was so once.
        /// (The volume's part.)
        TailForgotten,
        /// A write over all of the last page, which cannot be read, lets the file grow before that page is
        /// written anew. It fails in another page, and what a crash had cut off is there. It was so once.
        /// (The volume's part.)
        TailOutgrown,
        /// A discard that a crash interrupted is not repeated. (The volume's part.)
        DiscardNotRepeated,
        /// After a discard that a crash interrupted, clean copies of the pages are believed that the tier had
        /// let go and flash still names. It was so once. (The volume's part.)
        ForgottenCopiesBelieved,
        /// Two threads replace a file's sidecar at once, and what the first one knew comes to stand over what
        /// the second one has changed. It was so once. (The volume's part.)
        SidecarsAtOnce,
        /// Zeros of a discard that went to disk because the tier was given up in it are not synced. It was so
        /// once. (The volume's part.)
        DiscardUnflushed,
    }
}
