//! Torn groups and superblocks (invariant 8).

mezzanine_ground::planted_part! {
    torn_groups,
    8: {
        /// A group past the durable mark is used without verifying its pages.
        TornGroupUsed,
        /// Only the first group past the durable mark is verified.
        OneGroupVerified,
        /// Groups state that their predecessors are durable when they are only written.
        DurableStatedWhenWritten,
        /// A group is written before all its pages have been copied into it.
        GroupUnfilled,
        /// The chain of groups is followed without comparing the predecessor's checksum and the epoch.
        ChainUnchecked,
        /// The chain of groups is followed without comparing the predecessor's checksum.
        PredecessorUnchecked,
        /// A chain that ends below the durable mark is taken for whole.
        DamageNotRefused,
        /// The better copy of the superblock is overwritten first. (The volume's part.)
        BetterCopyFirst,
        /// A copy of the superblock that cannot be read just now is taken for a damaged one, and may be
        /// overwritten first though it is the only whole one.
        UnreadableCopyFirst,
        /// A superblock is taken for that of a newer build because of its number alone, and the whole one
        /// beside it does not count. It was so once.
        NewerVersionUnverified,
    }
}
