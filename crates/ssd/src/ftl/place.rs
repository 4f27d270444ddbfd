//! Where units go when they are programmed.

use super::{Ftl, MOVED};
use crate::config::{CollectionFrontier, CollectionPace};
use crate::geometry::UNITS_PER_PAGE_MAX;
use crate::nand::BlockState;

/// A page that was programmed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Programmed {
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
    pub(crate) fn first_free(&self, stream: usize) -> u32 {
        let first = self.clock.first_free();
        if self.has_room(first, stream) {
            return first;
        }
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
        self.gains_block(plane)
    }

    /// Whether a plane without an open block can open one when all of it has been collected: two blocks are
    /// erased then, or what is moved has opened one for all.
    fn gains_block(&self, plane: u32) -> bool {
        let geometry = self.array.geometry;
        let (per_page, per_block) = (geometry.units_per_page(), geometry.units_per_block());
        let first = plane * geometry.blocks_per_plane;
        let collected = (first..first + geometry.blocks_per_plane)
            .filter(|block| matches!(self.array.state(*block), BlockState::Closed | BlockState::Taken));
        let garbage = collected.map(|block| per_block - self.array.valid(block).next_multiple_of(per_page));
        let garbage: u32 = garbage.sum();
        if self.config.collection_frontier == CollectionFrontier::Shared {
            return garbage > 0;
        }
        let open = self.array.planes[plane as usize].open[MOVED].checked_sub(1);
        let room = open.map_or(0, |block| per_block - self.array.written(block));
        self.array.erased(plane) * per_block + room + garbage >= 2 * per_block
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
    pub(crate) fn free_at(&self, plane: u32) -> u64 {
        self.array.planes[plane as usize].free_at
    }

    /// Programs a page of a stream on a plane with these units; fewer than a page has are padded. The caller
    /// has the map name their new places, and pays for it then ([`Self::pay`]): collection may take any
    /// block.
    #[inline]
    pub(crate) fn program(
        &mut self,
        plane: u32,
        stream: usize,
        logical: &[u32],
        not_before: u64,
    ) -> Programmed {
        let stream = self.config.frontier_of(stream);
        // One that has a block to open opens it first: there may be none any more when all is collected (T3).
        let is_whole = self.config.collection_pace == CollectionPace::WholeBlock;
        let state = &mut self.array.planes[plane as usize];
        if state.open[stream] == 0 || is_whole {
            // What is erased for it is not needed from then on, and maybe not before.
            state.free_at = state.free_at.max(not_before);
        }
        if is_whole && state.open[stream] != 0 {
            self.collect_whole(plane);
        }
        self.append(plane, stream, logical, not_before)
    }

    /// Programs a page behind those of the stream's open block, or of one that is opened.
    #[inline]
    fn append(&mut self, plane: u32, stream: usize, logical: &[u32], not_before: u64) -> Programmed {
        let block = match self.array.planes[plane as usize].open[stream].checked_sub(1) {
            Some(block) => block,
            None => self.open(plane, stream),
        };
        let mut owners = [0; UNITS_PER_PAGE_MAX as usize];
        for (owner, logical) in owners.iter_mut().zip(logical) {
            *owner = logical + 1;
        }
        let (unit, is_full) = self.array.program(block, &owners[..logical.len()]);
        let channel = self.array.geometry.channel_of(plane);
        let shared = self.array.geometry.shares_cells_with(unit / self.array.geometry.units_per_page());
        let state = &mut self.array.planes[plane as usize];
        if is_full {
            state.open[stream] = 0;
        }
        if shared.is_some() && self.config.backs_up_paired_pages {
            let copying = self.clock.times.read + self.clock.times.program;
            state.free_at = state.free_at.max(not_before) + copying;
            self.counters.pages_backed_up += 1;
            self.counters.busy_ns += copying;
        }
        let done_at = self.clock.program(state, channel, not_before);
        self.counters.pages_programmed += 1;
        self.counters.units_padded += u64::from(self.array.geometry.units_per_page()) - logical.len() as u64;
        self.counters.busy_ns += self.clock.times.page_transfer + self.clock.times.program;
        let begins_at = done_at - self.clock.times.program;
        if let Some(record) = &mut self.record {
            let (used, all) = (logical.len() as u32, self.array.geometry.units_per_page());
            record.padded(unit + used, all - used, begins_at, done_at);
        }
        Programmed { unit, begins_at, done_at }
    }

    /// Programs a page of what collection moves. It may take the last erased block (T3).
    #[inline]
    pub(super) fn program_moved(&mut self, plane: u32, logical: &[u32]) -> Programmed {
        let stream = self.config.frontier_of(MOVED);
        if self.array.planes[plane as usize].open[stream] == 0 {
            self.open_erased(plane, stream);
        }
        self.append(plane, stream, logical, 0)
    }

    /// Collection takes its share of a plane's time after so many units were programmed there (T3).
    pub(crate) fn pay(&mut self, plane: u32, units: u32) {
        self.collect(plane, units);
        self.clock.changed(self.array.planes, plane);
    }

    fn open(&mut self, plane: u32, stream: usize) -> u32 {
        // The last erased block is for what collection moves (T3).
        while self.array.erased(plane) < 2 {
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
