//! Fragments that were left alone settle: after their data and what the backing device has of them are
//! durable, their records say that they are stable.

use std::ops::Range;

use super::{Health, LockedMap};
use crate::cache::Cache;
use crate::descriptor::{Descriptor, Recorded, SlotState};
use crate::geometry::RequestError;
use crate::ids::{CacheId, Fragment, Slot};
use crate::jobs::{DeviceError, FlushBacking};
use crate::planted::{self, Bug};

/// Blocks of the map that are looked at in one call.
const SWEPT_AT_ONCE: u32 = 256;

/// A flush of a volume's backing device that has begun: to be ended with [`Cache::flush_end`].
#[derive(Debug)]
#[must_use = "only flushes that were ended count"]
pub struct FlushToken {
    cache: CacheId,
    volume: usize,
    tick: u64,
}

impl Cache {
    /// Begins a flush of a volume. The host then flushes the backing device, and ends the flush here; the
    /// cache needs to know when what is in it is durable there, too. A host that never says so is asked for
    /// flushes of its own ([`Job::FlushBacking`](crate::Job::FlushBacking)).
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn flush_begin(&self, volume: usize) -> Result<FlushToken, RequestError> {
        self.geometry.check_request(volume, 0, 0)?;
        self.begun();
        Ok(FlushToken { cache: self.id, volume, tick: self.lock_map().flush_tick() })
    }

    /// Ends a flush with what the backing device said. After one that has failed nobody knows what of its
    /// writes the device has, nor does a later one tell: the volume's fragments leave, and none comes in
    /// before the cache is opened again.
    ///
    /// # Panics
    /// If the flush is another cache's.
    pub fn flush_end(&self, token: FlushToken, result: Result<(), DeviceError>) {
        self.assert_own(token.cache, "a flush");
        self.volume_flushed(token.volume, token.tick, result);
        self.ended();
    }

    fn volume_flushed(&self, volume: usize, tick: u64, result: Result<(), DeviceError>) {
        if result.is_err() {
            self.counters().backing_flushes_failed.count(1);
            if !planted::is(Bug::FailedFlushBelieved) {
                let planner = self.lock_planner();
                self.volume_flushes(volume).failed.set(1);
                drop(planner);
                // Whoever populates has seen that it failed, or is found.
                self.forget(volume).expect("a volume that there is");
                return;
            }
        }
        self.volume_flushes(volume).flushed.raise(tick);
    }

    /// A volume that the cache wants a flush of.
    pub(super) fn next_volume_flush(&self) -> Option<FlushBacking<'_>> {
        let map = self.lock_map();
        if map.map.volume_flushes_wanted.get() == 0 {
            return None;
        }
        let volumes = 0..self.geometry.config().volumes.len();
        let volume = volumes.into_iter().find(|&volume| self.volume_flushes(volume).own.get() == 1)?;
        let flushes = self.volume_flushes(volume);
        map.map.volume_flushes_wanted.lower(1);
        flushes.own.set(2);
        flushes.began.set(map.flush_tick());
        Some(FlushBacking { cache: self, volume })
    }

    pub(crate) fn backing_flushed(&self, volume: usize, result: Result<(), DeviceError>) {
        let flushes = self.volume_flushes(volume);
        self.volume_flushed(volume, flushes.began.get(), result);
        let map = self.lock_map();
        flushes.own.set(0);
        drop(map);
        self.sweep_again();
    }

    /// Looks at all fragments anew for those that have settled.
    pub(super) fn sweep_again(&self) {
        self.lock_map().map.sweep.set(0);
        self.control().work.add(1);
    }

    /// Looks at some blocks of the map for fragments that have settled, and asks for what they need.
    pub(super) fn sweep_map(&self) {
        let blocks = {
            let map = self.lock_map();
            let (from, end) = (map.map.sweep.get(), self.geometry.map_blocks());
            let to = end.min(from.saturating_add(SWEPT_AT_ONCE));
            map.map.sweep.set(to);
            from.min(to)..to
        };
        let per_block = self.geometry.records_per_block();
        for block in blocks {
            let slots = block * per_block..((block + 1) * per_block).min(self.geometry.slots());
            self.sweep_vacant(block, slots.clone());
            if self.map_block(block).unstable.get() > 0 {
                self.sweep_slots(slots);
            }
        }
    }

    /// Without the shards' locks: who writes the records looks again.
    fn sweep_slots(&self, slots: Range<u32>) {
        for slot in slots.map(Slot) {
            let descriptor = self.descriptor(slot);
            let is_due = descriptor.state() == SlotState::Cached
                && descriptor.recorded() == Recorded::Unstable
                && self.is_quiet(descriptor);
            let Some(fragment) = descriptor.fragment().filter(|_| is_due) else {
                continue;
            };
            let volume = self.geometry.volume_of(fragment);
            let (cache_is, backing_is) = self.is_flushed(descriptor, volume);
            if cache_is && backing_is {
                self.request_record(slot, false);
                continue;
            }
            let map = self.lock_map();
            if !cache_is {
                map.map.flush_wanted.set(1);
            }
            let own = &self.volume_flushes(volume).own;
            if !backing_is && own.get() == 0 {
                own.set(1);
                map.map.volume_flushes_wanted.raise(1);
            }
        }
    }

    /// Whether what a fragment's last change has written is durable: on the cache device, and on the backing
    /// device.
    fn is_flushed(&self, descriptor: &Descriptor, volume: usize) -> (bool, bool) {
        let changed = u64::from(descriptor.changed.get());
        (
            changed < self.map_control().flushed.get() || planted::is(Bug::RecordBeforeData),
            changed < self.volume_flushes(volume).flushed.get() || planted::is(Bug::RecordBeforeBacking),
        )
    }

    /// Whether a record that is written now may say that a slot is stable: under the lock of its fragment's
    /// shard.
    pub(super) fn settles(&self, slot: Slot, descriptor: &Descriptor, fragment: Fragment) -> bool {
        let blocks = 0..self.geometry.fragment_blocks();
        descriptor.state() == SlotState::Cached
            && descriptor.recorded() == Recorded::Unstable
            && !descriptor.is_leaving()
            && self.is_quiet(descriptor)
            && self.is_flushed(descriptor, self.geometry.volume_of(fragment)) == (true, true)
            && self.validity(slot).any(blocks)
            && self.health() == Health::Serving
    }
}

impl LockedMap<'_> {
    /// The tick at which a flush begins. Who quiesces does not wait for time to go on.
    pub(super) fn flush_tick(&self) -> u64 {
        if self.map.quiescing.get() == 1 {
            self.step();
        }
        self.map.tick.get()
    }
}
