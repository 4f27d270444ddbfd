//! Pages that are written in place: for designs with a replacement policy of their own (see `designs`).
//!
//! The queue of positions holds *records* only, in memory and in the summaries of groups; a page lies in a
//! frame of its own, its *home*. Everything that is said of positions stays true: groups, their chain, the
//! durable mark, tombstones, the front, metadata segments. What differs:
//!
//! - A group is written as one summary, in a small ring of summaries, and one write per page, at its home. A
//!   page that is rewritten takes a fresh home; the old one is given to others later
//!   (docs/decisions/0008-designs-that-write-in-place.md).
//! - At the front of the queue nothing is read and nothing leaves: valid records are *relocated*, appended
//!   again for pages that stay where they are ([`copy_forward`]). Their entries are `HOMED`: staging memory
//!   does not have their pages.
//! - Pages leave when the policy says so ([`evict`]): a clean one by a tombstone, a dirty one after it was
//!   written to disk and synced ([`dirty_evictions`]).
//!
//! ```text
//!            staged in               victim                  clean on disk, tombstone appended
//!   Free ---------------> Used ---------------> Leaving --------------------------------> Deferred --+
//!    ^                     |  |                    |   rewritten, invalidated                  ^      |
//!    |                     |  +--------------------+-------------------------------------------+      |
//!    |                     | invalidated in memory alone                                       |      |
//!    |                     +-----------------------> Leaked ----(the front passes its record)--+      |
//!    +---------------------------------- what made it free is durable --------------------------------+
//! ```
//!
//! A home that could not be read is noted, whatever its state, and Bad when it would become Free. It is left
//! out until too many are (`bad_frames`).
//!
//! 1. A home is written only by the group whose record took it from Free. So a home in Deferred still has its
//!    page, for a crash that finds the old record and not the one that replaced it (invariant 5).
//! 2. A home is in Deferred until every group is durable that existed when it came there: the one that
//!    superseded its page or holds the tombstone is among them.
//! 3. A page in Used or Leaving is linked, at the entry that the home names; no other linked entry names that
//!    home.
//! 4. Used homes are in the policy's order, others are not, but for the moment in which the policy's lock is
//!    held.
//!
//! The policy knows *logical frames*, of which each home is one. A rewrite gives that of the old home to the
//! new one: to the policy the page has stayed in its frame, as in the papers.
//!
//! `Placed::lock` guards everything here but what threads note for the policy ([`noted`]): lookups take no
//! lock. It is taken last: under a shard's lock, the control lock, or none, and nothing is called under it.

mod admission;

mod evict;

mod order;

mod placement;

mod recover;

mod copy_forward;

mod noted;

mod slots;

mod dirty_evictions;

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use order::LogicalFrame;
pub use slots::DiskMark;
use slots::{SlotLayout, Slots};

use mezzanine_ground::counters::own_line;
use mezzanine_ground::interleave::AtomicU32;
use mezzanine_ground::lock::{Guard, RegionLock};
use mezzanine_ground::region::{Region, State as _, Word, shared, states};
use mezzanine_ground::replacement::{Order, PageKey};

use crate::config::PlacedGeometry;
use crate::core::Tier;
use crate::directory::VALID;
use crate::ids::{EntryNumber, Frame, PageId, Position, Sequence, Version};
use crate::placement::Recorded;
use crate::planted::{self, Bug};
use crate::stage_out::bad_list::BAD_MAX;

states! {
    /// What a home is to its page.
    pub(crate) enum HomeState {
        Free = 0,
        Used = 1,
        Leaving = 2,
        Deferred = 3,
        Leaked = 4,
        /// Its page is lost: it stays linked, and does not leave.
        Kept = 5,
        /// Nothing is put here any more: see `bad_frames`.
        Bad = 6,
    }
}

/// The bit, in the word of the state, of a home that could not be read. It stays while the state changes, so
/// that a home is not forgotten that keeps its page for long; it goes when the home is given out again.
const UNREADABLE: u32 = 1 << 31;

/// No entry in the list of pages written to disk.
const NEVER_WRITTEN: u32 = u32::MAX;

/// Counts and ends of the lists below, and what is under way.
#[repr(C, align(64))]
pub(crate) struct Placed {
    lock: RegionLock,
    _apart: AtomicU32,
    /// Homes in the list of free ones.
    pub(crate) free: Word,
    deferred_first: Word,
    deferred_end: Word,
    /// The list of pages that are to leave; some may have been superseded since. And how many homes are
    /// LEAVING.
    leaving_first: Word,
    leaving_end: Word,
    leaving: Word,
    /// Pages written to disk and not synced; up to where the sync under way covers them.
    written_first: Word,
    written_end: Word,
    written_covered: Word,
    /// Homes that became free, ever.
    freed: Word,
    /// Homes that are BAD; and where the next one is looked for that is given out again.
    bad: Word,
    bad_next: Word,
    /// Pages in the order of the dirty ones.
    dirty: Word,
    /// 1 while somebody asks the policy for victims, and who.
    evicting: Word,
    evicting_owner: Word,
    /// What is to leave the queue of records, and the groups that must be durable first; 0 if nothing waits.
    pub(crate) ring_barrier: Word,
    pub(crate) ring_barrier_end: Word,
    /// Behind the last line of which the thread has ever noted a reference.
    noting: Word,
}

/// One home.
#[repr(C)]
pub(crate) struct Home {
    /// One of the states above, and [`UNREADABLE`]. Changed under the lock.
    state: AtomicU32,
    /// The entry of its page's newest record.
    entry: AtomicU32,
    /// Which logical frame it is.
    logical: AtomicU32,
    /// The home that is the logical frame of this one's number.
    of_logical: FrameWord,
    epoch: AtomicU32,
    /// Number of its page's last entry in the list of pages written to disk, or [`NEVER_WRITTEN`].
    written: AtomicU32,
    version: Word,
    lsn: Word,
}

/// A frame's number in the region.
#[repr(transparent)]
pub(crate) struct FrameWord(AtomicU32);

impl FrameWord {
    fn get(&self) -> Frame {
        Frame(self.0.load(Relaxed))
    }

    fn set(&self, frame: Frame) {
        self.0.store(frame.0, Relaxed);
    }
}

/// A home that becomes free when a group is durable.
#[repr(C)]
pub(crate) struct DeferredFree {
    sequence: Word,
    home: FrameWord,
    _apart: AtomicU32,
}

shared!(Placed, Home, DeferredFree, FrameWord);

impl Home {
    /// The entry of its page's newest record.
    fn entry(&self) -> EntryNumber {
        EntryNumber(self.entry.load(Relaxed))
    }

    fn logical(&self) -> LogicalFrame {
        LogicalFrame(self.logical.load(Relaxed))
    }

    /// The version of its page.
    fn version(&self) -> Version {
        Version::from_number(self.version.get())
    }
}

impl DeferredFree {
    /// The group that is to be durable.
    fn sequence(&self) -> Sequence {
        Sequence::from_number(self.sequence.get())
    }
}

/// Byte offsets of the parts in a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlacedLayout {
    control: usize,
    homes: usize,
    of_entries: usize,
    free: usize,
    deferred: usize,
    leaving: usize,
    written: usize,
    order: usize,
    dirty_order: usize,
    /// What threads have noted for the policy.
    noted: usize,
    slots: SlotLayout,
}

impl PlacedLayout {
    /// Takes what a tier of these sizes needs: bytes and alignment to an offset.
    pub(crate) fn compute(placed: &PlacedGeometry, take: &mut dyn FnMut(usize, usize) -> usize) -> Self {
        let homes = placed.homes as usize;
        let dirty = placed.dirty_order.map_or(0, |policy| policy.bytes());
        Self {
            control: take(size_of::<Placed>(), 64),
            homes: take(homes * size_of::<Home>(), 64),
            of_entries: take(placed.positions as usize * 4, 64),
            free: take(homes * 4, 64),
            deferred: take(homes * size_of::<DeferredFree>(), 64),
            leaving: take(homes * 4, 64),
            written: take(homes * 4, 64),
            order: take(placed.order.bytes(), 64),
            dirty_order: take(dirty, 64),
            noted: take(noted::NOTED_BYTES, 64),
            slots: match &placed.slots {
                Some(geometry) => SlotLayout::compute(placed, geometry, take),
                None => SlotLayout::default(),
            },
        }
    }
}

/// The parts in a region.
#[derive(Clone, Copy)]
pub(crate) struct Homes<'r> {
    pub(crate) control: &'r Placed,
    homes: &'r [Home],
    of_entries: &'r [FrameWord],
    free: &'r [FrameWord],
    deferred: &'r [DeferredFree],
    leaving: &'r [FrameWord],
    written: &'r [FrameWord],
    /// For designs that have a slot directory.
    slots: Option<Slots<'r>>,
    region: &'r Region,
    geometry: &'r PlacedGeometry,
    layout: &'r PlacedLayout,
}

impl<'r> Homes<'r> {
    fn new(region: &'r Region, geometry: &'r PlacedGeometry, layout: &'r PlacedLayout) -> Self {
        let count = geometry.homes as usize;
        Self {
            control: region.value(layout.control),
            homes: region.slice(layout.homes, count),
            of_entries: region.slice(layout.of_entries, geometry.positions as usize),
            free: region.slice(layout.free, count),
            deferred: region.slice(layout.deferred, count),
            leaving: region.slice(layout.leaving, count),
            written: region.slice(layout.written, count),
            slots: geometry.slots.as_ref().map(|slots| Slots::new(region, geometry, slots, &layout.slots)),
            region,
            geometry,
            layout,
        }
    }

    /// All homes, in turn.
    fn all(&self) -> impl DoubleEndedIterator<Item = Frame> + use<> {
        (0..self.geometry.homes).map(Frame)
    }

    /// Takes the lock, and tells the policy what this thread has noted.
    fn lock(&self, owner: u32) -> Guard<'r> {
        let guard = self.control.lock.lock(owner);
        if let Some(line) = own_line(self.region, owner) {
            self.tell_of(line);
        }
        guard
    }

    fn home(&self, home: Frame) -> &'r Home {
        &self.homes[home.0 as usize]
    }

    fn state(&self, home: Frame) -> HomeState {
        HomeState::of_code((self.home(home).state.load(Relaxed) & !UNREADABLE).into())
    }

    pub(crate) fn is_unreadable(&self, home: Frame) -> bool {
        self.home(home).state.load(Relaxed) & UNREADABLE != 0
    }

    /// The home that an entry names. Its word is written before the entry is linked.
    pub(crate) fn of_entry(&self, entry: EntryNumber) -> Frame {
        self.of_entries[entry.0 as usize].get()
    }

    fn order(&self) -> Order<'r> {
        self.geometry.order.open(self.region, self.layout.order)
    }

    fn dirty_order(&self) -> Option<Order<'r>> {
        let policy = self.geometry.dirty_order.as_ref()?;
        Some(policy.open(self.region, self.layout.dirty_order))
    }

    /// Homes in DEFERRED.
    fn deferred_frees(&self) -> u64 {
        self.control.deferred_end.get() - self.control.deferred_first.get()
    }

    /// Pages written to disk since the last sync of the disk.
    fn unsynced(&self) -> u64 {
        self.control.written_end.get() - self.control.written_first.get()
    }

    fn defer_free(&self, home: Frame, sequence: Sequence) {
        let control = self.control;
        let deferred = &self.deferred[(control.deferred_end.get() % self.deferred.len() as u64) as usize];
        deferred.sequence.set(sequence.number());
        deferred.home.set(home);
        control.deferred_end.bump(1);
    }

    fn push_free(&self, home: Frame) {
        self.set_state(home, HomeState::Free);
        self.free[self.control.free.bump(1) as usize].set(home);
    }

    /// Gives a home that is BAD to pages again, one after the other in turn: what is bad for good is so again
    /// and again, and good ones among them come to be used.
    fn give_out_bad(&self) {
        let (first, count) = (self.control.bad_next.get(), u64::from(self.geometry.homes));
        let mut homes = (first..first + count).map(|home| Frame((home % count) as u32));
        let Some(home) = homes.find(|&home| self.state(home) == HomeState::Bad) else { return };
        self.control.bad_next.set(u64::from(home.0) + 1);
        self.control.bad.set(self.control.bad.get() - 1);
        self.home(home).state.store(HomeState::Bad.code() as u32, Relaxed);
        self.push_free(home);
        self.control.freed.bump(1);
    }

    /// Changes the state of a home.
    fn set_state(&self, home: Frame, state: HomeState) {
        let before = self.state(home);
        let unreadable = if self.is_unreadable(home) { UNREADABLE } else { 0 };
        self.home(home).state.store(state.code() as u32 | unreadable, Relaxed);
        if before == HomeState::Leaving && state != HomeState::Leaving {
            self.control.leaving.set(self.control.leaving.get() - 1);
        } else if before != HomeState::Leaving && state == HomeState::Leaving {
            self.control.leaving.bump(1);
        }
    }

    /// The page of a home is not in the policy's order any more; nothing of it is remembered.
    fn remove(&self, home: Frame) {
        let logical = self.home(home).logical();
        self.order().visit(order::Remove(logical));
        self.remove_dirty(logical);
    }

    fn remove_dirty(&self, logical: LogicalFrame) {
        if self.dirty_order().is_some_and(|order| order.visit(order::Remove(logical))) {
            self.control.dirty.set(self.control.dirty.get() - 1);
        }
    }

    fn key(&self, id: &PageId) -> PageKey {
        let neighbours = self.geometry.order.policy().looks_at_neighbours();
        PageKey(if neighbours { id.in_sequence() } else { id.hash() })
    }
}

/// Pages lie in frames of their own: the placement of designs with a replacement policy.
pub(crate) struct InPlace<'t> {
    tier: &'t Tier,
    geometry_in_place: &'t PlacedGeometry,
    /// Made when it is asked for: most questions need none of it.
    homes: OnceCell<Homes<'t>>,
}

/// What the placements share.
impl Deref for InPlace<'_> {
    type Target = Tier;

    fn deref(&self) -> &Tier {
        self.tier
    }
}

impl<'t> InPlace<'t> {
    pub(crate) fn of(tier: &'t Tier, geometry: &'t PlacedGeometry) -> Self {
        Self { tier, geometry_in_place: geometry, homes: OnceCell::new() }
    }

    fn homes(&self) -> &Homes<'t> {
        let (tier, geometry) = (self.tier, self.geometry_in_place);
        self.homes.get_or_init(|| Homes::new(&tier.region, geometry, &tier.geometry.layout.placed))
    }
}

impl Tier {
    /// For what only this placement has.
    pub(crate) fn in_place(&self) -> Option<InPlace<'_>> {
        let geometry = self.geometry.placed.as_ref()?;
        Some(InPlace::of(self, geometry))
    }
}

impl InPlace<'_> {
    /// Counts and ends of the lists.
    fn ends(&self) -> &Placed {
        self.region.value(self.geometry.layout.placed.control)
    }

    /// The home that an entry names.
    fn home_of(&self, entry: EntryNumber) -> Frame {
        let positions = self.geometry_in_place.positions as usize;
        let words: &[FrameWord] = self.region.slice(self.geometry.layout.placed.of_entries, positions);
        words[entry.0 as usize].get()
    }

    /// Whether there is a home for a page that comes in. Under the control lock.
    fn has_home(&self) -> bool {
        let homes = self.homes();
        if homes.control.free.get() == 0 {
            self.free_deferred();
        }
        homes.control.free.get() > 0
    }

    /// Takes a home for a page that comes in. Under the control lock.
    fn take_home(&self) -> Option<Frame> {
        let homes = self.homes();
        let _guard = homes.lock(self.owner);
        let last = homes.control.free.get().checked_sub(1)?;
        homes.control.free.set(last);
        let home = homes.free[last as usize].get();
        // A sync that is under way covers the page that was here, not the one that comes.
        if !planted::is(Bug::SyncCoversNextPage) {
            homes.home(home).written.store(NEVER_WRITTEN, Relaxed);
        }
        Some(home)
    }

    /// Notes what the record at `entry` says of its page. Under the control lock; the entry is not linked.
    fn name_home(&self, entry: EntryNumber, home: Frame, recorded: Recorded) {
        let homes = self.homes();
        homes.of_entries[entry.0 as usize].set(home);
        let home = homes.home(home);
        home.epoch.store(recorded.epoch, Relaxed);
        home.version.set(recorded.version.number());
        home.lsn.set(recorded.lsn);
    }

    /// The page has a home, at the entry that was just linked; `older` is the home of the version that it
    /// supersedes. Under the lock of the page's shard.
    pub(crate) fn placed(&self, entry: EntryNumber, id: &PageId, older: Option<Frame>, dirty: bool) {
        let homes = self.homes();
        let newest = self.newest_group();
        let _guard = homes.lock(self.owner);
        let home = homes.of_entry(entry);
        homes.reference_counted(id);
        if let Some(older) = older {
            homes.swap_logical(older, home);
            homes.set_state(older, HomeState::Deferred);
            homes.defer_free(older, newest);
        }
        homes.home(home).entry.store(entry.0, Relaxed);
        homes.set_state(home, HomeState::Used);
        homes.came(home, homes.key(id), dirty);
    }

    /// The page of `home` was unlinked, and the record that says so appended. Under the lock of the page's
    /// shard.
    pub(crate) fn unplaced(&self, home: Frame) {
        let homes = self.homes();
        let newest = self.newest_group();
        let _guard = homes.lock(self.owner);
        homes.remove(home);
        homes.set_state(home, HomeState::Deferred);
        homes.defer_free(home, newest);
        if let Some(slots) = homes.slots {
            slots.invalidate(home, &self.directory().id(homes.home(home).entry()));
        }
    }

    /// The page at `entry` was unlinked, and no record says so: its home is kept until the front has passed
    /// its record. Under the lock of the page's shard.
    pub(crate) fn leak(&self, entry: EntryNumber) {
        let homes = self.homes();
        if homes.slots.is_some() {
            // Its slot says so.
            return self.unplaced(homes.of_entry(entry));
        }
        let _guard = homes.lock(self.owner);
        let home = homes.of_entry(entry);
        homes.remove(home);
        homes.set_state(home, HomeState::Leaked);
    }

    /// The page at `entry` is lost: nothing is read at its home any more, and it leaves only for a newer
    /// version. Under the lock of its shard.
    pub(crate) fn keep_home(&self, entry: EntryNumber) {
        let homes = self.homes();
        let _guard = homes.lock(self.owner);
        let home = homes.of_entry(entry);
        homes.remove(home);
        homes.set_state(home, HomeState::Kept);
    }

    /// The page at `entry` is lost no more, and clean: it may leave like any other. Under the lock of its
    /// shard.
    pub(crate) fn give_home_back(&self, entry: EntryNumber) {
        let homes = self.homes();
        let _guard = homes.lock(self.owner);
        let home = homes.of_entry(entry);
        if homes.state(home) == HomeState::Kept {
            homes.set_state(home, HomeState::Used);
            homes.came(home, homes.key(&self.directory().id(entry)), false);
        }
    }

    /// The front is about to move on from `front` to `end`. Leaked homes whose records it passes
    /// become free when a group is durable that states it. Under the control lock, under which groups take
    /// the front along.
    fn leaked_leave(&self, front: Position, end: Position) {
        let homes = self.homes();
        let control = self.control();
        let end = end.min(control.passed.invalidated_in_memory_end());
        if front >= end {
            return;
        }
        // The next to be closed: one that waits to be written has taken the front along as it was.
        let states_it = control.append.open().unwrap_or_else(|| control.groups.next());
        let directory = self.directory();
        let _guard = homes.lock(self.owner);
        for entry in Position::each(front..end).map(|position| self.entry_of(position)) {
            if directory.state(entry) & VALID != 0 || directory.head(entry).is_some() {
                continue;
            }
            let home = homes.of_entry(entry);
            if homes.state(home) == HomeState::Leaked && homes.home(home).entry() == entry {
                homes.set_state(home, HomeState::Deferred);
                homes.defer_free(home, states_it);
            }
        }
    }

    /// Records may leave the queue when all that relocated or replaced them is durable, which is in the
    /// groups that existed when the last of them was. Under the control lock.
    fn pass_ring_barrier(&self) {
        let control = self.control();
        let placed = self.ends();
        let durable = control.groups.flushed().number() >= placed.ring_barrier.get();
        if placed.ring_barrier.get() != 0 && (durable || planted::is(Bug::ReuseBeforeSuperseder)) {
            control.passed.may_leave(Position::from_number(placed.ring_barrier_end.get()));
            placed.ring_barrier.set(0);
        }
        if placed.ring_barrier.get() == 0 && control.passed.cleaned() > control.passed.releasable() {
            placed.ring_barrier_end.set(control.passed.cleaned().number());
            placed.ring_barrier.set(control.groups.next().number());
        }
    }

    /// Up to where the front is to move for homes: while pages that come in find none and few are on their
    /// way, leaked ones are wanted, and these become free behind it alone. Under the control lock.
    pub(crate) fn front_wanted_for_homes(&self) -> Position {
        let homes = self.homes();
        let enough = homes.slots.is_some() || homes.coming() >= self.homes_enough();
        let none = enough || planted::is(Bug::OrphansKeepHomes);
        if none { Position::ZERO } else { self.control().passed.invalidated_in_memory_end() }
    }

    /// The newest group that exists: all records appended so far are in it or before it.
    fn newest_group(&self) -> Sequence {
        let before = self.control().groups.next().number().saturating_sub(1);
        Sequence::from_number(before)
    }

    /// Homes whose time in DEFERRED is over. Under the control lock.
    pub(crate) fn free_deferred(&self) {
        let homes = self.homes();
        let control = self.control();
        // Whoever drains reads pages without asking whether they are still there.
        if control.draining.get() != 0 {
            return;
        }
        let _guard = homes.lock(self.owner);
        let placed = homes.control;
        while placed.deferred_first.get() < placed.deferred_end.get() {
            let deferred =
                &homes.deferred[(placed.deferred_first.get() % homes.deferred.len() as u64) as usize];
            let home = deferred.home.get();
            let superseded = deferred.sequence() < control.groups.flushed();
            let waits = !superseded || homes.slots.is_some_and(|slots| !slots.is_clear(home));
            if waits && !planted::is(Bug::HomeReusedEarly) {
                break;
            }
            placed.deferred_first.bump(1);
            if self.is_bad(home) {
                homes.set_state(home, HomeState::Bad);
                placed.bad.bump(1);
                self.keep_enough_homes();
                continue;
            }
            homes.push_free(home);
            placed.freed.bump(1);
        }
    }

    /// Gives out a home that is left out, if too many are. Under the lock of the homes.
    fn keep_enough_homes(&self) {
        let homes = self.homes();
        let mut most = homes.geometry.bad_max;
        if planted::is(Bug::BadHomesForgotten) {
            most = most.min(BAD_MAX as u64);
        }
        if homes.control.bad.get() > most && !planted::is(Bug::BadHomesAllLeftOut) {
            homes.give_out_bad();
        }
    }

    /// A home could not be read. Under the control lock.
    #[cold]
    pub(crate) fn note_unreadable(&self, home: Frame) {
        let homes = self.homes();
        let _guard = homes.lock(self.owner);
        if let Some(home) = homes.homes.get(home.0 as usize) {
            home.state.store(home.state.load(Relaxed) | UNREADABLE, Relaxed);
        }
        self.control().bad.note();
    }

    /// Whether pages that come in will soon find no home: what could wait is done now. So a group of pages
    /// finds homes when all jobs are done.
    pub(crate) fn homes_short(&self) -> bool {
        self.ends().free.get() < self.homes_enough()
    }

    /// Homes that a group of pages finds enough.
    fn homes_enough(&self) -> u64 {
        self.geometry.group_pages() + 1
    }

    /// Whether homes are short and more would be free if this group, which is open, were durable. Under the
    /// control lock.
    pub(crate) fn homes_wait_for(&self, open: Sequence) -> bool {
        let homes = self.homes();
        let placed = homes.control;
        if !self.homes_short() {
            return false;
        }
        if homes.deferred_frees() == 0 {
            // Pages that leave are written to disk when they are durable, and the front passes leaked ones
            // then.
            let group = self.group_of(open);
            let holds_leaked = self.front_wanted_for_homes() > group.position();
            return group.pages() > 0 && (homes.has_leaving() || holds_leaked);
        }
        let first = &homes.deferred[(placed.deferred_first.get() % homes.deferred.len() as u64) as usize];
        first.sequence() >= open
    }

    /// What the record of the page at `home` says beyond its entry.
    pub(crate) fn recorded_at(&self, home: Frame) -> Recorded {
        let homes = self.homes();
        let home = homes.home(home);
        Recorded { epoch: home.epoch.load(Relaxed), version: home.version(), lsn: home.lsn.get() }
    }
}
