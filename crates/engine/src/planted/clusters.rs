//! Data directories and tiers of different moments, of servers (invariant 10).

mezzanine_ground::planted_part! {
    clusters,
    10: {
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
}
