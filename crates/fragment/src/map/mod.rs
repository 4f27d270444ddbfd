//! The map: what of the cache survives a restart, kept in a record for each slot on the cache device.
//!
//! Recovery uses what *stable* records say. So a record may be stable only while cache device and backing
//! device have the same in its valid blocks, durably (invariant 11); and before anything changes that, a
//! record that does not count has to be durable in its place (invariant 10). Records are written in blocks,
//! and blocks in *commits*: all those that are wanted, then a flush of the cache device, for everybody who
//! waits.
//!
//! ```text
//!          begins (next_map)         all are written            flushed
//!   Idle --------------------> Writing -------------> Flushing --------> Idle, and the commit is durable
//! ```
//!
//! Time is counted in *ticks* of a quarter of [`MapConfig::settle_ms`](crate::MapConfig): every change of a
//! slot is stamped with the tick at which it ended, and every flush with that at which it began. What has a
//! lower stamp than a flush was complete before the flush began.

mod commit;

mod hold;

mod marks;

mod settle;

mod vacant;

use mezzanine_ground::lock::{Guard, RegionLock};
use mezzanine_ground::region::{StateWord, Word, shared, states};

use crate::cache::{Cache, OWNER};
use crate::planted::{self, Bug};
use crate::small::{Link, Small};

pub(crate) use commit::MapBuffer;
use hold::Reach;
pub(crate) use marks::Because;
pub use settle::FlushToken;

/// Blocks of the map that can be written at a time.
pub(crate) const MAP_BUFFERS: usize = 16;

states! {
    /// What the cache can be used for.
    pub enum Health {
        /// Everything.
        Serving = 0,
        /// The cache device has refused a block of the map, or a flush. What would need a record waits for
        /// [`Cache::go_offline`]; everything else goes on.
        MapFailed = 1,
        /// Nothing: all requests go to the backing devices. See [`Cache::go_offline`].
        Offline = 2,
    }
}

states! {
    /// What becomes of the commit that began last.
    pub(crate) enum Phase {
        /// It is durable.
        Idle = 0,
        /// Its blocks are written.
        Writing = 1,
        /// The cache device is flushed.
        Flushing = 2,
    }
}

/// What is known of a block of the map.
#[repr(C)]
pub(crate) struct MapBlock {
    /// In which of the two lists it is, whether its records were taken for the commit under way, and whether
    /// the sweep is to look at its free slots. Under the map's lock.
    flags: Small,
    /// Slots whose fragment is not recorded as stable. Changed in atomic steps.
    unstable: Small,
    /// The next of either list.
    next: [Link; 2],
}
shared!(MapBlock);
const _: () = assert!(size_of::<MapBlock>() == 16, "a quarter of a byte for each fragment of 1 MiB");

/// Its records were taken for the commit under way.
const CAPTURED: u32 = 4;

/// A slot of it is free, or was, whose record names what has left it.
const VACATED: u32 = 8;

/// What is known of the flushes of a volume's backing device. Under the map's lock, but for `flushed`.
#[repr(C)]
pub(crate) struct VolumeFlushes {
    /// The tick at which the last one began that succeeded.
    flushed: Word,
    /// That at which the cache's own one began.
    began: Word,
    /// 1: the cache wants one; 2: it is under way.
    own: Word,
    /// 1: one has failed. Under the planner's lock.
    failed: Word,
}
shared!(VolumeFlushes);

/// Zero is: nothing is unstable, and nothing was committed.
#[repr(C, align(64))]
pub(crate) struct MapControl {
    lock: RegionLock,
    phase: StateWord<Phase>,
    /// The lists of blocks: that of commit `n` is the one of `n % 2`.
    first: [Link; 2],
    /// The block that is written next.
    cursor: Link,
    /// Jobs that write blocks.
    writes_out: Small,
    /// A bit for each buffer that is in use.
    buffers: Small,
    /// Somebody waits for the next commit.
    urgent: Small,
    /// The cache device has to be flushed for some fragments to settle.
    flush_wanted: Small,
    /// Volumes that the cache wants a flush of.
    volume_flushes_wanted: Small,
    /// The block that is looked at next for fragments that have settled.
    sweep: Small,
    /// Blocks whose free slots it is to look at.
    vacated: Small,
    next_tick_at: Word,
    /// The tick at which the flush of the cache device began that is under way.
    flush_began: Word,
    /// The number of the commit that began last. From here on, words are read without the lock as well.
    begun: Word,
    /// That of the last one that is durable.
    durable: Word,
    tick: Word,
    /// The tick at which the last flush of the cache device began that succeeded.
    flushed: Word,
    /// Fragments that are not recorded as stable.
    unstable: Word,
    /// 1: fragments settle at once, and nothing is populated.
    quiescing: Word,
    health: StateWord<Health>,
    reach: Reach,
}
shared!(MapControl);

/// The map under its lock, which is taken after a shard's.
pub(crate) struct LockedMap<'c> {
    cache: &'c Cache,
    map: &'c MapControl,
    _guard: Guard<'c>,
}

impl Cache {
    fn lock_map(&self) -> LockedMap<'_> {
        let map = self.map_control();
        LockedMap { cache: self, map, _guard: map.lock.lock(OWNER) }
    }

    fn map_control(&self) -> &MapControl {
        &self.control().map
    }

    fn map_block(&self, number: u32) -> &MapBlock {
        let blocks = self.geometry.map_blocks() as usize;
        &self.region.slice::<MapBlock>(self.geometry.layout.map_blocks, blocks)[number as usize]
    }

    fn volume_flushes(&self, volume: usize) -> &VolumeFlushes {
        let volumes = self.geometry.config().volumes.len();
        &self.region.slice::<VolumeFlushes>(self.geometry.layout.volume_flushes, volumes)[volume]
    }

    /// Whether the volume's backing device has refused a flush. Such a volume is not cached any more.
    pub(crate) fn has_failed(&self, volume: usize) -> bool {
        self.volume_flushes(volume).failed.get() == 1
    }

    /// The id that records carry.
    pub(crate) fn record_id(&self) -> [u8; 16] {
        let map = self.geometry.config().map.as_ref().expect("a cache with a map");
        if planted::is(Bug::CacheUnchecked) { [0; 16] } else { map.cache_id }
    }

    /// Whether the cache has a map.
    pub(crate) fn has_map(&self) -> bool {
        self.geometry.config().map.is_some()
    }

    /// What the cache can be used for.
    pub fn health(&self) -> Health {
        self.map_control().health.get()
    }

    pub(crate) fn set_health(&self, health: Health) {
        let map = self.lock_map();
        if map.map.health.get() != Health::Offline {
            map.map.health.set(health);
        }
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.health() == Health::Offline
    }

    pub(crate) fn is_quiescing(&self) -> bool {
        self.map_control().quiescing.get() == 1
    }
}

impl LockedMap<'_> {
    /// A block is to be written: by the commit under way, if that has not taken its records, or by the next
    /// one. The number of that commit.
    fn request(&self, number: u32, is_urgent: bool) -> u64 {
        let block = self.cache.map_block(number);
        let begun = self.map.begun.get();
        let listed = |commit: u64| block.flags.get() & 1 << (commit % 2) != 0;
        if self.map.phase.get() != Phase::Idle && listed(begun) && block.flags.get() & CAPTURED == 0 {
            return begun;
        }
        let list = ((begun + 1) % 2) as usize;
        if !listed(begun + 1) {
            block.flags.set(block.flags.get() | 1 << list);
            block.next[list].set(self.map.first[list].get());
            self.map.first[list].set(Some(number));
        }
        if is_urgent {
            self.map.urgent.set(1);
        }
        let is_late = self.map.phase.get() != Phase::Idle;
        if is_late && planted::is(Bug::LateMarkCommitted) { begun } else { begun + 1 }
    }

    /// The cache device is to be flushed, if nothing else is to be done. The number of the commit that does.
    fn request_flush(&self) -> u64 {
        self.map.flush_wanted.set(1);
        self.map.urgent.set(1);
        self.map.begun.get() + 1
    }

    /// Whether blocks are listed for the next commit.
    fn is_wanted(&self) -> bool {
        self.map.first[((self.map.begun.get() + 1) % 2) as usize].get().is_some()
    }

    /// Whether there are blocks that the sweep has not come to.
    fn is_sweeping(&self) -> bool {
        self.map.sweep.get() < self.cache.geometry.map_blocks()
    }

    /// Time goes on, by one tick at most: what was stamped while nobody looked at the clock is not old.
    fn advance(&self, now: u64) {
        if now >= self.map.next_tick_at.get() {
            let settle_ms = self.cache.geometry.config().map.as_ref().map_or(0, |map| map.settle_ms);
            self.map.next_tick_at.set(now.saturating_add(settle_ms * 1_000_000 / 4));
            self.step();
            self.adjust_reach();
            self.map.sweep.set(0);
        }
    }

    /// The next tick. When they come to their end nothing settles any more.
    fn step(&self) {
        self.map.tick.set((self.map.tick.get() + 1).min(u32::MAX.into()));
    }
}
