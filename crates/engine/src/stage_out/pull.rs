//! Pulling pages from the tail of the buffer pool ("Flash as cache extension for online transactional
//! workloads", section 4.3, "Group second chance").
//!
//! Survivors of the group at the front fill a part of the next group. What room is left is offered to the
//! host: it stages in that many pages from the tail of its buffer pool, dirty ones through the pool's own
//! flush, so that their log is forced. Pages whose eviction is near leave in the background then, and groups
//! are full.

use crate::config::Design;
use crate::core::Tier;

impl Tier {
    /// Whether this host can be asked for pages: then [`crate::Job::PullPages`] is handed out.
    pub fn set_pulling(&self, on: bool) {
        self.control().pull.on.set(on.into());
    }

    /// A group has been staged out: the one that its survivors went to may have room. Under the control
    /// lock.
    pub(crate) fn want_pull(&self) {
        let control = self.control();
        let Some(open) = control.append.open() else { return };
        if control.pull.on.get() == 0 || self.geometry.config().design != Design::FaceGsc {
            return;
        }
        let room = self.geometry.group_pages() - self.group_of(open).pages();
        control.pull.wanted.set(room);
    }

    /// Pages to ask the host for. Under the control lock.
    pub(crate) fn take_pull(&self, owner: u32) -> Option<u64> {
        let control = self.control();
        if control.stopped.get() == 0 { control.pull.take(owner) } else { None }
    }

    /// The host has staged in what it had. Under the control lock.
    pub(crate) fn pulled(&self) {
        self.control().pull.done();
    }
}
