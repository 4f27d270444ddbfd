//! Faults that can be switched on to prove that the tests would notice them, and points where a process can
//! be killed.
//!
//! Each switch takes out one rule behind a durability invariant, at the line where the rule stands. They
//! exist only with the feature `planted`, which no shipped build turns on; without it every switch is a
//! constant `false` and every point nothing. Where each is found, and after how many power cuts, is in
//! `docs/planted-bugs.md`.

mezzanine_ground::planted_bugs! {
    /// A rule of the engine, or of the volume, that a test can take out.
    2: {
        /// A clean offer enters although the page was written since the miss.
        StaleOfferAdmitted,
        /// An invalidation of a page that the tier does not hold is not counted as a change, so that an offer
        /// of what was read from disk before enters.
        InvalidationUncounted,
        /// An invalidation of a range is not counted as a change of its pages.
        RangeUncounted,
        /// A read of a frame that was overwritten meanwhile is believed.
        ReadUnconfirmed,
        /// A copy out of staging memory is believed although the memory was given to another group meanwhile.
        StagedCopyUnconfirmed,
        /// A copy out of staging memory is believed if the page is still in staging memory somewhere, though
        /// the group that it was copied from may be another one than was looked at first. It was so once.
        StagedGroupMixed,
        /// What was read of a page before it was needed is believed though the tier has another version of it
        /// since. (The server's part.)
        StaleReadAheadUsed,
        /// A lookup is believed although the shard changed under it.
        LookupUnconfirmed,
        /// A lookup notes that it has found a page over whatever has become of the frame meanwhile.
        ReferenceStored,
        /// Where pages are written in place: whether staging memory has a page is asked when it is copied,
        /// not when it is found. It was so once. The crash worlds take one step at a time and cannot see it;
        /// threads in many orders do.
        HomedAskedLate,
        /// A page of a tier that was provably clean and not closed is believed, though disk may be newer.
        CleanTierKept,
        /// Where there is a slot directory: the slot of a page that was replaced or has left is not written.
        SlotLeftValid,
        /// Where there is a slot directory: a page may go to disk before the slot of its older version is
        /// durably invalid.
        SlotInvalidUnflushed,
        /// Where there is a slot directory: a slot becomes valid before a sync of the disk has covered its
        /// page.
        SlotBeforeDiskSync,
        /// Where there is a slot directory: a slot becomes valid though its page is being replaced, and disk
        /// may have the newer version.
        SlotValidWhileReplaced,
        /// Where there is a slot directory: a slot that came wrong from flash counts as invalid, and is left
        /// there as it is, where it may be valid. It was so once.
        WrongSlotKept,
        /// Who writes past a tier that was given up does not wait for writers of the same pages that began
        /// before: one that changes a part of a page writes the whole of it as it was. It was so once. (The
        /// volume's part.)
        GivenUpUnlocked,
        /// A writer who set out when there was a tier changes a part of a page as the tier has it, though
        /// that was given up since and others have written past it. It was so once. (The volume's part.)
        GivenUpPageBelieved,
        /// A volume is closed over changes that are under way: what has gone to disk and not to the tier yet
        /// leaves an older copy there, in a tier that is believed. It was so once. (The volume's part.)
        ClosedOverWriters,
        /// What was read from disk is judged by whether a guard stands over the file's head when it is there,
        /// not while it was read: a guard that was taken away meanwhile is given out, and offered to the
        /// tier. It was so once. (The volume's part.)
        GuardJudgedLate,
        /// A page is given up by name though nobody asked whether it is lost. (A server's part.)
        GivenUpUnasked,
        /// Whether a page is lost is asked before its writers are excluded: what is written anew meanwhile is
        /// given up. (The volume's part.)
        GivenUpThoughWritten,
        /// Metadata segments from before the tier was discarded are believed.
        DiscardedSegmentsBelieved,
        /// An epoch that the superblock does not know, though groups or segments of it lie on flash, is given
        /// again, and they count then. It was so once.
        LostEpochReused,
        /// A tier with a slot directory that was emptied for slots of an epoch that its superblock did not
        /// know counts as empty at each opening from then on. It was so once.
        UsedTakenForEmpty,
    }
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
    7: {
        /// Recovery takes the oldest version of a page for the newest.
        OlderVersionWins,
        /// A second chance does not check that its version is still the newest.
        SecondChanceUnchecked,
        /// Where pages are written in place: a record at the front is appended again though a newer version
        /// has superseded it.
        RelocatedUnchecked,
        /// A recovery does not begin a new epoch.
        EpochNotRaised,
        /// An opening goes on though no superblock says its epoch. (The volume's part.)
        EpochUnwritten,
        /// A change that comes when the volume is closed has its opening start. (The volume's part.)
        StartedWhenClosed,
        /// Versions are counted from one again after a recovery.
        VersionsRestart,
    }
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
    10: {
        /// A tier is taken for a file's though it is older than the file. (The volume's part.)
        IdentityUnchecked,
        /// A tier is taken for a file's though its openings have other nonces: both are copies of one pair,
        /// and were used apart. (The volume's part.)
        NonceUnchecked,
        /// A file is judged by what the tier was when it was opened, also once a new epoch has begun: a
        /// sidecar that an attachment wrote which failed all the same has the file refused in the same
        /// volume. It was so once. (The volume's part.)
        FailedAttachmentRefused,
        /// A tier takes a file from another one that still has the newest pages of a file which goes with it:
        /// then no device opens both. It was so once. (The volume's part.)
        FilesParted,
        /// A flash device that is to take the place of another one can be opened before it knows, durably,
        /// which files it is to have. It was so once. (The volume's part.)
        SuccessorUnnamed,
        /// A tier that was closed drained knows the paths of its files for good, and takes no other file
        /// while the sidecar of one of them cannot be read. It was so once. (The volume's part.)
        DrainedPathTableKept,
        /// A file is taken for a tier's though the tier's table has seen it marked more often: file and
        /// sidecar are older. (The volume's part.)
        MarkUnchecked,
        /// A file is not marked when the disk has what stage-out wrote. (The volume's part.)
        StageOutUnmarked,
        /// A file is not marked before the tombstone of a discard. (The volume's part.)
        DiscardUnmarked,
        /// A file is not marked when its disk has been cut. (The volume's part.)
        CutUnmarked,
        /// A file that is current and older than its tier is taken for a new one, and the tier forgets its
        /// pages. It was so once. (The volume's part.)
        OlderFileForgotten,
        /// A file whose sidecar says that its newest pages are in the tier is told that a tier which went
        /// over to a mode without only copies since is the older of the two. It was so once. (The volume's
        /// part.)
        DirtyFileOfCleanTier,
        /// A file that is current and whose sidecar names a number that the tier does not know is taken for a
        /// new one though the tier waits for a file of its name, which is newer. It was so once. (The
        /// volume's part.)
        OlderNumberForgotten,
        /// A tier of which nobody needs anything goes on knowing a file by the numbers of another copy of it,
        /// and waits for those once it may hold only copies. It was so once. (The volume's part.)
        OrphansAwaited,
        /// Once a tier of which nobody needed anything is in use again, all that it knows is needed, also of
        /// files that it was not used with since. It was so once. (The volume's part.)
        DrainedEpochForgotten,
        /// A file of a tier that can hold no only copies is refused because its number was given to another
        /// file, though its sidecar is of an opening that this tier never had. It was so once. (The volume's
        /// part.)
        NumbersOfCopies,
        /// A tier is taken for a file's though it lacks groups that were durable when the sidecar was
        /// written. (The volume's part.)
        GroupsUnchecked,
        /// What stage-out wrote to a file's disk last is not compared with what stands there. (The volume's
        /// part.)
        BatchUnchecked,
        /// What a sync under way covers is named in the sidecar also of pages that were discarded meanwhile:
        /// the file is refused from then on. It was so once. (The volume's part.)
        SyncedBatchRemembered,
        /// What stage-out wrote when a file was longer is compared with its disk where an attachment that got
        /// no further has cut that. It was so once. (The volume's part.)
        CutPageCompared,
        /// Nor is it compared where no attachment has cut it: an older disk is accepted. It was so once. (The
        /// volume's part.)
        CutPageUncompared,
        /// A sidecar that comes to say `dirty` names what stage-out wrote while it said `current`, also where
        /// the disk was written past the tier since: the file is refused from then on. It was so once. (The
        /// volume's part.)
        NamedWhileCurrent,
        /// A guard is put up while stage-out may be writing the first page as it is: that takes the guard
        /// away, and the file is refused as another one. It was so once. (The volume's part.)
        GuardBesideStageOut,
        /// A disk that has the guard of a sidecar which says `current`, and another length than that says, is
        /// cut to it: it is of another moment. It was so once. (The volume's part.)
        GuardedLengthUncompared,
        /// A guard is put on a disk that a failed write has left longer than its file, and the file is
        /// refused for that after a crash. (The volume's part.)
        LongDiskGuarded,
        /// A log that another opening of the tier has written is used with the database, though the directory
        /// of the logs says so. (SQLite's part.)
        LogsUncompared,
        /// A log is written before the directory that it is in says whose it is. (SQLite's part.)
        LogUnnamed,
        /// A database that begins with the guard is opened without a tier if nothing says in which it is. It
        /// was so once: its log was played into the older pages on disk, and removed. (SQLite's part.)
        GuardedOpenedPlain,
        /// A file counts as unchanged if its size and the time of its last change are the same. It was so
        /// once. (The volume's part.)
        FingerprintOfTimes,
        /// A tier is taken for a database's without comparing redo pointers.
        RedoPointUnchecked,
        /// At a start the control file says that a tier has pages which the files lack before the marker says
        /// which tier, and before the superblock knows the redo pointer. It was so once. (The part of
        /// `crates/ffi`.)
        ControlFileBeforeMarker,
        /// A device is formatted for a server that has no marker before it has one, and half a superblock is
        /// then taken for something of others. It was so once. (The part of `crates/ffi`.)
        FormattedUnmarked,
        /// A server's marker is believed after one read, whether or not it matches its checksum. It was so
        /// once. (The part of `crates/ffi`.)
        MarkerBelieved,
        /// Whatever a device holds that is no tier, it is formatted for a server that has a marker, and so
        /// has had a tier once: a path that is mistyped costs the file. It was so once. (The part of
        /// `crates/ffi`.)
        ForeignFormatted,
        /// A device that begins with 64 kB of zeros counts as one that holds nothing. It was so once. (The
        /// part of `crates/ffi`.)
        BeginningTakenForAll,
        /// Another cluster's tier that is in use, or was left without a drain, is formatted where losing it
        /// costs that cluster no pages. It was so once. (The part of `crates/ffi`.)
        ForeignCacheFormatted,
        /// A device is formatted from its first byte on before it says whose it is, and a crash leaves what
        /// nobody can tell from something of others. (The part of `crates/ffi`.)
        FormattedUnclaimed,
        /// A server that goes on without the tier which it was about to make anew knows that one's name alone
        /// from then on, though a write that failed may have left the one before. (The part of `crates/ffi`.)
        GivenUpNameForgotten,
        /// A whole tier that the data directory was to make is another directory's to it. It was so once.
        /// (The part of `crates/ffi`.)
        FormingTierForeign,
        /// A tier is refused whose database has moved its redo pointer to the one announced.
        PendingRedoForgotten,
        /// A tier is used whose pages come from behind the end of the database's log. (The part of
        /// `crates/ffi`.)
        LogEndUnchecked,
        /// Drops do not say how far the log reached, pages alone do. (The part of `crates/ffi`.)
        DropsOutrunLog,
        /// A page that comes in says how far the log reached by its own position alone, not by what it may
        /// tell of transactions that have ended since. It was so once. (The part of `crates/ffi`.)
        HintsOutrunLog,
        /// A tier that was left in order is taken as it was left although the data directory was not: it is
        /// of an earlier moment, or a crash came between. It was so once. (The part of `crates/ffi`.)
        ClosedAlone,
        /// How far the log reached is forgotten in a recovery.
        LogForgotten,
        /// What is redone since a crash is clean if its record says so, though disk may be of before that.
        RedoneBelievedClean,
        /// What is redone since a crash counts as dirty until the next one alone, though nothing has brought
        /// it to disk.
        RedoneForgotten,
        /// A tier is taken for that of a data directory which was last used in another session of the server:
        /// one of the two is an older copy. It was so once. (The part of `crates/ffi`.)
        SessionUnchecked,
        /// A tier is refused whose data directory has taken the session announced. (The part of
        /// `crates/ffi`.)
        PendingSessionForgotten,
        /// At a start the data directory takes the new session before the tier knows it. (The part of
        /// `crates/ffi`.)
        SessionUnannounced,
        /// A tier that a start made which had a base backup to restore and was cut off is another cluster's
        /// for the next start, which is refused for good. It was so once. (The part of `crates/ffi`.)
        RestoreForgotten,
        /// A tier is taken for that of a data directory though its groups have seen the directory marked more
        /// often: the directory is older. It was so once. (The part of `crates/ffi`.)
        SyncMarkUnchecked,
        /// A data directory is not marked when the disk has what stage-out wrote. It was so once. (The part
        /// of `crates/ffi`.)
        SyncUnmarked,
        /// Under a server with files: clean pages of files that were changed while it was down are believed.
        ChangedFilesTrusted,
        /// A file that was changed at the very moment noted when the server was left counts as unchanged.
        RestTickTrusted,
        /// A moment of a clock that was set back since says something of files.
        ClockTrusted,
        /// A directory whose last change of its own lies before the moment noted counts as the one that was
        /// noted: its file system was put back to an earlier moment. It was so once.
        OlderDirectoryTrusted,
        /// A directory that was put in the place of one that was noted counts as that one.
        ReplacedDirectoryTrusted,
        /// The marker forgets what was noted before the pages of changed files are durably gone.
        RestForgottenEarly,
        /// A start that follows one that was cut off keeps pages of changed files that were on disk, because
        /// their records do not say so.
        CurrentPageKept,
    }
    11: {
        /// A failed flash flush counts as done.
        FailedFlushIgnored,
        /// A process that joins a tier shares the reports of its flushes with the one that forked it, and may
        /// be told of a success that is none. (The host's part.)
        FlushesShared,
        /// A failed write of a group counts as done.
        FailedWriteIgnored,
        /// Who quiesces the volume and carries out the jobs that are left does not look at whether the last
        /// of them has failed. It was so once: the failure was nobody's, and writers waited for ever. (The
        /// volume's part.)
        LastFailureMissed,
        /// A failed sync of the disk counts as done.
        FailedDiskSyncIgnored,
        /// A page that is read is not compared with its checksum.
        DamageUnnoticed,
        /// A run of pages that cannot be read as a whole is not read again page by page: each of them passes
        /// for damaged. It was so once. (The volume's part.)
        RunFailsItsPages,
        /// An operator whose operation has met a failure of the flash device does not wait for another thread
        /// that is giving the tier up, and reports the failure of what can still be done. It was so once.
        /// (The volume's part.)
        GivingUpUnawaited,
        /// A drain in which the tier is given up fails, though the disk has every page then.
        GivenUpFailsDrain,
        /// Flash that cannot be written ends writing, though the disk could go on.
        FlashWriteEndsWriting,
        /// A write that flash refuses because a flush of it has failed passes for a failed write, if it is
        /// reported before that flush: the tier is given up, as if what it holds were durable still. It was
        /// so once. (The volume's part.)
        RefusalTakenForFailure,
        /// A write of the caller's own that the disk refuses ends writing for all.
        OwnWriteEndsWriting,
        /// What is on its way to a flash device that cannot be written is looked for on the device, and not
        /// in staging memory.
        FailedGroupForgotten,
        /// A file whose sidecar is damaged is attached as one that has none.
        DamagedSidecarMissed,
        /// A page on its way to disk is not compared with its checksum.
        DamageStagedOut,
        /// A damaged page is forgotten though it is dirty, and disk answers.
        DirtyForgotten,
        /// A run of frames that cannot be read as a whole is not read again page by page, so that its good
        /// pages count as unreadable.
        RunNotReadAgain,
        /// A page counts as unreadable after one read of it alone.
        UnreadableAtOnce,
        /// A page that cannot be read counts as the only copy though a newer version has superseded it, or
        /// disk has it.
        DeadPageMissed,
        /// A page that only flash has and that cannot be read ends all writing.
        LostEndsWriting,
        /// What needs the whole file on disk ends the server, when a page is lost, and not itself alone: a
        /// stop, the giving up of a tier that cannot be written, a write past the tier of the very page. It
        /// was so once. (The host's part.)
        LostEndsServer,
        /// A lost page that is written past the tier, or whose tier is given up, is forgotten while disk has
        /// an older version. (The host's part.)
        LostForgotten,
        /// A page that a drain has missed, and that a read brings after all, counts as lost: the drain fails,
        /// and a write past the tier overwrites it with what is no page. It was so once. (The host's part.)
        ReadAgainUnused,
        /// A page that is saved from a tier that is given up is read once only. It was so once. (The host's
        /// part.)
        SavedAtOnce,
        /// No marker says that a tier was given up: the next start believes what its device still holds. (The
        /// host's part.)
        GivenUpUnmarked,
        /// A page that was lost and has been written anew still counts among those that a tier carries.
        RewrittenStaysLost,
        /// Pages are put in frames again that could not be read.
        BadFrameReused,
        /// Where pages are written in place: every home that could not be read is left out, however few are
        /// left. It was so once.
        BadHomesAllLeftOut,
        /// Where pages are written in place: of the homes that could not be read no more are left out than a
        /// list of frames has room for, however many good ones there are. It was so once.
        BadHomesForgotten,
        /// Where pages are written in place: a tier of which a needed metadata segment cannot be used is
        /// refused by the place where its groups end, and not by that of the segment. It was so once.
        MissingSegmentUnnamed,
        /// A tier in use whose superblocks cannot be read any more is not given them again, though its host
        /// knows what they say. It was so once.
        UnreadSuperblocksKept,
        /// A device of a tier in use answers nothing if neither superblock can be read, whatever else can. It
        /// was so once.
        SuperblocksAloneProbed,
        /// Of two reads of a page that fail, and a silent device behind the first, the second alone counts.
        /// It was so once. (The host's part.)
        LastProbeCounts,
        /// Superblocks that could not be read, and were written anew, are not read again.
        HealedUnread,
        /// A page that is lost leaves the queue like one that disk has.
        LostNotCarried,
        /// Recovery takes the frame that stands for a lost page for a torn one, and its group for one that
        /// was never durable.
        LostTakenForTorn,
        /// The place of a lost page that was given up gets zeros, which pass for a new page. (The volume's
        /// part.)
        GivenUpAsZeros,
        /// A page that flash does not give back counts as lost though disk has this very version of it:
        /// stage-out had written it before a crash. It was so once; a server's host even wrote over it when
        /// it gave the tier up.
        DiskNotCompared,
        /// A lost page that is being dropped is counted each time that the front meets it. It was so once.
        LostCountedAgain,
        /// A drain is done although pages of its scope are lost.
        LostCountsAsDrained,
        /// Recovery ends at whatever cannot be read, though something else says the same or nobody needs it.
        UnreadableEndsRecovery,
        /// Pages of groups that are known to have been durable, because the tier was closed or recovered
        /// behind them, are looked at as if their groups could be torn, and one that has rotted ends the
        /// recovery. It was so once.
        KnownEndVerified,
        /// One copy of a superblock is left to the next flush although the other one stands where nothing can
        /// be read, and so nothing that is durable can. It was so once.
        BadPlaceInPassing,
        /// A tier of which one copy of the superblock cannot be read is called older than a file by the other
        /// one. It was so once. (The volume's part.)
        UnreadCopyTakenForOld,
        /// The superblock of a checkpoint does not say which groups were durable when it was completed: one
        /// that has rotted since, and that no later group follows, is taken for a torn one. It was so once.
        PromiseUncounted,
        /// What one read brings is believed: of flash, when a tier is found and recovered, and of a disk,
        /// when a file is attached or its header guarded. It was so once.
        OneReadBelieved,
        /// A guard of which one byte has rotted counts as none: the file is refused as a replaced one, or its
        /// header, which is in the sidecar alone, is dropped. It was so once. (The volume's part.)
        RottenGuardMissed,
        /// Any guard that differs in one byte counts as the file's with a rotten byte, also that of another
        /// file. (The volume's part.)
        OtherGuardTakenForRotten,
        /// A guard with a rotten byte is recognized and not written anew. (The volume's part.)
        RottenGuardLeft,
        /// An error of the disk under a guard says neither where nor what to do next. It was so once. (The
        /// volume's part.)
        UnreadGuardUnnamed,
        /// A drained tier of which something is damaged is refused, though disk has every page. It was so
        /// once. (The volume's part.)
        DrainedTierNeeded,
        /// A tier that nobody needs, closed in order, is refused when something of it cannot be read. It was
        /// so once. (The volume's part.)
        UnreadExpendableRefused,
        /// Metadata that could not be read, and was done without, is taken for damaged when a tier is refused
        /// for what is missing.
        UnreadTakenForDamaged,
        /// A server's tier that nobody needs ends the start when something of it cannot be read. It was so
        /// once. (The part of `crates/ffi`.)
        UnreadableEndsStart,
        /// A tier that refuses a database keeps the logs of a stock SQLite that it has taken into its
        /// directory, and the database can be opened without the tier no more either. It was so once.
        /// (SQLite's part.)
        RefusedLogKept,
        /// The log of a refused database stays where an attempt has put it that died before. It was so once.
        /// (SQLite's part.)
        DeadAttemptsLogKept,
        /// A forked child uses the connections and the registry of its parent. It was so once. (SQLite's
        /// part.)
        ForkUnnoticed,
        /// A descriptor of a database is closed at once, and gives back what an SQLite without the tier in
        /// this process has locked. It was so once. (SQLite's part.)
        DatabaseClosedAtOnce,
        /// Who opens a database waits two milliseconds for a descriptor that is being closed, though a
        /// program that is being started has a copy of it for longer. It was so once. (SQLite's part.)
        ClosingHurried,
        /// Who closes the last connection has its file, and with it the tier, for a moment after the registry
        /// is free: whoever opens it then is told that it is in use. It was so once. (SQLite's part.)
        FileOutlivesDatabase,
        /// A journal names a super-journal that also names databases without a tier, and whoever recovers one
        /// of those removes it. It was so once. (SQLite's part.)
        SuperJournalBelieved,
        /// A flash file that is made takes the place of one that another process has made meanwhile. It was
        /// so once. (SQLite's part.)
        FlashReplaced,
        /// What is named as a flash file is opened and closed, or formatted, though it holds a database. It
        /// was so once. (SQLite's part.)
        DatabaseTakenForFlash,
        /// A flash file may have the name of a database's log, and is taken for one at the next opening. It
        /// was so once. (SQLite's part.)
        FlashInPlaceOfLog,
        /// An opening that is refused leaves the flash file that it has made. It was so once. (SQLite's
        /// part.)
        UnusedFlashLeft,
        /// Where no change of a tier needs a flush, the second copy of the superblock of an opening that
        /// starts waits for one. It was so once. (The volume's part.)
        CleanStartInPassing,
        /// An opening that starts for the sake of reads leaves the second copy of its superblock in the
        /// device's cache. It was so once. (The volume's part.)
        ReadStartUnflushed,
        /// An empty file in the place of a flash file is replaced though an SQLite has it open. It was so
        /// once. (SQLite's part.)
        EmptyDatabaseReplaced,
        /// An opening or a change of flash files that is refused removes whatever has the name of the file
        /// that it has made. It was so once. (SQLite's part.)
        RemovedByName,
        /// The word that has a file formatted whatever is in it takes a tier with pages of others as well. It
        /// was so once. (SQLite's part.)
        ForceFormatsTiers,
        /// What is made beside a database is for the user alone that made it. It was so once. (SQLite's and
        /// the volume's part.)
        SidecarOfItsMaker,
        /// A database in WAL mode that cannot be written is read though others may write it without the tier.
        /// It was so once. (SQLite's part.)
        WalReadBesideWriters,
        /// Pages that were written without a sync stay in the memory of the process while the log that has
        /// them as they were goes. It was so once. (SQLite's part.)
        PagesKeptBack,
        /// A drained tier leaves logs that hold something where no SQLite but its own looks for them. It was
        /// so once. (SQLite's part.)
        DrainedLogsKept,
        /// A database that is there is forgotten where nobody can read the sidecar that says whether it needs
        /// its tier. It was so once. (SQLite's part.)
        UnreadSidecarForgotten,
        /// A file that took the place of a database while its tier was open is used with what the tier knows
        /// of the one before. It was so once. (SQLite's part.)
        ReplacedFileUsed,
        /// At the end of a tier the sidecar of a file that was replaced meanwhile, or written over, vouches
        /// for what stands in its place. It was so once.
        ReplacedFileVouched,
        /// Whoever closes a database removes the log directory that its path leads to, where another process
        /// may keep the logs of another database by now. It was so once. (SQLite's part.)
        LogsLeftByPath,
        /// The first write of a log says in the directory to which its path leads whose that is, though it
        /// may be another database's by now. It was so once. (SQLite's part.)
        LogsOwnedByPath,
        /// SQLite looks for the logs of a database that was moved at its path, and plays that of another
        /// process's database into it, and removes it. It was so once. (SQLite's part.)
        LogsFoundByPath,
        /// The log directory of a database on a read-only file system has to say that it was opened, and a
        /// log that holds something is refused there. It was so once. (SQLite's part.)
        ReadOnlyLogsNamed,
        /// A file beside which none can be made cannot be asked whether it is unchanged, and is refused. It
        /// was so once. (The volume's part.)
        ClockNeedsFolder,
        /// A change of a file that fails while the volume is being quiesced, which waits for it, leaves that
        /// in order. It was so once. (The volume's part.)
        SettledOverRefusal,
        /// Files are forgotten before their names are off flash: if that fails, nobody waits for them, and no
        /// job is carried out. It was so once. (The volume's part.)
        ForgottenBeforeWritten,
        /// At the end of a tier a file that was removed with its sidecar gets another one. It was so once.
        /// (SQLite's and the volume's part.)
        SidecarOfNothing,
        /// A file that was moved with its folder while it was known to a tier keeps the sidecar that it had,
        /// as one that was removed would: the tier is newer than that for good. It was so once. (The volume's
        /// part.)
        MovedSidecarLeft,
        /// Who looks at the head of a file on disk does so while the guard there is being taken away: he sees
        /// the one and is told of the other, and takes the file for one that was written over. It was so
        /// once. (The volume's part.)
        MovingGuardSeen,
        /// Whoever opens a database that somebody else has waits for that with the registry of all databases
        /// in hand: others of the process cannot be opened or closed meanwhile. It was so once. (The part of
        /// the SQLite front.)
        LockAwaitedInRegistry,
        /// The other databases of a tier are looked for when it is opened, and then never again: one that
        /// somebody had just then keeps all of them from being changed. It was so once. (The part of the
        /// SQLite front.)
        OthersSoughtOnce,
        /// A database that somebody is just putting back is attached by a change of another one of its tier.
        /// (The part of the SQLite front.)
        ComingFileAttached,
        /// A copy that stands beside the database that is opened takes the place of one of its tier that
        /// somebody else has just then. It was so once. (The part of the SQLite front.)
        CopyTakenForHeld,
        /// A connection that has only read, and could not have its database alone, keeps new readers out. It
        /// was so once. (The part of the SQLite front.)
        ReaderLeftPending,
        /// The log of a database that was attached without it is not asked whose it is when somebody opens
        /// that database. It was so once. (The part of the SQLite front.)
        LateLogsBelieved,
        /// A rollback journal is begun before anybody has asked whether the database can be changed. It was
        /// so once. (The part of the SQLite front.)
        JournalUnprepared,
        /// A transaction of several databases is committed by the removal of its super-journal through
        /// another VFS, without what a killed process leaves behind. It was so once. (The part of the SQLite
        /// front.)
        SuperJournalUnseen,
        /// A tier with clean pages of files in a folder that cannot be written is closed with an error. It
        /// was so once. (The volume's part.)
        ReadOnlyCloseFails,
        /// Pages leave a tier for the file of a closed database, whatever stands there by now. It was so
        /// once. (SQLite's part.)
        CopiedOverUnnoticed,
        /// A file that is copied over a closed database is told by its first bytes alone, which an older copy
        /// has as well. It was so once. (SQLite's part.)
        OlderCopyUnnoticed,
        /// A connection that was opened to read only checkpoints, and removes the log when it closes as the
        /// last one. It was so once. (SQLite's part.)
        ReaderChanges,
        /// What another program writes over a database that is open, while nobody is in a transaction, is not
        /// looked at. It was so once. (SQLite's part.)
        OpenFileUnwatched,
        /// An open database whose file says another time is another one, also if somebody has only set that.
        /// (SQLite's part.)
        TouchedTakenForOther,
        /// Of what is copied over an open database the first bytes and the length are looked at alone, which
        /// an older copy has as well. (SQLite's part.)
        OlderCopyExcused,
        /// A copy of a tier, opened with a copy of a database, attaches the databases that the original is
        /// of. It was so once. (SQLite's part.)
        CopiesTakeOriginals,
        /// In sync mode `drained` a page that cannot be read leaves its tier in use, and every restart of the
        /// server comes to it again. It was so once. (The part of `crates/ffi`.)
        UnreadableKeepsTier,
        /// The host metadata is taken for empty where the segment that names the group with it cannot be read
        /// any more.
        NoteOfUnreadSegmentLost,
        /// Disk answers for a clean page that cannot be read before its tombstone is durable, and a crash
        /// finds the page again as a dirty one.
        UnreadableUnsaid,
        /// A read that failed and was repeated well is named as the cause of a later failure. It was so once.
        /// (The volume's part.)
        PassedErrorNamed,
        /// What fails of a device that is to take the place of another, when it is made ready to be written,
        /// is not asked for: the volume goes on with it. (The volume's part.)
        SuccessorUnready,
        /// A device that is to take the place of another, and does not keep what is written to it, is used
        /// with the older tier that it holds. It was so once. (The volume's part.)
        OlderSuccessorUsed,
        /// A device that answers no read at all for a while passes for one whose pages are lost. It was so
        /// once.
        SilenceTakenForLoss,
        /// Readers and drains call a page lost of a device that answers no read at all for a while, and
        /// whoever is told so gives it up. It was so once. (The volume's part.)
        SilentPagesLost,
        /// That disk has another version of a page than the newest, which flash does not give back, is
        /// concluded from one read. It was so once. (The volume's and the server's part.)
        DiskReadOnce,
        /// A disk that cannot be read counts as one that has not the newest version of a page, which flash
        /// does not give back: it is lost, and what takes its place may destroy it. It was so once. (The
        /// volume's and the server's part.)
        DiskErrorIsNo,
        /// A look at all pages of a server's tier calls those damaged that a device which answers no read at
        /// all does not give back. It was so once.
        SilentPagesDamaged,
        /// A server's start uses a tier of other sizes than those that memory was computed for while the
        /// device answered nothing. It was so once.
        SilentShapeKept,
        /// Readers call the frames of clean pages bad while the device answers no read at all, and they are
        /// out of use for good. It was so once. (The volume's part.)
        SilentFramesBad,
        /// A recovery whose device answers nothing for a moment takes a torn group for whole. It was so once.
        SilentGroupBelieved,
        /// A copy of the superblock is read once: if that fails for a moment, the other one counts, which may
        /// be the older. It was so once.
        OlderCopyAtOnce,
        /// A volume that is opened while the device answers nothing for a moment forgets the paths of its
        /// files. It was so once. (The volume's part.)
        SilentPathTableEmpty,
        /// A server's start whose device answers nothing while it reads the superblocks judges what it may
        /// hold as something else. It was so once. (The PostgreSQL part.)
        SilentDeviceJudged,
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
    13: {
        /// Frames of a zone are free when the front has passed them, not when it has left the zone.
        ZoneReusedInPart,
        /// On zones, too, several groups are written side by side.
        ZonesWrittenInAnyOrder,
        /// No zone is kept for what follows a crash.
        LastZoneTaken,
        /// After a crash the queue goes on at its end, whatever was written behind it.
        ZoneEndWrittenOver,
        /// What a crash has left behind the end of the queue is not passed by when groups are followed.
        ZoneRestNotPassed,
        /// A group that a crash has left behind the end of the queue counts, though the queue went on in the
        /// next zone.
        ZoneRestBelieved,
        /// Groups whose segment is damaged, up to the end of their zone, pass for a rest if the first of them
        /// is damaged as well.
        GroupsPassForRest,
        /// The front stands where a rest begins.
        FrontBeforeRest,
        /// What a crash has left counts if the group that the queue went on with cannot be read.
        UnreadZoneHeadForgotten,
        /// The same, if it is rotten.
        RottenZoneHeadPassed,
        /// Zones that crashes have left in part stay so, however many the device allows. (The volume's part.)
        LeftZonesUnfinished,
    }
}

#[cfg(not(feature = "planted"))]
pub(crate) use mezzanine_ground::failpoint::inside;
pub use mezzanine_ground::failpoint::outside;
#[cfg(feature = "planted")]
pub use mezzanine_ground::failpoint::{at_points, inside};
