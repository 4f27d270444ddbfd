//! Frames that are given out too early (invariant 5).

mezzanine_ground::planted_part! {
    reuse,
    5: {
        /// Frames are released before the disk writes of their pages are synced: the sync is not issued at
        /// all.
        ReuseBeforeDiskSync,
        /// Frames are released when their pages are written to disk, and the sync comes whenever it comes.
        ReleasedWhenCleaned,
        /// A page goes to disk at what 32 bits keep of its place. (The volume's part.)
        OffsetsNarrow,
        /// The batch keeps 32 bits of a page's position in the queue.
        PositionsNarrow,
        /// A sync of the disk counts for pages that were written after it had begun.
        SyncCoversLaterWrites,
        /// Where pages are written in place: a sync of the disk that was under way when a page came to its
        /// home makes it clean, because the page before it in that home had been written. It was so once.
        /// Neither crash world comes to it in 200,000 cuts; a test does it by hand.
        SyncCoversNextPage,
        /// Where pages are written in place: a page that waits for a sync of the disk is listed again when it
        /// is named for disk once more, so that the sync under way, which may be a drain's, does not make it
        /// clean. It was so once.
        WrittenListedAgain,
        /// Where pages are written in place: pages that a drain has written are listed for the next sync
        /// whether the list has room or not, over others, which never become clean. It was so once.
        WrittenListOverrun,
        /// Frames of superseded versions are released and overwritten before the newer one is durable.
        /// (Either rule alone covers for the other: a group that states the front lies behind all that
        /// superseded what left, and metadata segments and superblocks state what a group has. So this lets
        /// them state the front as it is, as they did once.)
        ReuseBeforeSuperseder,
        /// Frames are overwritten before the front that passed them is durable.
        ReuseBeforeDurableFront,
        /// Frames are released when all groups that were composed before the sync of the disk are durable,
        /// and not the open one. (Metadata segments and superblocks state the front as it is then, as they
        /// did once: what a group has stated covers for the barrier.)
        BarrierWithoutOpenGroup,
        /// Groups state a front up to where pages are written to disk, synced or not.
        FrontStatedTooFar,
        /// A metadata segment, or the superblock of a resize or a closing, states a front that no durable
        /// group has stated, so that pages have left of which the host metadata does not tell. It was so
        /// once.
        FrontStatedBeforeNote,
        /// A group that waits for its pages states the front as it is when they are there, beside the host
        /// metadata of when it was closed. It was so once.
        FrontTakenWhenComposed,
        /// Metadata segments state a front up to where pages are written to disk, synced or not.
        SegmentFrontTooFar,
        /// A dirty page at the front is dropped instead of being written to disk.
        DirtyDroppedAtFront,
        /// A newer version passes for written to disk because the older one was.
        WrittenInherited,
        /// A page that was superseded while stage-out wrote it passes for written in its newer version.
        WrittenForNewerVersion,
        /// The record of a second chance says that a dirty page is clean.
        SecondChanceRecordedClean,
        /// Where pages are written in place: a home is given to another page before what superseded its page,
        /// or its tombstone, is durable, or its slot durably invalid.
        HomeReusedEarly,
        /// Where pages are written in place: a dirty page is let go without being written to disk.
        DirtyEvicted,
        /// Where pages are written in place: a thread says that it has noted a page for the policy before it
        /// has. Whoever tells the policy meanwhile tells it of another one, and the page leaves though it was
        /// referenced.
        NotedBeforeStored,
        /// Where pages are written in place: naming victims that all stay, because the list of those that
        /// leave is full, counts as a step, so that looking for a job has no end. It was so once.
        StayingPagesEvicted,
    }
}
