//! Where units go when they are programmed.

use super::{Ftl, MOVED};
use crate::config::{CollectionFrontier, CollectionPace};
use crate::nand::BlockState;

/// A page that was programmed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Programmed {
    block: u32,
    /// The first of its units.
    pub(crate) unit: u32,
    /// When it begins to go into the cells,
    pub(crate) begins_at: u64,
    /// and is there.
    pub(crate) done_at: u64,
}

impl Ftl<'_> {
    /// The plane that a page of a stream can be programmed on first.
    ///
    /// # Panics
    /// If none has room (T3): the capacity was checked against that.
    #[inline]
    pub(crate) fn first_free(&self, stream: usize) -> u32 {
        let first = self.clock.first_free();
        if self.has_room(first, stream) {
            return first;
        }
        self.first_with_room(stream)
    }

    #[cold]
    fn first_with_room(&self, stream: usize) -> u32 {
        let planes = 0..self.array.geometry.planes();
        let with_room = planes.filter(|plane| self.has_room(*plane, stream)).collect::<Vec<_>>();
        let first = with_room.into_iter().min_by_key(|plane| self.free_at(*plane));
        first.unwrap_or_else(|| panic!("T3: no plane has room for another page"))
    }

    /// Whether a plane is free by `now`.
    #[inline]
    pub(crate) fn is_any_free(&self, now: u64) -> bool {
        self.free_at(self.clock.first_free()) <= now
    }

    /// Whether a plane can take another page of a stream, by collection if need be.
    #[inline]
    fn has_room(&self, plane: u32, stream: usize) -> bool {
        let state = &self.array.planes[plane as usize];
        if state.open[self.config.frontier_of(stream)] != 0 || self.array.erased(plane) >= 2 {
            return true;
        }
        self.collection_makes_room(plane)
    }

    /// Whether a plane has two erased blocks when all that is garbage there is collected, of which the last
    /// is for what collection moves (T3). Where what is moved opens blocks for all, it has room as soon as
    /// one has been collected beside an erased one: there a page at least is left.
    /// After power cuts there may be too little for that.
    fn collection_makes_room(&self, plane: u32) -> bool {
        let geometry = &self.array.geometry;
        let (per_page, per_block) = (geometry.units_per_page(), geometry.units_per_block());
        let state = &self.array.planes[plane as usize];
        let erased = self.array.erased(plane);
        if erased == 0 && state.victim == 0 && !self.has_place_for_moves(plane) {
            return false;
        }
        let first = plane * geometry.blocks_per_plane;
        let is_collected = |block: &u32| {
            let closed = self.array.state(*block) == BlockState::Closed && self.array.has_garbage(*block);
            closed || state.victim == block + 1
        };
        let (mut freed, mut moved) = (0, 0);
        for block in (first..first + geometry.blocks_per_plane).filter(is_collected) {
            freed += 1;
            moved += self.array.valid(block).next_multiple_of(per_page);
        }
        if self.config.collection_frontier == CollectionFrontier::Shared {
            return erased + freed >= 2;
        }
        let taken = moved.saturating_sub(self.room_for_moves(plane)).div_ceil(per_block);
        erased + freed >= 2 + taken
    }

    /// Reads a page of which so many units are wanted. Returns when they are over the channel.
    pub(crate) fn read_page(&mut self, page: u32, units: u32, not_before: u64) -> u64 {
        let geometry = self.array.geometry;
        let plane = geometry.plane_of(geometry.block_of(page * geometry.units_per_page()));
        let state = &mut self.array.planes[plane as usize];
        let done = self.clock.read(state, geometry.channel_of(plane), not_before, units);
        self.clock.changed(self.array.planes, plane);
        self.counters.pages_read += 1;
        self.counters.busy_ns += self.clock.times.read + u64::from(units) * self.clock.times.unit_transfer;
        done
    }

    /// When a plane is free.
    #[inline]
    pub(crate) fn free_at(&self, plane: u32) -> u64 {
        self.array.planes[plane as usize].free_at
    }

    /// Begins a page of a stream on a plane. The caller puts units there
    /// ([`Array::put`](crate::nand::Array)), ends it ([`Self::end_page`]), has the map name their new
    /// places, and pays for it then ([`Self::pay`]): collection may take any block. What a plane does for
    /// collection is counted there.
    #[inline]
    pub(crate) fn begin_page(&mut self, plane: u32, stream: usize, not_before: u64) -> Programmed {
        let frontier = self.config.frontier_of(stream);
        if self.config.collection_pace == CollectionPace::WholeBlock {
            self.collect_before(plane, frontier, not_before);
        }
        let block = match self.array.planes[plane as usize].open[frontier].checked_sub(1) {
            Some(block) => block,
            None => self.open(plane, frontier),
        };
        let (programmed, busy) = self.append(plane, block, not_before);
        self.counters.busy_ns += busy;
        programmed
    }

    /// [`Self::begin_page`] of what collection moves, which counts what that takes. It may take the last
    /// erased block (T3).
    #[inline]
    pub(super) fn begin_moved_page(&mut self, plane: u32) -> Programmed {
        let frontier = self.config.frontier_of(MOVED);
        let block = match self.array.planes[plane as usize].open[frontier].checked_sub(1) {
            Some(block) => block,
            None => self.open_erased(plane, frontier),
        };
        self.append(plane, block, 0).0
    }

    /// Collects whole blocks before a page. A plane that has a block to open opens it first: there may be
    /// none any more when all is collected (T3).
    #[cold]
    fn collect_before(&mut self, plane: u32, frontier: usize, not_before: u64) {
        let state = &mut self.array.planes[plane as usize];
        // What is erased for it is not needed from then on, and maybe not before (T4).
        state.free_at = state.free_at.max(not_before).max(*self.settled_at);
        if state.open[frontier] != 0 {
            self.collect_whole(plane);
        }
    }

    /// Programs the next page of an open block. How long the plane is busy with it is returned as well.
    #[inline]
    fn append(&mut self, plane: u32, block: u32, not_before: u64) -> (Programmed, u64) {
        let geometry = self.array.geometry;
        let unit = self.array.begin_page(block);
        let state = &mut self.array.planes[plane as usize];
        let mut busy = self.clock.times.page_transfer + self.clock.times.program;
        if self.config.backs_up_paired_pages && geometry.shares_cells_with(geometry.page_of(unit)).is_some() {
            let copying = self.clock.times.read + self.clock.times.program;
            state.free_at = state.free_at.max(not_before) + copying;
            self.counters.pages_backed_up += 1;
            busy += copying;
        }
        let done_at = self.clock.program(state, geometry.channel_of(plane), not_before);
        self.counters.pages_programmed += 1;
        (Programmed { block, unit, begins_at: done_at - self.clock.times.program, done_at }, busy)
    }

    /// Ends a page of which so many units are used; the others are padding.
    #[inline]
    pub(crate) fn end_page(&mut self, plane: u32, stream: usize, page: &Programmed, used: u32) {
        if self.array.end_page(page.block, page.unit, used) {
            self.array.planes[plane as usize].open[self.config.frontier_of(stream)] = 0;
        }
        let padded = self.array.geometry.units_per_page() - used;
        self.counters.units_padded += u64::from(padded);
        if let Some(record) = &mut self.record {
            record.padded(page.unit + used, padded, page.begins_at, page.done_at);
        }
    }

    /// Collection takes its share of a plane's time after so many units were programmed there (T3).
    pub(crate) fn pay(&mut self, plane: u32, units: u32) {
        self.collect(plane, units);
        self.clock.changed(self.array.planes, plane);
        self.prefetch_next_step();
    }

    fn open(&mut self, plane: u32, stream: usize) -> u32 {
        // The last erased block is for what collection moves (T3).
        while self.array.erased(plane) < 2 {
            // The plane may have been idle for long, and what was given up meanwhile is needed until then
            // (T4).
            if !self.erases_too_early() {
                let state = &mut self.array.planes[plane as usize];
                state.free_at = state.free_at.max(*self.settled_at);
            }
            assert!(
                self.collect_in_full(plane),
                "T3: plane {plane} has no erased block and nothing to collect"
            );
            // What was moved may have opened one for all.
            if let Some(block) = self.array.planes[plane as usize].open[stream].checked_sub(1) {
                return block;
            }
        }
        self.open_erased(plane, stream)
    }

    fn open_erased(&mut self, plane: u32, stream: usize) -> u32 {
        let block = self.array.open(plane);
        let block = block.unwrap_or_else(|| panic!("T3: plane {plane} has no erased block left"));
        self.array.planes[plane as usize].open[stream] = block + 1;
        block
    }
}
