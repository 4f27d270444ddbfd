//! How far the log of the host reaches, for a host that has one.
//!
//! A tier may be put together with the files and the log of an earlier moment. Redo point and timeline do
//! not always tell: without a checkpoint in between they are equal. What does is the log itself: every page
//! that came in had its log forced before (invariant 1), so a log that ends before the newest of them is an
//! older one. So each group carries the largest position that the tier has been told of, and a start
//! compares it with the end of the log, before redo. It may be larger than that of any page in the group and
//! those before it: the log reached it all the same.

use crate::format::LogPosition;
use crate::tier::Tier;

impl Tier {
    /// A page from this position of the log comes in. Under the control lock.
    #[inline]
    pub(crate) fn log_reaches(&self, lsn: u64) {
        let log_lsn = &self.control().log_lsn;
        if lsn > log_lsn.get() {
            log_lsn.set(lsn);
        }
    }

    pub(crate) fn log_position(&self) -> LogPosition {
        let control = self.control();
        LogPosition { timeline: control.log_timeline.get() as u32, lsn: control.log_lsn.get() }
    }

    /// The host's log is durable up to this position, on this timeline, and the tier is about to depend on
    /// that: pages are dropped, or overwritten past the tier, by what the log says there; or a timeline
    /// begins. Called before the tombstone is appended. It never goes back.
    pub fn log_reached(&self, log: LogPosition) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let reached = self.log_position();
        control.log_timeline.set(u64::from(reached.timeline.max(log.timeline)));
        control.log_lsn.set(reached.lsn.max(log.lsn));
    }
}
