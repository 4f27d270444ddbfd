//! Lost pages that could be found, or that keep others from going on (invariant 11).

mezzanine_ground::planted_part! {
    losses,
    11: {
        /// A page that a drain, or stage-out ahead of need, cannot read is lost, though its frame is not
        /// needed. It was so once.
        LostAheadOfNeed,
        /// A page that stage-out has brought to disk counts as the only copy until its frame leaves, so it is
        /// reported as lost if it cannot be read. It was so once.
        SyncedCountsAsLost,
        /// A lost page whose range is being dropped when it comes to the front passes for one that finds no
        /// room at the rear, and the front waits for that. It was so once.
        DroppedWaitsForRoom,
        /// A reader that has a page's tombstone made durable waits until the volume is quiesced, with the
        /// file's layout in hand, for which a new tier waits. It was so once. (The volume's part.)
        BurialWaits,
        /// An attachment fails because pages of a number that the file had before cannot be invalidated, and
        /// leaves the file in the volume all the same. It was so once. (The volume's part.)
        UnforgottenRefused,
        /// A spare flash device says that it is in use before the one that it is to replace is empty: if that
        /// cannot be emptied, the spare is refused the next time. It was so once. (The volume's part.)
        SuccessorStartedEarly,
        /// A lost page that a drain could read after all stays lost, and keeps its home. It was so once.
        FoundStaysLost,
        /// A tier that was to be closed drained, and has a lost page, is left as after a crash. It was so
        /// once. (The volume's part.)
        LostLeftOpen,
        /// A page that cannot be read keeps a tier from being drained although its file ends before it. It
        /// was so once. (The volume's part.)
        PastEndDrained,
        /// A lost page that the file ends in keeps the whole file from being changed after a crash, and is
        /// not healed by a write of all that the file has of it. It was so once. (The volume's part.)
        LostTailEndsWriting,
        /// The head that stands in for a guarded file's first bytes is not made durable with the rest of its
        /// page. (The volume's part.)
        HeadLeftBehind,
    }
}
