//! What the policy is told.

use std::sync::atomic::Ordering::Relaxed;

use mezzanine_ground::replacement::{PageKey, Replacement, Visitor};

use super::{FrameWord, HomeState, Homes};
use crate::ids::Frame;

/// A frame as the policy knows it: a page that is rewritten takes it along to its new home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogicalFrame(pub(super) u32);

/// The page was referenced. False if it is not in the order.
pub(super) struct Refer(pub(super) LogicalFrame);

/// The page came in, or was written again; and whether it is newer than disk.
pub(super) struct Come(pub(super) LogicalFrame, pub(super) PageKey, pub(super) bool);

/// The page is gone for good. False if it was not in the order.
pub(super) struct Remove(pub(super) LogicalFrame);

/// Disk has the page now.
pub(super) struct Clean(pub(super) LogicalFrame);

/// The page that leaves.
pub(super) struct Victim;

/// The page was referenced, and is not there.
pub(super) struct Miss(pub(super) PageKey);

/// Whether the page, which is not there, is worth the place of the one that leaves next.
pub(super) struct Admit(pub(super) PageKey);

/// For tests: the order's own rules, and which of so many logical frames are in it.
pub(super) struct Check(pub(super) u32);

impl Visitor for Refer {
    type Output = bool;

    fn visit<P: Replacement>(self, policy: &P) -> bool {
        let known = policy.contains(self.0.0);
        if known {
            policy.referenced(self.0.0);
        }
        known
    }
}

impl Visitor for Come {
    /// Whether it was not there.
    type Output = bool;

    fn visit<P: Replacement>(self, policy: &P) -> bool {
        let Self(LogicalFrame(logical), page, dirty) = self;
        let new = !policy.contains(logical);
        if new {
            policy.inserted(logical, page);
        }
        if dirty {
            policy.dirtied(logical);
        }
        if !new {
            policy.referenced(logical);
        }
        new
    }
}

impl Visitor for Remove {
    type Output = bool;

    fn visit<P: Replacement>(self, policy: &P) -> bool {
        let known = policy.contains(self.0.0);
        if known {
            policy.removed(self.0.0);
        }
        known
    }
}

impl Visitor for Clean {
    type Output = ();

    fn visit<P: Replacement>(self, policy: &P) {
        if policy.contains(self.0.0) {
            policy.cleaned(self.0.0);
        }
    }
}

impl Visitor for Victim {
    type Output = Option<LogicalFrame>;

    fn visit<P: Replacement>(self, policy: &P) -> Option<LogicalFrame> {
        policy.victim().map(LogicalFrame)
    }
}

impl Visitor for Miss {
    type Output = ();

    fn visit<P: Replacement>(self, policy: &P) {
        policy.missed(self.0);
    }
}

impl Visitor for Admit {
    type Output = bool;

    fn visit<P: Replacement>(self, policy: &P) -> bool {
        policy.admits(self.0)
    }
}

impl Visitor for Check {
    type Output = Vec<bool>;

    fn visit<P: Replacement>(self, policy: &P) -> Vec<bool> {
        policy.check();
        (0..self.0).map(|logical| policy.contains(logical)).collect()
    }
}

impl Homes<'_> {
    /// A page came to a home, or was written again there.
    pub(super) fn came(&self, home: Frame, key: PageKey, dirty: bool) {
        self.order().visit(Come(self.home(home).logical(), key, dirty));
        if dirty {
            self.came_dirty(home, key);
        }
    }

    /// A dirty page goes back to the order of the dirty ones.
    pub(super) fn came_dirty(&self, home: Frame, key: PageKey) {
        let logical = self.home(home).logical();
        let new = self.dirty_order().is_some_and(|order| order.visit(Come(logical, key, true)));
        self.control.dirty.bump(new.into());
    }

    /// A page that stays was cleaned.
    pub(super) fn was_cleaned(&self, home: Frame) {
        self.order().visit(Clean(self.home(home).logical()));
    }

    /// Gives each of two homes the logical frame of the other.
    pub(super) fn swap_logical(&self, a: Frame, b: Frame) {
        let (logical_a, logical_b) = (self.home(a).logical(), self.home(b).logical());
        self.set_logical(a, logical_b);
        self.set_logical(b, logical_a);
    }

    /// Says which logical frame a home is, and so which home that one is.
    pub(super) fn set_logical(&self, home: Frame, logical: LogicalFrame) {
        self.home(home).logical.store(logical.0, Relaxed);
        self.of_logical(logical).set(home);
    }

    /// Which home a logical frame is.
    fn of_logical(&self, logical: LogicalFrame) -> &FrameWord {
        &self.homes[logical.0 as usize].of_logical
    }

    /// The home of a logical frame.
    pub(super) fn home_of_logical(&self, logical: LogicalFrame) -> Frame {
        self.of_logical(logical).get()
    }

    /// The home whose page leaves next. It leaves the orders and is LEAVING. Under the lock; the policy was
    /// told what all threads have noted.
    pub(super) fn victim(&self) -> Option<Frame> {
        let logical = self.order().visit(Victim)?;
        let home = self.home_of_logical(logical);
        self.remove_dirty(logical);
        self.set_state(home, HomeState::Leaving);
        Some(home)
    }

    /// The home of the dirty page that is to be cleaned next. It leaves the order of the dirty ones.
    pub(super) fn coldest_dirty(&self) -> Option<Frame> {
        let logical = self.dirty_order()?.visit(Victim)?;
        self.control.dirty.set(self.control.dirty.get() - 1);
        Some(self.home_of_logical(logical))
    }
}
