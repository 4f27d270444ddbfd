//! The state of a drive of zones as a row of words that the caller keeps.

use std::mem::size_of;
use std::ops::Range;

use crate::divisor::Divisor;
use bytemuck::{Pod, Zeroable};

use super::{FLASH_PER_AREA, ZonesConfig};
use crate::config::SsdConfig;
use crate::counters::Counters;
use crate::nand::{NandClock, NandTimes, Plane};
use crate::state::Queue;

/// What is there once.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Words {
    /// The latest time that an operation has arrived at.
    pub(super) now: u64,
    /// From when on the link is free.
    pub(super) link_free_at: u64,
    /// Commands so far.
    pub(super) commands: u64,
    /// The end of what was read last, and written, to tell sequential operations.
    pub(super) read_to: u64,
    pub(super) written_to: u64,
    /// Which half of the conventional area is written, and how many units of it are.
    pub(super) half: u64,
    pub(super) log_units: u64,
}

/// Where the parts of a state are, in words.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    words: Range<usize>,
    counters: Range<usize>,
    queue: Range<usize>,
    channels: Range<usize>,
    planes: Range<usize>,
    units: Range<usize>,
    pages: Range<usize>,
    erases: Range<usize>,
    tournament: Range<usize>,
    map: Range<usize>,
    by_queue: Divisor,
}

/// A state taken apart.
pub(super) struct Parts<'s> {
    pub(super) words: &'s mut Words,
    pub(super) counters: &'s mut Counters,
    pub(super) queue: Queue<'s>,
    pub(super) planes: &'s mut [Plane],
    /// Of each zone of flash: units that the host has written,
    pub(super) units: &'s mut [u64],
    /// pages that were programmed,
    pub(super) pages: &'s mut [u64],
    /// and how often it was erased.
    pub(super) erases: &'s mut [u64],
    /// Where in its half each unit of the conventional area lies; one more, 0 = it was never written.
    pub(super) map: &'s mut [u32],
    pub(super) clock: NandClock<'s>,
}

impl Layout {
    pub(super) fn new(config: &SsdConfig, zones: &ZonesConfig) -> Self {
        let geometry = &config.geometry;
        let mut end = 0;
        let mut take = |bytes: usize| {
            let start = end;
            end += bytes.div_ceil(8);
            start..end
        };
        let flash_zones = (geometry.blocks() / zones.planes_per_zone) as usize;
        let zone_units = (zones.planes_per_zone * geometry.units_per_block()) as usize;
        debug_assert!(flash_zones >= (zones.conventional * FLASH_PER_AREA) as usize);
        Self {
            words: take(size_of::<Words>()),
            counters: take(size_of::<Counters>()),
            queue: take(8 * config.host.queue_depth as usize),
            channels: take(8 * geometry.channels as usize),
            planes: take(size_of::<Plane>() * geometry.planes() as usize),
            units: take(8 * flash_zones),
            pages: take(8 * flash_zones),
            erases: take(8 * flash_zones),
            tournament: take(4 * NandClock::tournament_words(geometry.planes())),
            map: take(4 * zones.conventional as usize * zone_units),
            by_queue: Divisor::new(config.host.queue_depth),
        }
    }

    /// Words of a whole state.
    pub(super) fn len(&self) -> usize {
        self.map.end
    }

    /// What was counted.
    pub(super) fn counters(&self, state: &[u64]) -> Counters {
        *bytemuck::from_bytes(bytemuck::cast_slice(&state[self.counters.clone()]))
    }

    /// How often each zone of flash was erased.
    pub(super) fn erases<'s>(&self, state: &'s [u64]) -> &'s [u64] {
        &state[self.erases.clone()]
    }

    /// # Panics
    /// If the state has another length.
    pub(super) fn parts<'s>(&self, times: &'s NandTimes, state: &'s mut [u64]) -> Parts<'s> {
        assert_eq!(state.len(), self.len(), "the state is that of another drive");
        let mut rest = state;
        let mut part = |range: &Range<usize>| {
            let (taken, after) = std::mem::take(&mut rest).split_at_mut(range.len());
            rest = after;
            taken
        };
        // In the order in which they lie.
        let words = bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(part(&self.words)));
        let counters = bytemuck::from_bytes_mut(bytemuck::cast_slice_mut(part(&self.counters)));
        let queue = Queue::new(part(&self.queue), self.by_queue);
        let channels = part(&self.channels);
        let planes = bytemuck::cast_slice_mut(part(&self.planes));
        let units = part(&self.units);
        let pages = part(&self.pages);
        let erases = part(&self.erases);
        let tournament = bytemuck::cast_slice_mut(part(&self.tournament));
        let map = bytemuck::cast_slice_mut(part(&self.map));
        let clock = NandClock::new(times, channels, tournament);
        Parts { words, counters, queue, planes, units, pages, erases, map, clock }
    }
}
