//! Pages that are read from flash before they are needed, for the process that will need them.
//!
//! A server says which blocks it is going to read (PostgreSQL's `effective_io_concurrency`). Those that lie
//! on flash are read meanwhile, each to a place of this process's own; the read that follows takes what has
//! come.
//!
//! 1. What was read ahead is taken only by a read whose own lookup says that the tier has the same version of
//!    the page in the same place, and whose checksum it has: so nothing has to be told when a page is
//!    replaced, dropped or leaves the tier. What may be stale is given up, and the page read anew.
//! 2. Whatever is in doubt counts as not read: an error, a wrong checksum. All rules for pages that flash
//!    does not give back stand in one place ([`Host::read`]).
//! 3. There are as many places as the server asks for, and no more. When all are taken, the read that was
//!    begun first is given up for the next one: whoever wanted it has not come for it.
//! 4. It ends with the process, or when the server says that nobody comes any more ([`Host::forget_ahead`]).

use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};

use mezzanine_device::ReadsAhead;
use mezzanine_engine::planted::{self, Bug};
use mezzanine_engine::{FlashPage, Lookup, PageId, Whereabouts};

use crate::host::{FlashIo, Host};

/// Most pages that are read ahead by one process at a time.
pub const DEPTH_MAX: usize = 1000;

/// What became of the pages that a process has read ahead, since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AheadCounts {
    /// Reads that were begun.
    pub begun: u64,
    /// Of these, pages that a read has taken.
    pub used: u64,
    /// Pages that the tier had in another version when they were to be taken, or that came damaged or not at
    /// all: they were read anew.
    pub stale: u64,
    /// Pages that nobody came for.
    pub unused: u64,
}

/// The reads ahead of one process.
#[derive(Default)]
pub struct ReadAhead {
    depth: usize,
    way: Way,
    /// The first that was begun first.
    under_way: VecDeque<Begun>,
    free: VecDeque<usize>,
    counts: AheadCounts,
}

#[derive(Default)]
enum Way {
    #[default]
    None,
    Places(Box<dyn ReadsAhead>),
    /// There is none, for this reason.
    Unsupported(String),
}

/// A page that is read to this place.
struct Begun {
    id: PageId,
    page: FlashPage,
    place: usize,
}

impl ReadAhead {
    /// Gives up what is under way.
    fn clear(&mut self) {
        self.counts.unused += self.under_way.len() as u64;
        self.free.extend(self.under_way.drain(..).map(|begun| begun.place));
    }

    fn find(&self, id: &PageId) -> Option<usize> {
        self.under_way.iter().position(|begun| begun.id == *id)
    }

    fn remove(&mut self, index: usize) -> Option<Begun> {
        let begun = self.under_way.remove(index)?;
        self.free.push_back(begun.place);
        Some(begun)
    }

    /// Which read nobody has come for yet, of those that have completed.
    fn oldest_that_is_over(&mut self) -> Option<usize> {
        let Way::Places(places) = &mut self.way else { return None };
        self.under_way.iter().position(|begun| !places.is_under_way(begun.place))
    }

    /// Begins to read a page; where all places are under way, nothing.
    fn begin(&mut self, id: &PageId, page: FlashPage) {
        if let Some(index) = self.find(id) {
            if self.under_way[index].page.is_same_version(&page) {
                return;
            }
            self.counts.stale += 1;
            self.remove(index);
        }
        if self.free.is_empty() {
            let Some(index) = self.oldest_that_is_over() else { return };
            self.counts.unused += 1;
            self.remove(index);
        }
        let Way::Places(places) = &mut self.way else { return };
        // Where a read was given up it may go on, and whoever begins does not wait.
        let idle = self.free.iter().position(|place| !places.is_under_way(*place));
        let Some(place) = idle.and_then(|index| self.free.remove(index)) else { return };
        if !places.begin(place, page.offset) {
            self.free.push_back(place);
            return;
        }
        self.counts.begun += 1;
        self.under_way.push_back(Begun { id: *id, page, place });
        assert!(self.under_way.len() + self.free.len() == self.depth, "a place for each read");
    }
}

impl Host {
    fn ahead(&self) -> MutexGuard<'_, ReadAhead> {
        // Nothing that runs under it leaves it halfway through a change.
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read pages that lie on flash and will be read soon by this process: up to `depth` of them,
    /// at most [`DEPTH_MAX`], are under way at a time. Returns whether the tier has all of them, so that disk
    /// need not be asked. Another depth than that of the last call gives up what is under way.
    pub fn read_ahead(&self, ids: &[PageId], depth: usize) -> bool {
        let tier = self.tier();
        let mut ahead = self.ahead();
        let depth = depth.min(DEPTH_MAX);
        let mut has_all = true;
        for id in ids {
            match tier.whereabouts(id) {
                None => has_all = false,
                Some(Whereabouts::Flash(page)) if depth > 0 => {
                    // Not before: whoever reads nothing from flash needs no memory for it.
                    self.have_places(&mut ahead, depth);
                    ahead.begin(id, page);
                }
                Some(_) => {}
            }
        }
        has_all
    }

    fn have_places(&self, ahead: &mut ReadAhead, depth: usize) {
        if ahead.depth == depth {
            return;
        }
        ahead.clear();
        // The old ones first: their memory is given back before there is more.
        ahead.way = Way::None;
        ahead.way = match self.flash.clone().reads_ahead(depth, self.geometry().page_size()) {
            Ok(places) => Way::Places(places),
            Err(error) => Way::Unsupported(error.to_string()),
        };
        ahead.free = (0..depth).collect();
        ahead.depth = depth;
    }

    /// Gives up what is being read ahead: nobody comes for it any more.
    pub fn forget_ahead(&self) {
        self.ahead().clear();
    }

    /// What became of the pages that this process has read ahead.
    pub fn ahead_counts(&self) -> AheadCounts {
        self.ahead().counts
    }

    /// Bytes of memory that this process has for reading ahead: a page for each read that may be under way.
    pub fn ahead_bytes(&self) -> usize {
        let ahead = self.ahead();
        match ahead.way {
            Way::Places(_) => ahead.depth * self.geometry().page_size(),
            Way::None | Way::Unsupported(_) => 0,
        }
    }

    /// By what pages are read ahead, or why they are not (`Err`); `None` before the first.
    pub fn ahead_way(&self) -> Option<Result<String, String>> {
        match &self.ahead().way {
            Way::None => None,
            Way::Places(places) => Some(Ok(places.describe())),
            Way::Unsupported(reason) => Some(Err(reason.clone())),
        }
    }

    /// Gives up what was read ahead of a page that a lookup has just found elsewhere than on flash.
    pub(crate) fn outdate_ahead(&self, id: &PageId, now: &Lookup) {
        let mut ahead = self.ahead();
        if matches!(now, Lookup::Flash(_)) || ahead.under_way.is_empty() {
            return;
        }
        if let Some(index) = ahead.find(id) {
            ahead.counts.stale += 1;
            ahead.remove(index);
        }
    }

    /// Whether a page that a lookup has just found on flash was read ahead: then `out` has it.
    pub(crate) fn take_ahead(&self, id: &PageId, now: &FlashPage, out: &mut [u8]) -> bool {
        let mut ahead = self.ahead();
        let Some(begun) = ahead.find(id).and_then(|index| ahead.remove(index)) else { return false };
        let taken = self.take(&mut ahead, &begun, now, out);
        match taken {
            true => ahead.counts.used += 1,
            false => ahead.counts.stale += 1,
        }
        taken
    }

    fn take(&self, ahead: &mut ReadAhead, begun: &Begun, now: &FlashPage, out: &mut [u8]) -> bool {
        let believed = planted::is(Bug::StaleReadAheadUsed);
        if !begun.page.is_same_version(now) && !believed {
            return false;
        }
        let Way::Places(places) = &mut ahead.way else { return false };
        self.server.flash_begins(FlashIo::Read);
        let read = places.finish(begun.place);
        self.server.flash_ended(FlashIo::Read);
        let Some(read) = read else { return false };
        out.copy_from_slice(read);
        // The frame first: what has gone to another page is not damaged.
        believed || self.tier().confirm(now) && self.tier().verify(now, out)
    }
}
