//! What counts as durable before it is (invariant 3).

mezzanine_ground::planted_part! {
    durability,
    3: {
        /// A sync is acknowledged when its groups are written, not flushed.
        SyncWithoutFlush,
        /// A sync does nothing about writes that are under way, though others may have read them already:
        /// what was read and then synced may be gone after a crash. It was so once. (The volume's part.)
        UnderWayUnsynced,
        /// A flush counts for groups whose writes ended after it had begun.
        FlushCoversLaterGroups,
        /// Who waits for progress sleeps although there was some since he looked: nobody wakes him. Nothing
        /// is lost, but the sync of another may never end. (The volume's part.)
        ProgressUnnoted,
        /// What was read at the start counts as durable without a flush: a process that was killed leaves it
        /// in the device's cache. (The volume's part.)
        OpenedUnflushed,
        /// A superblock is written while the other copy of it may be in the device's cache alone: power takes
        /// both.
        SuperblockUnflushed,
        /// Of two copies of the superblock that say the same either counts as the one that is durable.
        TurnUnseen,
        /// A page is called given up before that is durable: a crash finds it lost again. (The part of the
        /// volume, and of a server's host.)
        GivenUpUnsynced,
        /// An open group that nothing was put into yet counts as one that has to be durable before the tier
        /// is closed.
        EmptyGroupAwaited,
    }
}
