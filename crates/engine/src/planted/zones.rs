//! Zones (invariant 13).

mezzanine_ground::planted_part! {
    zones,
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
