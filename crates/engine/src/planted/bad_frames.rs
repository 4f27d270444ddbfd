//! Frames that cannot be read, and room for the names of lost pages (invariant 11).

mezzanine_ground::planted_part! {
    bad_frames,
    11: {
        /// The place of a summary that cannot be read is used again. It was so once.
        BadSummaryForgotten,
        /// Recovery does not know the frames again that groups pass with void records.
        VoidsForgotten,
        /// A group that was to end at the cut of a resize is made shorter for a bad frame behind the cut, at
        /// each round of the queue. It was so once.
        CutShortOfBad,
        /// Where every end of a group lies beside bad frames, it is not left without pages so that the next
        /// one can pass them. It was so once: with as many bad frames side by side as a group has pages, a
        /// summary came to lie on one, and a crash found no tier.
        SummaryBeforeBadRun,
        /// A group is left without pages before bad frames also where there is no room to pass them, and
        /// takes the frame that the name of a lost page needs.
        EmptyGroupTakesRoom,
        /// The names of lost pages find no more room at the rear than second chances do, and syncs with a
        /// host metadata take what there is. It was so once: with two lost pages the tier could stop for
        /// ever.
        LostPagesFindNoRoom,
        /// Nothing is kept free at the rear for the names of pages that are lost side by side. It was so
        /// once: some twenty bad sectors brought a small tier to a halt for ever.
        NamesWithoutRoom,
        /// Bad frames behind the rear count as room. It was so once: void records took what was kept for the
        /// names of lost pages.
        BadFramesAreRoom,
        /// A lost page for which nothing can make room any more is waited for. It was so once.
        LostWaitsForEver,
    }
}
