//! What becomes of SQLite's databases, their logs and their tiers when something fails (invariant 11).

mezzanine_ground::planted_part! {
    sqlite,
    11: {
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
    }
}
