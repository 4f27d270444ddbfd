//! Files, logs and tiers of different moments, of volumes and SQLite (invariant 10).

mezzanine_ground::planted_part! {
    copies,
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
    }
}
