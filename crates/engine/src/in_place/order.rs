//! What the policy is told.

use std::sync::atomic::Ordering::Relaxed;

use mezzanine_ground::replacement::{PageKey, Replacement, Visitor};

use super::{HomeState, Homes, InPlace};
use crate::ids::EntryNumber;

/// The page was referenced. False if it is not in the order.
pub(super) struct Refer(pub(super) u32);

/// The page came in, or was written again; and whether it is newer than disk.
pub(super) struct Come(pub(super) u32, pub(super) PageKey, pub(super) bool);

/// The page is gone for good. False if it was not in the order.
pub(super) struct Remove(pub(super) u32);

/// Disk has the page now.
pub(super) struct Clean(pub(super) u32);

/// The page that leaves.
pub(super) struct Victim;

/// The page was referenced, and is not there.
pub(super) struct Miss(pub(super) PageKey);

/// Whether the page, which is not there, is worth the place of the one that leaves next.
pub(super) struct Admit(pub(super) PageKey);

/// For tests: the order's own rules, and which ranks are in it.
pub(super) struct Check(pub(super) u32);

impl Visitor for Refer {
    type Output = bool;

    fn visit<P: Replacement>(self, policy: &P) -> bool {
        let known = policy.contains(self.0);
        if known {
            policy.referenced(self.0);
        }
        known
    }
}

impl Visitor for Come {
    /// Whether it was not there.
    type Output = bool;

    fn visit<P: Replacement>(self, policy: &P) -> bool {
        let Self(rank, page, dirty) = self;
        let new = !policy.contains(rank);
        if new {
            policy.inserted(rank, page);
        }
        if dirty {
            policy.dirtied(rank);
        }
        if !new {
            policy.referenced(rank);
        }
        new
    }
}

impl Visitor for Remove {
    type Output = bool;

    fn visit<P: Replacement>(self, policy: &P) -> bool {
        let known = policy.contains(self.0);
        if known {
            policy.removed(self.0);
        }
        known
    }
}

impl Visitor for Clean {
    type Output = ();

    fn visit<P: Replacement>(self, policy: &P) {
        if policy.contains(self.0) {
            policy.cleaned(self.0);
        }
    }
}

impl Visitor for Victim {
    type Output = Option<u32>;

    fn visit<P: Replacement>(self, policy: &P) -> Option<u32> {
        policy.victim()
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
        (0..self.0).map(|rank| policy.contains(rank)).collect()
    }
}

impl Homes<'_> {
    /// A page came to a home, or was written again there.
    pub(super) fn came(&self, home: u32, key: PageKey, dirty: bool) {
        let rank = self.home(home).rank.load(Relaxed);
        self.order().visit(Come(rank, key, dirty));
        if dirty {
            self.came_dirty(home, key);
        }
    }

    /// A dirty page goes back to the order of the dirty ones.
    pub(super) fn came_dirty(&self, home: u32, key: PageKey) {
        let rank = self.home(home).rank.load(Relaxed);
        let new = self.dirty_order().is_some_and(|order| order.visit(Come(rank, key, true)));
        self.control.dirty.bump(new.into());
    }

    /// A page that stays was cleaned.
    pub(super) fn was_cleaned(&self, home: u32) {
        self.order().visit(Clean(self.home(home).rank.load(Relaxed)));
    }

    /// Gives each of two homes the rank of the other.
    pub(super) fn swap_ranks(&self, a: u32, b: u32) {
        let (home_a, home_b) = (self.home(a), self.home(b));
        let (rank_a, rank_b) = (home_a.rank.load(Relaxed), home_b.rank.load(Relaxed));
        home_a.rank.store(rank_b, Relaxed);
        home_b.rank.store(rank_a, Relaxed);
        self.home(rank_a).of_rank.store(b, Relaxed);
        self.home(rank_b).of_rank.store(a, Relaxed);
    }

    /// The home whose page leaves next. It leaves the orders and is LEAVING.
    pub(super) fn victim(&self) -> Option<u32> {
        let rank = self.order().visit(Victim)?;
        let home = self.home(rank).of_rank.load(Relaxed);
        self.remove_dirty(rank);
        self.set_state(home, HomeState::Leaving);
        Some(home)
    }

    /// The home of the dirty page that is to be cleaned next. It leaves the order of the dirty ones.
    pub(super) fn coldest_dirty(&self) -> Option<u32> {
        let rank = self.dirty_order()?.visit(Victim)?;
        self.control.dirty.set(self.control.dirty.get() - 1);
        Some(self.home(rank).of_rank.load(Relaxed))
    }
}

impl InPlace<'_> {
    /// A lookup has found the page at `entry`: tells the policy, and returns the page's home.
    #[cold]
    #[inline(never)]
    pub(super) fn refer(&self, entry: EntryNumber) -> u32 {
        let homes = self.homes();
        let home = homes.of_entry(entry);
        let _guard = homes.lock(self.owner);
        // The page may have left since it was seen.
        let there = homes.home(home);
        if homes.state(home) == HomeState::Used && there.entry() == entry {
            let rank = there.rank.load(Relaxed);
            homes.order().visit(Refer(rank));
            if let Some(order) = homes.dirty_order() {
                order.visit(Refer(rank));
            }
        }
        home
    }
}
