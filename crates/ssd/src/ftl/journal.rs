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
}

impl Ftl<'_> {
    /// Writes what the map owes to its journal. Returns from when on a program may begin: changed entries are
    /// bounded.
    pub(crate) fn keep_journal(&mut self, map_pages: u32, first: u32, now: u64) -> u64 {
        if !self.config.journal {
            self.journal.dirty = 0;
            return now;
        }
        let entries = u64::from(self.array.geometry.page_bytes / JOURNAL_ENTRY_BYTES);
        let mut from = now;
        while self.journal.dirty >= entries {
            if self.journal.done_at <= from {
                self.journal.under_way = 0;
            }
            if self.journal.dirty + self.journal.under_way > u64::from(self.config.dirty_entries_max) {
                self.counters.map_stalls += 1;
                self.counters.map_stall_ns += self.journal.done_at.saturating_sub(from);
                from = from.max(self.journal.done_at);
                self.journal.under_way = 0;
            }
            self.write_journal_page(map_pages, first, from);
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
        let now = self.keep_journal(map_pages, first, now);
        if self.journal.dirty > 0 {
            self.write_journal_page(map_pages, first, now);
            self.journal.dirty = 0;
        }
        self.journal.under_way = 0;
        now.max(self.journal.done_at)
    }

    fn write_journal_page(&mut self, map_pages: u32, first: u32, now: u64) {
        let turn = (self.journal.pages % u64::from(map_pages)) as u32;
        self.journal.pages += 1;
        let done_at = self.write_map_page(first, turn, now);
        self.journal.done_at = self.journal.done_at.max(done_at);
        // The map's own page in the same turn needs nobody to wait.
        self.write_map_page(first, map_pages + turn, now);
    }

    /// Writes the page with this number of those behind the units of the host.
    fn write_map_page(&mut self, first: u32, number: u32, now: u64) -> u64 {
        let per_page = self.array.geometry.units_per_page();
        let mut logical = [0; UNITS_PER_PAGE_MAX as usize];
        for (index, logical) in logical.iter_mut().enumerate() {
            *logical = first + number * per_page + index as u32;
        }
        let logical = &logical[..per_page as usize];
        let plane = self.first_free(MAP);
        let programmed = self.program(plane, MAP, logical, now);
        for (index, logical) in logical.iter().enumerate() {
            let place = Location::Flash(programmed.unit + index as u32).word();
            let before = std::mem::replace(&mut self.map[*logical as usize], place);
            self.give_up(before);
        }
        self.counters.units_of_map += u64::from(per_page);
        self.pay(plane, per_page);
        programmed.done_at
    }
}

impl Journal {
    /// Nothing is under way any more.
    pub(crate) fn settle(&mut self) {
        (self.under_way, self.done_at) = (0, 0);
    }
}
