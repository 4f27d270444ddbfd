//! Pages that disk refuses (invariant 11).

mezzanine_ground::planted_part! {
    refusals,
    11: {
        /// A page that disk has refused counts as written.
        RefusedCountsAsWritten,
        /// A page that disk has refused is carried on as a clean one.
        RefusedCarriedClean,
        /// A drain that has met pages which disk refuses is over as if they were there.
        RefusedCountsAsDrained,
        /// Where pages are written in place, one that disk has refused is to leave still, and no other in its
        /// place. It was so once.
        RefusedLeavesStill,
        /// A drain counts as refused because a later one was. It was so once.
        LaterDrainMeant,
        /// Pages that disk refuses are appended again however many they are.
        RefusedForEver,
        /// A revolution of the queue, within which half of the frames may be appended again, is over when as
        /// many were filled as there are, though some are always free. It was so once: with two pages in five
        /// refused stage-out came to rest for ever.
        RevolutionByFrames,
        /// In sync mode `drained` nothing is kept free at the rear for pages that disk refuses. It was so
        /// once: a fifth of a small tier, side by side, brought stage-out to rest for ever.
        RefusedWithoutRoom,
        /// Pages that disk refuses are appended again though nobody needs their frames.
        RefusedAheadOfNeed,
        /// Where pages that disk refuses take all room, none is left for dropping them.
        RefusedCannotBeDropped,
        /// The group that a tombstone opens while stage-out rests is filled with other pages. It was so once:
        /// each drop took a group of the last room, until drops waited for ever.
        DropsRoomShared,
        /// While stage-out rests a range of which the tier has nothing takes room for a tombstone.
        DropsOfNothingTakeRoom,
        /// Refused pages that were dropped count as appended again still. It was so once: stage-out rested
        /// on, though little was refused any more, and the room of tombstones came to an end.
        DroppedStillCounts,
        /// Each attempt while stage-out rests ends at the page at which the one before has ended. It was so
        /// once: stage-out rested on as long as disk refused that page, though it took most of the others
        /// again.
        AttemptsInVain,
        /// Who finds no room while disk refuses pages waits for ever. (A server's part.)
        RefusedAwaited,
        /// Who waits for room while stage-out rests gives up though others have jobs in hand that make some.
        /// It was so once: a standby ended. (A server's part.)
        OthersUnawaited,
        /// Who waits for room while stage-out rests is told that there is none though others have made some
        /// since he looked. It was so once. (A server's part.)
        RoomJustMadeMissed,
        /// A process whose error ends the server gets no more room than others while stage-out rests. It was
        /// so once. (A server's part.)
        RoomRefusedToRedo,
        /// A sync waits for room for its host metadata while stage-out rests because disk refuses pages, and
        /// nothing makes any. It was so once.
        NoteAwaitedAtRest,
        /// Who reads a clean page that flash does not give back waits for room for its tombstone while
        /// stage-out rests, and nothing makes any. It was so once. (A server's part.)
        ReaderAwaitsRoom,
        /// One page that disk refuses is the end of stage-out for all. It was so once. (A server's part.)
        RefusedEndsServer,
    }
}
