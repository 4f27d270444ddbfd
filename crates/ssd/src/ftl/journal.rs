//! The map on flash: a journal of changed entries, and the map's pages in turn.
//!
//! Changed entries gather in memory until they fill a page of the journal. The journal is as long as the map;
//! for each of its pages one page of the map is written, so that when the journal begins again all that stood
//! there first is in the map's pages. Both are units behind those of the host.

use bytemuck::{Pod, Zeroable};

use super::{Ftl, Location, MAP};
use crate::geometry::UNITS_PER_PAGE_MAX;

/// Bytes of an entry of the journal: a unit of the host, and where it is.
pub(crate) const JOURNAL_ENTRY_BYTES: u32 = 8;

/// Units of the two pages of a turn.
const HELD: usize = 2 * UNITS_PER_PAGE_MAX as usize;

/// How far the map on flash is, as words that processes may share.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Journal {
    /// Changed entries that no page of the journal has.
    pub(crate) dirty: u64,
    /// Entries in a page that is being programmed.
    under_way: u64,
    /// When that is in flash.
    done_at: u64,
    /// Pages of the journal written so far.
    pages: u64,
    /// When both pages of the last turn are in flash.
    turn_done_at: u64,
    /// Whether the map's page of the last turn is still to be written, since the power failed in it.
    owes_page: u64,
    /// Where the pages that they take the place of are until then: words of the map.
    held: [u32; HELD],
}

impl Ftl<'_> {
    /// Whether changed entries fill a page of the journal, if there is one.
    #[inline]
    pub(crate) fn owes_journal(&self) -> bool {
        self.journal.dirty >= u64::from(self.array.geometry.page_bytes / JOURNAL_ENTRY_BYTES)
    }

    /// Whether no more entries may change before the journal has some of them.
    #[inline]
    pub(crate) fn has_changed_too_much(&self) -> bool {
        self.journal.dirty >= u64::from(self.config.dirty_entries_max)
    }

    /// Writes what the map owes to its journal. Returns from when on a program may begin: changed entries are
    /// bounded.
    pub(crate) fn keep_journal(&mut self, map_pages: u32, first: u32, now: u64) -> u64 {
        self.write_full_pages(map_pages, first, now, false)
    }

    fn write_full_pages(&mut self, map_pages: u32, first: u32, now: u64, of_flush: bool) -> u64 {
        if !self.config.journal {
            self.journal.dirty = 0;
            return now;
        }
        let entries = u64::from(self.array.geometry.page_bytes / JOURNAL_ENTRY_BYTES);
        let mut from = now;
        // Collection for these pages moves half as much at most, as a rule (`gain_units_min`); what it moves
        // beyond that, for wear or a want of erased blocks, is for the next program to wait for.
        let pages_max = 2 * (self.journal.dirty / entries);
        for _ in 0..pages_max {
            if self.journal.dirty < entries {
                break;
            }
            if self.journal.done_at <= from {
                self.journal.under_way = 0;
            }
            if self.journal.dirty + self.journal.under_way > u64::from(self.config.dirty_entries_max) {
                self.counters.map_stalls += 1;
                self.counters.map_stall_ns += self.journal.done_at.saturating_sub(from);
                from = from.max(self.journal.done_at);
                self.journal.under_way = 0;
            }
            self.write_journal_page(map_pages, first, from, of_flush);
            self.journal.dirty -= entries;
            self.journal.under_way += entries;
        }
        from
    }

    /// Writes what has changed, a page or not. Returns when it is in flash.
    pub(crate) fn flush_journal(&mut self, map_pages: u32, first: u32, now: u64) -> u64 {
        if !self.config.journal {
            return now;
        }
        let now = self.write_full_pages(map_pages, first, now, true);
        if self.journal.dirty > 0 {
            self.write_journal_page(map_pages, first, now, true);
            self.journal.dirty = 0;
        }
        self.journal.under_way = 0;
        now.max(self.journal.done_at)
    }

    fn write_journal_page(&mut self, map_pages: u32, first: u32, now: u64, of_flush: bool) {
        // Those that the pages of the turn before took the place of are needed until these are in flash.
        let mut now = self.end_turn(now);
        if std::mem::take(&mut self.journal.owes_page) != 0 {
            // A page of the journal is written over only when the map's pages have all that it has.
            let turn = (self.journal.pages.saturating_sub(1) % u64::from(map_pages)) as u32;
            self.write_map_page(first, map_pages + turn, now, 0, false);
            now = self.end_turn(now);
        }
        let turn = (self.journal.pages % u64::from(map_pages)) as u32;
        self.journal.pages += 1;
        let begins_at = self.write_map_page(first, turn, now, 0, of_flush);
        self.journal.done_at = self.journal.done_at.max(self.journal.turn_done_at);
        // The map's own page in the same turn needs nobody to wait. It has what the journal's has, so it does
        // not begin before that.
        self.write_map_page(first, map_pages + turn, begins_at, UNITS_PER_PAGE_MAX as usize, false);
    }

    /// Gives up what the pages of the last turn took the place of, which are in flash then. Returns when.
    fn end_turn(&mut self, now: u64) -> u64 {
        for held in std::mem::take(&mut self.journal.held) {
            self.give_up(held);
        }
        let done_at = std::mem::take(&mut self.journal.turn_done_at);
        *self.settled_at = done_at.max(*self.settled_at);
        now.max(*self.settled_at)
    }

    /// Writes the page with this number of those behind the units of the host; what it takes the place of is
    /// held from this place on. Returns when it begins.
    fn write_map_page(&mut self, first: u32, number: u32, now: u64, hold_at: usize, of_flush: bool) -> u64 {
        let per_page = self.array.geometry.units_per_page();
        let logical = first + number * per_page;
        let plane = self.first_free(MAP);
        let programmed = self.begin_page(plane, MAP, now);
        for index in 0..per_page {
            self.array.put(programmed.unit + index, logical + index + 1);
        }
        self.end_page(plane, MAP, &programmed, per_page);
        if let Some(record) = &mut self.record {
            record.map_page(&programmed, number, per_page, of_flush);
        }
        for index in 0..per_page {
            let place = Location::Flash(programmed.unit + index).word();
            let before = std::mem::replace(&mut self.map[(logical + index) as usize], place);
            self.journal.hold(hold_at + index as usize, before);
        }
        self.counters.units_of_map += u64::from(per_page);
        self.journal.turn_done_at = self.journal.turn_done_at.max(programmed.done_at);
        self.pay(plane, per_page);
        programmed.begins_at
    }
}

impl Journal {
    /// Nothing is under way any more.
    pub(crate) fn settle(&mut self) {
        (self.under_way, self.done_at, self.turn_done_at) = (0, 0, 0);
    }

    /// Goes on behind so many pages, with so many changed entries that none of them has.
    /// `owes_page`: the map's page of the last turn is not in flash.
    pub(crate) fn goes_on(&mut self, pages: u64, dirty: u64, owes_page: bool) {
        (self.pages, self.dirty, self.owes_page) = (pages, dirty, u64::from(owes_page));
    }

    /// Words that name places of pages that are needed until newer ones are in flash.
    pub(crate) fn held(&self) -> impl Iterator<Item = u32> {
        self.held.iter().copied()
    }

    pub(crate) fn hold(&mut self, place: usize, word: u32) {
        self.held[place] = word;
    }
}
