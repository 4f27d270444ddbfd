//! Collection: valid units of a block are moved, and the block is erased.
//!
//! It is incremental. A block with v valid units of b frees b - v; so for every b - v units that are
//! programmed from outside, v are moved, and the block is erased when as much has been programmed as it
//! frees. A plane begins when it has fewer erased blocks than it is to hold back, and from then on has as
//! many at any time, give or take one (T3). With [`CollectionPace::WholeBlock`] it moves all of a block
//! instead, before the next page is programmed to an open block.

use mezzanine_ground::region::prefetch;

use super::{Ftl, Location, MOVED};
use crate::config::{Collection, CollectionFrontier, CollectionPace};
use crate::geometry::UNITS_PER_PAGE_MAX;

/// Pages that are looked for together: more than a step of collection moves, as a rule.
const PAGES_AT_ONCE: u32 = 4;
const AT_ONCE_MAX: u32 = PAGES_AT_ONCE * UNITS_PER_PAGE_MAX;
/// Units of which the words of the map are fetched before the step that moves them.
const AHEAD: usize = 4;

impl Ftl<'_> {
    /// Does what a plane owes to collection after so many units were programmed on it.
    pub(super) fn collect(&mut self, plane: u32, programmed: u32) {
        if self.config.collection_pace == CollectionPace::WholeBlock {
            return;
        }
        if self.array.planes[plane as usize].victim == 0 && !self.begin(plane) {
            return;
        }
        let state = &mut self.array.planes[plane as usize];
        let block = state.victim - 1;
        let moves = self.array.geometry.units_per_block() - state.gain;
        state.debt += u64::from(programmed) * u64::from(moves);
        let gain = u64::from(state.gain.max(1));
        let units = (state.debt / gain).min(u64::from(u32::MAX)) as u32;
        if units >= self.array.geometry.units_per_page() || self.array.valid(block) == 0 {
            self.advance(plane, units);
        }
    }

    /// Collects blocks of a plane until it has as many erased ones as it is to hold back.
    pub(super) fn collect_whole(&mut self, plane: u32) {
        // One block at most for its wear, which may free nothing.
        let mut is_levelling = true;
        while self.is_due(plane) && self.choose(plane, is_levelling) {
            self.advance(plane, u32::MAX);
            is_levelling = false;
        }
    }

    /// Collects one block of a plane, whatever is owed. False if there is none.
    pub(super) fn collect_in_full(&mut self, plane: u32) -> bool {
        if self.array.planes[plane as usize].victim == 0 && !self.choose(plane, true) {
            return false;
        }
        self.counters.collections_in_full += 1;
        self.advance(plane, u32::MAX);
        true
    }

    /// Takes a block, if the plane has too few erased ones.
    fn begin(&mut self, plane: u32) -> bool {
        self.is_due(plane) && self.choose(plane, true)
    }

    fn is_due(&self, plane: u32) -> bool {
        self.array.erased(plane) < self.config.reserve_blocks_per_plane
    }

    /// Takes the block that is collected next, or, if there is to be levelling, one for its wear. False if
    /// there is none.
    fn choose(&mut self, plane: u32, is_levelling: bool) -> bool {
        let units_per_block = self.array.geometry.units_per_block();
        // With the last erased block in use for what is moved, as after a power cut, what is moved has to fit
        // there.
        let is_short = self.array.erased(plane) == 0;
        if is_short && !self.has_place_for_moves(plane) {
            return false;
        }
        let chosen = match self.config.collection {
            _ if is_short => self.array.fewest_valid(plane),
            Collection::Greedy => self.array.fewest_valid(plane),
            Collection::CostBenefit => self.array.best(plane, |valid, age| {
                let used = f64::from(valid) / f64::from(units_per_block);
                (1.0 - used) * age as f64 / (2.0 * used).max(1e-9)
            }),
            Collection::Fifo => self.array.best(plane, |_, age| age as f64),
        };
        // Nothing is freed by moving all of a block.
        let Some(mut block) = chosen.filter(|block| self.array.has_garbage(*block)) else { return false };
        if let Some(cold) = self.least_worn(plane, block).filter(|_| is_levelling && !is_short) {
            self.counters.wear_moves += 1;
            block = cold;
        }
        let valid = self.array.valid(block);
        self.array.take(block);
        self.array.prefetch_spare(block);
        // What is moved takes whole pages.
        let takes = valid.next_multiple_of(self.array.geometry.units_per_page());
        let state = &mut self.array.planes[plane as usize];
        (state.victim, state.cursor, state.gain) = (block + 1, 0, units_per_block - takes);
        true
    }

    /// Whether a plane that has no erased block can collect the one with the fewest valid units: what is
    /// moved has to fit in the block that is open for that, and, where writes go there as well, leave them a
    /// page (T3).
    pub(super) fn has_place_for_moves(&self, plane: u32) -> bool {
        let Some(fewest) = self.array.fewest_valid_now(plane) else { return false };
        let valid = self.array.valid(fewest);
        let page = self.array.geometry.units_per_page();
        let is_shared = self.config.collection_frontier == CollectionFrontier::Shared;
        let left = if is_shared { page } else { 0 };
        valid == 0 || valid.next_multiple_of(page) + left <= self.room_for_moves(plane)
    }

    /// Units for which the block has room that is open for what a plane moves.
    pub(super) fn room_for_moves(&self, plane: u32) -> u32 {
        let open = self.array.planes[plane as usize].open[self.config.frontier_of(MOVED)];
        let per_block = self.array.geometry.units_per_block();
        open.checked_sub(1).map_or(0, |block| per_block - self.array.written(block))
    }

    /// The block to collect for its wear: it has been erased much less often than the one that was chosen.
    fn least_worn(&self, plane: u32, chosen: u32) -> Option<u32> {
        if self.config.wear_gap_max == 0 {
            return None;
        }
        let erases = self.array.erases(chosen);
        if erases <= self.config.wear_gap_max {
            return None;
        }
        let first = plane * self.array.geometry.blocks_per_plane;
        let closed = (first..first + self.array.geometry.blocks_per_plane)
            .filter(|block| self.array.state(*block) == crate::nand::BlockState::Closed);
        let cold = closed.min_by_key(|block| self.array.erases(*block))?;
        let room =
            self.array.valid(cold) < self.array.geometry.units_per_block() || self.array.erased(plane) > 1;
        (room && erases - self.array.erases(cold) > self.config.wear_gap_max).then_some(cold)
    }

    /// Moves so many units of the block that is collected, whole pages of them, and erases it when it holds
    /// no more.
    fn advance(&mut self, plane: u32, units: u32) {
        let geometry = self.array.geometry;
        let (per_page, per_block) = (geometry.units_per_page(), geometry.units_per_block());
        let state = &self.array.planes[plane as usize];
        let (block, began_at, gain) = (state.victim - 1, state.free_at, u64::from(state.gain.max(1)));
        let end = (block + 1) * per_block;
        let mut cursor = block * per_block + state.cursor;
        let (mut moved, mut page_read) = (0, u32::MAX);
        while moved < units {
            let wanted = geometry.pages_for((units - moved).min(AT_ONCE_MAX)).min(PAGES_AT_ONCE) * per_page;
            let mut found = [0; AT_ONCE_MAX as usize];
            let count = self.array.next_valid_ones(cursor, end, &mut found[..wanted as usize]);
            for page in found[..count].chunks(per_page as usize) {
                self.relocate(plane, block, page, &mut page_read);
            }
            let Some(last) = found[..count].last() else { break };
            cursor = last + 1;
            moved += count as u32;
        }
        let state = &mut self.array.planes[plane as usize];
        state.cursor = cursor - block * per_block;
        state.debt = state.debt.saturating_sub(u64::from(moved) * gain);
        self.array.prefetch_owner((cursor + 2 * AHEAD as u32).min(end - 1));
        if self.array.valid(block) == 0 {
            self.erase_collected(plane, block);
        }
        let took = self.array.planes[plane as usize].free_at - began_at;
        self.counters.collection_ns += took;
        self.counters.busy_ns += took;
    }

    /// Has the words of the map that the next step of collection changes come into the processor's caches,
    /// which are smaller than the map: the plane that is free first takes it.
    #[inline]
    pub(super) fn prefetch_next_step(&self) {
        let state = &self.array.planes[self.clock.first_free() as usize];
        let Some(block) = state.victim.checked_sub(1) else { return };
        let per_block = self.array.geometry.units_per_block();
        let (first, mut found) = (block * per_block, [0; AHEAD]);
        let count = self.array.next_valid_ones(first + state.cursor, first + per_block, &mut found);
        for unit in &found[..count] {
            prefetch(&self.map[self.array.spare(*unit) as usize - 1]);
        }
    }

    /// Erases the block that a plane has collected.
    fn erase_collected(&mut self, plane: u32, block: u32) {
        let state = &mut self.array.planes[plane as usize];
        (state.victim, state.debt) = (0, 0);
        let begins_at = state.free_at;
        assert!(
            begins_at >= *self.settled_at || self.erases_too_early(),
            "T4: block {block} is erased while what it held is still needed"
        );
        let state = &mut self.array.planes[plane as usize];
        state.free_at += self.clock.times.erase;
        let ends_at = state.free_at;
        self.counters.erases += 1;
        if let Some(record) = &mut self.record {
            let per_block = self.array.geometry.units_per_block();
            record.erased(block * per_block, per_block, begins_at, ends_at);
        }
        self.array.erase(block, self.config.endurance_erases, self.spare_blocks);
        self.counters.blocks_worn_out += u64::from(self.array.erases(block) == self.config.endurance_erases);
    }

    /// Moves these units of a block together into one page. `page_read` is the page that was read last.
    #[inline]
    fn relocate(&mut self, plane: u32, block: u32, units: &[u32], page_read: &mut u32) {
        let mut reads = 0;
        for unit in units {
            let page = self.array.geometry.page_of(*unit);
            reads += u64::from(page != *page_read);
            *page_read = page;
        }
        self.array.planes[plane as usize].free_at += reads * self.clock.times.read;
        self.counters.pages_read_to_move += reads;
        let page = self.begin_moved_page(plane);
        for (to, unit) in (page.unit..).zip(units) {
            let owner = self.array.spare(*unit);
            self.array.put(to, owner);
            if let Some(record) = &mut self.record {
                record.moved(*unit, to, page.begins_at, page.done_at);
            }
            let word = &mut self.map[owner as usize - 1];
            if *word == Location::Flash(*unit).word() && self.record.is_none() {
                *word = Location::Flash(to).word();
            } else if let Some(name) = self.name_of(owner - 1, *unit) {
                self.rename(owner - 1, name, Location::Flash(to).word(), page.done_at);
            }
            self.array.invalidate_taken(*unit);
        }
        let moved = units.len() as u32;
        self.array.moved(block, moved);
        self.end_page(plane, MOVED, &page, moved);
        self.counters.pages_moved += 1;
        self.counters.units_moved += u64::from(moved);
        self.journal.dirty += u64::from(moved);
    }
}
