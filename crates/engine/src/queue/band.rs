//! The band: groups at the front whose pages were written to disk and wait for one sync of it.

use crate::ids::Sequence;
use crate::planted::{self, Bug};
use crate::queue::Queue;

impl Queue<'_> {
    /// Whether the disk is to be synced now; notes what the sync will cover. Under the control lock.
    pub(super) fn take_sync_of_band(&self) -> bool {
        let control = self.control();
        let cleaned = control.passed.cleaned();
        let releasable = control.passed.releasable();
        let band = cleaned - releasable;
        // Short bands are worth a sync only when nothing else can leave.
        let short = band > 0 && releasable == control.ends.front() && self.pressing();
        let wanted = band >= self.geometry.config().band_frames || short;
        // A drain does not wait for a barrier that may be far away: its sync covers the band before it as
        // well.
        let wanted = wanted && control.disk_sync.is_idle();
        if control.disk_sync.is_running() || !(wanted || self.drain_wants_sync()) {
            return false;
        }
        // The barrier: every group that exists now, the open one included. Without a band nothing waits.
        let existing = match planted::is(Bug::BarrierWithoutOpenGroup) {
            true => control.groups.composed(),
            false => control.groups.next(),
        };
        let barrier = if band == 0 { Sequence::ZERO } else { existing };
        control.disk_sync.take(cleaned, barrier);
        planted::inside("disk sync: taken");
        self.drain_sync_begins();
        true
    }

    /// The front may follow if everything that must be durable first is. Under the control lock.
    pub(super) fn pass_sync_barrier(&self) {
        let control = self.control();
        let durable = control.groups.flushed() >= control.disk_sync.barrier();
        let ready = durable || planted::is(Bug::ReuseBeforeSuperseder);
        if control.disk_sync.is_at_barrier() && ready {
            let covered = if planted::is(Bug::SyncCoversLaterWrites) {
                control.passed.cleaned()
            } else {
                control.disk_sync.end()
            };
            control.passed.may_leave(covered);
            planted::inside("barrier: passed");
            control.disk_sync.over();
        }
    }
}
