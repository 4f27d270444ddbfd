//! Fragments become unstable: before a write, and before they leave.

use super::hold::QUIET_TICKS;
use super::{Health, MapControl};
use crate::cache::Cache;
use crate::descriptor::{Descriptor, Recorded};
use crate::ids::Slot;
use crate::planted::{self, Bug};

/// Why a fragment has to be unstable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Because {
    /// It is written to or discarded.
    Write,
    /// It is to leave, or a block of it cannot be read.
    Leaves,
}

impl Cache {
    /// Writes whose [`WriteToken::waits_for`](crate::WriteToken::waits_for) is no more than this may be sent
    /// to their backing devices. It rises when a [`Job::FlushCache`](crate::Job::FlushCache) is done. Of a
    /// cache that is offline nothing waits.
    pub fn marks_durable(&self) -> u64 {
        if self.is_offline() { u64::MAX } else { self.map_control().durable.get() }
    }

    /// Of a cache that begins. What it is opened with has no stamp, and was left alone for long.
    pub(crate) fn begin_ticks(&self) {
        self.map_control().tick.set(u64::from(QUIET_TICKS) + 1);
        self.begin_reach();
    }

    /// The tick with which changes are stamped now.
    fn tick(&self) -> u32 {
        self.map_control().tick.get() as u32
    }

    /// Something of a fragment, or of its slot, has changed: under the lock of its shard.
    pub(crate) fn stamp(&self, descriptor: &Descriptor) {
        if self.has_map() {
            descriptor.changed.set(self.tick());
            if self.is_quiescing() {
                self.sweep_again();
            }
        }
    }

    /// Has the record of a slot not count any more, under the lock of its fragment's shard: the number of the
    /// commit by which it does not, and 0 if no crash can leave one that does.
    pub(crate) fn want_unstable(&self, slot: Slot, descriptor: &Descriptor, because: Because) -> u64 {
        if because == Because::Write && self.has_map() {
            self.learn_pace(descriptor);
        }
        let number = match descriptor.recorded() {
            Recorded::Unstable => 0,
            Recorded::Committing => self.map_control().begun.get(),
            Recorded::Wanted => self.request_record(slot, true),
            Recorded::Stable => {
                descriptor.set_recorded(Recorded::Wanted);
                self.count_unstable(slot, 1);
                self.counters().marks.count(1);
                self.request_record(slot, true)
            }
        };
        if planted::is(Bug::WriteBeforeMark) { 0 } else { number }
    }

    /// Has the record of a slot be written.
    pub(crate) fn request_record(&self, slot: Slot, is_urgent: bool) -> u64 {
        let map = self.lock_map();
        let number = map.request(slot.0 / self.geometry.records_per_block(), is_urgent);
        drop(map);
        self.control().work.add(1);
        number
    }

    /// Has the cache device be flushed; the number of the commit that does.
    pub(crate) fn request_flush(&self) -> u64 {
        let number = self.lock_map().request_flush();
        self.control().work.add(1);
        number
    }

    /// One more fragment of a slot's block of the map, or one fewer (-1), is not recorded as stable.
    pub(crate) fn count_unstable(&self, slot: Slot, by: i32) {
        if !self.has_map() {
            return;
        }
        let block = self.map_block(slot.0 / self.geometry.records_per_block());
        block.unstable.change(|count| Some(count.checked_add_signed(by).expect("what settles was unstable")));
        // Wraps as a subtraction does.
        self.map_control().unstable.add(i64::from(by) as u64);
    }

    /// Fragments that are not recorded as stable.
    pub(crate) fn unstable(&self) -> u64 {
        self.map_control().unstable.get()
    }

    /// Whether nothing keeps a fragment from settling that its slot's descriptor tells.
    pub(super) fn is_quiet(&self, descriptor: &Descriptor) -> bool {
        if descriptor.is_used() && !planted::is(Bug::StableUnderWrites) {
            return false;
        }
        self.is_quiescing() || self.quiet_ticks(descriptor) >= self.hold_ticks(descriptor)
    }

    /// Ticks since a fragment was changed.
    pub(super) fn quiet_ticks(&self, descriptor: &Descriptor) -> u32 {
        self.tick().saturating_sub(descriptor.changed.get())
    }

    /// Begins to have all fragments settle, however short a time ago they were written to; nothing is
    /// populated meanwhile. For a host that is going to close the cache: when [`Cache::is_settled`] nothing
    /// is lost by closing.
    pub fn quiesce(&self) {
        self.map_control().quiescing.set(1);
        self.sweep_again();
    }

    /// Ends what [`Cache::quiesce`] has begun.
    pub fn resume(&self) {
        self.map_control().quiescing.set(0);
        self.control().work.add(1);
    }

    /// Whether every fragment in the cache is recorded as stable, durably, no record names what has left
    /// since it was opened, and nothing is under way.
    pub fn is_settled(&self) -> bool {
        if !self.has_map() {
            return self.outstanding() == 0;
        }
        let MapControl { begun, durable, .. } = self.map_control();
        let (before, is_serving) = (self.outstanding(), self.health() == Health::Serving);
        let map = self.lock_map();
        is_serving
            && before == 0
            && self.unstable() == 0
            && !map.is_wanted()
            && map.map.flush_wanted.get() == 0
            && map.map.vacated.get() == 0
            && begun.get() == durable.get()
    }
}
