//! Population and copies of writes yield to reads of the cache device that guests wait for.
//!
//! The host says how long such reads have taken. As long as their smoothed time is above a limit, work in the
//! background goes on by a trickle: a copy every 10 ms and a step of a population every 100 ms, so that
//! nothing waits for good behind a device that is slow for other reasons. Copies do not yield when half of
//! the memory for them is in use, as writes would go around then. When nobody has read for 10 ms there is
//! nobody to yield to.

use mezzanine_ground::region::{Word, shared};

use crate::cache::Cache;
use crate::planted::{self, Bug};

/// How long after the last read there is somebody to yield to.
const READERS_NS: u64 = 10_000_000;
/// How often a copy goes on at least.
const COPY_EVERY_NS: u64 = 10_000_000;
/// How often a step of a population does.
const POPULATION_EVERY_NS: u64 = 100_000_000;
/// A new time counts for one part in so many.
const SMOOTHED_OVER: u64 = 8;

/// Zero is: never.
#[repr(C)]
pub(crate) struct Yielding {
    /// Nanoseconds; 0: nothing yields.
    limit: Word,
    /// The smoothed time of a read, in nanoseconds.
    took: Word,
    /// When the last one ended, in nanoseconds of the host's clock; 0: none has.
    read_at: Word,
    /// The latest time that the host has said.
    now: Word,
    /// When a copy has last been handed out, and a step of a population.
    copy_at: Word,
    population_at: Word,
}
shared!(Yielding);

impl Cache {
    /// Above what smoothed time of a read of the cache device, in microseconds, work in the background
    /// yields; 0: never.
    pub fn yield_us(&self) -> u64 {
        self.yielding().limit.get() / 1000
    }

    /// Changes it. Hosts of a cache that yields call [`Cache::cache_read_took`].
    pub fn set_yield_us(&self, microseconds: u64) {
        self.yielding().limit.set(microseconds.saturating_mul(1000));
        self.control().work.add(1);
    }

    /// A read of the cache device, which a guest waited for, has taken so many nanoseconds until `now`, of
    /// the clock of [`Cache::next_job`]. Where several tell this at a time one of them may not count.
    pub fn cache_read_took(&self, now: u64, nanoseconds: u64) {
        let yielding = self.yielding();
        let before = yielding.took.get();
        let is_first = now.saturating_sub(yielding.read_at.get()) > READERS_NS;
        // What was long ago says nothing.
        let took = if is_first { 0 } else { before - before / SMOOTHED_OVER };
        yielding.took.set(took.saturating_add(nanoseconds / SMOOTHED_OVER));
        yielding.read_at.raise(now);
    }

    fn yielding(&self) -> &Yielding {
        &self.control().yielding
    }

    pub(crate) fn time_is(&self, now: u64) {
        if self.yielding().limit.get() > 0 {
            self.yielding().now.raise(now);
        }
    }

    /// Until when something that went on last at `last`, and does so every `every` ns at least, has to yield
    /// just now.
    fn yields_until(&self, last: &Word, every: u64) -> Option<u64> {
        let yielding = self.yielding();
        let (limit, now) = (yielding.limit.get(), yielding.now.get());
        if limit == 0 || yielding.took.get() <= limit || planted::is(Bug::NeverYields) {
            return None;
        }
        let until = (yielding.read_at.get() + READERS_NS).min(last.get() + every);
        (now < until).then_some(until)
    }

    /// Until when copies yield.
    pub(crate) fn copies_yield_until(&self) -> Option<u64> {
        let half = self.geometry.copy_blocks() / 2;
        if self.control().pools.used_copies() > half {
            return None;
        }
        self.yields_until(&self.yielding().copy_at, COPY_EVERY_NS)
    }

    /// Until when populations do.
    pub(crate) fn populations_yield_until(&self) -> Option<u64> {
        self.yields_until(&self.yielding().population_at, POPULATION_EVERY_NS)
    }

    /// A copy is handed out.
    pub(crate) fn copy_goes_on(&self) {
        self.yielding().copy_at.set(self.yielding().now.get());
    }

    /// A step of a population is.
    pub(crate) fn population_goes_on(&self) {
        self.yielding().population_at.set(self.yielding().now.get());
    }
}
