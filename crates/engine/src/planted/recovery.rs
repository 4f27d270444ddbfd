//! Metadata segments, and what recovery makes of them (invariant 9).

mezzanine_ground::planted_part! {
    recovery,
    9: {
        /// Recovery stops at the last metadata segment and does not scan the groups after it.
        TailNotScanned,
        /// A group on flash keeps 32 bits of its sequence number.
        SequencesNarrow,
        /// A metadata segment names other pages than the groups it stands for.
        SegmentMisnamed,
        /// A metadata segment is used although its records are torn.
        TornSegmentUsed,
        /// A metadata segment is written before a flush has covered the last one.
        SegmentBeforeLastFlushed,
        /// In place, the newest segments are used though older ones are missing that the queue still needs:
        /// their groups are found by the summaries, once, and overwritten soon.
        OldestSegmentsMissed,
        /// In place, the oldest segments without a gap are used though the queue has left those behind: the
        /// gap may be where newer ones were to go.
        OldestRunOfSegmentsUsed,
        /// A flush counts for a metadata segment that was written after it had begun.
        FlushCoversLaterSegment,
        /// The slot of a metadata segment is used again before a durable front has passed what it stands for.
        SegmentSlotReused,
        /// A tier that was formatted in an older version of the format has its metadata segments where this
        /// build would lay them out: it is to be drained, and what it holds is not found.
        OlderLayoutForgotten,
        /// The records of metadata segments are read one after the other. Nothing is lost, but a recovery
        /// waits for each of them.
        SegmentsReadAlone,
        /// A range that was invalidated is replayed in one part of the directory alone.
        RangeTombstoneOfOnePart,
        /// Of segments that were read together, appearances are noted when their records were replayed: what
        /// is invalidated among them is not found.
        AppearancesNotedLast,
        /// The segments that were read together are replayed in another order.
        SegmentsOutOfOrder,
        /// Every metadata segment takes along the reference bits of the same frames. Nothing is lost but
        /// second chances after a crash.
        ReferencesOfOneShare,
        /// Groups are opened, and the front rests, though full metadata segments will find no slot. Nothing
        /// is lost, but the tier may come to a halt.
        SegmentsUncounted,
        /// A group is opened only if there are segments for all that staging memory can hold, also when it
        /// holds nothing: those that carry the front then find none, and no segment becomes free. Nothing is
        /// lost, but the tier comes to a halt. It was so once.
        SegmentsForEmptyStaging,
        /// Where pages are written in place: the front does not move for the homes of pages that were
        /// invalidated in memory alone. Nothing is lost, but the tier comes to a halt if there are no others.
        /// It was so once.
        OrphansKeepHomes,
        /// Frames of groups that recovery would scan, for want of a durable metadata segment, are given to
        /// others.
        ScannedFramesReused,
        /// Where the last group is one that a metadata segment stands for, its host metadata is lost.
        NoteOfSegmentLost,
        /// A queue that shrinks forgets how many frames flash was laid out for, if it was told of fewer than
        /// it had. It was so once: the next opening looked for metadata in other places, and refused the tier
        /// as damaged.
        RoomForgotten,
        /// A resize whose superblock may be on flash is forgotten all the same, and the queue goes on in the
        /// old ring.
        StatedResizeForgotten,
        /// Pages are taken until a number that only rises has come to its end.
        NumbersSpent,
        /// Who writes to a tier that takes no more pages, since a number comes to its end, waits until it
        /// does. It was so once. (The volume's part.)
        UsedUpAwaited,
        /// A tier is opened though its superblock has no number left with which it could be closed, or no
        /// epoch to be emptied with. It was so once.
        LastNumbersOpened,
        /// Numbers from a device are believed that this build would not have written.
        ImpossibleNumbersBelieved,
        /// A tier is recovered in memory as it is, whatever was there before. It was so once: only hosts that
        /// give the same memory twice can see it.
        UsedMemoryKept,
    }
}
