//! Jobs: what the host does for the cache.
//!
//! A host calls [`Cache::next_job`], carries the job out and hands it back with [`Cache::done`]. Any thread
//! may do so; several may at once. What the map needs comes first, as writes may wait for it, then copies of
//! writes, since as long as they wait reads of their blocks go to the backing device; but after some a
//! population has its turn, as they may never end. A host may have threads for each kind.

use std::fmt;
use std::ops::Range;

use crate::cache::Cache;
use crate::config::BLOCK_BYTES;
use crate::descriptor::Recorded;
use crate::flight::{Flight, FlightState};
use crate::format::MAP_BLOCK_BYTES;
use crate::ids::{FlightNumber, WorkerNumber};
use crate::map::MapBuffer;
use crate::planted::{self, Bug};
use crate::shard::Locked;
use crate::validity::runs;

/// After so many copies a population is handed out, if one has something to do.
const COPIES_IN_A_ROW_MAX: u64 = 8;

/// A device has not done what it was asked for. What it says itself is the host's to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceError;

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the device has failed; see what it said itself")
    }
}

impl std::error::Error for DeviceError {}

/// What there is to do.
#[must_use = "a job that is not done keeps its fragment and its memory"]
pub enum Next<'c> {
    /// This.
    Job(Job<'c>),
    /// Nothing before this time, in nanoseconds of the host's clock; `u64::MAX` is: not before
    /// [`Cache::work`] changes. Whatever the time, there may be something when that has changed.
    NotBefore(u64),
}

/// Work for the host.
#[must_use = "a job that is not done keeps its fragment and its memory"]
pub enum Job<'c> {
    /// Write copies to the cache device.
    WriteBlocks(WriteBlocks<'c>),
    /// Read a fragment from its volume's backing device.
    ReadFragment(ReadFragment<'c>),
    /// Write a fragment to the cache device.
    WriteFragment(WriteFragment<'c>),
    /// Write a block of the map to the cache device.
    WriteMap(WriteMap<'c>),
    /// Flush the cache device.
    FlushCache(FlushCache<'c>),
    /// Flush the backing device of a volume.
    FlushBacking(FlushBacking<'c>),
}

/// Copies of what was written to a volume.
pub struct WriteBlocks<'c> {
    cache: &'c Cache,
    number: FlightNumber,
}

/// A fragment that is to be read.
pub struct ReadFragment<'c> {
    pub(crate) cache: &'c Cache,
    pub(crate) number: WorkerNumber,
}

/// A fragment that was read.
pub struct WriteFragment<'c> {
    pub(crate) cache: &'c Cache,
    pub(crate) number: WorkerNumber,
}

/// A block of the map.
pub struct WriteMap<'c> {
    pub(crate) cache: &'c Cache,
    pub(crate) taken: MapBuffer,
}

/// A flush of the cache device.
pub struct FlushCache<'c> {
    pub(crate) cache: &'c Cache,
}

/// A flush of a backing device.
pub struct FlushBacking<'c> {
    pub(crate) cache: &'c Cache,
    pub(crate) volume: usize,
}

impl Cache {
    /// The next job, if there is one now. `now` is the time in nanoseconds of any clock that does not go
    /// back. A host that is going to wait reads [`Cache::work`] before it asks here, and not after: what came
    /// in between would be waited for in vain.
    pub fn next_job(&self, now: u64) -> Next<'_> {
        self.reckon_budget(now);
        self.time_is(now);
        let map_at = match self.next_map(now) {
            Next::Job(job) => return Next::Job(job),
            Next::NotBefore(at) => at,
        };
        let in_a_row = &self.control().copies_in_a_row;
        if in_a_row.get() >= COPIES_IN_A_ROW_MAX {
            in_a_row.set(0);
            if let Next::Job(job) = self.next_population(now) {
                return Next::Job(job);
            }
        }
        in_a_row.add(1);
        let copy_at = match self.next_copy() {
            Next::Job(job) => return Next::Job(job),
            Next::NotBefore(at) => at,
        };
        match self.next_population(now) {
            Next::Job(job) => Next::Job(job),
            Next::NotBefore(at) => Next::NotBefore(at.min(map_at).min(copy_at)),
        }
    }

    /// The next job of the map, which writes wait for: one kind alone, as [`Cache::next_job`] otherwise.
    pub fn next_map(&self, now: u64) -> Next<'_> {
        self.handed_out(self.next_map_job(now))
    }

    /// The next copy of a write, if there is one: one kind alone, as [`Cache::next_job`] otherwise. It goes
    /// by the time that was last said.
    pub fn next_copy(&self) -> Next<'_> {
        if self.control().pools.has_queued() {
            if let Some(until) = self.copies_yield_until() {
                self.counters().copies_yielded.count(1);
                return Next::NotBefore(until);
            }
        }
        let copy = self.next_copy_job();
        self.handed_out(copy.map_or(Next::NotBefore(u64::MAX), |job| Next::Job(Job::WriteBlocks(job))))
    }

    /// The next step of a population: one kind alone, as [`Cache::next_job`] otherwise.
    pub fn next_population(&self, now: u64) -> Next<'_> {
        self.reckon_budget(now);
        self.time_is(now);
        self.handed_out(self.next_population_job(now))
    }

    fn handed_out<'c>(&self, next: Next<'c>) -> Next<'c> {
        if matches!(next, Next::Job(_)) {
            self.begun();
        }
        next
    }

    /// Takes back a job that was carried out, or that a device has refused: in either case nothing of it may
    /// reach a device any more. After an error its blocks are not valid, and nothing is tried again.
    ///
    /// # Panics
    /// If the job is another cache's.
    pub fn done(&self, job: Job<'_>, result: Result<(), DeviceError>) {
        self.assert_own(job.cache().id, "a job");
        match job {
            Job::WriteBlocks(job) => self.copy_written(job.number, result),
            Job::ReadFragment(job) => self.fragment_read(job.number, result),
            Job::WriteFragment(job) => self.fragment_written(job.number, result),
            Job::WriteMap(job) => self.map_written(job.taken, result),
            Job::FlushCache(_) => self.cache_flushed(result),
            Job::FlushBacking(job) => self.backing_flushed(job.volume, result),
        }
        self.ended();
    }

    /// The flight that has waited longest of those that may be written now.
    fn next_copy_job(&self) -> Option<WriteBlocks<'_>> {
        loop {
            let number = self.lock_pools().dequeue()?;
            // Nobody else frees it, now that it is out of the queue.
            let flight = self.flight(number);
            let locked = self.lock(flight.fragment());
            assert_eq!(flight.state(), FlightState::Queued);
            let is_recorded = self.descriptor(flight.slot()).recorded() != Recorded::Unstable;
            if self.is_offline() {
                flight.owed.set(0);
            }
            if flight.owed.get() == 0 {
                // Others have taken its blocks over, or the backing device has refused the write.
                self.drop_copy(&locked, number);
            } else if is_recorded && !planted::is(Bug::CopyBeforeMark) {
                // The commit that takes the mark queues it again (invariant 10).
                flight.set_state(FlightState::Parked);
            } else if self.is_overtaking(flight) && !planted::is(Bug::CopiesOvertake) {
                flight.set_state(FlightState::Parked);
            } else if !self.lock_pools().afford(u64::from(flight.owed.get().count_ones()) * BLOCK_BYTES) {
                self.counters().bypass_write_budget.count(1);
                self.drop_copy(&locked, number);
            } else {
                flight.writing.set(flight.owed.get());
                flight.set_state(FlightState::Writing);
                self.copy_goes_on();
                return Some(WriteBlocks { cache: self, number });
            }
        }
    }

    /// The copy of a flight, which is in no queue, is not written: what it owes does not become valid.
    fn drop_copy(&self, locked: &Locked<'_>, number: FlightNumber) {
        let flight = self.flight(number);
        flight.owed.set(0);
        flight.set_state(FlightState::Written);
        self.release_copy(&self.lock_pools(), flight);
        let descriptor = self.descriptor(flight.slot());
        self.settle(locked, number);
        self.stamp(descriptor);
        locked.leave_if_empty();
    }

    /// Whether an earlier copy of one of the blocks is still being written (invariant 5): which of two writes
    /// the cache device would carry out last, nobody knows.
    fn is_overtaking(&self, flight: &Flight) -> bool {
        let owed = flight.owed.get();
        self.flights(self.descriptor(flight.slot())).map(|other| self.flight(other)).any(|other| {
            other.state() == FlightState::Writing
                && other.bits_from(other.writing.get(), flight.first()) & owed != 0
        })
    }

    fn copy_written(&self, number: FlightNumber, result: Result<(), DeviceError>) {
        let (flight, counters) = (self.flight(number), self.counters());
        let locked = self.lock(flight.fragment());
        assert_eq!(flight.state(), FlightState::Writing);
        let bytes = u64::from(flight.writing.get().count_ones()) * BLOCK_BYTES;
        flight.writing.set(0);
        flight.set_state(FlightState::Written);
        match result {
            Ok(()) => {
                counters.async_writes.count(1);
                counters.async_bytes_written.count(bytes);
            }
            Err(DeviceError) => {
                counters.async_failed.count(1);
                if !planted::is(Bug::FailedCopyValidates) {
                    self.fail(flight);
                }
            }
        }
        // Its memory is of use to others even if the backing device takes its time.
        self.release_copy(&self.lock_pools(), flight);
        let descriptor = self.descriptor(flight.slot());
        for other in self.flights(descriptor) {
            if self.flight(other).state() == FlightState::Parked {
                self.queue(other, self.flight(other));
            }
        }
        self.settle(&locked, number);
        self.stamp(descriptor);
        locked.leave_if_empty();
    }
}

impl<'c> Job<'c> {
    fn cache(&self) -> &'c Cache {
        match self {
            Self::WriteBlocks(job) => job.cache,
            Self::ReadFragment(job) => job.cache,
            Self::WriteFragment(job) => job.cache,
            Self::WriteMap(job) => job.cache,
            Self::FlushCache(job) => job.cache,
            Self::FlushBacking(job) => job.cache,
        }
    }
}

impl WriteBlocks<'_> {
    /// What is to be written: offsets on the cache device in bytes, and the bytes.
    pub fn writes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let flight = self.cache.flight(self.number);
        runs(flight.writing.get()).map(move |run: Range<u32>| {
            let (block, blocks) = (flight.first() + run.start, run.end - run.start);
            let offset = self.cache.geometry.slot_offset(flight.slot()) + u64::from(block) * BLOCK_BYTES;
            let bytes = blocks as usize * BLOCK_BYTES as usize;
            (offset, self.cache.copied_bytes(flight.copy_of(block) as usize, bytes))
        })
    }
}

impl WriteMap<'_> {
    /// Where on the cache device it goes, in bytes.
    pub fn offset(&self) -> u64 {
        let (map, _) = self.cache.geometry.map().expect("a cache with a map");
        map + u64::from(self.taken.block) * MAP_BLOCK_BYTES
    }

    /// The block: 4,096 bytes.
    pub fn data(&self) -> &[u8] {
        self.cache.map_buffer_read(self.taken.buffer)
    }
}

impl FlushBacking<'_> {
    /// The volume.
    pub fn volume(&self) -> usize {
        self.volume
    }
}

impl ReadFragment<'_> {
    /// The volume.
    pub fn volume(&self) -> usize {
        self.cache.geometry.volume_of(self.cache.populating(self.number).0)
    }

    /// Where the fragment begins in the volume, in bytes.
    pub fn offset(&self) -> u64 {
        self.cache.geometry.offset_of(self.cache.populating(self.number).0)
    }

    /// What is to be filled with the fragment.
    pub fn buffer(&mut self) -> &mut [u8] {
        self.cache.buffer_to_fill(self.number)
    }
}

impl WriteFragment<'_> {
    /// Where on the cache device it goes, in bytes.
    pub fn offset(&self) -> u64 {
        self.cache.geometry.slot_offset(self.cache.populating(self.number).1)
    }

    /// The fragment.
    pub fn data(&self) -> &[u8] {
        self.cache.buffer_read(self.number)
    }
}
