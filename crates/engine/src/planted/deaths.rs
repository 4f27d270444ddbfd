//! Processes that die (invariant 12).

mezzanine_ground::planted_part! {
    deaths,
    12: {
        /// The jobs of an owner that has died are not handed out again.
        DeadOwnersJobsLost,
        /// A group that an owner was writing when it died counts as written.
        DeadWriteCounts,
        /// A flush of flash that an owner was waiting for when it died counts as done.
        DeadFlushCounts,
        /// A sync of the disk that an owner was waiting for when it died counts as done.
        DeadSyncCounts,
        /// Pages that an owner was writing to disk when it died count as written.
        DeadStageOutCounts,
        /// An owner that died inside a critical section is treated like any other.
        DeadHolderForgotten,
    }
}
