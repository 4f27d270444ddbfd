//! Opening a cache again: what the map says is in it.
//!
//! Of stable records the valid blocks are used, of all others nothing. What cannot be told, what contradicts
//! itself, and what lies behind the limit of the cache's size is of no use either; but a later opening may be
//! able to tell, or have another limit, so such records are written over before anything else happens
//! ([`Recovered::waits_for`]).

use std::collections::HashSet;

use mezzanine_ground::region::Region;

use crate::cache::Cache;
use crate::descriptor::{Recorded, SlotState};
use crate::format::{BITMAP_AT, FormatError, MAP_BLOCK_BYTES, Record, RecordState, record_bytes};
use crate::geometry::Geometry;
use crate::ids::{Fragment, Slot};
use crate::planted::{self, Bug};
use crate::shard::Place;

/// Blocks of the map that are asked for at a time.
const READ_AT_ONCE: u32 = 256;

/// A cache that is being opened: the host reads the map, a piece after the other.
pub struct Recovery {
    cache: Cache,
    next: u32,
    /// Fragments that several records claim.
    contradicted: HashSet<Fragment>,
    found: Recovered,
}

/// What was found in a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Fragments that are in the cache.
    pub fragments: u64,
    /// Fragments that were, and may have been written to. Records behind the limit are not among them: they
    /// are of what has left, and are written over by and by.
    pub unstable: u64,
    /// Records that contradict others or themselves, and those that could not be read.
    pub lost: u64,
    /// Fragments that were in the cache, but behind the limit of its size: it was shrunk, and a crash has
    /// come before they had left, or it was not open then.
    pub behind_limit: u64,
    /// Nothing may be read or written before [`Cache::marks_durable`] has reached this: the host carries out
    /// jobs of [`Cache::next_map`] meanwhile. If the cache device refuses one of them ([`Cache::health`])
    /// only [`Cache::go_offline`] is left.
    pub waits_for: u64,
}

impl Recovery {
    /// Opens a cache in memory of this process. Nothing that an earlier opening has sent may reach a device
    /// any more.
    ///
    /// # Panics
    /// If the cache has no map, or the superblock was not opened.
    pub fn heap(geometry: Geometry) -> Self {
        let region = Region::heap(geometry.region_bytes());
        Self::of(Cache::over(region, geometry))
    }

    /// Opens a cache in this memory, of which nothing is kept.
    ///
    /// # Panics
    /// If the cache has no map, the superblock was not opened, or the region is smaller than
    /// [`Geometry::region_bytes`].
    pub fn in_region(mut region: Region, geometry: Geometry) -> Self {
        region.wipe();
        Self::of(Cache::over(region, geometry))
    }

    fn of(cache: Cache) -> Self {
        assert!(cache.has_map(), "a cache without a map begins empty; make it with Cache::heap");
        cache.begin_ticks();
        cache.lock_pools().take_all_slots();
        Self { cache, next: 0, contradicted: HashSet::new(), found: Recovered::default() }
    }

    /// What is to be read next: where on the cache device, and how much, in bytes; `None` at the end.
    pub fn next(&self) -> Option<(u64, usize)> {
        let (offset, _) = self.cache.geometry.map()?;
        let blocks = (self.cache.geometry.map_blocks() - self.next).min(READ_AT_ONCE);
        let at = offset + u64::from(self.next) * MAP_BLOCK_BYTES;
        (blocks > 0).then_some((at, blocks as usize * MAP_BLOCK_BYTES as usize))
    }

    /// Takes what was read from where [`Recovery::next`] said, or the first part of it.
    ///
    /// # Errors
    /// If a record is of a later epoch than the superblock: that is not the newest, and the cache cannot be
    /// used.
    ///
    /// # Panics
    /// If it is not a multiple of 4,096 bytes, none, or more than what was asked for.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        let of_record = record_bytes(self.cache.geometry.config().fragment_bytes) as usize;
        for (slot, place) in self.slots(bytes.len()).zip(bytes.chunks_exact(of_record)) {
            self.take_record(slot, place)?;
        }
        Ok(())
    }

    /// The same of so many bytes that cannot be read. Where a part of them can, that is taken by itself.
    ///
    /// # Panics
    /// As [`Recovery::take`].
    pub fn unreadable(&mut self, bytes: usize) {
        for slot in self.slots(bytes) {
            if !planted::is(Bug::UnreadForgotten) {
                self.lose(slot);
            }
        }
    }

    /// The slots whose records are in so many bytes that come next.
    fn slots(&mut self, bytes: usize) -> impl Iterator<Item = Slot> + use<> {
        let asked = self.next().map_or(0, |(_, asked)| asked);
        let fits = bytes > 0 && bytes <= asked && bytes % MAP_BLOCK_BYTES as usize == 0;
        assert!(fits, "{bytes} bytes of the map are not what was asked for: a part of {asked}, in blocks");
        let per_block = self.cache.geometry.records_per_block();
        let first = self.next * per_block;
        self.next += (bytes / MAP_BLOCK_BYTES as usize) as u32;
        // Of a map with the most slots the last block's end does not fit a slot's number.
        let end = self.next.saturating_mul(per_block).min(self.cache.geometry.slots());
        (first..end).map(Slot)
    }

    fn take_record(&mut self, slot: Slot, place: &[u8]) -> Result<(), FormatError> {
        let cache = &self.cache;
        let config = cache.geometry.config();
        let map = config.map.as_ref().expect("a cache with a map");
        let Some(record) = Record::decode(place, &cache.record_id(), slot.0) else {
            return Ok(());
        };
        if record.epoch > map.epoch {
            let reason = format!("slot {} has {}, and the superblock {}", slot.0, record.epoch, map.epoch);
            return Err(FormatError::damaged("epoch of a record", reason));
        }
        let same = |number: &u32| *number == record.volume || planted::is(Bug::VolumeUnchecked);
        let Some(volume) = map.volume_numbers.iter().position(same) else {
            // Of a volume that was detached: its number is never given again.
            return Ok(());
        };
        if record.state == RecordState::Unstable && !planted::is(Bug::UnstableRecovered) {
            if slot.0 < cache.slots_limit() {
                self.found.unstable += 1;
            } else {
                cache.descriptor(slot).set_named(true);
                cache.vacated(slot, cache.descriptor(slot));
            }
            return Ok(());
        }
        let fragments = cache.geometry.fragments_of(volume);
        let number = u64::from(fragments.start) + u64::from(record.fragment);
        if number >= u64::from(fragments.end) {
            self.lose(slot);
            return Ok(());
        }
        let fragment = Fragment(number as u32);
        let validity = cache.validity(slot);
        validity.load(&place[BITMAP_AT..]);
        let (blocks, all) = (cache.geometry.blocks_of(fragment), cache.geometry.validity_words() as u32 * 64);
        let is_possible = validity.any(0..blocks) && !validity.any(blocks..all);
        let other = cache.entry(fragment).place();
        let is_behind = slot.0 >= cache.slots_limit();
        if is_behind && planted::is(Bug::BehindLimitKept) {
            validity.clear(0..all);
            return Ok(());
        }
        let is_only = other == (Place::Absent { writes: 0 }) && !self.contradicted.contains(&fragment);
        if is_possible && is_only && is_behind {
            validity.clear(0..all);
            self.found.behind_limit += 1;
            self.write_over(slot);
            return Ok(());
        }
        if is_possible && is_only {
            cache.lock(fragment).restore(slot);
            self.found.fragments += 1;
            return Ok(());
        }
        validity.clear(0..all);
        if is_possible {
            self.contradicted.insert(fragment);
            if let Place::At(other) = other {
                cache.lock(fragment).unrestore(other);
                self.found.fragments -= 1;
                self.lose(other);
            }
        }
        self.lose(slot);
        Ok(())
    }

    /// The record of a slot says nothing that can be believed.
    fn lose(&mut self, slot: Slot) {
        self.found.lost += 1;
        self.write_over(slot);
    }

    /// The record of a slot is written over before anything else happens. The slot is of use when it is.
    fn write_over(&mut self, slot: Slot) {
        self.cache.descriptor(slot).set_recorded(Recorded::Wanted);
        let number = self.cache.request_record(slot, true);
        self.found.waits_for = self.found.waits_for.max(number);
    }

    /// The cache, with what was found in it.
    ///
    /// # Panics
    /// If not all of the map was taken.
    pub fn finish(self) -> (Cache, Recovered) {
        assert!(self.next().is_none(), "all of the map is read before the cache is used");
        let Self { cache, mut found, .. } = self;
        if !planted::is(Bug::RecoveryUnflushed) {
            // What was read may be in the device's volatile cache alone, left there by a process that died:
            // the record before would come back with the next loss of power.
            found.waits_for = cache.request_flush().max(found.waits_for);
        }
        cache.lock_planner().planner.window.crash_cost.set(found.unstable);
        // Those that come first are taken first.
        for slot in (0..cache.geometry.slots()).rev().map(Slot) {
            let descriptor = cache.descriptor(slot);
            if descriptor.state() == SlotState::Free && descriptor.recorded() == Recorded::Unstable {
                cache.lock_pools().give_slot(slot);
            }
        }
        (cache, found)
    }
}
