//! Which fragment leaves: CLOCK with counters, as in PostgreSQL's buffer manager (section 3.5 of the paper).
//!
//! An access raises a fragment's counter up to 4. A hand goes round the slots; it lowers the counters that it
//! passes, and a fragment whose counter is 0 leaves. Fragments that are being written to, or into, are passed
//! over (invariant 6).

use crate::config::REFERENCES_MAX;
use crate::descriptor::SlotState;
use crate::ids::Slot;
use crate::planner::LockedPlanner;
use crate::planted::{self, Bug};
use crate::shard::Place;

/// Slots that the hand passes in one call.
const STEPS_MAX: u32 = 1 << 16;

/// What the hand has found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    /// A slot is free now.
    Freed,
    /// What lies in this one leaves as soon as its record does not count any more.
    Leaving(Slot),
    /// It has gone as far as it goes in one call.
    Further,
    /// Every fragment is being written to.
    Nothing,
}

impl LockedPlanner<'_> {
    /// Has one fragment leave.
    pub(crate) fn sweep(&self) -> Swept {
        let slots = self.cache.slots_limit();
        let most = (u64::from(REFERENCES_MAX) + 2) * u64::from(slots);
        for _ in 0..STEPS_MAX {
            // The cache may be smaller than it was.
            let slot = Slot(self.planner.hand.get() % slots);
            self.planner.hand.set((slot.0 + 1) % slots);
            if self.planner.passed.bump(1) >= most {
                self.planner.passed.set(0);
                return Swept::Nothing;
            }
            if let Some(is_gone) = self.evict(slot) {
                self.planner.passed.set(0);
                return if is_gone { Swept::Freed } else { Swept::Leaving(slot) };
            }
        }
        Swept::Further
    }

    /// Lowers the counter of what lies in a slot, or has it leave: whether it is gone.
    fn evict(&self, slot: Slot) -> Option<bool> {
        let descriptor = self.cache.descriptor(slot);
        let fragment = descriptor.fragment()?;
        if descriptor.state() != SlotState::Cached || descriptor.is_leaving() || descriptor.pass() {
            return None;
        }
        let locked = self.cache.lock(fragment);
        // It was looked at without the lock.
        if locked.place() != Place::At(slot)
            || descriptor.state() != SlotState::Cached
            || descriptor.is_leaving()
        {
            return None;
        }
        if descriptor.is_used() && !planted::is(Bug::EvictedUnderCopies) {
            return None;
        }
        if descriptor.references() > 0 {
            return None;
        }
        self.cache.counters().evictions.count(1);
        Some(locked.leave(slot))
    }
}
