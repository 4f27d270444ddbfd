//! A cache: its region, and its parts in it.

use mezzanine_ground::counters::{STRIPES, Stripe, count, sums};
use mezzanine_ground::region::{Region, StateWord};

use crate::config::{Admission, WriteMode};
use crate::control::{Control, Mode};
use crate::descriptor::Descriptor;
use crate::flight::Flight;
use crate::geometry::Geometry;
use crate::ids::{CacheId, FlightNumber, Fragment};
use crate::planted::{self, Bug};
use crate::shard::{Entry, Shard};
use crate::sizing::Sizing;
use crate::statistics::{Counters, Event, Statistics};

/// Names the process in locks: one process has the cache.
pub(crate) const OWNER: u32 = 1;

/// A fragment cache in a region. Every method takes `&self` and may run on any thread.
pub struct Cache {
    pub(crate) region: Region,
    pub(crate) geometry: Geometry,
    pub(crate) id: CacheId,
    sizing: Option<Box<Sizing>>,
}

impl Cache {
    /// An empty cache in memory of this process.
    ///
    /// # Panics
    /// If it has a map that was opened before: what that says would not be known
    /// ([`Recovery`](crate::Recovery)).
    pub fn heap(geometry: Geometry) -> Self {
        let region = Region::heap(geometry.region_bytes());
        Self::empty(region, geometry)
    }

    /// An empty cache in this memory, of which nothing is kept.
    ///
    /// # Panics
    /// If the region is smaller than [`Geometry::region_bytes`], or as [`Cache::heap`].
    pub fn in_region(mut region: Region, geometry: Geometry) -> Self {
        region.wipe();
        Self::empty(region, geometry)
    }

    /// The region is zero.
    fn empty(region: Region, geometry: Geometry) -> Self {
        let opened = geometry.config().map.as_ref().map_or(1, |map| map.epoch);
        assert!(opened <= 1, "a cache that was opened {opened} times has a map; open it with Recovery");
        let cache = Self::over(region, geometry);
        cache.begin_ticks();
        cache
    }

    /// The region is zero.
    pub(crate) fn over(mut region: Region, geometry: Geometry) -> Self {
        let (needed, given) = (geometry.region_bytes(), region.bytes());
        assert!(needed <= given, "a cache of this geometry needs {needed} bytes, and the region has {given}");
        let (layout, config) = (&geometry.layout, geometry.config());
        let opened = config.map.as_ref().is_none_or(|map| map.epoch > 0);
        assert!(opened, "a cache is used under a superblock that was opened; call Superblock::opened");
        region.place::<Control>(layout.control, 1);
        region.place::<Shard>(layout.shards, config.shards as usize);
        region.place::<Descriptor>(layout.descriptors, geometry.slots() as usize);
        region.place::<Entry>(layout.entries, geometry.fragments() as usize);
        region.place::<Flight>(layout.flights, config.flights as usize);
        region.place::<Stripe>(layout.thread_counters, STRIPES + 1);
        let cache = Self { region, geometry, id: CacheId::new(), sizing: None };
        cache.set_write_mode(cache.geometry.config().write_mode);
        cache.set_population_workers(cache.geometry.config().population_workers);
        cache.set_yield_us(cache.geometry.config().yield_us);
        cache.set_admission(cache.geometry.config().admission);
        cache.set_write_budget(cache.geometry.config().write_budget).expect("the geometry has checked it");
        cache.lock_pools().set_limit(cache.geometry.slots_limit());
        cache
    }

    /// The same cache, which feeds `sizing` with its requests from now on.
    #[must_use]
    pub fn with_sizing(self, sizing: Sizing) -> Self {
        Self { sizing: Some(Box::new(sizing)), ..self }
    }

    /// What is fed with the cache's requests to say how it would do at other sizes, if that was asked for.
    #[inline]
    pub fn sizing(&self) -> Option<&Sizing> {
        self.sizing.as_deref()
    }

    /// The sizes of the cache.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What becomes of writes now.
    pub fn write_mode(&self) -> WriteMode {
        match self.write_mode_word().get() {
            Mode::Through => WriteMode::Through,
            Mode::Around => WriteMode::Around,
        }
    }

    /// Has the writes that begin from now on go the other way.
    pub fn set_write_mode(&self, mode: WriteMode) {
        self.write_mode_word().set(mode.into());
    }

    fn write_mode_word(&self) -> &StateWord<Mode> {
        &self.control().write_mode
    }

    /// Which misses make a fragment a candidate now.
    pub fn admission(&self) -> Admission {
        let control = self.control();
        Admission { reads: control.admit_reads.get() as u32, writes: control.admit_writes.get() as u32 }
    }

    /// Has other misses make fragments candidates from now on. Misses that did not count are not known later.
    pub fn set_admission(&self, admission: Admission) {
        self.control().admit_reads.set(admission.reads.into());
        self.control().admit_writes.set(admission.writes.into());
    }

    /// Workers that may begin a population now, if the throttle lets them.
    pub fn population_workers(&self) -> u32 {
        self.control().population_workers.get() as u32
    }

    /// Has no more workers than these begin populations from now on, and no more than there are; 0: none
    /// begins. Populations that have begun go on.
    pub fn set_population_workers(&self, workers: u32) {
        let most = self.geometry.config().population_workers;
        self.control().population_workers.set(workers.min(most).into());
    }

    /// A number that rises whenever there may be a job that there was not before. A host whose threads have
    /// been told "not before" looks again when this has changed.
    pub fn work(&self) -> u64 {
        self.control().work.get()
    }

    /// Requests and jobs that have begun and were not ended: reads are none. While it rises and falls the sum
    /// may be one that never was, but 0 is only said if there was a moment without any.
    pub fn outstanding(&self) -> u64 {
        // In this order, so that what begins and ends in between does not hide another one.
        let ended = sums(&self.region)[Event::Ended as usize];
        sums(&self.region)[Event::Begun as usize].saturating_sub(ended)
    }

    pub(crate) fn begun(&self) {
        self.count(Event::Begun);
    }

    pub(crate) fn ended(&self) {
        self.count(Event::Ended);
    }

    /// What the cache has done, and how much of it is in use.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.counters().snapshot();
        let sums = sums(&self.region);
        statistics.reads_hit = sums[Event::ReadHit as usize];
        statistics.reads_partial = sums[Event::ReadPartial as usize];
        statistics.reads_missed = sums[Event::ReadMiss as usize];
        statistics.writes = sums[Event::Write as usize];
        statistics.unstable = self.unstable();
        let pools = &self.control().pools;
        statistics.slots = self.slots_limit().into();
        statistics.slots_retired = pools.retired_slots().into();
        // The two are not read at one moment.
        statistics.slots_used = u64::from(pools.used_slots()).saturating_sub(statistics.slots_retired);
        statistics.flights_used = pools.used_flights().into();
        statistics.copy_blocks_used = pools.used_copies().into();
        statistics
    }

    /// What is handed back here was handed out here.
    pub(crate) fn assert_own(&self, id: CacheId, what: &str) {
        assert!(
            id == self.id || planted::is(Bug::ForeignTaken),
            "invariant 8: {what} of another cache; hand it to the cache that it came from"
        );
    }

    #[inline(always)]
    pub(crate) fn control(&self) -> &Control {
        self.region.at(0).expect("laid out when the cache was made")
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.control().counters
    }

    pub(crate) fn counted(&self, event: Event) -> u64 {
        sums(&self.region)[event as usize]
    }

    pub(crate) fn count(&self, event: Event) {
        count(&self.region, OWNER, event as usize);
    }

    pub(crate) fn flight(&self, number: FlightNumber) -> &Flight {
        self.region.at(number.0 as usize).expect("a flight of the table")
    }

    /// For people who look at a cache, and for tests: where on the cache device a byte of a volume is, in
    /// bytes, if its block is valid there. It changes nothing.
    pub fn location(&self, volume: usize, offset: u64) -> Option<u64> {
        self.geometry.check_request(volume, offset, 1).ok()?;
        let part = self.geometry.parts(volume, offset, 1).next()?;
        let locked = self.lock(part.fragment);
        let (slot, _) = locked.cached()?;
        let is_valid = self.validity(slot).all(part.touched());
        is_valid.then(|| self.geometry.slot_offset(slot) + part.start)
    }

    /// The same: how often the hand of CLOCK passes a fragment before it leaves, if it is in the cache.
    pub fn references(&self, volume: usize, offset: u64) -> Option<u32> {
        self.geometry.check_request(volume, offset, 1).ok()?;
        let fragment: Fragment = self.geometry.parts(volume, offset, 1).next()?.fragment;
        self.lock(fragment).cached().map(|(_, descriptor)| descriptor.references())
    }
}
