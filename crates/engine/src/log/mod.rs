//! How far the log of the host reaches, for a host that has one.
//!
//! A tier may be put together with the files and the log of an earlier moment. Redo point and timeline do
//! not always tell: without a checkpoint in between they are equal. What does is the log itself: every page
//! that came in had its log forced before (invariant 1), so a log that ends before the newest of them is an
//! older one. So each group carries the largest position that the tier has been told of, and a start
//! compares it with the end of the log, before redo. It may be larger than that of any page in the group and
//! those before it: the log reached it all the same. And it must be: a page tells not only of changes of its
//! own. A hint bit of PostgreSQL's says that a transaction has committed, by a record that lies behind the
//! page's position, and where the log lacks that record the transaction has not.
//!
//! Where the log reaches so far, disk may still be of an earlier moment than the tier, within what is
//! redone: then it lacks changes from behind the redo point that the tier's records call clean, because they
//! were on the disk of then. So these pages count as dirty after a crash. In sync mode `durable` a
//! checkpoint leaves them where they are, so that holds until they have left the queue, over any number of
//! recoveries: the superblock says from where on. In `drained` the next checkpoint brings them to disk
//! before redo moves past them.

pub(crate) mod reach;

use crate::config::SyncMode;
use crate::core::Tier;
use crate::format::{LogPosition, Superblock, TierState};
use crate::ids::Position;
use crate::planted::{self, Bug};

impl Tier {
    /// A page from this position of the log comes in.
    #[inline]
    pub(crate) fn log_reaches(&self, lsn: u64) {
        self.control().host_log.raise(lsn);
    }

    /// The host's log is durable up to this position of the timeline that was told last. For each page,
    /// before it comes in, where a page may say what the log has behind the page's own position: which
    /// transactions have ended. The page is added to its group under the control lock, and so the group
    /// states this, too.
    #[inline]
    pub fn log_flushed(&self, lsn: u64) {
        self.log_reaches(lsn);
    }

    pub(crate) fn log_position(&self) -> LogPosition {
        self.control().host_log.position()
    }

    /// The host's log is durable up to this position, on this timeline, and the tier is about to depend on
    /// that: pages are dropped, or overwritten past the tier, by what the log says there; or a timeline
    /// begins. Called before the tombstone is appended. It never goes back.
    pub fn log_reached(&self, log: LogPosition) {
        let control = self.control();
        let _guard = control.lock.lock(self.owner);
        let reached = self.log_position();
        control.host_log.timeline.set(u64::from(reached.timeline.max(log.timeline)));
        control.host_log.raise(log.lsn);
    }

    /// Has recovery count what is redone from `found` on as dirty, in a queue that ends here. Returns what
    /// the superblock of the new epoch says of it.
    pub(crate) fn redoes(&self, found: &Superblock, rear: Position) -> u64 {
        if self.geometry.provably_clean() || planted::is(Bug::RedoneBelievedClean) {
            return 0;
        }
        let durable = found.config.sync_mode == SyncMode::Durable;
        let kept = if planted::is(Bug::RedoneForgotten) { 0 } else { found.redone_from };
        let now = if found.state == TierState::Open { found.confirmed.redo } else { 0 };
        let from = match found.state {
            // Every page is on disk.
            TierState::Drained => 0,
            _ => [kept, now].into_iter().filter(|&from| from > 0).min().unwrap_or(0),
        };
        let log = &self.control().host_log;
        log.redone_from.set(from);
        log.redone_end.set(rear.number());
        if durable { from } else { 0 }
    }

    /// The superblock that says no more of what was redone once all of that has left the queue: what is
    /// appended again or comes in says itself whether it is dirty.
    #[must_use]
    pub fn redone(&self, superblock: &Superblock) -> Superblock {
        let control = self.control();
        let left = control.passed.durable_front() >= control.host_log.redone_end();
        Superblock { redone_from: if left { 0 } else { superblock.redone_from }, ..superblock.clone() }
    }
}
