//! The cache grows and shrinks while it is used.
//!
//! Its arrays are laid out for the most slots that it can have. A limit says how many of them are in use;
//! free ones behind it are *withdrawn*. Who shrinks the cache lowers the limit, and what lies behind it
//! leaves as evicted fragments do, a few in each call: when its record does not count any more, and when
//! nothing is on its way there.
//!
//! A size that is to last stands in the superblock
//! ([`Superblock::resized`](crate::format::Superblock::resized)), which the host writes before it resizes the
//! cache. A crash at any moment leaves the old size or the new one; where that is less than what lies on the
//! device, recovery writes over the records behind it.

use mezzanine_ground::region::{Word, shared};

use crate::cache::Cache;
use crate::config::ConfigError;
use crate::descriptor::SlotState;
use crate::ids::Slot;
use crate::planner::LockedPlanner;
use crate::planted::{self, Bug};
use crate::shard::Place;

/// Slots that are looked at in one call.
const STEPS_MAX: u32 = 256;
/// When what could not leave is looked at again.
const AGAIN_NS: u64 = 10_000_000;

/// What leaves because the cache has shrunk: under the planner's lock. Zero is: nothing does.
#[repr(C)]
pub(crate) struct Resizing {
    /// 1 until nothing lies behind the limit.
    is_shrinking: Word,
    /// The slot that is looked at next, and how many of this round had to stay.
    next: Word,
    stayed: Word,
    /// When the next round begins, in nanoseconds of the host's clock.
    round_at: Word,
}
shared!(Resizing);

impl Cache {
    /// Has the cache use so many bytes of its device for fragments from now on, at most those that it was
    /// made for. What it has too much leaves in the background; [`Cache::is_resized`] says when that is over.
    /// It lasts as long as this opening of the cache, unless the superblock says the same.
    ///
    /// # Errors
    /// If that is less than a fragment, or more than the cache was made for.
    pub fn resize(&self, bytes: u64) -> Result<(), ConfigError> {
        let fragment = self.geometry.config().fragment_bytes;
        let most = u64::from(self.geometry.slots()) * fragment;
        if !(fragment..=most).contains(&bytes) {
            let reason = format!("{bytes} bytes for fragments are not between {fragment} and {most}");
            return Err(ConfigError::new("size", reason, format!("use {}", bytes.clamp(fragment, most))));
        }
        let planner = self.lock_planner();
        let slots = (bytes / fragment) as u32;
        let shrinks = slots < self.slots_limit();
        self.lock_pools().set_limit(slots);
        if shrinks {
            let resizing = &planner.planner.resizing;
            resizing.is_shrinking.set(1);
            resizing.next.set(slots.into());
            resizing.stayed.set(0);
            resizing.round_at.set(0);
        }
        drop(planner);
        self.control().work.add(1);
        Ok(())
    }

    /// Fragments that the cache has room for just now.
    pub fn slots_limit(&self) -> u32 {
        self.control().pools.limit(self.geometry.slots())
    }

    /// Fragments that still lie behind the limit: a look at each slot there.
    pub fn fragments_behind_limit(&self) -> u32 {
        let slots = (self.slots_limit()..self.geometry.slots()).map(Slot);
        slots.filter(|slot| self.descriptor(*slot).fragment().is_some()).count() as u32
    }

    /// Whether nothing lies behind the limit any more: nothing is written there from then on, and what is
    /// read there is not believed ([`Cache::confirm`]). A cache that has a map is asked for jobs until then.
    pub fn is_resized(&self) -> bool {
        self.lock_planner().planner.resizing.is_shrinking.get() == 0
    }
}

impl LockedPlanner<'_> {
    /// Has some of what lies behind the limit leave. When there is more to do: `u64::MAX` if nothing is.
    pub(crate) fn shrink(&self) -> u64 {
        let (resizing, now) = (&self.planner.resizing, self.planner.now.get());
        if resizing.is_shrinking.get() == 0 {
            return u64::MAX;
        }
        if now < resizing.round_at.get() {
            return resizing.round_at.get();
        }
        let (limit, end) = (self.cache.slots_limit(), self.cache.geometry.slots());
        let from = (resizing.next.get() as u32).max(limit);
        let to = end.min(from.saturating_add(STEPS_MAX));
        for slot in (from..to).map(Slot) {
            if !self.leaves(slot) {
                resizing.stayed.add(1);
            }
        }
        resizing.next.set(to.into());
        if to < end {
            return now;
        }
        resizing.next.set(limit.into());
        if resizing.stayed.get() == 0 {
            resizing.is_shrinking.set(0);
            return u64::MAX;
        }
        resizing.stayed.set(0);
        resizing.round_at.set(now.saturating_add(AGAIN_NS));
        resizing.round_at.get()
    }

    /// Whether a slot is empty, or is now.
    fn leaves(&self, slot: Slot) -> bool {
        let descriptor = self.cache.descriptor(slot);
        loop {
            let Some(fragment) = descriptor.fragment() else {
                return true;
            };
            let locked = self.cache.lock(fragment);
            if locked.place() != Place::At(slot) {
                // It has left meanwhile.
                continue;
            }
            if descriptor.state() != SlotState::Cached || descriptor.is_used() || descriptor.is_leaving() {
                return planted::is(Bug::ShrunkUnderWrites);
            }
            self.cache.counters().fragments_shrunk.count(1);
            return locked.leave(slot);
        }
    }
}
