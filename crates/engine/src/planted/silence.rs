//! Devices that answer no read for a while (invariant 11).

mezzanine_ground::planted_part! {
    silence,
    11: {
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
    }
}
