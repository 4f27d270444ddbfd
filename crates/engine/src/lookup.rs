//! Looking pages up: one, or many at once.

use mezzanine_ground::interleave::spin;

use crate::answers::{FlashPage, Lookup, Token};
use crate::control::Control;
use crate::core::Tier;
use crate::directory::{ATTEMPTS, DIRTY, Directory, Entry, HOMED, Hashed, REFERENCED};
use crate::ids::{EntryNumber, PageId, Position};
use crate::placement::Placement as _;
use crate::placement::chosen::placed;
use crate::planted::{self, Bug};
use crate::statistics::Event;

/// Of many pages the bucket is fetched so many pages before the entry, and that so many before the page is
/// looked up: both are there by then, and no more lines are under way than a processor has places for.
const AHEAD: usize = 8;

/// One of many pages, between its bucket's fetch and its lookup.
struct Announced<'p> {
    id: PageId,
    hashed: Hashed,
    out: &'p mut [u8],
}

/// What a lookup saw of a page.
struct Seen<'r> {
    /// The number of the entry that is linked for it, and the entry.
    found: Option<(EntryNumber, &'r Entry)>,
    /// What was read of the entry.
    state: u32,
    checksum: u32,
    /// Where it was appended.
    position: Position,
    /// If there is none: the page's counter of changes.
    changes: u32,
}

impl<'r> Seen<'r> {
    /// What there is to know of a page at one moment; the caller sees to that.
    #[inline(always)]
    fn new(
        control: &Control,
        directory: &Directory<'r>,
        hashed: Hashed,
        found: Option<(EntryNumber, &'r Entry)>,
    ) -> Self {
        let position = found.map_or(Position::ZERO, |(at, _)| control.ends.position_of(at));
        let (state, checksum) = found.map_or((0, 0), |(_, entry)| (entry.state(), entry.checksum()));
        // The token is as old as the miss: a change after the one makes the other stale.
        let changes = if found.is_none() { directory.changes(hashed) } else { 0 };
        Self { found, state, checksum, position, changes }
    }
}

impl Tier {
    /// The page will be looked up or staged in. Changes nothing: a host that knows of a page some time before
    /// tells it twice, so that what the tier needs is in the processor's cache when its turn comes.
    #[inline]
    pub fn will_need(&self, id: &PageId) {
        self.directory().prefetch(id);
    }

    /// The same, a few hundred nanoseconds after [`Self::will_need`] and as many before the page is needed.
    #[inline]
    pub fn soon_needs(&self, id: &PageId) {
        self.directory().prefetch_entry(id);
    }

    /// Finds the valid version of a page. If staging memory holds it, it is copied to `out`.
    ///
    /// # Panics
    /// If `out` does not have the tier's page size.
    #[inline]
    pub fn lookup(&self, id: &PageId, out: &mut [u8]) -> Lookup {
        let directory = self.directory();
        self.lookup_hashed(&directory, directory.hashed(id), id, out)
    }

    /// [`Self::lookup`] of many pages, each with the memory for it; `found` is told of each in turn. What the
    /// later ones need comes into the processor's cache meanwhile, so each takes a fraction of the time that
    /// it would by itself. Nothing else differs: no moment is common to all of them.
    ///
    /// # Panics
    /// If memory for a page does not have the tier's page size.
    pub fn lookup_each<'p>(
        &self,
        pages: impl IntoIterator<Item = (PageId, &'p mut [u8])>,
        mut found: impl FnMut(Lookup),
    ) {
        let directory = self.directory();
        let mut pages = pages.into_iter().fuse();
        let mut announced = [const { None::<Announced<'p>> }; 2 * AHEAD];
        let mut step = 0;
        let mut waiting = 0;
        loop {
            let place = &mut announced[step % (2 * AHEAD)];
            if let Some(Announced { id, hashed, out }) = place.take() {
                waiting -= 1;
                found(self.lookup_hashed(&directory, hashed, &id, out));
            }
            if let Some((id, out)) = pages.next() {
                let hashed = directory.hashed(&id);
                directory.prefetch_bucket(hashed);
                *place = Some(Announced { id, hashed, out });
                waiting += 1;
            } else if waiting == 0 {
                return;
            }
            if let Some(Announced { hashed, .. }) = &announced[(step + AHEAD) % (2 * AHEAD)] {
                directory.prefetch_first(*hashed);
            }
            step += 1;
        }
    }

    #[inline(always)]
    fn lookup_hashed(
        &self,
        directory: &Directory<'_>,
        hashed: Hashed,
        id: &PageId,
        out: &mut [u8],
    ) -> Lookup {
        assert!(out.len() == self.geometry.page_size(), "a page of the wrong size");
        let look = |found| Seen::new(self.control(), directory, hashed, found);
        match directory.glance(hashed, id, look) {
            Some(seen) => self.looked_up(id, seen, out),
            None => self.lookup_at_length(id, out),
        }
    }

    /// A change came between, or is under way, or the page is not where its tag leads first.
    #[cold]
    #[inline(never)]
    fn lookup_at_length(&self, id: &PageId, out: &mut [u8]) -> Lookup {
        let directory = self.directory();
        let hashed = directory.hashed(id);
        let look = |found| Seen::new(self.control(), &directory, hashed, found);
        for _ in 0..ATTEMPTS {
            if let Some(seen) = directory.look(hashed, id, look) {
                return self.looked_up(id, seen, out);
            }
            spin();
        }
        let shard = directory.lock(hashed, self.owner);
        let seen = look(shard.find_entry(id));
        drop(shard);
        self.looked_up(id, seen, out)
    }

    #[inline(always)]
    fn looked_up(&self, id: &PageId, seen: Seen<'_>, out: &mut [u8]) -> Lookup {
        let Some((at, entry)) = seen.found else {
            self.count(Event::Miss);
            placed!(self, placement => placement.missed(id));
            // Before the host reads disk, which is what counts.
            return Lookup::Miss(Token(seen.changes.wrapping_add(self.range_changes(id))));
        };
        planted::outside("lookup: seen");
        if seen.state & REFERENCED == 0 {
            entry.refer(seen.state);
            planted::outside("lookup: referred");
        }
        let frame = placed!(self, placement => placement.hit(at));
        let position = seen.position;
        if position >= self.control().ends.staged_from() {
            self.count(Event::HitInMemory);
            // If its group left memory between the two looks, flash has it.
            let state = if planted::is(Bug::HomedAskedLate) { self.state_at(position) } else { seen.state };
            if self.copy_staged(position, state, out) {
                return Lookup::Memory;
            }
        } else {
            self.count(Event::HitOnFlash);
        }
        Lookup::Flash(FlashPage {
            offset: self.geometry.offset_of_frame(frame),
            position,
            checksum: seen.checksum,
            dirty: seen.state & DIRTY != 0,
        })
    }

    /// Copies the page at `position` out of staging memory, if it is still there afterwards. `state` is of a
    /// moment at which its entry was linked: an entry that was unlinked since does not tell whether
    /// memory ever had the page.
    #[inline(never)]
    pub(crate) fn copy_staged(&self, position: Position, state: u32, out: &mut [u8]) -> bool {
        let control = self.control();
        if position < control.ends.staged_from() || state & HOMED != 0 {
            return false;
        }
        for group in self.staging_groups() {
            let begin = group.position();
            planted::outside("staged copy: position of a group read");
            let first = begin + self.geometry.summary_frames();
            let pages = group.pages();
            if !group.is_free() && (first..first + pages).contains(&position) {
                self.region.copy_out(self.staged_page(group, position - first), out);
                // The memory may have been given to another group since `begin` was read: then that has
                // another position, and neither the number of pages nor what was copied need be those of
                // the group that is asked for.
                let by_end = planted::is(Bug::StagedGroupMixed) && position >= control.ends.staged_from();
                return group.position() == begin || by_end || planted::is(Bug::StagedCopyUnconfirmed);
            }
        }
        false
    }
}
