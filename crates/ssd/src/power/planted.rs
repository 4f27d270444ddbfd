//! Faults of dump and recovery that tests switch on.

use super::Recorder;

/// Breaks a rule of dump or recovery, for tests that have to notice.
#[cfg_attr(not(feature = "planted"), expect(unreachable_pub, reason = "public for tests alone"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedFault {
    /// The dump has the frames, and not the changed entries of the map.
    DumpWithoutEntries,
    /// Frames that are on their way to flash are taken for being there.
    DumpWithoutFramesUnderWay,
    /// The dump has the version that a frame was filled with first.
    DumpOfOlderVersion,
    /// Frames are restored from the newest to the oldest.
    RestoredInReverse,
    /// The dump area is cleared before its frames are in the buffer.
    ClearedTooEarly,
    /// The journal is not read; the map's pages count alone.
    JournalUnread,
    /// A changed entry is in the journal before its unit is in flash.
    JournalAhead,
    /// The capacitors have charge for the dump, and none for programs under way: those are cut off, and the
    /// dump does not count on them. Right as long as no two pages share cells.
    ProgramsCutOff,
    /// A start of a volatile drive brings back writes that the start before had left out.
    LeftOutReturns,
    /// Collection erases a block from when on its plane is idle, though what the block held is needed longer.
    ErasedTooEarly,
    /// A start of a volatile drive does not write to the journal what it found.
    StartUnjournalled,
}

impl Recorder {
    /// Breaks a rule from now on.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, fault: Option<PlantedFault>) {
        self.fault = fault;
    }

    #[cfg(feature = "planted")]
    pub(crate) fn is_planted(&self, fault: PlantedFault) -> bool {
        self.fault == Some(fault)
    }

    #[cfg(not(feature = "planted"))]
    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    pub(crate) const fn is_planted(&self, _fault: PlantedFault) -> bool {
        false
    }
}
