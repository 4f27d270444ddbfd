//! Pages leave: the policy names them ahead of need, and a clean one is let go at once.

use super::{HomeState, Homes, InPlace};
use crate::directory::{DIRTY, VALID};
use crate::groups::group::Reserve;
use crate::ids::{Frame, IdRange};
use crate::placement::{Step, Tried};
use crate::planted::{self, Bug};
use crate::stage_out::batch::Load;

/// What became of a page that the policy has named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// It is not in the tier any more.
    Gone,
    /// It leaves when it has been written to disk, or there is room for its tombstone; or it has left
    /// meanwhile.
    Listed,
    /// The list is full. It is a page like others again.
    Stays,
}

impl Homes<'_> {
    /// Homes that are free or on their way to it.
    pub(super) fn coming(&self) -> u64 {
        self.control.free.get() + self.deferred_frees() + self.control.leaving.get()
    }

    /// Whether more homes are free than stay free once a tier is full.
    pub(crate) fn has_spare(&self) -> bool {
        self.control.free.get() > self.geometry.kept_coming
    }

    /// Whether a page can come in without another one leaving for it.
    pub(super) fn has_room(&self) -> bool {
        self.coming() > self.geometry.kept_coming
    }

    /// Lists a page that is to leave; false if the list is full.
    pub(super) fn push_leaving(&self, home: Frame) -> bool {
        let (first, end) = (self.control.leaving_first.get(), self.control.leaving_end.get());
        let count = self.leaving.len() as u64;
        if end - first == count {
            return false;
        }
        self.leaving[(end % count) as usize].set(home);
        self.control.leaving_end.set(end + 1);
        true
    }

    /// The first of the list that is still to leave; and takes it off the list.
    pub(super) fn pop_leaving(&self) -> Option<Frame> {
        while self.control.leaving_first.get() < self.control.leaving_end.get() {
            let first = self.control.leaving_first.bump(1);
            let home = self.leaving[(first % self.leaving.len() as u64) as usize].get();
            if self.state(home) == HomeState::Leaving {
                return Some(home);
            }
        }
        None
    }

    /// Whether pages wait to be written to disk, or to be let go.
    pub(super) fn has_leaving(&self) -> bool {
        self.control.leaving_first.get() < self.control.leaving_end.get()
    }
}

impl InPlace<'_> {
    /// What there is to do without I/O. Under the control lock.
    pub(super) fn step_wanted(&self, tried: &Tried) -> Option<Step> {
        // What waits for groups says so before it is asked whether the open one is to be closed.
        self.pass_ring_barrier();
        match () {
            () if !tried.copy_forward && self.take_copy_forward() => Some(Step::CopyForward),
            () if !tried.evict && self.take_eviction() => Some(Step::Evict),
            // A drain and pages that leave take turns.
            () if !tried.list && self.control().batch.carries(Load::Drain) && self.take_dirty_evictions() => {
                Some(Step::List)
            }
            () => None,
        }
    }

    /// Whether the policy is to be asked for victims; the caller is the one who asks. Under the control lock.
    pub(crate) fn take_eviction(&self) -> bool {
        let homes = self.homes();
        let placed = homes.control;
        let wanted = homes.coming() < homes.geometry.kept_coming;
        let idle = placed.evicting.get() == 0 && self.control().draining.get() == 0;
        if !wanted || !idle {
            return false;
        }
        placed.evicting.set(1);
        placed.evicting_owner.set(self.owner.into());
        true
    }

    /// Asks the policy for victims, and lets clean ones go. True if one of them leaves: where all stay,
    /// nothing has changed, and only a job that is under way makes room in the list. No lock is held.
    pub(crate) fn evict(&self) -> bool {
        let homes = self.homes();
        let most = self.geometry.batch_pages().max(self.geometry.group_pages());
        let (mut victims, mut moved) = (0, false);
        while victims < most {
            let victim = {
                let _guard = homes.lock(self.owner);
                homes.tell_of_all(self.owner);
                // Where the policy chooses what comes in, no more leaves than has to, or colder pages would
                // follow.
                let enough = homes.geometry.selective && homes.coming() >= homes.geometry.kept_coming;
                let victim = if enough { None } else { homes.victim() };
                planted::inside("evict: victim named");
                victim
            };
            let Some(home) = victim else { break };
            victims += 1;
            planted::outside("evict: victim not listed");
            moved |= self.let_go(home) != Leave::Stays;
        }
        homes.control.evicting.set(0);
        if victims > 0 && homes.slots.is_some() {
            // A home whose page never came to be named on flash is free without a write, so no job will say
            // so.
            let _guard = self.control().lock.lock(self.owner);
            self.free_deferred();
        }
        moved || planted::is(Bug::StayingPagesEvicted) && victims > 0
    }

    /// Lets a LEAVING page go if it is clean; otherwise, or if there is no room for its tombstone, lists it.
    pub(super) fn let_go(&self, home: Frame) -> Leave {
        let homes = self.homes();
        // Nothing is appended behind the last sync of a host that leaves the tier.
        if self.control().draining.get() == 0 && self.dismiss(home) {
            return Leave::Gone;
        }
        let _guard = homes.lock(self.owner);
        if homes.state(home) == HomeState::Leaving && !homes.push_leaving(home) {
            self.stays(home);
            return Leave::Stays;
        }
        Leave::Listed
    }

    /// The page of a LEAVING home stays for now: it is a page like others again, which the policy names in
    /// its turn. Under the lock of the homes.
    pub(super) fn stays(&self, home: Frame) {
        let homes = self.homes();
        let entry = homes.home(home).entry();
        let directory = self.directory();
        let (id, dirty) = (directory.id(entry), directory.state(entry) & DIRTY != 0);
        homes.set_state(home, HomeState::Used);
        homes.came(home, homes.key(&id), dirty);
    }

    /// Unlinks the page of a LEAVING home if it is clean and its tombstone finds room.
    fn dismiss(&self, home: Frame) -> bool {
        let homes = self.homes();
        let directory = self.directory();
        let id = directory.id(homes.home(home).entry());
        let shard = directory.lock(directory.hashed(&id), self.owner);
        // Whether it is still that page's, and where its newest record is, is known under its lock.
        let Some(entry) = shard.find(&id) else { return false };
        let state = directory.state(entry);
        let dirty = state & DIRTY != 0 && !planted::is(Bug::DirtyEvicted);
        if homes.of_entry(entry) != home || homes.state(home) != HomeState::Leaving || dirty {
            return false;
        }
        debug_assert_ne!(state & VALID, 0);
        let range = IdRange { start: id, count: 1, shift: 0 };
        if !planted::is(Bug::EvictedWithoutTombstone)
            && self.append_tombstone(range, None, Reserve::Foreground).is_err()
        {
            return false;
        }
        planted::inside("evict: tombstone appended");
        shard.unlink(entry);
        shard.changed();
        planted::inside("evict: unlinked");
        self.unplaced(home);
        self.control().counters.left_clean.count(1);
        true
    }

    /// Takes up what an owner that has died had in its hands. Under the control lock.
    pub(crate) fn abandon_eviction(&self, dead: u64) {
        let homes = self.homes();
        let placed = homes.control;
        if placed.evicting.get() == 1 && placed.evicting_owner.get() == dead {
            placed.evicting.set(0);
        }
        self.list_anew();
    }

    /// Lists all pages that are LEAVING, and the dirty pages that are in no order.
    pub(crate) fn list_anew(&self) {
        let homes = self.homes();
        let directory = self.directory();
        let _guard = homes.lock(self.owner);
        let placed = homes.control;
        placed.leaving_first.set(placed.leaving_end.get());
        for home in homes.all() {
            let entry = homes.home(home).entry();
            match homes.state(home) {
                HomeState::Leaving => {
                    let listed = homes.push_leaving(home);
                    assert!(listed, "the list, which was emptied, has a place for each home");
                }
                HomeState::Used if directory.state(entry) & DIRTY != 0 => {
                    homes.came_dirty(home, homes.key(&directory.id(entry)));
                }
                _ => {}
            }
        }
    }
}
