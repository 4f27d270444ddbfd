//! Commits: blocks of the map are written, and the cache device is flushed.

use super::{CAPTURED, Health, LockedMap, MAP_BUFFERS, Phase};
use crate::cache::Cache;
use crate::descriptor::Recorded;
use crate::flight::FlightState;
use crate::format::{BITMAP_AT, Record, RecordState, record_bytes};
use crate::ids::{Fragment, Slot};
use crate::jobs::{DeviceError, FlushCache, Job, Next, WriteMap};
use crate::planted::{self, Bug};
use crate::shard::Place;

/// A block of the map that is being written, in one of the buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapBuffer {
    pub(crate) block: u32,
    pub(crate) buffer: u32,
}

impl Cache {
    pub(crate) fn next_map_job(&self, now: u64) -> Next<'_> {
        if !self.has_map() || self.health() != Health::Serving {
            return Next::NotBefore(u64::MAX);
        }
        let idle = {
            let map = self.lock_map();
            map.advance(now);
            map.map.phase.get() == Phase::Idle
        };
        if idle {
            self.sweep_map();
            if let Some(job) = self.next_volume_flush() {
                return Next::Job(Job::FlushBacking(job));
            }
        }
        let map = self.lock_map();
        if map.map.phase.get() == Phase::Idle && !map.begin_commit() {
            let at = match (map.is_sweeping(), self.unstable()) {
                (true, _) => now,
                (false, 0) if map.map.vacated.get() == 0 => u64::MAX,
                (false, _) => map.map.next_tick_at.get(),
            };
            return Next::NotBefore(at);
        }
        match map.map.phase.get() {
            Phase::Writing => match map.take_block() {
                Some(taken) => {
                    drop(map);
                    self.capture(taken);
                    Next::Job(Job::WriteMap(WriteMap { cache: self, taken }))
                }
                None if map.map.cursor.get().is_none() && map.map.writes_out.get() == 0 => {
                    map.map.phase.set(Phase::Flushing);
                    map.map.flush_began.set(map.flush_tick());
                    drop(map);
                    if planted::is(Bug::MarkUnflushed) {
                        self.cache_flushed(Ok(()));
                        return Next::NotBefore(now);
                    }
                    Next::Job(Job::FlushCache(FlushCache { cache: self }))
                }
                None => Next::NotBefore(u64::MAX),
            },
            Phase::Idle | Phase::Flushing => Next::NotBefore(u64::MAX),
        }
    }

    /// Takes the records of a block as they are now.
    fn capture(&self, MapBuffer { block, buffer }: MapBuffer) {
        let bytes = self.map_buffer_to_fill(buffer);
        bytes.fill(0);
        let first = block * self.geometry.records_per_block();
        let length = record_bytes(self.geometry.config().fragment_bytes) as usize;
        for (slot, place) in (first..self.geometry.slots()).zip(bytes.chunks_exact_mut(length)) {
            self.take_record(Slot(slot), place);
        }
    }

    /// Writes a slot's record into its place, which is zero.
    fn take_record(&self, slot: Slot, place: &mut [u8]) {
        let descriptor = self.descriptor(slot);
        loop {
            let Some(fragment) = descriptor.fragment() else {
                // One that is not in the list of free ones, as recovery did not know what to make of it.
                if descriptor.recorded() == Recorded::Wanted {
                    descriptor.set_recorded(Recorded::Committing);
                }
                descriptor.set_named(false);
                return;
            };
            let locked = self.lock(fragment);
            if locked.place() != Place::At(slot) {
                // It has left meanwhile.
                continue;
            }
            if self.settles(slot, descriptor, fragment) {
                descriptor.set_recorded(Recorded::Stable);
                self.count_unstable(slot, -1);
                self.counters().settled.count(1);
            } else if descriptor.recorded() == Recorded::Wanted {
                descriptor.set_recorded(Recorded::Committing);
            }
            let is_stable = descriptor.recorded() == Recorded::Stable;
            self.validity(slot).store(&mut place[BITMAP_AT..]);
            self.record(fragment, is_stable, slot, place);
            descriptor.set_named(true);
            return;
        }
    }

    fn record(&self, fragment: Fragment, is_stable: bool, slot: Slot, place: &mut [u8]) {
        let map = self.geometry.config().map.as_ref().expect("a cache with a map");
        let volume = self.geometry.volume_of(fragment);
        let record = Record {
            epoch: map.epoch,
            volume: map.volume_numbers[volume],
            fragment: fragment.0 - self.geometry.fragments_of(volume).start,
            state: if is_stable { RecordState::Stable } else { RecordState::Unstable },
        };
        record.encode(place, &self.record_id(), slot.0);
    }

    pub(crate) fn map_written(&self, taken: MapBuffer, result: Result<(), DeviceError>) {
        let map = self.lock_map();
        map.map.buffers.set(map.map.buffers.get() & !(1 << taken.buffer));
        map.map.writes_out.lower(1);
        drop(map);
        self.lock_pools().charge(crate::format::MAP_BLOCK_BYTES);
        self.counters().map_blocks_written.count(1);
        self.map_job_done(result);
    }

    fn map_job_done(&self, result: Result<(), DeviceError>) {
        if result.is_err() {
            self.counters().map_failed.count(1);
            self.set_health(Health::MapFailed);
        }
        self.control().work.add(1);
    }

    pub(crate) fn cache_flushed(&self, result: Result<(), DeviceError>) {
        if result.is_ok() {
            self.counters().map_commits.count(1);
            let control = self.map_control();
            control.flushed.raise(control.flush_began.get());
            control.durable.set(control.begun.get());
            self.end_commit();
        }
        self.map_job_done(result);
    }

    /// The commit under way is durable: records that do not count need nobody to wait for them any more.
    fn end_commit(&self) {
        let control = self.map_control();
        let list = (control.begun.get() % 2) as usize;
        let per_block = self.geometry.records_per_block();
        let mut next = control.first[list].get();
        while let Some(number) = next {
            for slot in number * per_block..((number + 1) * per_block).min(self.geometry.slots()) {
                self.committed(Slot(slot));
            }
            let block = self.map_block(number);
            next = block.next[list].get();
            let _map = self.lock_map();
            block.flags.set(block.flags.get() & !(CAPTURED | 1 << list));
        }
        let map = self.lock_map();
        map.map.first[list].set(None);
        map.map.phase.set(Phase::Idle);
        if map.map.flush_wanted.get() == 1 || map.map.quiescing.get() == 1 {
            map.map.flush_wanted.set(0);
            map.map.sweep.set(0);
        }
    }

    /// What was written of a slot is durable.
    fn committed(&self, slot: Slot) {
        let descriptor = self.descriptor(slot);
        if descriptor.recorded() != Recorded::Committing {
            return;
        }
        let Some(fragment) = descriptor.fragment() else {
            descriptor.set_recorded(Recorded::Unstable);
            self.lock_pools().give_slot(slot);
            return;
        };
        let locked = self.lock(fragment);
        assert_eq!(locked.place(), Place::At(slot), "invariant 10: nothing leaves before its record");
        descriptor.set_recorded(Recorded::Unstable);
        for number in self.flights(descriptor) {
            if self.flight(number).state() == FlightState::Parked {
                self.queue(number, self.flight(number));
            }
        }
        if descriptor.is_leaving() {
            descriptor.set_leaving(false);
            // Whoever writes to it now has it stay.
            if !descriptor.is_used() {
                locked.unmap(slot);
                self.counters().fragments_left.count(1);
            }
        }
    }
}

impl LockedMap<'_> {
    /// Begins a commit if there is a reason to; whether it has.
    fn begin_commit(&self) -> bool {
        let wanted = self.is_wanted() || self.map.flush_wanted.get() == 1;
        let due = wanted && (self.map.urgent.get() == 1 || !self.is_sweeping());
        if due {
            self.map.urgent.set(0);
            let number = self.map.begun.bump(1) + 1;
            self.map.cursor.set(self.map.first[(number % 2) as usize].get());
            self.map.phase.set(Phase::Writing);
        }
        due
    }

    /// The next block of the commit under way, with a buffer for it.
    fn take_block(&self) -> Option<MapBuffer> {
        let buffer = (!self.map.buffers.get()).trailing_zeros();
        let block = self.map.cursor.get().filter(|_| (buffer as usize) < MAP_BUFFERS)?;
        let of_block = self.cache.map_block(block);
        of_block.flags.set(of_block.flags.get() | CAPTURED);
        self.map.cursor.set(of_block.next[(self.map.begun.get() % 2) as usize].get());
        self.map.buffers.set(self.map.buffers.get() | 1 << buffer);
        self.map.writes_out.raise(1);
        Some(MapBuffer { block, buffer })
    }
}
