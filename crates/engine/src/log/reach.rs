//! How far the host's log has reached (see `log`).

use mezzanine_ground::region::Word;

use crate::format::LogPosition;
use crate::ids::Position;

/// How far the host's log reaches at least (see [`LogPosition`]), and what of it is redone since the tier was
/// opened.
#[repr(C)]
pub(crate) struct HostLog {
    /// Never goes back. Raised without a lock.
    pub(super) lsn: Word,
    /// Changes under the control lock.
    pub(super) timeline: Word,
    /// What came from this position of the log on is redone; 0 if nothing is.
    pub(super) redone_from: Word,
    /// All that was redone lies before this position of the queue.
    pub(super) redone_end: Word,
}

impl HostLog {
    pub(super) fn redone_end(&self) -> Position {
        Position::from_number(self.redone_end.get())
    }

    #[inline]
    pub(super) fn raise(&self, lsn: u64) {
        if lsn > self.lsn.get() {
            self.lsn.raise(lsn);
        }
    }

    pub(super) fn position(&self) -> LogPosition {
        LogPosition { timeline: self.timeline.get() as u32, lsn: self.lsn.get() }
    }

    /// Whether a page from this position of the log is redone.
    pub(crate) fn redoes(&self, lsn: u64) -> bool {
        let from = self.redone_from.get();
        from > 0 && lsn >= from
    }
}
