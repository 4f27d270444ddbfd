//! Which of two versions is the newer one (invariant 7).

mezzanine_ground::planted_part! {
    versions,
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
}
