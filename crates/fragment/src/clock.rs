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
    /// It has gone as far as it goes in one call.
    Further,
    /// Every fragment is being written to.
    Nothing,
}

impl LockedPlanner<'_> {
    /// Has one fragment leave.
    pub(crate) fn sweep(&self) -> Swept {
        let slots = self.cache.geometry.slots();
        let most = (u64::from(REFERENCES_MAX) + 2) * u64::from(slots);
        for _ in 0..STEPS_MAX {
            let slot = Slot(self.planner.hand.get());
            self.planner.hand.set((slot.0 + 1) % slots);
            if self.planner.passed.bump(1) >= most {
                self.planner.passed.set(0);
                return Swept::Nothing;
            }
            if self.evict(slot) {
                self.planner.passed.set(0);
                return Swept::Freed;
            }
        }
        Swept::Further
    }

    /// Lowers the counter of what lies in a slot, or has it leave.
    fn evict(&self, slot: Slot) -> bool {
        let descriptor = self.cache.descriptor(slot);
        let Some(fragment) = descriptor.fragment() else {
            return false;
        };
        if descriptor.state() != SlotState::Cached || descriptor.pass() {
            return false;
        }
        let locked = self.cache.lock(fragment);
        // It was looked at without the lock.
        if locked.place() != Place::At(slot) || descriptor.state() != SlotState::Cached {
            return false;
        }
        let is_used = descriptor.writes.get() > 0 || descriptor.flights.get().is_some();
        if is_used && !planted::is(Bug::EvictedUnderCopies) {
            return false;
        }
        if descriptor.references() > 0 {
            return false;
        }
        locked.unmap(slot);
        self.cache.counters().evictions.count(1);
        true
    }
}
