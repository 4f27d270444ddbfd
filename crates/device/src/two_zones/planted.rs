//! Rules of the log of an area that can be taken out, to prove that its tests would notice.

mezzanine_ground::planted_bugs! {
    /// A rule that a test can take out.
    1: {
        /// A half counts though nothing says that its snapshot is complete.
        IncompleteHalfCounts,
        /// A half counts before its snapshot is durable.
        SnapshotUnflushed,
        /// An attempt to fill a half has the generation of one that has failed.
        GenerationReused,
        /// What a half holds that was begun in vain stays when the other one is written to.
        FailedHalfForgotten,
    }
    2: {
        /// A zone is written to before all that is in the zones before it is durable.
        ZoneBegunUnflushed,
    }
    3: {
        /// After a write that has failed the next one goes to the same place.
        FailedWriteRepeated,
        /// Something is written behind a record that is torn.
        WrittenBehindTornRecord,
        /// Something is written where the device says that something was written.
        WrittenBehindUnknownEnd,
    }
    4: {
        /// A flush leaves no mark.
        FlushUnmarked,
        /// The last record counts, torn or not.
        TornRecordTaken,
    }
    5: {
        /// A header that is damaged ends the log.
        DamagedHeaderEnds,
    }
    6: {
        /// A block that cannot be read when it is copied reads as zeros from then on.
        LostBlockZeroed,
    }
    7: {
        /// All zones of a half are reset at once.
        HalfEmptiedAtOnce,
    }
    9: {
        /// Of an area that is given up the half that counts is reset first.
        CountingHalfForgottenFirst,
        /// Both halves of one are reset at once.
        BeginningsResetAtOnce,
        /// What an earlier layout has left behind the halves stays when an area is given up.
        EarlierLayoutKept,
    }
}
